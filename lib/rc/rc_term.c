/* SPDX-License-Identifier: BSD-3-Clause */
/* The Terminate frame, sent and received: RFC 5040, 4.8 and 7. */
#include "rc/rc_int.h"

#define TERM_COPY (DDP_MAX_HDR_LEN + RDMAP_READ_REQ_LEN)

static bool send_terminate(struct rc_ctx *ctx, struct rc *c, struct iw_err e, const struct mpa_view *v)
{
	uint8_t seg[TERM_COPY];
	uint32_t seg_len = 0;
	struct rc_rec *r = rc_rec_get(ctx, c, true);

	if (r == NULL)
		return false;
	if (v != NULL) {
		memset(seg, 0, sizeof(seg));
		rn_iov_gather(v->ulpdu, v->n, seg, sizeof(seg));
		seg_len = v->ulpdu_len;
	}
	uint8_t *h = rc_rec_begin(ctx, r, c->agreed.tx_markers == 0);
	const struct ddp_hdr hdr = ddp_untagged(RDMAP_TERMINATE, true, 0, 1, 0);
	uint32_t n = ddp_build(h, &hdr);
	uint32_t body = rdmap_term_build(h + n, e, v != NULL ? seg : NULL, seg_len);
	struct rdmap_term own;
	if ((c->flags & RC_SELF) && rdmap_term_parse(h + n, body, &own) != RDMAP_TERM_SHORT)
		qp_blame(&c->m, &own); /* RC_SELF: nothing is received from here on, so the Terminate is applied here */
	n += body;
	bool good = mpa_tx_frame(&r->f, n, NULL, 0, 0) == MPA_TX_OK &&
		    (c->agreed.tx_markers == 0 || mpa_tx_mark(&r->f, c->out.pos, c->agreed.tx_markers) == MPA_TX_OK);
	if (!good) {
		rc_rec_put(ctx, r);
		return false;
	}
	r->crc = c->agreed.crc;
	r->wr = QP_WR_NONE;
	rc_tx_due(ctx, c, r);
	return true;
}

/*
 * Ends the stream by our decision: one Terminate, then FIN; the QP is flushed. v: the offending segment, or NULL. A
 * responder that may not send yet closes without a Terminate (RFC 5044, 7.1.2).
 */
void rc_terminate(struct rc_ctx *ctx, struct rc *c, struct iw_err e, const struct mpa_view *v)
{
	if (c->state == RC_TERMINATING || c->state == RC_DEAD || c->state == RC_FREE)
		return;
	bool can = (c->state == RC_OPERATIONAL || c->state == RC_DRAINING) && !c->out.term && rc_wake(ctx, c);
	c->vendor_err = qp_vendor_err(e);
	if (c->m.qp != NULL)
		c->m.qp->vendor_err = c->vendor_err;
	if (can && send_terminate(ctx, c, e, v)) {
		c->out.term = true;
		ctx->qp.stats.terms_sent++;
		rc_ask(c, RC_TODO_FIN);
		rc_ask(c, RC_TODO_LET_GO); /* the Terminate stands behind records whose memory the flush gives back */
		rc_to(ctx, c, RC_TERMINATING);
	} else if (c->state == RC_WAIT_FIRST || c->state == RC_CLOSING) {
		rc_to(ctx, c, RC_TERMINATING);
		rc_shutdown(ctx, c);
	} else {
		rc_reset(ctx, c);
	}
	rc_end(ctx, c, QP_FX_CONNECT_ERROR, 0);
	rc_ready_put(ctx, c);
}

void rc_term_received(struct rc_ctx *ctx, struct rc *c, const struct mpa_view *v, uint32_t hdr_len)
{
	uint8_t p[RDMAP_TERM_MAX_LEN];
	struct rn_iov body[MPA_VIEW_IOV];
	struct rdmap_term t = { 0 };
	uint32_t len = rn_min_u32(v->ulpdu_len - hdr_len, sizeof(p));
	uint32_t n = rn_iov_cut(v->ulpdu, v->n, hdr_len, len, body, MPA_VIEW_IOV);

	memset(p, 0, sizeof(p));
	if (n != UINT32_MAX)
		rn_iov_gather(body, n, p, len);
	ctx->qp.stats.terms_rcvd++;
	enum rdmap_term_verdict tv = rdmap_term_parse(p, len, &t);
	c->vendor_err = tv == RDMAP_TERM_SHORT ? 0 : qp_vendor_err(t.err);
	if (c->m.qp != NULL) {
		c->m.qp->vendor_err = c->vendor_err;
		if (tv != RDMAP_TERM_SHORT)
			qp_blame(&c->m, &t);
		qp_terminated(&ctx->qp, &c->m, &t);
	}
	rc_peer_ended(ctx, c, RC_TERMINATING);
	rc_end(ctx, c, QP_FX_CONNECT_ERROR, 0);
	rc_ready_put(ctx, c);
}
