/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two engines over bad links. Without arguments: a fixed set of seeds. With a seed: that run, with a trace of every
 * segment (`test_sim SEED [clean|hostile|abort|hole|drop]`). With a count behind the kind: this number of seeds,
 * without traces; failed seeds are printed.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

static void make(struct sim_profile *p, uint64_t seed, const char *kind)
{
	sim_profile_from_seed(p, seed);
	if (strcmp(kind, "hostile") == 0) {
		p->hostile = true;
		p->link[0].flip = p->link[1].flip = 20000;
		for (int w = 0; w < 2; w++) {
			p->cfg[w].retries = 6;
			p->cfg[w].fin_wait_ns = RN_NS_PER_S;
			p->cfg[w].keep_idle_ns = RN_NS_PER_S;
		}
	} else if (strcmp(kind, "abort") == 0) {
		p->abort_at = (int)(seed & 1);
	} else if (strcmp(kind, "hole") == 0) {
		p->link[0].mtu = 1452; /* the MTU of PPPoE */
		p->link[1].mtu = seed % 3 == 0 ? 1452 : 1240;
		p->link[1].tells = seed % 2 == 0 ? 500000 : 0;
	} else if (strcmp(kind, "drop") == 0) {
		p->cfg[0].ahead = TCPL_AHEAD_DROP;
		p->cfg[1].ahead = seed % 3 == 0 ? TCPL_AHEAD_PLACE : TCPL_AHEAD_DROP;
	}
}

static void run(uint64_t first, uint64_t count, const char *kind)
{
	static struct sim_profile p;
	struct sim_result r;

	for (uint64_t seed = first; seed < first + count; seed++) {
		make(&p, seed, kind);
		sim_run(&p, seed, false, &r);
		if (!r.ok)
			fail_msg("seed %" PRIu64 " (%s): %s", seed, kind, r.why);
	}
}

/* cmocka's state of the case is the first seed. */
static void seeds(void **state) { run((uintptr_t)*state, 100, "clean"); }

static void hostile(void **state)
{
	(void)state;
	run(3000, 200, "hostile");
}
static void black_holes(void **state)
{
	(void)state;
	run(5000, 200, "hole");
}
static void what_is_ahead_of_a_hole_is_dropped(void **state)
{
	(void)state;
	run(6000, 200, "drop");
}
static void aborted(void **state)
{
	(void)state;
	run(4000, 100, "abort");
}

/* 10 Gb/s, 10 us each way, 50 MB one way. Time is simulated, so the figures are exact. */
static void lan_from(uint32_t iss, uint32_t loss, uint32_t reorder, const struct tcpl_cc *cc, struct sim_result *r,
		     double *gbps)
{
	static struct sim_profile p;

	memset(&p, 0, sizeof(p));
	for (int w = 0; w < 2; w++) {
		tcpl_cfg_default(&p.cfg[w], 1460);
		p.cfg[w].cc = cc;
		p.link[w] = (struct sim_link){ .loss = loss,
					       .reorder = reorder,
					       .delay_ns = 10000,
					       .reorder_ns = 30000,
					       .ns_per_kb = 819,
					       .queue = 400 };
		p.chunk_max[w] = 1448;
		p.iss[w] = iss;
		p.use_budget[w] = true;
	}
	p.bytes[0] = 50u << 20;
	p.abort_at = -1;
	p.hold_n = SIM_HOLD;
	p.rec_n = SIM_RECS;
	p.chunk_n = SIM_CHUNKS;
	p.turn_ns = 1000;
	sim_run(&p, 1, false, r);
	if (!r->ok)
		fail_msg("%s", r->why);
	*gbps = (double)p.bytes[0] * 8 / (double)(r->end_ns - RN_NS_PER_S - p.cfg[0].time_wait_ns);
	print_message("# loss %u ppm, reorder %u ppm, %s: %.2f Gb/s, %u retransmissions, %u timeouts\n", loss, reorder,
		      cc->name, *gbps, r->stats[0].rexmits, r->stats[0].rtos);
}

static void lan(uint32_t loss, uint32_t reorder, const struct tcpl_cc *cc, struct sim_result *r, double *gbps)
{
	lan_from(0u - 5000, loss, reorder, cc, r, gbps);
}

static void lan_clean(void **state)
{
	struct sim_result r;
	double gbps;

	(void)state;
	lan(0, 0, &tcpl_cubic, &r, &gbps);
	assert_int_equal(r.stats[0].rexmits, 0);
	assert_true(gbps > 9.3); /* 1448 bytes of payload in frames of 1514 */
	assert_true(r.stats[1].fast_in > r.stats[1].segs_in * 9 / 10);
}

static void lan_clean_bbr(void **state)
{
	struct sim_result r;
	double gbps;

	(void)state;
	lan(0, 0, &tcpl_bbr, &r, &gbps);
	assert_int_equal(r.stats[0].rexmits, 0);
	assert_true(gbps > 9);
}

