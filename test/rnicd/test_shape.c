/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plane/shape.h"

static void wire_bytes(void **state)
{
	(void)state;
	/* 1518 B with FCS, 8 B of preamble, 12 B of gap: 812,743 frames a second at 10 Gb/s */
	assert_int_equal(shape_wire_bytes(1514), 1538);
	assert_int_equal(shape_wire_bytes(14), 84);
	assert_int_equal(shape_wire_bytes(60), 84);
	assert_int_equal(shape_wire_bytes(61), 85);
}

static uint32_t admit(struct shape *s, uint64_t now, const uint32_t *len, uint32_t n, uint64_t *next)
{
	struct shape_ask a = { .now = now, .since = now, .len = len, .n = n };
	return shape_admit(s, &a, next);
}

/* The number of frames that the shaper admits in `ns`, if it is asked every `step` ns and a full burst always waits. */
static uint64_t run(uint64_t rate, uint32_t len, uint64_t ns, uint64_t step)
{
	uint64_t tat = 0, frames = 0, next;
	uint32_t lens[64];
	struct shape s;

	shape_init(&s, &tat, rate);
	for (uint32_t i = 0; i < 64; i++)
		lens[i] = len;
	for (uint64_t now = 1000000; now < 1000000 + ns; now += step) {
		uint32_t n;
		while ((n = admit(&s, now, lens, 64, &next)) != 0)
			frames += n;
		assert_true(next > now);
		assert_true(next <= now + SHAPE_SLACK_NS + 8 * 9042 * RN_NS_PER_S / rate);
	}
	return frames;
}

static void rate_is_the_lines(void **state)
{
	(void)state;
	static const struct {
		uint64_t rate;
		uint32_t len;
	} c[] = {
		{ 10000000000u, 1514 }, { 10000000000u, 9014 },  { 10000000000u, 60 }, { 1000000000u, 1514 },
		{ 25000000000u, 1514 }, { 100000000000u, 9014 }, { 100000000u, 1514 },
	};
	for (size_t i = 0; i < RN_ARRAY_LEN(c); i++) {
		for (uint64_t step = 1000; step <= 40000; step += 13000) {
			uint64_t want = c[i].rate / 8 / 10 / shape_wire_bytes(c[i].len); /* frames in 100 ms */
			uint64_t got = run(c[i].rate, c[i].len, RN_NS_PER_S / 10, step);
			uint64_t slack = SHAPE_SLACK_NS * (c[i].rate / 8) / RN_NS_PER_S / shape_wire_bytes(c[i].len) +
					 2;
			/* at least 99 % of the line rate; at most the line rate, plus the slack once, plus rounding */
			assert_in_range(got, want - want / 100, want + slack + want / 100);
		}
	}
}

static void unshaped_is_off(void **state)
{
	(void)state;
	uint64_t tat = 0;
	struct shape s;
	shape_init(&s, &tat, 0);
	assert_false(shape_on(&s));
	shape_init(&s, &tat, 1);
	assert_true(shape_on(&s));
}

/* Two workers of one port share the line. */
static void line_is_shared(void **state)
{
	(void)state;
	uint64_t tat = 0, next, frames = 0;
	struct shape a, b;
	uint32_t len[2] = { 1514, 1514 };
	shape_init(&a, &tat, 10000000000u);
	shape_init(&b, &tat, 10000000000u);
	for (uint64_t now = 1; now < RN_NS_PER_MS * 10; now += 500)
		frames += admit(&a, now, len, 2, &next) + admit(&b, now, len, 2, &next);
	assert_in_range(frames, 8100, 8250);
}

static void idle_gives_no_credit(void **state)
{
	(void)state;
	uint64_t tat = 0, next;
	struct shape s;
	uint32_t len[64], n, burst = 0;
	for (uint32_t i = 0; i < 64; i++)
		len[i] = 1514;
	shape_init(&s, &tat, 1000000000u);
	while ((n = admit(&s, 50 * RN_NS_PER_S, len, 64, &next)) != 0)
		burst += n;
	/* a frame takes 12.3 us: the frames that fit into the slack, and the one that crosses its end */
	assert_int_equal(burst, 5);
}

/* With a backlog, the line's time goes on while its worker is away: the worker may then send the missed frames, too. */
static void late_worker_catches_up(void **state)
{
	(void)state;
	uint64_t tat = 0, next, frames = 0;
	struct shape s;
	uint32_t len[64], n;
	for (uint32_t i = 0; i < 64; i++)
		len[i] = 1514;
	shape_init(&s, &tat, 10000000000u);
	for (uint64_t now = RN_NS_PER_S; now < RN_NS_PER_S + 10 * RN_NS_PER_MS; now += 400000) {
		struct shape_ask a = { .now = now, .since = RN_NS_PER_S, .len = len, .n = 64 };
		while ((n = shape_admit(&s, &a, &next)) != 0)
			frames += n;
	}
	assert_in_range(frames, 7700, 7900); /* the frames of 9.6 ms, plus those that fit into the slack */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire_bytes),           cmocka_unit_test(rate_is_the_lines),
		cmocka_unit_test(unshaped_is_off),      cmocka_unit_test(line_is_shared),
		cmocka_unit_test(idle_gives_no_credit), cmocka_unit_test(late_worker_catches_up),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
