/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flows of udpr.h of which one end, or both, are old: an old end knows neither UDPR_F_MUCH nor a window of more than
 * UDPR_WINDOW. The line loses and reorders, and a seed determines a run. test_udpr_sim.c does the same over a network
 * that also repeats and corrupts, with ends that are replaced by ends of another version.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "line.h"

#define PACKETS 20000u
#define SEEDS   20u

static const struct line_flow_cfg ends[] = {
	{ .tx = LINE_OLD, .rx = LINE_NEW, .packets = PACKETS },
	{ .tx = LINE_NEW, .rx = LINE_OLD, .packets = PACKETS },
	{ .tx = LINE_OLD, .rx = LINE_OLD, .packets = PACKETS },
	{ .tx = LINE_NEW, .rx = LINE_NEW, .packets = PACKETS },
};

static bool has_old(const struct line_flow_cfg *f) { return f->tx == LINE_OLD || f->rx == LINE_OLD; }

static void check(const struct line *l, uint32_t flow, const struct line_flow_cfg *f)
{
	struct line_seen seen;

	line_look(l, flow, &seen);
	assert_int_equal(seen.told, PACKETS);
	assert_int_equal(line_got(l, flow), PACKETS); /* each packet is delivered once */
	assert_int_equal(seen.twice + seen.untrue + seen.lost, 0);
	assert_int_equal(seen.misplaced, 0); /* the number tells the packet's place in the sender's order */
	assert_int_equal(seen.strange, 0);
	if (!has_old(f))
		return;
	assert_true(seen.widest <= UDPR_WINDOW);
	assert_int_equal(seen.far, 0); /* an old receiver drops nothing as beyond its window */
}

/* Simulates until all packets of n flows have their fate. */
static void run_out(struct line *l, uint32_t n)
{
	struct line_seen seen;

	for (uint32_t i = 0; i < n; i++)
		do {
			line_run(l, 20 * RN_NS_PER_MS);
			line_look(l, i, &seen);
		} while (seen.told + seen.lost < PACKETS);
}

static void a_flow_with_old_ends_delivers_each_packet_once(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++)
		for (uint32_t i = 0; i < RN_ARRAY_LEN(ends); i++) {
			const struct line_cfg c = { .gbps = 10,
						    .rtt_ns = RN_NS_PER_MS,
						    .quarters = 4,
						    .loss = seed % 4 * 3000,
						    .reorder = seed % 5 * 20000,
						    .seed = seed };
			struct line *l = line_new(&c);

			line_add(l, &ends[i]);
			run_out(l, 1);
			check(l, 0, &ends[i]);
			line_free(l);
		}
}

/* A host that speaks to old and new hosts, and is spoken to by them. */
static void flows_of_all_kinds_share_a_line(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const struct line_cfg c = { .gbps = 1,
					    .rtt_ns = RN_NS_PER_MS,
					    .quarters = 1 + seed % 8,
					    .loss = seed % 3 * 3000,
					    .reorder = seed % 5 * 20000,
					    .seed = seed };
		struct line *l = line_new(&c);

		for (uint32_t i = 0; i < RN_ARRAY_LEN(ends); i++)
			line_add(l, &ends[i]);
		run_out(l, RN_ARRAY_LEN(ends));
		for (uint32_t i = 0; i < RN_ARRAY_LEN(ends); i++)
			check(l, i, &ends[i]);
		line_free(l);
	}
}

/* What the line holds in a round trip is 813 packets: a flow with an old end has UDPR_WINDOW of them, without loss. */
static void an_old_end_bounds_the_window_and_two_new_ones_do_not(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(ends); i++) {
		const struct line_cfg c = { .gbps = 10, .rtt_ns = RN_NS_PER_MS, .quarters = 4, .seed = 5 };
		struct line *l = line_new(&c);
		struct line_flow_cfg f = ends[i];
		struct line_seen seen;

		f.packets = 0;
		line_add(l, &f);
		line_run(l, 200 * RN_NS_PER_MS);
		const uint64_t before = line_got(l, 0);
		line_run(l, 200 * RN_NS_PER_MS);
		const double use = (double)(line_got(l, 0) - before) * 100 / line_holds(l, 200 * RN_NS_PER_MS);
		line_look(l, 0, &seen);
		print_message("# %s sender, %s receiver: %u packets on the way at most, use %.1f %%\n",
			      f.tx == LINE_OLD ? "old" : "new", f.rx == LINE_OLD ? "old" : "new", seen.widest, use);
		if (has_old(&f)) {
			assert_int_equal(seen.widest, UDPR_WINDOW);
			assert_true(use > 0.95 * 100 * UDPR_WINDOW / line_holds(l, c.rtt_ns));
		} else {
			assert_true(seen.widest > 2 * UDPR_WINDOW && use > 95);
		}
		line_free(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flow_with_old_ends_delivers_each_packet_once),
		cmocka_unit_test(flows_of_all_kinds_share_a_line),
		cmocka_unit_test(an_old_end_bounds_the_window_and_two_new_ones_do_not),
	};

	return cmocka_run_group_tests_name("udpr_mixed", tests, NULL, NULL);
}
