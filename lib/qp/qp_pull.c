/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes segments of work requests and of the peer's Reads: chooses the next message, and cuts its next segment. */
#include "qp/qp_int.h"

/*
 * Fails a work request, of which no more is sent. Earlier work requests still complete, then this one does, and the
 * sequence ends.
 */
enum qp_pull qp_sq_fail(struct qp_ctx *ctx, struct qp_msgs *m, enum qp_wc_status why)
{
	struct qp_work *k = m->work;
	struct qp_wr *wr = k->send.started ? &k->wr[k->send.wr & k->wr_mask] : qp_sq_start(m, &k->send);

	wr->status = (uint8_t)why;
	wr->done = 1;
	k->send.loaded = false;
	k->stop = true;
	m->src = QP_SRC_NONE;
	return qp_complete(ctx, m) == QP_PULL_FAILED ? QP_PULL_FAILED : QP_PULL_NONE;
}

/* ---- which message is next ---- */

/* Loads the next work request. OK: it may start now. */
static inline enum qp_pull sq_ready(struct qp_ctx *ctx, struct qp_msgs *m)
{
	struct qp_work *k = m->work;
	enum qp_wc_status why;

	const bool goes_on = k->send.loaded && k->send.started; /* a Read with one more sink */
	const bool may_begin = (m->qp->state == QP_S_RTS || m->draining) && k->wr_tail - k->wr_head <= k->wr_mask;

	if (k->stop || !(may_begin || goes_on))
		return QP_PULL_NONE;
	if (!k->send.loaded) {
		if (rn_unlikely(m->qp->many))
			return QP_PULL_NONE; /* the carrier hands work requests over (qp_hand) */
		switch (qp_sq_take(ctx, m, &k->send, &why)) {
		case QP_TAKE_OK: break;
		case QP_TAKE_BAD: return qp_sq_fail(ctx, m, why);
		case QP_TAKE_BAD_RING:
			ctx->stats.bad_rings++;
			k->stop = true;
			qp_event(ctx, m->qp, QP_EVENT_FATAL, 0);
			qp_fail(m, qp_local_err(), false);
			return QP_PULL_FAILED;
		case QP_TAKE_NONE: return QP_PULL_NONE;
		}
	}
	/*
	 * RFC 5040, 5.5: a fenced work request waits for all answers before it; an operation with an answer waits for a
	 * place in the depth.
	 */
	if ((k->send.w.flags & QP_WF_FENCE) && !goes_on && rdmap_readq_count(&m->readq) > 0)
		return QP_PULL_NONE;
	if (rn_likely(k->send.w.op < QP_WR_READ) || !qp_op_answered(k->send.w.op) || !rdmap_readq_full(&m->readq))
		return QP_PULL_OK;
	return QP_PULL_NONE;
}

enum qp_pull qp_hand(struct qp_ctx *ctx, struct qp_msgs *m, const struct qp_send *s, enum qp_wc_status why)
{
	m->work->send = *s;
	m->work->send.found = false;
	if (why != QP_WC_SUCCESS && qp_sq_fail(ctx, m, why) == QP_PULL_FAILED)
		return QP_PULL_FAILED;
	return QP_PULL_OK;
}

/* One message is finished before another begins; work requests and the peer's Reads take turns. */
static inline enum qp_pull next_message(struct qp_ctx *ctx, struct qp_msgs *m)
{
	bool resp = m->work->resp_head != m->work->resp_tail;

	if (resp && m->src_turn == QP_SRC_SQ) {
		m->src = QP_SRC_RESP;
	} else {
		enum qp_pull v = sq_ready(ctx, m);

		if (rn_likely(v == QP_PULL_OK))
			m->src = QP_SRC_SQ;
		else if (v == QP_PULL_NONE && resp)
			m->src = QP_SRC_RESP;
		else
			return v;
	}
	m->src_turn = m->src;
	return QP_PULL_OK;
}

/* ---- the peer's Reads: RFC 5040, 5.1 ---- */

