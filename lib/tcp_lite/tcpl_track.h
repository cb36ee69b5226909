/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection whose segments go by several paths, which its owner chooses between. A path keeps the order of its
 * segments, so a loss is judged among the segments of one path: arrivals by one path say nothing of another, however
 * different the delays are. Needs SACK, and memory for the tracks (struct tcpl_mem).
 *
 * A dead path shows by a timeout only, since no later segment arrives by it. Then the path is passed over for
 * TCPL_LAME_NS, or until one of its segments arrives after all.
 */
#ifndef TCPL_TRACK_H
#define TCPL_TRACK_H

#include "tcp_lite/tcpl.h"

#define TCPL_LAME_NS RN_NS_PER_S

/* Whether segments may go by different paths: only if the peer reports arrivals behind a hole (SACK). */
bool tcpl_may_spread(const struct tcpl_conn *c);

/* What tcpl_out gives from now on goes by this path, less than TCPL_PATHS. */
static inline void tcpl_use_path(struct tcpl_conn *c, uint32_t path) { c->path = (uint8_t)path; }

/* A bit for each path that is to be passed over. */
static inline uint32_t tcpl_lame(struct tcpl_conn *c, uint64_t now)
{
	if (rn_unlikely(c->lame != 0) && now >= c->lame_until)
		c->lame = c->proved = 0;
	return c->lame;
}

/*
 * A bit for each path that has proved dead since the last call: a segment that left by another path after the timeout
 * has arrived, and none by this path.
 */
static inline uint32_t tcpl_left(struct tcpl_conn *c)
{
	uint32_t left = c->left;

	c->left = 0;
	return left;
}

#endif
