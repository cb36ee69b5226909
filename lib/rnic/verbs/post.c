/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting: work requests are written straight into the ring's slots, with one release store and one doorbell for a
 * whole list. Over rnicd, the only system call is the write that wakes a worker, if the worker has asked for that
 * before sleeping.
 */
#include "rnic/verbs/watch.h"

#include <unistd.h>

#define STATE_RESET 0 /* qp_shm.state has the numbers of ibv_qp_state */
#define STATE_INIT  1
#define STATE_ERR   6

#define BIND_ACCESS \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

/* ---- binds of memory windows, for wr.c too ---- */

int rnic_bind_fill(struct qp_wqe *w, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	/* Programs also ask for local rights, which a window does not have: its region has them. */
	if ((info->mw_access_flags & ~(unsigned int)(BIND_ACCESS | IBV_ACCESS_LOCAL_WRITE)) != 0 ||
	    (info->mr == NULL && info->length != 0))
		return EINVAL;
	w->rkey = rkey;
	w->aux = info->mr != NULL ? info->mr->lkey : 0;
	w->raddr = info->addr;
	w->bind.len = info->length;
	w->bind.access = info->mw_access_flags & BIND_ACCESS;
	return 0;
}

/* ---- the doorbell ---- */

/* Partner: the worker sets need_wakeup, fences, and looks at its doorbells once more before it sleeps. */
static void wake(const struct rnic_session *s, struct ipc_doorbell *db)
{
	/*
	 * One write for each sleep of the worker: only the thread that clears need_wakeup writes. The worker sets
	 * need_wakeup again before its next sleep.
	 */
	if (rn_unlikely(__atomic_load_n(&db->need_wakeup, __ATOMIC_RELAXED) != 0) &&
	    __atomic_exchange_n(&db->need_wakeup, 0, __ATOMIC_RELAXED) != 0) {
		const int cancel = rnic_cancel_off();
		uint64_t one = 1;
		ssize_t n = write(s->wake_fd, &one, sizeof(one));
		rnic_cancel_back(cancel);
		(void)n; /* a full counter wakes the worker as well */
	}
}

void rnic_doorbell(struct rnic_qp *qp)
{
	/*
	 * The slots are published before the worker's number and the bit are read. If the bit is set already, the
	 * worker sees the slots, too, and so does a worker that the queue pair comes to meanwhile (belongs_to() in
	 * rnicd).
	 */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	struct ipc_doorbell *db = &qp->doorbells[__atomic_load_n(&qp->shm->worker, __ATOMIC_RELAXED) % IPC_MAX_WORKERS];
	uint64_t *word = &db->bits[qp->db_word];

	if ((__atomic_load_n(word, __ATOMIC_RELAXED) & qp->db_mask) == 0) {
		__atomic_fetch_or(word, qp->db_mask, __ATOMIC_RELEASE);
		__atomic_fetch_or(&db->summary, UINT64_C(1) << (qp->db_word % 64), __ATOMIC_RELEASE);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
	}
	if (qp->s->own.turn != NULL && rnic_own_turn(qp->s))
		return;
	wake(qp->s, db);
}

/* ---- send queue ---- */

/*
 * Whether a watched queue does not yet give back the room of its oldest work request: as on other devices, the program
 * must first poll the completion. Other queues give the room back when the worker has finished the work request.
 */
static bool sq_held(const struct rnic_sq *sq)
{
	return sq->watch != NULL && !sq->many && sq->retired == __atomic_load_n(&sq->polled, __ATOMIC_RELAXED);
}

static void retire_in_order(struct rnic_sq *sq)
{
	while (sq->retired != sq->posted && (int32_t)(sq->ring.seen - sq->ends[sq->retired & sq->ends_mask]) >= 0 &&
	       !sq_held(sq))
		sq->retired++;
}

/*
 * Work requests to several peers complete in any order, and what is known is only how many slots they have given back.
 * So the rest counts as the fewest work requests that can have the slots which are still taken.
 */
