/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles a DDP segment in its turn: checks, places, advances, and delivers the message with its last segment (RFC
 * 5040, 5; RFC 5041, 5).
 */
#include "base/rn_be.h"
#include "qp/qp_hold.h"
#include "qp/qp_imm.h"
#include "qp/qp_int.h"

static enum qp_event event_of(struct iw_err e)
{
	if (e.layer == IW_LAYER_RDMAP && (e.etype == IW_RDMAP_LOCAL || e.code == IW_RO_CATASTROPHIC_STREAM))
		return QP_EVENT_FATAL;
	if (e.layer == IW_LAYER_DDP && e.etype == IW_DDP_TAGGED)
		return QP_EVENT_ACCESS_ERR;
	return e.layer == IW_LAYER_RDMAP && e.etype == IW_RDMAP_PROTECTION ? QP_EVENT_ACCESS_ERR : QP_EVENT_REQ_ERR;
}

enum qp_push qp_push_refuse(struct qp_ctx *ctx, struct qp_msgs *m, struct iw_err e, bool named)
{
	if (!m->qp->many) /* with many peers, one peer's fault ends its sequence only, without an event */
		qp_event(ctx, m->qp, event_of(e), qp_vendor_err(e));
	qp_fail(m, e, named);
	return QP_PUSH_FAILED;
}

void qp_push_malformed(struct qp_ctx *ctx, struct qp_msgs *m, enum ddp_verdict v, const struct ddp_hdr *h)
{
	ctx->stats.ddp_errors++;
	qp_event(ctx, m->qp, QP_EVENT_REQ_ERR, 0);
	qp_fail(m, ddp_verdict_err(v, h), true);
}

/* The error for a refused Write: DDP's (RFC 5041, 8.1), but RDMAP's for a missing right (RFC 5040, 7.1). */
static struct iw_err write_err(enum qp_mr_verdict v)
{
	switch (v) {
	case QP_MR_BAD_STAG: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, false);
	case QP_MR_BAD_PD: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_STREAM, false);
	case QP_MR_BAD_RIGHTS: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, false);
	case QP_MR_BAD_BOUNDS: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, false);
	case QP_MR_TO_WRAP: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_TO_WRAP, false);
	case QP_MR_OK:
	case QP_MR_TOO_MANY:
	case QP_MR_FULL:
	case QP_MR_BAD_ATTR: break;
	}
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false);
}

/* The error for a refused source of a Read Request (RFC 5040, 7.1) or a refused target of an Atomic (RFC 7306, 8). */
struct iw_err qp_source_err(enum qp_mr_verdict v, bool read)
{
	switch (v) {
	case QP_MR_BAD_STAG: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID, read);
	case QP_MR_BAD_PD: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_STREAM, read);
	case QP_MR_BAD_RIGHTS: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, read);
	case QP_MR_BAD_BOUNDS: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_BASE_BOUNDS, read);
	case QP_MR_TO_WRAP: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_TO_WRAP, read);
	case QP_MR_OK:
	case QP_MR_TOO_MANY:
	case QP_MR_FULL:
	case QP_MR_BAD_ATTR: break;
	}
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, read);
}

/* A zero-length Write touches no memory (RFC 5040, 5.2); ours may carry the next Send's immediate: qp_imm.h. */
static void write_of_nothing(struct qp_msgs *m, const struct ddp_hdr *h)
{
	if (h->stag != QP_IMM_STAG || h->to >> 32 != QP_IMM_MARK)
		return;
	m->imm = (uint32_t)h->to;
	m->imm_held = true;
}

