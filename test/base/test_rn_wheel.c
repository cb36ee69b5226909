/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "base/rn_wheel.h"

#define TICK RN_WHEEL_TICK_NS

static struct rn_wheel w;

static void a_timer_fires_once_and_not_early(void **state)
{
	struct rn_timer t = { 0 };

	(void)state;
	rn_wheel_init(&w, 1000);
	assert_null(rn_wheel_pop(&w, 5000));
	rn_wheel_arm(&w, &t, 10 * TICK + 1);
	assert_true(rn_timer_armed(&t));
	assert_null(rn_wheel_pop(&w, 10 * TICK + 1));
	assert_null(rn_wheel_pop(&w, 11 * TICK - 1));
	assert_ptr_equal(rn_wheel_pop(&w, 11 * TICK), &t);
	assert_false(rn_timer_armed(&t));
	assert_null(rn_wheel_pop(&w, 100 * TICK));
	assert_true(rn_wheel_next(&w) == RN_NEVER);
}

static void the_past_means_the_next_tick(void **state)
{
	struct rn_timer t = { 0 };

	(void)state;
	rn_wheel_init(&w, 50 * TICK);
	rn_wheel_arm(&w, &t, 3);
	assert_null(rn_wheel_pop(&w, 51 * TICK - 1));
	assert_ptr_equal(rn_wheel_pop(&w, 51 * TICK), &t);
	/* After a jump of the clock a timer that is armed again for a past time is not popped twice in one turn. */
	rn_wheel_arm(&w, &t, 60 * TICK);
	assert_ptr_equal(rn_wheel_pop(&w, 5000 * TICK), &t);
	rn_wheel_arm(&w, &t, 61 * TICK);
	assert_null(rn_wheel_pop(&w, 5000 * TICK));
	assert_ptr_equal(rn_wheel_pop(&w, 5001 * TICK), &t);
}

static void disarm_takes_it_off(void **state)
{
	struct rn_timer t[3] = { 0 };

	(void)state;
	rn_wheel_init(&w, 0);
	rn_wheel_disarm(&w, &t[0]);
	for (uint32_t i = 0; i < 3; i++)
		rn_wheel_arm(&w, &t[i], 5 * TICK);
	rn_wheel_disarm(&w, &t[1]);
	rn_wheel_arm(&w, &t[2], RN_NEVER);
	assert_false(rn_timer_armed(&t[2]));
	assert_ptr_equal(rn_wheel_pop(&w, 5 * TICK), &t[0]);
	assert_null(rn_wheel_pop(&w, 5 * TICK));
	rn_wheel_arm(&w, &t[0], 7 * TICK);
	rn_wheel_disarm(&w, &t[0]);
	assert_true(rn_wheel_next(&w) == RN_NEVER);
}

/*
 * The handler of a due timer may still disarm other due timers that have not been popped yet, or move them to a later
 * time.
 */
static void expired_timers_may_be_moved(void **state)
{
	struct rn_timer t[4] = { 0 };
	struct rn_timer *first;
	uint32_t later, gone;

	(void)state;
	rn_wheel_init(&w, 0);
	for (uint32_t i = 0; i < 4; i++)
		rn_wheel_arm(&w, &t[i], 5 * TICK);
	first = rn_wheel_pop(&w, 5 * TICK);
	assert_non_null(first);
	later = (uint32_t)(first - t + 1) % 4;
	gone = (uint32_t)(first - t + 2) % 4;
	rn_wheel_arm(&w, &t[later], 9 * TICK);
	rn_wheel_disarm(&w, &t[gone]);
	assert_true(rn_wheel_next(&w) <= 5 * TICK);
	assert_ptr_equal(rn_wheel_pop(&w, 5 * TICK), &t[(first - t + 3) % 4]);
	assert_null(rn_wheel_pop(&w, 5 * TICK));
	assert_true(rn_wheel_next(&w) == 9 * TICK);
	assert_null(rn_wheel_pop(&w, 9 * TICK - 1));
	assert_ptr_equal(rn_wheel_pop(&w, 9 * TICK), &t[later]);
}

/*
 * Arming a timer again for a later time touches only that timer; arming it for an earlier time moves it in the wheel.
 */
static void rearming_later_is_lazy(void **state)
{
	struct rn_timer t = { 0 };
	struct rn_wheel before;

	(void)state;
	rn_wheel_init(&w, 0);
	rn_wheel_arm(&w, &t, 5 * TICK);
	before = w;
	rn_wheel_arm(&w, &t, 500 * TICK);
	assert_memory_equal(&before, &w, sizeof(w));
	assert_null(rn_wheel_pop(&w, 499 * TICK));
	rn_wheel_arm(&w, &t, 499 * TICK + 1);
	assert_ptr_equal(rn_wheel_pop(&w, 500 * TICK), &t);
	rn_wheel_arm(&w, &t, 900 * TICK);
	rn_wheel_arm(&w, &t, 600 * TICK);
	assert_ptr_equal(rn_wheel_pop(&w, 600 * TICK), &t);
}

static void a_jump_pops_in_the_order_of_ticks(void **state)
{
	struct rn_timer t[200] = { 0 };
	struct rn_timer *p;
	struct rn_rng r;
	uint64_t last = 0;
	uint32_t n = 0;

	(void)state;
	rn_rng_seed(&r, 3);
	rn_wheel_init(&w, 12345);
	for (uint32_t i = 0; i < 200; i++)
		rn_wheel_arm(&w, &t[i], (rn_rng_u64(&r) >> (rn_rng_u32(&r) % 50)) >> 1);
	while ((p = rn_wheel_pop(&w, UINT64_MAX / 2 + TICK)) != NULL) {
		assert_true(p->when / TICK + 1 >= last / TICK);
		if (p->when > last)
			last = p->when;
		n++;
	}
	assert_int_equal(n, 200);
}

