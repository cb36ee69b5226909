/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How flows of udpr.h share a line with each other and with TCP. Time is simulated, and the seed is constant, so the
 * figures are exact. "Use" is the part of the line's packets that reach their receivers; Jain's index is 1 when all
 * shares are equal, and 1/n when one of n flows has all (Jain, Chiu and Hawe, DEC TR-301, 1984).
 *
 * A queue that is longer than the flows' target delay (SHORT_NS) is where the control by delay works. A shorter one
 * overflows before it delays its packets that much: there the rule for losses acts, and the line is used less.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "line.h"

#define SHORT_NS (100 * RN_NS_PER_US) /* the target delay in line.c */

static const uint64_t rtts[] = { 100 * RN_NS_PER_US, RN_NS_PER_MS, 10 * RN_NS_PER_MS };
static const uint32_t rates[] = { 1, 10 },
		      queues[] = { 2, 4, 16 }; /* Gb/s; quarters of what the line carries in an rtt */
static const struct line_flow_cfg rd = { 0 };

struct split {
	double part[LINE_FLOWS], use, jain; /* parts in percent */
};

/* The flows' parts of the line in the next ns. */
static struct split split(struct line *l, uint32_t n, uint64_t ns)
{
	struct split s = { 0 };
	uint64_t before[LINE_FLOWS];
	double squares = 0;

	for (uint32_t i = 0; i < n; i++)
		before[i] = line_got(l, i);
	line_run(l, ns);
	for (uint32_t i = 0; i < n; i++) {
		s.part[i] = (double)(line_got(l, i) - before[i]) * 100 / line_holds(l, ns);
		s.use += s.part[i];
		squares += s.part[i] * s.part[i];
	}
	s.jain = s.use * s.use / n / squares;
	return s;
}

static void say(const char *what, const struct line_cfg *c, uint32_t n, const struct split *s)
{
	char parts[64];
	int len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += snprintf(parts + len, sizeof(parts) - (size_t)len, " %5.1f", s->part[i]);
	print_message("# %s: %2u Gb/s, %5lu us, queue %.1f BDP:%s %%, use %5.1f %%, Jain %.3f\n", what, c->gbps,
		      (unsigned long)(c->rtt_ns / RN_NS_PER_US), c->quarters / 4.0, parts, s->use, s->jain);
}

static struct line_cfg cfg_of(uint32_t rate, uint32_t rtt, uint32_t queue)
{
	return (struct line_cfg){ .gbps = rates[rate], .rtt_ns = rtts[rtt], .quarters = queues[queue], .seed = 5 };
}

/* How many packets the line carries in a round trip. */
static double packets_in_rtt(const struct line_cfg *c) { return (double)c->rtt_ns * c->gbps / (8 * LINE_FRAME); }

static uint64_t queue_ns(const struct line_cfg *c) { return c->rtt_ns * c->quarters / 4; }

/* Windows of UDPR_WIDE packets fill neither this queue nor a shorter one on the same line: the shortest will do. */
static bool like_a_shorter_queue(const struct line_cfg *c)
{
	return packets_in_rtt(c) > UDPR_WIDE && c->quarters > queues[0];
}

/* Calls f for each rate, round trip and queue. */
static void each_line(void (*f)(const struct line_cfg *c))
{
	for (uint32_t i = 0; i < RN_ARRAY_LEN(rates); i++)
		for (uint32_t k = 0; k < RN_ARRAY_LEN(rtts); k++)
			for (uint32_t q = 0; q < RN_ARRAY_LEN(queues); q++) {
				const struct line_cfg c = cfg_of(i, k, q);
				f(&c);
			}
}

/* ---- flows of udpr.h only ---- */

/* What a window of UDPR_WIDE packets, and a queue of a few packets, allow. */
static double least_use(const struct line_cfg *c)
{
	if (queue_ns(c) > SHORT_NS)
		return 95;
	return c->gbps == 1 ? (c->quarters < 4 ? 20 : 65) : (c->quarters < 4 ? 70 : 85);
}

