/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a connection: states, time-outs, ends. */
#include "qp/qp_hold.h"
#include "rc/rc_int.h"
#include "rc/rc_quirk.h"

static uint64_t patience(const struct rc_cfg *cfg, enum rc_state s)
{
	switch (s) {
	case RC_OPENING: return cfg->open_ns;
	case RC_WAIT_REQ: return cfg->request_ns;
	case RC_WAIT_REP: return cfg->reply_ns;
	case RC_WAIT_ACCEPT:
	case RC_WAIT_QP: return cfg->accept_ns;
	case RC_DRAINING:
	case RC_CLOSING: return cfg->drain_ns;
	case RC_TERMINATING:
	case RC_DEAD: return cfg->close_ns;
	case RC_FREE:
	case RC_WAIT_FIRST:
	case RC_OPERATIONAL: break;
	}
	return RN_NEVER;
}

void rc_to(struct rc_ctx *ctx, struct rc *c, enum rc_state to)
{
	uint64_t wait = patience(&ctx->cfg, to);

	c->state = (uint8_t)to;
	c->m.draining = to == RC_DRAINING;
	if (to != RC_DRAINING)
		c->silence = RC_SILENCE_NONE;
	c->deadline = wait == RN_NEVER ? RN_NEVER : ctx->qp.now + wait;
}

void rc_ask(struct rc *c, enum rc_todo_bit what) { c->out.todo |= (uint8_t)what; }

void rc_tell(struct rc *c, enum rc_news to) { c->news = (uint8_t)to; }

const char *rc_state_name(enum rc_state s)
{
	switch (s) {
	case RC_FREE: return "FREE";
	case RC_OPENING: return "OPENING";
	case RC_WAIT_REQ: return "WAIT_REQ";
	case RC_WAIT_ACCEPT: return "WAIT_ACCEPT";
	case RC_WAIT_REP: return "WAIT_REP";
	case RC_WAIT_QP: return "WAIT_QP";
	case RC_WAIT_FIRST: return "WAIT_FIRST";
	case RC_OPERATIONAL: return "OPERATIONAL";
	case RC_DRAINING: return "DRAINING";
	case RC_CLOSING: return "CLOSING";
	case RC_TERMINATING: return "TERMINATING";
	case RC_DEAD: return "DEAD";
	}
	return "?";
}

bool rc_wake(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_likely(c->blk != NULL))
		return true;
	c->blk = rc_block_get(ctx, rc_tenant(c));
	if (c->blk == NULL)
		return false;
	qp_msgs_work(&c->m, &c->blk->work);
	return true;
}

bool rc_settled(const struct rc *c)
{
	const struct qp *qp = c->m.qp;

	return c->out.flying == 0 && c->state == RC_OPERATIONAL && c->out.todo == 0 && c->setup == NULL &&
	       c->rnr.state == RC_RNR_NONE && !c->out.rtr_due && qp != NULL && qp->state == QP_S_RTS &&
	       qp_all_taken(qp) && c->m.src == QP_SRC_NONE && qp_msgs_sent(&c->m);
}

/* While few blocks are in use connections keep theirs, so request/response traffic skips the pool. */
bool rc_resting(const struct rc_ctx *ctx, const struct rc *c)
{
	if (rn_likely(c->blk == NULL ||
		      ctx->cfg.blocks - ctx->blk_left <= rn_min_u32(RC_REST_MAX, ctx->cfg.blocks / 2)))
		return false;
	return c->setup == NULL && c->rnr.state == RC_RNR_NONE && !c->out.rtr_due && c->out.flying == 0 &&
	       c->blk->n_ooo == 0 && qp_msgs_resting(&c->m);
}

void rc_rest(struct rc_ctx *ctx, struct rc *c)
{
	rc_block_put(ctx, c->blk);
	c->blk = NULL;
	qp_msgs_work(&c->m, NULL);
}

