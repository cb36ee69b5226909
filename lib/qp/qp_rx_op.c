/* SPDX-License-Identifier: BSD-3-Clause */
/* One DDP segment in its turn: check, place, advance, and deliver with the last one (RFC 5040, 5; RFC 5041, 5). */
#include "base/rn_be.h"
#include "qp/qp_imm.h"
#include "qp/qp_priv.h"

static enum qp_event event_of(struct iw_err e)
{
	if (e.layer == IW_LAYER_RDMAP && (e.etype == IW_RDMAP_LOCAL || e.code == IW_RO_CATASTROPHIC_STREAM))
		return QP_EVENT_FATAL;
	if (e.layer == IW_LAYER_DDP && e.etype == IW_DDP_TAGGED)
		return QP_EVENT_ACCESS_ERR;
	return e.layer == IW_LAYER_RDMAP && e.etype == IW_RDMAP_PROTECTION ? QP_EVENT_ACCESS_ERR : QP_EVENT_REQ_ERR;
}

void qp_rx_refuse(struct qp_ctx *ctx, struct qp_conn *c, struct iw_err e, const struct mpa_view *v)
{
	qp_event(ctx, c->qp, event_of(e), qp_vendor_err(e));
	qp_terminate(ctx, c, e, v);
}

/* RFC 5041, 8.1 for a Write: DDP's own errors; the right is RDMAP's matter (RFC 5040, 7.1). */
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
	case QP_MR_BAD_ATTR:
		break;
	}
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false);
}

/* The data source of a Read Request (RFC 5040, 7.1), or what an Atomic is for: RFC 7306, 8. */
struct iw_err qp_rx_source_err(enum qp_mr_verdict v, bool read)
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
	case QP_MR_BAD_ATTR:
		break;
	}
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, read);
}

/* A Write of nothing names no memory (RFC 5040, 5.2); one of ours may say what comes: qp_imm.h. */
static void write_of_nothing(struct qp_conn *c, const struct ddp_hdr *h)
{
	if (h->stag != QP_IMM_STAG || h->to >> 32 != QP_IMM_MARK)
		return;
	c->imm = (uint32_t)h->to;
	c->imm_held = true;
}

static void rx_write(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct rn_iov iov[MPA_VIEW_IOV];

	if (rn_unlikely(h->payload_len == 0)) {
		write_of_nothing(c, h);
	} else if (v != NULL) {
		const struct qp_access a = { .pd = c->qp->pd, .stag = h->stag, .to = h->to, .len = h->payload_len,
					     .rights = QP_ACC_REMOTE_WRITE, .qpn = c->qp->qpn,
					     .last = h->last };
		enum qp_mr_verdict m = QP_MR_BAD_RIGHTS;

		if (rn_likely(c->qp->access & QP_ACC_REMOTE_WRITE))
			m = qp_place(ctx, c->dev, &a, iov, qp_rx_payload(h, v, iov));
		if (rn_unlikely(m != QP_MR_OK)) {
			ctx->stats.access_errors++;
			qp_rx_refuse(ctx, c, write_err(m), v);
			return;
		}
		ctx->stats.bytes_placed += h->payload_len;
	}
	c->write_len += h->payload_len;
	if (h->last) {
		c->imm_len = c->write_len;
		c->write_len = 0;
		tcpl_ack_now(&c->tcp); /* the sender's completion waits for it */
	}
}

/*
 * The receive's own fault. Not told as a local error, whose Terminate names no message (RFC 5040, 4.8): the sender shall
 * know which of its Sends it was.
 */
static struct iw_err recv_err(void)
{
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, false);
}

/* Its completion says so, then the QP ends. */
static void recv_fail(struct qp_ctx *ctx, struct qp_conn *c, enum qp_wc_status status, struct iw_err e,
		      const struct mpa_view *v)
{
	const struct qp_cqe with = { .status = (uint8_t)status, .vendor_err = qp_vendor_err(e) };

	qp_recv_cqe(ctx, c->qp, &c->blk->recv, &with);
	c->blk->recv.loaded = false;
	qp_event_too(ctx, c->qp, event_of(e), qp_vendor_err(e));
	qp_terminate(ctx, c, e, v);
}

