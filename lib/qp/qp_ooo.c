/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Placing ahead of the stream (RFC 5041, 5.3): whole FPDUs of a segment that came too early are placed at once when
 * each of them can be judged now; their packet is free then, and a note of each waits for its turn to be delivered.
 * A segment that does not pass is simply held: its turn decides.
 */
#include "base/rn_seq.h"
#include "qp/qp_priv.h"

#define OOO_PER_SEG 4u  /* FPDUs */
#define OOO_AHEAD   64u /* receives looked through for the one of a Send */

/* A whole FPDU that may be placed now. */
struct early {
	struct mpa_view v;
	struct ddp_hdr h;
	struct qp_recv recv; /* of a Send: where it goes */
};

/*
 * The receive of a Send whose turn is not yet: each message takes one, in the order of their MSNs (RFC 5041, 5.3). What
 * the message is and whether it began well is judged in its turn; here counts that the bytes lie inside what was posted.
 */
static bool may_receive(const struct qp_conn *c, struct early *e)
{
	uint32_t ahead = e->h.msn - c->uq_send.msn;
	struct qp_recv *r = &e->recv;

	if (ahead == 0 && c->blk->recv.loaded)
		*r = c->blk->recv;
	else if (ahead >= OOO_AHEAD || !qp_rq_peek(c->qp, ahead, r))
		return false;
	return rn_in_range(e->h.mo, e->h.payload_len, r->len);
}

static bool may_place(const struct qp_conn *c, struct early *e)
{
	const struct ddp_hdr *h = &e->h;
	struct qp_access a = { .pd = c->qp->pd, .stag = h->stag, .to = h->to, .len = h->payload_len,
			       .qpn = c->qp->qpn };

	if (h->opcode == RDMAP_WRITE) {
		a.rights = QP_ACC_REMOTE_WRITE;
		return (c->qp->access & QP_ACC_REMOTE_WRITE) && qp_mr_check(c->dev, &a) == QP_MR_OK;
	}
	if (h->opcode == RDMAP_READ_RESP) {
		a.rights = QP_ACC_LOCAL_WRITE;
		return rdmap_readq_peek(&c->readq, h) == RDMAP_OK && qp_mr_check(c->dev, &a) == QP_MR_OK;
	}
	/* Immediate Data takes a receive but not its memory. */
	const struct rdmap_op *op = rdmap_op_of(h->opcode);
	return op->takes_recv && !op->single && may_receive(c, e);
}

static bool place_one(struct qp_ctx *ctx, struct qp_conn *c, const struct early *e)
{
	const struct ddp_hdr *h = &e->h;
	struct rn_iov iov[MPA_VIEW_IOV];
	struct qp_access a = { .pd = c->qp->pd, .stag = h->stag, .to = h->to, .len = h->payload_len,
			       .qpn = c->qp->qpn, .last = h->last };
	uint32_t n = rn_iov_cut(e->v.ulpdu, e->v.n, h->hdr_len, h->payload_len, iov, MPA_VIEW_IOV);
	enum qp_mr_verdict m = QP_MR_OK;

	if (h->payload_len > 0 && h->tagged) {
		a.rights = h->opcode == RDMAP_WRITE ? QP_ACC_REMOTE_WRITE : QP_ACC_LOCAL_WRITE;
		m = qp_place(ctx, c->dev, &a, iov, n);
	} else if (h->payload_len > 0) {
		m = qp_rq_place(ctx, c->qp, &e->recv, h, iov, n);
	}
	if (m == QP_MR_OK) {
		ctx->stats.ooo_placed++;
		ctx->stats.bytes_placed += h->payload_len;
	}
	return m == QP_MR_OK;
}

/* Most come behind all others; one that fills a hole moves those behind it. There is room. */
static void note(struct qp_block *b, const struct early *e)
{
	uint32_t i = b->ooo_head + b->n_ooo++;

	for (; i != b->ooo_head && rn_seq_gt(b->ooo[(i - 1) & b->ooo_mask].pos, e->v.pos); i--)
		b->ooo[i & b->ooo_mask] = b->ooo[(i - 1) & b->ooo_mask];
	b->ooo[i & b->ooo_mask] = (struct qp_ooo){ .pos = e->v.pos, .raw_len = e->v.raw_len, .h = e->h };
}

/* True: every byte of the held slice is placed and noted; its packet may go. */
bool qp_ooo_place(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_slice *s)
{
	const struct qp_pkt *pkt = (const struct qp_pkt *)(uintptr_t)s->ref;
	struct rn_iov iov[QP_PKT_MAX_IOV] = { 0 };
	struct early e[OOO_PER_SEG];
	uint8_t scratch[DDP_MAX_HDR_LEN];
	struct mpa_find f;
	uint32_t k = 0, pos = s->seq - c->rx_base;
	const uint32_t end = pos + s->len;

	if (!qp_conn_streaming(c) || c->state == QP_C_WAIT_FIRST || c->qp == NULL)
		return false;
	uint32_t n = rn_iov_cut(pkt->iov, pkt->n, s->off, s->len, iov, QP_PKT_MAX_IOV);
	if (n == 0 || n == UINT32_MAX)
		return false;
	mpa_find_init(&f, &c->rx, pos, iov, n);
	while (pos != end) {
		if (k == OOO_PER_SEG || !mpa_find_next(&f, &e[k].v) || e[k].v.pos != pos)
			return false;
		const uint32_t len = e[k].v.ulpdu_len;
		const uint8_t *p = mpa_view_head(&e[k].v, scratch, rn_min_u32(len, DDP_MAX_HDR_LEN));
		if (ddp_parse(p, len, &e[k].h) != DDP_OK || !may_place(c, &e[k]))
			return false;
		pos += e[k].v.raw_len;
		k++;
	}
	if (c->blk->n_ooo + k > c->blk->ooo_mask + 1)
		return false;
	/* The memory may go away between check and copy: then the segment's turn will find out. */
	for (uint32_t i = 0; i < k; i++)
		if (!place_one(ctx, c, &e[i]))
			return false;
	for (uint32_t i = 0; i < k; i++)
		note(c->blk, &e[i]);
	return k > 0;
}

/* A placed range has its turn. False: the stream before it does not end where the range begins. */
bool qp_ooo_deliver(struct qp_ctx *ctx, struct qp_conn *c, uint32_t seq, uint32_t len)
{
	struct qp_block *b = c->blk;
	uint32_t pos = seq - c->rx_base;

	while (len > 0 && qp_conn_streaming(c)) {
		const struct qp_ooo o = b->ooo[b->ooo_head & b->ooo_mask];

		if (b->n_ooo == 0 || o.pos != pos || o.raw_len > len || mpa_rx_pos(&c->rx) != pos ||
		    !mpa_rx_skip(&c->rx, o.raw_len)) {
			ctx->stats.framing_errors++;
			return false;
		}
		pos += o.raw_len;
		len -= o.raw_len;
		b->ooo_head++;
		b->n_ooo--;
		ctx->stats.fpdus_in++;
		qp_rx_segment(ctx, c, &o.h, NULL);
	}
	return true;
}
