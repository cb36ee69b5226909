/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiver not ready (InfiniBand's RNR): a message finds no receive posted, on a QP that may wait (rnr_ns). iWARP's
 * only answer is the stream's end (RFC 5041, 7.1). So the peer is told nothing: the adapter keeps the message's first
 * FPDU and all later bytes, as a TCP keeps bytes that its user does not read, and the window closes. The peer sees a
 * slow reader; its Sends are acknowledged, and so complete, before they are delivered.
 *
 * For an FPDU that came in pieces the stage is kept, and for no other. Stages are counted per worker; when no more may
 * be kept (rc_cfg.rnr_stages), the message fails as without rnr_ns.
 *
 * A word in the ring asks the client to ring a doorbell when it posts: the queue pair's for receives of its own, the
 * worker's for receives of a shared queue, which leads to rc_recvs().
 */
#include "rc/rc_int.h"

/* Waiting connections that one turn looks at. A client rings as often as it likes, also without receives. */
#define LOOKS 256u

void rc_recvs(struct rc_ctx *ctx) { ctx->rnr_looks = ctx->n_rnr; }

uint32_t rc_recvs_look(struct rc_ctx *ctx)
{
	const uint32_t n = rn_min_u32(ctx->rnr_looks, LOOKS);

	for (uint32_t i = 0; i < n; i++) {
		struct rc *c = rn_list_pop(&ctx->rnr, struct rc, rnr.link);
		rn_list_push_back(&ctx->rnr, &c->rnr.link);
		rc_ready_put(ctx, c);
	}
	ctx->rnr_looks -= n;
	return n;
}

static bool no_stage(const struct rc_ctx *ctx, uint8_t tenant)
{
	const uint32_t most = ctx->cfg.rnr_stages;

	return ctx->rnr_stages >= most || ctx->rnr_stages_of[tenant] >= most - most / 4;
}

/*
 * The engine has no receive for the FPDU v, and has asked the client to ring. True: v is kept and will be brought
 * again. False: the message has waited too long, or no more stages may be kept.
 */
bool rc_rnr_wait(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v)
{
	uint64_t ns = c->m.qp->rnr_ns;

	if (ctx->qp.now >= c->rnr.until || (v->staged && no_stage(ctx, c->m.qp->tenant))) {
		ctx->qp.stats.rnr_timeouts++;
		qp_recv_unask(&ctx->qp, c->m.qp);
		return false;
	}
	c->rnr.state = RC_RNR_WAITS;
	c->rnr.stage = false;
	qp_recv_waits(&ctx->qp, c->m.qp);
	c->rnr.srq = c->m.qp->srq;
	if (c->rnr.srq != NULL) {
		rn_list_push_back(&ctx->rnr, &c->rnr.link);
		ctx->n_rnr++;
	}
	if (c->rnr.until == RN_NEVER) {
		ctx->qp.stats.rnr_waits++;
		if (ns < RN_NEVER - ctx->qp.now)
			c->rnr.until = ctx->qp.now + ns;
		rc_rnr_bound(ctx, c);
	}
	ctx->qp.stats.fpdus_in--;
	if (v->staged) {
		c->blk->late = (struct rc_late){
			.ulpdu_len = v->ulpdu_len, .pos = v->pos, .raw_len = v->raw_len, .tenant = c->m.qp->tenant
		};
		ctx->rnr_stages++;
		ctx->rnr_stages_of[c->m.qp->tenant]++;
	} else {
		mpa_rx_unread(&c->in.mpa, v);
		rc_stage_look(ctx, c); /* it may hold an FPDU of the same bytes, which has been used */
	}
	return true;
}

/* Brings the kept FPDU in the stage again (if `use`); it may have to wait again. */
static void late(struct rc_ctx *ctx, struct rc *c, bool use)
{
	const struct rc_late l = c->blk->late;
	struct mpa_view v = { .ulpdu_len = l.ulpdu_len,
			      .pos = l.pos,
			      .raw_len = l.raw_len,
			      .n = 1,
			      .staged = true,
			      .ulpdu[0] = { .base = c->in.mpa.stage, .len = l.ulpdu_len } };

	if (l.ulpdu_len == 0)
		return;
	c->blk->late.ulpdu_len = 0;
	ctx->rnr_stages--;
	ctx->rnr_stages_of[l.tenant]--;
	if (!use)
		return;
	ctx->qp.stats.fpdus_in++;
	rc_rx_fpdu(ctx, c, &v);
	if (c->rnr.state != RC_RNR_WAITS)
		rc_stage_look(ctx, c);
}

void rc_rnr_look(struct rc_ctx *ctx, struct rc *c, bool closed)
{
	bool there = rc_streaming(c) && c->m.qp != NULL && !closed;

	if (c->rnr.state == RC_RNR_WAITS) {
		if (there && ctx->qp.now < c->rnr.until && (c->rnr.stage || !qp_rq_any(c->m.qp)))
			return;
		rc_rnr_stop(ctx, c);
		there = rc_streaming(c) && c->m.qp != NULL && !closed;
	}
	late(ctx, c, there);
}

void rc_caught_up(struct rc_ctx *ctx, struct rc *c)
{
	c->rnr.state = RC_RNR_NONE;
	c->rnr.until = RN_NEVER;
	if (c->rnr.fin) {
		c->rnr.fin = false;
		rc_fin(ctx, c);
	}
}
