/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/verbs/watch.h"

#include <stdio.h>

#include "base/rn_seq.h"
#include "rnic/verbs/veil.h"

#define WATCH_BUCKETS 1024u

/* A work request whose completion the program has not polled. */
struct watched_wr {
	uint64_t wr_id;
	uint64_t sum; /* of the bytes to be sent, at the time of posting */
	uint8_t op;   /* enum qp_wr_op */
	uint8_t num_sge;
	bool signaled;
	bool summed;
	bool done; /* of a queue that completes in any order: completed before an older one */
};

struct watch_queue {
	struct watched_wr *wr; /* [mask + 1] */
	struct qp_sge *sge;    /* [mask + 1][max_sge]; addr is the program's own address, 0: unknown */
	uint32_t mask, max_sge;
	uint32_t head, tail; /* of a send queue: as in rnic_sq.posted */
	struct rnic_cq *cq;  /* NULL for a shared receive queue, whose receives complete in several CQs */
	bool any_order;      /* a completion says nothing about work requests posted before */
};

struct rnic_watch {
	struct rnic_qp *qp; /* NULL for a shared receive queue */
	struct ibv_context *context;
	struct rnic_session *s;
	struct rn_link link; /* in watch_qps: by the QPN, or by the handle of the shared receive queue */
	struct watch_queue sq, rq;
	bool ended; /* the program has disconnected the queue pair: its posted work requests will be flushed */
	bool stuck; /* RNIC_FIND_UNSIGNALED has been reported */
};

static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below, and rnic_cq.due */
static struct rn_list watch_qps[WATCH_BUCKETS];                /* struct rnic_watch, by QPN */
static struct rn_list watch_mrs[WATCH_BUCKETS];                /* struct rnic_mr, by lkey */

static const char *const op_names[QP_WR_OPS] = {
	[QP_WR_SEND] = "Send",
	[QP_WR_SEND_INV] = "Send with Invalidate",
	[QP_WR_WRITE] = "RDMA Write",
	[QP_WR_READ] = "RDMA Read",
	[QP_WR_SEND_IMM] = "Send with immediate data",
	[QP_WR_WRITE_IMM] = "RDMA Write with immediate data",
	[QP_WR_CMP_SWAP] = "Compare and Swap",
	[QP_WR_FETCH_ADD] = "Fetch and Add",
	[QP_WR_LOCAL_INV] = "local invalidation",
	[QP_WR_BIND_MW] = "bind of a window",
};

static bool op_fetches(uint8_t op) { return op == QP_WR_READ || op == QP_WR_CMP_SWAP || op == QP_WR_FETCH_ADD; }
static bool op_sends(uint8_t op) { return op <= QP_WR_WRITE || op == QP_WR_SEND_IMM || op == QP_WR_WRITE_IMM; }

static struct rn_list *qp_bucket(uint32_t qpn) { return &watch_qps[qpn % WATCH_BUCKETS]; }
static struct rn_list *mr_bucket(uint32_t lkey) { return &watch_mrs[(lkey >> 8) % WATCH_BUCKETS]; }

/* ---- memory ---- */

static const struct rnic_mr *mr_find(const struct rnic_watch *w, uint32_t lkey)
{
	const uint32_t dev = rnic_ctx(w->context)->index;

	rn_list_each(struct rnic_mr, mr, mr_bucket(lkey), watch) {
		if (mr->ibv.lkey == lkey && mr->s == w->s && rnic_ctx(mr->ibv.context)->index == dev)
			return mr;
	}
	return NULL;
}

/* The program's own address of an SGE; 0: the region is not this process's, or the SGE lies outside of it. */
static uint64_t sge_address(const struct rnic_watch *w, const struct qp_sge *s)
{
	const struct rnic_mr *mr = mr_find(w, s->lkey);

	if (mr == NULL || s->addr < mr->iova || s->len > mr->ibv.length || s->addr - mr->iova > mr->ibv.length - s->len)
		return 0;
	return (uintptr_t)mr->ibv.addr + (s->addr - mr->iova);
}

static bool wr_sum(const struct watched_wr *w, const struct qp_sge *sge, uint64_t *sum)
{
	*sum = 0;
	for (uint32_t i = 0; i < w->num_sge; i++)
		if (sge[i].addr == 0 || !rnic_peek_sum(sge[i].addr, sge[i].len, sum))
			return false;
	return true;
}