static void one_flow_on(const struct line_cfg *c)
{
	if (like_a_shorter_queue(c))
		return;
	struct line *l = line_new(c);

	line_add(l, &rd);
	line_run(l, 200 * c->rtt_ns + RN_NS_PER_S / 5);
	const struct split s = split(l, 1, 200 * c->rtt_ns + RN_NS_PER_S / 5);
	say("one flow", c, 1, &s);
	if (packets_in_rtt(c) > UDPR_WIDE)
		assert_true(s.use > 0.95 * 100 * UDPR_WIDE / packets_in_rtt(c));
	else
		assert_true(s.use > least_use(c));
	line_free(l);
}

static void a_flow_alone_uses_the_line(void **state)
{
	(void)state;
	each_line(one_flow_on);
}

static void two_flows_on(const struct line_cfg *c)
{
	if (like_a_shorter_queue(c))
		return;
	struct line *l = line_new(c);

	line_add(l, &rd);
	line_add(l, &rd);
	line_run(l, 500 * c->rtt_ns + RN_NS_PER_S / 5);
	const struct split s = split(l, 2, 500 * c->rtt_ns + RN_NS_PER_S / 5);
	say("two flows", c, 2, &s);
	assert_true(s.jain >= 0.9);
	assert_true(s.use > least_use(c));
	line_free(l);
}

static void two_flows_that_begin_together_get_equal_parts(void **state)
{
	(void)state;
	each_line(two_flows_on);
}

/*
 * The later flow finds the queue of the earlier one, and takes it for a part of the path until a slowdown shows the
 * path as it is. Each of the 500 round trips is counted as the longest one that the target allows. In a short queue
 * losses decide, by chance, so the parts are those of a longer time.
 */
static void later_flow_on(const struct line_cfg *c)
{
	if (like_a_shorter_queue(c))
		return;
	struct line *l = line_new(c);
	const uint64_t rtt = c->rtt_ns + (queue_ns(c) < SHORT_NS ? queue_ns(c) : SHORT_NS);

	line_add(l, &rd);
	line_run(l, RN_NS_PER_S);
	line_add(l, &rd);
	line_run(l, 500 * rtt);
	const struct split s = split(l, 2, queue_ns(c) > SHORT_NS ? 200 * rtt : 2000 * rtt);
	say("later flow", c, 2, &s);
	assert_true(s.jain >= 0.9);
	assert_true(s.use > least_use(c));
	line_free(l);
}

static void a_later_flow_gets_its_part_in_500_round_trips(void **state)
{
	(void)state;
	each_line(later_flow_on);
}

/*
 * Each of four flows finds the queues of those before. A window grows by one packet a round trip, so equal windows of
 * thousands of packets would take thousands of round trips: such a line is left out.
 */
static void four_flows_on(const struct line_cfg *c)
{
	if (packets_in_rtt(c) > UDPR_WIDE)
		return;
	struct line *l = line_new(c);

	for (uint32_t i = 0; i < 4; i++) {
		line_add(l, &rd);
		line_run(l, 200 * c->rtt_ns);
	}
	line_run(l, 500 * c->rtt_ns);
	const struct split s = split(l, 4, 500 * c->rtt_ns + RN_NS_PER_S / 5);
	say("four flows", c, 4, &s);
	assert_true(s.jain >= (queue_ns(c) > SHORT_NS ? 0.9 : 0.8));
	assert_true(s.use > least_use(c));
	line_free(l);
}

static void four_flows_get_equal_parts(void **state)
{
	(void)state;
	each_line(four_flows_on);
}

/* The least round trip of the path is forgotten after 10 to 20 s. */
static void a_flow_comes_back_when_its_path_has_become_longer(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		const struct line_cfg c = cfg_of(0, k, 2);
		struct line *l = line_new(&c);

		line_add(l, &rd);
		line_run(l, RN_NS_PER_S);
		line_longer(l, RN_NS_PER_MS);
		line_run(l, 22 * RN_NS_PER_S);
		const struct split s = split(l, 1, RN_NS_PER_S);
		say("longer path", &c, 1, &s);
		assert_true(s.use > 90);
		line_free(l);
	}
}

/* ---- beside TCP ---- */

