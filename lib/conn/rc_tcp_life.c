/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection's TCP begins, and tells of time and of the path. */
#include "conn/rc_tcp_int.h"

static void begin(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct rc_tcp_params *p)
{
	static const struct tcpl_mem none;

	tcpl_init(&c->tcp, p->tcp, &none);
	tcpl_set_turns(&c->tcp, &ctx->turns);
	rc_tcp_use_mem(ctx, c);
}

enum qp_verdict rc_tcp_connect(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct rc_tcp_params *p)
{
	enum qp_verdict v = rc_connect(&ctx->rc, &c->rc, &p->rc);

	if (v != QP_OK)
		return v;
	begin(ctx, c, p);
	tcpl_connect(&c->tcp, ctx->rc.qp.now, p->iss);
	return QP_OK;
}

enum qp_verdict rc_tcp_passive(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_seg *syn,
			       const struct rc_tcp_params *p)
{
	enum qp_verdict v = rc_passive(&ctx->rc, &c->rc, &p->rc);

	if (v != QP_OK)
		return v;
	begin(ctx, c, p);
	if (tcpl_accept_syn(&c->tcp, ctx->rc.qp.now, p->iss, syn) != TCPL_OK) {
		rc_never(&ctx->rc, &c->rc);
		return QP_BAD_SEGMENT;
	}
	rc_ready_put(&ctx->rc, &c->rc);
	return QP_OK;
}

enum qp_verdict rc_tcp_passive_cookie(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_seg *ack,
				      const struct tcpl_tuple *of, const struct rc_tcp_params *p)
{
	enum qp_verdict v = rc_passive(&ctx->rc, &c->rc, &p->rc);

	if (v != QP_OK)
		return v;
	begin(ctx, c, p);
	if (tcpl_cookie_accept(&c->tcp, of, ctx->rc.qp.now, ack) != TCPL_OK) {
		rc_never(&ctx->rc, &c->rc);
		return QP_BAD_SEGMENT;
	}
	rc_set_mss(&c->rc, tcpl_emss(&c->tcp));
	rc_ready_put(&ctx->rc, &c->rc);
	return QP_OK;
}

enum qp_verdict rc_tcp_take(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct rc_params *p)
{
	static const struct tcpl_mem none;
	const struct tcpl_mem callers = c->tcp.mem;

	if (tcpl_get_state(&c->tcp) != TCPL_S_ESTABLISHED || !tcpl_set_mem(&c->tcp, &none))
		return QP_BAD_STATE;
	enum qp_verdict v = rc_connect(&ctx->rc, &c->rc, p);
	if (v != QP_OK) {
		(void)tcpl_set_mem(&c->tcp, &callers);
		return v;
	}
	rc_tcp_use_mem(ctx, c);
	rc_set_mss(&c->rc, tcpl_emss(&c->tcp));
	rc_opened(&ctx->rc, &c->rc, c->tcp.rcv_nxt);
	return QP_OK;
}

void rc_tcp_timer(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	struct tcpl_ev ev = { 0 };

	if (rc_get_state(&c->rc) == RC_FREE)
		return;
	tcpl_set_patience(&c->tcp, rc_silence(&c->rc));
	tcpl_timer(&c->tcp, ctx->rc.qp.now, &ev);
	rc_set_mss(&c->rc, tcpl_emss(&c->tcp));
	if (ev.bits & TCPL_EV_TIMEOUT)
		rc_lost(&ctx->rc, &c->rc, RC_LOST_TIMEOUT);
	else
		rc_timer(&ctx->rc, &c->rc);
	rc_ready_put(&ctx->rc, &c->rc);
}

void rc_tcp_too_big(struct rc_tcp_ctx *ctx, struct rc_tcp *c, uint32_t seq, uint32_t mss)
{
	if (rc_get_state(&c->rc) == RC_FREE || !tcpl_too_big(&c->tcp, ctx->rc.qp.now, seq, mss))
		return;
	rc_set_mss(&c->rc, tcpl_emss(&c->tcp));
	rc_ready_put(&ctx->rc, &c->rc);
}
