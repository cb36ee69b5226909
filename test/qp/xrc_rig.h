/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of extended reliable connections: connections from A's initiators to B's targets, and behind the targets
 * the shared receive queues of three processes.
 */
#ifndef TEST_QP_XRC_RIG_H
#define TEST_QP_XRC_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define XRC_PROCS 3u /* the last process is in another domain */

struct xrc_proc {
	struct qp_srq *srq;
	struct qp_cq *cq;
	struct spsc_prod ring; /* the client's ends of the rings */
	struct spsc_cons polled;
	uint32_t lkey, rkey; /* keys of B's memory, in the process's PD */
};

extern struct rig *R;
extern struct rig_node *A, *B;
extern struct xrc_proc P[XRC_PROCS];
extern struct qp_xrcd *domain[2];
extern struct qp_target *target; /* of flow 0 */
extern uint32_t via;             /* the flow whose initiator sends */

/* A's QP of the flow is the initiator and B's the target; both connect without connection manager. */
void xrc_connect(uint32_t flow, struct qp_target *to, uint64_t patience);
/* Flow 0 is connected. */
void up(uint64_t patience);
/* Target and initiator belong to the rig. */
void down(void);
/* Process i posts a receive. */
void post(uint32_t i, uint64_t wr_id, uint32_t off, uint32_t len);
/* An initiator's request; go(): and all that follows from it. */
void start(uint8_t op, uint32_t to, uint32_t off, uint32_t len, uint32_t rkey);
void go(uint8_t op, uint32_t to, uint32_t off, uint32_t len, uint32_t rkey);
struct qp_cqe received(uint32_t i);
struct qp_cqe sent(void);
bool nothing(uint32_t i);

#endif