static inline enum qp_push rx_write(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
				    const struct rn_iov *ulpdu, uint32_t n)
{
	struct rn_iov iov[QP_ULPDU_IOV];

	if (rn_unlikely(h->payload_len == 0)) {
		write_of_nothing(m, h);
	} else if (ulpdu != NULL) {
		struct qp_access a = { .pd = qp_peer_pd(m->qp),
				       .stag = h->stag,
				       .to = h->to,
				       .len = h->payload_len,
				       .rights = QP_ACC_REMOTE_WRITE,
				       .qpn = m->qp->qpn,
				       .last = h->last };
		enum qp_mr_verdict mr = QP_MR_BAD_RIGHTS;

		if (rn_likely(m->qp->access & QP_ACC_REMOTE_WRITE))
			mr = qp_place(ctx, m->dev, &a, iov, qp_payload(h, ulpdu, n, iov));
		else if (m->qp->holds)
			mr = qp_hold_write(ctx, m->qp, &a, iov, qp_payload(h, ulpdu, n, iov));
		if (rn_unlikely(mr != QP_MR_OK)) {
			if (mr == QP_MR_BAD_PD && qp_xrc_other_pd(m->qp, &a))
				mr = qp_place(ctx, m->dev, &a, iov, qp_payload(h, ulpdu, n, iov));
			if (mr != QP_MR_OK) {
				ctx->stats.access_errors++;
				return qp_push_refuse(ctx, m, write_err(mr), true);
			}
		}
		ctx->stats.bytes_placed += h->payload_len;
	}
	m->write_len += h->payload_len;
	if (!h->last)
		return QP_PUSH_OK;
	m->imm_len = m->write_len;
	m->write_len = 0;
	return QP_PUSH_DELIVERED;
}

/*
 * The error for a bad receive of our own. It is not reported as a local error, whose Terminate names no message (RFC
 * 5040, 4.8), so that the sender learns which Send failed.
 */
static struct iw_err recv_err(void)
{
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, false);
}

/* Completes the receive with an error, then fails the sequence. */
static enum qp_push recv_fail(struct qp_ctx *ctx, struct qp_msgs *m, enum qp_wc_status status, struct iw_err e)
{
	const struct qp_cqe with = { .status = (uint8_t)status, .vendor_err = qp_vendor_err(e) };

	qp_recv_cqe(ctx, m->qp, &m->work->recv, &with, m->peer);
	m->work->recv.loaded = false;
	qp_event_too(ctx, m->qp, event_of(e), qp_vendor_err(e));
	qp_fail(m, e, true);
	return QP_PUSH_FAILED;
}

/*
 * Takes the receive of the message that begins. OK also if no receive is posted and the message cannot wait: then
 * ddp_uq_check() fails later.
 */
static enum qp_push recv_load(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h, bool waits)
{
	/*
	 * A message that names no SRQ of the domain is refused like one for an unknown queue (RFC 5041, 8.2), so its
	 * sender gets an invalid request, as on InfiniBand.
	 */
	if (rn_unlikely(m->qp->xrc != QP_XRC_NONE) && !qp_xrc_choose(ctx, m->qp, h))
		return qp_push_refuse(ctx, m, iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_QN, false), true);
	enum qp_take t = qp_rq_take(ctx, m->qp, &m->work->recv);

	if (rn_unlikely(t == QP_TAKE_NONE) && waits && m->keeps && m->qp->rnr_ns != 0) {
		qp_recv_ask(ctx, m->qp);
		t = qp_rq_take(ctx, m->qp, &m->work->recv);
		if (t == QP_TAKE_NONE)
			return QP_PUSH_NOT_READY;
	}
	switch (t) {
	case QP_TAKE_BAD: return recv_fail(ctx, m, QP_WC_LOC_QP_OP_ERR, recv_err());
	case QP_TAKE_BAD_RING: ctx->stats.bad_rings++; return qp_push_refuse(ctx, m, recv_err(), true);
	case QP_TAKE_OK:
		if (rn_unlikely(m->qp->many))
			qp_rq_keep(ctx, m->qp, &m->work->recv);
		break;
	case QP_TAKE_NONE: break;
	}
	return QP_PUSH_OK;
}

static enum qp_push send_deliver(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h)
{
	const struct rdmap_op *op = rdmap_op_of(h->opcode);
	struct qp_cqe with = { .byte_len = h->mo + h->payload_len, .solicited = op->solicited, .src_qp = m->peer_qpn };

	if (op->invalidates) { /* before the message is delivered: RFC 5040, 5.3 */
		if (qp_mr_invalidate(m->dev, m->qp->pd, m->qp->qpn, h->stag) != QP_MR_OK) {
			ctx->stats.access_errors++;
			const struct iw_err e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALIDATE,
							  false);
			return qp_push_refuse(ctx, m, e, true);
		}
		with.flags = QP_WCF_WITH_INV;
		with.aux = h->stag;
	} else if (rn_unlikely(m->imm_held)) {
		with.flags = QP_WCF_WITH_IMM;
		rn_store_be32((uint8_t *)&with.aux, m->imm);
		m->imm_held = false;
	}
	m->imm_len = 0; /* an immediate belongs to the Write right before it */
	m->work->recv.loaded = false;
	qp_recv_cqe(ctx, m->qp, &m->work->recv, &with, m->peer);
	return QP_PUSH_DELIVERED;
}

