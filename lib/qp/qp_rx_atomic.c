/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic Operations received: RFC 7306, 5. A Request is executed when it is delivered, once: TCP gives each byte once,
 * and what is sent again is the Response that was made then. Read, change and write are one instruction of the CPU, or a
 * compare-and-swap repeated until it holds, so they are atomic against other workers and the application's own atomics.
 */
#include "qp/qp_priv.h"

#define RMW_TRIES 1000u /* an application that changes the same word without a pause must not hold the worker */

/* False: the word would not stand still. */
static bool rmw(uint64_t *word, const struct rdmap_atomic_req *q, uint64_t *old)
{
	if (q->op == RDMAP_FETCH_ADD && (q->mask & ~RDMAP_ADD_ONE_FIELD) == 0) {
		*old = __atomic_fetch_add(word, q->data, __ATOMIC_SEQ_CST);
		return true;
	}
	*old = __atomic_load_n(word, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < RMW_TRIES; i++)
		if (__atomic_compare_exchange_n(word, old, rdmap_atomic_result(q, *old), false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED))
			return true;
	return false;
}

/* Checks and executes. False: *e says why not. */
static bool execute(const struct qp_conn *c, const struct rdmap_atomic_req *q, uint64_t *old, struct iw_err *e)
{
	const struct qp_access a = { .pd = c->qp->pd, .stag = q->stag, .to = q->to, .len = sizeof(uint64_t),
				     .rights = QP_ACC_REMOTE_ATOMIC, .qpn = c->qp->qpn };
	enum qp_mr_verdict v = QP_MR_BAD_RIGHTS;
	struct rn_iov at[2];
	uint32_t n;

	*e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, false);
	if (q->op != RDMAP_FETCH_ADD && q->op != RDMAP_CMP_SWAP)
		return false;
	if (c->qp->access & QP_ACC_REMOTE_ATOMIC)
		v = qp_mr_slices(c->dev, &a, at, RN_ARRAY_LEN(at), &n);
	*e = qp_rx_source_err(v, false);
	if (v != QP_MR_OK)
		return false;
	/* RFC 7306, 5.1: on a boundary of 64 bits, in the peer's address space and in ours. */
	*e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, false);
	if (q->to % sizeof(uint64_t) != 0 || n != 1 || (uintptr_t)at[0].base % sizeof(uint64_t) != 0)
		return false;
	*e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false);
	return rmw((uint64_t *)(void *)at[0].base, q, old);
}

void qp_rx_atomic_req(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct qp_block *b = c->blk;
	struct rn_iov iov[MPA_VIEW_IOV];
	uint8_t body[RDMAP_ATOMIC_REQ_LEN];
	struct rdmap_atomic_req q;
	struct iw_err e;
	uint64_t old;

	enum rdmap_verdict u = ddp_uq_check(&c->uq_read, h, c->ird.used < c->ird.depth, RDMAP_ATOMIC_REQ_LEN);
	if (u != RDMAP_DONE) {
		ctx->stats.rdmap_errors++;
		qp_rx_refuse(ctx, c, rdmap_verdict_err(u, h), v);
		return;
	}
	rn_iov_gather(iov, qp_rx_payload(h, v, iov), body, sizeof(body));
	rdmap_atomic_req_parse(body, &q);
	qp_place_settle(ctx);
	if (!execute(c, &q, &old, &e)) {
		ctx->stats.access_errors++;
		qp_rx_refuse(ctx, c, e, v);
		return;
	}
	ddp_uq_advance(&c->uq_read, h);
	if (rdmap_ird_take(&c->ird) == RDMAP_OK)
		b->resp[b->resp_tail++ & (QP_MAX_RD_ATOMIC - 1)] =
			(struct qp_resp){ .is_atomic = true, .atomic = { .id = q.id, .value = old } };
}

void qp_rx_atomic_resp(struct qp_ctx *ctx, struct qp_conn *c, const struct ddp_hdr *h, const struct mpa_view *v)
{
	struct qp_block *b = c->blk;
	struct rn_iov iov[MPA_VIEW_IOV];
	uint8_t body[RDMAP_ATOMIC_RESP_LEN];
	struct rdmap_atomic_resp p;

	rn_iov_gather(iov, qp_rx_payload(h, v, iov), body, sizeof(body));
	rdmap_atomic_resp_parse(body, &p);
	enum rdmap_verdict u = ddp_uq_check(&c->uq_atomic, h, rdmap_readq_count(&c->readq), RDMAP_ATOMIC_RESP_LEN);
	if (u == RDMAP_DONE)
		u = rdmap_readq_check_atomic(&c->readq, p.id);
	if (u != RDMAP_DONE) {
		ctx->stats.rdmap_errors++;
		qp_rx_refuse(ctx, c, rdmap_verdict_err(u, h), v);
		return;
	}
	const struct rdmap_read *rd = rdmap_readq_head(&c->readq);
	struct qp_wr *wr = &b->wr[rd->cookie & b->wr_mask];
	const struct qp_access a = { .pd = c->qp->pd, .stag = rd->stag, .to = rd->to, .len = sizeof(p.value),
				     .rights = QP_ACC_LOCAL_WRITE };
	const struct rn_iov value = { .base = (uint8_t *)&p.value, .len = sizeof(p.value) };
	if (qp_place(ctx, c->dev, &a, &value, 1) != QP_MR_OK) {
		wr->status = QP_WC_LOC_PROT_ERR;
		qp_rx_refuse(ctx, c, iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false), NULL);
		return;
	}
	ddp_uq_advance(&c->uq_atomic, h);
	rdmap_readq_retire(&c->readq);
	wr->done = 1;
	qp_sq_complete(ctx, c);
}
