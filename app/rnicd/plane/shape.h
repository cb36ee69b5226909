/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Line rate of a port: a token bucket in the form of a theoretical arrival time (GCRA). A frame occupies the line for
 * (its length + PKT_WIRE_OVERHEAD) bytes. The time at which the line is free again is shared by all workers of a port
 * and moved with one compare-and-swap per burst.
 */
#ifndef RNICD_SHAPE_H
#define RNICD_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "pkt/pkt.h"

/*
 * How far the line may run ahead of the clock. A worker serves its queues every few microseconds, and much less often
 * when it has slept: without this slack the line would be idle between two turns.
 */
#define SHAPE_SLACK_NS (50 * RN_NS_PER_US)

struct shape {
	uint64_t *tat;        /* ns: when the line is free again; shared by the port's workers */
	uint64_t ns_per_byte; /* fixed point, 2^-20 ns; 0: not shaped */
};

void shape_init(struct shape *s, uint64_t *tat, uint64_t rate_bps);

static inline bool shape_on(const struct shape *s) { return s->ns_per_byte != 0; }

/* Ethernet pads shorter frames; the padding and the overhead take time on the line too. */
static inline uint64_t shape_wire_bytes(uint32_t frame_len)
{
	return rn_max_u32(frame_len, PKT_ETH_MIN) + PKT_WIRE_OVERHEAD;
}

/* Frames that want to leave. */
struct shape_ask {
	uint64_t now;
	uint64_t since;      /* since this time frames have waited without a pause, so the line has not been idle */
	const uint32_t *len; /* bytes of each */
	uint32_t n;
};

/*
 * How many of the frames may leave now; the line is charged for these. *next is when to ask again, RN_NEVER when all
 * may leave. A worker that comes late catches up: the line would have gone on without it.
 */
uint32_t shape_admit(struct shape *s, const struct shape_ask *a, uint64_t *next);

#endif
