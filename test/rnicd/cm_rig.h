/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of the connection manager, with workers that the test plays: the test decides which worker can listen, and what
 * happens between a command and its answer. The files under test are the real ones; the functions that they call are in
 * cm_rig.c, and in cm_stubs.c those that the tests do not look into.
 */
#ifndef CM_RIG_H
#define CM_RIG_H

#include "control/cm.h"

#define WORKERS    2u
#define SLOTS      16u /* of an event channel */
#define RING_BYTES (SLOTS * IPC_EVENT_SLOT_CM + 4096)

extern struct client cl;
extern struct client_chan *chan; /* of cl */
extern struct rnicd_port_cfg port_cfg[2];
extern bool can_listen[WORKERS];
extern bool may_have_more; /* the user's share of connections has room */
extern struct loop_timer *armed_last;

extern int answer; /* answer to the last request: 0 or an errno; -1: none yet */
extern uint32_t answer_handle;
#define CALL(fn, member, ...) (answer = -1, cl.req = (struct ipc_msg){ .member = { __VA_ARGS__ } }, fn(&cl), answer)

/* A command to all workers. It stays here until the test calls all_work() and all_done(). */
extern struct cmd *under_way;
void all_work(void);
void all_done(void);

/* Connections are only counted. */
extern struct cm_conn conns[8];
extern uint32_t n_conns, ended;
extern uint32_t let_go;          /* connections that were told to forget their client */
extern struct rn_list all_conns; /* of the whole daemon: struct cm_conn, by `link` */

/* cmocka's setup and teardown of each test. */
int begin(void **state);
int end(void **state);

struct client_chan *chan_new(uint8_t *region); /* region: RING_BYTES at a page */
void chan_free(struct client_chan *ch);
uint32_t new_id(void);
struct ipc_addr addr(uint8_t a, uint8_t d, uint16_t p); /* a.77.0.d */
void a_request_comes(void);                             /* to 10.77.0.1, port 7001 */
bool destroyed(uint32_t id);

#endif
