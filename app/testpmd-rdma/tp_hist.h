/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latency histogram: log-linear buckets over nanoseconds. Values below 256 are exact, above that a bucket is at most
 * 1/128 of its value wide; minimum, maximum and mean are exact. No allocation; one owner, no locking.
 */
#ifndef TP_HIST_H
#define TP_HIST_H

#include <stdint.h>

#define TP_HIST_SUB_BITS 8  /* buckets per power of two: 2^(bits-1) */
#define TP_HIST_MAX_BITS 40 /* values of 2^40 ns (18 minutes) and above fall into the last bucket */
#define TP_HIST_BUCKETS  ((TP_HIST_MAX_BITS - TP_HIST_SUB_BITS + 2) << (TP_HIST_SUB_BITS - 1))

struct tp_hist {
	uint64_t count;
	uint64_t sum; /* ns */
	uint64_t min; /* ns, UINT64_MAX while empty */
	uint64_t max; /* ns */
	uint64_t bucket[TP_HIST_BUCKETS];
};

/* The figures a report shows, ns. All zero when nothing was recorded. */
struct tp_quantiles {
	uint64_t count, min, p50, p99, p999, max, mean;
};

void tp_hist_reset(struct tp_hist *h);

static inline unsigned tp_hist_index(uint64_t ns)
{
	unsigned msb, shift;

	if (ns < (UINT64_C(1) << TP_HIST_SUB_BITS))
		return (unsigned)ns;
	msb = 63 - (unsigned)__builtin_clzll(ns);
	if (msb >= TP_HIST_MAX_BITS)
		return TP_HIST_BUCKETS - 1;
	shift = msb - (TP_HIST_SUB_BITS - 1);
	return (shift << (TP_HIST_SUB_BITS - 1)) + (unsigned)(ns >> shift);
}

static inline void tp_hist_add(struct tp_hist *h, uint64_t ns)
{
	h->count++;
	h->sum += ns;
	if (ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
	h->bucket[tp_hist_index(ns)]++;
}

/* The smallest recorded value v such that at least ppm/10^6 of all values are <= v, to bucket precision; 0 if empty. */
uint64_t tp_hist_quantile(const struct tp_hist *h, uint32_t ppm);
void tp_hist_summary(const struct tp_hist *h, struct tp_quantiles *q);

#endif
