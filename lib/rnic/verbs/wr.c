/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting through the functions of an ibv_qp_ex: each call adds to the current work request, which the next operation
 * or wr_complete() finishes in the ring. The SQ's lock is held from wr_start() to wr_complete() or wr_abort(). An error
 * in between is kept in sq->err, and wr_complete() returns it.
 */
#include "rnic/verbs/fail.h"
#include "rnic/verbs/watch.h"

#define QPN_MAX UINT32_C(0xffffff)

static struct rnic_qp *qp_of(struct ibv_qp_ex *ex) { return (struct rnic_qp *)ex; }

/* Where the current work request's SGEs or inline data begin. */
static uint8_t *payload(const struct rnic_sq *sq)
{
	return (uint8_t *)sq->cur.w + QP_WQE_FIXED + rnic_sq_head(sq, sq->cur.op);
}

/*
 * Checks a datagram's work request: a destination is set, and the message is not too long. A Write-Record needs at
 * least one byte, a Read-Record one SGE.
 */
static bool addressed(const struct rnic_sq *sq)
{
	const uint64_t len = sq->cur.inline_len + sq->cur.sge_len;

	if (sq->ud_mtu == 0)
		return !sq->many || sq->cur.ah != NULL;
	if (sq->cur.op == QP_WR_SEND || sq->cur.op == QP_WR_SEND_IMM)
		return sq->cur.ah != NULL && len <= sq->ud_mtu;
	return sq->cur.ah != NULL && len <= sq->ud_mtu && len > 0 && (sq->cur.op != QP_WR_READ || sq->cur.num_sge == 1);
}

/* Finishes the current work request. */
static void flush(struct rnic_sq *sq)
{
	struct qp_wqe *w = sq->cur.w;
	const bool is_inline = (sq->cur.flags & QP_WF_INLINE) != 0;

	if (w == NULL || sq->err != 0)
		return;
	sq->cur.w = NULL;
	const uint32_t slots =
		qp_wqe_slots(rnic_sq_head(sq, sq->cur.op) +
			     (is_inline ? sq->cur.inline_len : sq->cur.num_sge * (uint32_t)sizeof(struct qp_sge))) +
		sq->many;
	if (!addressed(sq)) {
		sq->err = EINVAL;
		return;
	}
	if (!rnic_sq_room(sq, sq->staged_wrs, sq->staged, slots)) {
		sq->err = ENOMEM;
		return;
	}
	spsc_prod_ahead(&sq->ring, sq->staged + 2 * slots, rn_min_u32(slots, 4)); /* of the next but one */
	w->flags = sq->cur.flags;
	w->num_sge = sq->cur.num_sge;
	w->slots = (uint8_t)slots;
	w->inline_len = sq->cur.inline_len;
	if (sq->many)
		rnic_dest_fill((struct qp_wqe_dest *)(void *)((uint8_t *)w + (slots - 1) * QP_SLOT_SIZE), sq->cur.ah,
			       (uint32_t)sq->cur.to, (uint32_t)(sq->cur.to >> 32));
	spsc_prod_placed(&sq->ring, sq->staged, w, sq->aside, slots * QP_SLOT_SIZE);
	sq->staged += slots;
	sq->staged_wrs++;
}

/*
 * Where the next work request is built: in the ring if it has room for the longest work request (by the last known
 * index of the worker), else in sq->aside.
 */
static uint8_t *place(const struct rnic_sq *sq)
{
	const uint32_t room = sq->ring.mask + 1 - (sq->ring.own - sq->ring.seen);

	if (room < sq->staged + QP_WQE_MAX_SLOTS)
		return sq->aside;
	return spsc_prod_place(&sq->ring, sq->staged, QP_WQE_MAX_SLOTS, sq->aside);
}

static struct qp_wqe *begin(struct ibv_qp_ex *ex, enum qp_wr_op op)
{
	struct rnic_sq *sq = &qp_of(ex)->sq;

	flush(sq);
	struct qp_wqe *w = (struct qp_wqe *)(void *)place(sq);
	memset(w, 0, QP_SLOT_SIZE);
	w->wr_id = ex->wr_id;
	w->op = (uint8_t)op;
	sq->cur.w = w;
	sq->cur.op = (uint8_t)op;
	sq->cur.flags = (uint8_t)(((ex->wr_flags & IBV_SEND_SIGNALED) != 0 ? QP_WF_SIGNALED : 0) |
				  ((ex->wr_flags & IBV_SEND_FENCE) != 0 ? QP_WF_FENCE : 0) |
				  ((ex->wr_flags & IBV_SEND_SOLICITED) != 0 ? QP_WF_SOLICITED : 0) | sq->sig_all);
	sq->cur.num_sge = 0;
	sq->cur.inline_len = 0;
	sq->cur.sge_len = 0;
	sq->cur.ah = NULL;
	return w;
}

static void wr_send(struct ibv_qp_ex *ex) { begin(ex, QP_WR_SEND); }

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey) { begin(ex, QP_WR_SEND_INV)->aux = rkey; }

static void wr_rdma(struct ibv_qp_ex *ex, enum qp_wr_op op, uint32_t rkey, uint64_t raddr)
{
	struct qp_wqe *w = begin(ex, op);

	w->rkey = rkey;
	if (rn_likely(qp_of(ex)->sq.ud_mtu == 0))
		w->raddr = raddr;
	else
		w->dgram_write.raddr = raddr;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr)
{
	wr_rdma(ex, QP_WR_WRITE, rkey, raddr);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr) { wr_rdma(ex, QP_WR_READ, rkey, raddr); }