/* BBR, which has a model of the path, does not take a random loss for congestion. */
static void lan_loss_bbr(void **state)
{
	struct sim_result r;
	double gbps;

	(void)state;
	lan(1000, 0, &tcpl_bbr, &r, &gbps);
	assert_true(gbps > 9);
	lan(10000, 0, &tcpl_bbr, &r, &gbps);
	assert_true(gbps > 7); /* a tail that is lost twice waits for the retransmission timer */
	lan(0, 50000, &tcpl_bbr, &r, &gbps);
	assert_true(gbps > 8);
}

/* Losses are repaired without the retransmission timer (RFC 8985). */
static void lan_loss(void **state)
{
	const struct tcpl_cc *cc[] = { &tcpl_newreno, &tcpl_cubic };
	struct sim_result r;
	double gbps;

	(void)state;
	for (int i = 0; i < 2; i++) {
		lan(1000, 0, cc[i], &r, &gbps);
		assert_int_equal(r.stats[0].rtos, 0);
		assert_true(gbps > 8);
		lan(10000, 0, cc[i], &r, &gbps);
		assert_int_equal(r.stats[0].rtos, 0);
		assert_true(gbps > 3);
		lan(0, 50000, cc[i], &r, &gbps);
		assert_int_equal(r.stats[0].rtos, 0);
		assert_true(gbps > 3);
	}
}

/* The reordering window adapts to the path (RFC 8985, 6.2), whatever the sequence numbers are. */
static void no_iss_is_slow_where_segments_overtake_each_other(void **state)
{
	static const uint32_t iss[] = { 1, 0x7ff00000, 0x80000000, 0xc0000000, 0u - 5000 };
	struct sim_result r;
	double gbps, least = 1e9, most = 0;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(iss); i++) {
		lan_from(iss[i], 0, 50000, &tcpl_cubic, &r, &gbps);
		least = gbps < least ? gbps : least;
		most = gbps > most ? gbps : most;
	}
	assert_true(least > 0.9 * most);
}

static int replay(uint64_t seed, const char *kind)
{
	static struct sim_profile p;
	struct sim_result r;

	make(&p, seed, kind);
	sim_run(&p, seed, true, &r);
	printf("seed %" PRIu64 ": %s%s; %.3f ms, %u segments, %u events\n", seed, r.ok ? "ok" : "FAILED: ", r.why,
	       (double)r.end_ns / 1e6, r.segments, r.events);
	for (int w = 0; w < 2; w++)
		printf("%c: got %" PRIu64 " rexmits %u recoveries %u rtos %u tlps %u lost again %u spurious %u "
		       "fast %u/%u\n",
		       'A' + w, r.delivered[w], r.stats[w].rexmits, r.stats[w].recoveries, r.stats[w].rtos,
		       r.stats[w].tlps, r.stats[w].lost_rexmits, r.stats[w].spurious, r.stats[w].fast_in,
		       r.stats[w].segs_in);
	return !r.ok;
}

static int soak(uint64_t first, uint64_t count, const char *kind)
{
	static struct sim_profile p;
	struct sim_result r;
	int bad = 0;

	for (uint64_t seed = first; seed < first + count; seed++) {
		make(&p, seed, kind);
		sim_run(&p, seed, false, &r);
		if (!r.ok) {
			printf("seed %" PRIu64 " (%s): %s\n", seed, kind, r.why);
			bad++;
		}
	}
	printf("%" PRIu64 " seeds, %d failed\n", count, bad);
	return bad != 0;
}

#define SEEDS(n) \
	{ \
		"seeds_" #n, seeds, NULL, NULL, (void *)(uintptr_t)(n) \
	}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		SEEDS(1000),
		SEEDS(1100),
		SEEDS(1200),
		SEEDS(1300),
		SEEDS(1400),
		SEEDS(1500),
		SEEDS(1600),
		SEEDS(1700),
		SEEDS(1800),
		SEEDS(1900),
		SEEDS(2000),
		SEEDS(2100),
		cmocka_unit_test(hostile),
		cmocka_unit_test(what_is_ahead_of_a_hole_is_dropped),
		cmocka_unit_test(aborted),
		cmocka_unit_test(black_holes),
		cmocka_unit_test(lan_clean),
		cmocka_unit_test(lan_loss),
		cmocka_unit_test(lan_clean_bbr),
		cmocka_unit_test(lan_loss_bbr),
		cmocka_unit_test(no_iss_is_slow_where_segments_overtake_each_other),
	};

	if (argc > 3)
		return soak(strtoull(argv[1], NULL, 0), strtoull(argv[3], NULL, 0), argv[2]);
	if (argc > 1)
		return replay(strtoull(argv[1], NULL, 0), argc > 2 ? argv[2] : "clean");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
