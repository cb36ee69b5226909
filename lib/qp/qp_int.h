/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/qp: what its files share. */
#ifndef QP_INT_H
#define QP_INT_H

#include "qp/qp_engine.h"

/* Whether the peer answers the operation: such work requests take a place in the outbound depth. */
static inline bool qp_op_answered(uint8_t op)
{
	return (1u << op & (1u << QP_WR_READ | 1u << QP_WR_CMP_SWAP | 1u << QP_WR_FETCH_ADD)) != 0;
}

/* Completes a work request that was taken from the send queue. */
static inline void qp_taken_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_wr *wr, enum qp_wc_status status)
{
	if (rn_unlikely(qp_op_answered(wr->op)) && qp->many) /* in this order: these lines of qp are cold */
		qp->reads_open--;
	qp_send_cqe(ctx, qp, wr, status);
}

/* The RsvdULP word of this work request's message: an XRC initiator's shared receive queue number; else 0. */
static inline uint32_t qp_srqn(const struct qp *qp, const struct qp_wqe *w) { return w->srqn & qp->srqn_mask; }

/* Adds the work request to the ring of those under way, from which it will be completed. */
static inline struct qp_wr *qp_sq_start(struct qp_msgs *m, struct qp_send *s)
{
	struct qp_work *k = m->work;
	struct qp_wr *wr = &k->wr[k->wr_tail & k->wr_mask];

	*wr = (struct qp_wr){ .wr_id = s->w.wr_id,
			      .raddr = s->w.raddr,
			      .key = s->w.rkey,
			      .len = s->total,
			      .op = s->w.op,
			      .flags = s->w.flags,
			      .slots = s->w.slots };
	if (s->w.op == QP_WR_SEND || s->w.op == QP_WR_SEND_INV) {
		s->msn = m->msn_send++;
		wr->key = s->msn;
	}
	s->wr = k->wr_tail++ & QP_WR_MASK;
	s->started = true;
	return wr;
}

/* The peer's Read or Atomic will be answered in its turn. The inbound depth says that there is room. */
static inline struct qp_resp *qp_resp_add(struct qp_work *k)
{
	return &k->resp[k->resp_tail++ & (QP_MAX_RD_ATOMIC - 1)];
}

/* The payload's slices, of a segment in n slices. The header lies inside the segment, so the cut cannot fail. */
static inline uint32_t qp_payload(const struct ddp_hdr *h, const struct rn_iov *ulpdu, uint32_t n, struct rn_iov *iov)
{
	if (rn_likely(n == 1)) {
		iov[0] = (struct rn_iov){ .base = ulpdu[0].base + h->hdr_len, .len = h->payload_len };
		return h->payload_len > 0;
	}
	if (rn_likely(ulpdu[0].len > h->hdr_len)) {
		memcpy(iov, ulpdu, n * sizeof(iov[0]));
		iov[0].base += h->hdr_len;
		iov[0].len -= h->hdr_len;
		return n;
	}
	return rn_iov_cut(ulpdu, n, h->hdr_len, h->payload_len, iov, QP_ULPDU_IOV);
}

/* The first `len` bytes of the payload in one piece: where they lie, or copied to `scratch`. They are there. */
static inline const uint8_t *qp_payload_head(const struct ddp_hdr *h, const struct rn_iov *ulpdu, uint32_t n,
					     uint8_t *scratch, uint32_t len)
{
	struct rn_iov iov[QP_ULPDU_IOV];

	if (rn_likely(n == 1))
		return ulpdu[0].base + h->hdr_len;
	rn_iov_gather(iov, qp_payload(h, ulpdu, n, iov), scratch, len);
	return scratch;
}

/* Fails the sequence with e; the Terminate names the current segment if `named`. */
static inline void qp_fail(struct qp_msgs *m, struct iw_err e, bool named)
{
	m->err = e;
	m->err_named = named;
}

/* qp_ctx.c */
void qp_list_qp(struct qp_ctx *ctx, struct qp *qp);

/* qp_cq.c */
/* The ring of this worker is full or corrupt: the CQ takes no more entries. */
RN_COLD void qp_cq_fail(struct qp_ctx *ctx, struct qp_cq *cq);
/*
 * Publishes the CQ's completions, and decides whether to notify the client. If there is no room for the effect, the CQ
 * waits for it, and qp_cq_notify_waiting() goes on with the CQ that has waited longest.
 */
void qp_cq_publish(struct qp_ctx *ctx, struct qp_cq *cq);
void qp_cq_notify_waiting(struct qp_ctx *ctx);

/* The next qp_flush() shall publish this worker's ring of a CQ. */
static inline void qp_cq_list(struct qp_ctx *ctx, struct qp_cq_ring *r)
{
	if (rn_unlikely(!rn_link_linked(&r->link)))
		rn_list_push_back(&ctx->dirty_cq, &r->link);
}

#define QP_CQE_AHEAD 4u /* completions: the cache line behind the next one is fetched while an entry is written */

/*
 * Writes one completion, and tells the client with the others of this turn. from: the address of a datagram's sender;
 * NULL: none. False: the CQ is in error and the entry is lost; the QP must go to ERR.
 * Inline, so that the entry's fields go from registers into the slot: an entry that is built aside by small stores and
 * then copied by wide loads waits until these stores have left the core, behind all other stores to shared memory.
 */
