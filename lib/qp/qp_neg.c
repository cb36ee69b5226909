/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA set-up of a connection: RFC 5044, 7.1; RFC 6581, 9. */
#include "qp/qp_priv.h"
#include "qp/qp_quirk.h"

bool qp_neg_request(struct qp_conn *c, const uint8_t *priv, uint32_t len)
{
	return mpa_neg_request(&c->policy, priv, len, &c->setup->out) == MPA_NEG_OK;
}

/* Queues the frame that lies in setup->out. It is the connection's first chunk, so there is room. */
void qp_neg_send(struct qp_conn *c)
{
	c->setup->out_live = tcpl_send(&c->tcp, c->setup->out.len, QP_REF_FRAME);
}

/* Full Operation begins in both directions; c->agreed holds. */
void qp_neg_operational(struct qp_ctx *ctx, struct qp_conn *c)
{
	uint32_t ord = rn_min_u32(c->agreed.ord, QP_MAX_RD_ATOMIC), ird = rn_min_u32(c->agreed.ird, QP_MAX_RD_ATOMIC);
	bool rtr_read = c->agreed.rtr == MPA_RTR_READ; /* takes a place in the depths */

	c->mulpdu = rn_max_u32(mpa_mulpdu(tcpl_emss(&c->tcp), c->agreed.tx_markers), MPA_MULPDU_MIN);
	c->tx_pos = 0;
	c->msn_send = c->msn_read = c->msn_atomic = 1;
	c->write_len = c->imm_len = 0;
	c->imm_held = c->wrote = c->ragged = false;
	c->cut = 0;
	mpa_rx_init(&c->rx, c->agreed.rx_markers, c->agreed.crc);
	ddp_uq_init(&c->uq_send);
	ddp_uq_init(&c->uq_read);
	ddp_uq_init(&c->uq_atomic);
	rdmap_readq_init(&c->readq, c->blk->read, QP_MAX_RD_ATOMIC, rtr_read ? rn_max_u32(ord, 1) : ord);
	rdmap_ird_init(&c->ird, rtr_read ? rn_max_u32(ird, 1) : ird);
	c->rtr_due = !c->passive && c->agreed.rtr != MPA_RTR_NONE;
	qp_conn_to(ctx, c, c->passive ? QP_C_WAIT_FIRST : QP_C_OPERATIONAL);
	c->nudges = 0;
	c->early = c->asked = false;
	if (!c->passive)
		c->deadline = ctx->now + QP_NUDGE_FIRST_NS;
	else if (c->flags & QP_CONN_KEEP_RECV)
		c->deadline = ctx->now + ctx->cfg.reply_ns; /* nobody else would miss an initiator that is silent from here */
	if (c->qp != NULL)
		qp_set_state(c->qp, QP_S_RTS);
	qp_conn_setup_done(ctx, c);
	qp_ready_put(ctx, c);
}

static void tell_offer(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_frame *f, enum qp_fx_type type)
{
	struct qp_fx *fx = qp_fx_conn(ctx, type, c);

	fx->priv = f->pd;
	fx->priv_len = f->pd_len;
	if (type == QP_FX_ESTABLISHED) {
		fx->ird = (uint16_t)c->ird.depth;
		fx->ord = (uint16_t)c->readq.ord;
	} else if (f->enhanced) {
		/* What the peer means to read from us is our IRD; what it can serve is our ORD. */
		fx->ird = f->ord == MPA_DEPTH_NONE ? 0 : f->ord;
		fx->ord = f->ird == MPA_DEPTH_NONE ? 0 : f->ird;
	}
}

/* The Reply does not do: a Terminate where RFC 6581, 9.3 wants one, else just the end. */
static void reply_refused(struct qp_ctx *ctx, struct qp_conn *c, enum mpa_neg_verdict v)
{
	struct iw_err e;

	ctx->stats.neg_errors++;
	if (mpa_neg_err(v, &e)) {
		qp_conn_bind(c, NULL); /* the QP never was in RTS */
		qp_neg_operational(ctx, c);
		c->vendor_err = qp_vendor_err(e);
		qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
		qp_terminate(ctx, c, e, NULL);
	} else {
		qp_conn_reset(ctx, c);
		qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
	}
}

