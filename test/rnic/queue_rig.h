/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of queues begin with: dev_rig's device, a CQ with a channel, and a connected queue pair. */
#ifndef QUEUE_RIG_H
#define QUEUE_RIG_H

#include "dev_rig.h"

extern struct ibv_comp_channel *chan;
extern struct ibv_cq *cq;
extern struct ibv_qp *qp;
extern struct ibv_qp_cap cap; /* of the queue pair made last */

struct fake_qp *peer(void); /* the daemon's view of qp */
/* ops: IBV_QP_EX_WITH_*, 0 for a queue pair without them. NULL: refused. */
struct ibv_qp *make_qp(uint32_t wrs, uint32_t sge, uint32_t inl, uint64_t ops);

/* Setup and teardown of cmocka. */
int queue_setup(void **state);
int queue_teardown(void **state);

#endif
