/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Spans: the ranges that the queues of a client use in its queue region. No two spans overlap: otherwise a request that
 * the client posts once would be carried out for both queues. Control thread.
 */
#ifndef SPANS_H
#define SPANS_H

#include <stdint.h>

#include "control/user.h"

enum span_verdict {
	SPAN_OK = 0,
	SPAN_OVERLAPS,  /* overlaps another queue or the control block */
	SPAN_NO_MEMORY, /* rnicd has no memory, or the user has used up the share of it */
};

/* Embedded in the queue's object. */
struct span {
	uint64_t off; /* in the queue region, bytes */
	uint64_t len; /* bytes; 0: the span is in no tree */
};

/* The spans of one client. Without a root there are none. */
struct spans {
	void *root;        /* of tsearch(3): spans in order of their offsets */
	struct user *user; /* the spans count in this user's share of USER_MEMORY */
};

/* Adds a span, which lies in the region; a length of 0 adds nothing. If the result is not SPAN_OK, s->len is set to
 * 0. */
enum span_verdict spans_take(struct spans *t, struct span *s);
/* Removes a span and sets s->len to 0; does nothing if it is 0 already. */
void spans_give(struct spans *t, struct span *s);

#endif