/*
 * A flow that is controlled by delay yields to TCP that fills the queue, in which the delay is above any target. That
 * is so by its nature (Swift, 2 and 5, has queues of its own in the switches; Budzisz and others, IEEE Communications
 * Letters 13(7), 2009, and RFC 6817 say the same of other controls by delay), so the floors are:
 * - TCP gets a tenth at least, whatever the queue; 13 % was seen.
 * - A flow gets 4 % at least where the queue is no longer than the target; 5.4 % was seen.
 * - Beside a longer queue a flow may get next to nothing, but never stops: it has its least window, which is one packet
 *   in 16 round trips. The test asks for half of that.
 */
static void beside(const struct line_cfg *c, const struct tcpl_cc *cc, bool first)
{
	const struct line_flow_cfg tcp = { .cc = cc };
	const uint64_t ns = (c->gbps == 1 ? 20 : 6) * RN_NS_PER_S / 10;
	struct line *l = line_new(c);
	char what[32];

	line_add(l, first ? &tcp : &rd);
	line_run(l, 50 * RN_NS_PER_MS + 20 * c->rtt_ns);
	line_add(l, first ? &rd : &tcp);
	line_run(l, ns);
	struct split s = split(l, 2, ns);
	const double flow = s.part[first], tcp_part = s.part[!first];
	snprintf(what, sizeof(what), first ? "%s, flow" : "flow, %s", cc->name);
	say(what, c, 2, &s);
	assert_true(tcp_part > 10);
	if (queue_ns(c) <= SHORT_NS)
		assert_true(flow > 4);
	assert_true(flow * line_holds(l, ns) / 100 > (double)(ns / (c->rtt_ns + queue_ns(c)) / 16) / 2);
	assert_true(s.use > (queue_ns(c) > SHORT_NS ? 90 : c->gbps == 1 ? (c->quarters < 4 ? 50 : 75) : 80));
	line_free(l);
}

static void beside_cubic(const struct line_cfg *c)
{
	beside(c, &tcpl_cubic, false);
	beside(c, &tcpl_cubic, true);
}

static void beside_bbr(const struct line_cfg *c)
{
	beside(c, &tcpl_bbr, false);
	beside(c, &tcpl_bbr, true);
}

static void beside_cubic_none_stops(void **state)
{
	(void)state;
	each_line(beside_cubic);
}

static void beside_bbr_none_stops(void **state)
{
	(void)state;
	each_line(beside_bbr);
}

/* A window grows by a sixteenth each round trip when nothing else is on the line. */
static void after_tcp_on(const struct line_cfg *c)
{
	const struct line_flow_cfg tcp = { .cc = &tcpl_cubic };

	if (packets_in_rtt(c) > UDPR_WIDE)
		return;
	struct line *l = line_new(c);
	line_add(l, &rd);
	line_run(l, RN_NS_PER_S / 10 + 50 * c->rtt_ns);
	line_add(l, &tcp);
	line_run(l, RN_NS_PER_S / 2 + 200 * c->rtt_ns);
	line_stop(l, 1);
	line_run(l, 300 * (c->rtt_ns + SHORT_NS));
	const struct split s = split(l, 1, 100 * (c->rtt_ns + SHORT_NS) + RN_NS_PER_S / 20);
	say("after TCP", c, 1, &s);
	assert_true(s.use > least_use(c) * 0.95);
	line_free(l);
}

static void a_flow_has_the_line_again_300_round_trips_after_tcp(void **state)
{
	(void)state;
	each_line(after_tcp_on);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flow_alone_uses_the_line),
		cmocka_unit_test(two_flows_that_begin_together_get_equal_parts),
		cmocka_unit_test(a_later_flow_gets_its_part_in_500_round_trips),
		cmocka_unit_test(four_flows_get_equal_parts),
		cmocka_unit_test(a_flow_comes_back_when_its_path_has_become_longer),
		cmocka_unit_test(beside_cubic_none_stops),
		cmocka_unit_test(beside_bbr_none_stops),
		cmocka_unit_test(a_flow_has_the_line_again_300_round_trips_after_tcp),
	};

	return cmocka_run_group_tests_name("udpr_fair", tests, NULL, NULL);
}