static inline __attribute__((always_inline)) bool qp_cq_push(struct qp_ctx *ctx, struct qp_cq *cq,
							     const struct qp_cqe *cqe, const uint8_t *from)
{
	struct qp_cq_ring *r = &cq->ring[ctx->worker];

	if (rn_unlikely(__atomic_load_n(&cq->error, __ATOMIC_RELAXED) != 0))
		return false;
	if (rn_unlikely(spsc_prod_free(&r->prod, r->pending + 1) < r->pending + 1)) {
		qp_cq_fail(ctx, cq);
		return false;
	}
	struct qp_cqe *to = spsc_prod_slot(&r->prod, r->pending);
	rn_prefetch_write(spsc_prod_slot(&r->prod, r->pending + QP_CQE_AHEAD));
	to->wr_id = cqe->wr_id;
	to->qpn = cqe->qpn;
	to->byte_len = cqe->byte_len;
	to->aux = cqe->aux;
	to->op = cqe->op;
	to->status = cqe->status;
	to->flags = cqe->flags;
	to->solicited = cqe->solicited;
	to->src_qp = cqe->src_qp;
	to->when = (uint32_t)ctx->now;
	if (rn_unlikely(cq->wide)) {
		struct qp_cqe_wide *wide = (struct qp_cqe_wide *)(void *)to;
		if (from != NULL)
			memcpy(wide->from, from, sizeof(wide->from));
		else
			memset(wide->from, 0, sizeof(wide->from));
	}
	r->pending++;
	r->solicited |= cqe->solicited != 0;
	ctx->stats.cqes++;
	qp_cq_list(ctx, r);
	return true;
}

/* qp.c */
/* Goes on flushing the listed queue pairs, as much as one turn may, and as far as there is room for effects. */
void qp_flush_on(struct qp_ctx *ctx);
void qp_flush_work(struct qp_ctx *ctx, struct qp *qp, struct qp_work *k);
void qp_release(struct qp *qp);

/* qp_rq.c */
void qp_recv_ask(struct qp_ctx *ctx, struct qp *qp);

/* qp.c */
void qp_access_set(struct qp *qp, uint32_t access); /* QP_ACC_REMOTE_* */

/* qp_hold.c: in place of qp_place(), for a segment of a Write to the QP's memory */
enum qp_mr_verdict qp_hold_write(struct qp_ctx *ctx, struct qp *qp, const struct qp_access *a, const struct rn_iov *src,
				 uint32_t n);

/* qp_place.c */
void qp_place_fence(struct qp_ctx *ctx);

/* Makes all placed bytes visible. Call before announcing them, or reading the memory here. */
static inline void qp_place_settle(struct qp_ctx *ctx)
{
	if (rn_unlikely(ctx->stream.out))
		qp_place_fence(ctx);
}

/* qp_pull.c */
RN_COLD enum qp_pull qp_sq_fail(struct qp_ctx *ctx, struct qp_msgs *m, enum qp_wc_status why);
/* qp_pull_op.c: for a work request that is neither a Send nor a Write of bytes */
bool qp_op_local(const struct qp_send *s);
uint32_t qp_op_len(const struct qp_msgs *m);
RN_NOINLINE enum qp_pull qp_op_do_local(struct qp_ctx *ctx, struct qp_msgs *m);
RN_NOINLINE void qp_op_pull(struct qp_msgs *m, struct qp_seg *seg);
RN_NOINLINE void qp_atomic_pull(struct qp_msgs *m, struct qp_seg *seg);
uint8_t *qp_pull_short(const struct ddp_hdr *h, struct qp_seg *seg);

/* qp_push.c */
RN_COLD enum qp_push qp_push_refuse(struct qp_ctx *ctx, struct qp_msgs *m, struct iw_err e, bool named);
struct iw_err qp_source_err(enum qp_mr_verdict v, bool read);
/* qp_xrc.c */
/* Chooses the shared receive queue that the header names. False: it names none of the QP's domain. */
RN_COLD bool qp_xrc_choose(struct qp_ctx *ctx, struct qp *qp, const struct ddp_hdr *h);
/*
 * After a peer's access failed for its PD. True: the QP is a target and another PD of its domain has the memory; a->pd
 * is set.
 */
RN_COLD bool qp_xrc_other_pd(struct qp *qp, struct qp_access *a);
/* Takes the target off its queue's list. Does nothing if it is in none. */
static inline void qp_xrc_leave(const struct qp_ctx *ctx, struct qp *qp)
{
	rn_list_remove(&qp->srq->targets[ctx->worker], &qp->xrc_link);
}
/* A target's PD, or 0 if that has no shared receive queue in the domain any more. */
RN_NOINLINE uint32_t qp_xrc_pd(struct qp *qp);
/* The PD whose memory the peer of the QP reaches. */
static inline uint32_t qp_peer_pd(struct qp *qp)
{
	return rn_likely(qp->xrc != QP_XRC_TARGET) ? qp->pd : qp_xrc_pd(qp);
}

/* qp_push_atomic.c */
RN_NOINLINE enum qp_push qp_push_atomic_req(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
					    const struct rn_iov *ulpdu, uint32_t n);
RN_NOINLINE enum qp_push qp_push_atomic_resp(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h,
					     const struct rn_iov *ulpdu, uint32_t n);

#endif
