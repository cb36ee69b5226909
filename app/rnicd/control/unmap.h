/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread that unmaps the memory of clients that have ended. This memory may be tens of GiB. If rnicd is the last to
 * unmap it, the kernel frees it page by page, and only this thread waits for that.
 */
#ifndef UNMAP_H
#define UNMAP_H

#include <stdbool.h>
#include <stdint.h>

/* A mapping that nobody uses any more. From unmap_begin() until unmap_is_done() it belongs to the thread. */
struct unmap {
	uint8_t *base;
	uint64_t size; /* bytes; 0: nothing to do */
	struct unmap *next;
	uint32_t waits; /* atomic: 1 until it is unmapped */
};

/* Control thread. */
bool unmap_start(void);
void unmap_begin(struct unmap *u);
bool unmap_is_done(const struct unmap *u);
/* Waits until all mappings are unmapped, and ends the thread. */
void unmap_stop(void);

#endif
