/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which bytes of its queue region each queue of a client has. No two of them have a byte in common: one ring that were
 * two queues' would be work that its client posts once and the workers do twice. Control thread.
 */
#ifndef SPANS_H
#define SPANS_H

#include <stdint.h>

enum span_verdict {
	SPAN_OK = 0,
	SPAN_OVERLAPS,  /* another queue has bytes of it, or the control block */
	SPAN_NO_MEMORY, /* in rnicd */
};

/* Embedded in the queue's object. */
struct span {
	uint64_t off; /* bytes, in the queue region */
	uint64_t len; /* bytes; 0: it has none */
};

/* The spans of one client. All zero: nothing is taken. */
struct spans {
	void *root; /* of tsearch(3): spans in order of their offsets */
};

/* s->off and s->len are set, and lie in the region. Nothing is taken of a length of 0. When not OK, s->len is 0. */
enum span_verdict spans_take(struct spans *t, struct span *s);
/* s->len is 0 then; nothing happens when it is already. */
void spans_give(struct spans *t, struct span *s);

#endif
