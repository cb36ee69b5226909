/* SPDX-License-Identifier: BSD-3-Clause */
/* A worker's own state: effects, and what is done at the end of its turn. */
#include "qp/qp_int.h"

enum qp_verdict qp_ctx_init(struct qp_ctx *ctx, uint32_t worker)
{
	uint32_t width;

	if (worker >= QP_MAX_WORKERS)
		return QP_BAD_ATTR;
	*ctx = (struct qp_ctx){ .worker = worker, .notify_room = UINT32_MAX };
	ctx->stream.copy = rn_stream_choose(64, &width);
	return QP_OK;
}

struct qp_fx *qp_fx_add(struct qp_ctx *ctx, enum qp_fx_type type, uint64_t owner)
{
	/*
	 * A caller that drains when qp_ctx_full() says so never meets a full list; one that does not loses the latest
	 * effects.
	 */
	uint32_t i = rn_min_u32(ctx->n_fx, QP_FX_MAX - 1);

	ctx->n_fx = i + 1;
	ctx->fx[i] = (struct qp_fx){ .type = (uint8_t)type, .owner = owner };
	return &ctx->fx[i];
}

void qp_list_qp(struct qp_ctx *ctx, struct qp *qp)
{
	if (qp->listed)
		return;
	if (ctx->n_dirty_qp == QP_DIRTY_MAX) {
		qp_release(qp);
		return;
	}
	qp->listed = 1;
	ctx->dirty_qp[ctx->n_dirty_qp++] = qp;
}

static void publish_cqs(struct qp_ctx *ctx)
{
	rn_list_each(struct qp_cq_ring, r, &ctx->dirty_cq, link)
		qp_cq_publish(ctx, rn_container_of(r - ctx->worker, struct qp_cq, ring[0]));
}

static void publish(struct qp_ctx *ctx)
{
	/* Slots are released before completions: a client that has seen a completion finds room to post. */
	for (uint32_t i = 0; i < ctx->n_dirty_qp; i++) {
		ctx->dirty_qp[i]->listed = 0;
		qp_release(ctx->dirty_qp[i]);
	}
	ctx->n_dirty_qp = 0;
	publish_cqs(ctx);
}

void qp_told(struct qp_ctx *ctx, struct qp *qp)
{
	qp_cq_told(ctx, qp->scq);
	qp_cq_told(ctx, qp->rcq);
}

void qp_flush_received(struct qp_ctx *ctx)
{
	if (rn_likely(!ctx->stream.out))
		publish(ctx);
}

void qp_flush(struct qp_ctx *ctx)
{
	qp_place_settle(ctx);
	if (rn_unlikely(!rn_list_empty(&ctx->flushing)))
		qp_flush_on(ctx);
	if (rn_unlikely(!rn_list_empty(&ctx->waiting_cq)))
		qp_cq_notify_waiting(ctx);
	publish(ctx);
}
