/* SPDX-License-Identifier: BSD-3-Clause */
/* Common start of tests of the connection manager: a daemon with two workers, a server and a client. */
#ifndef CM_SIDES_H
#define CM_SIDES_H

#include "fake_client.h"

/* A client with a CM channel (place 10), and a PD, a CQ (0) and a QP (1) on each of two devices. */
struct side {
	struct fc c;
	uint32_t chan, pd, cq, qp;
	int efd;
	uint32_t id;
};

extern struct daemon d;
extern struct side srv, cli;

/* cmocka's setup and teardown, for all tests and for each test. */
int sides_start(void **state);
int sides_stop(void **state);
int sides_join(void **state);
int sides_leave(void **state);

void side_open(struct side *s, uint32_t dev);
void side_close(struct side *s);
/* Takes the side's next event, which must be of this type and status. ev: where the event is copied to, or NULL. */
void expect(struct side *s, uint32_t type, int status, struct ipc_cm_event *ev);
void listen_on(struct side *s, uint8_t host, uint16_t port);
/* Resolves address and route of 10.77.0.`host`, an address of device 0; the route leads from device 1. */
void resolve(struct side *s, uint32_t id, uint8_t host, uint16_t port);
int connect_id(struct side *s, uint32_t id, uint32_t qp, struct ipc_msg *m);

#define CASE(f) cmocka_unit_test_setup_teardown(f, sides_join, sides_leave)

#endif
