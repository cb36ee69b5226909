/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of a connection: states, time-outs, ends. */
#include "qp/qp_priv.h"
#include "qp/qp_quirk.h"

static uint64_t patience(const struct qp_cfg *cfg, enum qp_conn_state s)
{
	switch (s) {
	case QP_C_OPENING:
	case QP_C_WAIT_REQ:
		return cfg->request_ns;
	case QP_C_WAIT_REP:
		return cfg->reply_ns;
	case QP_C_WAIT_ACCEPT:
	case QP_C_WAIT_QP:
		return cfg->accept_ns;
	case QP_C_DRAINING:
	case QP_C_CLOSING:
	case QP_C_TERMINATING:
	case QP_C_DEAD:
		return cfg->close_ns;
	case QP_C_FREE:
	case QP_C_WAIT_FIRST:
	case QP_C_OPERATIONAL:
		break;
	}
	return RN_NEVER;
}

void qp_conn_to(struct qp_ctx *ctx, struct qp_conn *c, enum qp_conn_state to)
{
	uint64_t wait = patience(&ctx->cfg, to);

	c->state = (uint8_t)to;
	c->deadline = wait == RN_NEVER ? RN_NEVER : ctx->now + wait;
}

const char *qp_conn_state_name(enum qp_conn_state s)
{
	switch (s) {
	case QP_C_FREE: return "FREE";
	case QP_C_OPENING: return "OPENING";
	case QP_C_WAIT_REQ: return "WAIT_REQ";
	case QP_C_WAIT_ACCEPT: return "WAIT_ACCEPT";
	case QP_C_WAIT_REP: return "WAIT_REP";
	case QP_C_WAIT_QP: return "WAIT_QP";
	case QP_C_WAIT_FIRST: return "WAIT_FIRST";
	case QP_C_OPERATIONAL: return "OPERATIONAL";
	case QP_C_DRAINING: return "DRAINING";
	case QP_C_CLOSING: return "CLOSING";
	case QP_C_TERMINATING: return "TERMINATING";
	case QP_C_DEAD: return "DEAD";
	}
	return "?";
}

void qp_conn_bind(struct qp_conn *c, struct qp *qp)
{
	if (c->qp != NULL)
		c->qp->conn = NULL;
	c->qp = qp;
	if (qp == NULL)
		return;
	qp->conn = c;
	qp->rung = true; /* perhaps elsewhere */
	c->dev = qp->dev;
}

/* Gets the memory to work with; false: the pool is empty, the caller goes without or waits. */
bool qp_conn_wake(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (rn_likely(c->blk != NULL))
		return true;
	c->blk = qp_block_get(ctx);
	if (c->blk == NULL)
		return false;
	c->readq.ring = c->blk->read;
	return tcpl_set_mem(&c->tcp, &c->blk->tcp);
}

static bool at_rest(const struct qp_conn *c)
{
	const struct qp_block *b = c->blk;
	enum tcpl_state s = tcpl_get_state(&c->tcp);
	bool open = s == TCPL_S_ESTABLISHED && (c->state == QP_C_OPERATIONAL || c->state == QP_C_WAIT_FIRST);

	/* With our FIN acknowledged nothing will be sent any more either. */
	if (!open && s != TCPL_S_FIN_WAIT_2 && s != TCPL_S_TIME_WAIT)
		return false;
	return c->setup == NULL && c->rnr == QP_RNR_NONE && !c->rtr_due && c->tx_cur == QP_TX_NONE && b->wr_head == b->wr_tail &&
	       b->resp_head == b->resp_tail && !b->send.loaded && !b->recv.loaded && !b->tx_stop && b->n_ooo == 0 &&
	       rdmap_readq_count(&c->readq) == 0;
}

/*
 * Gives that memory back while nothing is in it. The first few may keep theirs: what goes to and fro between them does
 * not pay for it.
 */
void qp_conn_rest(struct qp_ctx *ctx, struct qp_conn *c)
{
	static const struct tcpl_mem none;

	if (rn_likely(c->blk == NULL || ctx->cfg.blocks - ctx->blk_left <= rn_min_u32(QP_REST_MAX, ctx->cfg.blocks / 2)))
		return;
	if (!at_rest(c) || !tcpl_set_mem(&c->tcp, &none))
		return;
	qp_block_put(ctx, c->blk);
	c->blk = NULL;
}

/* FIN behind what is queued, and not before the peer's TCP has our set-up frame. */
void qp_conn_shutdown(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->setup != NULL && c->setup->out_live) {
		c->setup->fin_due = true;
		return;
	}
	if (qp_conn_wake(ctx, c))
		tcpl_shutdown(&c->tcp, ctx->now);
	else
		qp_conn_reset(ctx, c);
}

/* The set-up memory goes when nothing points to it: negotiation over, our frame acknowledged. */
void qp_conn_setup_done(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->setup == NULL || c->setup->out_live || c->state < QP_C_WAIT_FIRST)
		return;
	qp_setup_put(ctx, c->setup);
	c->setup = NULL;
}