/* False: the QP has ended, or the message waits. */
static bool recv_load(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v)
{
	enum qp_take t = qp_rq_take(ctx, c->qp, &c->blk->recv);

	if (rn_unlikely(t == QP_TAKE_NONE) && qp_rnr_ask(ctx, c, v)) {
		t = qp_rq_take(ctx, c->qp, &c->blk->recv);
		if (t == QP_TAKE_NONE) {
			qp_rnr_wait(ctx, c, v);
			return false;
		}
	}
	switch (t) {
	case QP_TAKE_BAD:
		recv_fail(ctx, c, QP_WC_LOC_QP_OP_ERR, recv_err(), v);
		return false;
	case QP_TAKE_BAD_RING:
		ctx->stats.bad_rings++;
		qp_rx_refuse(ctx, c, recv_err(), v);
		return false;
	case QP_TAKE_OK:
		if (rn_unlikely(c->rnr != QP_RNR_NONE))
			c->rnr_until = RN_NEVER; /* the next one's time begins anew */
		break;
	case QP_TAKE_NONE:
	case QP_TAKE_STALL:
		break;
	}
	return true;
}

static void send_deliver(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	const struct rdmap_op *op = rdmap_op_of(h->opcode);
	struct qp_cqe with = { .byte_len = h->mo + h->payload_len, .solicited = op->solicited };

	if (op->invalidates) { /* before the message is delivered: RFC 5040, 5.3 */
		if (qp_mr_invalidate(c->dev, c->qp->pd, c->qp->qpn, h->stag) != QP_MR_OK) {
			ctx->stats.access_errors++;
			qp_rx_refuse(ctx, c, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALIDATE, false), v);
			return;
		}
		with.flags = QP_WCF_WITH_INV;
		with.aux = h->stag;
	} else if (rn_unlikely(c->imm_held)) {
		with.flags = QP_WCF_WITH_IMM;
		rn_store_be32((uint8_t *)&with.aux, c->imm);
		c->imm_held = false;
	}
	c->imm_len = 0; /* an immediate belongs to the Write right before it */
	c->blk->recv.loaded = false;
	qp_recv_cqe(ctx, c->qp, &c->blk->recv, &with);
	tcpl_ack_now(&c->tcp);
}

