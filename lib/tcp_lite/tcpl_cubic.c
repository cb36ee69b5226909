/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUBIC (RFC 9438), beta 0.7, C 0.4. Bytes and milliseconds in integers; the cubic is looked up eight times per window,
 * so that an ACK costs additions only. The first slow start ends by HyStart++ (RFC 9406) when the path's queue grows.
 */
#include "tcpl_int.h"

/* RFC 9406, 4.3 */
#define HY_THRESH_MIN (4 * RN_NS_PER_MS)
#define HY_THRESH_MAX (16 * RN_NS_PER_MS)
#define HY_DIVISOR    8u
#define HY_SAMPLES    8u
#define HY_CSS_GROWTH 4u
#define HY_CSS_ROUNDS 5u

static uint64_t cube_root(uint64_t x)
{
	uint64_t r = 0;
	for (int bit = 20; bit >= 0; bit--) {
		uint64_t t = r | UINT64_C(1) << bit;
		if (t * t * t <= x)
			r = t;
	}
	return r;
}

static void cubic_init(struct tcpl_conn *c)
{
	c->cubic = (struct tcpl_cubic_model){ .round_rtt = RN_NEVER, .last_rtt = RN_NEVER };
}

/* ---- slow start ---- */

static void next_round(struct tcpl_conn *c)
{
	struct tcpl_cubic_model *m = &c->cubic;

	m->round = c->rounds;
	m->last_rtt = m->round_rtt;
	m->round_rtt = RN_NEVER;
	m->samples = 0;
	if (m->base_rtt != 0 && ++m->css_rounds == HY_CSS_ROUNDS)
		c->ssthresh = c->cwnd;
}

/*
 * RFC 9406, 4.2. Only for the first slow start: later ones end at the known ssthresh. cwnd grows by all bytes of an ACK
 * (the RFC's L is infinite), since this engine acknowledges a whole burst at once.
 */
static void hystart(struct tcpl_conn *c, uint32_t bytes)
{
	struct tcpl_cubic_model *m = &c->cubic;

	if (m->round != c->rounds)
		next_round(c);
	m->round_rtt = rn_min_u64(m->round_rtt, c->rtt);
	if (m->samples < HY_SAMPLES)
		m->samples++;
	if (m->samples == HY_SAMPLES && m->base_rtt != 0) {
		if (m->round_rtt < m->base_rtt)
			m->base_rtt = 0;
	} else if (m->samples == HY_SAMPLES && m->last_rtt != RN_NEVER) {
		uint64_t more = rn_max_u64(HY_THRESH_MIN, rn_min_u64(m->last_rtt / HY_DIVISOR, HY_THRESH_MAX));
		if (m->round_rtt >= m->last_rtt + more) {
			m->base_rtt = m->round_rtt;
			m->css_rounds = 0;
		}
	}
	c->cwnd += m->base_rtt != 0 ? bytes / HY_CSS_GROWTH : bytes;
}

/* ---- congestion avoidance ---- */

static void begin_epoch(struct tcpl_conn *c, uint64_t now)
{
	struct tcpl_cubic_curve *q = &c->cubic.now;

	q->epoch = now;
	c->cubic.acked = 0;
	q->est = c->cwnd;
	q->est_acked = 0;
	q->origin = rn_max_u32(q->w_max, c->cwnd);
	/* K = cbrt((W_max - cwnd) / C): segments to ms^3 is 10^9 / 0.4 */
	q->k = (uint32_t)cube_root((q->origin - c->cwnd) / c->mss * UINT64_C(2500000000));
}

/* W_cubic(t + RTT), at most 1.5 cwnd (RFC 9438, 4.4) */
static uint32_t cubic_target(const struct tcpl_conn *c, uint64_t now)
{
	const struct tcpl_cubic_curve *q = &c->cubic.now;
	int64_t d = (int64_t)((now - q->epoch + c->srtt) / RN_NS_PER_MS) - (int64_t)q->k;
	uint64_t a = rn_min_u64((uint64_t)(d < 0 ? -d : d), 1000000);
	uint64_t bytes = a * a * a / 2500000 * c->mss / 1000, origin = q->origin;
	uint64_t w = d < 0 ? (origin > bytes ? origin - bytes : 0) : origin + bytes;

	return (uint32_t)rn_min_u64(w, c->cwnd + c->cwnd / 2);
}

/*
 * RFC 9438, 4.3: the window that Reno would have. The window grows by 3(1-b)/(1+b) = 0.53 segments per window, and by
 * one from w_max on.
 */
static uint32_t reno_estimate(struct tcpl_conn *c, uint32_t bytes)
{
	struct tcpl_cubic_curve *q = &c->cubic.now;

	q->est_acked += q->est < q->w_max ? (uint32_t)((uint64_t)bytes * 17 >> 5) : bytes;
	if (q->est_acked >= c->cwnd) {
		q->est_acked -= c->cwnd;
		q->est += c->mss;
	}
	return q->est;
}

/*
 * RFC 9438, 5.8: time in which the owner left cwnd unused is no time of the cubic. This is only called for a cwnd in
 * use, and then at least once in a round trip.
 */
static void skip_unused(struct tcpl_conn *c, uint64_t now)
{
	struct tcpl_cubic_model *m = &c->cubic;
	uint64_t gap = now - m->used_at;

	if (gap > 2 * c->srtt && m->now.epoch != 0)
		m->now.epoch = rn_min_u64(m->now.epoch + gap - c->srtt, now);
	m->used_at = now;
}

static void cubic_acked(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	struct tcpl_cubic_model *m = &c->cubic;

	skip_unused(c, now);
	if (c->ssthresh == UINT32_MAX) {
		hystart(c, bytes);
		return;
	}
	if (c->cwnd < c->ssthresh) {
		c->cwnd += bytes;
		return;
	}
	if (m->now.epoch == 0)
		begin_epoch(c, now);
	uint32_t est = reno_estimate(c, bytes);
	m->acked += bytes;
	if (m->acked >= c->cwnd >> 3) {
		uint32_t target = cubic_target(c, now);
		m->acked = 0;
		if (target > c->cwnd)
			c->cwnd += (target - c->cwnd) >> 3;
	}
	c->cwnd = rn_max_u32(c->cwnd, est);
}

static uint32_t cubic_ssthresh(struct tcpl_conn *c, uint64_t now)
{
	struct tcpl_cubic_model *m = &c->cubic;

	(void)now;
	m->before = m->now;
	/* fast convergence (RFC 9438, 4.7) */
	m->now.w_max = c->cwnd < m->now.w_max ? (uint32_t)((uint64_t)c->cwnd * 17 / 20) : c->cwnd;
	m->now.epoch = 0;
	return rn_max_u32((uint32_t)((uint64_t)c->cwnd * 7 / 10), 2u * c->mss);
}

/* RFC 9438, 4.9 */
static void cubic_undo(struct tcpl_conn *c) { c->cubic.now = c->cubic.before; }

const struct tcpl_cc tcpl_cubic = {
	.name = "cubic", .init = cubic_init, .acked = cubic_acked, .ssthresh = cubic_ssthresh, .undo = cubic_undo
};
