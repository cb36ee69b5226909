/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a worker's time goes: the cycles of each stage of its turn, counted when the configuration says so. Only the
 * worker touches the counts; telemetry asks for them by command.
 */
#ifndef RNICD_STAGE_H
#define RNICD_STAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_cycles.h>

#include "base/rn_base.h"
#include "border/look.h"

struct stages {
	bool on;
	uint64_t last;        /* cycle counter when the last stage ended */
	uint64_t lap[STAGES]; /* of this turn */
	uint64_t total[STAGES];
};

static inline void stage_end(struct stages *s, enum stage which)
{
	if (rn_likely(!s->on))
		return;
	uint64_t now = rte_rdtsc();
	s->lap[which] = now - s->last;
	s->last = now;
}

static inline void stage_turn(struct stages *s, bool busy)
{
	if (rn_likely(!s->on))
		return;
	for (uint32_t i = 0; i < STAGES; i++)
		s->total[busy ? i : STAGE_IDLE] += s->lap[i];
}

#endif
