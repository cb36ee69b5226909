/* SPDX-License-Identifier: BSD-3-Clause */
/* From work requests and peers' Reads to queued FPDUs: which message is next, and its next segment. */
#include "qp/qp_priv.h"

/* Hands a finished record to TCP; wr: the work request that its acknowledgement completes. */
bool qp_tx_queue(struct qp_ctx *ctx, struct qp_conn *c, struct qp_rec *r, uint32_t wr)
{
	r->wr = wr;
	if (rn_unlikely(!tcpl_send(&c->tcp, r->f.len, (uint64_t)(uintptr_t)r))) {
		qp_rec_put(ctx, r);
		return false;
	}
	c->tx_pos += r->f.len;
	ctx->stats.fpdus_out++;
	return true;
}

/* Frame and mark; the CRC comes with the transmission. */
static bool finish(struct qp_conn *c, struct qp_rec *r, uint32_t hdr_len, const struct rn_iov *payload, uint32_t n,
		   uint32_t len)
{
	if (mpa_tx_frame(&r->f, hdr_len, payload, n, len) != MPA_TX_OK)
		return false;
	if (c->agreed.tx_markers && mpa_tx_mark(&r->f, c->tx_pos) != MPA_TX_OK)
		return false;
	r->crc_due = c->agreed.crc;
	return true;
}

/* Octets on the stream of a segment with this payload. */
static uint32_t stream_len(const struct qp_conn *c, uint32_t hdr_len, uint32_t len)
{
	uint32_t n = mpa_fpdu_len(hdr_len + len);

	return c->agreed.tx_markers ? n + MPA_MARKER_LEN * mpa_markers_in(c->tx_pos, n) : n;
}

/* True when TCP would send it now. With nothing in flight one is always queued: it drives the window probe. */
static bool tx_fits(const struct qp_conn *c, uint32_t stream)
{
	return stream <= tcpl_budget(&c->tcp) || tcpl_idle(&c->tcp);
}

static struct qp_rec *rec_begin(struct qp_ctx *ctx, struct qp_conn *c, uint32_t reserve, uint8_t **hdr)
{
	struct qp_rec *r = qp_rec_get(ctx, reserve);

	if (r == NULL) {
		qp_starve(ctx, c, QP_WANT_REC);
		return NULL;
	}
	*hdr = mpa_tx_begin(&r->f, r->iov, ctx->rec_iov);
	return r;
}

/* A message of one segment, whose payload (as much as the opcode has) is small. wr: as for qp_tx_queue. */
bool qp_tx_short(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const uint8_t *body, uint32_t wr)
{
	uint32_t len = rdmap_op_of(h->opcode)->min_payload;
	uint8_t *p;

	if (!tx_fits(c, stream_len(c, h->hdr_len, len)))
		return false;
	struct qp_rec *r = rec_begin(ctx, c, QP_CTRL_RECS, &p);
	if (r == NULL)
		return false;
	uint32_t n = ddp_build(p, h);
	if (len > 0)
		memcpy(p + n, body, len);
	if (!finish(c, r, n + len, NULL, 0, 0)) {
		qp_rec_put(ctx, r);
		return false;
	}
	return qp_tx_queue(ctx, c, r, wr);
}

/* ---- the peer's Reads: RFC 5040, 5.1 ---- */

