/* SPDX-License-Identifier: BSD-3-Clause */
/* Common start of tests of verbs: a fake daemon, its first device opened, a PD. */
#ifndef DEV_RIG_H
#define DEV_RIG_H

#include <infiniband/verbs.h>

#include "fake.h"

extern struct fake *fake;
extern struct ibv_context *ctx;
extern struct ibv_pd *pd;

/* cmocka's setup and teardown. */
int dev_setup(void **state);
int dev_teardown(void **state);

/* This process as the daemon sees it. */
struct fake_client *client(void);

/* The next WQE of a queue pair in the worker's copy, which is valid until the next call. Gives the WQE's slots back. */
struct qp_wqe *take_send(struct fake_qp *qp);

#endif