/* ---- queues ---- */

static struct qp_sge *sges_of(const struct watch_queue *q, uint32_t i)
{
	return q->sge + (size_t)(i & q->mask) * q->max_sge;
}

static bool queue_make(struct watch_queue *q, uint32_t wrs, uint32_t max_sge, struct ibv_cq *cq)
{
	q->mask = rnic_slots_for(wrs, 1) - 1;
	q->max_sge = rn_max_u32(max_sge, 1);
	q->cq = cq != NULL ? rnic_cq(cq) : NULL;
	q->wr = calloc(q->mask + 1, sizeof(*q->wr));
	q->sge = calloc((size_t)(q->mask + 1) * q->max_sge, sizeof(*q->sge));
	return q->wr != NULL && q->sge != NULL;
}

static void queue_free(struct watch_queue *q)
{
	free(q->wr);
	free(q->sge);
}

static void one_strike(struct watch_queue *q, uint32_t i)
{
	struct watched_wr *w = &q->wr[i & q->mask];

	if (!w->done && w->signaled && q->cq != NULL)
		q->cq->due--;
	w->done = true;
	rnic_veil_take(q, i);
}

/* The oldest work requests, up to number `to`, are done. */
static void queue_strike(struct watch_queue *q, uint32_t to)
{
	for (; q->head != to; q->head++)
		one_strike(q, q->head);
}

/* Work request i is done, and so are those before it that were posted without IBV_SEND_SIGNALED. */
static void queue_strike_one(struct watch_queue *q, uint32_t i)
{
	one_strike(q, i);
	for (uint32_t k = q->head; k != i; k++)
		if (!q->wr[k & q->mask].signaled)
			one_strike(q, k);
	while (q->head != q->tail && q->wr[q->head & q->mask].done)
		q->head++;
}

/* Counts a completion that may come. Reports if more may come than the program asked room for in the CQ. */
static void queue_due(const struct watch_queue *q, const char *call)
{
	struct rnic_cq *cq = q->cq;

	if (cq == NULL || ++cq->due <= cq->asked || cq->overrun_told)
		return;
	cq->overrun_told = true;
	rnic_finding(
		RNIC_FIND_OVERRUN,
		"%s: completion queue %u was made for %u completions, and %u may come before the next poll: it could "
		"overrun. Ask ibv_create_cq for as many as are posted at a time",
		call, cq->ex.handle, cq->asked, cq->due);
}

/* ---- life ---- */

static void watch_free(struct rnic_watch *w)
{
	queue_free(&w->sq);
	queue_free(&w->rq);
	free(w);
}

/* number: the queue pair's QPN, or the shared receive queue's handle. */
static void watch_begin(struct rnic_watch *w, uint32_t number)
{
	pthread_mutex_lock(&watch_lock);
	rn_list_push_front(qp_bucket(number), &w->link);
	pthread_mutex_unlock(&watch_lock);
	rnic_veil_start();
}

void rnic_watch_open(struct rnic_qp *qp)
{
	struct ibv_qp *b = &qp->ex.qp_base;
	struct rnic_watch *w = rn_likely(!rnic_sanitizing) ? NULL : calloc(1, sizeof(*w));

	if (w == NULL)
		return;
	*w = (struct rnic_watch){ .qp = qp, .s = qp->s, .context = b->context };
	w->sq.any_order = qp->sq.many;
	if (!queue_make(&w->sq, qp->sq.max_wr, qp->sq.max_sge, b->send_cq) ||
	    !queue_make(&w->rq, 2 * rn_max_u32(qp->cap.max_recv_wr, 1), qp->cap.max_recv_sge, b->recv_cq)) {
		watch_free(w);
		return;
	}
	qp->sq.watch = qp->rq.watch = w;
	watch_begin(w, b->qp_num);
}

void rnic_watch_open_srq(struct rnic_srq *srq)
{
	struct rnic_watch *w = rn_likely(!rnic_sanitizing) ? NULL : calloc(1, sizeof(*w));

	if (w == NULL)
		return;
	*w = (struct rnic_watch){ .s = srq->s, .context = srq->ibv.context };
	w->rq.any_order = true;
	if (!queue_make(&w->rq, 2 * srq->max_wr, srq->max_sge, NULL)) {
		watch_free(w);
		return;
	}
	srq->rq.watch = w;
	watch_begin(w, srq->ibv.handle);
}

