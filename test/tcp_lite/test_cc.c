/* SPDX-License-Identifier: BSD-3-Clause */
/* Congestion control, compared with figures from its RFCs. Input: the ACKs of one window in each round trip. */
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

/* n round trips: in each the ACKs of a window, one for every two segments. */
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
	c.snd_nxt = c.snd_una + MSS; /* the bytes in flight count, not cwnd; at least two segments */
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
	rounds(&c, 91); /* at 2 K cwnd is as far above W_max as it began below */
	near(c.cwnd, 1300 * MSS, 0.03);
}

/* On a LAN the cubic function grows slower than Reno, so Reno's estimate applies (RFC 9438, 4.3). */
static void cubic_friendly(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 100 * MSS, 100 * RN_NS_PER_US);

	(void)state;
	c.ssthresh = c.cwnd = tcpl_cubic.ssthresh(&c, now);
	assert_int_equal(c.cwnd, 70 * MSS);
	rounds(&c, 40); /* 0.53 segments in each round */
	near(c.cwnd, 91 * MSS, 0.02);
	rounds(&c, 17 + 20); /* up to W_max, then one segment in each round */
	near(c.cwnd, 120 * MSS, 0.03);
}

static void cubic_fast_convergence(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 100 * MSS, RN_NS_PER_MS);

	(void)state;
	c.cwnd = tcpl_cubic.ssthresh(&c, now);
	c.cwnd = tcpl_cubic.ssthresh(&c, now);
	assert_int_equal(c.cwnd, 49 * MSS);
	/* a smaller W_max, which leaves room for other flows (4.7) */
	assert_int_equal(c.cubic.now.w_max, 70 * MSS * 17 / 20);
}

/* Time in which cwnd was not used does not move the cubic function on (RFC 9438, 5.8). */
static void cubic_idle_time_is_not_credited(void **state)
{
	struct tcpl_conn a = conn(&tcpl_cubic, 1000 * MSS, 100 * RN_NS_PER_MS), b;

	(void)state;
	a.ssthresh = a.cwnd = tcpl_cubic.ssthresh(&a, now);
	rounds(&a, 10);
	b = a;
	uint64_t at = now;
	rounds(&a, 30);
	now = at + 60 * RN_NS_PER_S;
	rounds(&b, 30);
	near(b.cwnd, a.cwnd, 0.005);
}

/* After a spurious loss the function continues where it was, fast convergence included (RFC 9438, 4.9). */
static void cubic_undo_is_not_half_of_it(void **state)
{
	struct tcpl_conn a = conn(&tcpl_cubic, 1000 * MSS, 100 * RN_NS_PER_MS), b;

	(void)state;
	a.ssthresh = a.cwnd = tcpl_cubic.ssthresh(&a, now);
	rounds(&a, 20);
	b = a;
	b.ssthresh = b.cwnd = tcpl_cubic.ssthresh(&b, now);
	rounds(&b, 1);
	tcpl_cubic.undo(&b);
	assert_memory_equal(&a.cubic.now, &b.cubic.now, sizeof(a.cubic.now));
}

/* HyStart++ (RFC 9406, 4.2): a round trip of slow start with a given RTT. */
static void slow_round(struct tcpl_conn *c, uint64_t rtt)
{
	uint32_t window = c->cwnd;

	c->rounds++;
	c->rtt = rtt;
	for (uint32_t done = 0; done < window; done += 2 * MSS) {
		now += rtt * 2 * MSS / window;
		cfg.cc->acked(c, now, 2 * MSS);
	}
}

static void hystart_ends_slow_start_at_a_queue(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 20 * MSS, 40 * RN_NS_PER_MS);

	(void)state;
	slow_round(&c, 40 * RN_NS_PER_MS);
	slow_round(&c, 43 * RN_NS_PER_MS); /* the RTT has grown by less than RTT / 8 */
	assert_int_equal(c.cwnd, 80 * MSS);
	slow_round(&c, 49 * RN_NS_PER_MS);
	/* from the eighth sample on cwnd grows at a quarter of the rate */
	assert_in_range(c.cwnd, 100 * MSS, 130 * MSS);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(c.ssthresh, UINT32_MAX);
		slow_round(&c, 50 * RN_NS_PER_MS);
	}
	assert_true(c.ssthresh < UINT32_MAX);
	assert_true(c.cwnd < 400 * MSS);
}

