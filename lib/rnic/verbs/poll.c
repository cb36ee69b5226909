/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_poll_cq(). No system call but sched_yield(), and that only after many polls in a row that found nothing on a
 * machine with too few CPUs for all threads that poll.
 */
#include <sys/socket.h>

#include "rnic/verbs/watch.h"

#define EMPTY_BEFORE_YIELD 16

void rnic_cqe_failed(const struct qp_cqe *e)
{
	if (e->status == IBV_WC_WR_FLUSH_ERR || !rnic_verbose())
		return;
	if (e->vendor_err != 0)
		rnic_tell("rnic: queue pair %u: work request 0x%llx failed: %s, vendor_err 0x%05x: run "
			  "'rnicctl explain 0x%05x'",
			  e->qpn, (unsigned long long)e->wr_id, ibv_wc_status_str((enum ibv_wc_status)e->status),
			  e->vendor_err, e->vendor_err);
	else
		rnic_tell("rnic: queue pair %u: work request 0x%llx failed: %s", e->qpn, (unsigned long long)e->wr_id,
			  ibv_wc_status_str((enum ibv_wc_status)e->status));
}

/* The queue of events takes no lock of a completion queue: it may be locked under one. */
static void async_inject(struct rnic_cq *cq, const struct qp_cqe *e)
{
	const int event = rnic_inject_async(e->op, e->qpn);
	union {
		struct ipc_async_event ev;
		uint8_t slot[IPC_EVENT_SLOT_SMALL];
	} u = { .ev = { .type = (uint32_t)event, .cookie = 1 /* the port's number */ } };

	if (event == 0)
		return;
	if (event == IBV_EVENT_QP_FATAL || event == IBV_EVENT_QP_REQ_ERR || event == IBV_EVENT_QP_ACCESS_ERR ||
	    event == IBV_EVENT_QP_LAST_WQE_REACHED)
		u.ev.cookie = (uintptr_t)rnic_qp_find(e->qpn);
	if (event == IBV_EVENT_SRQ_LIMIT_REACHED) {
		const struct ibv_qp *qp = rnic_qp_find(e->qpn);
		u.ev.cookie = qp != NULL ? (uintptr_t)qp->srq : 0;
	}
	if (u.ev.cookie != 0)
		rnic_evq_put(&rnic_ctx(cq->ex.context)->async, u.slot);
}

/* *e, or *out, a copy of it that fails, when RNIC_INJECT says so. What has failed already counts and stays as it is. */
static const struct qp_cqe *cqe_inject(struct rnic_cq *cq, const struct qp_cqe *e, struct qp_cqe *out)
{
	const uint32_t status = rnic_inject_cqe(e->op, e->qpn, e->wr_id);

	async_inject(cq, e);
	if (rnic_inject_gone(e->op, e->qpn)) /* the rest is as when rnicd ends: call.c sees the hang-up */
		shutdown(rnic_ctx(cq->ex.context)->s->sock, SHUT_RDWR);
	if (status == IBV_WC_SUCCESS || e->status != IBV_WC_SUCCESS)
		return e;
	*out = *e;
	out->status = (uint8_t)status;
	out->vendor_err = 0;
	return out;
}

static void wc_fill(struct ibv_wc *wc, const struct qp_cqe *e)
{
	if (rn_unlikely(e->status != IBV_WC_SUCCESS))
		rnic_cqe_failed(e);
	wc->wr_id = e->wr_id;
	wc->status = (enum ibv_wc_status)e->status;
	wc->opcode = (enum ibv_wc_opcode)e->op;
	wc->vendor_err = e->vendor_err;
	wc->byte_len = e->byte_len;
	wc->invalidated_rkey = e->aux;
	wc->qp_num = e->qpn;
	wc->src_qp = e->src_qp; /* in the place of vendor_err, which only an error has */
	wc->wc_flags = e->flags;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = 0;
	wc->dlid_path_bits = 0;
}