void rnic_watch_close_srq(struct rnic_srq *srq)
{
	struct rnic_watch *w = srq->rq.watch;

	if (w == NULL)
		return;
	pthread_mutex_lock(&watch_lock);
	queue_strike(&w->rq, w->rq.tail);
	rn_list_remove(qp_bucket(srq->ibv.handle), &w->link);
	pthread_mutex_unlock(&watch_lock);
	watch_free(w);
}

static void strike_all(struct rnic_watch *w)
{
	queue_strike(&w->sq, w->sq.tail);
	queue_strike(&w->rq, w->rq.tail);
	__atomic_store_n(&w->qp->sq.polled, w->sq.head, __ATOMIC_RELAXED);
}

void rnic_watch_reset(struct rnic_qp *qp)
{
	pthread_mutex_lock(&watch_lock);
	strike_all(qp->sq.watch);
	qp->sq.watch->ended = false;
	pthread_mutex_unlock(&watch_lock);
}

void rnic_watch_close(struct rnic_qp *qp)
{
	struct rnic_watch *w = qp->sq.watch;

	if (w == NULL)
		return;
	pthread_mutex_lock(&watch_lock);
	strike_all(w);
	rn_list_remove(qp_bucket(qp->ex.qp_base.qp_num), &w->link);
	pthread_mutex_unlock(&watch_lock);
	watch_free(w);
}

void rnic_watch_ended(struct ibv_qp *ibqp)
{
	struct rnic_watch *w = ibqp != NULL ? rnic_qp(ibqp)->sq.watch : NULL;

	if (w == NULL)
		return;
	__atomic_store_n(&w->ended, true, __ATOMIC_RELAXED);
	rnic_watch_over(rnic_qp(ibqp));
}

void rnic_watch_over(struct rnic_qp *qp)
{
	rnic_veil_take_all(qp);
	if (qp->rq.watch != NULL)
		rnic_veil_take_all(&qp->rq.watch->rq);
}

/* ---- posting ---- */

static bool overlap(const struct qp_sge *a, const struct qp_sge *b)
{
	return a->addr != 0 && b->addr != 0 && a->addr < b->addr + b->len && b->addr < a->addr + a->len;
}

/* An unfinished Read or Atomic whose result lies in the memory that work request i sends, or NULL. */
static const struct watched_wr *fetch_before(const struct watch_queue *q, uint32_t i)
{
	const struct watched_wr *w = &q->wr[i & q->mask];

	for (uint32_t k = q->head; k != i; k++) {
		const struct watched_wr *f = &q->wr[k & q->mask];
		if (!op_fetches(f->op))
			continue;
		for (uint32_t a = 0; a < f->num_sge; a++)
			for (uint32_t b = 0; b < w->num_sge; b++)
				if (overlap(&sges_of(q, k)[a], &sges_of(q, i)[b]))
					return f;
	}
	return NULL;
}

/* Slots wrap, so a WQE of several slots is copied first. */
static const struct qp_wqe *wqe_at(const struct rnic_sq *sq, uint32_t from, uint8_t *big)
{
	const struct qp_wqe *first = spsc_prod_slot(&sq->ring, from);

	if (first->slots == 1)
		return first;
	for (uint32_t i = 0; i < first->slots && i < QP_WQE_MAX_SLOTS; i++)
		memcpy(big + (size_t)i * QP_SLOT_SIZE, spsc_prod_slot(&sq->ring, from + i), QP_SLOT_SIZE);
	return (const struct qp_wqe *)(const void *)big;
}

