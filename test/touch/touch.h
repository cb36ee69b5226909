/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which cache lines a thread touches. The code under test is compiled with -fsanitize=thread, so the compiler calls a
 * function before each load and store; touch.c has these functions in place of the sanitizer's library, and notes the
 * line. What the compiler keeps in registers is not seen, and what it loads twice is one line. Not seen: prefetches,
 * streamed stores, and code of libraries that are compiled otherwise.
 */
#ifndef TOUCH_H
#define TOUCH_H

#include <stdbool.h>
#include <stdint.h>

struct touch_line {
	uintptr_t line; /* address / RN_CACHE_LINE; 0: empty */
	uint32_t loads, stores;
	uint8_t words; /* a bit for each aligned group of 8 octets that was touched */
};

#define TOUCH_LINES (1u << 16) /* entries of a recording, of which half are used at most */

/* Any thread: whose accesses are noted, by DPDK's number of its lcore. Nothing is noted before touch_start(). */
void touch_of(unsigned int lcore);
void touch_start(void);
void touch_stop(void);

/*
 * TOUCH_LINES entries in no order; those whose line is 0 are empty. Call when no access from before touch_stop() can be
 * under way.
 */
const struct touch_line *touch_lines(void);
/* True: the recording was full, so lines may be missing. */
bool touch_lost(void);

#endif
