/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomic Operations received: RFC 7306, 5. A Request is executed once, when it is delivered: the carrier brings each
 * segment once, and only the Response that was made then is retransmitted. Read, change and write are one instruction
 * of the CPU, or a compare-and-swap repeated until it holds, so they are atomic against other workers and the
 * application's own atomics.
 */
#include "qp/qp_int.h"

#define RMW_TRIES 1000u /* an application that changes the same word without a pause must not hold the worker */

/* False: the value kept changing. */
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

/* Checks the Request and executes it. False: *e says why not. */
static bool execute(const struct qp_msgs *m, const struct rdmap_atomic_req *q, uint64_t *old, struct iw_err *e)
{
	struct qp_access a = { .pd = qp_peer_pd(m->qp),
			       .stag = q->stag,
			       .to = q->to,
			       .len = sizeof(uint64_t),
			       .rights = QP_ACC_REMOTE_ATOMIC,
			       .qpn = m->qp->qpn };
	enum qp_mr_verdict v = QP_MR_BAD_RIGHTS;
	struct rn_iov at[2];
	uint32_t n;

	*e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, false);
	if (q->op != RDMAP_FETCH_ADD && q->op != RDMAP_CMP_SWAP)
		return false;
	if (m->qp->access & QP_ACC_REMOTE_ATOMIC)
		v = qp_mr_slices(m->dev, &a, at, RN_ARRAY_LEN(at), &n);
	if (v == QP_MR_BAD_PD && qp_xrc_other_pd(m->qp, &a))
		v = qp_mr_slices(m->dev, &a, at, RN_ARRAY_LEN(at), &n);
	*e = qp_source_err(v, false);
	if (v != QP_MR_OK)
		return false;
	/* RFC 7306, 5.1: aligned to 64 bits, in the peer's address space and in ours. */
	*e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, false);
	if (q->to % sizeof(uint64_t) != 0 || n != 1 || (uintptr_t)at[0].base % sizeof(uint64_t) != 0)
		return false;
	*e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false);
	return rmw((uint64_t *)(void *)at[0].base, q, old);
}

enum qp_push qp_push_atomic_req(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
				const struct rn_iov *ulpdu, uint32_t n)
{
	uint8_t scratch[RDMAP_ATOMIC_REQ_LEN];
	struct rdmap_atomic_req q;
	struct iw_err e;
	uint64_t old;

	enum rdmap_verdict u = ddp_uq_check(&m->uq_read, h, m->ird.used < m->ird.depth, RDMAP_ATOMIC_REQ_LEN);
	if (u != RDMAP_DONE) {
		ctx->stats.rdmap_errors++;
		return qp_push_refuse(ctx, m, rdmap_verdict_err(u, h), true);
	}
	rdmap_atomic_req_parse(qp_payload_head(h, ulpdu, n, scratch, sizeof(scratch)), &q);
	qp_place_settle(ctx);
	if (!execute(m, &q, &old, &e)) {
		ctx->stats.access_errors++;
		return qp_push_refuse(ctx, m, e, true);
	}
	ddp_uq_advance(&m->uq_read, h);
	const struct qp_resp answer = { .msn = h->msn, .is_atomic = true, .atomic = { .id = q.id, .value = old } };
	if (rdmap_ird_take(&m->ird) == RDMAP_OK)
		*qp_resp_add(m->work) = answer;
	return QP_PUSH_OK;
}

enum qp_push qp_push_atomic_resp(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
				 const struct rn_iov *ulpdu, uint32_t n)
{
	struct qp_work *k = m->work;
	uint8_t scratch[RDMAP_ATOMIC_RESP_LEN];
	struct rdmap_atomic_resp p;

	enum rdmap_verdict u = ddp_uq_check(&m->uq_atomic, h, rdmap_readq_count(&m->readq), RDMAP_ATOMIC_RESP_LEN);
	if (u == RDMAP_DONE) {
		rdmap_atomic_resp_parse(qp_payload_head(h, ulpdu, n, scratch, sizeof(scratch)), &p);
		u = rdmap_readq_check_atomic(&m->readq, p.id);
	}
	if (u != RDMAP_DONE) {
		ctx->stats.rdmap_errors++;
		return qp_push_refuse(ctx, m, rdmap_verdict_err(u, h), true);
	}
	const struct rdmap_read *rd = rdmap_readq_head(&m->readq);
	struct qp_wr *wr = &k->wr[rd->cookie & k->wr_mask];
	const struct qp_access a = {
		.pd = m->qp->pd, .stag = rd->stag, .to = rd->to, .len = sizeof(p.value), .rights = QP_ACC_LOCAL_WRITE
	};
	const struct rn_iov value = { .base = (uint8_t *)&p.value, .len = sizeof(p.value) };
	if (qp_place(ctx, m->dev, &a, &value, 1) != QP_MR_OK) {
		wr->status = QP_WC_LOC_PROT_ERR;
		return qp_push_refuse(ctx, m, qp_local_err(), false);
	}
	ddp_uq_advance(&m->uq_atomic, h);
	rdmap_readq_retire(&m->readq);
	wr->done = 1;
	return qp_complete(ctx, m) == QP_PULL_FAILED ? QP_PUSH_FAILED : QP_PUSH_OK;
}
