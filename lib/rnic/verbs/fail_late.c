/* SPDX-License-Identifier: BSD-3-Clause */
/* What rnicrun --inject delays: completions, and receives that have been posted. */
#include "rnic/verbs/fail.h"

/* ---- completions ---- */

/* The time of a held completion is up. If the queue is armed, the event comes now: polls found nothing until now. */
static void cq_wake(void *object, uint64_t arg)
{
	struct rnic_cq *cq = object;
	const union {
		struct ipc_comp_event ev;
		uint8_t slot[IPC_EVENT_SLOT_SMALL];
	} u = { .ev = { .cq_cookie = (uintptr_t)cq } };

	(void)arg;
	if (cq->ex.channel != NULL && __atomic_exchange_n(&cq->shm->armed, 0, __ATOMIC_SEQ_CST) != 0)
		rnic_evq_put(&((struct rnic_chan *)cq->ex.channel)->q, u.slot);
}

bool rnic_fail_holds(const struct rnic_cq *cq)
{
	return cq->held_until != 0 && rnic_clock(CLOCK_MONOTONIC) < cq->held_until;
}

bool rnic_fail_holds_back(struct rnic_cq *cq, uint32_t ring, const struct qp_cqe *e)
{
	if (cq->held_until != 0 && cq->held_ring == ring) { /* the held completion: its rule has counted it already */
		cq->held_until = 0;
		return false;
	}
	const struct inject_what w = rnic_fail_what(INJECT_WC, e->op, e->qpn);
	const uint32_t ms = cq->held_until == 0 ? rnic_inject_delay(&w, e->wr_id) : 0;
	if (ms == 0 || !rnic_later(ms + 1, cq_wake, cq, 0))
		return false;
	cq->held_until = rnic_clock(CLOCK_MONOTONIC) + ms * UINT64_C(1000000);
	cq->held_ring = ring;
	return true;
}

/* ---- posting ---- */

static struct rnic_injected post_fails(struct ibv_qp *qp, enum inject_at at)
{
	const struct inject_what w = { .at = at,
				       .qpn = qp != NULL ? qp->qp_num : 0,
				       .side = qp != NULL ? rnic_qp(qp)->side : INJECT_BOTH };

	return rnic_inject_at(&w);
}

int rnic_fail_posted(struct rnic_qp *qp) { return post_fails(&qp->ex.qp_base, INJECT_POST_SEND).rc; }

int rnic_fail_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	const int rc = post_fails(qp, INJECT_POST_SEND).rc;

	if (rc == 0)
		return rnic_post_send(qp, wr, bad);
	*bad = wr;
	return rc;
}

static void qp_release(void *object, uint64_t arg)
{
	(void)arg;
	rnic_recv_release(object);
}

static void srq_release(void *object, uint64_t arg)
{
	(void)arg;
	rnic_srq_release(object);
}

static void hold(struct rnic_rq *rq, uint32_t ms, void (*release)(void *object, uint64_t arg), void *object)
{
	__atomic_fetch_add(&rq->holds, 1, __ATOMIC_RELAXED);
	if (!rnic_later(ms, release, object, 0))
		__atomic_fetch_sub(&rq->holds, 1, __ATOMIC_RELAXED);
}

int rnic_fail_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct rnic_injected i = post_fails(ibqp, INJECT_POST_RECV);
	struct rnic_qp *qp = rnic_qp(ibqp);

	if (i.rc != 0) {
		*bad = wr;
		return i.rc;
	}
	if (i.later != 0)
		hold(&qp->rq, i.later, qp_release, qp);
	return rnic_post_recv(ibqp, wr, bad);
}

int rnic_fail_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	const struct rnic_injected i = post_fails(NULL, INJECT_POST_SRQ_RECV);
	struct rnic_srq *srq = rnic_srq(ibsrq);

	if (i.rc != 0) {
		*bad = wr;
		return i.rc;
	}
	if (i.later != 0)
		hold(&srq->rq, i.later, srq_release, srq);
	return rnic_post_srq_recv(ibsrq, wr, bad);
}
