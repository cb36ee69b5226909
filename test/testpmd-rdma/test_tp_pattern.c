/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#define LEN 4099

/* Filling in pieces, at any position, gives the same bytes as filling at once. */
static void test_pieces_equal_the_whole(void **state)
{
	static uint8_t whole[LEN], pieces[LEN];
	size_t at = 0, step = 1;

	(void)state;
	tp_pattern_fill(whole, LEN, 7, 0);
	while (at < LEN) {
		size_t n = step < LEN - at ? step : LEN - at;

		tp_pattern_fill(pieces + at, n, 7, at);
		at += n;
		step = step % 37 + 1;
	}
	assert_memory_equal(whole, pieces, LEN);
	for (size_t off = 0; off < 70; off++)
		for (size_t n = 0; n < 40; n++)
			assert_true(tp_pattern_check(whole + off, n, 7, off) == TP_PATTERN_GOOD);
}

static void test_every_changed_byte_is_found(void **state)
{
	static uint8_t buf[300];

	(void)state;
	for (size_t off = 0; off < 9; off++) {
		tp_pattern_fill(buf, sizeof(buf), 99, off);
		for (size_t i = 0; i < sizeof(buf); i++) {
			buf[i] ^= 1;
			assert_true(tp_pattern_check(buf, sizeof(buf), 99, off) == i);
			buf[i] ^= 1;
		}
		assert_true(tp_pattern_check(buf, sizeof(buf), 99, off) == TP_PATTERN_GOOD);
	}
}

/*
 * A message does not match when it is moved by any distance, or belongs to another sequence number, queue pair or run.
 */
static void test_moved_or_foreign_data_is_found(void **state)
{
	static uint8_t buf[2048 + 64];
	uint64_t own = tp_pattern_seed(1, 2, 3);

	(void)state;
	tp_pattern_fill(buf, sizeof(buf), own, 0);
	for (size_t shift = 1; shift <= 64; shift++)
		assert_true(tp_pattern_check(buf + shift, 64, own, 0) < 16);
	assert_true(tp_pattern_check(buf, 64, tp_pattern_seed(1, 2, 4), 0) < 16);
	assert_true(tp_pattern_check(buf, 64, tp_pattern_seed(1, 3, 3), 0) < 16);
	assert_true(tp_pattern_check(buf, 64, tp_pattern_seed(2, 2, 3), 0) < 16);
	assert_true(tp_pattern_check(buf, 64, tp_pattern_seed(1 ^ UINT64_C(1) << 63, 2, 3), 0) < 16);
	memset(buf, 0, sizeof(buf));
	assert_true(tp_pattern_check(buf, 64, own, 0) < 16);
}

static void test_bytes_are_spread(void **state)
{
	static uint8_t buf[1 << 16];
	unsigned count[256] = { 0 };

	(void)state;
	tp_pattern_fill(buf, sizeof(buf), tp_pattern_seed(5, 0, 0), 0);
	for (size_t i = 0; i < sizeof(buf); i++)
		count[buf[i]]++;
	for (unsigned i = 0; i < 256; i++)
		assert_in_range(count[i], 150, 370);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_equal_the_whole),
		cmocka_unit_test(test_every_changed_byte_is_found),
		cmocka_unit_test(test_moved_or_foreign_data_is_found),
		cmocka_unit_test(test_bytes_are_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
