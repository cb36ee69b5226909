/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive queues, a QP's own and the shared one: takes receives, and asks clients to ring when they post. */
#include "qp/qp_int.h"

/* Copies the receive work request that begins `at` slots on. On BAD it takes one slot; wr_id is copied as it is. */
static inline enum qp_take rq_read(struct spsc_cons *rq, uint32_t at, struct qp_recv *r)
{
	struct qp_rwqe w;
	uint64_t total = 0;

	if (spsc_cons_avail(rq, at + 1) <= at)
		return rn_likely(rq->verdict == SPSC_OK) ? QP_TAKE_NONE : QP_TAKE_BAD_RING;
	memcpy(&w, spsc_cons_slot(rq, at), sizeof(w));
	r->wr_id = w.wr_id;
	r->num_sge = w.num_sge;
	r->slots = w.slots;
	if (rn_unlikely(w.num_sge > QP_MAX_SGE || w.slots < qp_rwqe_slots(w.num_sge) ||
			spsc_cons_avail(rq, at + w.slots) < at + w.slots)) {
		r->num_sge = 0;
		r->slots = 1;
		r->len = 0;
		return QP_TAKE_BAD;
	}
	uint32_t bytes = w.num_sge * (uint32_t)sizeof(struct qp_sge);
	uint32_t here = rn_min_u32(bytes, QP_SLOT_SIZE - QP_RWQE_FIXED);
	if (rn_likely(w.num_sge == 1)) { /* nearly all receives: no call of memcpy() */
		r->sge[0] = w.sge[0];
	} else {
		memcpy(r->sge, w.sge, here);
		if (rn_unlikely(bytes > here))
			spsc_cons_copy(rq, at + 1, (uint8_t *)r->sge + here, bytes - here);
	}
	for (uint32_t i = 0; i < w.num_sge; i++)
		total += r->sge[i].len;
	r->len = (uint32_t)rn_min_u64(total, QP_MSG_MAX);
	return QP_TAKE_OK;
}

enum spsc_verdict qp_srq_init(struct qp_srq *srq, const struct qp_srq_attr *a)
{
	*srq = (struct qp_srq){ .owner = a->owner, .pd = a->pd, .wqe_slots = a->wqe_slots };
	if (a->wqe_slots == 0 || a->wqe_slots > QP_WQE_MAX_SLOTS || a->ring.slot_size != QP_SLOT_SIZE)
		return SPSC_BAD_GEOMETRY;
	return spsc_cons_attach(&srq->ring, &a->ring);
}

static void srq_event(struct qp_ctx *ctx, const struct qp_srq *srq, enum qp_event ev)
{
	qp_fx_add(ctx, QP_FX_SRQ_EVENT, srq->owner)->code = (uint8_t)ev;
}

/*
 * Call after a take, with the SRQ locked: raises the limit event if fewer receives than the limit are left. Reads the
 * client's index only if the known receives are fewer than that.
 */