static bool resp_segment(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_block *b = c->blk;
	struct qp_resp *p = &b->resp[b->resp_head & (QP_MAX_RD_ATOMIC - 1)];
	uint32_t len = rn_min_u32(p->r.len - p->sent, c->mulpdu - DDP_TAGGED_HDR_LEN);
	struct rn_iov iov[QP_SEG_SLICES];
	uint32_t n;
	uint8_t *h;

	if (rn_unlikely(p->is_atomic))
		return qp_tx_atomic_resp(ctx, c);
	if (!tx_fits(c, stream_len(c, DDP_TAGGED_HDR_LEN, len)))
		return false;
	/* Looked up anew with each segment: the application may have taken the memory back. */
	const struct qp_access a = { .pd = c->qp->pd, .stag = p->r.src_stag, .to = p->r.src_to + p->sent, .len = len,
				     .rights = QP_ACC_REMOTE_READ, .qpn = c->qp->qpn };
	enum qp_mr_verdict v = qp_mr_slices(c->dev, &a, iov, QP_SEG_SLICES, &n);
	if (v == QP_MR_TOO_MANY) {
		len = (uint32_t)rn_iov_len(iov, n);
	} else if (v != QP_MR_OK) {
		ctx->stats.access_errors++;
		qp_terminate(ctx, c, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID, false), NULL);
		return false;
	}
	struct qp_rec *r = rec_begin(ctx, c, QP_CTRL_RECS, &h);
	if (r == NULL)
		return false;
	bool last = p->sent + len == p->r.len;
	const struct ddp_hdr hdr = ddp_tagged(RDMAP_READ_RESP, last, p->r.sink_stag, p->r.sink_to + p->sent);
	if (!finish(c, r, ddp_build(h, &hdr), iov, n, len)) {
		qp_rec_put(ctx, r);
		return false;
	}
	if (!qp_tx_queue(ctx, c, r, QP_WR_NONE))
		return false;
	p->sent += len;
	if (last) {
		b->resp_head++;
		rdmap_ird_give(&c->ird);
		c->tx_cur = QP_TX_NONE;
	}
	return true;
}

/* ---- our work requests ---- */

static uint8_t send_opcode(const struct qp_wqe *w)
{
	bool se = (w->flags & QP_WF_SOLICITED) != 0;

	if (w->op == QP_WR_SEND_INV)
		return se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
	return se ? RDMAP_SEND_SE : RDMAP_SEND;
}

/* It will not be sent (any further); those before it still complete, then it does and the QP ends. */
void qp_sq_fail(struct qp_ctx *ctx, struct qp_conn *c, enum qp_wc_status why)
{
	struct qp_block *b = c->blk;
	struct qp_wr *wr = b->send.started ? &b->wr[b->send.wr & b->wr_mask] : qp_sq_start(c, &b->send);

	wr->status = (uint8_t)why;
	wr->done = 1;
	b->send.loaded = false;
	b->tx_stop = true;
	c->tx_cur = QP_TX_NONE;
	qp_sq_complete(ctx, c);
}

/* The payload of the segment: small ones are copied behind the header, inline data into the record, else slices. */
static bool sq_payload(struct qp_conn *c, struct qp_ctx *ctx, struct qp_rec *r, uint32_t hdr_len, uint32_t *len,
		       struct rn_iov *iov, uint32_t *n)
{
	struct qp_send *s = &c->blk->send;
	enum qp_mr_verdict v;

	if (s->w.flags & QP_WF_INLINE) {
		uint8_t *dst = *len <= MPA_TX_HDR_MAX - hdr_len ? r->f.inl + MPA_LEN_FIELD + hdr_len
								 : qp_rec_inline(ctx, r);
		memcpy(dst, s->u.data + s->sent, *len);
		iov[0] = (struct rn_iov){ .base = dst, .len = *len };
		*n = *len > 0;
		return true;
	}
	*n = qp_sq_slices(c->qp, s, len, iov, &v);
	if (v != QP_MR_OK)
		return false;
	if (*len <= MPA_TX_HDR_MAX - hdr_len)
		rn_iov_gather(iov, *n, r->f.inl + MPA_LEN_FIELD + hdr_len, *len);
	return true;
}