static void send_note(struct rnic_watch *watch, const struct rnic_sq *sq, const struct qp_wqe *e)
{
	struct watch_queue *q = &watch->sq;
	struct watched_wr *w = &q->wr[q->tail & q->mask];
	struct qp_sge *sge = sges_of(q, q->tail);

	*w = (struct watched_wr){ .wr_id = e->wr_id,
				  .op = e->op,
				  .num_sge = (uint8_t)rn_min_u32(e->num_sge, q->max_sge),
				  .signaled = (e->flags & QP_WF_SIGNALED) != 0 };
	memcpy(sge, (const uint8_t *)e + QP_WQE_FIXED + rnic_sq_head(sq, e->op), w->num_sge * sizeof(*sge));
	for (uint32_t i = 0; i < w->num_sge; i++)
		sge[i].addr = sge_address(watch, &sge[i]);
	if (op_sends(w->op) && w->num_sge > 0) {
		w->summed = wr_sum(w, sge, &w->sum);
		const struct watched_wr *f = (e->flags & QP_WF_FENCE) == 0 ? fetch_before(q, q->tail) : NULL;
		if (f != NULL)
			rnic_finding(
				RNIC_FIND_FENCE,
				"ibv_post_send: queue pair %u: %s 0x%llx sends bytes that %s 0x%llx, posted before, "
				"has yet to bring: poll its completion first, or set IBV_SEND_FENCE",
				watch->qp->ex.qp_base.qp_num, op_names[w->op], (unsigned long long)w->wr_id,
				op_names[f->op], (unsigned long long)f->wr_id);
	}
	q->tail++;
	if (w->signaled)
		queue_due(q, "ibv_post_send");
}

void rnic_watch_full(const struct rnic_sq *sq)
{
	struct rnic_watch *watch = sq->watch;
	const struct watch_queue *q = &watch->sq;
	bool signaled = watch->stuck;

	pthread_mutex_lock(&watch_lock);
	for (uint32_t i = q->head; i != q->tail && !signaled; i++)
		signaled = q->wr[i & q->mask].signaled;
	if (!signaled) {
		watch->stuck = true;
		rnic_finding(
			RNIC_FIND_UNSIGNALED,
			"ibv_post_send: queue pair %u: all its %u work requests are posted without IBV_SEND_SIGNALED: "
			"no completion will make room for another one. Signal at least one in %u",
			watch->qp->ex.qp_base.qp_num, sq->max_wr, sq->max_wr);
	}
	pthread_mutex_unlock(&watch_lock);
}

void rnic_watch_sends(struct rnic_sq *sq, uint32_t wrs)
{
	uint8_t big[QP_WQE_MAX_SLOTS * QP_SLOT_SIZE] RN_ALIGNED(RN_CACHE_LINE);
	uint32_t from = 0;

	pthread_mutex_lock(&watch_lock);
	for (uint32_t i = 0; i < wrs; i++) {
		send_note(sq->watch, sq, wqe_at(sq, from, big));
		from = sq->ends[(sq->posted + i) & sq->ends_mask] - sq->ring.own;
	}
	pthread_mutex_unlock(&watch_lock);
}

/* Receives whose completions are not polled yet keep their entries: without a free entry the receive is not noted. */
static void recv_note(struct rnic_watch *watch, const struct qp_rwqe *e)
{
	struct watch_queue *q = &watch->rq;
	struct watched_wr *w = &q->wr[q->tail & q->mask];

	if (q->tail - q->head > q->mask)
		return;
	*w = (struct watched_wr){ .wr_id = e->wr_id, .op = QP_WR_OPS, .signaled = true };
	w->num_sge = (uint8_t)rn_min_u32(e->num_sge, q->max_sge);
	for (uint32_t i = 0; i < w->num_sge; i++) {
		struct qp_sge *g = &sges_of(q, q->tail)[i];
		g->addr = sge_address(watch, g);
		if (g->addr != 0 && watch->s->own.turn == NULL)
			rnic_veil_put(&(struct rnic_veil){ .qp = watch->qp,
							   .queue = q,
							   .from = g->addr,
							   .to = g->addr + g->len,
							   .least = g->addr,
							   .most = g->addr + g->len,
							   .wr_id = e->wr_id,
							   .number = q->tail });
	}
	q->tail++;
	queue_due(q, "ibv_post_recv");
}

void rnic_watch_recvs(struct rnic_rq *rq, uint32_t from, uint32_t used)
{
	struct watch_queue *q = &rq->watch->rq;

	pthread_mutex_lock(&watch_lock);
	for (uint32_t i = from; i < used; i += rq->wqe_slots) {
		const struct qp_rwqe *e = spsc_prod_slot(&rq->ring, i);
		uint8_t *to = (uint8_t *)sges_of(q, q->tail);
		const uint32_t room = q->max_sge * (uint32_t)sizeof(struct qp_sge);
		uint32_t at = QP_RWQE_FIXED, done = 0;
		/* The SGEs continue in the next slots. */
		for (uint32_t k = 0; k < rq->wqe_slots && done < room && q->tail - q->head <= q->mask; k++, at = 0) {
			const uint32_t n = rn_min_u32(QP_SLOT_SIZE - at, room - done);
			memcpy(to + done, (const uint8_t *)spsc_prod_slot(&rq->ring, i + k) + at, n);
			done += n;
		}
		recv_note(rq->watch, e);
	}
	pthread_mutex_unlock(&watch_lock);
}

