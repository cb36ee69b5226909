/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client does to its queue pair, as far as that concerns the connection. */
#include "rc/rc_int.h"

#define LEAVES 64u /* targets that let go of a shared receive queue in a turn */

/* Parts the connection from its QP; the connection ends on its own. */
static void drop_conn(struct rc_ctx *ctx, struct qp *qp)
{
	struct rc *c = rc_of(qp);

	if (c == NULL)
		return;
	rc_rnr_stop(ctx, c);
	bool young = rc_young(c); /* the peer may need the delayed end of rc_quirk.h */
	qp_abandon(&c->m);
	if (young) {
		rc_drain(ctx, c);
	} else if (c->state < RC_WAIT_FIRST || c->out.flying != 0) {
		rc_reset(ctx, c);
	} else if (c->state == RC_WAIT_FIRST || c->state == RC_OPERATIONAL || c->state == RC_DRAINING) {
		rc_to(ctx, c, RC_CLOSING);
		rc_shutdown(ctx, c);
	}
	rc_ready_put(ctx, c);
}

/* Whether SQD ends the connection: it does if there is a CM. */
static bool ending(const struct qp *qp)
{
	const struct rc *c = rc_of(qp);

	return c != NULL && !(c->flags & RC_KEEP_RECV);
}

/*
 * The client moves the QP to ERR. The flushed requests' memory is the client's again, so no byte of it may be sent any
 * more: a stream with requests in flight is reset. Else a Terminate tells the peer: if the peer's TCP has everything,
 * also while a Read or Atomic waits for its answer, or if all that is in flight is nobody's request, as a nudge or the
 * answer to a Read. But a peer that has not spoken may not have seen our first records: it gets no Terminate behind
 * these (rc_quirk.h).
 */
static void fail(struct rc_ctx *ctx, struct qp *qp)
{
	struct rc *c = rc_of(qp);

	if (c != NULL && (c->flags & RC_KEEP_RECV)) {
		qp_enter_error(&ctx->qp, qp);
		drop_conn(ctx, qp);
	} else if (c != NULL && rc_streaming(c) && (rc_quiet(c) || (!rc_unheard(c) && !qp_msgs_busy(&c->m)))) {
		rc_terminate(ctx, c, qp_local_err(), NULL);
	} else {
		if (c != NULL)
			rc_reset(ctx, c);
		qp_enter_error(&ctx->qp, qp);
	}
}

enum qp_verdict rc_modify(struct rc_ctx *ctx, struct qp *qp, enum qp_state to)
{
	enum qp_verdict v;

	switch (to) {
	case QP_S_RESET: drop_conn(ctx, qp); break;
	case QP_S_RTR:
	case QP_S_RTS:
		if (qp->state == QP_S_SQD && ending(qp))
			return QP_BAD_STATE;
		v = qp_step(&ctx->qp, qp, to);
		if (v == QP_OK)
			rc_doorbell(ctx, qp);
		return v;
	case QP_S_SQD:
		if (qp->state != QP_S_RTS || !ending(qp)) /* SQD again, while the connection ends, changes nothing */
			break;
		rc_disconnect(ctx, rc_of(qp));
		qp_look_drained(&ctx->qp, qp);
		return QP_OK;
	case QP_S_ERR: fail(ctx, qp); return QP_OK;
	case QP_S_INIT: break;
	}
	return qp_step(&ctx->qp, qp, to);
}

/*
 * Ends the target's use of the queue, which is the one of its last message. A message that waits for the queue is
 * brought again, and finds no such queue.
 */
static void target_leave(struct rc_ctx *ctx, struct qp *qp, const struct qp_srq *srq)
{
	const struct iw_err e = iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_QN, false); /* the next message's */
	struct rc *c = rc_of(qp);

	if (c != NULL) {
		if (c->rnr.srq == srq)
			rc_rnr_stop(ctx, c);
		if (c->m.work != NULL && c->m.work->recv.loaded) {
			qp_event(&ctx->qp, qp, QP_EVENT_FATAL, qp_vendor_err(e));
			qp_enter_error(&ctx->qp, qp); /* flushes the taken receive while its CQ still exists */
			rc_terminate(ctx, c, e, NULL);
		}
	}
	qp_target_clear(&ctx->qp, qp);
}

bool rc_srq_leave(struct rc_ctx *ctx, struct qp_srq *srq)
{
	const struct rn_list *targets = &srq->targets[ctx->qp.worker];
	struct qp *qp;

	for (uint32_t n = 0; (qp = rn_list_first(targets, struct qp, xrc_link)) != NULL; n++) {
		if (n == LEAVES || qp_ctx_full(&ctx->qp))
			return false;
		target_leave(ctx, qp, srq);
	}
	return true;
}

void rc_destroy(struct rc_ctx *ctx, struct qp *qp)
{
	drop_conn(ctx, qp);
	qp_forget(&ctx->qp, qp);
}
