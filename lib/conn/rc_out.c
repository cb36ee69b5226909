/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The next TCP segment of a connection: its header fields, and its bytes as slices or as a copy.
 *
 * The memory that a message is sent from may change at any time: a peer reads what its owner writes (RFC 5040 has nothing
 * against it). So a CRC is summed over the very bytes that leave, in the pass that copies them, and again when they are
 * sent again. A peer that has taken one sending of an FPDU throws the other one away whole. Only of an FPDU that goes in
 * parts could it put together bytes of two sendings: those are taken from a copy, made when the first part leaves.
 */
#include "conn/rc_int.h"

/* Walks the chunks of a segment. */
struct walk {
	const struct rc *c;
	uint32_t idx, off, left;
};

/* A chunk's share of the segment: bytes [off, off + len) of what ref stands for. */
struct share {
	uint64_t ref;
	uint32_t off, len;
	bool whole;
};

static struct walk walk_of(const struct rc *c, const struct tcpl_out *o)
{
	return (struct walk){ .c = c, .idx = o->chunk, .off = o->off, .left = o->len };
}

static bool walk_next(struct walk *w, struct share *s)
{
	if (w->left == 0)
		return false;
	const struct tcpl_chunk *ch = tcpl_chunk(&w->c->tcp, w->idx++);
	*s = (struct share){ .ref = ch->ref, .off = w->off, .len = rn_min_u32(ch->len - w->off, w->left) };
	s->whole = s->len == ch->len;
	w->left -= s->len;
	w->off = 0;
	return true;
}

uint32_t rc_slices(const struct rc *c, const struct tcpl_out *o, struct rn_iov *iov, uint32_t max, bool *crc_due)
{
	struct walk w = walk_of(c, o);
	struct share s;
	uint32_t n = 0;

	*crc_due = false;
	while (walk_next(&w, &s)) {
		if (s.ref == RC_REF_FRAME)
			return 0;
		struct rc_rec *r = (struct rc_rec *)(uintptr_t)s.ref;
		if (r->crc && (!s.whole || s.len != o->len || r->copy != NULL))
			return 0;
		*crc_due = r->crc;
		if (r->f.markers != 0 && MPA_TX_IOV(r->f.n_iov - 2u, r->f.markers) > max - n)
			return 0; /* copied, with the markers put in on the way */
		uint32_t k = rn_iov_cut(r->iov, mpa_tx_slices(&r->f), s.off, s.len, iov + n, max - n);
		if (k == UINT32_MAX)
			return 0;
		n += k;
	}
	return n;
}

bool rc_refers(const struct rc *c, const uint8_t *base, uint64_t len)
{
	if (c->state == RC_FREE || c->blk == NULL)
		return false;
	for (uint32_t i = c->tcp.q_head; i != c->tcp.q_tail; i++) {
		const struct tcpl_chunk *ch = tcpl_chunk(&c->tcp, i);
		if (ch->ref == RC_REF_FRAME)
			continue;
		const struct rc_rec *r = (const struct rc_rec *)(uintptr_t)ch->ref;
		for (uint32_t k = 0; k < r->f.n_iov; k++)
			if ((uint64_t)((const uint8_t *)r->iov[k].base - base) < len)
				return true;
	}
	return false;
}

/*
 * Peers with small windows must not take the stages from those who receive: beyond a quarter of them the parts come from
 * the memory itself, and the CRC is good as long as that stays as it is.
 */
static void keep_copy(struct rc_ctx *ctx, struct rc_rec *r)
{
	if (ctx->tx_stages < (ctx->cfg.stages + 3) / 4)
		r->copy = rc_stage_get(ctx);
	if (r->copy != NULL) {
		mpa_tx_copy(&r->f, true, r->copy);
		ctx->tx_stages++;
	} else {
		mpa_tx_crc(&r->f);
	}
}

/* A part of an FPDU; with CRC from its copy, which is made now unless it is there. */
static void copy_part(struct rc_ctx *ctx, struct rc_rec *r, const struct share *s, uint8_t *dst)
{
	struct rn_iov iov[MPA_TX_IOV(QP_SEG_SLICES, MPA_TX_MARKERS)];

	if (r->crc && r->copy == NULL)
		keep_copy(ctx, r);
	if (r->copy != NULL) {
		memcpy(dst, r->copy + s->off, s->len);
		return;
	}
	/* as many slices as a record can have: it cannot fail */
	uint32_t k = rn_iov_cut(r->iov, mpa_tx_slices(&r->f), s->off, s->len, iov, RN_ARRAY_LEN(iov));
	rn_iov_gather(iov, k, dst, s->len);
}

void rc_copy(struct rc_ctx *ctx, const struct rc *c, const struct tcpl_out *o, uint8_t *dst, bool *crc_due)
{
	struct walk w = walk_of(c, o);
	bool open = *crc_due;
	struct share s;

	*crc_due = false;
	for (; walk_next(&w, &s); dst += s.len) {
		if (rn_unlikely(s.ref == RC_REF_FRAME)) {
			memcpy(dst, c->setup->out.buf + s.off, s.len);
			continue;
		}
		struct rc_rec *r = (struct rc_rec *)(uintptr_t)s.ref;
		if (rn_unlikely(!s.whole || r->copy != NULL)) {
			copy_part(ctx, r, &s, dst);
			continue;
		}
		*crc_due = open && r->crc && s.len == o->len;
		mpa_tx_copy(&r->f, r->crc && !*crc_due, dst);
	}
}

bool rc_out(struct rc_ctx *ctx, struct rc *c, struct tcpl_out *o)
{
	if (c->state == RC_FREE)
		return false;
	if (rn_unlikely(c->m.qp != NULL && c->m.qp->state == QP_S_ERR && rc_streaming(c))) /* its CQ takes no more */
		rc_terminate(ctx, c, qp_local_err(), NULL);
	else if (rn_unlikely(c->m.qp != NULL && c->m.qp->state == QP_S_SQD))
		qp_look_drained(&ctx->qp, c->m.qp);
	if (rn_unlikely(c->rnr.state != RC_RNR_NONE))
		rc_rnr_look(ctx, c);
	rc_tx_fill(ctx, c);
	if (rn_unlikely(c->state == RC_DRAINING))
		rc_drain_over(ctx, c);
	if (tcpl_out(&c->tcp, ctx->qp.now, o))
		return true;
	if (rn_unlikely(c->m.qp != NULL && c->m.qp->state == QP_S_ERR && rc_streaming(c))) /* since the look above */
		rc_ready_put(ctx, c);
	if (rn_likely(tcpl_get_state(&c->tcp) != TCPL_S_CLOSED))
		rc_rest(ctx, c);
	else if (c->rnr.state == RC_RNR_NONE) /* else it comes again */
		rc_finish(ctx, c);
	return false;
}
