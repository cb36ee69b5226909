/* SPDX-License-Identifier: BSD-3-Clause */
/* From segments to queued FPDUs. */
#include "conn/rc_int.h"

/* Hands a finished record to TCP; wr: the work request that its acknowledgement completes. */
bool rc_tx_queue(struct rc_ctx *ctx, struct rc *c, struct rc_rec *r, uint32_t wr)
{
	r->wr = wr;
	if (rn_unlikely(!tcpl_send(&c->tcp, r->f.len, (uint64_t)(uintptr_t)r))) {
		rc_rec_put(ctx, r);
		return false;
	}
	c->out.pos += r->f.len;
	ctx->qp.stats.fpdus_out++;
	return true;
}

/* Octets on the stream of an FPDU with this ULPDU. */
static uint32_t stream_len(const struct rc *c, uint32_t ulpdu_len)
{
	uint32_t n = mpa_fpdu_len(ulpdu_len);

	return c->agreed.tx_markers ? n + MPA_MARKER_LEN * mpa_markers_in(c->out.pos, n) : n;
}

/* True when TCP would send it now. With nothing in flight one is always queued: it drives the window probe. */
static bool tx_fits(const struct rc *c, uint32_t stream)
{
	return stream <= tcpl_budget(&c->tcp) || tcpl_idle(&c->tcp);
}

static struct rc_rec *rec_begin(struct rc_ctx *ctx, struct rc *c, uint32_t reserve, uint8_t **hdr)
{
	struct rc_rec *r = rc_rec_get(ctx, reserve);

	if (r == NULL) {
		rc_starve(ctx, c, RC_WANT_REC);
		return NULL;
	}
	*hdr = mpa_tx_begin(&r->f, r->iov, ctx->rec_iov);
	return r;
}

/* Frame and mark; the CRC comes with the transmission. A segment that cannot be queued would be our own error, and is lost. */
static bool send_seg(struct rc_ctx *ctx, struct rc *c, struct rc_rec *r, const struct qp_seg *seg)
{
	if (rn_unlikely(mpa_tx_frame(&r->f, seg->hdr_len, seg->iov, seg->n, seg->len) != MPA_TX_OK ||
			(c->agreed.tx_markers && mpa_tx_mark(&r->f, c->out.pos) != MPA_TX_OK))) {
		rc_rec_put(ctx, r);
		rc_reset(ctx, c);
		return false;
	}
	r->crc = c->agreed.crc;
	if (rn_likely(rc_tx_queue(ctx, c, r, seg->wr)))
		return true;
	rc_reset(ctx, c);
	return false;
}

/* The next segment that the engine has, as an FPDU. False: there is none now, or no room. */
static bool send_next(struct rc_ctx *ctx, struct rc *c)
{
	struct rn_iov iov[QP_SEG_SLICES];
	struct qp_seg seg = { .iov = iov };
	uint32_t len;

	enum qp_pull v = qp_peek(&ctx->qp, &c->m, c->out.mulpdu, &len);
	if (rn_likely(v == QP_PULL_OK)) {
		if (!tx_fits(c, stream_len(c, len)))
			return false;
		struct rc_rec *r = rec_begin(ctx, c, RC_CTRL_RECS, &seg.hdr);
		if (r == NULL)
			return false;
		seg.inl = rc_rec_inline(ctx, r);
		v = qp_pull(&ctx->qp, &c->m, c->out.mulpdu, &seg);
		if (rn_likely(v == QP_PULL_OK))
			return send_seg(ctx, c, r, &seg);
		rc_rec_put(ctx, r);
	}
	if (v == QP_PULL_FAILED)
		rc_terminate(ctx, c, c->m.err, NULL);
	return false;
}

/* An FPDU that moves no data: a Write or Read of no bytes, which touches no memory, or one without a ULPDU. */
static bool send_empty(struct rc_ctx *ctx, struct rc *c, enum mpa_rtr what)
{
	struct qp_seg seg = { .hdr_len = 0, .wr = QP_WR_NONE };
	struct rc_rec *r = rec_begin(ctx, c, 0, &seg.hdr);

	if (r == NULL)
		return false;
	if (what == MPA_RTR_WRITE)
		qp_pull_empty(&c->m, QP_EMPTY_WRITE, &seg);
	else if (what == MPA_RTR_READ)
		qp_pull_empty(&c->m, QP_EMPTY_READ, &seg);
	return send_seg(ctx, c, r, &seg);
}

/* RFC 6581, 9.2: the initiator's first FPDU in the peer-to-peer model. */
static bool send_rtr(struct rc_ctx *ctx, struct rc *c)
{
	if (!send_empty(ctx, c, c->agreed.rtr))
		return false;
	c->out.rtr_due = false;
	return true;
}

/* RFC 5041, 5.2.1: nothing in it but its length is looked at. */
bool rc_tx_nudge(struct rc_ctx *ctx, struct rc *c) { return send_empty(ctx, c, MPA_RTR_WRITE); }

/* Something that the peer must answer; false when it cannot be sent. */
bool rc_tx_ask(struct rc_ctx *ctx, struct rc *c)
{
	return !rdmap_readq_full(&c->m.readq) && rc_wake(ctx, c) && send_empty(ctx, c, MPA_RTR_READ);
}

/* Queues FPDUs until a full segment waits, so that each is sent while its bytes are still in the cache. */
void rc_tx_fill(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_unlikely(c->blk == NULL)) {
		struct qp *qp = c->m.qp;
		if (qp == NULL || (!qp_posted(qp) && qp->sq.verdict == SPSC_OK))
			return;
		if (rc_blocks_for_senders(ctx) == 0) {
			ctx->qp.stats.no_block++;
			rc_starve(ctx, c, RC_WANT_BLOCK);
			return;
		}
		if (!rc_wake(ctx, c))
			return;
	}
	if (rn_unlikely(c->out.rtr_due) && !send_rtr(ctx, c))
		return;
	while ((c->state == RC_OPERATIONAL || c->state == RC_DRAINING) && c->m.qp != NULL) {
		if (c->tcp.q_end - c->tcp.snd_nxt >= tcpl_emss(&c->tcp) || tcpl_room(&c->tcp) <= RC_CTRL_CHUNKS)
			return;
		if (!send_next(ctx, c))
			return;
	}
}

/* Nothing of ours is on the way or waits. */
bool rc_tx_idle(const struct rc *c)
{
	return c->blk == NULL || (tcpl_idle(&c->tcp) && !c->out.rtr_due && qp_msgs_sent(&c->m));
}
