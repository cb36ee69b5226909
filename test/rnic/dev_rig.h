/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of verbs begin with: a fake daemon, its first device opened, a PD. */
#ifndef DEV_RIG_H
#define DEV_RIG_H

#include <infiniband/verbs.h>

#include "fake.h"

extern struct fake *fake;
extern struct ibv_context *ctx;
extern struct ibv_pd *pd;

/* Setup and teardown of cmocka. */
int dev_setup(void **state);
int dev_teardown(void **state);

/* The daemon's view of this process. */
struct fake_client *client(void);

/* The worker's copy of a queue pair's next WQE, good until the next call; its slots are given back. */
struct qp_wqe *take_send(struct fake_qp *qp);

#endif