static void rx_send(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct qp_recv *r = &c->blk->recv;
	struct rn_iov iov[MPA_VIEW_IOV];

	if (!r->loaded && !recv_load(ctx, c, v))
		return;
	enum rdmap_verdict u = ddp_uq_check(&c->uq_send, h, r->loaded, r->len);
	if (rn_unlikely(u > RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		if (u == RDMAP_TOO_LONG)
			recv_fail(ctx, c, QP_WC_LOC_LEN_ERR, rdmap_verdict_err(u, h), v);
		else
			qp_rx_refuse(ctx, c, rdmap_verdict_err(u, h), v);
		return;
	}
	if (v != NULL && h->payload_len > 0) {
		if (qp_rq_place(ctx, c->qp, r, h, iov, qp_rx_payload(h, v, iov)) != QP_MR_OK) {
			recv_fail(ctx, c, QP_WC_LOC_PROT_ERR, recv_err(), v);
			return;
		}
		ctx->stats.bytes_placed += h->payload_len;
	}
	ddp_uq_advance(&c->uq_send, h);
	if (u == RDMAP_DONE)
		send_deliver(ctx, c, h, v);
}

/* RFC 7306, 6.3: takes a receive, and leaves its memory alone. */
static void rx_imm(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct qp_cqe with = { .op = QP_WC_RECV_RDMA_WITH_IMM, .flags = QP_WCF_WITH_IMM, .byte_len = c->imm_len,
			       .solicited = rdmap_op_of(h->opcode)->solicited };
	struct qp_recv *r = &c->blk->recv;
	struct rn_iov iov[MPA_VIEW_IOV];

	if (!r->loaded && !recv_load(ctx, c, v))
		return;
	enum rdmap_verdict u = ddp_uq_check(&c->uq_send, h, r->loaded, RDMAP_IMM_LEN);
	if (rn_unlikely(u != RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		qp_rx_refuse(ctx, c, rdmap_verdict_err(u, h), v);
		return;
	}
	rn_iov_gather(iov, qp_rx_payload(h, v, iov), (uint8_t *)&with.aux, sizeof(with.aux));
	ddp_uq_advance(&c->uq_send, h);
	c->imm_len = 0;
	r->loaded = false;
	qp_recv_cqe(ctx, c->qp, r, &with);
	tcpl_ack_now(&c->tcp);
}

static enum qp_mr_verdict source_check(const struct qp_conn *c, const struct rdmap_read_req *q)
{
	const struct qp_access a = { .pd = c->qp->pd, .stag = q->src_stag, .to = q->src_to, .len = q->len,
				     .rights = QP_ACC_REMOTE_READ, .qpn = c->qp->qpn };

	if (q->len == 0)
		return QP_MR_OK;
	if (q->sink_to > UINT64_MAX - (q->len - 1))
		return QP_MR_TO_WRAP;
	return c->qp->access & QP_ACC_REMOTE_READ ? qp_mr_check(c->dev, &a) : QP_MR_BAD_RIGHTS;
}

static void rx_read_req(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct qp_block *b = c->blk;
	struct rn_iov iov[MPA_VIEW_IOV];
	uint8_t body[RDMAP_READ_REQ_LEN];
	struct rdmap_read_req q;

	enum rdmap_verdict u = ddp_uq_check(&c->uq_read, h, c->ird.used < c->ird.depth, RDMAP_READ_REQ_LEN);
	if (rn_unlikely(u != RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		qp_rx_refuse(ctx, c, rdmap_verdict_err(u, h), v);
		return;
	}
	rn_iov_gather(iov, qp_rx_payload(h, v, iov), body, sizeof(body));
	rdmap_read_req_parse(body, &q);
	enum qp_mr_verdict m = source_check(c, &q);
	if (rn_unlikely(m != QP_MR_OK)) {
		ctx->stats.access_errors++;
		qp_rx_refuse(ctx, c, qp_rx_source_err(m, true), v);
		return;
	}
	qp_place_settle(ctx); /* it reads what the Writes before it have placed */
	ddp_uq_advance(&c->uq_read, h);
	if (rdmap_ird_take(&c->ird) == RDMAP_OK)
		b->resp[b->resp_tail++ & (QP_MAX_RD_ATOMIC - 1)] = (struct qp_resp){ .r = q };
}

static void rx_read_resp(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct qp_block *b = c->blk;
	struct rn_iov iov[MPA_VIEW_IOV];

	enum rdmap_verdict u = rdmap_readq_check(&c->readq, h);
	if (rn_unlikely(u > RDMAP_DONE)) {
		ctx->stats.rdmap_errors++;
		qp_rx_refuse(ctx, c, rdmap_verdict_err(u, h), v);
		return;
	}
	const struct rdmap_read *rd = rdmap_readq_head(&c->readq);
	struct qp_wr *wr = rd->cookie != QP_WR_NONE ? &b->wr[rd->cookie & b->wr_mask] : NULL;
	if (v != NULL && h->payload_len > 0) {
		/* The sink needs only our own right to write: the peer writes where our Read asked it to. */
		const struct qp_access a = { .pd = c->qp->pd, .stag = rd->stag, .to = rd->to + rd->got,
					     .len = h->payload_len, .rights = QP_ACC_LOCAL_WRITE, .last = h->last };
		enum qp_mr_verdict m = qp_place(ctx, c->dev, &a, iov, qp_rx_payload(h, v, iov));
		if (rn_unlikely(m != QP_MR_OK)) {
			if (wr != NULL)
				wr->status = QP_WC_LOC_PROT_ERR;
			qp_rx_refuse(ctx, c, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false), NULL);
			return;
		}
		ctx->stats.bytes_placed += h->payload_len;
	}
	rdmap_readq_advance(&c->readq, h);
	if (u == RDMAP_DONE) {
		if (wr != NULL)
			wr->done = 1;
		qp_sq_complete(ctx, c);
	}
}

/* v: the segment; NULL when its bytes were placed ahead of their turn. */
void qp_rx_segment(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	switch ((enum rdmap_opcode)h->opcode) {
	case RDMAP_WRITE:
		rx_write(ctx, c, h, v);
		return;
	case RDMAP_READ_RESP:
		rx_read_resp(ctx, c, h, v);
		return;
	case RDMAP_SEND:
	case RDMAP_SEND_INV:
	case RDMAP_SEND_SE:
	case RDMAP_SEND_SE_INV:
		rx_send(ctx, c, h, v);
		return;
	case RDMAP_READ_REQ:
		rx_read_req(ctx, c, h, v);
		return;
	case RDMAP_TERMINATE:
		qp_term_received(ctx, c, v, h->hdr_len);
		return;
	case RDMAP_IMM:
	case RDMAP_IMM_SE:
		rx_imm(ctx, c, h, v);
		return;
	case RDMAP_ATOMIC_REQ:
		qp_rx_atomic_req(ctx, c, h, v);
		return;
	case RDMAP_ATOMIC_RESP:
		qp_rx_atomic_resp(ctx, c, h, v);
		return;
	}
}
