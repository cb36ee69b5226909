/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of clients that have gone, given back by a thread of its own. It may be tens of GiB, and where rnicd's
 * mapping was the last the kernel takes back page by page what the client had: nobody else waits for that.
 */
#ifndef UNMAP_H
#define UNMAP_H

#include <stdbool.h>
#include <stdint.h>

/* A mapping that nobody uses any more. Its owner's memory until it is done. */
struct unmap {
	uint8_t *base;
	uint64_t size; /* bytes; 0: nothing to do */
	struct unmap *next;
	uint32_t waits; /* atomic: 1 until it is done */
};

/* Control thread. */
bool unmap_start(void);
void unmap_begin(struct unmap *u);
bool unmap_is_done(const struct unmap *u);
/* Nothing waits any more. */
void unmap_stop(void);

#endif
