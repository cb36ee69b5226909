/* SPDX-License-Identifier: BSD-3-Clause */
/* MPA set-up of a connection: RFC 5044, 7.1; RFC 6581, 9. */
#include "rc/rc_int.h"
#include "rc/rc_quirk.h"

bool rc_neg_request(struct rc *c, const uint8_t *priv, uint32_t len)
{
	return mpa_neg_request(&c->policy, priv, len, &c->setup->out) == MPA_NEG_OK;
}

/* Joins the connection to its QP, whose tenant's the connection's share of each pool is from now on. */
static void join(struct rc_ctx *ctx, struct rc *c, struct qp *qp)
{
	qp_attach(&c->m, qp);
	c->out.tenant = qp->tenant;
	rc_block_join(ctx, c->blk, qp->tenant);
}

/* Sends the frame in setup->out, the connection's first record. */
void rc_neg_send(struct rc *c)
{
	c->setup->out_due = c->setup->out_live = true;
	c->out.flying++;
	rc_ask(c, RC_TODO_SEND);
}

#define RTR_REPLIES 4u /* the time for an RTR: this many times the time for a Reply, as its segments may be lost */

/*
 * Only this timer notices an initiator that is silent after the Reply. An initiator that has agreed to send an RTR
 * sends it at once. Other initiators with a connection manager may wait for ever.
 */
static void wait_for_first(const struct rc_ctx *ctx, struct rc *c)
{
	const uint64_t wait = ctx->cfg.reply_ns;

	if (wait == RN_NEVER)
		return;
	if (c->flags & RC_KEEP_RECV)
		c->deadline = ctx->qp.now + wait;
	else if (c->agreed.rtr != MPA_RTR_NONE)
		c->deadline = ctx->qp.now + RTR_REPLIES * wait;
}

/* Full Operation begins in both directions; c->agreed holds. */
void rc_neg_operational(struct rc_ctx *ctx, struct rc *c)
{
	uint32_t ord = rn_min_u32(c->agreed.ord, QP_MAX_RD_ATOMIC), ird = rn_min_u32(c->agreed.ird, QP_MAX_RD_ATOMIC);
	bool rtr_read = c->agreed.rtr == MPA_RTR_READ; /* the RTR Read takes a place in the depths */

	c->out.mulpdu = rn_max_u32(mpa_tx_mulpdu(rn_min_u32(c->out.mss, ctx->cfg.max_mtu), c->agreed.tx_markers),
				   MPA_MULPDU_MIN);
	c->out.pos = 0;
	c->in.ragged = c->in.heard = false;
	c->in.cut = 0;
	c->spacings = 0;
	mpa_rx_init(&c->in.mpa, c->agreed.rx_markers, c->agreed.crc);
	qp_msgs_init(&c->m, rtr_read ? rn_max_u32(ird, 1) : ird, rtr_read ? rn_max_u32(ord, 1) : ord);
	c->out.rtr_due = !c->passive && c->agreed.rtr != MPA_RTR_NONE;
	rc_to(ctx, c, c->passive ? RC_WAIT_FIRST : RC_OPERATIONAL);
	c->nudges = 0;
	if (!c->passive)
		c->deadline = ctx->qp.now + RC_NUDGE_FIRST_NS;
	else
		wait_for_first(ctx, c);
	if (c->m.qp != NULL)
		qp_set_state(c->m.qp, QP_S_RTS);
	rc_setup_done(ctx, c);
	rc_ready_put(ctx, c);
}

static void tell_offer(struct rc_ctx *ctx, struct rc *c, const struct mpa_frame *f, enum qp_fx_type type)
{
	struct qp_fx *fx = rc_fx_conn(ctx, type, c);

	fx->priv = f->pd;
	fx->priv_len = f->pd_len;
	if (type == QP_FX_ESTABLISHED) {
		fx->ird = (uint16_t)c->m.ird.depth;
		fx->ord = (uint16_t)c->m.readq.ord;
	} else {
		/*
		 * The peer's ORD is our IRD, and its IRD our ORD. For a peer that names none (MPA revision 1, or 0x3FFF
		 * of RFC 6581, 9.1) our own depths count.
		 */
		fx->ird = f->enhanced && f->ord != MPA_DEPTH_NONE ? f->ord : c->policy.ird;
		fx->ord = f->enhanced && f->ird != MPA_DEPTH_NONE ? f->ird : c->policy.ord;
	}
}