/* Asks for the FIN, behind all queued records. The FIN waits until the peer has acknowledged our set-up frame. */
void rc_shutdown(struct rc_ctx *ctx, struct rc *c)
{
	if (c->setup != NULL && c->setup->out_live) {
		c->setup->fin_due = true;
		return;
	}
	if (rc_wake(ctx, c))
		rc_ask(c, RC_TODO_FIN);
	else
		rc_reset(ctx, c);
}

/* Frees the set-up memory when nothing points to it: negotiation is over, and our frame is acknowledged. */
void rc_setup_done(struct rc_ctx *ctx, struct rc *c)
{
	if (c->setup == NULL || c->setup->out_live || c->state < RC_WAIT_FIRST)
		return;
	rc_setup_put(ctx, c->setup);
	c->setup = NULL;
}

/* After the peer's FIN on a CM connection, limit the wait to close_ns. */
void rc_rnr_bound(const struct rc_ctx *ctx, struct rc *c)
{
	if (c->rnr.fin && !(c->flags & RC_KEEP_RECV))
		c->rnr.until = rn_min_u64(c->rnr.until, ctx->qp.now + ctx->cfg.close_ns);
}

/*
 * The connection no longer waits for a receive or a stage, or the QP leaves it: the next turn works off the bytes that
 * the adapter has kept.
 */
void rc_rnr_stop(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_likely(c->rnr.state != RC_RNR_WAITS))
		return;
	c->rnr.state = RC_RNR_BEHIND;
	if (!c->rnr.stage)
		qp_recv_over(&ctx->qp, c->m.qp, c->rnr.srq);
	rn_list_remove(c->rnr.stage ? &ctx->stageless[rc_tenant(c)] : &ctx->rnr, &c->rnr.link);
	ctx->n_rnr -= c->rnr.srq != NULL;
	ctx->rnr_looks = rn_min_u32(ctx->rnr_looks, ctx->n_rnr);
	c->rnr.srq = NULL;
	rc_ready_put(ctx, c);
}

void rc_doorbell(struct rc_ctx *ctx, struct qp *qp)
{
	struct rc *c = rc_of(qp);

	qp->rung = true;
	if (rn_unlikely(qp->holds))
		qp_hold_some(&ctx->qp, qp);
	if (rn_likely(c != NULL && qp->state != QP_S_ERR))
		rc_ready_put(ctx, c);
	else if (qp->state == QP_S_ERR)
		qp_enter_error(&ctx->qp, qp);
}

/*
 * The stream is over, for whatever reason; the first call counts. what: the effect if ESTABLISHED has not been told.
 * code: of that effect; if ESTABLISHED has been told, enum qp_gone, and any other value is ROUGH. The QP is detached
 * and flushed; a QP without CM is flushed after a Terminate only.
 */
void rc_end(struct rc_ctx *ctx, struct rc *c, enum qp_fx_type what, uint8_t code)
{
	struct qp *qp = c->m.qp;
	bool orderly = code == 0 && c->vendor_err == 0;

	rc_rnr_stop(ctx, c);
	if (qp != NULL && qp->state < QP_S_RTS) {
		qp_detach(&ctx->qp, &c->m, QP_END_NEVER); /* the user may connect the QP again */
	} else if (qp != NULL && (c->flags & RC_KEEP_RECV) && c->vendor_err == 0 && qp->state != QP_S_ERR) {
		qp_detach(&ctx->qp, &c->m, QP_END_KEEP);
	} else {
		qp_detach(&ctx->qp, &c->m, QP_END_FLUSH);
	}
	c->out.rtr_due = false;
	if (c->news == RC_NEWS_NONE || c->news == RC_NEWS_OVER)
		return;
	bool up = rc_is_up(c);
	rc_tell(c, RC_NEWS_OVER);
	struct qp_fx *fx = rc_fx_conn(ctx, up ? QP_FX_DISCONNECTED : what, c);
	fx->code = !up ? code : orderly ? QP_GONE_ORDERLY : code == QP_GONE_SILENT ? QP_GONE_SILENT : QP_GONE_ROUGH;
	if (!up && c->setup != NULL && what == QP_FX_REJECTED) {
		fx->priv = c->setup->peer.pd;
		fx->priv_len = c->setup->peer.pd_len;
	}
}

