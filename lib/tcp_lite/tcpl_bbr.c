/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * BBR (Cardwell et al., ACM Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00; sections below are
 * the draft's). The model knows the rate at which the path delivers (bw) and the round trip of the empty path
 * (min_rtt). The sender paces at bw, times a gain, and has at most twice bw * min_rtt in flight, more in
 * STARTUP. A loss changes neither bw nor min_rtt.
 *
 * Unlike the draft: the maximum of bw is taken over the present and the previous eight round trips, without a list.
 */
#include "tcpl_int.h"

enum bbr_state {
	STARTUP,   /* doubles each round trip until bw grows no more */
	DRAIN,     /* until the queue that STARTUP has built is gone */
	PROBE_BW,  /* cruises; one round trip in eight a quarter faster, the next one a quarter slower */
	PROBE_RTT, /* at most four segments in flight for 200 ms, to measure the RTT of the empty path */
};

#define UNIT         256u /* a gain of 1 */
#define GAIN_HIGH    739u /* 2 / ln 2: doubles what is delivered each round trip */
#define GAIN_DRAIN   89u  /* ln 2 / 2 */
#define BW_ROUNDS    8u   /* a cycle of PROBE_BW at least */
#define FULL_ROUNDS  3u
#define MIN_RTT_NS   (10 * RN_NS_PER_S)
#define PROBE_RTT_NS (200 * RN_NS_PER_MS)
#define BW_MAX       (UINT64_C(1) << 37) /* bytes/s: products fit 64 bits */
#define RTT_MAX      (UINT64_C(1) << 32) /* ns */

static const uint16_t cycle[] = { UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT };

static uint64_t bw_of(const struct tcpl_bbr_model *m) { return rn_max_u64(m->bw[0], m->bw[1]); }

/*
 * Bytes in flight that the gain asks for, and three quanta, so that bursts and delayed ACKs do not stop the sender
 * (4.2.3.2).
 */
static uint32_t inflight(const struct tcpl_conn *c, uint32_t gain)
{
	const struct tcpl_bbr_model *m = &c->bbr;

	if (m->min_rtt == RN_NEVER || bw_of(m) == 0)
		return (uint32_t)c->cfg->init_cwnd * c->mss;
	uint64_t bdp = (bw_of(m) >> 6) * rn_min_u64(m->min_rtt, RTT_MAX - 1) / (RN_NS_PER_S >> 6);
	return (uint32_t)rn_min_u64(bdp * gain / UNIT + 3u * tcpl_pace_quantum(c), c->cfg->cwnd_max);
}

static uint32_t floor_cwnd(const struct tcpl_conn *c) { return 4u * c->mss; }

static uint32_t pacing_gain(const struct tcpl_bbr_model *m)
{
	switch ((enum bbr_state)m->state) {
	case STARTUP: return GAIN_HIGH;
	case DRAIN: return GAIN_DRAIN;
	case PROBE_BW: return cycle[m->phase];
	case PROBE_RTT: break;
	}
	return UNIT;
}

static bool full(const struct tcpl_bbr_model *m) { return m->full_n >= FULL_ROUNDS; }

static void bbr_init(struct tcpl_conn *c) { c->bbr = (struct tcpl_bbr_model){ .min_rtt = RN_NEVER }; }

/* 4.1.1.3: true: a round trip is over. */
static bool round_over(struct tcpl_conn *c, const struct tcpl_rate *r)
{
	struct tcpl_bbr_model *m = &c->bbr;

	if (!r->any || rn_seq_lt(r->prior, m->round_end))
		return false;
	m->round_end = c->dlv.bytes;
	m->rounds++;
	m->conserve = false;
	return true;
}

/* 4.1.1.4: a rate that the owner has kept low counts only if it is above the known maximum. */
static void update_bw(struct tcpl_bbr_model *m, const struct tcpl_rate *r)
{
	if (r->rate == 0 || (r->limited && r->rate < bw_of(m)))
		return;
	if (m->rounds - m->bw_round >= BW_ROUNDS) {
		m->bw_round = m->rounds;
		m->bw[1] = m->bw[0];
		m->bw[0] = 0;
	}
	m->bw[0] = rn_max_u64(m->bw[0], rn_min_u64(r->rate, BW_MAX));
}

static void to_phase(struct tcpl_bbr_model *m, uint64_t now, uint32_t phase)
{
	m->state = PROBE_BW;
	m->phase = (uint8_t)(phase % RN_ARRAY_LEN(cycle));
	m->phase_at = now;
}

/* 4.3.4.3: begins with any phase but the slower one, so that flows do not probe together. */
static void to_probe_bw(struct tcpl_conn *c, uint64_t now)
{
	uint32_t k = (c->iss ^ c->dlv.bytes) % (RN_ARRAY_LEN(cycle) - 1);

	to_phase(&c->bbr, now, k == 0 ? 0 : k + 1);
}

static void next_phase(struct tcpl_conn *c, uint64_t now, const struct tcpl_rate *r)
{
	struct tcpl_bbr_model *m = &c->bbr;
	uint32_t gain = cycle[m->phase];
	bool due = now - m->phase_at > m->min_rtt;

	if (gain > UNIT) /* the faster phase lasts until its bytes were in flight, or a loss was seen */
		due = due && (r->lost > 0 || r->flight >= inflight(c, gain));
	else if (gain < UNIT)
		due = due || r->flight <= inflight(c, UNIT);
	if (due)
		to_phase(m, now, m->phase + 1u);
}

/* 4.3.2.2 and 4.3.3 */
static void check_full(struct tcpl_conn *c, uint64_t now, const struct tcpl_rate *r, bool round)
{
	struct tcpl_bbr_model *m = &c->bbr;

	if (!full(m) && round && !r->limited) {
		if (bw_of(m) >= m->full_bw * 5 / 4) {
			m->full_bw = bw_of(m);
			m->full_n = 0;
		} else {
			m->full_n++;
		}
	}
	if (m->state == STARTUP && full(m))
		m->state = DRAIN;
	if (m->state == DRAIN && tcpl_pipe(c) <= inflight(c, UNIT))
		to_probe_bw(c, now);
}

static void save_cwnd(struct tcpl_conn *c)
{
	struct tcpl_bbr_model *m = &c->bbr;

	if (m->recovering || m->state == PROBE_RTT)
		m->prior_cwnd = rn_max_u32(m->prior_cwnd, c->cwnd);
	else
		m->prior_cwnd = c->cwnd;
}

static void probe_rtt(struct tcpl_conn *c, uint64_t now, bool round)
{
	struct tcpl_bbr_model *m = &c->bbr;

	/* rates of this phase are below what the path could deliver */
	c->dlv.limited = true;
	c->dlv.limited_to = c->dlv.bytes + c->pipe;
	if (m->drained_at == 0) {
		if (tcpl_pipe(c) > floor_cwnd(c))
			return;
		m->drained_at = now;
		m->probe_round = false;
		m->round_end = c->dlv.bytes;
		return;
	}
	m->probe_round |= round;
	if (!m->probe_round || now - m->drained_at < PROBE_RTT_NS)
		return;
	m->min_rtt_at = now;
	c->cwnd = rn_max_u32(c->cwnd, m->prior_cwnd);
	if (full(m))
		to_probe_bw(c, now);
	else
		m->state = STARTUP;
}

/* 4.1.2 and 4.3.5: the least RTT of the last ten seconds. A pause of the owner lets the path run empty anyway. */
static void update_rtt(struct tcpl_conn *c, uint64_t now, const struct tcpl_rate *r, bool round)
{
	struct tcpl_bbr_model *m = &c->bbr;
	bool old = m->min_rtt != RN_NEVER && now - m->min_rtt_at > MIN_RTT_NS;

	if (r->rtt != RN_NEVER && (r->rtt <= m->min_rtt || old)) {
		m->min_rtt = rn_max_u64(r->rtt, 1);
		m->min_rtt_at = now;
	}
	if (old && !c->dlv.restart && m->state != PROBE_RTT) {
		save_cwnd(c);
		m->state = PROBE_RTT;
		m->drained_at = 0;
	}
	if (m->state == PROBE_RTT)
		probe_rtt(c, now, round);
}

/*
 * 4.2.3.4: in the first round trip after a loss only as many bytes leave as are delivered; then the model sets cwnd
 * again. After a timeout cwnd begins with the engine's value. When recovery ends cwnd is at least what it was before.
 */
static void check_recovery(struct tcpl_conn *c, const struct tcpl_rate *r)
{
	struct tcpl_bbr_model *m = &c->bbr;
	bool in = c->recovery != TCPL_R_OPEN;

	if (in && !m->recovering) {
		m->conserve = c->recovery == TCPL_R_RECOVERY;
		m->round_end = c->dlv.bytes;
		if (m->conserve)
			c->cwnd = tcpl_pipe(c) + rn_max_u32(r->bytes, c->mss);
	} else if (!in && m->recovering) {
		m->conserve = false;
		c->cwnd = rn_max_u32(c->cwnd, m->prior_cwnd);
	}
	m->recovering = in;
}

/* 4.2.3.3 to 4.2.3.6 */
static void set_cwnd(struct tcpl_conn *c, const struct tcpl_rate *r)
{
	struct tcpl_bbr_model *m = &c->bbr;
	uint32_t gain = m->state == STARTUP || m->state == DRAIN ? GAIN_HIGH : 2 * UNIT;
	uint32_t want = inflight(c, gain), cwnd = c->cwnd;

	cwnd = cwnd > r->lost + c->mss ? cwnd - r->lost : c->mss;
	if (m->conserve) {
		cwnd = rn_max_u32(cwnd, tcpl_pipe(c) + r->bytes);
	} else {
		if (full(m))
			cwnd = rn_min_u32(cwnd + r->bytes, want);
		else if (cwnd < want || c->dlv.bytes < (uint32_t)c->cfg->init_cwnd * c->mss)
			cwnd += r->bytes;
		cwnd = rn_max_u32(cwnd, floor_cwnd(c));
	}
	if (m->state == PROBE_RTT)
		cwnd = rn_min_u32(cwnd, floor_cwnd(c));
	c->cwnd = rn_min_u32(cwnd, rn_max_u32(c->cfg->cwnd_max, floor_cwnd(c)));
}

/*
 * 4.2.1: until STARTUP has filled the path the pace only rises: an owner that begins with little data must not lower
 * it.
 */
static void set_pace(struct tcpl_conn *c)
{
	const struct tcpl_bbr_model *m = &c->bbr;
	uint64_t rate = bw_of(m) * pacing_gain(m) / UNIT;

	if (bw_of(m) == 0)
		return;
	if (full(m) || c->pace_cost == 0 || rate > (RN_NS_PER_S << TCPL_PACE_SHIFT) / c->pace_cost)
		tcpl_pace_set(c, rate);
}

static void bbr_measured(struct tcpl_conn *c, uint64_t now, const struct tcpl_rate *r)
{
	bool round = round_over(c, r);

	check_recovery(c, r);
	update_bw(&c->bbr, r);
	if (c->bbr.state == PROBE_BW)
		next_phase(c, now, r);
	check_full(c, now, r, round);
	update_rtt(c, now, r, round);
	set_pace(c);
	set_cwnd(c, r);
}

/* A loss: cwnd comes back to this after recovery. */
static uint32_t bbr_ssthresh(struct tcpl_conn *c, uint64_t now)
{
	(void)now;
	save_cwnd(c);
	return c->bbr.prior_cwnd;
}

/* Not called: `measured` has taken its place. */
static void bbr_acked(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	(void)c;
	(void)now;
	(void)bytes;
}

const struct tcpl_cc tcpl_bbr = {
	.name = "bbr", .init = bbr_init, .acked = bbr_acked, .ssthresh = bbr_ssthresh, .measured = bbr_measured
};
