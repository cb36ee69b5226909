/* SPDX-License-Identifier: BSD-3-Clause */
#include "qp/qp_int.h"

static enum spsc_verdict ring_attach(const struct qp_cq_attr *a, uint32_t worker, struct spsc_prod *p)
{
	struct spsc_place at = {
		.region = a->region, .region_size = a->region_size, .nslots = a->cqe, .slot_size = qp_cqe_size(a->wide)
	};

	if (a->ring_stride > a->region_size || a->ring_off > a->region_size)
		return SPSC_BAD_RANGE;
	at.off = a->ring_off + worker * a->ring_stride;
	return spsc_prod_attach(p, &at);
}

enum spsc_verdict qp_cq_init(struct qp_cq *cq, const struct qp_cq_attr *a)
{
	*cq = (struct qp_cq){ .owner = a->owner, .workers = a->workers, .wide = a->wide };
	if (a->workers == 0 || a->workers > QP_MAX_WORKERS)
		return SPSC_BAD_GEOMETRY;
	if (!rn_in_range(a->shm_off, sizeof(*cq->shm), a->region_size))
		return SPSC_BAD_RANGE;
	if (((uintptr_t)a->region + a->shm_off) % RN_CACHE_LINE != 0)
		return SPSC_BAD_ALIGN;
	cq->shm = (struct qp_cq_shm *)(void *)((uint8_t *)a->region + a->shm_off);
	for (uint32_t w = 0; w < a->workers; w++) {
		enum spsc_verdict v = ring_attach(a, w, &cq->ring[w].prod);
		if (v != SPSC_OK)
			return v;
	}
	return SPSC_OK;
}

void qp_cq_fail(struct qp_ctx *ctx, struct qp_cq *cq)
{
	const struct qp_cq_ring *r = &cq->ring[ctx->worker];

	if (r->prod.verdict == SPSC_CORRUPT)
		ctx->stats.bad_rings++;
	else
		ctx->stats.cq_overruns++;
	/* Relaxed: the flag is never cleared and guards no data; other workers may see it a little later. */
	if (__atomic_exchange_n(&cq->error, 1, __ATOMIC_RELAXED) != 0)
		return;
	__atomic_store_n(&cq->shm->error, 1, __ATOMIC_RELEASE);
	qp_fx_add(ctx, QP_FX_CQ_ERROR, cq->owner);
}

/* Whether an entry has come that the client has armed the CQ for. */
static bool is_due(const struct qp_cq *cq, const struct qp_cq_ring *r)
{
	uint32_t armed = __atomic_load_n(&cq->shm->armed, __ATOMIC_RELAXED);

	return rn_unlikely(armed != QP_CQ_UNARMED) && (armed != QP_CQ_ARM_SOLICITED || r->solicited);
}

/* Notifies the client if that is due, for which there is room. */
static void notify(struct qp_ctx *ctx, struct qp_cq *cq, bool due)
{
	struct qp_cq_ring *r = &cq->ring[ctx->worker];

	if (rn_unlikely(r->waits))
		rn_list_remove(&ctx->waiting_cq, &cq->wait[ctx->worker]);
	r->waits = r->solicited = false;
	if (!due || __atomic_exchange_n(&cq->shm->armed, QP_CQ_UNARMED, __ATOMIC_ACQ_REL) == QP_CQ_UNARMED)
		return;
	qp_fx_add(ctx, QP_FX_CQ_NOTIFY, cq->owner);
	if (ctx->notify_room != 0 && ctx->notify_room != UINT32_MAX)
		ctx->notify_room--;
}

void qp_cq_publish(struct qp_ctx *ctx, struct qp_cq *cq)
{
	struct qp_cq_ring *r = &cq->ring[ctx->worker];

	if (rn_unlikely(r->pending == 0)) /* not listed either; nothing new to notify of */
		return;
	qp_place_settle(ctx);
	spsc_prod_publish(&r->prod, r->pending);
	r->pending = 0;
	/*
	 * Full fence: the client arms, then looks once more at the ring; we publish, then look whether the CQ is armed.
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	bool due = is_due(cq, r);

	rn_list_remove(&ctx->dirty_cq, &r->link);
	if (rn_likely(!due || (ctx->n_fx < QP_FX_MAX && ctx->notify_room > 0)))
		notify(ctx, cq, due);
	else if (!r->waits) { /* the CQ stays armed: nothing but the effect wakes the client */
		r->waits = true;
		rn_list_push_back(&ctx->waiting_cq, &cq->wait[ctx->worker]);
	}
}

void qp_cq_told(struct qp_ctx *ctx, struct qp_cq *cq)
{
	struct qp_cq_ring *r = &cq->ring[ctx->worker];

	if (r->waits)
		notify(ctx, cq, is_due(cq, r));
}

void qp_cq_notify_waiting(struct qp_ctx *ctx)
{
	while (ctx->n_fx < QP_FX_MAX && ctx->notify_room > 0 && !rn_list_empty(&ctx->waiting_cq))
		qp_cq_told(ctx, rn_container_of(ctx->waiting_cq.first - ctx->worker, struct qp_cq, wait[0]));
}

enum spsc_verdict qp_cq_rings(const struct qp_cq_attr *a, struct spsc_prod ring[QP_MAX_WORKERS])
{
	enum spsc_verdict v = SPSC_OK;

	for (uint32_t w = 0; w < a->workers && v == SPSC_OK; w++)
		v = ring_attach(a, w, &ring[w]);
	return v;
}

void qp_cq_change(struct qp_ctx *ctx, struct qp_cq *cq, const struct spsc_prod ring[QP_MAX_WORKERS])
{
	struct qp_cq_ring *r = &cq->ring[ctx->worker];
	struct spsc_prod to = ring[ctx->worker], from = r->prod;

	spsc_prod_refresh(&from);
	if (from.verdict != SPSC_OK) /* a CQ in error takes no more entries: the client may use the memory */
		return;
	uint32_t left = from.own - from.seen + r->pending;
	if (spsc_prod_free(&to, left) < left) {
		qp_cq_fail(ctx, cq);
		return;
	}
	from.own = from.seen; /* copies begin at the oldest entry that the client has not taken */
	for (uint32_t i = 0; i < left; i++)
		memcpy(spsc_prod_slot(&to, i), spsc_prod_slot(&from, i), qp_cqe_size(cq->wide));
	spsc_prod_publish(&to, left - r->pending);
	r->prod = to;
}

void qp_cq_leave(struct qp_ctx *ctx, struct qp_cq *cq)
{
	struct qp_cq_ring *r = &cq->ring[ctx->worker];

	rn_list_remove(&ctx->dirty_cq, &r->link);
	rn_list_remove(&ctx->waiting_cq, &cq->wait[ctx->worker]);
	r->waits = false;
}