static void reply_in(struct qp_ctx *ctx, struct qp_conn *c)
{
	const struct mpa_frame *f = &c->setup->peer; /* stays readable until qp_drained, also without the set-up */
	enum mpa_neg_verdict v = mpa_neg_finish(&c->policy, f, &c->agreed);

	if (v == MPA_NEG_REJECTED) {
		tcpl_shutdown(&c->tcp, ctx->now);
		qp_conn_to(ctx, c, QP_C_TERMINATING);
		qp_conn_end(ctx, c, QP_FX_REJECTED, 0);
	} else if (v != MPA_NEG_OK) {
		reply_refused(ctx, c, v);
	} else if (c->qp == NULL) {
		qp_conn_to(ctx, c, QP_C_WAIT_QP);
		tell_offer(ctx, c, f, QP_FX_CONNECT_REPLY);
	} else {
		qp_neg_operational(ctx, c);
		c->up = true;
		tell_offer(ctx, c, f, QP_FX_ESTABLISHED);
	}
}

/* QP_CONN_SELF: TCP is open, and the policy is that of both ends. */
void qp_neg_self(struct qp_ctx *ctx, struct qp_conn *c)
{
	const struct mpa_policy *p = &c->policy;

	c->agreed = (struct mpa_agreed){ .rev = p->rev, .crc = p->crc, .tx_markers = p->markers, .rx_markers = p->markers,
					 .ird = p->ird, .ord = rn_min_u32(p->ord, p->ird) };
	c->rx_base = c->tcp.rcv_nxt;
	qp_conn_to(ctx, c, QP_C_WAIT_QP);
	qp_fx_conn(ctx, QP_FX_CONNECT_REPLY, c);
}

/* Takes bytes of the peer's Request or Reply, never one beyond it; returns how many. */
uint32_t qp_neg_feed(struct qp_ctx *ctx, struct qp_conn *c, const uint8_t *p, uint32_t n)
{
	uint32_t used = 0;
	enum mpa_neg_verdict v = mpa_neg_feed(&c->setup->rx, p, n, &used, &c->setup->peer);

	if (v == MPA_NEG_MORE)
		return used;
	if (v != MPA_NEG_OK) {
		ctx->stats.neg_errors++;
		qp_conn_reset(ctx, c);
		qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
		return n;
	}
	if (c->passive) {
		qp_conn_to(ctx, c, QP_C_WAIT_ACCEPT);
		c->told = true;
		tell_offer(ctx, c, &c->setup->peer, QP_FX_CONNECT_REQUEST);
	} else {
		reply_in(ctx, c);
	}
	return used;
}

static bool qp_usable(const struct qp *qp)
{
	return qp != NULL && qp->conn == NULL &&
	       (qp->state == QP_S_INIT || qp->state == QP_S_RTR || qp->state == QP_S_RTS);
}

enum qp_verdict qp_conn_accept(struct qp_ctx *ctx, struct qp_conn *c, const struct qp_accept *a)
{
	if (c->state != QP_C_WAIT_ACCEPT || !qp_usable(a->qp) || (c->dev != NULL && a->qp->dev != c->dev))
		return QP_BAD_STATE;
	c->policy.ird = a->ird;
	c->policy.ord = a->ord;
	enum mpa_neg_verdict v = mpa_neg_accept(&c->policy, &c->setup->peer, a->priv, a->priv_len, &c->setup->out,
						&c->agreed);
	if (v == MPA_NEG_PD_TOO_LONG)
		return QP_BAD_PRIV;
	qp_neg_send(c);
	if (v != MPA_NEG_OK) {
		ctx->stats.neg_errors++;
		qp_conn_shutdown(ctx, c);
		qp_conn_to(ctx, c, QP_C_TERMINATING);
		qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
		qp_ready_put(ctx, c);
		return QP_NO_AGREEMENT;
	}
	qp_conn_bind(c, a->qp);
	qp_neg_operational(ctx, c);
	if (!c->agreed.p2p) {
		struct qp_fx *fx = qp_fx_conn(ctx, QP_FX_ESTABLISHED, c);

		c->up = true;
		fx->ird = (uint16_t)c->ird.depth;
		fx->ord = (uint16_t)c->readq.ord;
	}
	return QP_OK;
}

enum qp_verdict qp_conn_reject(struct qp_ctx *ctx, struct qp_conn *c, const uint8_t *priv, uint32_t len)
{
	if (c->state != QP_C_WAIT_ACCEPT)
		return QP_BAD_STATE;
	if (mpa_neg_reject(&c->policy, &c->setup->peer, priv, len, &c->setup->out) != MPA_NEG_OK)
		return QP_BAD_PRIV;
	qp_neg_send(c);
	c->told = false; /* the control plane has said so itself */
	qp_conn_shutdown(ctx, c);
	qp_conn_to(ctx, c, QP_C_TERMINATING);
	qp_ready_put(ctx, c);
	return QP_OK;
}