/* The next segment of a Send or Write; of a Write with immediate, while there are bytes of the Write. */
static bool sq_segment(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_send *s = &c->blk->send;
	bool tagged = s->w.op == QP_WR_WRITE, ends = true;

	if (rn_unlikely(s->w.op >= QP_WR_READ)) {
		if (s->w.op != QP_WR_WRITE_IMM || s->sent == s->total)
			return qp_tx_op(ctx, c);
		tagged = true;
		ends = false;
	}
	uint32_t hdr_len = tagged ? DDP_TAGGED_HDR_LEN : DDP_UNTAGGED_HDR_LEN;
	uint32_t len = rn_min_u32(s->total - s->sent, c->mulpdu - hdr_len);
	struct rn_iov iov[QP_SEG_SLICES];
	uint32_t n;
	uint8_t *h;

	if (!tx_fits(c, stream_len(c, hdr_len, len)))
		return false;
	struct qp_rec *r = rec_begin(ctx, c, QP_CTRL_RECS, &h);
	if (r == NULL)
		return false;
	if (!s->started)
		qp_sq_start(c, s);
	if (!sq_payload(c, ctx, r, hdr_len, &len, iov, &n)) {
		qp_rec_put(ctx, r);
		qp_sq_fail(ctx, c, QP_WC_LOC_PROT_ERR);
		return false;
	}
	bool last = s->sent + len == s->total;
	const struct ddp_hdr hdr = tagged ? ddp_tagged(RDMAP_WRITE, last, s->w.rkey, s->w.raddr + s->sent)
					   : ddp_untagged((enum rdmap_opcode)send_opcode(&s->w), last,
							  s->w.op == QP_WR_SEND_INV ? s->w.aux : 0, s->msn, s->sent);
	ddp_build(h, &hdr);
	bool small = len <= MPA_TX_HDR_MAX - hdr_len;
	if (!finish(c, r, small ? hdr_len + len : hdr_len, iov, small ? 0 : n, small ? 0 : len)) {
		qp_rec_put(ctx, r);
		qp_sq_fail(ctx, c, QP_WC_LOC_QP_OP_ERR);
		return false;
	}
	if (!qp_tx_queue(ctx, c, r, last && ends ? s->wr : QP_WR_NONE))
		return false;
	s->sent += len;
	if (tagged)
		c->wrote = ends;
	if (last && ends) {
		s->loaded = false;
		c->tx_cur = QP_TX_NONE;
	}
	return true;
}

/* ---- which message is next ---- */

/* Loads the next work request; true when it may start now. */
static bool sq_ready(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_block *b = c->blk;
	enum qp_wc_status why;

	if (b->tx_stop || (c->qp->state != QP_S_RTS && c->state != QP_C_DRAINING) || b->wr_tail - b->wr_head > b->wr_mask)
		return false;
	if (!b->send.loaded) {
		switch (qp_sq_take(ctx, c->qp, &b->send, &why)) {
		case QP_TAKE_OK:
			break;
		case QP_TAKE_BAD:
			qp_sq_fail(ctx, c, why);
			return false;
		case QP_TAKE_BAD_RING:
			ctx->stats.bad_rings++;
			b->tx_stop = true;
			qp_event(ctx, c->qp, QP_EVENT_FATAL, 0);
			qp_terminate(ctx, c, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false), NULL);
			return false;
		case QP_TAKE_NONE:
		case QP_TAKE_STALL:
			return false;
		}
	}
	/* RFC 5040, 5.5: a fenced one waits for all answers before it; who is answered waits for a place in the depth. */
	if ((b->send.w.flags & QP_WF_FENCE) && rdmap_readq_count(&c->readq) > 0)
		return false;
	return rn_likely(b->send.w.op < QP_WR_READ) || !qp_op_answered(b->send.w.op) || !rdmap_readq_full(&c->readq);
}

/* One message is finished before another begins; work requests and the peer's Reads take turns. */
static bool next_message(struct qp_ctx *ctx, struct qp_conn *c)
{
	bool resp = c->blk->resp_head != c->blk->resp_tail;

	if (resp && c->tx_turn == QP_TX_SQ) {
		c->tx_cur = QP_TX_RESP;
	} else if (sq_ready(ctx, c)) {
		c->tx_cur = QP_TX_SQ;
	} else if (resp && qp_conn_streaming(c)) {
		c->tx_cur = QP_TX_RESP;
	} else {
		return false;
	}
	c->tx_turn = c->tx_cur;
	return true;
}

