/* SPDX-License-Identifier: BSD-3-Clause */
/* Small helpers that every room uses. Header only, no state, safe from any thread. */
#ifndef RN_BASE_H
#define RN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RN_CACHE_LINE 64
#define RN_ALIGNED(n) __attribute__((aligned(n)))
#define RN_NODISCARD  __attribute__((warn_unused_result))
/*
 * RN_COLD: a function that is rarely called. Its code lies apart, so that the code that runs all the time stays dense.
 * RN_HOT: a function that runs all the time, though cold callers use it too. Link-time optimisation keeps one of
 * several equal copies of a function; without RN_HOT a copy from a cold caller would be compiled small and slow for all
 * callers.
 * RN_STRAIGHT: a large function on a straight line (ARCHITECTURE.md) that another room calls. Link-time optimisation
 * puts such a function into its caller; without RN_STRAIGHT gcc does that with short functions only.
 */
#define RN_COLD                          __attribute__((cold))
#define RN_HOT                           __attribute__((hot))
#define RN_NOINLINE                      __attribute__((noinline))
#define RN_STRAIGHT                      inline
#define rn_likely(x)                     __builtin_expect(!!(x), 1)
#define rn_unlikely(x)                   __builtin_expect(!!(x), 0)
#define RN_ARRAY_LEN(a)                  (sizeof(a) / sizeof((a)[0]))
#define rn_container_of(p, type, member) ((type *)(void *)((char *)(p)-offsetof(type, member)))

/*
 * The cache line at p will be written soon. Fetching the line for writing takes the line from another core at once; a
 * prefetch for reading would only share the line, and the write would wait once more. A CPU without the instruction
 * does nothing here.
 */
static inline void rn_prefetch_write(const void *p)
{
#if defined(__x86_64__)
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
	__builtin_prefetch(p, 1);
#endif
}

/*
 * A full fence directly behind an atomic exchange. On x86 the exchange itself is a full fence. On Arm a load behind an
 * acquiring exchange may be done before the exchange's store can be seen.
 */
static inline void rn_fence_exchanged(void)
{
#if defined(__x86_64__)
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

static inline uint32_t rn_min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static inline uint32_t rn_max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }
static inline uint64_t rn_min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline uint64_t rn_max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

static inline bool rn_is_pow2(uint64_t n) { return n != 0 && (n & (n - 1)) == 0; }

/* The first set bit from bit `from` on; behind bit 63 comes bit 0. bits: not 0. from: below 64. */
static inline uint8_t rn_bit_from(uint64_t bits, uint32_t from)
{
	const uint64_t ahead = bits & UINT64_MAX << from;

	return (uint8_t)__builtin_ctzll(ahead != 0 ? ahead : bits);
}

/*
 * True when [off, off + len) lies inside [0, size). Never wraps: the one bounds check for offsets and lengths that
 * come from a peer or a client. A zero length is in range up to and including off == size.
 */
static inline bool rn_in_range(uint64_t off, uint64_t len, uint64_t size) { return off <= size && len <= size - off; }

/* One-clock rule: time is always an argument, a uint64_t of nanoseconds on a monotonic clock. */
#define RN_NS_PER_US UINT64_C(1000)
#define RN_NS_PER_MS UINT64_C(1000000)
#define RN_NS_PER_S  UINT64_C(1000000000)
#define RN_NEVER     UINT64_MAX

#endif
