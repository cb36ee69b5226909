/* SPDX-License-Identifier: BSD-3-Clause */
/* The send queue: work requests are copied, the copy is checked, and from then on only the copy is used. */
#include "qp/qp_int.h"

enum qp_wc_status qp_mr_status(enum qp_mr_verdict v) { return v == QP_MR_OK ? QP_WC_SUCCESS : QP_WC_LOC_PROT_ERR; }

/* Checks the fields that give the work request's length. */
static bool shape_good(const struct qp_wqe *w, bool many)
{
	uint32_t bytes = w->flags & QP_WF_INLINE ? w->inline_len : w->num_sge * (uint32_t)sizeof(struct qp_sge);

	if (w->op >= QP_WR_OPS || w->num_sge > QP_MAX_SGE || w->inline_len > QP_MAX_INLINE)
		return false;
	return w->slots == qp_wqe_slots(bytes) + many; /* the last slot names the destination */
}

/* Checks the memory that the work request names, and adds up its length. */
RN_STRAIGHT enum qp_wc_status qp_sq_check_local(const struct qp *qp, struct qp_send *s)
{
	const uint32_t rights = qp_op_answered(s->w.op) ? QP_ACC_LOCAL_WRITE : 0;
	uint64_t total = 0;

	for (uint32_t i = 0; i < s->w.num_sge; i++) {
		const struct qp_sge *g = &s->u.sge[i];
		const struct qp_access a = {
			.pd = qp->pd, .stag = g->lkey, .to = g->addr, .len = g->len, .rights = rights
		};
		enum qp_mr_verdict v = qp_mr_check(qp->dev, &a);

		if (v != QP_MR_OK)
			return qp_mr_status(v);
		total += g->len;
	}
	if (total > QP_MSG_MAX)
		return QP_WC_LOC_LEN_ERR;
	s->total = (uint32_t)total;
	return QP_WC_SUCCESS;
}

/*
 * As qp_sq_check_local(), for a message of one SGE whose memory is only read. The slice is kept for the next qp_pull,
 * since most messages are one segment.
 */
static inline enum qp_wc_status check_only(const struct qp *qp, struct qp_send *s)
{
	const struct qp_sge *g = &s->u.sge[0];
	const struct qp_access a = { .pd = qp->pd, .stag = g->lkey, .to = g->addr, .len = g->len };
	uint32_t n;
	enum qp_mr_verdict v = qp_mr_slices(qp->dev, &a, &s->only, 1, &n);

	if (rn_unlikely(v != QP_MR_OK && v != QP_MR_TOO_MANY))
		return qp_mr_status(v);
	if (rn_unlikely(g->len > QP_MSG_MAX))
		return QP_WC_LOC_LEN_ERR;
	s->found = v == QP_MR_OK && n == 1;
	s->total = g->len;
	return QP_WC_SUCCESS;
}

static bool to_wraps(const struct qp_send *s) { return s->total > 0 && s->w.raddr > UINT64_MAX - (s->total - 1); }

/* Checks operations after READ; their SGEs or inline data have been checked. */
static enum qp_wc_status check_op(const struct qp_msgs *m, struct qp_send *s)
{
	const struct qp_wqe *w = &s->w;

	switch ((enum qp_wr_op)w->op) {
	case QP_WR_WRITE_IMM: return to_wraps(s) ? QP_WC_LOC_LEN_ERR : QP_WC_SUCCESS;
	case QP_WR_CMP_SWAP:
	case QP_WR_FETCH_ADD:
		if ((w->flags & QP_WF_INLINE) || w->num_sge != 1 || m->readq.ord == 0)
			return QP_WC_LOC_QP_OP_ERR;
		if (s->total < sizeof(uint64_t))
			return QP_WC_LOC_LEN_ERR;
		s->total = sizeof(uint64_t);
		return QP_WC_SUCCESS;
	case QP_WR_LOCAL_INV:
	case QP_WR_BIND_MW: return w->num_sge > 0 || w->inline_len > 0 ? QP_WC_LOC_QP_OP_ERR : QP_WC_SUCCESS;
	case QP_WR_SEND_IMM:
	case QP_WR_SEND:
	case QP_WR_SEND_INV:
	case QP_WR_WRITE:
	case QP_WR_READ:
	case QP_WR_OPS: break;
	}
	return QP_WC_SUCCESS;
}

static inline enum qp_wc_status check(const struct qp_msgs *m, struct qp_send *s)
{
	s->total = s->w.inline_len;
	if (s->w.flags & QP_WF_INLINE) {
		if (s->w.op == QP_WR_READ)
			return QP_WC_LOC_QP_OP_ERR;
	} else {
		bool one = rn_likely(s->w.num_sge == 1) && !qp_op_answered(s->w.op);
		enum qp_wc_status e = one ? check_only(m->qp, s) : qp_sq_check_local(m->qp, s);
		if (e != QP_WC_SUCCESS)
			return e;
	}
	if (s->w.op == QP_WR_READ && m->readq.ord == 0)
		return QP_WC_LOC_QP_OP_ERR; /* the agreed depth is 0 */
	if ((s->w.op == QP_WR_READ || s->w.op == QP_WR_WRITE) && to_wraps(s))
		return QP_WC_LOC_LEN_ERR;
	return rn_likely(s->w.op <= QP_WR_READ) ? QP_WC_SUCCESS : check_op(m, s);
}

/* Whether the client has posted more. Its index comes from another CPU's cache, so one look per doorbell is enough. */
static bool more_posted(struct qp *qp)
{
	if (!qp->rung)
		return false;
	qp->rung = false;
	return spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken;
}