/* An FPDU that moves no data: a Write or Read of no bytes, which touches no memory, or one without a ULPDU. */
static bool send_empty(struct qp_ctx *ctx, struct qp_conn *c, enum mpa_rtr what)
{
	struct ddp_hdr hdr = ddp_tagged(RDMAP_WRITE, true, 0, 0);
	const struct rdmap_read_req q = { 0 };
	uint32_t n = 0;
	uint8_t *h;
	struct qp_rec *r = rec_begin(ctx, c, 0, &h);

	if (r == NULL)
		return false;
	if (what == MPA_RTR_WRITE) {
		n = ddp_build(h, &hdr);
	} else if (what == MPA_RTR_READ) {
		hdr = ddp_untagged(RDMAP_READ_REQ, true, 0, c->msn_read++, 0);
		n = ddp_build(h, &hdr);
		rdmap_read_req_build(h + n, &q);
		n += RDMAP_READ_REQ_LEN;
		rdmap_readq_post(&c->readq, 0, 0, 0, QP_WR_NONE);
	}
	if (!finish(c, r, n, NULL, 0, 0)) {
		qp_rec_put(ctx, r);
		return false;
	}
	return qp_tx_queue(ctx, c, r, QP_WR_NONE);
}

/* RFC 6581, 9.2: the initiator's first FPDU in the peer-to-peer model. */
static bool send_rtr(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (!send_empty(ctx, c, c->agreed.rtr))
		return false;
	c->rtr_due = false;
	return true;
}

/* RFC 5041, 5.2.1: nothing in it but its length is looked at. */
bool qp_tx_nudge(struct qp_ctx *ctx, struct qp_conn *c)
{
	return send_empty(ctx, c, MPA_RTR_WRITE);
}

/* Something that the peer must answer; false when it cannot be sent. */
bool qp_tx_ask(struct qp_ctx *ctx, struct qp_conn *c)
{
	return !rdmap_readq_full(&c->readq) && qp_conn_wake(ctx, c) && send_empty(ctx, c, MPA_RTR_READ);
}

/* Queues FPDUs until a full segment waits, so that each is sent while its bytes are still in the cache. */
void qp_tx_fill(struct qp_ctx *ctx, struct qp_conn *c)
{
	if (rn_unlikely(c->blk == NULL)) {
		struct qp *qp = c->qp;
		if (qp == NULL)
			return;
		if (spsc_cons_avail(&qp->sq, qp->sq_taken + 1) <= qp->sq_taken && qp->sq.verdict == SPSC_OK)
			return;
		if (qp_blocks_for_senders(ctx) == 0) {
			ctx->stats.no_block++;
			qp_starve(ctx, c, QP_WANT_BLOCK);
			return;
		}
		if (!qp_conn_wake(ctx, c))
			return;
	}
	if (rn_unlikely(c->rtr_due) && !send_rtr(ctx, c))
		return;
	while ((c->state == QP_C_OPERATIONAL || c->state == QP_C_DRAINING) && c->qp != NULL) {
		if (c->tcp.q_end - c->tcp.snd_nxt >= tcpl_emss(&c->tcp) || tcpl_room(&c->tcp) <= QP_CTRL_CHUNKS)
			return;
		if (c->tx_cur == QP_TX_NONE && !next_message(ctx, c))
			return;
		if (!(c->tx_cur == QP_TX_RESP ? resp_segment(ctx, c) : sq_segment(ctx, c)))
			return;
	}
}

/* Nothing of ours is on the way or waits. */
bool qp_tx_idle(const struct qp_conn *c)
{
	const struct qp_block *b = c->blk;

	if (b == NULL)
		return true;
	return tcpl_idle(&c->tcp) && !c->rtr_due && b->wr_head == b->wr_tail && !b->send.loaded &&
	       b->resp_head == b->resp_tail;
}
