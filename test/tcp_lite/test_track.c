/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Simulated connections over several paths: what is retransmitted, and the cost of a path that differs, loses or dies.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sim.h"

#define MIB (UINT64_C(1) << 20)

/* each path: 10 Gb/s, 10 us each way */
static void lan(struct sim_profile *p, uint32_t paths, uint64_t bytes)
{
	memset(p, 0, sizeof(*p));
	for (int w = 0; w < 2; w++) {
		tcpl_cfg_default(&p->cfg[w], 1460);
		p->cfg[w].tracks = true;
		p->cfg[w].use_ts = false;
		p->link[w] = (struct sim_link){ .delay_ns = 10000, .ns_per_kb = 819, .queue = 4000 };
		p->chunk_max[w] = 1448;
		p->iss[w] = 0u - 5000;
	}
	p->bytes[0] = bytes;
	p->abort_at = -1;
	p->hold_n = SIM_HOLD;
	p->rec_n = SIM_RECS;
	p->chunk_n = SIM_CHUNKS;
	p->turn_ns = 20000; /* many segments in a turn: more than the blocks of an ACK can describe */
	p->paths = paths;
}

static void run(const struct sim_profile *p, uint64_t seed, struct sim_result *r)
{
	sim_run(p, seed, false, r);
	if (!r->ok)
		fail_msg("%u paths, seed %" PRIu64 ": %s", p->paths, seed, r->why);
}

static uint64_t took(const struct sim_profile *p, const struct sim_result *r)
{
	return r->end_ns - RN_NS_PER_S - p->cfg[0].time_wait_ns;
}

/* Both directions have data, so that ACKs carry data, too. */
static void a_difference_in_delay_alone_sends_nothing_again(void **state)
{
	static const uint64_t delay[] = { 0, 100 * RN_NS_PER_US, RN_NS_PER_MS, 30 * RN_NS_PER_MS };
	static const uint32_t paths[] = { 2, 4, 8 };
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	for (size_t n = 0; n < RN_ARRAY_LEN(paths); n++) {
		for (size_t d = 0; d < RN_ARRAY_LEN(delay); d++) {
			for (uint64_t seed = 0; seed < 8; seed++) {
				lan(&p, paths[n], 4 * MIB);
				p.bytes[1] = seed % 2 * MIB;
				for (uint32_t i = 0; i < paths[n]; i++)
					p.path_delay_ns[i] = delay[d] * i / (paths[n] - 1);
				run(&p, seed, &r);
				for (int w = 0; w < 2; w++)
					if (r.stats[w].rexmits != 0)
						fail_msg("%u paths, %" PRIu64 " ns apart, seed %" PRIu64
							 ": %u segments sent again, %u timeouts, %u probes",
							 paths[n], delay[d], seed, r.stats[w].rexmits, r.stats[w].rtos,
							 r.stats[w].tlps);
				for (uint32_t i = 0; i < paths[n]; i++)
					assert_true(r.of[i] > 100);
			}
		}
	}
}

/* One message at a time: no later segment reveals a loss. */
static void single_messages_over_unlike_paths_are_not_sent_again(void **state)
{
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	for (uint64_t seed = 0; seed < 8; seed++) {
		lan(&p, 2, 20000);
		p.chunk_max[0] = 100;
		p.cfg[0].init_cwnd = 1;
		p.cfg[0].cwnd_max = 1448;
		p.path_delay_ns[1] = 20 * RN_NS_PER_MS;
		run(&p, seed, &r);
		assert_int_equal(r.stats[0].rexmits, 0);
	}
}

/* Each path has losses of its own: few of them wait for a timeout, and few segments are retransmitted needlessly. */
static void what_a_path_has_lost_is_sent_again_and_not_much_more(void **state)
{
	static struct sim_profile p;
	struct sim_result r;
	uint32_t lost = 0, again = 0, rtos = 0;

	(void)state;
	for (uint64_t seed = 0; seed < 8; seed++) {
		lan(&p, 2, 8 * MIB);
		p.path_delay_ns[1] = RN_NS_PER_MS;
		p.path_loss[seed % 2] = 10000;
		run(&p, seed, &r);
		lost += r.lost[0];
		again += r.stats[0].rexmits;
		rtos += r.stats[0].rtos;
	}
	print_message("# %u lost, %u sent again, %u timeouts\n", lost, again, rtos);
	assert_true(lost > 100);
	assert_in_range(again, lost, lost + lost / 20);
	assert_true(rtos < lost / 10);
}

