/* SPDX-License-Identifier: BSD-3-Clause */
/* Begin and end of a sequence of messages, and what a peer's Terminate says about it (RFC 5040, 4.8 and 7). */
#include "qp/qp_hold.h"
#include "qp/qp_int.h"

void qp_work_init(struct qp_work *k)
{
	k->wr_head = k->wr_tail = 0;
	k->resp_head = k->resp_tail = 0;
	k->stop = false;
	k->send.loaded = k->send.started = false;
	k->recv.loaded = false;
}

void qp_msgs_init(struct qp_msgs *m, uint32_t ird, uint32_t ord)
{
	m->src = QP_SRC_NONE;
	m->msn_send = m->msn_read = m->msn_atomic = 1;
	m->write_len = m->imm_len = 0;
	m->imm_held = m->wrote = false;
	m->write_stag = 0;
	m->write_to = 0;
	m->peer = NULL;
	m->peer_qpn = 0;
	ddp_uq_init(&m->uq_send);
	ddp_uq_init(&m->uq_read);
	ddp_uq_init(&m->uq_atomic);
	rdmap_readq_init(&m->readq, m->work->read, QP_MAX_RD_ATOMIC, ord);
	rdmap_ird_init(&m->ird, ird);
}

void qp_attach(struct qp_msgs *m, struct qp *qp)
{
	m->qp = qp;
	m->dev = qp->dev;
	if (!qp->many)
		qp->msgs = m;
	qp->rung = true; /* work may have been posted while another worker, or none, had the QP */
}

static void let_go(struct qp_msgs *m)
{
	if (m->qp != NULL)
		m->qp->msgs = NULL;
	m->qp = NULL;
}

void qp_unanswered(struct qp_msgs *m)
{
	struct qp_work *k = m->work;

	if (k != NULL && k->wr_head != k->wr_tail && !k->wr[k->wr_head & k->wr_mask].done)
		k->wr[k->wr_head & k->wr_mask].status = QP_WC_RETRY_EXC_ERR;
}

/*
 * Ends a sequence, but not the QP, as a peer that has destroyed its QP is merely silent on InfiniBand. Work under way
 * goes back to the queue and waits there with the work not begun. A message that the carrier has given up fails.
 */
static void keep(struct qp_ctx *ctx, struct qp *qp, struct qp_msgs *m)
{
	const struct qp_cqe cut = { .status = QP_WC_WR_FLUSH_ERR };
	struct qp_work *k = m->work;

	if (k == NULL)
		return;
	if (k->recv.loaded && qp->srq != NULL)
		qp_recv_cqe(ctx, qp, &k->recv, &cut, NULL); /* a receive taken from an SRQ cannot go back into it */
	if (k->send.loaded && !k->send.started)
		qp->sq_taken -= k->send.w.slots; /* back into the queue */
	k->send.loaded = k->recv.loaded = false;
	if (k->wr_head == k->wr_tail)
		return;
	if (qp->state != QP_S_RTS || k->wr[k->wr_head & k->wr_mask].status != QP_WC_SUCCESS) {
		qp_unanswered(m);
		qp_enter_error(ctx, qp);
		return;
	}
	for (; k->wr_head != k->wr_tail; k->wr_head++)
		qp->sq_taken -= k->wr[k->wr_head & k->wr_mask].slots;
}

void qp_detach(struct qp_ctx *ctx, struct qp_msgs *m, enum qp_end how)
{
	if (m->qp != NULL) {
		if (rn_unlikely(m->qp->holds))
			qp_hold_settle(ctx, m->qp, false);
		switch (how) {
		case QP_END_FLUSH: qp_enter_error(ctx, m->qp); break;
		case QP_END_KEEP: keep(ctx, m->qp, m); break;
		case QP_END_FAIL: qp_flush_work(ctx, m->qp, m->work); break;
		case QP_END_NEVER: break;
		}
	}
	let_go(m);
	m->src = QP_SRC_NONE;
	if (m->work != NULL) {
		m->work->send.loaded = false;
		m->work->resp_head = m->work->resp_tail;
	}
}

