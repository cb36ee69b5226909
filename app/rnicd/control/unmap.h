/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that unmaps the memory of clients that have ended. This memory may be tens of GiB, and the kernel frees page
 * by page what rnicd was the last to map; only this thread waits for that.
 */
#ifndef UNMAP_H
#define UNMAP_H

#include <stdbool.h>
#include <stdint.h>

/* A mapping that nobody uses any more. Belongs to the thread until `waits` is 0. */
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
/* Waits until all mappings are unmapped. */
void unmap_stop(void);

#endif