static void retire_in_any_order(struct rnic_sq *sq)
{
	const uint32_t taken = sq->ring.own - sq->ring.seen;

	for (; sq->sized != sq->posted; sq->sized++) {
		const uint32_t end = sq->ends[sq->sized & sq->ends_mask];

		sq->most = rn_max_u32(sq->most, end - sq->sized_end);
		sq->sized_end = end;
	}
	sq->retired = taken > 0 ? sq->posted - (taken + sq->most - 1) / sq->most : sq->posted;
}

bool rnic_sq_retire(struct rnic_sq *sq, uint32_t wrs)
{
	spsc_prod_refresh(&sq->ring);
	if (sq->many)
		retire_in_any_order(sq);
	else
		retire_in_order(sq);
	const bool room = sq->posted + wrs - sq->retired < sq->max_wr;
	if (rn_unlikely(sq->watch != NULL) && !room && wrs == 0)
		rnic_watch_full(sq);
	return room;
}

/* The WQE's operation, or QP_WR_OPS for an operation that this device does not have. */
static inline enum qp_wr_op op_of(enum ibv_wr_opcode op)
{
	switch (op) {
	case IBV_WR_SEND: return QP_WR_SEND;
	case IBV_WR_RDMA_WRITE: return QP_WR_WRITE;
	case IBV_WR_RDMA_READ: return QP_WR_READ;
	case IBV_WR_SEND_WITH_INV: return QP_WR_SEND_INV;
	case IBV_WR_RDMA_WRITE_WITH_IMM: return QP_WR_WRITE_IMM;
	case IBV_WR_SEND_WITH_IMM: return QP_WR_SEND_IMM;
	case IBV_WR_ATOMIC_CMP_AND_SWP: return QP_WR_CMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD: return QP_WR_FETCH_ADD;
	case IBV_WR_LOCAL_INV: return QP_WR_LOCAL_INV;
	case IBV_WR_BIND_MW: return QP_WR_BIND_MW;
	case IBV_WR_TSO:
	case IBV_WR_DRIVER1:
	case IBV_WR_ATOMIC_WRITE: break;
	}
	return QP_WR_OPS;
}

static inline uint8_t flags_of(unsigned int f)
{
	return (uint8_t)(((f & IBV_SEND_SIGNALED) != 0 ? QP_WF_SIGNALED : 0) |
			 ((f & IBV_SEND_FENCE) != 0 ? QP_WF_FENCE : 0) |
			 ((f & IBV_SEND_SOLICITED) != 0 ? QP_WF_SOLICITED : 0) |
			 ((f & IBV_SEND_INLINE) != 0 ? QP_WF_INLINE : 0));
}

static int inline_len(const struct rnic_sq *sq, const struct ibv_send_wr *wr, uint32_t *len)
{
	uint64_t sum = 0;

	if (wr->opcode == IBV_WR_RDMA_READ)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		sum += wr->sg_list[i].length;
	*len = (uint32_t)sum;
	return sum <= sq->max_inline ? 0 : EINVAL;
}