/* No message says that the path is dead. The segments on it are retransmitted by the other path after one timeout. */
static void a_path_that_dies_is_left_within_a_timeout(void **state)
{
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	for (uint64_t seed = 0; seed < 8; seed++) {
		lan(&p, 2, 16 * MIB);
		run(&p, seed, &r);
		const uint64_t whole = took(&p, &r);
		p.dies_at = RN_NS_PER_S + whole / 2;
		run(&p, seed, &r);
		assert_true(r.lost[0] > 0);
		print_message("# %u lost, %u timeouts, %u probes, %.1f of %.1f ms\n", r.lost[0], r.stats[0].rtos,
			      r.stats[0].tlps, (double)took(&p, &r) / 1e6, (double)whole / 1e6);
		/* the second half goes by one path; two timeouts, of the data and of the FIN */
		assert_in_range(took(&p, &r), whole, 2 * whole + 60 * RN_NS_PER_MS);
	}
}

static void a_dead_path_is_tried_again_once_in_a_while(void **state)
{
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	lan(&p, 2, 40 * MIB);
	p.link[0].ns_per_kb = p.link[1].ns_per_kb = 81900; /* 100 Mb/s: more than three seconds */
	p.dies_at = RN_NS_PER_S + 100 * RN_NS_PER_MS;
	run(&p, 1, &r);
	print_message("# %u lost, %u timeouts, %u probes\n", r.lost[0], r.stats[0].rtos, r.stats[0].tlps);
	assert_in_range(r.stats[0].rtos + r.stats[0].tlps, 2, 20);
}

/*
 * A receiver that drops what comes ahead of a hole. All data arrive although each path that is faster than another one
 * brings such segments; what was dropped is sent again, and little else.
 */
static void a_receiver_that_drops_gets_all_data_over_unlike_paths(void **state)
{
	static const uint64_t delay[] = { 100 * RN_NS_PER_US, RN_NS_PER_MS };
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	for (size_t n = 2; n <= 4; n += 2) {
		for (size_t d = 0; d < RN_ARRAY_LEN(delay); d++) {
			lan(&p, (uint32_t)n, MIB);
			p.cfg[1].ahead = TCPL_AHEAD_DROP;
			for (uint32_t i = 0; i < n; i++)
				p.path_delay_ns[i] = delay[d] * i / (n - 1);
			run(&p, 1, &r);
			print_message("# %zu paths, %" PRIu64 " us apart: %u dropped, %u sent again, %u timeouts, "
				      "%.1f ms\n",
				      n, delay[d] / RN_NS_PER_US, r.stats[1].ooo_drops, r.stats[0].rexmits,
				      r.stats[0].rtos, (double)took(&p, &r) / 1e6);
			assert_true(r.stats[1].ooo_drops > 0);
			assert_true(r.stats[0].rexmits >= r.stats[1].ooo_drops);
		}
	}
}

/* A peer without SACK: the owner is told that it must not spread segments over paths. */
static void without_sack_one_path_is_used(void **state)
{
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	lan(&p, 2, MIB);
	p.cfg[1].use_sack = false;
	p.path_delay_ns[1] = RN_NS_PER_MS;
	run(&p, 1, &r);
	assert_int_equal(r.stats[0].rexmits, 0);
	assert_int_equal(r.of[1], 0);
}

/* All impairments of a link, on unlike paths: all data arrive, and the invariants hold. */
static void seeds_over_several_paths(void **state)
{
	static struct sim_profile p;
	struct sim_result r;

	(void)state;
	for (uint64_t seed = 7000; seed < 7300; seed++) {
		sim_profile_from_seed(&p, seed);
		p.paths = 2 + (uint32_t)seed % 7;
		p.cfg[0].tracks = p.cfg[1].tracks = true;
		p.cfg[0].use_ts = p.cfg[1].use_ts = false;
		for (uint32_t i = 0; i < p.paths; i++) {
			p.path_delay_ns[i] = seed % 3 * i * 300 * RN_NS_PER_US;
			p.path_loss[i] = seed % 5 == 0 ? 10000 * i : 0;
		}
		if (seed % 4 == 0)
			p.dies_at = RN_NS_PER_S + 5 * RN_NS_PER_MS;
		run(&p, seed, &r);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_difference_in_delay_alone_sends_nothing_again),
		cmocka_unit_test(single_messages_over_unlike_paths_are_not_sent_again),
		cmocka_unit_test(what_a_path_has_lost_is_sent_again_and_not_much_more),
		cmocka_unit_test(a_path_that_dies_is_left_within_a_timeout),
		cmocka_unit_test(a_dead_path_is_tried_again_once_in_a_while),
		cmocka_unit_test(a_receiver_that_drops_gets_all_data_over_unlike_paths),
		cmocka_unit_test(without_sack_one_path_is_used),
		cmocka_unit_test(seeds_over_several_paths),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