static void the_end_of_time_is_reached(void **state)
{
	struct rn_timer t[2] = { 0 };

	(void)state;
	rn_wheel_init(&w, 0);
	rn_wheel_arm(&w, &t[0], UINT64_MAX / TICK * TICK);
	rn_wheel_arm(&w, &t[1], RN_NEVER - 1);
	assert_null(rn_wheel_pop(&w, UINT64_MAX / TICK * TICK - 1));
	assert_ptr_equal(rn_wheel_pop(&w, UINT64_MAX / TICK * TICK), &t[0]);
	assert_null(rn_wheel_pop(&w, UINT64_MAX)); /* that tick begins only after the last nanosecond of the clock */
	assert_true(rn_wheel_next(&w) == RN_NEVER);
}

/*
 * Random operations, compared with the simplest model: an array of times. At every turn of the clock: each timer that
 * is popped is due; a timer that is not popped has been due for less than a tick; rn_wheel_next() is not later than the
 * earliest tick.
 */
#define N 300u

struct model {
	struct rn_timer t[N];
	/* the start of the latest tick at which the timer must be popped; RN_NEVER when it is not armed */
	uint64_t due[N];
	uint64_t when[N];
};

static uint64_t tick_up(uint64_t when) { return (when + TICK - 1) / TICK * TICK; }

static void model_arm(struct model *m, uint32_t i, uint64_t when, uint64_t now)
{
	uint64_t soonest = (now / TICK + 1) * TICK;

	rn_wheel_arm(&w, &m->t[i], when);
	m->when[i] = when;
	m->due[i] = when == RN_NEVER ? RN_NEVER : rn_max_u64(tick_up(when), soonest);
}

static void model_turn(struct model *m, uint64_t now)
{
	struct rn_timer *t;
	uint64_t earliest = RN_NEVER;

	while ((t = rn_wheel_pop(&w, now)) != NULL) {
		uint32_t i = (uint32_t)(t - m->t);
		assert_true(i < N);
		assert_true(m->due[i] != RN_NEVER);
		assert_true(m->when[i] <= now);
		assert_false(rn_timer_armed(t));
		m->due[i] = RN_NEVER;
	}
	for (uint32_t i = 0; i < N; i++) {
		assert_true(m->due[i] == RN_NEVER || m->due[i] > now);
		assert_int_equal(rn_timer_armed(&m->t[i]), m->due[i] != RN_NEVER);
		earliest = rn_min_u64(earliest, m->due[i]);
	}
	assert_true(rn_wheel_next(&w) <= earliest);
	assert_int_equal(rn_wheel_next(&w) == RN_NEVER, earliest == RN_NEVER);
	assert_true(rn_wheel_next(&w) > now);
}

static uint64_t some_span(struct rn_rng *r)
{
	/* 0 to 78 hours, with equal probability for each order of magnitude */
	return rn_rng_u64(r) >> (16 + rn_rng_below(r, 48));
}

static void random_life_against_a_model(void **state)
{
	static struct model m;
	struct rn_rng r;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		uint64_t now = seed % 2 == 0 ? seed * 12345 : UINT64_C(1) << 62;

		rn_rng_seed(&r, seed);
		memset(&m, 0, sizeof(m));
		memset(m.due, 0xFF, sizeof(m.due));
		rn_wheel_init(&w, now);
		for (uint32_t step = 0; step < 3000; step++) {
			for (uint32_t k = rn_rng_below(&r, 6); k > 0; k--) {
				uint32_t i = rn_rng_below(&r, N);
				uint32_t what = rn_rng_below(&r, 10);

				if (what == 0)
					model_arm(&m, i, RN_NEVER, now);
				else if (what == 1)
					model_arm(&m, i, now - rn_min_u64(now, some_span(&r)), now);
				else if (what == 2 && m.due[i] != RN_NEVER)
					model_arm(&m, i, m.when[i] + some_span(&r), now);
				else
					model_arm(&m, i, now + some_span(&r), now);
			}
			now += rn_rng_chance(&r, 900000) ? rn_rng_below(&r, 3 * TICK) : some_span(&r) >> 4;
			model_turn(&m, now);
		}
	}
}

/* A worker that sleeps until rn_wheel_next() each time wakes for every timer, exactly on the timer's tick. */
static void sleeping_until_next_misses_nothing(void **state)
{
	static struct model m;
	struct rn_rng r;
	uint64_t now = 0, wakes = 0;
	uint32_t left = N;

	(void)state;
	rn_rng_seed(&r, 11);
	memset(&m, 0, sizeof(m));
	rn_wheel_init(&w, now);
	for (uint32_t i = 0; i < N; i++)
		model_arm(&m, i, some_span(&r), now);
	while (left > 0) {
		struct rn_timer *t;

		now = rn_wheel_next(&w);
		assert_true(now != RN_NEVER);
		while ((t = rn_wheel_pop(&w, now)) != NULL) {
			assert_true(m.due[t - m.t] == now);
			left--;
		}
		wakes++;
	}
	assert_true(wakes <= N * RN_WHEEL_LEVELS);
	assert_true(rn_wheel_next(&w) == RN_NEVER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_timer_fires_once_and_not_early),
		cmocka_unit_test(the_past_means_the_next_tick),
		cmocka_unit_test(disarm_takes_it_off),
		cmocka_unit_test(expired_timers_may_be_moved),
		cmocka_unit_test(rearming_later_is_lazy),
		cmocka_unit_test(a_jump_pops_in_the_order_of_ticks),
		cmocka_unit_test(the_end_of_time_is_reached),
		cmocka_unit_test(random_life_against_a_model),
		cmocka_unit_test(sleeping_until_next_misses_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
