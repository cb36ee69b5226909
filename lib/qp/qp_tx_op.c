/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests that are more than a message of the client's bytes, or less: Read and Atomic Requests, immediate data,
 * and what is done without the peer. The work request in c->blk->send is next; false: it must wait, or has failed.
 */
#include "base/rn_be.h"
#include "qp/qp_imm.h"
#include "qp/qp_priv.h"

static bool done_with(struct qp_conn *c)
{
	c->blk->send.loaded = false;
	c->tx_cur = QP_TX_NONE;
	return true;
}

static bool read_request(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_send *s = &c->blk->send;
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, c->msn_read, 0);
	struct rdmap_read_req q = { .len = s->total, .src_stag = s->w.rkey, .src_to = s->w.raddr };
	uint8_t body[RDMAP_READ_REQ_LEN];

	if (s->w.num_sge > 0) {
		q.sink_stag = s->u.sge[0].lkey;
		q.sink_to = s->u.sge[0].addr;
	}
	rdmap_read_req_build(body, &q);
	if (!qp_tx_short(ctx, c, &h, body, QP_WR_NONE))
		return false;
	c->msn_read++;
	qp_sq_start(c, s);
	rdmap_readq_post(&c->readq, q.sink_stag, q.sink_to, q.len, s->wr);
	return done_with(c);
}

/* Verbs' atomics are the RFC's with one field of 64 bits (RFC 7306, 5.1). The identifier is the Request's MSN. */
static bool atomic_request(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_send *s = &c->blk->send;
	const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_REQ, true, 0, c->msn_read, 0);
	struct rdmap_atomic_req q = { .op = RDMAP_FETCH_ADD, .id = c->msn_read, .stag = s->w.rkey, .to = s->w.raddr,
				      .data = s->w.atomic.operand, .mask = RDMAP_ADD_ONE_FIELD };
	uint8_t body[RDMAP_ATOMIC_REQ_LEN];

	if (s->w.op == QP_WR_CMP_SWAP) {
		q.op = RDMAP_CMP_SWAP;
		q.data = s->w.atomic.swap;
		q.compare = s->w.atomic.operand;
		q.mask = q.compare_mask = UINT64_MAX;
	}
	rdmap_atomic_req_build(body, &q);
	if (!qp_tx_short(ctx, c, &h, body, QP_WR_NONE))
		return false;
	qp_sq_start(c, s)->key = c->msn_read++;
	rdmap_readq_post_atomic(&c->readq, s->u.sge[0].lkey, s->u.sge[0].addr, q.id, s->wr);
	return done_with(c);
}

/* What says that the Send behind it has an immediate; from here on it is a Send as any other. */
static bool imm_note(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_send *s = &c->blk->send;
	const uint32_t imm = rn_load_be32((const uint8_t *)&s->w.aux);
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, QP_IMM_STAG, (uint64_t)QP_IMM_MARK << 32 | imm);

	if (!qp_tx_short(ctx, c, &h, NULL, QP_WR_NONE))
		return false;
	s->w.op = QP_WR_SEND;
	return true;
}

/* A Write of nothing (RFC 5040, 5.2): whose length the immediate behind it then tells. */
static bool write_nothing(struct qp_ctx *ctx, struct qp_conn *c)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, 0, 0);

	c->wrote = !qp_tx_short(ctx, c, &h, NULL, QP_WR_NONE);
	return !c->wrote;
}

/* Its Write, if any, is on the way; the acknowledgement of the Immediate Data behind it completes both. */
static bool write_imm(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_send *s = &c->blk->send;
	const enum rdmap_opcode op = s->w.flags & QP_WF_SOLICITED ? RDMAP_IMM_SE : RDMAP_IMM;
	const struct ddp_hdr h = ddp_untagged(op, true, 0, c->msn_send, 0);
	uint8_t body[RDMAP_IMM_LEN] = { 0 };

	if (!s->started) /* no bytes */
		qp_sq_start(c, s);
	if (c->wrote && !write_nothing(ctx, c))
		return false;
	memcpy(body, &s->w.aux, sizeof(s->w.aux));
	if (!qp_tx_short(ctx, c, &h, body, s->wr))
		return false;
	c->blk->wr[s->wr & c->blk->wr_mask].imm_msn = (uint16_t)c->msn_send++;
	return done_with(c);
}

/* Binds and invalidates here and now: what was posted before has been sent, or waits for its answer (see QP_WF_FENCE). */
static bool local_op(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_send *s = &c->blk->send;
	const struct qp *qp = c->qp;
	enum qp_mr_verdict v;

	if (s->w.op == QP_WR_LOCAL_INV) {
		v = qp_mr_invalidate(c->dev, qp->pd, qp->qpn, s->w.aux);
	} else {
		const struct qp_mw_bind b = { .pd = qp->pd, .qpn = qp->qpn, .stag = s->w.rkey, .lkey = s->w.aux,
					      .addr = s->w.raddr, .len = s->w.bind.len, .access = s->w.bind.access };
		v = qp_mw_bind(c->dev, &b);
	}
	if (v != QP_MR_OK) {
		qp_sq_fail(ctx, c, QP_WC_MW_BIND_ERR);
		return false;
	}
	qp_sq_start(c, s)->done = 1;
	done_with(c);
	qp_sq_complete(ctx, c);
	return true;
}

bool qp_tx_op(struct qp_ctx *ctx, struct qp_conn *c)
{
	switch ((enum qp_wr_op)c->blk->send.w.op) {
	case QP_WR_READ:
		return read_request(ctx, c);
	case QP_WR_SEND_IMM:
		return imm_note(ctx, c);
	case QP_WR_WRITE_IMM:
		return write_imm(ctx, c);
	case QP_WR_CMP_SWAP:
	case QP_WR_FETCH_ADD:
		return atomic_request(ctx, c);
	case QP_WR_LOCAL_INV:
	case QP_WR_BIND_MW:
		return local_op(ctx, c);
	case QP_WR_SEND:
	case QP_WR_SEND_INV:
	case QP_WR_WRITE:
	case QP_WR_OPS:
		break; /* qp_tx.c sends these, and takes no others */
	}
	return false;
}

/* The answer to the oldest of the peer's requests, which has been executed (RFC 7306, 5.4). */
bool qp_tx_atomic_resp(struct qp_ctx *ctx, struct qp_conn *c)
{
	struct qp_block *b = c->blk;
	const struct qp_resp *p = &b->resp[b->resp_head & (QP_MAX_RD_ATOMIC - 1)];
	const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_RESP, true, 0, c->msn_atomic, 0);
	uint8_t body[RDMAP_ATOMIC_RESP_LEN];

	rdmap_atomic_resp_build(body, &p->atomic);
	if (!qp_tx_short(ctx, c, &h, body, QP_WR_NONE))
		return false;
	c->msn_atomic++;
	b->resp_head++;
	rdmap_ird_give(&c->ird);
	c->tx_cur = QP_TX_NONE;
	return true;
}
