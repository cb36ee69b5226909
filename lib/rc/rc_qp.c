/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client does to its queue pair, as far as the connection is concerned. */
#include "rc/rc_int.h"

/* The connection goes on, or ends, without the QP. */
static void drop_conn(struct rc_ctx *ctx, struct qp *qp)
{
	struct rc *c = rc_of(qp);

	if (c == NULL)
		return;
	/* All that is on the way was sent by us: what begins a young stream (rc_quirk.h), no work. */
	rc_rnr_stop(ctx, c);
	bool young = (c->state == RC_OPERATIONAL || c->state == RC_DRAINING) && rc_unheard(c) && !qp_msgs_busy(&c->m);
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

/* SQD ends the connection. */
static bool ending(const struct qp *qp)
{
	const struct rc *c = rc_of(qp);

	return c != NULL && !(c->flags & RC_KEEP_RECV);
}

static void fail(struct rc_ctx *ctx, struct qp *qp)
{
	struct rc *c = rc_of(qp);

	if (c != NULL && (c->flags & RC_KEEP_RECV)) {
		qp_enter_error(&ctx->qp, qp);
		drop_conn(ctx, qp);
	} else if (c != NULL && rc_streaming(c)) {
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
		if (qp->state != QP_S_RTS || !ending(qp))
			break;
		rc_disconnect(ctx, rc_of(qp));
		qp_look_drained(&ctx->qp, qp);
		return QP_OK;
	case QP_S_ERR: fail(ctx, qp); return QP_OK;
	case QP_S_INIT: break;
	}
	return qp_step(&ctx->qp, qp, to);
}

void rc_destroy(struct rc_ctx *ctx, struct qp *qp)
{
	drop_conn(ctx, qp);
	qp_forget(&ctx->qp, qp);
}
