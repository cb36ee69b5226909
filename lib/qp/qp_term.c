/* SPDX-License-Identifier: BSD-3-Clause */
/* Terminate, both ways: RFC 5040, 4.8 and 7. */
#include "qp/qp_priv.h"

#define TERM_COPY (DDP_MAX_HDR_LEN + RDMAP_READ_REQ_LEN)

/* Whether the copied headers are of a segment of this work request. */
static bool names(const struct qp_wr *wr, const struct rdmap_term *t, const struct ddp_hdr *h)
{
	if (wr->op == QP_WR_READ)
		return t->has_read_req && t->read_req.src_stag == wr->key && t->read_req.src_to == wr->raddr;
	if (wr->op == QP_WR_WRITE_IMM && !h->tagged)
		return h->qn == DDP_QN_SEND && (uint16_t)h->msn == wr->imm_msn;
	if (wr->op == QP_WR_WRITE || wr->op == QP_WR_WRITE_IMM)
		return h->tagged && h->stag == wr->key && h->to - wr->raddr <= wr->len;
	return !h->tagged && h->qn == (qp_op_answered(wr->op) ? DDP_QN_READ_REQ : DDP_QN_SEND) && h->msn == wr->key;
}

/*
 * Finds the work request that the copied headers are about; the peer's claim, so only ever one of ours on the way. What
 * was posted after it the peer has thrown away, acknowledged or not.
 */
static struct qp_wr *blamed(struct qp_block *b, const struct rdmap_term *t)
{
	struct qp_wr *found = NULL;
	struct ddp_hdr h = { 0 };

	if (t->ddp_len == 0 || ddp_parse(t->ddp, t->ddp_len, &h) == DDP_TOO_SHORT)
		return NULL;
	for (uint32_t i = b->wr_head; i != b->wr_tail; i++) {
		struct qp_wr *wr = &b->wr[i & b->wr_mask];

		if (found != NULL)
			wr->done = 0;
		else if ((!wr->done || !qp_op_answered(wr->op)) && names(wr, t, &h))
			found = wr;
	}
	return found;
}

static enum qp_wc_status status_of(struct iw_err e, bool atomic)
{
	bool tagged = e.layer == IW_LAYER_DDP && e.etype == IW_DDP_TAGGED;

	if (tagged || (e.layer == IW_LAYER_RDMAP && e.etype == IW_RDMAP_PROTECTION))
		return QP_WC_REM_ACCESS_ERR;
	/* An Atomic is refused as an operation for its address (RFC 7306, 8.2). */
	if (atomic && e.layer == IW_LAYER_RDMAP && e.etype == IW_RDMAP_OPERATION)
		return QP_WC_REM_INV_REQ_ERR;
	return e.layer == IW_LAYER_DDP && e.etype == IW_DDP_UNTAGGED ? QP_WC_REM_INV_REQ_ERR : QP_WC_REM_OP_ERR;
}

/* What a Terminate says becomes the status of the work request that it is about. */
static void blame(struct qp_conn *c, const struct rdmap_term *t)
{
	struct qp_wr *wr = c->blk != NULL ? blamed(c->blk, t) : NULL;

	if (wr != NULL)
		wr->status = (uint8_t)status_of(t->err, qp_op_answered(wr->op) && wr->op != QP_WR_READ);
}

