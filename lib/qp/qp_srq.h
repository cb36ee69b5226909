/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A shared receive queue: one ring of receive WQEs that the client fills, and from which QPs on any worker take. A
 * receive is taken when the first segment of a message has its turn; from then on it is that QP's, and its slots are
 * the client's again. So a QP that ends flushes only the receives that it has taken, and a message that has not begun
 * holds no receive back from other QPs.
 *
 * All receives of one queue take the same number of slots, so the number of receives follows from the ring's indices.
 *
 * Threads: init and arm by the control thread; takes by any worker that owns one of its QPs, under a spinlock that is
 * held for one copy. With one worker there is no contention.
 */
#ifndef QP_SRQ_H
#define QP_SRQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "qp/qp_cq.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

struct qp_srq {
	uint32_t busy;        /* the lock of ring and broken */
	uint32_t limit;       /* atomic; number of receives: fewer raise an event, once. 0: not armed */
	uint32_t wqe_slots;   /* of each receive */
	uint32_t pd;          /* protection domain of the receives' lkeys, whatever the QP's is */
	uint32_t num;         /* XRC: the number by which peers name the queue; else 0 */
	struct qp_xrcd *xrcd; /* XRC: the queue's domain; else NULL */
	struct qp_cq *cq;     /* XRC: the CQ for the queue's completions; else NULL */
	uint64_t owner;       /* the caller's, returned in effects */
	bool broken;          /* the client wrote an impossible index, and the event has been raised */
	uint32_t waiting
		[QP_MAX_WORKERS]; /* connections of each worker that wait for a receive; the ring's asked has its bit */
	struct spsc_cons ring;
	struct { /* the empty receive queue that the SRQ's QPs use */
		struct spsc_hdr hdr;
		uint8_t slot[QP_SLOT_SIZE];
	} none;
	/* XRC: targets of each worker whose last message named the queue: struct qp, by xrc_link */
	struct rn_list targets[QP_MAX_WORKERS];
};

struct qp_srq_attr {
	uint64_t owner;
	uint32_t pd;
	uint32_t wqe_slots;     /* 1..QP_WQE_MAX_SLOTS */
	struct spsc_place ring; /* of QP_SLOT_SIZE slots; what comes from the client is checked */
};

/* srq: cache-line aligned. */
RN_NODISCARD enum spsc_verdict qp_srq_init(struct qp_srq *srq, const struct qp_srq_attr *a);

/* From the next take on: fewer than `limit` receives raise an event. 0: none. Any thread. */
static inline void qp_srq_arm(struct qp_srq *srq, uint32_t limit)
{
	__atomic_store_n(&srq->limit, limit, __ATOMIC_RELAXED); /* relaxed: orders nothing else */
}

/* The armed limit; 0 again once the event has been raised. Any thread. */
static inline uint32_t qp_srq_limit(const struct qp_srq *srq) { return __atomic_load_n(&srq->limit, __ATOMIC_RELAXED); }

#endif
