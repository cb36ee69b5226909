/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift (Kumar et al., SIGCOMM 2020, algorithm 1): a window in packets, fractions included. A delay below the target
 * makes the window larger by one packet a round trip; a delay above it makes the window smaller in proportion to the
 * excess, once a round trip; so does a loss, by half at most. A window below one packet is a pace. Swift separates the
 * ends' delay from the network's by time stamps of the adapter; here the ends report when they have not run.
 */
#include "udp/udpr.h"

#define ONE       65536u     /* one packet of window */
#define CWND_MIN  (ONE / 16) /* one packet in 16 round trips */
#define CWND_MAX  (UDPR_WINDOW * ONE)
#define CWND_INIT (10u * ONE)         /* as TCP's (RFC 6928) */
#define BETA_PCT  80u                 /* percent of the excess */
#define CUT_PCT   50u                 /* percent of the window: the largest cut */
#define BURST_NS  (50 * RN_NS_PER_US) /* how late a sender may come and still make up for it at once */

void udpr_cc_start(struct udpr_tx *t) { t->cwnd = CWND_INIT; }

static void cut_by(struct udpr_tx *t, uint32_t percent, uint64_t now)
{
	if (t->cut != 0 && now - t->cut < t->srtt)
		return;
	t->cut = now;
	t->cwnd = rn_max_u32(CWND_MIN, (uint32_t)((uint64_t)t->cwnd * (100 - percent) / 100));
}

void udpr_cc_ack(struct udpr_tx *t, uint64_t rtt, bool late, uint32_t acked, uint64_t now)
{
	uint64_t target = t->min_rtt + t->cfg->target, more;

	if (rtt < target || late) {
		more = (uint64_t)acked * ONE;
		if (t->cwnd >= ONE)
			more = more * ONE / t->cwnd;
		t->cwnd = (uint32_t)rn_min_u64(CWND_MAX, t->cwnd + more);
		return;
	}
	cut_by(t, (uint32_t)rn_min_u64(CUT_PCT, (rtt - target) * BETA_PCT / rtt), now);
}

void udpr_cc_loss(struct udpr_tx *t, uint64_t now) { cut_by(t, CUT_PCT, now); }

void udpr_cc_timeout(struct udpr_tx *t, uint64_t now)
{
	t->cut = now;
	t->cwnd = CWND_MIN;
}

bool udpr_cc_room(const struct udpr_tx *t, uint64_t now)
{
	if (now < t->pace)
		return false;
	return t->cwnd < ONE ? t->flight == 0 : (uint64_t)(t->flight + 1) * ONE <= t->cwnd;
}

/* A window of one packet or more is paced at twice its rate, so that the pace is never the limit. */
void udpr_cc_sent(struct udpr_tx *t, uint64_t now)
{
	uint64_t gap = (uint64_t)t->srtt * ONE / t->cwnd;

	if (t->cwnd >= ONE)
		gap /= 2;
	gap = rn_min_u64(gap, udpr_cc_longest(t));
	t->pace = rn_max_u64(t->pace, now > BURST_NS ? now - BURST_NS : 0) + gap;
}
