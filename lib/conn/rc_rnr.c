/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A message that finds no receive posted, on a QP with patience (rnr_ns): InfiniBand's "receiver not ready". iWARP has
 * no word for it but the stream's end (RFC 5041, 7.1). So nothing is said: the message's first FPDU and all that comes
 * after it are kept as a TCP keeps what its user does not read, and the window closes. The peer sees a slow reader and
 * nothing else; its Sends are acknowledged, and so complete, before they are delivered.
 *
 * What is kept: the packets themselves, in a list in the order of the stream, then what TCP holds and has in order; of
 * an FPDU that came in pieces the stage. Both are counted per worker; where there is no more room, segments are as if
 * lost (rc_cfg.rnr_pkts), and the message fails as it does without patience (stages).
 *
 * The client is asked, by a word in the ring, to ring when it posts: for a queue pair's own receives its doorbell, for
 * those of a shared queue one of the worker that leads to rc_recvs().
 */
#include "conn/rc_int.h"

#define AT_ONCE 128u /* kept packets worked off in a turn */

/* ---- who waits ---- */

/* It no longer waits, or its QP leaves it; what is kept goes with the next rc_out. */
void rc_rnr_stop(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_likely(c->rnr.state != RC_RNR_WAITS))
		return;
	c->rnr.state = RC_RNR_BEHIND;
	qp_recv_over(&ctx->qp, c->m.qp, c->rnr.srq);
	rn_list_remove(&ctx->rnr, &c->rnr.link);
	c->rnr.srq = NULL;
	rc_ready_put(ctx, c);
}

void rc_recvs(struct rc_ctx *ctx)
{
	rn_list_each(struct rc, c, &ctx->rnr, rnr.link)
		rc_ready_put(ctx, c);
}

/* After the peer's FIN on a CM connection, limit the wait to close_ns. */
static void bound(const struct rc_ctx *ctx, struct rc *c)
{
	if (c->rnr.fin && !(c->flags & RC_KEEP_RECV))
		c->rnr.until = rn_min_u64(c->rnr.until, ctx->qp.now + ctx->cfg.close_ns);
}

/*
 * The engine has no receive for the FPDU v, and has asked the client to ring. True: v is kept, and comes again. False: it
 * has waited too long, or there is no more room for it.
 */
bool rc_rnr_wait(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v)
{
	uint64_t ns = c->m.qp->rnr_ns;

	if (ctx->qp.now >= c->rnr.until || (v->staged && ctx->rnr_stages >= ctx->cfg.stages / 2)) {
		ctx->qp.stats.rnr_timeouts++;
		qp_recv_unask(&ctx->qp, c->m.qp);
		return false;
	}
	c->rnr.state = RC_RNR_WAITS;
	qp_recv_waits(&ctx->qp, c->m.qp);
	c->rnr.srq = c->m.qp->srq;
	if (c->rnr.srq != NULL)
		rn_list_push_back(&ctx->rnr, &c->rnr.link);
	if (c->rnr.until == RN_NEVER) {
		ctx->qp.stats.rnr_waits++;
		if (ns < RN_NEVER - ctx->qp.now)
			c->rnr.until = ctx->qp.now + ns;
		bound(ctx, c);
	}
	ctx->qp.stats.fpdus_in--;
	if (v->staged) {
		c->blk->late = (struct rc_late){ .ulpdu_len = v->ulpdu_len, .pos = v->pos, .raw_len = v->raw_len };
		ctx->rnr_stages++;
	} else {
		mpa_rx_unread(&c->in.mpa, v);
	}
	return true;
}

/* ---- what is kept ---- */

static struct rc_pkt *packet(struct rc_ctx *ctx, const struct tcpl_slice *s)
{
	struct rc_pkt *p = (struct rc_pkt *)(uintptr_t)s->ref;

	p->off = s->off;
	p->len = s->len;
	p->seq = s->seq;
	ctx->rnr_kept++;
	return p;
}

/* Behind all that is kept. */
void rc_rnr_keep(struct rc_ctx *ctx, struct rc *c, const struct tcpl_slice *s)
{
	struct rc_pkt *p = packet(ctx, s);
	struct rc_block *b = c->blk;

	p->next = NULL;
	if (b->kept_tail != NULL)
		b->kept_tail->next = p;
	else
		b->kept_head = p;
	b->kept_tail = p;
}

