/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUBIC (RFC 9438), beta 0.7, C 0.4. Bytes and milliseconds in integers; the cubic is looked up eight times per window,
 * so that an ACK costs additions only.
 */
#include "tcpl_int.h"

enum {
	W_MAX,  /* bytes: window at the last reduction */
	EPOCH,  /* ns: start of this congestion avoidance; 0: not begun */
	K,      /* ms from EPOCH until the cubic is back at ORIGIN */
	ORIGIN, /* bytes */
	W_EST,  /* low 32 bits: Reno's estimate; high 32 bits: its byte count */
	COUNT,  /* bytes acknowledged since the last look */
};

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
	for (uint32_t i = 0; i < RN_ARRAY_LEN(c->cc); i++)
		c->cc[i] = 0;
}

static void begin_epoch(struct tcpl_conn *c, uint64_t now)
{
	c->cc[EPOCH] = now;
	c->cc[COUNT] = 0;
	c->cc[W_EST] = c->cwnd;
	c->cc[ORIGIN] = rn_max_u64(c->cc[W_MAX], c->cwnd);
	/* K = cbrt((W_max - cwnd) / C): segments to ms^3 is 10^9 / 0.4 */
	c->cc[K] = cube_root((c->cc[ORIGIN] - c->cwnd) / c->mss * UINT64_C(2500000000));
}

/* W_cubic(t + RTT), at most 1.5 cwnd (RFC 9438, 4.4) */
static uint32_t cubic_target(const struct tcpl_conn *c, uint64_t now)
{
	int64_t d = (int64_t)((now - c->cc[EPOCH] + c->srtt) / RN_NS_PER_MS) - (int64_t)c->cc[K];
	uint64_t a = rn_min_u64((uint64_t)(d < 0 ? -d : d), 1000000);
	uint64_t bytes = a * a * a / 2500000 * c->mss / 1000, origin = c->cc[ORIGIN];
	uint64_t w = d < 0 ? (origin > bytes ? origin - bytes : 0) : origin + bytes;

	return (uint32_t)rn_min_u64(w, c->cwnd + c->cwnd / 2);
}

/*
 * RFC 9438, 4.3: what Reno would have, growing 3(1-b)/(1+b) = 0.53 segments per window, and one once it is back where
 * the loss was.
 */
static uint32_t reno_estimate(struct tcpl_conn *c, uint32_t bytes)
{
	uint32_t est = (uint32_t)c->cc[W_EST], acc = (uint32_t)(c->cc[W_EST] >> 32);

	acc += est < c->cc[W_MAX] ? (uint32_t)((uint64_t)bytes * 17 >> 5) : bytes;
	if (acc >= c->cwnd) {
		acc -= c->cwnd;
		est += c->mss;
	}
	c->cc[W_EST] = (uint64_t)acc << 32 | est;
	return est;
}

static void cubic_acked(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	if (c->cwnd < c->ssthresh) {
		c->cwnd += bytes;
		return;
	}
	if (c->cc[EPOCH] == 0)
		begin_epoch(c, now);
	uint32_t est = reno_estimate(c, bytes);
	c->cc[COUNT] += bytes;
	if (c->cc[COUNT] >= c->cwnd >> 3) {
		uint32_t target = cubic_target(c, now);
		c->cc[COUNT] = 0;
		if (target > c->cwnd)
			c->cwnd += (target - c->cwnd) >> 3;
	}
	c->cwnd = rn_max_u32(c->cwnd, est);
}

static uint32_t cubic_ssthresh(struct tcpl_conn *c, uint64_t now)
{
	(void)now;
	/* fast convergence (RFC 9438, 4.7) */
	c->cc[W_MAX] = c->cwnd < c->cc[W_MAX] ? (uint64_t)c->cwnd * 17 / 20 : c->cwnd;
	c->cc[EPOCH] = 0;
	return rn_max_u32((uint32_t)((uint64_t)c->cwnd * 7 / 10), 2u * c->mss);
}

const struct tcpl_cc tcpl_cubic = { "cubic", cubic_init, cubic_acked, cubic_ssthresh, NULL };