/* The Reply is not acceptable: sends a Terminate where RFC 6581, 9.3 wants one, else just ends the connection. */
static void reply_refused(struct rc_ctx *ctx, struct rc *c, enum mpa_neg_verdict v)
{
	struct iw_err e;

	ctx->qp.stats.neg_errors++;
	if (mpa_neg_err(v, &e)) {
		qp_detach(&ctx->qp, &c->m, QP_END_NEVER);
		rc_neg_operational(ctx, c);
		c->vendor_err = qp_vendor_err(e);
		rc_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
		rc_terminate(ctx, c, e, NULL);
	} else {
		rc_reset(ctx, c);
		rc_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
	}
}

static void reply_in(struct rc_ctx *ctx, struct rc *c)
{
	const struct mpa_frame *f = &c->setup->peer; /* readable until rc_drained, even after the set-up is freed */
	enum mpa_neg_verdict v = mpa_neg_finish(&c->policy, f, &c->agreed);

	if (v == MPA_NEG_REJECTED) {
		rc_ask(c, RC_TODO_FIN);
		rc_to(ctx, c, RC_TERMINATING);
		rc_end(ctx, c, QP_FX_REJECTED, 0);
	} else if (v != MPA_NEG_OK) {
		reply_refused(ctx, c, v);
	} else if (c->m.qp == NULL) {
		rc_to(ctx, c, RC_WAIT_QP);
		tell_offer(ctx, c, f, QP_FX_CONNECT_REPLY);
	} else {
		rc_neg_operational(ctx, c);
		rc_tell(c, RC_NEWS_UP);
		tell_offer(ctx, c, f, QP_FX_ESTABLISHED);
	}
}

/* RC_SELF: the stream is open, and both ends have the same policy. */
static void open_self(struct rc_ctx *ctx, struct rc *c, uint32_t pos)
{
	const struct mpa_policy *p = &c->policy;
	uint16_t step = mpa_step_of(p, p->markers);

	c->agreed = (struct mpa_agreed){ .rev = p->rev,
					 .crc = p->crc,
					 .tx_markers = step,
					 .rx_markers = step,
					 .ird = p->ird,
					 .ord = (uint16_t)rn_min_u32(p->ord, p->ird) };
	c->in.base = pos;
	rc_to(ctx, c, RC_WAIT_QP);
	rc_fx_conn(ctx, QP_FX_CONNECT_REPLY, c);
}

void rc_opened(struct rc_ctx *ctx, struct rc *c, uint32_t pos)
{
	if (c->state != RC_OPENING)
		return;
	if (c->flags & RC_SELF) {
		open_self(ctx, c, pos);
		return;
	}
	rc_neg_send(c);
	rc_to(ctx, c, RC_WAIT_REP);
}

/* Takes bytes of the peer's Request or Reply, and none after it; returns how many. */
uint32_t rc_neg_feed(struct rc_ctx *ctx, struct rc *c, const uint8_t *p, uint32_t n)
{
	uint32_t used = 0;
	enum mpa_neg_verdict v = mpa_neg_feed(&c->setup->rx, p, n, &used, &c->setup->peer);

	if (v == MPA_NEG_MORE)
		return used;
	if (v != MPA_NEG_OK) {
		ctx->qp.stats.neg_errors++;
		rc_reset(ctx, c);
		rc_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
		return n;
	}
	if (c->passive) {
		rc_to(ctx, c, RC_WAIT_ACCEPT);
		rc_tell(c, RC_NEWS_OPENING);
		tell_offer(ctx, c, &c->setup->peer, QP_FX_CONNECT_REQUEST);
	} else {
		reply_in(ctx, c);
	}
	return used;
}

static bool qp_usable(const struct qp *qp)
{
	return qp != NULL && qp->msgs == NULL &&
	       (qp->state == QP_S_INIT || qp->state == QP_S_RTR || qp->state == QP_S_RTS);
}

enum qp_verdict rc_accept(struct rc_ctx *ctx, struct rc *c, const struct rc_accept *a)
{
	if (c->state != RC_WAIT_ACCEPT || !qp_usable(a->qp) || (c->m.dev != NULL && a->qp->dev != c->m.dev))
		return QP_BAD_STATE;
	c->policy.ird = a->ird;
	c->policy.ord = a->ord;
	enum mpa_neg_verdict v = mpa_neg_accept(&c->policy, &c->setup->peer, a->priv, a->priv_len, &c->setup->out,
						&c->agreed);
	if (v == MPA_NEG_PD_TOO_LONG)
		return QP_BAD_PRIV;
	rc_neg_send(c);
	if (v != MPA_NEG_OK) {
		ctx->qp.stats.neg_errors++;
		rc_shutdown(ctx, c);
		rc_to(ctx, c, RC_TERMINATING);
		rc_end(ctx, c, QP_FX_CONNECT_ERROR, (uint8_t)v);
		rc_ready_put(ctx, c);
		return QP_NO_AGREEMENT;
	}
	join(ctx, c, a->qp);
	rc_neg_operational(ctx, c);
	if (!c->agreed.p2p) {
		struct qp_fx *fx = rc_fx_conn(ctx, QP_FX_ESTABLISHED, c);

		rc_tell(c, RC_NEWS_UP);
		fx->ird = (uint16_t)c->m.ird.depth;
		fx->ord = (uint16_t)c->m.readq.ord;
	}
	return QP_OK;
}

