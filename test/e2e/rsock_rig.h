/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of rsock_cases: a connected pair of rsockets, and the cases of the other files. */
#ifndef RSOCK_RIG_H
#define RSOCK_RIG_H

#include <errno.h>
#include <stddef.h>

#include <netinet/in.h>
#include <rdma/rsocket.h>

#include "cm_rig.h"

struct rig_opt {
	int level, name, value;
}; /* a list ends with level 0 */

/* Connected: s was accepted from l, which listens on srv's address; c is on cli's device. */
struct two {
	int l, s, c;
};
bool two_open(struct two *t, uint16_t port, const struct rig_opt *opts);
bool two_close(struct two *t);

int listen_rs(uint16_t port); /* on failure -1, and the reason has been printed */
/* Returns len bytes that depend on the seed, from malloc(). */
uint8_t *pattern_new(size_t len, uint32_t seed);

/* rsock_signal.c */
bool calls_go_on_after_a_handler_with_sa_restart(void);
bool calls_end_after_a_handler_without_sa_restart(void);

/* rsock_wire.c */
bool the_wire_from_a_client(void);
bool the_wire_from_a_server(void);
bool a_peer_that_vanishes(void);
bool a_peer_that_writes_more_than_was_offered(void);
bool messages_that_are_none(void);
bool buffers_mapped_for_the_peer(void);

#endif
