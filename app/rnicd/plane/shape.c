/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/shape.h"

#define FRACTION_BITS 20

void shape_init(struct shape *s, uint64_t *tat, uint64_t rate_bps)
{
	s->tat = tat;
	s->ns_per_byte = 0;
	if (rate_bps != 0) {
		/* rounded to nearest: at 100 Gb/s one part in 80,000 */
		uint64_t bits_ns = 8 * RN_NS_PER_S;
		s->ns_per_byte = (uint64_t)((((unsigned __int128)bits_ns << FRACTION_BITS) + rate_bps / 2) / rate_bps);
		s->ns_per_byte = rn_max_u64(s->ns_per_byte, 1);
	}
}

uint32_t shape_admit(struct shape *s, const struct shape_ask *a, uint64_t *next)
{
	uint64_t seen = __atomic_load_n(s->tat, __ATOMIC_RELAXED);

	for (;;) {
		/* the fraction of a nanosecond is carried over within a burst and dropped behind it */
		uint64_t start = rn_max_u64(seen, a->since);
		uint64_t limit = a->now + SHAPE_SLACK_NS;
		uint64_t used = 0; /* 2^-20 ns */
		uint32_t k = 0;
		while (k < a->n && start + (used >> FRACTION_BITS) < limit)
			used += shape_wire_bytes(a->len[k++]) * s->ns_per_byte;
		uint64_t end = start + (used >> FRACTION_BITS);
		*next = k == a->n ? RN_NEVER : end > SHAPE_SLACK_NS ? end - SHAPE_SLACK_NS + 1 : a->now;
		if (k == 0)
			return 0;
		/* relaxed: the word orders nothing but itself */
		if (__atomic_compare_exchange_n(s->tat, &seen, end, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			return k;
	}
}
