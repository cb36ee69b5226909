/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies past this core's caches, by non-temporal stores: they do not fetch the old contents of a cache line, nor leave
 * the line in a cache. For large data that another core will read, or that nobody will read soon. Such stores are
 * weakly ordered: rn_stream_fence() must come before a store that announces the data. Any thread; no state.
 */
#ifndef RN_STREAM_H
#define RN_STREAM_H

#include <stdint.h>

/* As memcpy. */
typedef void (*rn_stream_fn)(void *dst, const void *src, uint32_t len);

/*
 * Chooses this processor's copy function with the widest stores of at most `most` bytes (64 is the widest there is).
 * *width: bytes of its stores, 64, 32 or 16; 0: the function is memcpy.
 */
rn_stream_fn rn_stream_choose(uint32_t most, uint32_t *width);

/* This thread's copies become visible before its later stores. */
static inline void rn_stream_fence(void)
{
#ifdef __x86_64__
	__asm__ volatile("sfence" ::: "memory");
#else
	__atomic_thread_fence(__ATOMIC_RELEASE); /* elsewhere the copies use ordinary stores */
#endif
}

#endif