static inline enum qp_push rx_send(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
				   const struct rn_iov *ulpdu, uint32_t n)
{
	struct qp_recv *r = &m->work->recv;
	struct rn_iov iov[QP_ULPDU_IOV];

	if (!r->loaded) {
		enum qp_push p = recv_load(ctx, m, h, ulpdu != NULL);
		if (rn_unlikely(p != QP_PUSH_OK))
			return p;
	}
	enum rdmap_verdict u = ddp_uq_check(&m->uq_send, h, r->loaded, r->len);
	if (rn_unlikely(u > RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		if (u == RDMAP_TOO_LONG)
			return recv_fail(ctx, m, QP_WC_LOC_LEN_ERR, rdmap_verdict_err(u, h));
		return qp_push_refuse(ctx, m, rdmap_verdict_err(u, h), true);
	}
	if (ulpdu != NULL && h->payload_len > 0) {
		if (qp_rq_place(ctx, m->qp, r, h, iov, qp_payload(h, ulpdu, n, iov)) != QP_MR_OK)
			return recv_fail(ctx, m, QP_WC_LOC_PROT_ERR, recv_err());
		ctx->stats.bytes_placed += h->payload_len;
	}
	ddp_uq_advance(&m->uq_send, h);
	return u == RDMAP_DONE ? send_deliver(ctx, m, h) : QP_PUSH_OK;
}

/* RFC 7306, 6.3: takes a receive, and does not use its memory. */
static enum qp_push rx_imm(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h, const struct rn_iov *ulpdu,
			   uint32_t n)
{
	struct qp_cqe with = { .op = QP_WC_RECV_RDMA_WITH_IMM,
			       .flags = QP_WCF_WITH_IMM,
			       .byte_len = m->imm_len,
			       .solicited = rdmap_op_of(h->opcode)->solicited,
			       .src_qp = m->peer_qpn };
	struct qp_recv *r = &m->work->recv;
	struct rn_iov iov[QP_ULPDU_IOV];

	if (!r->loaded) {
		enum qp_push p = recv_load(ctx, m, h, ulpdu != NULL);
		if (rn_unlikely(p != QP_PUSH_OK))
			return p;
	}
	enum rdmap_verdict u = ddp_uq_check(&m->uq_send, h, r->loaded, RDMAP_IMM_LEN);
	if (rn_unlikely(u != RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		return qp_push_refuse(ctx, m, rdmap_verdict_err(u, h), true);
	}
	rn_iov_gather(iov, qp_payload(h, ulpdu, n, iov), (uint8_t *)&with.aux, sizeof(with.aux));
	ddp_uq_advance(&m->uq_send, h);
	m->imm_len = 0;
	r->loaded = false;
	qp_recv_cqe(ctx, m->qp, r, &with, m->peer);
	return QP_PUSH_DELIVERED;
}

static enum qp_mr_verdict source_check(const struct qp_msgs *m, const struct rdmap_read_req *q)
{
	struct qp_access a = { .pd = qp_peer_pd(m->qp),
			       .stag = q->src_stag,
			       .to = q->src_to,
			       .len = q->len,
			       .rights = QP_ACC_REMOTE_READ,
			       .qpn = m->qp->qpn };

	if (q->len == 0)
		return QP_MR_OK;
	if (q->sink_to > UINT64_MAX - (q->len - 1))
		return QP_MR_TO_WRAP;
	if ((m->qp->access & QP_ACC_REMOTE_READ) == 0)
		return QP_MR_BAD_RIGHTS;
	enum qp_mr_verdict v = qp_mr_check(m->dev, &a);
	return rn_unlikely(v == QP_MR_BAD_PD) && qp_xrc_other_pd(m->qp, &a) ? qp_mr_check(m->dev, &a) : v;
}

static inline enum qp_push rx_read_req(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
				       const struct rn_iov *ulpdu, uint32_t n)
{
	uint8_t scratch[RDMAP_READ_REQ_LEN];
	struct rdmap_read_req q;

	enum rdmap_verdict u = ddp_uq_check(&m->uq_read, h, m->ird.used < m->ird.depth, RDMAP_READ_REQ_LEN);
	if (rn_unlikely(u != RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		return qp_push_refuse(ctx, m, rdmap_verdict_err(u, h), true);
	}
	rdmap_read_req_parse(qp_payload_head(h, ulpdu, n, scratch, sizeof(scratch)), &q);
	enum qp_mr_verdict mr = source_check(m, &q);
	if (rn_unlikely(mr != QP_MR_OK)) {
		ctx->stats.access_errors++;
		return qp_push_refuse(ctx, m, qp_source_err(mr, true), true);
	}
	qp_place_settle(ctx); /* the Read reads what earlier Writes have placed */
	ddp_uq_advance(&m->uq_read, h);
	if (rdmap_ird_take(&m->ird) == RDMAP_OK) {
		struct qp_resp *p = qp_resp_add(m->work);
		p->r = q;
		p->sent = 0;
		p->msn = h->msn;
		p->is_atomic = false;
	}
	return QP_PUSH_OK;
}

static inline enum qp_push rx_read_resp(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
					const struct rn_iov *ulpdu, uint32_t n)
{
	struct qp_work *k = m->work;
	struct rn_iov iov[QP_ULPDU_IOV];

	enum rdmap_verdict u = rdmap_readq_check(&m->readq, h);
	if (rn_unlikely(u > RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		return qp_push_refuse(ctx, m, rdmap_verdict_err(u, h), true);
	}
	const struct rdmap_read *rd = rdmap_readq_head(&m->readq);
	struct qp_wr *wr = rd->cookie != QP_WR_NONE ? &k->wr[rd->cookie & k->wr_mask] : NULL;
	if (ulpdu != NULL && h->payload_len > 0) {
		/* The sink needs local write access only: the peer writes where our Read asked it to. */
		const struct qp_access a = { .pd = m->qp->pd,
					     .stag = rd->stag,
					     .to = rd->to + rd->got,
					     .len = h->payload_len,
					     .rights = QP_ACC_LOCAL_WRITE,
					     .last = h->last };
		enum qp_mr_verdict mr = qp_place(ctx, m->dev, &a, iov, qp_payload(h, ulpdu, n, iov));
		if (rn_unlikely(mr != QP_MR_OK)) {
			if (wr != NULL)
				wr->status = QP_WC_LOC_PROT_ERR;
			return qp_push_refuse(ctx, m, qp_local_err(), false);
		}
		ctx->stats.bytes_placed += h->payload_len;
	}
	rdmap_readq_advance(&m->readq, h);
	if (u == RDMAP_DONE) {
		if (wr != NULL)
			wr->done = --wr->due == 0;
		if (qp_complete(ctx, m) == QP_PULL_FAILED)
			return QP_PUSH_FAILED;
	}
	return QP_PUSH_OK;
}

RN_STRAIGHT enum qp_push qp_push(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
				 const struct rn_iov *ulpdu, uint32_t n)
{
	if (rn_unlikely(m->qp->holds) && h->opcode != RDMAP_WRITE)
		qp_hold_settle(ctx, m->qp, h->opcode == RDMAP_ATOMIC_REQ);
	switch ((enum rdmap_opcode)h->opcode) {
	case RDMAP_WRITE: return rx_write(ctx, m, h, ulpdu, n);
	case RDMAP_READ_RESP: return rx_read_resp(ctx, m, h, ulpdu, n);
	case RDMAP_SEND:
	case RDMAP_SEND_INV:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INV: return rx_send(ctx, m, h, ulpdu, n);
	case RDMAP_READ_REQ: return rx_read_req(ctx, m, h, ulpdu, n);
	case RDMAP_TERMINATE: return QP_PUSH_TERMINATE;
	case RDMAP_IMM:
	case RDMAP_IMM_SE: return rx_imm(ctx, m, h, ulpdu, n);
	case RDMAP_ATOMIC_REQ: return qp_push_atomic_req(ctx, m, h, ulpdu, n);
	case RDMAP_ATOMIC_RESP: return qp_push_atomic_resp(ctx, m, h, ulpdu, n);
	}
	return QP_PUSH_OK;
}