/* ---- polling ---- */

static void sent_check(const struct rnic_watch *watch, uint32_t i)
{
	const struct watched_wr *w = &watch->sq.wr[i & watch->sq.mask];
	const struct qp_sge *sge = sges_of(&watch->sq, i);
	uint64_t sum;

	if (w->summed && !rnic_peek_mapped(sge[0].addr))
		rnic_finding(RNIC_FIND_UNMAPPED,
			     "ibv_poll_cq: queue pair %u: the buffer at 0x%llx of %s 0x%llx was unmapped before its "
			     "completion: the device may read it until then. Poll the completion first",
			     watch->qp->ex.qp_base.qp_num, (unsigned long long)sge[0].addr, op_names[w->op],
			     (unsigned long long)w->wr_id);
	if (!w->summed || !wr_sum(w, sge, &sum) || sum == w->sum)
		return;
	rnic_finding(
		RNIC_FIND_CHANGED,
		"ibv_poll_cq: queue pair %u: the buffer at 0x%llx of %s 0x%llx has changed between ibv_post_send and "
		"its completion, by the program, a receive or a peer's Write: the peer may have got either. Poll the "
		"completion first",
		watch->qp->ex.qp_base.qp_num, (unsigned long long)sge[0].addr, op_names[w->op],
		(unsigned long long)w->wr_id);
}

static void received_check(const struct watch_queue *q, uint32_t i)
{
	const struct watched_wr *w = &q->wr[i & q->mask];
	const struct qp_sge *sge = sges_of(q, i);

	for (uint32_t k = 0; k < w->num_sge; k++)
		if (sge[k].addr != 0 && sge[k].len > 0 && !rnic_peek_mapped(sge[k].addr)) {
			rnic_finding(RNIC_FIND_UNMAPPED,
				     "ibv_poll_cq: the buffer at 0x%llx of receive 0x%llx was unmapped before its "
				     "completion: the device may write it until then. Poll the completion first",
				     (unsigned long long)sge[k].addr, (unsigned long long)w->wr_id);
			return;
		}
}

/* A completion also ends earlier work requests. A failed work request has a completion even if it was not signalled. */
static void queue_polled(struct rnic_watch *watch, struct watch_queue *q, const struct qp_cqe *e)
{
	const bool good = e->status == IBV_WC_SUCCESS;

	for (uint32_t i = q->head; i != q->tail; i++) {
		const struct watched_wr *w = &q->wr[i & q->mask];
		if (w->done || w->wr_id != e->wr_id || (!w->signaled && good))
			continue;
		for (uint32_t k = q->any_order ? i : q->head; q == &watch->sq && good && k != i + 1; k++)
			sent_check(watch, k);
		if (q == &watch->rq && good)
			received_check(q, i);
		if (q->any_order)
			queue_strike_one(q, i);
		else
			queue_strike(q, i + 1);
		return;
	}
}

/* The watch of the receive queue that the queue pair uses: its own, or the shared one; NULL: it is not watched. */
static struct rnic_watch *receiver_of(struct rnic_watch *w)
{
	const struct ibv_srq *srq = w->qp->ex.qp_base.srq;

	return srq != NULL ? rnic_srq((struct ibv_srq *)(uintptr_t)srq)->rq.watch : w;
}

/* The program may use the Writes that came before the message; later ones cannot be told apart, and are allowed too. */
static void written_allow(struct rnic_qp *qp)
{
	if (qp->hold != NULL)
		qp->hold_allowed = __atomic_load_n(&qp->hold->put, __ATOMIC_ACQUIRE);
	rnic_veil_take_all(qp);
}