enum qp_verdict rc_reject(struct rc_ctx *ctx, struct rc *c, const uint8_t *priv, uint32_t len)
{
	if (c->state != RC_WAIT_ACCEPT)
		return QP_BAD_STATE;
	if (mpa_neg_reject(&c->policy, &c->setup->peer, priv, len, &c->setup->out) != MPA_NEG_OK)
		return QP_BAD_PRIV;
	rc_neg_send(c);
	rc_tell(c, RC_NEWS_OVER); /* the control plane rejected the connection itself */
	rc_shutdown(ctx, c);
	rc_to(ctx, c, RC_TERMINATING);
	rc_ready_put(ctx, c);
	return QP_OK;
}

enum qp_verdict rc_attach(struct rc_ctx *ctx, struct rc *c, struct qp *qp)
{
	if (c->state != RC_WAIT_QP || !qp_usable(qp) || (c->m.dev != NULL && qp->dev != c->m.dev))
		return QP_BAD_STATE;
	join(ctx, c, qp);
	rc_neg_operational(ctx, c);
	rc_tell(c, RC_NEWS_UP);
	struct qp_fx *fx = rc_fx_conn(ctx, QP_FX_ESTABLISHED, c);
	fx->ird = (uint16_t)c->m.ird.depth;
	fx->ord = (uint16_t)c->m.readq.ord;
	return QP_OK;
}

static enum qp_verdict conn_begin(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p, bool passive)
{
	struct rc_block *b = rc_block_get(ctx, RC_NOBODY);
	struct rc_setup *s = rc_setup_get(ctx);

	if (b == NULL || s == NULL) {
		if (b != NULL)
			rc_block_put(ctx, b);
		if (s != NULL)
			rc_setup_put(ctx, s);
		return QP_NO_MEMORY;
	}
	memset(c, 0, sizeof(*c));
	c->m.dev = p->dev;
	c->m.keeps = true;
	c->blk = b;
	qp_msgs_work(&c->m, &b->work);
	c->setup = s;
	c->owner = p->owner;
	c->flags = (uint8_t)p->flags;
	c->policy = p->policy;
	c->passive = passive;
	c->deadline = c->rnr.until = RN_NEVER;
	mpa_neg_rx_init(&s->rx, !passive);
	return QP_OK;
}

/* Undoes conn_begin, before any effect names the connection. */
static void undo(struct rc_ctx *ctx, struct rc *c)
{
	rc_block_put(ctx, c->blk);
	rc_setup_put(ctx, c->setup);
	c->blk = NULL;
	c->setup = NULL;
	c->state = RC_FREE;
}

void rc_never(struct rc_ctx *ctx, struct rc *c)
{
	undo(ctx, c);
	ctx->qp.stats.opened--;
}

enum qp_verdict rc_connect(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p)
{
	if (p->qp != NULL && (!qp_usable(p->qp) || (p->dev != NULL && p->qp->dev != p->dev)))
		return QP_BAD_STATE;
	enum qp_verdict v = conn_begin(ctx, c, p, false);
	if (v != QP_OK)
		return v;
	if (!rc_neg_request(c, p->priv, p->priv_len)) {
		undo(ctx, c);
		return QP_BAD_PRIV;
	}
	if (p->qp != NULL)
		join(ctx, c, p->qp);
	rc_tell(c, RC_NEWS_OPENING);
	rc_to(ctx, c, RC_OPENING);
	rc_ready_put(ctx, c);
	ctx->qp.stats.opened++;
	return QP_OK;
}

enum qp_verdict rc_passive(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p)
{
	enum qp_verdict v = conn_begin(ctx, c, p, true);

	if (v != QP_OK)
		return v;
	if (p->flags & RC_AWAITED)
		rc_tell(c, RC_NEWS_OPENING);
	rc_to(ctx, c, RC_WAIT_REQ);
	ctx->qp.stats.opened++;
	return QP_OK;
}