static void srq_look(struct qp_ctx *ctx, struct qp_srq *srq)
{
	uint32_t limit = qp_srq_limit(srq);

	if (rn_likely(limit == 0) || spsc_cons_avail(&srq->ring, limit * srq->wqe_slots) >= limit * srq->wqe_slots)
		return;
	/* If the control thread has armed a new limit meanwhile, the new limit counts, at the next take. */
	if (__atomic_compare_exchange_n(&srq->limit, &limit, 0, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		srq_event(ctx, srq, QP_EVENT_SRQ_LIMIT);
}

static void srq_lock(struct qp_srq *srq)
{
	while (rn_unlikely(__atomic_exchange_n(&srq->busy, 1, __ATOMIC_ACQUIRE) != 0))
		while (__atomic_load_n(&srq->busy, __ATOMIC_RELAXED) != 0)
			;
}

/* The slots go back to the client at once: the QP needs only r. */
static enum qp_take srq_take(struct qp_ctx *ctx, struct qp_srq *srq, struct qp_recv *r)
{
	srq_lock(srq);
	enum qp_take t = rq_read(&srq->ring, 0, r);
	if (rn_likely(t == QP_TAKE_OK) && rn_unlikely(r->slots != srq->wqe_slots))
		t = QP_TAKE_BAD;
	if (t == QP_TAKE_OK || t == QP_TAKE_BAD) {
		spsc_cons_release(&srq->ring, rn_min_u32(srq->wqe_slots, spsc_cons_avail(&srq->ring, srq->wqe_slots)));
		srq_look(ctx, srq);
	} else if (t == QP_TAKE_BAD_RING && !srq->broken) {
		srq->broken = true;
		srq_event(ctx, srq, QP_EVENT_SRQ_ERR);
	}
	__atomic_store_n(&srq->busy, 0, __ATOMIC_RELEASE);
	r->slots = 0; /* no slots of the QP's own queue */
	return t;
}

/* The QP's own queue has no receive, or a bad one. */
static __attribute__((noinline)) enum qp_take take_else(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r,
							enum qp_take t)
{
	if (t == QP_TAKE_NONE && qp->srq != NULL)
		t = srq_take(ctx, qp->srq, r);
	ctx->stats.rwqes += t == QP_TAKE_OK || t == QP_TAKE_BAD;
	ctx->stats.bad_wqes += t == QP_TAKE_BAD;
	r->loaded = t == QP_TAKE_OK;
	return t;
}

/*
 * Copies the receive work request that the next message consumes. NONE: nothing is posted. BAD: malformed; its wr_id
 * is in r and it takes one slot. BAD_RING: the client wrote an impossible index.
 */
enum qp_take qp_rq_take(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r)
{
	enum qp_take t = rq_read(&qp->rq, qp->rq_done, r);

	if (rn_unlikely(t != QP_TAKE_OK))
		return take_else(ctx, qp, r, t);
	/* the receives of the next messages: their cache lines are still with the client's core */
	__builtin_prefetch(spsc_cons_slot(&qp->rq, qp->rq_done + r->slots + 3));
	ctx->stats.rwqes++;
	r->loaded = true;
	return QP_TAKE_OK;
}

void qp_rq_keep(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r)
{
	qp->rq_done += r->slots;
	r->slots = 0;
	qp_list_qp(ctx, qp);
}

/* Whether the queue is worth a look: it has a receive, or its ring is corrupt. */
bool qp_rq_any(struct qp *qp)
{
	if (spsc_cons_avail(&qp->rq, qp->rq_done + 1) > qp->rq_done || qp->rq.verdict != SPSC_OK)
		return true;
	if (qp->srq == NULL)
		return false;
	srq_lock(qp->srq);
	bool any = spsc_cons_avail(&qp->srq->ring, 1) > 0 || qp->srq->ring.verdict != SPSC_OK;
	__atomic_store_n(&qp->srq->busy, 0, __ATOMIC_RELEASE);
	return any;
}

/* ---- asking the client to ring ---- */

#define OWN_BIT 1u /* the bit of a ring that belongs to one QP; a shared ring has a bit for each worker */

static uint32_t worker_bit(const struct qp_ctx *ctx) { return UINT32_C(1) << ctx->worker; }

void qp_recv_ask(struct qp_ctx *ctx, struct qp *qp)
{
	if (qp->srq != NULL)
		spsc_cons_ask(&qp->srq->ring, worker_bit(ctx));
	else
		spsc_cons_ask(&qp->rq, OWN_BIT);
}

void qp_recv_waits(struct qp_ctx *ctx, struct qp *qp)
{
	if (qp->srq != NULL)
		qp->srq->waiting[ctx->worker]++;
}

void qp_recv_over(struct qp_ctx *ctx, struct qp *qp, struct qp_srq *srq)
{
	if (srq != NULL && --srq->waiting[ctx->worker] == 0)
		spsc_cons_unask(&srq->ring, worker_bit(ctx));
	else if (srq == NULL && qp != NULL)
		spsc_cons_unask(&qp->rq, OWN_BIT);
}

void qp_recv_unask(struct qp_ctx *ctx, struct qp *qp)
{
	if (qp->srq == NULL)
		spsc_cons_unask(&qp->rq, OWN_BIT);
	else if (qp->srq->waiting[ctx->worker] == 0)
		spsc_cons_unask(&qp->srq->ring, worker_bit(ctx));
}
