/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The allocator of rnicrun --huge in a test program: its malloc() is the program's. A memfd of ordinary memory takes
 * the place of the one with hugepages, so blocks that nobody writes to take no memory.
 */
#ifndef TEST_RNICRUN_ORDINARY_H
#define TEST_RNICRUN_ORDINARY_H

extern unsigned ordinary_signals; /* so many calls of fallocate() end because a signal waits */

#endif