static void hystart_goes_on_when_the_queue_was_none(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 20 * MSS, 40 * RN_NS_PER_MS);

	(void)state;
	slow_round(&c, 40 * RN_NS_PER_MS);
	slow_round(&c, 49 * RN_NS_PER_MS);
	slow_round(&c, 40 * RN_NS_PER_MS);
	uint32_t cwnd = c.cwnd;
	slow_round(&c, 40 * RN_NS_PER_MS);
	assert_int_equal(c.cwnd, 2 * cwnd);
	assert_int_equal(c.ssthresh, UINT32_MAX);
}

/* A queue of less than 4 ms is the burst of a LAN, and does not end slow start. */
static void hystart_leaves_a_lan_alone(void **state)
{
	struct tcpl_conn c = conn(&tcpl_cubic, 20 * MSS, 20 * RN_NS_PER_US);

	(void)state;
	for (uint64_t rtt = 20; rtt < 2000; rtt *= 2)
		slow_round(&c, rtt * RN_NS_PER_US);
	assert_int_equal(c.cwnd, 20 * 128 * MSS);
}

/* ---- BBR: a path of 100 MB/s and 1 ms, its product is 100 segments ---- */

#define BBR_RATE UINT64_C(100000000)
#define BBR_RTT  RN_NS_PER_MS
#define BBR_BDP  (100 * MSS)

static struct tcpl_conn bbr_conn(void)
{
	struct tcpl_conn c = conn(&tcpl_bbr, 10 * MSS, BBR_RTT);

	c.min_rtt = BBR_RTT;
	c.dlv.bytes = 0u - 50 * MSS; /* sequence numbers wrap in the test */
	c.bbr.round_end = c.dlv.bytes;
	return c;
}

/* A round trip that delivers a window, as fast as cwnd and the path allow. */
static struct tcpl_rate bbr_round(struct tcpl_conn *c, uint64_t path, uint32_t lost)
{
	uint32_t n = rn_min_u32(c->cwnd, (uint32_t)(path * 2 / 1000));
	uint64_t rate = rn_min_u64((uint64_t)n * 1000, path);
	struct tcpl_rate r = {
		.rate = rate, .rtt = BBR_RTT, .bytes = n, .lost = lost, .flight = n, .prior = c->dlv.bytes, .any = true
	};

	now += BBR_RTT + BBR_RTT / 100;
	c->dlv.bytes += n;
	c->pipe = (uint32_t)(path / 1000);
	tcpl_bbr.measured(c, now, &r);
	return r;
}

static uint64_t pace(const struct tcpl_conn *c) { return (RN_NS_PER_S << TCPL_PACE_SHIFT) / c->pace_cost; }

static void bbr_finds_the_path(void **state)
{
	struct tcpl_conn c = bbr_conn();
	uint64_t least = UINT64_MAX, most = 0;

	(void)state;
	bbr_round(&c, BBR_RATE, 0);
	assert_int_equal(c.cwnd, 20 * MSS); /* cwnd has doubled */
	near((uint32_t)pace(&c), 10e6 * 2.885, 0.01);
	for (int i = 0; i < 12; i++)
		bbr_round(&c, BBR_RATE, 0);
	for (int i = 0; i < 16; i++) { /* two cycles */
		bbr_round(&c, BBR_RATE, 0);
		least = rn_min_u64(least, pace(&c));
		most = rn_max_u64(most, pace(&c));
	}
	near((uint32_t)least, 75e6, 0.01);
	near((uint32_t)most, 125e6, 0.01);
	near(c.cwnd, 2 * BBR_BDP + 3 * tcpl_pace_quantum(&c), 0.1);
}

