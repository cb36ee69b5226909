/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of rdma_cm begin with: a fake daemon, an event channel, and the events that the daemon raises. */
#ifndef CM_RIG_H
#define CM_RIG_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "fake.h"

extern struct fake *fake;
extern struct rdma_event_channel *ch;

struct fake_client *client(void); /* the daemon's view of this process */

/* Setup and teardown of cmocka. */
int cm_setup(void **state);
int cm_teardown(void **state);

struct sockaddr_in addr(uint8_t last, uint16_t port); /* 192.0.2.last */
struct ipc_addr ipc(uint8_t last, uint16_t port);     /* the same for the daemon */
void raise_event(enum rdma_cm_event_type type, struct rdma_cm_id *id, int status);
void raise_request(struct rdma_cm_id *listener, uint32_t handle);
struct rdma_cm_event *next(enum rdma_cm_event_type want);
void assert_no_event(void);

#endif