void rc_reset(struct rc_ctx *ctx, struct rc *c)
{
	if (c->state == RC_FREE)
		return;
	rc_ask(c, RC_TODO_RST);
	rc_to(ctx, c, RC_DEAD);
	rc_ready_put(ctx, c);
}

void rc_lost(struct rc_ctx *ctx, struct rc *c, enum rc_loss how)
{
	bool opening = c->state == RC_OPENING || (c->state == RC_WAIT_REP && how == RC_LOST_TIMEOUT);
	/* the peer has answered our FIN so, because it had records in flight: rc_peer_ended */
	bool orderly = c->state == RC_CLOSING && how == RC_LOST_RESET;
	enum qp_gone gone = orderly ? QP_GONE_ORDERLY : how == RC_LOST_RESET ? QP_GONE_ROUGH : QP_GONE_SILENT;

	if (how == RC_LOST_RESET) {
		ctx->qp.stats.resets++;
	} else {
		ctx->qp.stats.tcp_timeouts++;
		qp_unanswered(&c->m);
	}
	rc_to(ctx, c, RC_DEAD);
	if (opening)
		rc_end(ctx, c, QP_FX_UNREACHABLE, how == RC_LOST_RESET);
	else
		rc_end(ctx, c, QP_FX_CONNECT_ERROR, rc_is_up(c) ? (uint8_t)gone : 0);
	rc_ready_put(ctx, c);
}

/* The peer may not have looked at our first FPDU yet, so an end must wait: rc_quirk.h. */
bool rc_unheard(const struct rc *c)
{
	return !c->passive && c->agreed.p2p && c->nudges < RC_NUDGES_END && !c->in.heard;
}

/* At most set-up records are in flight, no work requests. */
bool rc_young(const struct rc *c)
{
	return (c->state == RC_OPERATIONAL || c->state == RC_DRAINING) && rc_unheard(c) && !qp_msgs_busy(&c->m);
}

/*
 * The peer has ended the stream; rc_end follows. Once the QP has left, the memory of records in flight is the client's
 * again, and TCP would go on sending from it until our FIN. So a stream with such records is reset.
 */
void rc_peer_ended(struct rc_ctx *ctx, struct rc *c, enum rc_state to)
{
	if (rc_tx_open(c) && !rc_quiet(c) && !rc_young(c)) {
		rc_reset(ctx, c);
		return;
	}
	rc_to(ctx, c, to);
	rc_shutdown(ctx, c);
}

static void look_silent(struct rc *c)
{
	if (c->state != RC_DRAINING || !rc_unheard(c))
		c->silence = RC_SILENCE_NONE;
	else if (c->silence == RC_SILENCE_NONE)
		c->silence = RC_SILENCE_WAITS;
}

/* From OPERATIONAL or DRAINING to DRAINING. */
void rc_drain(struct rc_ctx *ctx, struct rc *c)
{
	uint64_t nudge = c->deadline;

	rc_to(ctx, c, RC_DRAINING);
	look_silent(c);
	if (c->silence != RC_SILENCE_NONE)
		c->deadline = rn_min_u64(c->deadline, nudge);
}

void rc_disconnect(struct rc_ctx *ctx, struct rc *c)
{
	switch ((enum rc_state)c->state) {
	case RC_OPERATIONAL:
		if (c->m.qp != NULL)
			qp_set_state(c->m.qp, QP_S_SQD);
		rc_drain(ctx, c);
		break;
	case RC_WAIT_FIRST:
		rc_to(ctx, c, RC_CLOSING);
		rc_shutdown(ctx, c);
		break;
	case RC_OPENING:
	case RC_WAIT_REQ:
	case RC_WAIT_ACCEPT:
	case RC_WAIT_REP:
	case RC_WAIT_QP: rc_abort(ctx, c); break;
	case RC_FREE:
	case RC_DRAINING:
	case RC_CLOSING:
	case RC_TERMINATING:
	case RC_DEAD: return;
	}
	rc_ready_put(ctx, c);
}