/* QP_CONN_KEEP_RECV: nobody tells the QP of the peer's end; only what it sends, or has sent, finds out. */
static void leave_alone(struct qp_ctx *ctx, struct qp_conn *c, struct qp *qp)
{
	const struct qp_cqe cut = { .status = QP_WC_WR_FLUSH_ERR };
	struct qp_block *b = c->blk;

	if (b != NULL && b->recv.loaded && qp->srq != NULL)
		qp_recv_cqe(ctx, qp, &b->recv, &cut); /* what comes from an SRQ cannot go back; from its own queue it can */
	if (b != NULL && b->send.loaded && !b->send.started)
		qp->sq_taken -= b->send.w.slots; /* back into the queue */
	if (b != NULL)
		b->send.loaded = b->recv.loaded = false;
	if (b != NULL && b->wr_head != b->wr_tail) {
		if (!b->wr[b->wr_head & b->wr_mask].done)
			b->wr[b->wr_head & b->wr_mask].status = QP_WC_RETRY_EXC_ERR;
		qp_enter_error(ctx, qp);
	}
	qp_conn_bind(c, NULL);
	qp->alone = c->up;
	qp_doorbell(ctx, qp);
}

/*
 * The stream is over, for whatever reason; the first call counts. what: what to tell if ESTABLISHED has not been told
 * code: 0 is an orderly end. The QP is let go and flushed; one without CM is flushed after a Terminate only.
 */
void qp_conn_end(struct qp_ctx *ctx, struct qp_conn *c, enum qp_fx_type what, uint8_t code)
{
	struct qp *qp = c->qp;
	bool orderly = code == 0 && c->vendor_err == 0;

	qp_rnr_stop(ctx, c);
	if (qp != NULL && qp->state < QP_S_RTS) {
		qp_conn_bind(c, NULL); /* it never worked: the user may try it again */
	} else if (qp != NULL && (c->flags & QP_CONN_KEEP_RECV) && c->vendor_err == 0 && qp->state != QP_S_ERR) {
		leave_alone(ctx, c, qp);
	} else if (qp != NULL) {
		qp_enter_error(ctx, qp);
		qp_conn_bind(c, NULL);
	}
	c->tx_cur = QP_TX_NONE;
	c->rtr_due = false;
	if (c->blk != NULL) {
		c->blk->send.loaded = false;
		c->blk->resp_head = c->blk->resp_tail;
	}
	if (!c->told)
		return;
	c->told = false;
	struct qp_fx *fx = qp_fx_conn(ctx, c->up ? QP_FX_DISCONNECTED : what, c);
	fx->code = c->up ? !orderly : code;
	if (!c->up && c->setup != NULL && what == QP_FX_REJECTED) {
		fx->priv = c->setup->peer.pd;
		fx->priv_len = c->setup->peer.pd_len;
	}
}

/* RST; the end is told by the caller or by the last qp_conn_out. */
void qp_conn_reset(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->state == QP_C_FREE)
		return;
	tcpl_abort(&c->tcp);
	qp_conn_to(ctx, c, QP_C_DEAD);
	qp_ready_put(ctx, c);
}

/* TCP has lost the peer. */
void qp_conn_lost(struct qp_ctx *ctx, struct qp_conn *c, uint32_t ev)
{
	bool opening = c->state == QP_C_OPENING;
	struct qp_block *b = c->blk;

	if (ev & TCPL_EV_RESET)
		ctx->stats.resets++;
	else
		ctx->stats.tcp_timeouts++;
	/* The oldest work request says that the peer did not answer; the rest is flushed. */
	if ((ev & TCPL_EV_TIMEOUT) && b != NULL && b->wr_head != b->wr_tail && !b->wr[b->wr_head & b->wr_mask].done)
		b->wr[b->wr_head & b->wr_mask].status = QP_WC_RETRY_EXC_ERR;
	qp_conn_to(ctx, c, QP_C_DEAD);
	if (opening)
		qp_conn_end(ctx, c, QP_FX_UNREACHABLE, (ev & TCPL_EV_RESET) != 0);
	else
		qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, c->up);
	qp_ready_put(ctx, c);
}

/* The peer may not have looked at our first FPDU yet: an end must wait, qp_quirk.h. */
bool qp_conn_unheard(const struct qp_conn *c)
{
	return !c->passive && c->agreed.p2p && c->nudges < QP_NUDGES_END && c->tcp.rcv_nxt == c->rx_base;
}

/* OPERATIONAL or DRAINING to DRAINING. */
void qp_conn_drain(struct qp_ctx *ctx, struct qp_conn *c)
{
	uint64_t nudge = c->deadline;

	c->early = qp_conn_unheard(c);
	qp_conn_to(ctx, c, QP_C_DRAINING);
	if (c->early)
		c->deadline = rn_min_u64(c->deadline, nudge);
}