void rnic_watch_polled(const struct rnic_cq *cq, const struct qp_cqe *e)
{
	if (e->op == QP_WC_RECORD)
		return;
	pthread_mutex_lock(&watch_lock);
	rn_list_each(struct rnic_watch, w, qp_bucket(e->qpn), link) {
		const bool recv = (e->op & IBV_WC_RECV) != 0;
		if (w->qp == NULL || w->qp->ex.qp_base.qp_num != e->qpn || (recv ? w->rq.cq : w->sq.cq) != cq)
			continue;
		struct rnic_watch *of = recv ? receiver_of(w) : w;
		if (of != NULL)
			queue_polled(of, recv ? &of->rq : &of->sq, e);
		if (recv && e->status == IBV_WC_SUCCESS)
			written_allow(w->qp);
		__atomic_store_n(&w->qp->sq.polled, w->sq.head, __ATOMIC_RELAXED);
		break;
	}
	pthread_mutex_unlock(&watch_lock);
}

/* ---- regions ---- */

void rnic_watch_written(struct rnic_qp *qp, const struct qp_hold_rec *r, uint32_t first, uint32_t end)
{
	struct rnic_veil v = { .qp = qp, .queue = qp, .write = true, .number = end - 1 };
	struct rnic_watch *w = qp->rq.watch;

	pthread_mutex_lock(&watch_lock);
	const bool open = w != NULL && !w->ended && rn_seq_ge(first, qp->hold_allowed);
	const struct rnic_mr *mr = open ? mr_find(w, r->stag) : NULL; /* a window's key is no region's */
	if (mr != NULL && r->to >= mr->iova && r->len <= mr->ibv.length &&
	    r->to - mr->iova <= mr->ibv.length - r->len) {
		v.least = (uintptr_t)mr->ibv.addr;
		v.most = v.least + mr->ibv.length;
		v.from = v.least + (r->to - mr->iova);
		v.to = v.from + r->len;
		rnic_veil_put(&v);
	}
	pthread_mutex_unlock(&watch_lock);
}

void rnic_watch_mr(struct rnic_mr *mr)
{
	if (rn_likely(!rnic_sanitizing))
		return;
	pthread_mutex_lock(&watch_lock);
	rn_list_push_front(mr_bucket(mr->ibv.lkey), &mr->watch);
	pthread_mutex_unlock(&watch_lock);
}

static bool queue_uses(const struct rnic_watch *of, const struct watch_queue *q, uint32_t lkey, const char *call)
{
	char whose[32] = "of a shared receive queue";

	if (of->qp != NULL)
		snprintf(whose, sizeof(whose), "of queue pair %u", of->qp->ex.qp_base.qp_num);
	for (uint32_t i = q->head; i != q->tail; i++) {
		const struct watched_wr *w = &q->wr[i & q->mask];
		for (uint32_t k = 0; k < w->num_sge; k++) {
			if (w->done || sges_of(q, i)[k].lkey != lkey)
				continue;
			rnic_finding(
				RNIC_FIND_DEREG,
				"%s: the region with lkey 0x%08x is named by %s 0x%llx %s, of which no completion has "
				"been polled: poll it, or destroy the queue, before the region goes",
				call, lkey, w->op < QP_WR_OPS ? op_names[w->op] : "receive",
				(unsigned long long)w->wr_id, whose);
			return true;
		}
	}
	return false;
}

/* Work posted to a queue pair in error is flushed, and uses no memory any more. */
static bool is_idle(const struct rnic_watch *w)
{
	if (w->qp == NULL)
		return rnic_dead(w->s);
	const uint32_t state = __atomic_load_n(&w->qp->shm->state, __ATOMIC_ACQUIRE);

	return state == IBV_QPS_ERR || state == IBV_QPS_RESET || __atomic_load_n(&w->ended, __ATOMIC_RELAXED) ||
	       rnic_dead(w->qp->s);
}

void rnic_watch_mr_gone(struct rnic_mr *mr, const char *call)
{
	bool told = false;

	if (rn_likely(!rnic_sanitizing))
		return;
	pthread_mutex_lock(&watch_lock);
	rn_list_remove(mr_bucket(mr->ibv.lkey), &mr->watch);
	rnic_veil_take_range((uintptr_t)mr->ibv.addr, mr->ibv.length);
	told = call == NULL;
	for (uint32_t b = 0; b < WATCH_BUCKETS && !told; b++)
		rn_list_each(struct rnic_watch, w, &watch_qps[b], link) {
			if (told || w->context != mr->ibv.context || is_idle(w))
				continue;
			told = queue_uses(w, &w->sq, mr->ibv.lkey, call) || queue_uses(w, &w->rq, mr->ibv.lkey, call);
		}
	pthread_mutex_unlock(&watch_lock);
}