void rc_abort(struct rc_ctx *ctx, struct rc *c)
{
	if (c->state == RC_FREE)
		return;
	rc_reset(ctx, c);
	rc_end(ctx, c, QP_FX_CONNECT_ERROR, rc_is_up(c));
}

/* In DRAINING: once all posted work is sent, our direction ends. */
void rc_drain_over(struct rc_ctx *ctx, struct rc *c)
{
	struct qp *qp = c->m.qp;

	if (!rc_tx_idle(c))
		return;
	if (qp != NULL && qp_posted(qp))
		return;
	if (rc_unheard(c)) {
		if (c->silence != RC_SILENCE_ASKED && rc_tx_ask(ctx, c))
			c->silence = RC_SILENCE_ASKED;
		return;
	}
	rc_to(ctx, c, RC_CLOSING);
	rc_shutdown(ctx, c);
}

/* The time limit of a state is over. */
static void expired(struct rc_ctx *ctx, struct rc *c)
{
	bool unanswered = c->state == RC_OPENING || c->state == RC_WAIT_REP;
	bool closing = c->state >= RC_DRAINING;

	if (closing)
		ctx->qp.stats.close_timeouts++;
	else
		ctx->qp.stats.setup_timeouts++;
	rc_reset(ctx, c);
	rc_end(ctx, c, unanswered ? QP_FX_UNREACHABLE : QP_FX_CONNECT_ERROR, closing);
}

/* The silent peer of a young connection has had its time to answer. */
static void nudge(struct rc_ctx *ctx, struct rc *c)
{
	uint64_t wait = RC_NUDGE_FIRST_NS;

	rc_to(ctx, c, (enum rc_state)c->state);
	look_silent(c);
	if (c->in.mpa.pos != 0 || c->nudges == RC_NUDGES)
		return;
	/* a peer that needs a nudge has acknowledged all bytes, so nothing may be in flight */
	if (c->out.pos != 0 && c->m.src == QP_SRC_NONE && rc_wake(ctx, c) && c->out.flying == 0 && rc_tx_nudge(ctx, c))
		ctx->qp.stats.nudges++;
	for (uint8_t i = 0; i <= c->nudges; i++)
		wait *= RC_NUDGE_FACTOR;
	c->nudges++;
	look_silent(c);
	if (c->silence != RC_SILENCE_NONE || c->state == RC_OPERATIONAL)
		c->deadline = ctx->qp.now + wait;
}

void rc_timer(struct rc_ctx *ctx, struct rc *c)
{
	if (c->state == RC_FREE || ctx->qp.now < c->deadline)
		return;
	if (c->state == RC_OPERATIONAL || c->silence != RC_SILENCE_NONE)
		nudge(ctx, c);
	else
		expired(ctx, c);
}

/* Frees records that the adapter has not taken. */
static void drop_due(struct rc_ctx *ctx, struct rc *c)
{
	struct rc_rec *r;

	while ((r = c->out.due) != NULL) {
		c->out.due = r->next;
		rc_rec_put(ctx, r);
	}
	c->out.flying = 0;
	rc_todo_clear(c);
}

void rc_closed(struct rc_ctx *ctx, struct rc *c)
{
	rc_end(ctx, c, QP_FX_CONNECT_ERROR, rc_is_up(c));
	drop_due(ctx, c);
	rc_stage_put(ctx, c);
	if (c->setup != NULL)
		rc_setup_put(ctx, c->setup);
	c->setup = NULL;
	if (c->blk != NULL)
		rc_block_put(ctx, c->blk);
	c->blk = NULL;
	qp_msgs_work(&c->m, NULL);
	rc_unlist(ctx, c);
	rc_to(ctx, c, RC_FREE);
	ctx->qp.stats.closed++;
	rc_fx_conn(ctx, QP_FX_CLOSED, c);
}