static inline enum qp_pull resp_pull(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, struct qp_seg *seg)
{
	struct qp_resp *p = qp_resp_oldest(m);

	if (rn_unlikely(p->is_atomic)) {
		qp_atomic_pull(m, seg);
		return QP_PULL_OK;
	}
	uint32_t len = qp_resp_len(p, max) - DDP_TAGGED_HDR_LEN;
	/* Looked up anew with each segment: the application may have deregistered the memory. */
	struct qp_access a = { .pd = qp_peer_pd(m->qp),
			       .stag = p->r.src_stag,
			       .to = p->r.src_to + p->sent,
			       .len = len,
			       .rights = QP_ACC_REMOTE_READ,
			       .qpn = m->qp->qpn };
	enum qp_mr_verdict v = qp_mr_slices(m->dev, &a, seg->iov, QP_SEG_SLICES, &seg->n);
	if (rn_unlikely(v == QP_MR_BAD_PD) && qp_xrc_other_pd(m->qp, &a))
		v = qp_mr_slices(m->dev, &a, seg->iov, QP_SEG_SLICES, &seg->n);
	if (v == QP_MR_TOO_MANY) {
		len = (uint32_t)rn_iov_len(seg->iov, seg->n);
	} else if (v != QP_MR_OK) {
		ctx->stats.access_errors++;
		qp_fail(m, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID, false), false);
		return QP_PULL_FAILED;
	}
	bool last = p->sent + len == p->r.len;
	const struct ddp_hdr hdr = ddp_tagged(RDMAP_READ_RESP, last, p->r.sink_stag, p->r.sink_to + p->sent);
	ddp_build(seg->hdr, &hdr);
	bool small = len <= QP_SEG_HDR_MAX - DDP_TAGGED_HDR_LEN;
	if (small)
		rn_iov_gather(seg->iov, seg->n, seg->hdr + DDP_TAGGED_HDR_LEN, len);
	seg->hdr_len = small ? DDP_TAGGED_HDR_LEN + len : DDP_TAGGED_HDR_LEN;
	seg->n = small ? 0 : seg->n;
	seg->len = small ? 0 : len;
	seg->wr = QP_WR_NONE;
	p->sent += len;
	if (last) {
		m->work->resp_head++;
		rdmap_ird_give(&m->ird);
		m->src = QP_SRC_NONE;
	}
	return QP_PULL_OK;
}

/* ---- our work requests ---- */

static uint8_t send_opcode(const struct qp_wqe *w)
{
	bool se = (w->flags & QP_WF_SOLICITED) != 0;

	if (w->op == QP_WR_SEND_INV)
		return se ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
	return se ? RDMAP_SEND_SE : RDMAP_SEND;
}

/* Whether the next segments are tagged: those of a Write, or of the Write in a Write with immediate. */
static bool is_tagged(const struct qp_send *s) { return s->w.op == QP_WR_WRITE || s->w.op == QP_WR_WRITE_IMM; }

/* Whether the next segment is neither one of a Send nor one of a Write's bytes. */
static bool is_op(const struct qp_send *s)
{
	return rn_unlikely(s->w.op >= QP_WR_READ) && (s->w.op != QP_WR_WRITE_IMM || s->sent == s->total);
}

/*
 * The payload of the segment, at most *len bytes. Up to `room` bytes are copied behind the header; more inline data go
 * to seg->inl, other payload is named by slices. Returns the number of slices; UINT32_MAX: the memory is not
 * accessible.
 */
static inline uint32_t sq_payload(struct qp_msgs *m, uint8_t *behind, uint32_t room, const struct qp_seg *seg,
				  uint32_t *len)
{
	struct qp_send *s = &m->work->send;
	struct rn_iov *iov = seg->iov;
	enum qp_mr_verdict v;

	if (s->w.flags & QP_WF_INLINE) {
		uint8_t *dst = *len <= room ? behind : seg->inl;

		memcpy(dst, s->u.data + s->sent, *len);
		iov[0] = (struct rn_iov){ .base = dst, .len = *len };
		return *len > 0;
	}
	uint32_t n = 1;
	if (s->found && *len == s->total) {
		iov[0] = s->only;
	} else {
		n = qp_sq_slices(m->qp, s, len, iov, &v);
		if (v != QP_MR_OK)
			return UINT32_MAX;
	}
	if (*len <= room)
		rn_iov_gather(iov, n, behind, *len);
	return n;
}

