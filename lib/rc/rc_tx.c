/* SPDX-License-Identifier: BSD-3-Clause */
/* From segments to queued FPDUs. */
#include "rc/rc_int.h"

/* The record is made: it has its place on the stream, and its acknowledgement completes the work request. */
static inline void made(struct rc_ctx *ctx, struct rc *c, const struct rc_rec *r)
{
	c->out.pos += r->f.len;
	c->out.flying++;
	ctx->qp.stats.fpdus_out++;
}

/* Queues a finished record ahead of everything that is pulled. */
void rc_tx_due(struct rc_ctx *ctx, struct rc *c, struct rc_rec *r)
{
	made(ctx, c, r);
	r->next = NULL;
	if (c->out.due == NULL)
		c->out.due = r;
	else
		c->out.due_last->next = r;
	c->out.due_last = r;
	rc_ask(c, RC_TODO_SEND);
}

uint32_t rc_due(struct rc *c, uint64_t *ref)
{
	struct rc_rec *r = c->out.due;

	if (c->setup != NULL && c->setup->out_due) {
		c->setup->out_due = false;
		*ref = RC_REF_FRAME;
		return c->setup->out.len;
	}
	if (r == NULL)
		return 0;
	c->out.due = r->next;
	*ref = (uint64_t)(uintptr_t)r;
	return r->f.len;
}

/* The length on the stream of an FPDU with this ULPDU, octets. */
static uint32_t stream_len(const struct rc *c, uint32_t ulpdu_len)
{
	uint32_t n = mpa_fpdu_len(ulpdu_len);

	return n + MPA_MARKER_LEN * mpa_markers_in(c->out.pos, n, c->agreed.tx_markers);
}

static struct rc_rec *rec_begin(struct rc_ctx *ctx, struct rc *c, bool ctrl, uint8_t **hdr)
{
	struct rc_rec *r = rc_rec_get(ctx, c, ctrl);

	if (r == NULL) {
		/* a connection with records in flight has its next turn when one of them is acknowledged */
		if (ctrl || c->out.flying == 0)
			rc_starve(ctx, c, RC_WANT_REC);
		return NULL;
	}
	*hdr = rc_rec_begin(ctx, r, true);
	return r;
}

/*
 * Adds framing and markers; the CRC is summed at transmission. A segment that does not fit would be our own bug, and is
 * dropped.
 */
static inline bool frame(struct rc_ctx *ctx, struct rc *c, struct rc_rec *r, const struct qp_seg *seg)
{
	if (rn_unlikely(seg->n > 1 || c->agreed.tx_markers != 0))
		(void)rc_rec_begin(ctx, r, false); /* the header stays where it is */
	if (rn_unlikely(
		    mpa_tx_frame(&r->f, seg->hdr_len, seg->iov, seg->n, seg->len) != MPA_TX_OK ||
		    (c->agreed.tx_markers != 0 && mpa_tx_mark(&r->f, c->out.pos, c->agreed.tx_markers) != MPA_TX_OK))) {
		rc_rec_put(ctx, r);
		rc_reset(ctx, c);
		return false;
	}
	r->crc = c->agreed.crc;
	r->wr = seg->wr;
	return true;
}

static void failed(struct rc_ctx *ctx, struct rc *c, enum qp_pull v)
{
	if (v == QP_PULL_FAILED)
		rc_terminate(ctx, c, c->m.err, NULL);
}

RN_STRAIGHT uint32_t rc_peek(struct rc_ctx *ctx, struct rc *c)
{
	uint32_t len;
	enum qp_pull v = qp_peek(&ctx->qp, &c->m, c->out.mulpdu, &len);

	if (rn_likely(v == QP_PULL_OK))
		return stream_len(c, len);
	if (rn_unlikely(v == QP_PULL_LATER))
		rc_ready_put(ctx, c);
	failed(ctx, c, v);
	return 0;
}

RN_STRAIGHT uint32_t rc_pull(struct rc_ctx *ctx, struct rc *c, uint64_t *ref)
{
	struct rn_iov iov[QP_SEG_SLICES];
	struct qp_seg seg = { .iov = iov };
	struct rc_rec *r = rec_begin(ctx, c, false, &seg.hdr);

	if (r == NULL)
		return 0;
	seg.inl = rc_rec_inline(ctx, r);
	enum qp_pull v = qp_pull(&ctx->qp, &c->m, c->out.mulpdu, &seg);
	if (rn_unlikely(v != QP_PULL_OK)) {
		rc_rec_put(ctx, r);
		failed(ctx, c, v);
		return 0;
	}
	if (rn_unlikely(!frame(ctx, c, r, &seg)))
		return 0;
	made(ctx, c, r);
	*ref = (uint64_t)(uintptr_t)r;
	return r->f.len;
}

