/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a program does that this device forgives and another may not: RNIC_SANITIZE, which rnicrun --sanitize sets.
 * It is read before main(); a wrong one ends the process with a sentence and status 2. doc/testing.md has the list.
 * Each finding is one line on stderr, and a process that has one ends with status RNIC_SANITIZE_STATUS in the place of
 * 0. Any thread.
 */
#ifndef RNIC_SANITIZE_H
#define RNIC_SANITIZE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define RNIC_SANITIZE_STATUS 66
#define RNIC_SANITIZE_LINES  10u /* lines of one kind in a process; the others are counted */

enum rnic_finding {
	RNIC_FIND_CHANGED,    /* a buffer is changed while a work request sends it */
	RNIC_FIND_DEREG,      /* a region goes while a work request names it */
	RNIC_FIND_FENCE,      /* a work request sends what an earlier Read has yet to bring */
	RNIC_FIND_OVERRUN,    /* more completions may come than the completion queue has room for */
	RNIC_FIND_UNSIGNALED, /* no completion will ever free the send queue */
	RNIC_FIND_CAPS,       /* more SGEs or inline bytes than the queue pair has */
	RNIC_FIND_ACK,        /* a destroy waits for an event that is not acknowledged */
	RNIC_FIND_PRIVATE,    /* private data that InfiniBand has no room for */
	RNIC_FIND_DEPTH,      /* more Reads at a time than agreed on */
	RNIC_FIND_EARLY,      /* memory is used that the device may be writing */
	RNIC_FIND_UNMAPPED,   /* a buffer is unmapped while a work request names it */
	RNIC_FIND_LEAK,       /* objects that are left at the end */
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
	bool ib;       /* also what iWARP allows and InfiniBand does not */
	uint64_t seed; /* completions come as late as they may, drawn from this; 0: as they come */
};

/* Reads RNIC_SANITIZE. NULL, or what is wrong with it. */
const char *rnic_sanitize_parse(struct rnic_sanitize_options *out, const char *spec);

/* Written before main(). */
extern bool rnic_sanitizing __attribute__((visibility("hidden")));
extern struct rnic_sanitize_options rnic_sanitize __attribute__((visibility("hidden")));

/* Counts it, and tells it unless there were RNIC_SANITIZE_LINES of its kind. fmt begins with the call. */
RN_COLD void rnic_finding(enum rnic_finding kind, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

RN_COLD void rnic_object_made(enum rnic_object kind, const void *object);
RN_COLD void rnic_object_gone(enum rnic_object kind, const void *object);

/* What the program makes and must destroy. `object` may be NULL: the call has failed. */
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
 * pthread_cond_wait() of a call that destroys an object and waits until its events are acknowledged. Who waits for
 * five seconds is told of, once for each call: another thread may acknowledge them until then.
 */
void rnic_ack_wait(pthread_cond_t *cond, pthread_mutex_t *lock, const char *call);

#endif
