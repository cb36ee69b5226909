/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_hist.h"

#include <string.h>

void tp_hist_reset(struct tp_hist *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

/* Middle of a bucket's range, ns: the inverse of tp_hist_index. */
static uint64_t bucket_value(unsigned i)
{
	unsigned shift;
	uint64_t low;

	if (i < (1u << TP_HIST_SUB_BITS))
		return i;
	shift = (i >> (TP_HIST_SUB_BITS - 1)) - 1;
	low = (uint64_t)(i - (shift << (TP_HIST_SUB_BITS - 1))) << shift;
	return low + ((UINT64_C(1) << shift) >> 1);
}

uint64_t tp_hist_quantile(const struct tp_hist *h, uint32_t ppm)
{
	/* The rank, rounded up, without overflow for any count below 2^64 / 10^6. */
	uint64_t rank = h->count / 1000000 * ppm + (h->count % 1000000 * ppm + 999999) / 1000000;
	uint64_t seen = 0, v;

	if (h->count == 0)
		return 0;
	if (rank == 0)
		rank = 1;
	for (unsigned i = 0; i < TP_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen < rank)
			continue;
		v = bucket_value(i);
		if (v < h->min)
			return h->min;
		return v > h->max || i == TP_HIST_BUCKETS - 1 ? h->max : v;
	}
	return h->max;
}

void tp_hist_summary(const struct tp_hist *h, struct tp_quantiles *q)
{
	memset(q, 0, sizeof(*q));
	if (h->count == 0)
		return;
	q->count = h->count;
	q->min = h->min;
	q->p50 = tp_hist_quantile(h, 500000);
	q->p99 = tp_hist_quantile(h, 990000);
	q->p999 = tp_hist_quantile(h, 999000);
	q->max = h->max;
	q->mean = h->sum / h->count;
}
