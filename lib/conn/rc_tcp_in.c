/* SPDX-License-Identifier: BSD-3-Clause */
/* A received segment: TCP finds out which bytes are in order, acknowledged, or too early; rc gets each of these. */
#include "base/rn_seq.h"
#include "conn/rc_tcp_int.h"
#include "tcp_lite/tcpl_room.h"

static inline struct rc_tcp_pkt *pkt_of(const struct tcpl_slice *s) { return (struct rc_tcp_pkt *)(uintptr_t)s->ref; }

/* In-order bytes. True: the packet is kept, for a QP that is not ready to receive. */
bool rc_tcp_slice(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s)
{
	const struct rc_tcp_pkt *pkt = pkt_of(s);
	struct rn_iov iov[RC_MAX_IOV];
	struct rc_bytes b = { .iov = iov, .len = s->len, .pos = s->seq, .crc_due = pkt->crc_due };

	b.n = rn_iov_cut(pkt->iov, pkt->n, s->off, s->len, iov, RC_MAX_IOV);
	if (rn_unlikely(b.n == UINT32_MAX)) {
		rc_reset(&ctx->rc, &c->rc);
		return false;
	}
	uint32_t used = rc_in(&ctx->rc, &c->rc, &b);
	if (rn_likely(used == s->len))
		return false;
	const struct tcpl_slice rest = {
		.ref = s->ref, .off = s->off + used, .len = s->len - used, .seq = s->seq + used
	};
	rc_tcp_keep_rest(ctx, c, &rest);
	return true;
}

/*
 * A segment behind a hole, which is held: places the FPDUs that may be placed now (TCPL_AHEAD_PLACE). Not if the bytes
 * are in order by now, nor if a part of the packet is kept for a slow receiver.
 */
static RN_COLD void early(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_slice *s, bool kept)
{
	ctx->rc.qp.stats.ooo_held++;
	if (c->tcp.cfg->ahead != TCPL_AHEAD_PLACE || kept || rn_seq_lt(s->seq, c->tcp.rcv_nxt))
		return;
	const struct rc_tcp_pkt *pkt = pkt_of(s);
	struct rn_iov iov[RC_MAX_IOV];
	struct rc_bytes b = { .iov = iov, .len = s->len, .pos = s->seq, .crc_due = pkt->crc_due && s->off == 0 };

	b.n = rn_iov_cut(pkt->iov, pkt->n, s->off, s->len, iov, RC_MAX_IOV);
	if (b.n != 0 && b.n != UINT32_MAX)
		rc_early(&ctx->rc, &c->rc, &b);
}

/* While packets are kept, the slice's bytes are not the next ones, and are not looked at. */
static inline bool terminate_ahead(const struct rc_tcp *c, const struct tcpl_slice *s)
{
	const struct rn_iov *first = pkt_of(s)->iov;

	return rn_likely(c->rc.rnr.state == RC_RNR_NONE) && s->off < first->len &&
	       rc_terminate_ahead(&c->rc, first->base + s->off, first->len - s->off);
}

#define ACKED_AHEAD 3u /* FPDUs between the one that completes and the one whose record is prefetched */

static inline void acked(struct rc_tcp_ctx *ctx, struct rc_tcp *c, bool complete)
{
	uint64_t ref;

	while (tcpl_acked(&c->tcp, &ref)) {
		rn_prefetch_write((const void *)(uintptr_t)tcpl_chunk(&c->tcp, c->tcp.q_head + ACKED_AHEAD)->ref);
		rc_acked(&ctx->rc, &c->rc, ref);
	}
	if (rn_likely(complete))
		rc_complete(&ctx->rc, &c->rc);
}

/* The in-order part of a segment. True: its packet is kept. */
static inline bool in_order(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_ev *ev)
{
	if (rn_unlikely(c->rc.rnr.state != RC_RNR_NONE))
		rc_tcp_keep(ctx, c, &ev->slice);
	else if (rn_likely(!rc_tcp_slice(ctx, c, &ev->slice)))
		return false;
	pkt_of(&ev->slice)->twice = ev->held;
	return true;
}

/* Whether there is room to hold another packet of the connection. While few are held, no tenant has its share. */
static inline bool room(const struct rc_tcp_ctx *ctx, const struct rc_tcp *c)
{
	const uint32_t all = ctx->cfg.hold_pkts, share = all - all / 4;

	return rn_likely(ctx->held < share) || (ctx->held < all && ctx->held_of[rc_tcp_held_as(c)] < share);
}

