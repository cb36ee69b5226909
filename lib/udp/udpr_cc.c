/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Swift (Kumar et al., SIGCOMM 2020, algorithm 1): a window in packets, fractions included. A delay below the target
 * makes the window larger by one packet a round trip; a delay above it makes the window smaller in proportion to the
 * excess, once a round trip; a window below one packet is a pause between packets. A smaller window has a larger target
 * (flow scaling, 3.5), so that the windows of flows that share a line become equal. Swift separates the delay at the
 * ends from the network's delay by time stamps of the adapter; here a receiver reports when it did not run
 * (UDPR_F_LATE).
 *
 * Five rules are not Swift's.
 * - A new flow doubles its window every round trip until the first cut (slow start, RFC 5681, 3.1).
 * - The delay that is compared with the target is the least of at least LOWS round trips that are measured during one
 *   round trip: a queue delays all packets, while a single late packet met a busy end (RFC 9406, 4.2, does so in slow
 *   start).
 * - When there was no cut for QUIET round trips, the window grows each round trip by up to one FASTER-th more, in
 *   proportion to how far the delay is below the target: one packet a round trip fills a long path too slowly.
 * - A loss makes the window smaller only if more than LOSS_PCT percent of the latest packets were lost, as in BBR of
 *   version 2 and later (BBRLossThresh of draft-cardwell-iccrg-bbr-congestion-control): a queue that overflows delays
 *   its packets first, while a wire that loses a few frames at random does not.
 * - Swift is told the delay of an empty path; here the least round trip is measured. A flow that begins while another
 *   flow keeps a queue measures that queue as a part of the path, adds a queue of its own, and would starve the other
 *   flow. Therefore each flow empties its own part of the queue now and then: QUIET round trips after its first cut,
 *   and PERIOD round trips after each such slowdown (draft-irtf-iccrg-ledbat-plus-plus, 4.4).
 */
#include "udp/udpr.h"

#define ONE       65536u         /* one packet of window; of a part: the whole */
#define CWND_MIN  (ONE / 16)     /* one packet in 16 round trips */
#define CWND_INIT (10u * ONE)    /* as TCP's (RFC 6928) */
#define BETA      (ONE * 8 / 10) /* Swift's beta: the cut, as a part of the delay's excess */
#define CUT_MAX   (ONE / 2)      /* the largest cut, as a part of the window */
#define FS_RANGE  4u             /* flow scaling adds this many targets for the smallest window */
#define LOWS      4u
#define QUIET     8u
#define FASTER    16u
#define PERIOD    256u
#define SLOW      2u                  /* round trips that a slowdown takes, without the growing afterwards */
#define SLOW_PART 8u                  /* a slowdown leaves 1 / SLOW_PART of the window */
#define BASE_NS   (10 * RN_NS_PER_S)  /* the least round trip is forgotten after BASE_NS to 2 * BASE_NS */
#define LOSS_PCT  2u                  /* percent of the latest packets that may be lost without a cut */
#define LOSS_FEW  2u                  /* so many losses never cause a cut: a percentage of few packets is chance */
#define LATEST    512u                /* "the latest packets" are LATEST to 2 * LATEST packets */
#define BURST_NS  (50 * RN_NS_PER_US) /* a sender that sends late by up to this much makes up for the delay at once */

void udpr_cc_start(struct udpr_tx *t)
{
	t->cwnd = CWND_INIT;
	t->starts = true;
}

/* Makes the window smaller by a part of it, where ONE is all of it. */
static void cut_by(struct udpr_tx *t, uint64_t part, uint64_t now)
{
	t->starts = false;
	if (t->cut != 0 && now - t->cut < t->srtt)
		return;
	t->cut = now;
	t->round = now + t->srtt; /* ACKs until then are of packets that were sent before the cut */
	t->lows = t->low_before = 0;
	t->cwnd = rn_max_u32(CWND_MIN, (uint32_t)(t->cwnd * (ONE - part) / ONE));
	t->keep = (uint32_t)(t->keep * (ONE - part) / ONE);
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
	t->low_before = t->low;
	return t->low;
}

