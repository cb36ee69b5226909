/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Owner numbers: 64-bit numbers of objects that others name, such as workers in their reports. A report may arrive
 * after its object is gone, so a number is never used twice. By the number and the kind the control thread finds the
 * object. Control thread.
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
	struct rn_link link; /* in its bucket of owner.c */
	enum owner_kind kind;
};

/* A new number, from 1 on. Of the kinds TOKEN and SOCK_FD the numbers are the kernel's for the socket (SO_COOKIE), of
 * MR they are made of device and STag index, of SIDR they are random. */
uint64_t owner_new(void);
void owner_put(struct owner *o, enum owner_kind kind, uint64_t key);
void owner_del(struct owner *o);
/* The object of this kind and number; NULL: it is gone. */
struct owner *owner_get(enum owner_kind kind, uint64_t key);

#endif
