/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Findings: mistakes of a program that this device tolerates and another device may not. RNIC_SANITIZE, which rnicrun
 * --sanitize sets, turns the search on. RNIC_SANITIZE is read before main(); a wrong value ends the process with a
 * sentence and status 2. doc/testing.md has the list of findings. Each finding is one line on stderr; a process with
 * findings ends with status RNIC_SANITIZE_STATUS in place of 0. The functions may be called from any thread.
 */
#ifndef RNIC_SANITIZE_H
#define RNIC_SANITIZE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define RNIC_SANITIZE_STATUS 66
#define RNIC_SANITIZE_LINES  10u /* lines of one kind of finding in a process; the others are counted only */

enum rnic_finding {
	RNIC_FIND_CHANGED,    /* a buffer is changed while a work request sends it */
	RNIC_FIND_DEREG,      /* a region is deregistered while a work request names it */
	RNIC_FIND_FENCE,      /* a work request sends memory that an earlier Read has not filled yet */
	RNIC_FIND_OVERRUN,    /* more completions may come than the completion queue can hold */
	RNIC_FIND_UNSIGNALED, /* no completion will ever free the send queue */
	RNIC_FIND_CAPS,       /* more SGEs or inline bytes than the queue pair was made for */
	RNIC_FIND_ACK,        /* a destroy waits for an event that is not acknowledged */
	RNIC_FIND_PRIVATE,    /* private data that InfiniBand has no room for */
	RNIC_FIND_DEPTH,      /* more Reads under way than agreed on */
	RNIC_FIND_EARLY,      /* the program uses memory that the device may be writing */
	RNIC_FIND_UNMAPPED,   /* a buffer is unmapped while a work request names it */
	RNIC_FIND_LEAK,       /* objects that are not destroyed at exit */
	RNIC_FINDINGS
};

enum rnic_object {
	RNIC_OBJ_CONTEXT,
	RNIC_OBJ_PD,
	RNIC_OBJ_MR,
	RNIC_OBJ_MW,
	RNIC_OBJ_CHANNEL,
	RNIC_OBJ_CQ,
	RNIC_OBJ_SRQ,
	RNIC_OBJ_QP,
	RNIC_OBJ_AH,
	RNIC_OBJ_CM_CHANNEL,
	RNIC_OBJ_CM_ID,
	RNIC_OBJECTS
};

struct rnic_sanitize_options {
	bool ib;       /* also find what iWARP allows and InfiniBand does not */
	uint64_t seed; /* of random delays of completions, and a random order of peers' Writes; 0: neither */
};

/* Reads the value of RNIC_SANITIZE. Returns NULL, or what is wrong with it. */
const char *rnic_sanitize_parse(struct rnic_sanitize_options *out, const char *spec);

/* Set before main(). */
extern bool rnic_sanitizing __attribute__((visibility("hidden")));
extern struct rnic_sanitize_options rnic_sanitize __attribute__((visibility("hidden")));

/* Counts a finding, and prints the first RNIC_SANITIZE_LINES of each kind. fmt begins with the name of the call. */
RN_COLD void rnic_finding(enum rnic_finding kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

RN_COLD void rnic_object_made(enum rnic_object kind, const void *object);
RN_COLD void rnic_object_gone(enum rnic_object kind, const void *object);

/* Notes an object that the program has made and must destroy. `object` may be NULL: the call has failed. */
static inline void rnic_made(enum rnic_object kind, const void *object)
{
	if (rn_unlikely(rnic_sanitizing) && object != NULL)
		rnic_object_made(kind, object);
}

static inline void rnic_gone(enum rnic_object kind, const void *object)
{
	if (rn_unlikely(rnic_sanitizing))
		rnic_object_gone(kind, object);
}

/*
 * pthread_cond_wait() for `call`, which destroys an object and waits until the object's events are acknowledged. A wait
 * of five seconds is a finding: until then another thread may acknowledge them.
 */
void rnic_ack_wait(pthread_cond_t *cond, pthread_mutex_t *lock, const char *call);

#endif