void qp_conn_disconnect(struct qp_ctx *ctx, struct qp_conn *c)
{
	switch ((enum qp_conn_state)c->state) {
	case QP_C_OPERATIONAL:
		if (c->qp != NULL)
			qp_set_state(c->qp, QP_S_SQD);
		qp_conn_drain(ctx, c);
		break;
	case QP_C_WAIT_FIRST:
		qp_conn_to(ctx, c, QP_C_CLOSING);
		qp_conn_shutdown(ctx, c);
		break;
	case QP_C_OPENING:
	case QP_C_WAIT_REQ:
	case QP_C_WAIT_ACCEPT:
	case QP_C_WAIT_REP:
	case QP_C_WAIT_QP:
		qp_conn_abort(ctx, c);
		break;
	case QP_C_FREE:
	case QP_C_DRAINING:
	case QP_C_CLOSING:
	case QP_C_TERMINATING:
	case QP_C_DEAD:
		return;
	}
	qp_ready_put(ctx, c);
}

void qp_conn_abort(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (c->state == QP_C_FREE)
		return;
	qp_conn_reset(ctx, c);
	qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, c->up);
}

/* DRAINING: once all that was posted is through, our direction ends. */
void qp_conn_drained(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp *qp = c->qp;

	if (!qp_tx_idle(c))
		return;
	if (qp != NULL && spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken)
		return;
	if (qp_conn_unheard(c)) {
		c->asked = c->asked || qp_tx_ask(ctx, c);
		return;
	}
	qp_conn_to(ctx, c, QP_C_CLOSING);
	qp_conn_shutdown(ctx, c);
}

/* A state has lasted too long. */
static void expired(struct qp_ctx *ctx, struct qp_conn *c)
{
	bool unanswered = c->state == QP_C_OPENING || c->state == QP_C_WAIT_REP;
	bool closing = c->state >= QP_C_DRAINING;

	if (closing)
		ctx->stats.close_timeouts++;
	else
		ctx->stats.setup_timeouts++;
	qp_conn_reset(ctx, c);
	qp_conn_end(ctx, c, unanswered ? QP_FX_UNREACHABLE : QP_FX_CONNECT_ERROR, closing);
}

/* The peer of a young connection of ours has had its time to answer. */
static void nudge(struct qp_ctx *ctx, struct qp_conn *c)
{
	uint64_t wait = QP_NUDGE_FIRST_NS;

	c->early = false;
	qp_conn_to(ctx, c, (enum qp_conn_state)c->state);
	if (c->rx.pos != 0 || c->nudges == QP_NUDGES)
		return;
	/* only what the peer's TCP has taken in full can lie there */
	if (c->tx_pos != 0 && c->tx_cur == QP_TX_NONE && qp_conn_wake(ctx, c) && tcpl_idle(&c->tcp) && qp_tx_nudge(ctx, c))
		ctx->stats.nudges++;
	for (uint8_t i = 0; i <= c->nudges; i++)
		wait *= QP_NUDGE_FACTOR;
	c->nudges++;
	c->early = c->state == QP_C_DRAINING && qp_conn_unheard(c);
	if (c->early || c->state == QP_C_OPERATIONAL)
		c->deadline = ctx->now + wait;
}

void qp_conn_timer(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct tcpl_ev ev = { 0 };

	if (c->state == QP_C_FREE)
		return;
	tcpl_timer(&c->tcp, ctx->now, &ev);
	if (ev.bits & TCPL_EV_TIMEOUT)
		qp_conn_lost(ctx, c, ev.bits);
	else if (ctx->now >= c->deadline && (c->state == QP_C_OPERATIONAL || c->early))
		nudge(ctx, c);
	else if (ctx->now >= c->deadline)
		expired(ctx, c);
	qp_ready_put(ctx, c);
}

/* TCP is CLOSED and has said its last word: everything comes back. */
void qp_conn_finish(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct tcpl_slice s;
	uint64_t ref;

	qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, c->up);
	while (tcpl_acked(&c->tcp, &ref) || tcpl_tx_drop(&c->tcp, &ref))
		if (ref != QP_REF_FRAME)
			qp_rec_put(ctx, (struct qp_rec *)(uintptr_t)ref);
	for (; tcpl_rx_next(&c->tcp, &s); ctx->held--)
		qp_ref_back(ctx, s.ref);
	for (; tcpl_rx_drop(&c->tcp, &ref); ctx->held--)
		qp_ref_back(ctx, ref);
	if (c->rx.stage != NULL)
		qp_stage_put(ctx, c->rx.stage);
	c->rx.stage = NULL;
	if (c->setup != NULL)
		qp_setup_put(ctx, c->setup);
	c->setup = NULL;
	if (c->blk != NULL)
		qp_block_put(ctx, c->blk);
	c->blk = NULL;
	qp_unlist(ctx, c);
	qp_conn_to(ctx, c, QP_C_FREE);
	ctx->stats.closed++;
	qp_fx_conn(ctx, QP_FX_CLOSED, c);
}
