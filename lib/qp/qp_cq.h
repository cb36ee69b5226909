/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A completion queue as the daemon sees it: private handles on the rings of struct qp_cq_shm, one per worker. Entries
 * are collected and published in bursts (qp_flush of qp.h). A full or corrupt ring puts the CQ into error: an event is
 * raised, no more entries are written, none is overwritten, and the QPs that complete into the CQ go to ERR.
 *
 * Threads: init by the control thread before any QP names the CQ; ring[w] is worker w's alone.
 */
#ifndef QP_CQ_H
#define QP_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

#define QP_MAX_WORKERS 16

struct qp_cq_ring {
	struct spsc_prod prod RN_ALIGNED(RN_CACHE_LINE);
	uint32_t pending;    /* entries written and not yet published */
	bool solicited;      /* an entry that is pending, or that the client is not notified of yet, is solicited */
	bool waits;          /* a notification waits for room: qp_cq.wait is in a list */
	struct rn_link link; /* in the worker's list of CQs to publish */
};

struct qp_cq {
	struct qp_cq_shm *shm;
	uint64_t owner; /* the caller's, returned in effects */
	uint32_t workers;
	uint32_t error; /* atomic, any worker sets it: 1 from then on */
	bool wide;      /* the entries are struct qp_cqe_wide */
	struct qp_cq_ring ring[QP_MAX_WORKERS];
	struct rn_link wait[QP_MAX_WORKERS]; /* in each worker's list of notifications that wait for room */
};

struct qp_cq_attr {
	uint64_t owner;
	void *region;         /* mapping of the client's queue region */
	uint64_t region_size; /* bytes */
	uint64_t shm_off;     /* struct qp_cq_shm, cache-line aligned */
	uint64_t ring_off;    /* ring of worker 0 */
	uint64_t ring_stride; /* bytes between two workers' rings */
	uint32_t workers;
	uint32_t cqe; /* slots of each ring, a power of two */
	bool wide;    /* entries of QP_CQE_WIDE bytes */
};

static inline uint32_t qp_cqe_size(bool wide) { return wide ? QP_CQE_WIDE : QP_CQE_SIZE; }

/* All offsets come from the client (as a copy), and are checked. */
RN_NODISCARD enum spsc_verdict qp_cq_init(struct qp_cq *cq, const struct qp_cq_attr *a);

/*
 * Larger rings for a CQ in use. The control thread prepares one ring for each worker (of *a it uses the rings only).
 * Then each worker changes to its own ring, and moves the entries that the client has not taken, published or not, in
 * order. The client takes no entries meanwhile. A ring that is too small for the entries is an overrun.
 */
struct qp_ctx;
RN_NODISCARD enum spsc_verdict qp_cq_rings(const struct qp_cq_attr *a, struct spsc_prod ring[QP_MAX_WORKERS]);
void qp_cq_change(struct qp_ctx *ctx, struct qp_cq *cq, const struct spsc_prod ring[QP_MAX_WORKERS]);

/*
 * Before the memory of a CQ is used anew, the CQ must be on no list of a worker. qp_cq_leave() takes it off; what is
 * not published is lost. Or: qp_flush() has run since the CQ's last entry, and then qp_cq_told(), which raises the
 * effect of a notification that waits for room, whatever qp_ctx.notify_room says. Needs room for one effect.
 */
void qp_cq_leave(struct qp_ctx *ctx, struct qp_cq *cq);
void qp_cq_told(struct qp_ctx *ctx, struct qp_cq *cq);

#endif
