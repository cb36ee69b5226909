/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of objects about which workers report. An effect may arrive after its object is gone. So workers get a 64-bit
 * number that is never used twice, by which the control thread looks the object up. Control thread.
 */
#ifndef OWNER_H
#define OWNER_H

#include <stdint.h>

#include "base/rn_list.h"

enum owner_kind {
	OWNER_CQ,
	OWNER_QP,
	OWNER_SRQ,
	OWNER_CONN,
	OWNER_LISTEN,
	OWNER_OOB,
	OWNER_TOKEN,
	OWNER_SIDR,
	OWNER_MR,
	OWNER_FDS,
	OWNER_SOCK,
	OWNER_SOCK_FD
};

/* Embedded in the object. */
struct owner {
	uint64_t key;        /* 0: not registered */
	struct rn_link link; /* of owner.c: same hash of the key */
	enum owner_kind kind;
};

/* A new number, from 1 on. Tokens and descriptors have numbers of the kernel's, memory regions their STag's. */
uint64_t owner_new(void);
void owner_put(struct owner *o, enum owner_kind kind, uint64_t key);
void owner_del(struct owner *o);
/* NULL: the object is gone, or is of another kind. */
struct owner *owner_get(enum owner_kind kind, uint64_t key);

#endif