/* Sends an FPDU without data: a zero-length Write or Read, which touches no memory, or an FPDU without a ULPDU. */
static bool send_empty(struct rc_ctx *ctx, struct rc *c, enum mpa_rtr what)
{
	struct qp_seg seg = { .hdr_len = 0, .wr = QP_WR_NONE };
	struct rc_rec *r = rec_begin(ctx, c, true, &seg.hdr);

	if (r == NULL)
		return false;
	if (what == MPA_RTR_WRITE)
		qp_pull_empty(&c->m, QP_EMPTY_WRITE, &seg);
	else if (what == MPA_RTR_READ)
		qp_pull_empty(&c->m, QP_EMPTY_READ, &seg);
	if (!frame(ctx, c, r, &seg))
		return false;
	rc_tx_due(ctx, c, r);
	return true;
}

/* RFC 6581, 9.2: the initiator's first FPDU in the peer-to-peer model. */
static bool send_rtr(struct rc_ctx *ctx, struct rc *c)
{
	if (!send_empty(ctx, c, c->agreed.rtr))
		return false;
	c->out.rtr_due = false;
	return true;
}

/*
 * Sends a zero-length Write, of which a receiver checks only the length (RFC 5041, 5.2.1). Some responders check STag
 * and TO all the same, so the Write names those of the last Write. A peer that has received no Write, and whose RTR was
 * a Read, gets another Read instead.
 */
bool rc_tx_nudge(struct rc_ctx *ctx, struct rc *c)
{
	if (c->agreed.rtr == MPA_RTR_READ && c->m.write_stag == 0)
		return rc_tx_ask(ctx, c);
	return send_empty(ctx, c, MPA_RTR_WRITE);
}

/* Sends a zero-length Read, which the peer must answer; false: it cannot be sent. */
bool rc_tx_ask(struct rc_ctx *ctx, struct rc *c)
{
	return !rdmap_readq_full(&c->m.readq) && rc_wake(ctx, c) && send_empty(ctx, c, MPA_RTR_READ);
}

bool rc_tx_prepare(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_unlikely(c->blk == NULL)) {
		struct qp *qp = c->m.qp;
		if (qp == NULL || (!qp_posted(qp) && qp->sq.verdict == SPSC_OK))
			return false;
		if (rc_blocks_for_senders(ctx, rc_tenant(c)) == 0) {
			ctx->qp.stats.no_block++;
			rc_starve(ctx, c, RC_WANT_BLOCK);
			return false;
		}
		if (!rc_wake(ctx, c))
			return false;
	}
	return !c->out.rtr_due || send_rtr(ctx, c);
}

/* Whether nothing of ours is in flight or waits to be sent. */
bool rc_tx_idle(const struct rc *c)
{
	return c->blk == NULL || (c->out.flying == 0 && !c->out.rtr_due && qp_msgs_sent(&c->m));
}

void rc_turn_unready(struct rc_ctx *ctx, struct rc *c)
{
	if (rc_failed(c)) /* its CQ is full or corrupt */
		rc_terminate(ctx, c, qp_local_err(), NULL);
	else if (c->m.qp->state == QP_S_SQD)
		qp_look_drained(&ctx->qp, c->m.qp);
}

void rc_turn_end(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_unlikely(c->state == RC_DRAINING))
		rc_drain_over(ctx, c);
}

/* ---- a record's end ---- */

static void frame_acked(struct rc_ctx *ctx, struct rc *c)
{
	c->setup->out_live = false;
	if (c->setup->fin_due)
		rc_shutdown(ctx, c);
	rc_setup_done(ctx, c);
}

void rc_acked(struct rc_ctx *ctx, struct rc *c, uint64_t ref)
{
	struct rc_rec *r = (struct rc_rec *)(uintptr_t)ref;

	c->out.flying--;
	if (rn_unlikely(ref == RC_REF_FRAME)) {
		frame_acked(ctx, c);
		return;
	}
	if (r->wr != QP_WR_NONE && c->m.qp != NULL)
		qp_acked(&c->m, r->wr);
	rc_rec_put(ctx, r);
}

void rc_complete(struct rc_ctx *ctx, struct rc *c) { failed(ctx, c, qp_complete(&ctx->qp, &c->m)); }

void rc_dropped(struct rc_ctx *ctx, struct rc *c, uint64_t ref)
{
	c->out.flying--;
	if (ref != RC_REF_FRAME)
		rc_rec_put(ctx, (struct rc_rec *)(uintptr_t)ref);
}
