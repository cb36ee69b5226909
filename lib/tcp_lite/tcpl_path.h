/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is known of boxes that cut segments on the way: a cut shows when an ACK or a SACK edge lies inside a segment. A
 * path that has shown none over TCPL_PATH_PROOF bytes is taken for one that passes segments whole, until one shows.
 * Each wrap of the sequence numbers asks for that proof again.
 */
#ifndef TCPL_PATH_H
#define TCPL_PATH_H

#include "tcp_lite/tcpl.h"

enum tcpl_path { TCPL_PATH_UNKNOWN, TCPL_PATH_WHOLE, TCPL_PATH_CUTS };
#define TCPL_PATH_PROOF (16u << 20) /* bytes */
static inline enum tcpl_path tcpl_path(const struct tcpl_conn *c)
{
	if (rn_unlikely(c->stats.cuts != 0))
		return TCPL_PATH_CUTS;
	return rn_likely(c->snd_una - c->iss >= TCPL_PATH_PROOF) ? TCPL_PATH_WHOLE : TCPL_PATH_UNKNOWN;
}

#endif
