/* SPDX-License-Identifier: BSD-3-Clause */
/* The small inline headers of lib/base: ranges, byte order, serial numbers, slices, random numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_base.h"
#include "base/rn_be.h"
#include "base/rn_iov.h"
#include "base/rn_rng.h"
#include "base/rn_seq.h"
#include "base/rn_stream.h"

static void in_range_never_wraps(void **state)
{
	(void)state;
	assert_true(rn_in_range(0, 0, 0));
	assert_true(rn_in_range(10, 0, 10));
	assert_false(rn_in_range(11, 0, 10));
	assert_true(rn_in_range(4, 6, 10));
	assert_false(rn_in_range(4, 7, 10));
	assert_false(rn_in_range(UINT64_MAX, 1, 10));
	assert_false(rn_in_range(UINT64_MAX - 4, 8, 10));
	assert_false(rn_in_range(8, UINT64_MAX - 4, 10));
	assert_true(rn_in_range(UINT64_MAX, 0, UINT64_MAX));
	assert_false(rn_in_range(1, UINT64_MAX, UINT64_MAX));
}

static void big_endian_is_most_significant_first(void **state)
{
	static const uint8_t bytes[9] = { 0xFF, 1, 2, 3, 4, 5, 6, 7, 8 };
	uint8_t out[9] = { 0xFF };

	(void)state;
	assert_int_equal(rn_load_be16(bytes + 1), 0x0102);
	assert_int_equal(rn_load_be32(bytes + 1), 0x01020304);
	assert_true(rn_load_be64(bytes + 1) == UINT64_C(0x0102030405060708));
	rn_store_be64(out + 1, UINT64_C(0x0102030405060708));
	assert_memory_equal(out, bytes, 9);
	rn_store_be16(out + 1, 0xA1B2);
	assert_int_equal(out[1], 0xA1);
	assert_int_equal(rn_be16_get(rn_be16_of(0x1234)), 0x1234);
	assert_int_equal(rn_be32_of(0x12345678).b[0], 0x12);
	assert_true(rn_be64_get(rn_be64_of(UINT64_C(0xFEDCBA9876543210))) == UINT64_C(0xFEDCBA9876543210));
}

static void serial_numbers_compare_across_the_wrap(void **state)
{
	(void)state;
	assert_true(rn_seq_lt(UINT32_MAX, 0));
	assert_true(rn_seq_gt(5, UINT32_MAX - 5));
	assert_true(rn_seq_le(7, 7) && rn_seq_ge(7, 7) && !rn_seq_lt(7, 7));
	assert_int_equal(rn_seq_max(UINT32_MAX - 1, 3), 3);
	assert_int_equal(rn_seq_min(UINT32_MAX - 1, 3), UINT32_MAX - 1);
	assert_true(rn_seq_between(0, UINT32_MAX, 2));
	assert_true(rn_seq_between(UINT32_MAX, UINT32_MAX, 2));
	assert_false(rn_seq_between(2, UINT32_MAX, 2));
	assert_false(rn_seq_between(3, 3, 3));
}

static void iov_cut_takes_what_was_asked_or_nothing(void **state)
{
	uint8_t b[30];
	struct rn_iov in[4] = { { b, 10 }, { b + 10, 0 }, { b + 10, 5 }, { b + 15, 15 } };
	struct rn_iov out[4];

	(void)state;
	assert_int_equal(rn_iov_len(in, 4), 30);
	assert_int_equal(rn_iov_cut(in, 4, 0, 0, out, 4), 0);
	assert_int_equal(rn_iov_cut(in, 4, 0, 30, out, 4), 3); /* the empty slice is left out */
	assert_int_equal(rn_iov_cut(in, 4, 8, 10, out, 4), 3);
	assert_ptr_equal(out[0].base, b + 8);
	assert_int_equal(out[0].len, 2);
	assert_int_equal(out[1].len, 5);
	assert_ptr_equal(out[2].base, b + 15);
	assert_int_equal(out[2].len, 3);
	assert_int_equal(rn_iov_cut(in, 4, 8, 10, out, 2), UINT32_MAX);
	assert_int_equal(rn_iov_cut(in, 4, 8, 23, out, 4), UINT32_MAX);
	assert_int_equal(rn_iov_cut(in, 4, 31, 1, out, 4), UINT32_MAX);
	assert_int_equal(rn_iov_cut(in, 4, UINT64_MAX, 2, out, 4), UINT32_MAX);
}

