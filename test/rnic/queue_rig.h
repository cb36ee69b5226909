/* SPDX-License-Identifier: BSD-3-Clause */
/* Common start of tests of queues: dev_rig's device, a CQ with a channel, and a connected queue pair. */
#ifndef QUEUE_RIG_H
#define QUEUE_RIG_H

#include "dev_rig.h"

extern struct ibv_comp_channel *chan;
extern struct ibv_cq *cq;
extern struct ibv_qp *qp;
extern struct ibv_qp_cap cap; /* capabilities of the last queue pair that make_qp() has made */

struct fake_qp *peer(void); /* qp as the daemon sees it */
/* Makes a queue pair. ops: IBV_QP_EX_WITH_*, 0: without the extended calls. NULL: refused. */
struct ibv_qp *make_qp(uint32_t wrs, uint32_t sge, uint32_t inl, uint64_t ops);

/* cmocka's setup and teardown. */
int queue_setup(void **state);
int queue_teardown(void **state);

#endif
