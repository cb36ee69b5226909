/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_poll_cq(). Over rnicd, the only system call is sched_yield(), after many polls in a row that found nothing, on a
 * machine with too few CPUs for all polling threads.
 */
#include "rnic/verbs/fail.h"
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
	wc->src_qp = e->src_qp; /* shares its place in the entry with vendor_err, which only a failed completion has */
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
	/* Two threads may count at the same time and lose a count, which does no harm. */
	uint32_t n = __atomic_load_n(&cq->empty, __ATOMIC_RELAXED) + 1;

	__atomic_store_n(&cq->empty, n, __ATOMIC_RELAXED);
	if (cq->s->own.turn != NULL)
		(void)rnic_own_turn(cq->s);
	if (n < EMPTY_BEFORE_YIELD)
		return;
	if (cq->s->yield || __atomic_load_n(&cq->s->ctrl->oversubscribed, __ATOMIC_RELAXED) != 0)
		sched_yield();
}

bool rnic_cq_late(struct rnic_cq *cq)
{
	return (rn_unlikely(cq->watched) && rnic_late(cq)) || (rn_unlikely(rnic_injecting) && rnic_fail_holds(cq));
}

/*
 * The number of rings to poll. In a child of fork() none: the child has inherited how many completions are unread, and
 * not the completions.
 */
static uint32_t rings_of(const struct rnic_cq *cq) { return rn_unlikely(cq->s->forked) ? 0 : cq->nrings; }

int rnic_poll_cq(struct ibv_cq *ibcq, int num, struct ibv_wc *wc)
{
	struct rnic_cq *cq = rnic_cq(ibcq);
	uint32_t room = num > 0 ? (uint32_t)num : 0, got = 0;

	rnic_spin_lock(&cq->lock);
	const bool late = rnic_cq_late(cq);
	uint32_t nrings = late ? 0 : rings_of(cq);
	for (uint32_t i = 0, r = cq->turn; i < nrings && got < room; i++) {
		struct spsc_cons *ring = &cq->ring[r];
		uint32_t n = rn_min_u32(spsc_cons_avail(ring, 1), room - got);
		for (uint32_t k = 0; k < n; k++) {
			const struct qp_cqe *e = spsc_cons_slot(ring, k);
			struct qp_cqe failed;
			if (rn_unlikely(rnic_injecting) && rnic_fail_holds_back(cq, r, e)) {
				n = k;
				nrings = 0; /* no other completion is polled before the one that is held back */
				break;
			}
			if (rn_unlikely(rnic_injecting))
				e = rnic_fail_cqe(cq, e, &failed);
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
		/*
		 * The next poll begins with the ring after the last one that had a completion, so that no ring starves.
		 */
		if (n > 0)
			cq->turn = r;
	}
	rnic_spin_unlock(&cq->lock);
	if (rn_likely(got > 0)) {
		__atomic_store_n(&cq->empty, 0, __ATOMIC_RELAXED);
		return (int)got;
	}
	if (room == 0 || late) /* no rnic_cq_idle() while a completion is held back: it is in the ring already */
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
	for (uint32_t i = 0, n = rings_of(cq), r = cq->turn; i < n; i++) {
		struct spsc_cons *ring = &cq->ring[r];
		struct qp_cqe failed;

		const uint32_t at = r;
		r = r + 1 == cq->nrings ? 0 : r + 1;
		if (spsc_cons_avail(ring, 1) == 0)
			continue;
		if (rn_unlikely(rnic_injecting) &&
		    (rnic_fail_holds(cq) || rnic_fail_holds_back(cq, at, spsc_cons_slot(ring, 0))))
			return false;
		memcpy(out, spsc_cons_slot(ring, 0), sizeof(*out));
		if (rn_unlikely(cq->wide))
			memcpy(cq->from, from_of(ring, 0), sizeof(cq->from));
		spsc_cons_release(ring, 1);
		if (rn_unlikely(rnic_injecting))
			*out = *rnic_fail_cqe(cq, out, &failed);
		if (rn_unlikely(cq->watched))
			rnic_watch_polled(cq, out);
		cq->turn = r;
		return true;
	}
	return false;
}