/*
 * A slowdown leaves a part of the window for SLOW round trips; then the window doubles each round trip up to its former
 * size. A flow whose packets hardly wait in a queue has no slowdown. True: a slowdown is going on, and no other rule
 * makes the window larger.
 */
static bool slow_down(struct udpr_tx *t, uint32_t acked, uint64_t now)
{
	if (t->keep != 0) {
		if (now < t->slow)
			return true;
		t->cwnd = (uint32_t)rn_min_u64(t->keep, t->cwnd + (uint64_t)acked * ONE);
		if (t->cwnd < t->keep)
			return true;
		t->keep = 0;
		t->round = now + t->srtt;
		t->lows = t->low_before = 0;
		t->slow = now + (uint64_t)PERIOD * t->srtt;
	}
	if (t->starts)
		return false;
	if (t->slow == 0)
		t->slow = now + (uint64_t)QUIET * t->srtt;
	if (now < t->slow || t->cwnd < 2 * ONE || t->low_before < t->min_rtt + t->cfg->target / 4)
		return false;
	t->keep = t->cwnd;
	t->cwnd = rn_max_u32(ONE, t->cwnd / SLOW_PART);
	t->slow = now + (uint64_t)SLOW * t->srtt;
	return true;
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

/* The largest number whose square is x or less. */
static uint32_t square_root(uint32_t x)
{
	uint32_t r = 0;

	for (uint32_t bit = 1u << 15; bit != 0; bit >>= 1)
		if ((r + bit) * (r + bit) <= x)
			r += bit;
	return r;
}

/*
 * The longest round trip that is no congestion; ns. Flow scaling adds FS_RANGE targets for a window of CWND_MIN and
 * nothing for UDPR_WIDE packets; in between the addition falls with the square root of the window.
 */
static uint64_t target_of(const struct udpr_tx *t)
{
	const uint64_t least = square_root(CWND_MIN), most = square_root(UDPR_WIDE) * square_root(ONE),
		       root = square_root(t->cwnd);

	return t->min_rtt + t->cfg->target +
	       FS_RANGE * t->cfg->target * (most - root) * least / ((most - least) * root);
}

/*
 * A path may become longer, so the least round trip counts from the beginning of the last whole BASE_NS only (BBR
 * forgets after as long: MinRTTFilterLen of draft-cardwell-iccrg-bbr-congestion-control).
 */
static void forget_base(struct udpr_tx *t, uint32_t rtt, uint64_t now)
{
	if (t->base_from == 0)
		t->base_from = now;
	t->base = t->base == 0 ? rtt : rn_min_u32(t->base, rtt);
	if (now - t->base_from < BASE_NS)
		return;
	t->min_rtt = t->base;
	t->base_from = now;
	t->base = 0;
}

void udpr_cc_ack(struct udpr_tx *t, uint64_t rtt, bool late, uint32_t acked, uint64_t now)
{
	const uint64_t target = target_of(t);

	t->came += acked;
	if (t->came >= 2 * LATEST) {
		t->came /= 2;
		t->lost /= 2;
	}
	if (slow_down(t, acked, now))
		return;
	if (late) {
		grow(t, acked, 0, now);
		return;
	}
	forget_base(t, (uint32_t)rtt, now);
	const uint64_t low = round_low(t, (uint32_t)rtt, now);
	if (low > target)
		cut_by(t, rn_min_u64(CUT_MAX, (low - target) * BETA / low), now);
	else if (rtt < target)
		grow(t, acked, target - rtt, now);
	else if (!t->starts && t->low_before != 0 && t->low_before < target)
		grow(t, acked, target - t->low_before, now); /* a window that is not cut grows, as in Swift */
}

void udpr_cc_loss(struct udpr_tx *t, uint32_t lost, uint64_t now)
{
	t->lost += lost;
	if (t->lost > LOSS_FEW + (t->came + t->lost) * LOSS_PCT / 100)
		cut_by(t, CUT_MAX, now);
}

void udpr_cc_timeout(struct udpr_tx *t, uint64_t now)
{
	t->starts = false;
	t->cut = now;
	t->cwnd = CWND_MIN;
	t->keep = 0;
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