/* What is left of a slice in which a message began to wait, before all that is kept. False: nothing is. */
bool rc_rnr_rest(struct rc_ctx *ctx, struct rc *c, const struct tcpl_slice *s)
{
	uint32_t used = c->in.base + mpa_rx_pos(&c->in.mpa) - s->seq;
	struct rc_block *b = c->blk;

	if (used >= s->len)
		return false;
	const struct tcpl_slice rest = {
		.ref = s->ref, .off = s->off + used, .len = s->len - used, .seq = s->seq + used
	};
	struct rc_pkt *p = packet(ctx, &rest);
	p->next = b->kept_head;
	b->kept_head = p;
	if (b->kept_tail == NULL)
		b->kept_tail = p;
	return true;
}

/* The announced edge stands still while what lies before it is not used. */
void rc_rnr_window(struct rc *c)
{
	uint32_t space = c->tcp.cfg->rcv_space;
	uint32_t kept = c->tcp.rcv_nxt - (c->in.base + mpa_rx_pos(&c->in.mpa));

	tcpl_set_rcv_space(&c->tcp, space - rn_min_u32(kept, space));
}

void rc_rnr_fin(struct rc_ctx *ctx, struct rc *c)
{
	c->rnr.fin = true;
	bound(ctx, c);
}

/* The oldest of it. */
static bool next(struct rc_ctx *ctx, struct rc *c, struct tcpl_slice *s, bool *twice)
{
	struct rc_block *b = c->blk;
	struct rc_pkt *p = b->kept_head;

	*twice = false;
	if (p == NULL) {
		if (!tcpl_rx_next(&c->tcp, s))
			return false;
		ctx->held--;
		((struct rc_pkt *)(uintptr_t)s->ref)->twice = false;
		return true;
	}
	b->kept_head = p->next;
	if (p->next == NULL)
		b->kept_tail = NULL;
	ctx->rnr_kept--;
	*s = (struct tcpl_slice){ .ref = (uintptr_t)p, .off = p->off, .len = p->len, .seq = p->seq };
	*twice = p->twice;
	return true;
}

/* The FPDU in the stage; it may begin to wait again. */
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
	if (!use)
		return;
	ctx->qp.stats.fpdus_in++;
	rc_rx_fpdu(ctx, c, &v);
	if (c->rnr.state != RC_RNR_WAITS)
		rc_rx_stage_back(ctx, c);
}

/* Works off what is kept, so much at a time, as far as there are receives; thrown away when nobody is there for it. */
static void go_on(struct rc_ctx *ctx, struct rc *c)
{
	bool dead = tcpl_get_state(&c->tcp) == TCPL_S_CLOSED;
	struct tcpl_slice s;
	uint32_t n = 0;
	bool twice;

	late(ctx, c, !dead && rc_streaming(c) && c->m.qp != NULL);
	while (c->rnr.state == RC_RNR_BEHIND && n++ < AT_ONCE) {
		if (!next(ctx, c, &s, &twice)) {
			c->rnr.state = RC_RNR_NONE;
			break;
		}
		if ((dead || !rc_rx_slice(ctx, c, &s)) && !twice)
			rc_ref_back(ctx, s.ref);
	}
	if (c->rnr.state == RC_RNR_BEHIND) {
		rc_ready_put(ctx, c);
		return;
	}
	rc_rnr_window(c);
	if (c->rnr.state == RC_RNR_WAITS)
		return;
	c->rnr.until = RN_NEVER;
	tcpl_set_rcv_space(&c->tcp, c->tcp.cfg->rcv_space);
	if (c->rnr.fin) {
		c->rnr.fin = false;
		rc_rx_fin(ctx, c);
	}
}

/* With each turn of a connection that is not in NONE. */
void rc_rnr_look(struct rc_ctx *ctx, struct rc *c)
{
	if (c->rnr.state == RC_RNR_WAITS) {
		bool there = rc_streaming(c) && c->m.qp != NULL && tcpl_get_state(&c->tcp) != TCPL_S_CLOSED;

		if (there && ctx->qp.now < c->rnr.until && !qp_rq_any(c->m.qp))
			return;
		rc_rnr_stop(ctx, c);
	}
	go_on(ctx, c);
}