void qp_abandon(struct qp_msgs *m)
{
	struct qp_work *k = m->work;

	let_go(m);
	m->src = QP_SRC_NONE;
	if (k == NULL)
		return;
	k->wr_head = k->wr_tail;
	k->send.loaded = k->recv.loaded = false;
	k->resp_head = k->resp_tail;
}

/* ---- blame ---- */

/* Whether the copied headers are of a segment of this work request. */
static bool names(const struct qp_wr *wr, const struct rdmap_term *t, const struct ddp_hdr *h)
{
	if (wr->op == QP_WR_READ)
		return t->has_read_req && t->read_req.src_stag == wr->key &&
		       (t->read_req.src_to == wr->raddr || (wr->sinks > 1 && t->read_req.src_to - wr->raddr < wr->len));
	if (wr->op == QP_WR_WRITE_IMM && !h->tagged)
		return h->qn == DDP_QN_SEND && (uint16_t)h->msn == wr->imm_msn;
	if (wr->op == QP_WR_WRITE || wr->op == QP_WR_WRITE_IMM)
		return h->tagged && h->stag == wr->key && h->to - wr->raddr <= wr->len;
	return !h->tagged && h->qn == (qp_op_answered(wr->op) ? DDP_QN_READ_REQ : DDP_QN_SEND) && h->msn == wr->key;
}

/*
 * Finds the work request that the copied headers are about. The headers are the peer's claim, so only work requests
 * under way count. The peer has discarded all messages after the blamed one, so later work requests are not done, even
 * if acknowledged.
 */
static struct qp_wr *blamed(struct qp_work *k, const struct rdmap_term *t)
{
	struct qp_wr *found = NULL;
	struct ddp_hdr h = { 0 };

	if (t->ddp_len == 0 || ddp_parse(t->ddp, t->ddp_len, &h) == DDP_TOO_SHORT)
		return NULL;
	for (uint32_t i = k->wr_head; i != k->wr_tail; i++) {
		struct qp_wr *wr = &k->wr[i & k->wr_mask];

		if (wr->done == QP_WR_TOLD)
			continue;
		if (found != NULL)
			wr->done = 0;
		else if ((!wr->done || !qp_op_answered(wr->op)) && names(wr, t, &h))
			found = wr;
	}
	return found;
}

/* sparing: a peer without a receive gives RNR_RETRY_EXC_ERR, as on InfiniBand. */
static enum qp_wc_status status_of(struct iw_err e, bool atomic, bool sparing)
{
	bool tagged = e.layer == IW_LAYER_DDP && e.etype == IW_DDP_TAGGED;
	bool untagged = e.layer == IW_LAYER_DDP && e.etype == IW_DDP_UNTAGGED;

	if (tagged || (e.layer == IW_LAYER_RDMAP && e.etype == IW_RDMAP_PROTECTION))
		return QP_WC_REM_ACCESS_ERR;
	/* An Atomic with a bad address is refused as an operation (RFC 7306, 8.2). */
	if (atomic && e.layer == IW_LAYER_RDMAP && e.etype == IW_RDMAP_OPERATION)
		return QP_WC_REM_INV_REQ_ERR;
	if (untagged && e.code == IW_DU_NO_BUFFER && sparing)
		return QP_WC_RNR_RETRY_EXC_ERR;
	return untagged ? QP_WC_REM_INV_REQ_ERR : QP_WC_REM_OP_ERR;
}

void qp_blame(struct qp_msgs *m, const struct rdmap_term *t)
{
	struct qp_wr *wr = m->work != NULL ? blamed(m->work, t) : NULL;

	if (wr != NULL)
		wr->status = (uint8_t)status_of(t->err, qp_op_answered(wr->op) && wr->op != QP_WR_READ,
						m->qp != NULL && m->qp->sparing);
}

void qp_terminated(struct qp_ctx *ctx, struct qp_msgs *m, const struct rdmap_term *t)
{
	bool access = status_of(t->err, false, false) == QP_WC_REM_ACCESS_ERR;

	qp_event_too(ctx, m->qp, access ? QP_EVENT_ACCESS_ERR : QP_EVENT_FATAL, m->qp->vendor_err);
}
