/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by rsock_cases.c and rsock_wire.c: a connected pair of rsockets, and the cases of rsock_wire.c. */
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

bool the_wire_from_a_client(void);
bool the_wire_from_a_server(void);
bool a_peer_that_vanishes(void);
bool a_peer_that_writes_more_than_was_offered(void);
bool messages_that_are_none(void);
bool buffers_mapped_for_the_peer(void);

#endif
