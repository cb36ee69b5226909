/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_hist.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static struct tp_hist h;

static int setup(void **state)
{
	(void)state;
	tp_hist_reset(&h);
	return 0;
}

static void test_empty(void **state)
{
	struct tp_quantiles q;

	(void)state;
	tp_hist_summary(&h, &q);
	assert_int_equal(q.count, 0);
	assert_int_equal(q.min, 0);
	assert_int_equal(q.max, 0);
	assert_int_equal(q.p999, 0);
	assert_int_equal(tp_hist_quantile(&h, 500000), 0);
}

static void test_one_value_is_every_quantile(void **state)
{
	struct tp_quantiles q;

	(void)state;
	tp_hist_add(&h, 123457);
	tp_hist_summary(&h, &q);
	assert_int_equal(q.min, 123457);
	assert_int_equal(q.p50, 123457);
	assert_int_equal(q.p99, 123457);
	assert_int_equal(q.p999, 123457);
	assert_int_equal(q.max, 123457);
	assert_int_equal(q.mean, 123457);
}

static void test_small_values_are_exact(void **state)
{
	struct tp_quantiles q;

	(void)state;
	for (uint64_t v = 1; v <= 100; v++)
		tp_hist_add(&h, v);
	tp_hist_summary(&h, &q);
	assert_int_equal(q.p50, 50);
	assert_int_equal(q.p99, 99);
	assert_int_equal(q.p999, 100);
	assert_int_equal(q.mean, 50);
}

static void test_index_is_monotonic_and_inside(void **state)
{
	unsigned last = 0;

	(void)state;
	for (uint64_t v = 0; v < 1u << 20; v++) {
		unsigned i = tp_hist_index(v);

		assert_true(i == last || i == last + 1);
		last = i;
	}
	for (unsigned bit = 20; bit < 64; bit++) {
		assert_true(tp_hist_index(UINT64_C(1) << bit) >= last);
		last = tp_hist_index(UINT64_C(1) << bit);
		assert_true(tp_hist_index((UINT64_C(1) << bit) - 1) <= last);
	}
	assert_int_equal(tp_hist_index((UINT64_C(1) << TP_HIST_MAX_BITS) - 1), TP_HIST_BUCKETS - 1);
	assert_int_equal(tp_hist_index(UINT64_MAX), TP_HIST_BUCKETS - 1);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/*
 * Quantiles over six orders of magnitude differ from those of the sorted values by at most 1/128, the width of a
 * bucket.
 */
static void test_quantiles_against_sorting(void **state)
{
	enum { N = 20011 };
	static uint64_t v[N];
	static const uint32_t ppm[] = { 1, 10000, 250000, 500000, 900000, 990000, 999000, 999900, 1000000 };
	uint64_t x = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < N; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		v[i] = x >> (24 + x % 20);
		tp_hist_add(&h, v[i]);
	}
	qsort(v, N, sizeof(v[0]), compare);
	for (unsigned i = 0; i < sizeof(ppm) / sizeof(ppm[0]); i++) {
		uint64_t rank = ((uint64_t)N * ppm[i] + 999999) / 1000000;
		uint64_t real = v[rank - 1], got = tp_hist_quantile(&h, ppm[i]);
		uint64_t off = got > real ? got - real : real - got;

		assert_true(off <= real / 128 + 1);
	}
	assert_int_equal(h.min, v[0]);
	assert_int_equal(h.max, v[N - 1]);
}

static void test_beyond_the_range(void **state)
{
	struct tp_quantiles q;

	(void)state;
	tp_hist_add(&h, 5);
	tp_hist_add(&h, UINT64_C(1) << 50);
	tp_hist_summary(&h, &q);
	assert_int_equal(q.p50, 5);
	assert_int_equal(q.p99, UINT64_C(1) << 50);
	assert_int_equal(q.max, UINT64_C(1) << 50);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_empty, setup),
		cmocka_unit_test_setup(test_one_value_is_every_quantile, setup),
		cmocka_unit_test_setup(test_small_values_are_exact, setup),
		cmocka_unit_test_setup(test_index_is_monotonic_and_inside, setup),
		cmocka_unit_test_setup(test_quantiles_against_sorting, setup),
		cmocka_unit_test_setup(test_beyond_the_range, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