enum qp_verdict qp_conn_attach(struct qp_ctx *ctx, struct qp_conn *c, struct qp *qp)
{
	if (c->state != QP_C_WAIT_QP || !qp_usable(qp) || (c->dev != NULL && qp->dev != c->dev))
		return QP_BAD_STATE;
	qp_conn_bind(c, qp);
	qp_neg_operational(ctx, c);
	c->up = true;
	struct qp_fx *fx = qp_fx_conn(ctx, QP_FX_ESTABLISHED, c);
	fx->ird = (uint16_t)c->ird.depth;
	fx->ord = (uint16_t)c->readq.ord;
	return QP_OK;
}

static enum qp_verdict conn_begin(struct qp_ctx *ctx, struct qp_conn *c, const struct qp_conn_params *p, bool passive)
{
	struct qp_block *b = qp_block_get(ctx);
	struct qp_setup *s = qp_setup_get(ctx);

	if (b == NULL || s == NULL) {
		if (b != NULL)
			qp_block_put(ctx, b);
		if (s != NULL)
			qp_setup_put(ctx, s);
		return QP_NO_MEMORY;
	}
	memset(c, 0, sizeof(*c));
	c->dev = p->dev;
	c->blk = b;
	c->setup = s;
	c->owner = p->owner;
	c->flags = (uint8_t)p->flags;
	c->policy = p->policy;
	c->passive = passive;
	c->deadline = c->rnr_until = RN_NEVER;
	tcpl_init(&c->tcp, p->tcp, &b->tcp);
	mpa_neg_rx_init(&s->rx, !passive);
	return QP_OK;
}

/* Undoes conn_begin: the connection was never seen. */
static enum qp_verdict conn_undo(struct qp_ctx *ctx, struct qp_conn *c, enum qp_verdict v)
{
	qp_block_put(ctx, c->blk);
	qp_setup_put(ctx, c->setup);
	c->blk = NULL;
	c->setup = NULL;
	c->state = QP_C_FREE;
	return v;
}

enum qp_verdict qp_conn_connect(struct qp_ctx *ctx, struct qp_conn *c, const struct qp_conn_params *p)
{
	if (p->qp != NULL && (!qp_usable(p->qp) || (p->dev != NULL && p->qp->dev != p->dev)))
		return QP_BAD_STATE;
	enum qp_verdict v = conn_begin(ctx, c, p, false);
	if (v != QP_OK)
		return v;
	if (!qp_neg_request(c, p->priv, p->priv_len))
		return conn_undo(ctx, c, QP_BAD_PRIV);
	qp_conn_bind(c, p->qp);
	c->told = true;
	tcpl_connect(&c->tcp, ctx->now, p->iss);
	qp_conn_to(ctx, c, QP_C_OPENING);
	qp_ready_put(ctx, c);
	ctx->stats.opened++;
	return QP_OK;
}

enum qp_verdict qp_conn_passive(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_seg *syn,
				const struct qp_conn_params *p)
{
	enum qp_verdict v = conn_begin(ctx, c, p, true);

	if (v != QP_OK)
		return v;
	if (tcpl_accept_syn(&c->tcp, ctx->now, p->iss, syn) != TCPL_OK)
		return conn_undo(ctx, c, QP_BAD_SEGMENT);
	qp_conn_to(ctx, c, QP_C_WAIT_REQ);
	qp_ready_put(ctx, c);
	ctx->stats.opened++;
	return QP_OK;
}

enum qp_verdict qp_conn_passive_cookie(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_seg *ack,
				       const struct qp_cookie *k, const struct qp_conn_params *p)
{
	enum qp_verdict v = conn_begin(ctx, c, p, true);

	if (v != QP_OK)
		return v;
	if (tcpl_cookie_accept(&c->tcp, k->key, k->tuple, k->len, ctx->now, ack) != TCPL_OK)
		return conn_undo(ctx, c, QP_BAD_SEGMENT);
	qp_conn_to(ctx, c, QP_C_WAIT_REQ);
	qp_ready_put(ctx, c);
	ctx->stats.opened++;
	return QP_OK;
}