static void payload_fill(uint8_t *to, const struct ibv_send_wr *wr)
{
	struct qp_sge *sge = (struct qp_sge *)(void *)to;

	if ((wr->send_flags & IBV_SEND_INLINE) == 0) {
		for (int i = 0; i < wr->num_sge; i++)
			sge[i] = (struct qp_sge){ wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey };
		return;
	}
	for (int i = 0; i < wr->num_sge; i++) {
		memcpy(to, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
		to += wr->sg_list[i].length;
	}
}

static void wqe_fill(struct qp_wqe *w, const struct rnic_sq *sq, const struct ibv_send_wr *wr, enum qp_wr_op op)
{
	w->wr_id = wr->wr_id;
	w->op = (uint8_t)op;
	w->flags = flags_of(wr->send_flags) | sq->sig_all;
	w->num_sge = 0;
	w->inline_len = 0;
	w->hop_limit = w->rsv = 0;
	w->raddr = wr->wr.rdma.remote_addr;
	w->rkey = wr->wr.rdma.rkey;
	w->aux = wr->invalidate_rkey; /* or imm_data, which lies in the same place */
	if (op == QP_WR_SEND || op == QP_WR_SEND_INV || op == QP_WR_SEND_IMM) {
		w->raddr = 0;
		w->rkey = 0;
	}
	if (op == QP_WR_SEND || op == QP_WR_WRITE || op == QP_WR_READ)
		w->aux = 0;
}

/* False: an impossible number of a shared receive queue, or an operation that an XRC queue pair does not have. */
static bool srqn_fill(struct qp_wqe *w, const struct ibv_send_wr *wr, enum qp_wr_op op)
{
	w->srqn = (uint16_t)wr->qp_type.xrc.remote_srqn;
	return w->srqn == wr->qp_type.xrc.remote_srqn && op != QP_WR_SEND_INV && op != QP_WR_LOCAL_INV &&
	       op != QP_WR_BIND_MW;
}

/* Writes the fields of an Atomic, a local invalidation or a bind; each fits one slot. 0 or an errno. */
static int op_fill(struct qp_wqe *w, const struct ibv_send_wr *wr, enum qp_wr_op op)
{
	if ((wr->send_flags & IBV_SEND_INLINE) != 0)
		return EINVAL;
	if (op == QP_WR_BIND_MW)
		return rnic_bind_fill(w, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	if (op == QP_WR_LOCAL_INV)
		return 0;
	if (wr->num_sge != 1 || wr->sg_list[0].length < sizeof(uint64_t))
		return EINVAL;
	w->raddr = wr->wr.atomic.remote_addr;
	w->rkey = wr->wr.atomic.rkey;
	w->atomic.operand = wr->wr.atomic.compare_add;
	w->atomic.swap = wr->wr.atomic.swap;
	return 0;
}

/* Writes a work request behind `wrs` unpublished ones of `used` slots. 0 and its number of slots, or an errno. */
static int send_one(struct rnic_sq *sq, const struct ibv_send_wr *wr, uint32_t wrs, uint32_t used, uint32_t *took)
{
	enum qp_wr_op op = op_of(wr->opcode);
	uint32_t inl = 0, slots;

	if (rn_unlikely(op == QP_WR_OPS))
		return EOPNOTSUPP;
	if (rn_unlikely(wr->num_sge < 0))
		return EINVAL;
	if ((wr->send_flags & IBV_SEND_INLINE) != 0) {
		int rc = inline_len(sq, wr, &inl);
		if (rn_unlikely(rc != 0))
			return rc;
		slots = qp_wqe_slots(inl);
	} else {
		if (rn_unlikely((uint32_t)wr->num_sge > rnic_op_sges((uint8_t)op, sq->max_sge)))
			return EINVAL;
		slots = qp_wqe_slots((uint32_t)wr->num_sge * (uint32_t)sizeof(struct qp_sge));
	}
	if (rn_unlikely(!rnic_sq_room(sq, wrs, used, slots)))
		return ENOMEM;

	uint8_t aside[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] RN_ALIGNED(RN_CACHE_LINE);
	struct qp_wqe *w = spsc_prod_place(&sq->ring, used, slots, aside);
	spsc_prod_ahead(&sq->ring, used + 2 * slots, 2);
	wqe_fill(w, sq, wr, op);
	if (rn_unlikely(sq->xrc) && !srqn_fill(w, wr, op))
		return EINVAL;
	if (rn_unlikely(op > QP_WR_WRITE_IMM)) {
		int rc = op_fill(w, wr, op);
		if (rc != 0)
			return rc;
	}
	w->slots = (uint8_t)slots;
	if ((wr->send_flags & IBV_SEND_INLINE) != 0)
		w->inline_len = (uint16_t)inl;
	else
		w->num_sge = (uint8_t)wr->num_sge;
	payload_fill((uint8_t *)w + QP_WQE_FIXED, wr);
	spsc_prod_placed(&sq->ring, used, w, aside, slots * QP_SLOT_SIZE);
	*took = slots;
	return 0;
}

/* As send_one(), for unreliable datagrams. A message that is too long is refused here, not when the worker takes it. */
static int send_datagram(struct rnic_sq *sq, const struct ibv_send_wr *wr, uint32_t wrs, uint32_t used, uint32_t *took)
{
	uint8_t aside[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] RN_ALIGNED(RN_CACHE_LINE);
	const bool inl = (wr->send_flags & IBV_SEND_INLINE) != 0;
	enum qp_wr_op op = op_of(wr->opcode);
	uint64_t len = 0;

	if ((op != QP_WR_SEND && op != QP_WR_SEND_IMM) || wr->wr.ud.ah == NULL || wr->num_sge < 0)
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		len += wr->sg_list[i].length;
	if (len > sq->ud_mtu || (inl ? len > sq->max_inline : (uint32_t)wr->num_sge > sq->max_sge))
		return EINVAL;
	uint32_t bytes = QP_UD_ADDR_LEN +
			 (inl ? (uint32_t)len : (uint32_t)wr->num_sge * (uint32_t)sizeof(struct qp_sge));
	uint32_t slots = qp_wqe_slots(bytes);
	if (rn_unlikely(!rnic_sq_room(sq, wrs, used, slots)))
		return ENOMEM;
	struct qp_wqe *w = spsc_prod_place(&sq->ring, used, slots, aside);
	*w = (struct qp_wqe){ .wr_id = wr->wr_id,
			      .op = (uint8_t)op,
			      .flags = flags_of(wr->send_flags) | sq->sig_all,
			      .num_sge = (uint8_t)(inl ? 0 : wr->num_sge),
			      .slots = (uint8_t)slots,
			      .inline_len = (uint16_t)(inl ? len : 0),
			      .hop_limit = rnic_ah(wr->wr.ud.ah)->hop_limit,
			      .aux = op == QP_WR_SEND_IMM ? wr->imm_data : 0,
			      .ud = { .qpn = wr->wr.ud.remote_qpn, .qkey = wr->wr.ud.remote_qkey } };
	memcpy(w->dgram.addr, rnic_ah(wr->wr.ud.ah)->addr, sizeof(w->dgram.addr));
	payload_fill((uint8_t *)w + QP_WQE_FIXED + QP_UD_ADDR_LEN, wr);
	spsc_prod_placed(&sq->ring, used, w, aside, slots * QP_SLOT_SIZE);
	*took = slots;
	return 0;
}

/*
 * As send_one(), for reliable datagrams. Only Sends: struct ibv_send_wr has no room for both the peer and the peer's
 * memory, so Writes, Reads and Atomics are posted by ibv_wr_*().
 */
static int send_reliable(struct rnic_sq *sq, const struct ibv_send_wr *wr, uint32_t wrs, uint32_t used, uint32_t *took)
{
	uint8_t aside[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] RN_ALIGNED(RN_CACHE_LINE);
	const bool inlined = (wr->send_flags & IBV_SEND_INLINE) != 0;
	enum qp_wr_op op = op_of(wr->opcode);
	uint32_t inl = 0;

	if ((op != QP_WR_SEND && op != QP_WR_SEND_IMM) || wr->wr.ud.ah == NULL || wr->wr.ud.remote_qpn > 0xffffff ||
	    wr->num_sge < 0 || (!inlined && (uint32_t)wr->num_sge > sq->max_sge) ||
	    (inlined && inline_len(sq, wr, &inl) != 0))
		return EINVAL;
	const uint32_t bytes = inlined ? inl : (uint32_t)wr->num_sge * (uint32_t)sizeof(struct qp_sge);
	const uint32_t slots = qp_wqe_slots(bytes) + 1;
	if (rn_unlikely(!rnic_sq_room(sq, wrs, used, slots)))
		return ENOMEM;
	struct qp_wqe *w = spsc_prod_place(&sq->ring, used, slots, aside);
	wqe_fill(w, sq, wr, op);
	w->slots = (uint8_t)slots;
	w->num_sge = (uint8_t)(inlined ? 0 : wr->num_sge);
	w->inline_len = (uint16_t)inl;
	payload_fill((uint8_t *)w + QP_WQE_FIXED, wr);
	rnic_dest_fill((struct qp_wqe_dest *)(void *)((uint8_t *)w + (slots - 1) * QP_SLOT_SIZE), wr->wr.ud.ah,
		       wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
	spsc_prod_placed(&sq->ring, used, w, aside, slots * QP_SLOT_SIZE);
	*took = slots;
	return 0;
}

static int send_other(struct rnic_sq *sq, const struct ibv_send_wr *wr, uint32_t wrs, uint32_t used, uint32_t *took)
{
	return (sq->many ? send_reliable : send_datagram)(sq, wr, wrs, used, took);
}

int rnic_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct rnic_qp *qp = rnic_qp(ibqp);
	uint32_t state = __atomic_load_n(&qp->shm->state, __ATOMIC_ACQUIRE);
	uint32_t wrs = 0, used = 0, took;
	int rc = 0;

	/* Before RTR no connection can come up. */
	if (rn_unlikely(state <= STATE_INIT || rnic_dead(qp->s))) {
		*bad = wr;
		return rnic_dead(qp->s) ? EIO : EINVAL;
	}
	rnic_spin_lock(&qp->sq.lock);
	for (; wr != NULL; wr = wr->next) {
		rc = rn_likely(!rnic_sq_addresses(&qp->sq)) ? send_one(&qp->sq, wr, wrs, used, &took)
							    : send_other(&qp->sq, wr, wrs, used, &took);
		if (rn_unlikely(rc != 0)) {
			*bad = wr;
			if (qp->sq.watch != NULL)
				rnic_watch_refused(&qp->sq, wr);
			break;
		}
		used += took;
		wrs++;
	}
	if (rn_likely(used > 0)) {
		if (rn_unlikely(qp->sq.watch != NULL))
			rnic_watch_sends(&qp->sq, wrs);
		qp->sq.posted += wrs;
		spsc_prod_publish(&qp->sq.ring, used);
	}
	rnic_spin_unlock(&qp->sq.lock);
	if (rn_likely(used > 0))
		rnic_doorbell(qp);
	return rc;
}

/* ---- receive queue ---- */

static int recv_one(struct rnic_rq *rq, const struct ibv_recv_wr *wr, uint32_t used)
{
	uint8_t aside[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] RN_ALIGNED(RN_CACHE_LINE);
	uint32_t slots = rq->wqe_slots;

	if (rn_unlikely((uint32_t)wr->num_sge >= rq->sge_end))
		return EINVAL;
	if (rn_unlikely(spsc_prod_free(&rq->ring, used + slots) < used + slots))
		return ENOMEM;
	struct qp_rwqe *w = spsc_prod_place(&rq->ring, used, slots, aside);
	spsc_prod_ahead(&rq->ring, used + 3 * slots, 1);
	w->wr_id = wr->wr_id;
	w->num_sge = (uint8_t)wr->num_sge;
	w->slots = (uint8_t)slots;
	w->rsv0 = 0;
	w->rsv1 = 0;
	struct qp_sge *sge = (struct qp_sge *)(void *)((uint8_t *)w + QP_RWQE_FIXED);
	for (int i = 0; i < wr->num_sge; i++)
		sge[i] = (struct qp_sge){ wr->sg_list[i].addr, wr->sg_list[i].length, wr->sg_list[i].lkey };
	spsc_prod_placed(&rq->ring, used, w, aside, QP_RWQE_FIXED + (uint32_t)wr->num_sge * sizeof(struct qp_sge));
	return 0;
}

static inline void recv_publish(struct rnic_rq *rq, uint32_t used)
{
	rq->held = 0;
	spsc_prod_publish(&rq->ring, used);
}

/*
 * Writes the receives of the list into the ring, up to the first that is invalid or finds no room (*bad). Returns 0, or
 * the errno of *bad. *posted: whether any receive was published.
 */
static inline int recv_list(struct rnic_rq *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad, bool *posted)
{
	int rc = 0;

	rnic_spin_lock(&rq->lock);
	uint32_t used = rq->held;
	for (; wr != NULL; wr = wr->next) {
		rc = recv_one(rq, wr, used);
		if (rn_unlikely(rc != 0)) {
			*bad = wr;
			if (rq->watch != NULL)
				rnic_watch_recv_caps(rq, wr);
			break;
		}
		used += rq->wqe_slots;
	}
	if (rn_unlikely(rq->watch != NULL) && used > rq->held)
		rnic_watch_recvs(rq, rq->held, used);
	if (rn_unlikely(__atomic_load_n(&rq->holds, __ATOMIC_RELAXED) != 0)) {
		rq->held = used;
		used = 0;
	}
	if (rn_likely(used > 0))
		recv_publish(rq, used);
	rnic_spin_unlock(&rq->lock);
	*posted = used > 0;
	return rc;
}

/* Subtracts one from rq->holds. True: this was the last one, and receives that were held back have been published. */
static bool recv_let_go(struct rnic_rq *rq)
{
	bool any = false;

	rnic_spin_lock(&rq->lock);
	if (__atomic_sub_fetch(&rq->holds, 1, __ATOMIC_RELAXED) == 0 && rq->held > 0) {
		recv_publish(rq, rq->held);
		any = true;
	}
	rnic_spin_unlock(&rq->lock);
	return any;
}

/* Rings the doorbells of the workers (a bit mask) on which messages wait for receives of this queue. */
static void srq_doorbells(struct rnic_srq *srq, uint32_t workers)
{
	for (uint32_t w = 0; w < IPC_MAX_WORKERS; w++) {
		struct ipc_doorbell *db = &srq->s->ctrl->doorbell[w];

		if ((workers & UINT32_C(1) << w) == 0)
			continue;
		__atomic_store_n(&db->recvs, 1, __ATOMIC_SEQ_CST);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		wake(srq->s, db);
	}
}

static inline void srq_posted(struct rnic_srq *srq)
{
	uint32_t workers = spsc_prod_asked(&srq->rq.ring);

	if (rn_unlikely(workers != 0))
		srq_doorbells(srq, workers);
}

int rnic_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rnic_srq *srq = rnic_srq(ibsrq);
	bool posted;

	if (rnic_dead(srq->s)) {
		*bad = wr;
		return EIO;
	}
	int rc = recv_list(&srq->rq, wr, bad, &posted);
	if (posted && srq->rq.asks)
		srq_posted(srq);
	return rc;
}

void rnic_srq_release(struct rnic_srq *srq)
{
	if (recv_let_go(&srq->rq) && srq->rq.asks)
		srq_posted(srq);
}

/*
 * A worker looks at the receive queue when a message arrives. So the worker must be told of a posted receive only if it
 * has asked for that, or if the queue pair is in ERR: then the worker flushes the receive.
 */
static inline void recv_posted(struct rnic_qp *qp)
{
	const bool asked = spsc_prod_asked(&qp->rq.ring) != 0; /* its fence also pairs with that of qp_enter_error() */

	if (rn_unlikely(asked && qp->rq.asks) ||
	    rn_unlikely(__atomic_load_n(&qp->shm->state, __ATOMIC_ACQUIRE) == STATE_ERR))
		rnic_doorbell(qp);
}

int rnic_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct rnic_qp *qp = rnic_qp(ibqp);
	bool posted;

	if (rn_unlikely(__atomic_load_n(&qp->shm->state, __ATOMIC_ACQUIRE) == STATE_RESET || rnic_dead(qp->s))) {
		*bad = wr;
		return rnic_dead(qp->s) ? EIO : EINVAL;
	}
	int rc = recv_list(&qp->rq, wr, bad, &posted);
	if (posted)
		recv_posted(qp);
	return rc;
}

void rnic_recv_release(struct rnic_qp *qp)
{
	if (recv_let_go(&qp->rq))
		recv_posted(qp);
}