/*
 * Copies the next work request. OK: checked and ready to go. BAD: *why says what is wrong, the copy has the wr_id.
 * BAD_RING: the client wrote an impossible index.
 */
RN_STRAIGHT enum qp_take qp_sq_take(struct qp_ctx *ctx, struct qp_msgs *m, struct qp_send *s, enum qp_wc_status *why)
{
	struct qp *qp = m->qp;

	if (qp->sq.seen - qp->sq.own <= qp->sq_taken && !more_posted(qp))
		return rn_likely(qp->sq.verdict == SPSC_OK) ? QP_TAKE_NONE : QP_TAKE_BAD_RING;
	/* four or more work requests ahead: their cache lines are still with the client's core */
	__builtin_prefetch(spsc_cons_slot(&qp->sq, qp->sq_taken + 8));
	__builtin_prefetch(spsc_cons_slot(&qp->sq, qp->sq_taken + 9));
	memcpy(&s->w, spsc_cons_slot(&qp->sq, qp->sq_taken), sizeof(s->w));
	s->sent = s->at = s->at_off = 0;
	s->started = s->found = false;
	s->loaded = true;
	ctx->stats.wqes++;
	uint32_t end = qp->sq_taken + s->w.slots;
	bool whole = shape_good(&s->w, qp->many) && spsc_cons_avail(&qp->sq, end) >= end;
	if (rn_unlikely(!whole)) {
		s->w.slots = 1;
		s->w.op = QP_WR_SEND; /* the copy has no valid operation */
		ctx->stats.bad_wqes++;
		*why = QP_WC_LOC_QP_OP_ERR;
	} else {
		uint32_t bytes = s->w.flags & QP_WF_INLINE ? s->w.inline_len
							   : s->w.num_sge * (uint32_t)sizeof(struct qp_sge);
		uint32_t here = rn_min_u32(bytes, QP_SLOT_SIZE - QP_WQE_FIXED);
		memcpy(&s->u, (const uint8_t *)&s->w + QP_WQE_FIXED, QP_SLOT_SIZE - QP_WQE_FIXED);
		if (rn_unlikely(bytes > here))
			spsc_cons_copy(&qp->sq, qp->sq_taken + 1, (uint8_t *)&s->u + here, bytes - here);
		*why = check(m, s);
	}
	qp->sq_taken += s->w.slots;
	if (rn_unlikely(qp_op_answered(s->w.op)) && qp->many)
		qp->reads_open++;
	return rn_likely(*why == QP_WC_SUCCESS) ? QP_TAKE_OK : QP_TAKE_BAD;
}

/*
 * Finds the slices of the next *len bytes of the message; *len shrinks if they would be more than QP_SEG_SLICES. Each
 * range is looked up anew: the memory may have been deregistered since the last segment.
 */
uint32_t qp_sq_slices(struct qp *qp, struct qp_send *s, uint32_t *len, struct rn_iov *out, enum qp_mr_verdict *v)
{
	uint32_t n = 0, done = 0;

	*v = QP_MR_OK;
	while (done < *len && n < QP_SEG_SLICES) {
		const struct qp_sge *g = &s->u.sge[s->at];
		uint32_t take = rn_min_u32(g->len - s->at_off, *len - done);
		struct qp_access a = { .pd = qp->pd, .stag = g->lkey, .to = g->addr + s->at_off, .len = take };
		uint32_t k = 0;

		*v = qp_mr_slices(qp->dev, &a, out + n, QP_SEG_SLICES - n, &k);
		if (*v == QP_MR_TOO_MANY)
			take = (uint32_t)rn_iov_len(out + n, k); /* the bytes that fit into the slices */
		else if (*v != QP_MR_OK)
			return 0;
		*v = QP_MR_OK;
		n += k;
		done += take;
		s->at_off += take;
		if (s->at_off == g->len) {
			s->at++;
			s->at_off = 0;
		}
	}
	*len = done;
	return n;
}

/*
 * Completes finished work requests without waiting for older ones. A failed work request ends the sequence in its turn.
 */
static void complete_any(struct qp_ctx *ctx, struct qp_msgs *m)
{
	struct qp_work *k = m->work;

	for (uint32_t i = k->wr_head; i != k->wr_tail; i++) {
		struct qp_wr *wr = &k->wr[i & k->wr_mask];

		if (wr->done != QP_WR_DONE || wr->status != QP_WC_SUCCESS)
			continue;
		wr->done = QP_WR_TOLD;
		qp_taken_cqe(ctx, m->qp, wr, QP_WC_SUCCESS);
	}
	while (k->wr_head != k->wr_tail && k->wr[k->wr_head & k->wr_mask].done == QP_WR_TOLD)
		k->wr_head++;
}

enum qp_pull qp_complete(struct qp_ctx *ctx, struct qp_msgs *m)
{
	struct qp_work *k = m->work;
	struct qp *qp = m->qp;

	if (qp == NULL || k == NULL)
		return QP_PULL_OK;
	if (m->unordered)
		complete_any(ctx, m);
	while (k->wr_head != k->wr_tail) {
		const struct qp_wr *wr = &k->wr[k->wr_head & k->wr_mask];

		if (!wr->done)
			return QP_PULL_OK;
		k->wr_head++;
		qp_taken_cqe(ctx, qp, wr, (enum qp_wc_status)wr->status);
		if (rn_unlikely(wr->status != QP_WC_SUCCESS)) {
			/* A fault of our own: the peer is told of a local catastrophic error (RFC 5040, 4.8). */
			qp_event_too(ctx, qp, QP_EVENT_FATAL, 0);
			qp_fail(m, qp_local_err(), false);
			return QP_PULL_FAILED;
		}
	}
	return QP_PULL_OK;
}
