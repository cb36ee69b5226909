/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The range of its queue region that each queue of a client uses. No two ranges overlap: otherwise a request that a
 * client posts once to a shared ring would be carried out twice. Control thread.
 */
#ifndef SPANS_H
#define SPANS_H

#include <stdint.h>

enum span_verdict {
	SPAN_OK = 0,
	SPAN_OVERLAPS,  /* overlaps another queue or the control block */
	SPAN_NO_MEMORY, /* in rnicd */
};

/* Embedded in the queue's object. */
struct span {
	uint64_t off; /* bytes, in the queue region */
	uint64_t len; /* bytes; 0: it has none */
};

/* The spans of one client. All zero: there are none. */
struct spans {
	void *root; /* of tsearch(3): spans in order of their offsets */
};

/* Adds a span; s->off and s->len are set, and lie in the region. A length of 0 adds nothing. When not OK, s->len is
 * 0. */
enum span_verdict spans_take(struct spans *t, struct span *s);
/* Removes a span and sets s->len to 0; does nothing if it is 0 already. */
void spans_give(struct spans *t, struct span *s);

#endif
