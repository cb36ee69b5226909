/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_lite/tcpl_track.h"

#include "tcpl_int.h"

bool tcpl_may_spread(const struct tcpl_conn *c)
{
	return c->cfg->tracks && c->state >= TCPL_S_ESTABLISHED && (c->flags & F_SACK) != 0;
}

void tcpl_tracks_begin(struct tcpl_conn *c)
{
	for (uint32_t i = 1; i < tcpl_paths(c); i++)
		*tcpl_track(c, i) = (struct tcpl_track){ .first = TCPL_NO_SLOT, .last = TCPL_NO_SLOT };
}

uint64_t tcpl_slowest(const struct tcpl_conn *c)
{
	uint64_t slow = c->track.slow;

	if (rn_likely(c->mem.track == NULL))
		return 0;
	for (uint32_t i = 0; i < TCPL_PATHS - 1; i++)
		slow = rn_max_u64(slow, c->mem.track[i].slow);
	return 2 * slow; /* the slowest path both ways: the measured ACKs may have come back by a faster one */
}

bool tcpl_untold(const struct tcpl_conn *c)
{
	if (rn_likely(c->mem.track == NULL))
		return false;
	bool any = c->track.slow == 0 && c->track.first != TCPL_NO_SLOT;
	for (uint32_t i = 0; i < TCPL_PATHS - 1; i++)
		any |= c->mem.track[i].slow == 0 && c->mem.track[i].first != TCPL_NO_SLOT;
	return any;
}

void tcpl_blame(struct tcpl_conn *c, uint64_t now)
{
	if (rn_likely(c->mem.track == NULL) || c->r_head == c->r_tail)
		return;
	const uint32_t path = tcpl_path_of(tcpl_rec(c, c->r_head));
	struct tcpl_track *t = tcpl_track(c, path);

	c->lame = (uint8_t)(tcpl_lame(c, now) | 1u << path);
	c->lame_until = now + TCPL_LAME_NS;
	if (t->slow == 0) /* only the first timeout of an unmeasured path waits for init_rto_ns */
		t->slow = rn_max_u64(c->srtt, 1);
}

void tcpl_arrived(struct tcpl_conn *c, uint32_t path, uint64_t sent)
{
	c->lame &= (uint8_t) ~(1u << path);
	if (sent <
	    c->lame_until - TCPL_LAME_NS + tcpl_slowest(c)) /* segments of the lame path may still be under way */
		return;
	c->left |= (uint8_t)(c->lame & ~c->proved);
	c->proved |= c->lame;
}
