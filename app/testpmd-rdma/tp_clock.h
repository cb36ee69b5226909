/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clocks. tp_now costs about 20 ns and no system call (vDSO); tp_cpu_ns is a system call and is read only at the edges
 * of a measurement.
 */
#ifndef TP_CLOCK_H
#define TP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t tp_clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * UINT64_C(1000000000) + (uint64_t)ts.tv_nsec;
}

static inline uint64_t tp_now(void) { return tp_clock_ns(CLOCK_MONOTONIC); }

/* CPU time that the calling thread has used, ns: the run's thread is the only one of the process that works. */
static inline uint64_t tp_cpu_ns(void) { return tp_clock_ns(CLOCK_THREAD_CPUTIME_ID); }

/* Use the CPU for ns nanoseconds, as an application that computes does. Returns the time after it. */
static inline uint64_t tp_compute(uint64_t ns)
{
	const uint64_t start = tp_now();
	uint64_t now = start;

	while (now - start < ns)
		now = tp_now();
	return now;
}

static inline void tp_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif
