/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies past this core's caches, by stores that ask for no old contents of a line and leave none behind: for many
 * bytes that another core will read, or nobody soon. Such stores are weakly ordered: rn_stream_fence() comes before
 * whatever tells of them. Any thread; no state.
 */
#ifndef RN_STREAM_H
#define RN_STREAM_H

#include <stdint.h>

/* As memcpy. */
typedef void (*rn_stream_fn)(void *dst, const void *src, uint32_t len);

/*
 * The copy whose stores have most bytes, but not more than `most` (64 is all there are), on this processor. *width: how
 * many, 64, 32 or 16; 0: it is memcpy.
 */
rn_stream_fn rn_stream_choose(uint32_t most, uint32_t *width);

/* Whatever this thread has streamed is visible before what it stores from now on. */
static inline void rn_stream_fence(void)
{
#ifdef __x86_64__
	__asm__ volatile("sfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE); /* the stores are ordinary ones */
#endif
}

#endif
