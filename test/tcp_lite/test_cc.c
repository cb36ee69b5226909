/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control by the figures of its RFCs, fed with ACKs of a window per round trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tcp_lite/tcpl_int.h"

#define MSS 1000u

static struct tcpl_cfg cfg;
static uint64_t now;

static struct tcpl_conn conn(const struct tcpl_cc *cc, uint32_t cwnd, uint64_t rtt)
{
	struct tcpl_conn c = { .cfg = &cfg, .mss = MSS, .cwnd = cwnd, .ssthresh = UINT32_MAX, .srtt = rtt };

	tcpl_cfg_default(&cfg, MSS);
	cfg.cc = cc;
	now = 50 * RN_NS_PER_S;
	c.snd_una = 0xfffff000u;
	c.snd_nxt = c.snd_una + cwnd;
	cc->init(&c);
	return c;
}

/* ACKs of two segments each, a window of them in an RTT. */
static void rounds(struct tcpl_conn *c, uint32_t n)
{
	while (n-- > 0) {
		uint32_t window = c->cwnd;
		for (uint32_t done = 0; done < window; done += 2 * MSS) {
			now += c->srtt * 2 * MSS / window;
			cfg.cc->acked(c, now, 2 * MSS);
		}
	}
}

static void near(uint32_t got, double want, double part)
{
	if (got < want * (1 - part) || got > want * (1 + part))
		fail_msg("%u, expected about %.0f", got, want);
}

static void newreno_slow_start(void **state)
{
	struct tcpl_conn c = conn(&tcpl_newreno, 10 * MSS, RN_NS_PER_MS);

	(void)state;
	rounds(&c, 3);
	assert_int_equal(c.cwnd, 80 * MSS);
}

static void newreno_avoidance(void **state)
{
	struct tcpl_conn c = conn(&tcpl_newreno, 100 * MSS, RN_NS_PER_MS);

	(void)state;
	c.ssthresh = c.cwnd;
	rounds(&c, 10);
	near(c.cwnd, 110 * MSS, 0.01);
}

static void newreno_loss(void **state)
{
	struct tcpl_conn c = conn(&tcpl_newreno, 100 * MSS, RN_NS_PER_MS);

	(void)state;
	assert_int_equal(tcpl_newreno.ssthresh(&c, now), 50 * MSS);
	c.snd_nxt = c.snd_una + MSS; /* flight, not cwnd, counts; never below two segments */
	assert_int_equal(tcpl_newreno.ssthresh(&c, now), 2 * MSS);
}

/* W_max 1000 segments, RTT 100 ms: K = cbrt(300 / 0.4) = 9.09 s */
static void cubic_curve(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 1000 * MSS, 100 * RN_NS_PER_MS);

	(void)state;
	c.ssthresh = c.cwnd = tcpl_cubic.ssthresh(&c, now);
	assert_int_equal(c.cwnd, 700 * MSS);
	rounds(&c, 45); /* 4.5 s: W_max - 0.4 * 4.59^3 = 961 */
	near(c.cwnd, 961 * MSS, 0.02);
	rounds(&c, 46); /* K */
	near(c.cwnd, 1000 * MSS, 0.01);
	rounds(&c, 91); /* 2 K: as far above as it began below */
	near(c.cwnd, 1300 * MSS, 0.03);
}

/* On a LAN the cubic is slower than Reno, so Reno's estimate rules (RFC 9438, 4.3). */
static void cubic_friendly(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 100 * MSS, 100 * RN_NS_PER_US);

	(void)state;
	c.ssthresh = c.cwnd = tcpl_cubic.ssthresh(&c, now);
	assert_int_equal(c.cwnd, 70 * MSS);
	rounds(&c, 40); /* 0.53 segments per round */
	near(c.cwnd, 91 * MSS, 0.02);
	rounds(&c, 17 + 20); /* to W_max, then one per round */
	near(c.cwnd, 120 * MSS, 0.03);
}

static void cubic_fast_convergence(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 100 * MSS, RN_NS_PER_MS);

	(void)state;
	c.cwnd = tcpl_cubic.ssthresh(&c, now);
	c.cwnd = tcpl_cubic.ssthresh(&c, now);
	assert_int_equal(c.cwnd, 49 * MSS);
	assert_int_equal(c.cc[0], 70 * MSS * 17 / 20); /* a smaller W_max: room for others (4.7) */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newreno_slow_start), cmocka_unit_test(newreno_avoidance),
		cmocka_unit_test(newreno_loss),
		cmocka_unit_test(cubic_curve),        cmocka_unit_test(cubic_friendly),
		cmocka_unit_test(cubic_fast_convergence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
