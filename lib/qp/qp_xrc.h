/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended reliable connections (IBTA, annex A14): processes of one user share an XRC domain. Each process has shared
 * receive queues in it, and all processes share the domain's target queue pairs. Each message that a target receives
 * names, by number, the shared receive queue of the domain that takes it, so an initiator reaches all processes of a
 * host by one connection. doc/wire.md says where the number stands.
 *
 * A target has neither queues nor a protection domain. It uses those of the message that came last: srq, rcq and
 * recv_pd. A Write, Read or Atomic names no queue; it reaches memory of each PD that has a shared receive queue in the
 * domain, since its sender may name each of these queues.
 *
 * Threads: the control thread makes and ends all of these, and publishes a queue by its number when it is complete. Any
 * worker looks numbers up. A queue ends in steps: its number and its PD are taken out of the tables, then every worker
 * lets go of it (rc_srq_leave), then comes another turn of every worker; only then may its memory go, and its CQ's.
 */
#ifndef QP_XRC_H
#define QP_XRC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "qp/qp_cq.h"
#include "qp/qp_srq.h"
#include "wqe/qp_wqe.h"

struct qp_attr;
struct qp_dev;

#define QP_XSRQ_NUMS 65536u /* numbers of a device's XRC shared receive queues; 0 is none */
#define QP_XRCD_PDS  256u   /* protection domains that have shared receive queues in one XRC domain */

/* An XRC domain, as workers see it. */
struct qp_xrcd {
	uint32_t pd[QP_XRCD_PDS];    /* atomic; the control thread writes. 0: free */
	uint32_t users[QP_XRCD_PDS]; /* control thread: how many shared receive queues have the PD */
	uint32_t end;                /* atomic: no entry from here on is in use */
	uint64_t gone;               /* atomic; the control thread writes. How many PDs have left the domain so far */
};

/* The queues that a target's struct qp refers to, which are always empty, and what only targets have. */
struct qp_target {
	struct qp_shm shm;
	struct {
		struct spsc_hdr hdr;
		uint8_t slot[QP_SLOT_SIZE];
	} sq;
	struct qp_srq srq;
	struct qp_cq cq;
	uint64_t gone; /* the domain's `gone` when the QP's `pd` was last found in the domain */
};

/* Control thread. Prepares the target's memory (cache-line aligned), and sets the members of *a that concern queues. */
void qp_target_attr(struct qp_target *t, struct qp_xrcd *d, struct qp_attr *a);

/*
 * Control thread. Gives the queue, whose xrcd and cq are set, the first free number from `from` on; then peers can name
 * it. False: no number is free, or the domain has QP_XRCD_PDS PDs.
 */
RN_NODISCARD bool qp_xsrq_publish(struct qp_dev *dev, struct qp_srq *srq, uint32_t from);
/* Control thread: peers can no longer name the queue. */
void qp_xsrq_withdraw(struct qp_dev *dev, struct qp_srq *srq);

/* Any thread. */
bool qp_xrcd_has(const struct qp_xrcd *d, uint32_t pd);

#endif