static bool send_terminate(struct qp_ctx *ctx, struct qp_conn *c, struct iw_err e, const struct mpa_view *v)
{
	uint8_t seg[TERM_COPY];
	uint32_t seg_len = 0;
	struct qp_rec *r = qp_rec_get(ctx, 0);

	if (r == NULL)
		return false;
	if (v != NULL) {
		memset(seg, 0, sizeof(seg));
		rn_iov_gather(v->ulpdu, v->n, seg, sizeof(seg));
		seg_len = v->ulpdu_len;
	}
	uint8_t *h = mpa_tx_begin(&r->f, r->iov, ctx->rec_iov);
	const struct ddp_hdr hdr = ddp_untagged(RDMAP_TERMINATE, true, 0, 1, 0);
	uint32_t n = ddp_build(h, &hdr);
	uint32_t body = rdmap_term_build(h + n, e, v != NULL ? seg : NULL, seg_len);
	struct rdmap_term own;
	if ((c->flags & QP_CONN_SELF) && rdmap_term_parse(h + n, body, &own) != RDMAP_TERM_SHORT)
		blame(c, &own); /* from here on nothing is received */
	n += body;
	bool good = mpa_tx_frame(&r->f, n, NULL, 0, 0) == MPA_TX_OK &&
		    (!c->agreed.tx_markers || mpa_tx_mark(&r->f, c->tx_pos) == MPA_TX_OK);
	if (!good) {
		qp_rec_put(ctx, r);
		return false;
	}
	r->crc_due = c->agreed.crc;
	return qp_tx_queue(ctx, c, r, QP_WR_NONE);
}

/*
 * The stream is over by our decision: one Terminate, then FIN; the QP is flushed. v: the offending segment, or NULL.
 * A responder that may not send yet closes without (RFC 5044, 7.1.2).
 */
void qp_terminate(struct qp_ctx *ctx, struct qp_conn *c, struct iw_err e, const struct mpa_view *v)
{
	if (c->state == QP_C_TERMINATING || c->state == QP_C_DEAD || c->state == QP_C_FREE)
		return;
	bool can = (c->state == QP_C_OPERATIONAL || c->state == QP_C_DRAINING) && !c->term_tx && qp_conn_wake(ctx, c);
	c->vendor_err = qp_vendor_err(e);
	if (c->qp != NULL)
		c->qp->vendor_err = c->vendor_err;
	if (can && send_terminate(ctx, c, e, v)) {
		c->term_tx = true;
		ctx->stats.terms_sent++;
		tcpl_shutdown(&c->tcp, ctx->now);
		qp_conn_to(ctx, c, QP_C_TERMINATING);
	} else if (c->state == QP_C_WAIT_FIRST || c->state == QP_C_CLOSING) {
		qp_conn_to(ctx, c, QP_C_TERMINATING);
		qp_conn_shutdown(ctx, c);
	} else {
		qp_conn_reset(ctx, c);
	}
	qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, 0);
	qp_ready_put(ctx, c);
}

void qp_term_received(struct qp_ctx *ctx, struct qp_conn *c, const struct mpa_view *v, uint32_t hdr_len)
{
	uint8_t p[RDMAP_TERM_MAX_LEN];
	struct rn_iov body[MPA_VIEW_IOV];
	struct rdmap_term t = { 0 };
	uint32_t len = rn_min_u32(v->ulpdu_len - hdr_len, sizeof(p));
	uint32_t n = rn_iov_cut(v->ulpdu, v->n, hdr_len, len, body, MPA_VIEW_IOV);

	memset(p, 0, sizeof(p));
	if (n != UINT32_MAX)
		rn_iov_gather(body, n, p, len);
	ctx->stats.terms_rcvd++;
	c->term_rx = true;
	enum rdmap_term_verdict tv = rdmap_term_parse(p, len, &t);
	c->vendor_err = tv == RDMAP_TERM_SHORT ? 0 : qp_vendor_err(t.err);
	if (c->qp != NULL) {
		c->qp->vendor_err = c->vendor_err;
		if (tv != RDMAP_TERM_SHORT)
			blame(c, &t);
		bool access = status_of(t.err, false) == QP_WC_REM_ACCESS_ERR;
		qp_event_too(ctx, c->qp, access ? QP_EVENT_ACCESS_ERR : QP_EVENT_FATAL, c->vendor_err);
	}
	tcpl_shutdown(&c->tcp, ctx->now);
	qp_conn_to(ctx, c, QP_C_TERMINATING);
	qp_conn_end(ctx, c, QP_FX_CONNECT_ERROR, 0);
	qp_ready_put(ctx, c);
}