static inline enum qp_pull sq_pull(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, struct qp_seg *seg)
{
	struct qp_send *s = &m->work->send;

	if (is_op(s)) {
		qp_op_pull(m, seg);
		return QP_PULL_OK;
	}
	bool tagged = is_tagged(s), ends = s->w.op != QP_WR_WRITE_IMM;
	/*
	 * Values known here stay in locals (registers): seg may alias anything, so each store would make the compiler
	 * reload them.
	 */
	uint32_t hdr_len = tagged ? DDP_TAGGED_HDR_LEN : DDP_UNTAGGED_HDR_LEN, room = QP_SEG_HDR_MAX - hdr_len;
	uint32_t len = rn_min_u32(s->total - s->sent, max - hdr_len);
	uint8_t *hdr_at = seg->hdr;
	if (!s->started)
		qp_sq_start(m, s);
	uint32_t n = sq_payload(m, hdr_at + hdr_len, room, seg, &len);
	if (rn_unlikely(n == UINT32_MAX))
		return qp_sq_fail(ctx, m, QP_WC_LOC_PROT_ERR);
	bool last = s->sent + len == s->total;
	const struct ddp_hdr hdr = tagged ? ddp_tagged(RDMAP_WRITE, last, s->w.rkey, s->w.raddr + s->sent)
					  : ddp_untagged((enum rdmap_opcode)send_opcode(&s->w), last,
							 s->w.op == QP_WR_SEND_INV ? s->w.aux : qp_srqn(m->qp, &s->w),
							 s->msn, s->sent);
	ddp_build(hdr_at, &hdr);
	seg->wr = last && ends ? s->wr : QP_WR_NONE;
	s->sent += len;
	if (tagged) {
		m->wrote = ends;
		m->write_stag = s->w.rkey;
		m->write_to = s->w.raddr;
	} else if (rn_unlikely(s->w.op == QP_WR_SEND_INV)) {
		m->write_stag = 0; /* the peer may invalidate this very STag now */
		m->write_to = 0;
	}
	if (last && ends) {
		s->loaded = false;
		m->src = QP_SRC_NONE;
	}
	bool small = len <= room;
	seg->hdr_len = small ? hdr_len + len : hdr_len;
	seg->n = small ? 0 : n;
	seg->len = small ? 0 : len;
	return QP_PULL_OK;
}

/* ---- called by carriers ---- */

RN_STRAIGHT enum qp_pull qp_peek_next(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, uint32_t *len)
{
	for (;;) {
		if (m->src == QP_SRC_NONE) {
			enum qp_pull v = next_message(ctx, m);
			if (v != QP_PULL_OK)
				return v;
		}
		if (m->src == QP_SRC_RESP) {
			*len = qp_resp_len(qp_resp_oldest(m), max);
			return QP_PULL_OK;
		}
		const struct qp_send *s = &m->work->send;
		if (!is_op(s)) {
			*len = qp_cut_len(s, max);
			return QP_PULL_OK;
		}
		if (!qp_op_local(s)) {
			*len = qp_op_len(m);
			return QP_PULL_OK;
		}
		enum qp_pull v = qp_op_do_local(ctx, m);
		if (v != QP_PULL_OK)
			return v;
	}
}

RN_STRAIGHT enum qp_pull qp_pull(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, struct qp_seg *seg)
{
	return m->src == QP_SRC_RESP ? resp_pull(ctx, m, max, seg) : sq_pull(ctx, m, max, seg);
}

void qp_pull_empty(struct qp_msgs *m, enum qp_empty what, struct qp_seg *seg)
{
	const struct rdmap_read_req q = { 0 };
	struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, m->write_stag, m->write_to);

	if (what == QP_EMPTY_READ) {
		h = ddp_untagged(RDMAP_READ_REQ, true, 0, m->msn_read++, 0);
		(void)rdmap_readq_post(&m->readq, 0, 0, 0, QP_WR_NONE);
		rdmap_read_req_build(qp_pull_short(&h, seg), &q);
	} else {
		(void)qp_pull_short(&h, seg);
	}
}
