/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is kept for a queue pair that is not ready to receive (RC_RNR_WAITS), as a TCP keeps what its user does not
 * read: the packets themselves, in a list in the order of the stream, then what TCP holds and has in order. They are
 * counted per worker and per tenant; where there is no more room, segments are as if lost (rc_tcp_cfg.rnr_pkts). The
 * window closes meanwhile.
 */
#include "conn/rc_tcp_int.h"

#define AT_ONCE 128u /* kept packets worked off in a turn */

/* Nothing is kept without a QP, but the QP may leave what is kept. */
static struct rc_tcp_pkt *packet(struct rc_tcp_ctx *ctx, const struct rc_tcp *c, const struct tcpl_slice *s)
{
	struct rc_tcp_pkt *p = (struct rc_tcp_pkt *)(uintptr_t)s->ref;
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);

	p->off = s->off;
	p->len = s->len;
	p->seq = s->seq;
	if (m->kept_head == NULL && c->rc.m.qp != NULL)
		m->tenant = c->rc.m.qp->tenant;
	ctx->rnr_kept++;
	ctx->rnr_of[m->tenant]++;
	return p;
}

/* Behind all that is kept. */
void rc_tcp_keep(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s)
{
	struct rc_tcp_pkt *p = packet(ctx, c, s);
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);

	p->next = NULL;
	if (m->kept_tail != NULL)
		m->kept_tail->next = p;
	else
		m->kept_head = p;
	m->kept_tail = p;
}

/* What is left of a slice in which a message began to wait: before all that is kept. */
void rc_tcp_keep_rest(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s)
{
	struct rc_tcp_pkt *p = packet(ctx, c, s);
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);

	p->next = m->kept_head;
	m->kept_head = p;
	if (m->kept_tail == NULL)
		m->kept_tail = p;
}

bool rc_tcp_rnr_full(const struct rc_tcp_ctx *ctx, const struct rc_tcp *c)
{
	const struct rc_tcp_mem *m = rc_tcp_mem_of(c);
	uint8_t tenant = m->kept_head == NULL && c->rc.m.qp != NULL ? c->rc.m.qp->tenant : m->tenant;

	return ctx->rnr_kept >= ctx->cfg.rnr_pkts || ctx->rnr_of[tenant] >= ctx->cfg.rnr_pkts / 2;
}

/* The announced edge stands still while what lies before it is not used. */
void rc_tcp_window(struct rc_tcp *c)
{
	uint32_t space = c->tcp.cfg->rcv_space;
	uint32_t kept = c->tcp.rcv_nxt - rc_used(&c->rc);

	tcpl_set_rcv_space(&c->tcp, space - rn_min_u32(kept, space));
}

/* The oldest of it. */
static bool next(struct rc_tcp_ctx *ctx, struct rc_tcp *c, struct tcpl_slice *s, bool *twice)
{
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);
	struct rc_tcp_pkt *p = m->kept_head;

	*twice = false;
	if (p == NULL) {
		if (!tcpl_rx_next(&c->tcp, s))
			return false;
		ctx->held--;
		((struct rc_tcp_pkt *)(uintptr_t)s->ref)->twice = false;
		return true;
	}
	m->kept_head = p->next;
	if (p->next == NULL)
		m->kept_tail = NULL;
	ctx->rnr_kept--;
	ctx->rnr_of[m->tenant]--;
	*s = (struct tcpl_slice){ .ref = (uintptr_t)p, .off = p->off, .len = p->len, .seq = p->seq };
	*twice = p->twice;
	return true;
}

/* Works off a part of what is kept, as far as there are receives; all of it is dropped once TCP is closed. */
void rc_tcp_rnr(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	bool dead = tcpl_get_state(&c->tcp) == TCPL_S_CLOSED, all = false, twice;
	struct tcpl_slice s;

	rc_rnr_look(&ctx->rc, &c->rc, dead);
	for (uint32_t n = 0; c->rc.rnr.state == RC_RNR_BEHIND && n < AT_ONCE; n++) {
		all = !next(ctx, c, &s, &twice);
		if (all)
			break;
		if ((dead || !rc_tcp_slice(ctx, c, &s)) && !twice)
			rc_tcp_ref_back(ctx, s.ref);
	}
	if (all) {
		tcpl_set_rcv_space(&c->tcp, c->tcp.cfg->rcv_space);
		rc_caught_up(&ctx->rc, &c->rc);
	} else if (c->rc.rnr.state == RC_RNR_BEHIND) {
		rc_ready_put(&ctx->rc, &c->rc);
	} else {
		rc_tcp_window(c);
	}
}