static void iov_gather_copies_in_order(void **state)
{
	uint8_t b[12] = "abcdefghijk", out[12] = { 0 };
	struct rn_iov in[3] = { { b + 6, 5 }, { b, 3 }, { b + 3, 3 } };

	(void)state;
	assert_int_equal(rn_iov_gather(in, 3, out, 9), 9);
	assert_string_equal((char *)out, "ghijkabcd");
	assert_int_equal(rn_iov_gather(in, 3, out, 12), 11);
}

/* The first numbers of SplitMix64 from seed 1234567, from the algorithm's published test vectors. */
static void generator_is_splitmix64(void **state)
{
	static const uint64_t first[] = { UINT64_C(6457827717110365317), UINT64_C(3203168211198807973),
					  UINT64_C(9817491932198370423), UINT64_C(4593380528125082431),
					  UINT64_C(16408922859458223821) };
	struct rn_rng r;

	(void)state;
	rn_rng_seed(&r, 1234567);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(first); i++)
		assert_true(rn_rng_u64(&r) == first[i]);
}

static void generator_stays_below_and_keeps_odds(void **state)
{
	struct rn_rng r;
	uint32_t hit = 0, seen = 0;

	(void)state;
	rn_rng_seed(&r, 42);
	for (uint32_t i = 0; i < 100000; i++) {
		uint32_t v = rn_rng_below(&r, 10);
		assert_true(v < 10);
		seen |= 1u << v;
		hit += rn_rng_chance(&r, 10000);
		assert_false(rn_rng_chance(&r, 0));
		assert_true(rn_rng_chance(&r, 1000000));
	}
	assert_int_equal(seen, 0x3FF);
	assert_in_range(hit, 850, 1150);
}

static void a_copy_is_a_copy(void **state)
{
	static const uint32_t lens[] = { 0, 1, 15, 2047, 2048, 2049, 4095, 4096, 6144, 8930, 9216 };
	static uint8_t src[10240] RN_ALIGNED(4096), dst[3 * 4096 + 256] RN_ALIGNED(4096), want[sizeof(dst)];

	(void)state;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 31 + i / 251);
	for (uint32_t l = 0; l < RN_ARRAY_LEN(lens); l++) {
		/* lengths of 1 to 16 bytes have a code path of their own */
		for (uint32_t apart = 0; apart < 40; apart++) {
			memset(dst, 0xEE, sizeof(dst));
			memset(want, 0xEE, sizeof(want));
			memcpy(want + 64 + apart, src + 64, lens[l]);
			rn_copy(dst + 64 + apart, src + 64, lens[l]);
			assert_memory_equal(dst, want, sizeof(dst));
		}
	}
}

static void a_streamed_copy_is_a_copy(void **state)
{
	static uint8_t src[1024] RN_ALIGNED(64), dst[1024] RN_ALIGNED(64), want[sizeof(dst)];

	(void)state;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 31 + i / 251);
	for (uint32_t most = 64; most >= 16; most /= 2) {
		uint32_t width;
		rn_stream_fn copy = rn_stream_choose(most, &width);
		assert_true(width <= most);
		for (uint32_t at = 0; at < 66; at++) {
			for (uint32_t len = 0; len < 400; len++) {
				memset(dst, 0xEE, sizeof(dst));
				memset(want, 0xEE, sizeof(want));
				memcpy(want + 64 + at, src + len % 70, len);
				copy(dst + 64 + at, src + len % 70, len);
				assert_memory_equal(dst, want, sizeof(dst));
			}
		}
	}
}

static void the_first_bit_is_looked_for_round(void **state)
{
	(void)state;
	for (uint32_t from = 0; from < 64; from++)
		for (uint32_t bit = 0; bit < 64; bit++)
			assert_int_equal(rn_bit_from(UINT64_C(1) << bit, from), bit);
	assert_int_equal(rn_bit_from(0x8000000000000011, 0), 0);
	assert_int_equal(rn_bit_from(0x8000000000000011, 4), 4);
	assert_int_equal(rn_bit_from(0x8000000000000011, 5), 63);
	assert_int_equal(rn_bit_from(0x11, 5), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_range_never_wraps),
		cmocka_unit_test(big_endian_is_most_significant_first),
		cmocka_unit_test(serial_numbers_compare_across_the_wrap),
		cmocka_unit_test(iov_cut_takes_what_was_asked_or_nothing),
		cmocka_unit_test(iov_gather_copies_in_order),
		cmocka_unit_test(generator_is_splitmix64),
		cmocka_unit_test(generator_stays_below_and_keeps_odds),
		cmocka_unit_test(a_copy_is_a_copy),
		cmocka_unit_test(a_streamed_copy_is_a_copy),
		cmocka_unit_test(the_first_bit_is_looked_for_round),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
