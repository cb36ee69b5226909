/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift (Kumar et al., SIGCOMM 2020, algorithm 1): a window in packets, fractions included. A delay below the target
 * makes the window larger by one packet a round trip; a delay above it makes the window smaller in proportion to the
 * excess, once a round trip; a window below one packet is a pause between packets. Swift separates the delay at the
 * ends from the network's delay by time stamps of the adapter; here a receiver reports when it did not run
 * (UDPR_F_LATE).
 *
 * Four rules are not Swift's. A new flow doubles its window every round trip until the first cut (slow start, RFC 5681,
 * 3.1). The delay that is compared with the target is the least of at least LOWS round trips that are measured during
 * one round trip: a queue delays all packets, while a single late packet met a busy end (RFC 9406, 4.2, does so in slow
 * start). When there was no cut for QUIET round trips, the window grows each round trip by up to one FASTER-th more, in
 * proportion to how far the delay is below the target: one packet a round trip fills a long path too slowly. And a loss
 * makes the window smaller only if more than LOSS_PCT percent of the latest packets were lost, as in BBR of version 2
 * and later (BBRLossThresh of draft-cardwell-iccrg-bbr-congestion-control): a queue that overflows delays its packets
 * first, while a wire that loses a few frames at random does not.
 */
#include "udp/udpr.h"

#define ONE       65536u      /* one packet of window */
#define CWND_MIN  (ONE / 16)  /* one packet in 16 round trips */
#define CWND_INIT (10u * ONE) /* as TCP's (RFC 6928) */
#define BETA_PCT  80u         /* Swift's beta: the cut, as a percentage of the delay's excess */
#define CUT_PCT   50u         /* the largest cut, in percent of the window */
#define LOWS      4u
#define QUIET     8u
#define FASTER    16u
#define LOSS_PCT  2u                  /* percent of the latest packets that may be lost without a cut */
#define LOSS_FEW  2u                  /* so many losses never cause a cut: a percentage of few packets is chance */
#define LATEST    512u                /* "the latest packets" are LATEST to 2 * LATEST packets */
#define BURST_NS  (50 * RN_NS_PER_US) /* a sender that sends late by up to this much makes up for the delay at once */

void udpr_cc_start(struct udpr_tx *t)
{
	t->cwnd = CWND_INIT;
	t->starts = true;
}

static void cut_by(struct udpr_tx *t, uint32_t percent, uint64_t now)
{
	t->starts = false;
	if (t->cut != 0 && now - t->cut < t->srtt)
		return;
	t->cut = now;
	t->round = now + t->srtt; /* ACKs until then are of packets that were sent before the cut */
	t->lows = 0;
	t->cwnd = rn_max_u32(CWND_MIN, (uint32_t)((uint64_t)t->cwnd * (100 - percent) / 100));
}

/* Counts a round trip of rtt ns. Returns the least round trip of the measuring round if this ends it, else 0. */
static uint32_t round_low(struct udpr_tx *t, uint32_t rtt, uint64_t now)
{
	if (now < t->round)
		return 0;
	t->low = t->lows++ == 0 ? rtt : rn_min_u32(t->low, rtt);
	if (t->lows < LOWS || (!t->starts && now - t->round < t->srtt))
		return 0;
	t->lows = 0;
	t->round = now;
	return t->low;
}

/* Makes the window larger. below: by how many ns the delay is below its target. */
static void grow(struct udpr_tx *t, uint32_t acked, uint64_t below, uint64_t now)
{
	uint64_t more = (uint64_t)acked * ONE;

	/* a window that is not used says nothing of the path (RFC 7661) */
	if (2ull * (t->flight.n + acked) * ONE < t->cwnd)
		return;
	if (t->cwnd >= ONE && !t->starts) {
		const uint64_t faster = more * rn_min_u64(below, t->cfg->target) / t->cfg->target / FASTER;

		more = more * ONE / t->cwnd;
		if (now - t->cut > (uint64_t)QUIET * t->srtt)
			more += faster;
	}
	t->cwnd = (uint32_t)rn_min_u64((uint64_t)t->window * ONE, t->cwnd + more);
}

void udpr_cc_ack(struct udpr_tx *t, uint64_t rtt, bool late, uint32_t acked, uint64_t now)
{
	const uint64_t target = t->min_rtt + t->cfg->target;

	t->came += acked;
	if (t->came >= 2 * LATEST) {
		t->came /= 2;
		t->lost /= 2;
	}
	if (late) {
		grow(t, acked, 0, now);
		return;
	}
	const uint64_t low = round_low(t, (uint32_t)rtt, now);
	if (low > target)
		cut_by(t, (uint32_t)rn_min_u64(CUT_PCT, (low - target) * BETA_PCT / low), now);
	else if (rtt < target)
		grow(t, acked, target - rtt, now);
}

void udpr_cc_loss(struct udpr_tx *t, uint32_t lost, uint64_t now)
{
	t->lost += lost;
	if (t->lost > LOSS_FEW + (t->came + t->lost) * LOSS_PCT / 100)
		cut_by(t, CUT_PCT, now);
}

void udpr_cc_timeout(struct udpr_tx *t, uint64_t now)
{
	t->starts = false;
	t->cut = now;
	t->cwnd = CWND_MIN;
}

bool udpr_cc_room(const struct udpr_tx *t, uint64_t now)
{
	if (now < t->pace)
		return false;
	return t->cwnd < ONE ? t->flight.n == 0 : (uint64_t)(t->flight.n + 1) * ONE <= t->cwnd;
}

/* A window of one packet or more is paced at twice the window's rate, so that the window is the limit, not the pace. */
void udpr_cc_sent(struct udpr_tx *t, uint64_t now)
{
	uint64_t gap = (uint64_t)t->srtt * ONE / t->cwnd;

	if (t->cwnd >= ONE)
		gap /= 2;
	gap = rn_min_u64(gap, udpr_cc_longest(t));
	t->pace = rn_max_u64(t->pace, now > BURST_NS ? now - BURST_NS : 0) + gap;
}