static void fail(struct rnic_sq *sq, int err)
{
	if (sq->err == 0)
		sq->err = err;
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm) { begin(ex, QP_WR_SEND_IMM)->aux = imm; }

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, __be32 imm)
{
	wr_rdma(ex, QP_WR_WRITE_IMM, rkey, raddr);
	qp_of(ex)->sq.cur.w->aux = imm;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, uint64_t compare, uint64_t swap)
{
	wr_rdma(ex, QP_WR_CMP_SWAP, rkey, raddr);
	qp_of(ex)->sq.cur.w->atomic.operand = compare;
	qp_of(ex)->sq.cur.w->atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t raddr, uint64_t add)
{
	wr_rdma(ex, QP_WR_FETCH_ADD, rkey, raddr);
	qp_of(ex)->sq.cur.w->atomic.operand = add;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey) { begin(ex, QP_WR_LOCAL_INV)->aux = rkey; }

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	(void)mw; /* the window's STag is in `rkey` */
	if (rnic_bind_fill(begin(ex, QP_WR_BIND_MW), rkey, info) != 0)
		fail(&qp_of(ex)->sq, EINVAL);
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct rnic_sq *sq = &qp_of(ex)->sq;
	struct qp_wqe *w = sq->cur.w;

	if (w == NULL || ah == NULL || (sq->many && qpn > QPN_MAX)) {
		fail(sq, EINVAL);
		return;
	}
	sq->cur.ah = ah;
	if (sq->many) { /* flush() knows where the destination's slot is */
		sq->cur.to = qpn | (uint64_t)qkey << 32;
		return;
	}
	memcpy(w->dgram.addr, rnic_ah(ah)->addr, sizeof(w->dgram.addr));
	w->hop_limit = rnic_ah(ah)->hop_limit;
	w->ud.qpn = qpn;
	w->ud.qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct qp_wqe *w = qp_of(ex)->sq.cur.w;

	if (w == NULL || srqn > UINT16_MAX) {
		fail(&qp_of(ex)->sq, EINVAL);
		return;
	}
	w->srqn = (uint16_t)srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct rnic_sq *sq = &qp_of(ex)->sq;
	struct qp_sge *sge;

	if (rn_unlikely(sq->watch != NULL))
		rnic_watch_caps(sq, "ibv_wr_set_sge_list", n, 0);
	if (sq->cur.w == NULL || n > rnic_op_sges(sq->cur.op, sq->max_sge)) {
		fail(sq, EINVAL);
		return;
	}
	sge = (struct qp_sge *)(void *)payload(sq);
	sq->cur.num_sge = (uint8_t)n;
	sq->cur.sge_len = 0;
	for (size_t i = 0; i < n; i++) {
		sge[i] = (struct qp_sge){ list[i].addr, list[i].length, list[i].lkey };
		sq->cur.sge_len += list[i].length;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = { .addr = addr, .length = length, .lkey = lkey };

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct rnic_sq *sq = &qp_of(ex)->sq;
	size_t len = 0;

	if (sq->cur.w == NULL || sq->cur.op == QP_WR_READ || sq->cur.op > QP_WR_WRITE_IMM) {
		fail(sq, EINVAL);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > sq->max_inline - len) {
			if (sq->watch != NULL)
				rnic_watch_caps(sq, "ibv_wr_set_inline_data", 0, len + list[i].length);
			fail(sq, EINVAL);
			return;
		}
		memcpy(payload(sq) + len, list[i].addr, list[i].length);
		len += list[i].length;
	}
	sq->cur.flags |= QP_WF_INLINE;
	sq->cur.inline_len = (uint16_t)len;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = { .addr = addr, .length = length };

	wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct rnic_sq *sq = &qp_of(ex)->sq;

	rnic_spin_lock(&sq->lock);
	sq->staged = sq->staged_wrs = 0;
	sq->err = 0;
	sq->cur.w = NULL;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct rnic_qp *qp = qp_of(ex);
	struct rnic_sq *sq = &qp->sq;
	uint32_t state = __atomic_load_n(&qp->shm->state, __ATOMIC_ACQUIRE);
	uint32_t staged = 0;
	int err;

	flush(sq);
	if (rnic_dead(qp->s))
		fail(sq, EIO);
	else if (state == IBV_QPS_RESET || state == IBV_QPS_INIT)
		fail(sq, EINVAL);
	else if (rn_unlikely(rnic_injecting))
		fail(sq, rnic_fail_posted(qp));
	err = sq->err;
	if (err == 0)
		staged = sq->staged;
	if (staged > 0) {
		if (rn_unlikely(sq->watch != NULL))
			rnic_watch_sends(sq, sq->staged_wrs);
		sq->posted += sq->staged_wrs;
		spsc_prod_publish(&sq->ring, staged);
	}
	rnic_spin_unlock(&sq->lock);
	if (staged > 0)
		rnic_doorbell(qp);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex) { rnic_spin_unlock(&qp_of(ex)->sq.lock); }

void rnic_wr_init(struct ibv_qp_ex *ex)
{
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_set_ud_addr = rnic_sq_addresses(&qp_of(ex)->sq) ? wr_set_ud_addr : NULL;
	ex->wr_set_xrc_srqn = qp_of(ex)->sq.xrc ? wr_set_xrc_srqn : NULL;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
