/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Common start of tests of rdma_cm: a fake daemon, an event channel, and functions that make the daemon raise events.
 */
#ifndef CM_RIG_H
#define CM_RIG_H

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "fake.h"

extern struct fake *fake;
extern struct rdma_event_channel *ch;

struct fake_client *client(void); /* this process as the daemon sees it */

/* cmocka's setup and teardown. */
int cm_setup(void **state);
int cm_teardown(void **state);

struct sockaddr_in addr(uint8_t last, uint16_t port); /* the address 192.0.2.last */
struct ipc_addr ipc(uint8_t last, uint16_t port);     /* the same in the daemon's form */
void raise_event(enum rdma_cm_event_type type, struct rdma_cm_id *id, int status);
void raise_request(struct rdma_cm_id *listener, uint32_t handle);
struct rdma_cm_event *next(enum rdma_cm_event_type want);
bool readable(const struct rdma_event_channel *c); /* whether poll() says that an event waits */
void assert_no_event(void);

#endif