/* Whether there is no room to hold the segment's packet; a packet that fills a hole needs none. */
static inline bool full(struct rc_tcp_ctx *ctx, const struct rc_tcp *c, const struct tcpl_seg *seg)
{
	if (rn_unlikely(c->rc.rnr.state != RC_RNR_NONE) && rc_tcp_rnr_full(ctx, c)) {
		ctx->rc.qp.stats.rnr_drops++;
		return true;
	}
	if (rn_likely(room(ctx, c)) || rn_seq_le(seg->seq, c->tcp.rcv_nxt))
		return false;
	ctx->rc.qp.stats.hold_drops++;
	return true;
}

/* The rare events: the peer's FIN, a reset, a time-out. */
static RN_COLD void ends(struct rc_tcp_ctx *ctx, struct rc_tcp *c, uint32_t ev)
{
	if (ev & TCPL_EV_PEER_FIN)
		rc_fin(&ctx->rc, &c->rc);
	if (ev & TCPL_EV_RESET)
		rc_lost(&ctx->rc, &c->rc, RC_LOST_RESET);
	else if (ev & TCPL_EV_TIMEOUT)
		rc_lost(&ctx->rc, &c->rc, RC_LOST_TIMEOUT);
}

/* Packets held behind the hole that this segment has filled. */
static inline void follow(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	struct tcpl_slice s;

	while (c->rc.rnr.state == RC_RNR_NONE && tcpl_rx_next(&c->tcp, &s)) {
		rc_tcp_unhold(ctx, c);
		if (rn_likely(!rc_tcp_slice(ctx, c, &s)))
			rc_tcp_ref_back(ctx, s.ref);
		else
			pkt_of(&s)->twice = false;
	}
}

/*
 * After a segment without data. The last acknowledgement of a connection that has nothing more to send gives no turn:
 * by that turn the connection's lines may have left the cache. Its block is free at once, while it is cached, for the
 * next connection that needs one.
 */
static inline void acknowledged(struct rc_tcp_ctx *ctx, struct rc_tcp *c)
{
	if (!rc_settled(&c->rc) || !tcpl_settled(&c->tcp))
		rc_ready_put(&ctx->rc, &c->rc);
	else if (rc_resting(&ctx->rc, &c->rc))
		rc_tcp_rest(ctx, c);
}

bool rc_tcp_segment(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_seg *seg)
{
	struct tcpl_ev ev = { 0 };
	struct tcpl_seg bare;
	bool kept = false;

	if (rn_unlikely(rc_get_state(&c->rc) == RC_FREE))
		return false;
	/* A segment that has bytes, or ends the stream, needs memory; without memory it counts as lost on the way. */
	if (seg->len > 0 || (seg->flags & TCPL_FIN)) {
		if (rn_unlikely(!rc_wake(&ctx->rc, &c->rc)))
			return false;
		rc_tcp_use_mem(ctx, c);
	}
	if (seg->len > 0 && rn_unlikely(full(ctx, c, seg))) {
		bare = *seg;
		tcpl_strip(&bare);
		seg = &bare;
	}
	const enum tcpl_verdict v = tcpl_in(&c->tcp, ctx->rc.qp.now, seg, &ev);
	if (rn_unlikely(v == TCPL_DROP_AHEAD))
		ctx->rc.qp.stats.ooo_drops++;
	if (rn_unlikely(ev.held))
		rc_tcp_hold(ctx, c);
	if (seg->len > 0)
		rc_answer_put(&ctx->rc, &c->rc);
	if (rn_unlikely(rc_get_state(&c->rc) < RC_OPERATIONAL)) {
		rc_set_mss(&c->rc, tcpl_emss(&c->tcp));
		if (ev.bits & TCPL_EV_CONNECTED)
			rc_opened(&ctx->rc, &c->rc, c->tcp.rcv_nxt);
	}
	if (ev.bits & TCPL_EV_ACKED)
		acked(ctx, c, !(ev.bits & TCPL_EV_DATA) || !terminate_ahead(c, &ev.slice));
	if (ev.bits & TCPL_EV_DATA)
		kept = in_order(ctx, c, &ev);
	follow(ctx, c);
	if (rn_unlikely(ev.held))
		early(ctx, c, &ev.ooo, kept);
	if (rn_unlikely(c->rc.rnr.state != RC_RNR_NONE))
		rc_tcp_window(ctx, c, seg->bare && v == TCPL_OK);
	if (rn_unlikely(ev.bits & (TCPL_EV_PEER_FIN | TCPL_EV_RESET | TCPL_EV_TIMEOUT)))
		ends(ctx, c, ev.bits);
	if (rn_unlikely(rc_todo(&c->rc) & RC_TODO_LET_GO)) /* completions become visible before the next turn */
		rc_tcp_let_go(ctx, c);
	if (seg->len == 0)
		acknowledged(ctx, c);
	return ev.held || kept;
}