/* Random losses do not change the model of the path, nor, once they are repaired, the window. */
static void bbr_loss(void **state)
{
	struct tcpl_conn c = bbr_conn();

	(void)state;
	for (int i = 0; i < 20; i++)
		bbr_round(&c, BBR_RATE, 0);
	uint32_t cwnd = c.cwnd;
	for (int i = 0; i < 40; i++) {
		c.ssthresh = c.cwnd = tcpl_bbr.ssthresh(&c, now); /* does what tcpl_enter_recovery() does */
		assert_true(c.cwnd >= cwnd * 9 / 10);
		c.recovery = TCPL_R_RECOVERY;
		bbr_round(&c, BBR_RATE, MSS);
		bbr_round(&c, BBR_RATE, 0);
		c.recovery = TCPL_R_OPEN;
		c.cwnd = c.ssthresh;
		bbr_round(&c, BBR_RATE, 0);
		assert_true(c.bbr.bw[0] == BBR_RATE || c.bbr.bw[1] == BBR_RATE);
	}
	near(c.cwnd, cwnd, 0.02);
}

/*
 * A slower path counts after the windows of the filter have passed. A sender with little data does not make the path
 * slower.
 */
static void bbr_slower(void **state)
{
	struct tcpl_conn c = bbr_conn();

	(void)state;
	for (int i = 0; i < 20; i++)
		bbr_round(&c, BBR_RATE, 0);
	for (int i = 0; i < 40; i++) {
		struct tcpl_rate r = { .rate = BBR_RATE / 50,
				       .rtt = BBR_RTT,
				       .bytes = 2 * MSS,
				       .flight = 2 * MSS,
				       .prior = c.dlv.bytes,
				       .any = true,
				       .limited = true };
		now += BBR_RTT;
		c.dlv.bytes += 2 * MSS;
		tcpl_bbr.measured(&c, now, &r);
	}
	assert_true(pace(&c) >= BBR_RATE * 74 / 100);
	for (int i = 0; i < 17; i++)
		bbr_round(&c, BBR_RATE / 2, 0);
	assert_true(pace(&c) <= BBR_RATE * 63 / 100);
}

/* Once in ten seconds the sender lets the path run empty for 200 ms, unless it has just been idle. */
static void bbr_probe_rtt(void **state)
{
	struct tcpl_conn c = bbr_conn();
	struct tcpl_rate r = { .rtt = 2 * BBR_RTT, .bytes = MSS, .flight = 4 * MSS, .any = true };

	(void)state;
	for (int i = 0; i < 20; i++)
		bbr_round(&c, BBR_RATE, 0);
	uint32_t cwnd = c.cwnd;
	now += 11 * RN_NS_PER_S;
	c.dlv.restart = true;
	bbr_round(&c, BBR_RATE, 0);
	assert_true(c.cwnd >= cwnd * 9 / 10);
	c.dlv.restart = false;
	now += 11 * RN_NS_PER_S;
	bbr_round(&c, BBR_RATE, 0);
	assert_int_equal(c.cwnd, 4 * MSS);
	c.pipe = 3 * MSS;
	uint64_t begun = now;
	while (c.cwnd == 4 * MSS) {
		assert_true(now - begun < RN_NS_PER_S);
		now += 2 * BBR_RTT;
		r.prior = c.dlv.bytes;
		c.dlv.bytes += r.bytes;
		tcpl_bbr.measured(&c, now, &r);
	}
	assert_true(now - begun >= 200 * RN_NS_PER_MS);
	assert_true(now - begun < 210 * RN_NS_PER_MS);
	assert_true(c.cwnd >= cwnd * 9 / 10);
	assert_int_equal(c.bbr.min_rtt, BBR_RTT); /* the first sample */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(newreno_slow_start),
		cmocka_unit_test(newreno_avoidance),
		cmocka_unit_test(newreno_loss),
		cmocka_unit_test(cubic_curve),
		cmocka_unit_test(cubic_friendly),
		cmocka_unit_test(cubic_fast_convergence),
		cmocka_unit_test(cubic_idle_time_is_not_credited),
		cmocka_unit_test(cubic_undo_is_not_half_of_it),
		cmocka_unit_test(hystart_ends_slow_start_at_a_queue),
		cmocka_unit_test(hystart_goes_on_when_the_queue_was_none),
		cmocka_unit_test(hystart_leaves_a_lan_alone),
		cmocka_unit_test(bbr_finds_the_path),
		cmocka_unit_test(bbr_loss),
		cmocka_unit_test(bbr_slower),
		cmocka_unit_test(bbr_probe_rtt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
