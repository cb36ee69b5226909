/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets kept for a queue pair that is not ready to receive (RC_RNR_WAITS), as a TCP keeps bytes that its user does
 * not read: a list of packets in the order of the stream, and behind it what TCP holds in order. The packets are
 * counted per worker and per tenant (rc_tcp_cfg.rnr_pkts). The window closes meanwhile. When no more may be kept,
 * segments are dropped and answered by a window of 0 (RFC 9293, 3.8.6): so the peer knows that this end lives, and
 * waits.
 */
#include "conn/rc_tcp_int.h"
#include "tcp_lite/tcpl_room.h"

/* Nothing is kept for a connection without a QP, but the QP may leave while packets are kept. */
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

/* Puts a packet behind all that are kept. */
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

/* Keeps the rest of a slice in which a message began to wait, ahead of all kept packets. */
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

/*
 * The announced window edge does not move while bytes before it are unused. refused: there was no room for a segment,
 * which is answered at once by a window of 0. It stays 0 until there is room.
 */
void rc_tcp_window(struct rc_tcp_ctx *ctx, struct rc_tcp *c, bool refused)
{
	uint32_t space = c->tcp.cfg->rcv_space;
	uint32_t kept = c->tcp.rcv_nxt - rc_used(&c->rc);

	if (refused)
		tcpl_refuse(&c->tcp);
	else if (c->tcp.rcv_space != TCPL_SHUT || !rc_tcp_rnr_full(ctx, c))
		tcpl_set_rcv_space(&c->tcp, space - rn_min_u32(kept, space));
}

/* Takes the oldest kept packet. */
static bool next(struct rc_tcp_ctx *ctx, struct rc_tcp *c, struct tcpl_slice *s, bool *twice)
{
	struct rc_tcp_mem *m = rc_tcp_mem_of(c);
	struct rc_tcp_pkt *p = m->kept_head;

	*twice = false;
	if (p == NULL) {
		if (!tcpl_rx_next(&c->tcp, s))
			return false;
		rc_tcp_unhold(ctx, c);
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

/* Works off a part of the kept packets, as far as there are receives; all are dropped once TCP is closed. */
void rc_tcp_rnr(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	bool dead = tcpl_get_state(&c->tcp) == TCPL_S_CLOSED, all = false, twice;
	struct tcpl_slice s;

	rc_rnr_look(&ctx->rc, &c->rc, dead);
	for (uint32_t n = 0; c->rc.rnr.state == RC_RNR_BEHIND && n < RC_TCP_RNR_CALL; n++) {
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
		rc_tcp_window(ctx, c, false);
	}
}