uint16_t rnic_cq_slid(const struct rnic_cq *cq, const struct qp_cqe *e, const uint8_t *from)
{
	struct rnic_ahns *a = rnic_ctx(cq->ex.context)->ahns;

	return cq->wide && a != NULL && (e->op & QP_WC_RECV) != 0 ? rnic_ahn_find(a, from) : 0;
}

static const uint8_t *from_of(const struct spsc_cons *ring, uint32_t k)
{
	return ((const struct qp_cqe_wide *)spsc_cons_slot(ring, k))->from;
}

void rnic_cq_idle(struct rnic_cq *cq)
{
	/* A count that two threads disturb is still good enough. */
	uint32_t n = __atomic_load_n(&cq->empty, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&cq->empty, n, __ATOMIC_RELAXED);
	if (cq->s->own.turn != NULL)
		(void)cq->s->own.turn();
	if (n < EMPTY_BEFORE_YIELD)
		return;
	if (cq->s->yield || __atomic_load_n(&cq->s->ctrl->oversubscribed, __ATOMIC_RELAXED) != 0)
		sched_yield();
}

int rnic_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct rnic_cq *cq = rnic_cq(ibcq);
	uint32_t room = num > 0 ? (uint32_t)num : 0, got = 0;

	rnic_spin_lock(&cq->lock);
	const bool late = rn_unlikely(cq->watched) && rnic_late(cq);
	const uint32_t nrings = late ? 0 : cq->nrings;
	for (uint32_t i = 0, r = cq->turn; i < nrings && got < room; i++) {
		struct spsc_cons *ring = &cq->ring[r];
		uint32_t n = rn_min_u32(spsc_cons_avail(ring, 1), room - got);
		for (uint32_t k = 0; k < n; k++) {
			const struct qp_cqe *e = spsc_cons_slot(ring, k);
			struct qp_cqe failed;
			if (rn_unlikely(rnic_injecting))
				e = cqe_inject(cq, e, &failed);
			if (rn_unlikely(cq->watched))
				rnic_watch_polled(cq, e);
			wc_fill(&wc[got + k], e);
			if (rn_unlikely(cq->wide)) {
				wc[got + k].opcode = rnic_cq_opcode(cq, e);
				wc[got + k].slid = rnic_cq_slid(cq, e, from_of(ring, k));
			}
		}
		if (n > 0)
			spsc_cons_release(ring, n);
		got += n;
		r = r + 1 == cq->nrings ? 0 : r + 1;
		/* The next poll begins with the ring after the last one that gave something, so that none starves. */
		if (n > 0)
			cq->turn = r;
	}
	rnic_spin_unlock(&cq->lock);
	if (rn_likely(got > 0)) {
		__atomic_store_n(&cq->empty, 0, __ATOMIC_RELAXED);
		return (int)got;
	}
	if (room == 0 || late) /* who is held up gives no CPU away: what is waited for is here */
		return 0;
	if (rnic_dead(cq->s) || rn_unlikely(__atomic_load_n(&cq->shm->error, __ATOMIC_RELAXED) != 0)) {
		errno = EIO;
		return -1;
	}
	rnic_cq_idle(cq);
	return 0;
}

bool rnic_cq_next(struct rnic_cq *cq, struct qp_cqe *out)
{
	for (uint32_t i = 0, r = cq->turn; i < cq->nrings; i++) {
		struct spsc_cons *ring = &cq->ring[r];
		struct qp_cqe failed;

		r = r + 1 == cq->nrings ? 0 : r + 1;
		if (spsc_cons_avail(ring, 1) == 0)
			continue;
		memcpy(out, spsc_cons_slot(ring, 0), sizeof(*out));
		if (rn_unlikely(cq->wide))
			memcpy(cq->from, from_of(ring, 0), sizeof(cq->from));
		spsc_cons_release(ring, 1);
		if (rn_unlikely(rnic_injecting))
			*out = *cqe_inject(cq, out, &failed);
		if (rn_unlikely(cq->watched))
			rnic_watch_polled(cq, out);
		cq->turn = r;
		return true;
	}
	return false;
}
