/* SPDX-License-Identifier: BSD-3-Clause */
/* The clock of the programs that measure a ping-pong, and the median of their samples. */
#ifndef BENCH_TIME_H
#define BENCH_TIME_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static inline int sample_compare(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Sorts the n samples. 0: there are none. */
static inline uint32_t median_of(uint32_t *samples, uint32_t n)
{
	qsort(samples, n, sizeof(*samples), sample_compare);
	return n == 0 ? 0 : samples[n / 2];
}

#endif
