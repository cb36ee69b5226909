/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pkt/pkt.h"

static uint8_t bytes[4096 + 16];

static int fill(void **state)
{
	(void)state;
	uint32_t x = 12345;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		x = x * 1664525u + 1013904223u;
		bytes[i] = (uint8_t)(x >> 24);
	}
	return 0;
}

/*
 * The checksum by its definition, word by word (RFC 1071, section 4.1): summed in network order, returned in memory
 * order.
 */
static uint16_t slow(const uint8_t *p, uint32_t len)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	if (len & 1)
		sum += (uint32_t)p[len - 1] << 8;
	while (sum >> 16)
		sum = (sum >> 16) + (sum & 0xffff);
	return __builtin_bswap16((uint16_t)sum);
}

/* RFC 1071, section 3: 00 01 f2 03 f4 f5 f6 f7 sums to ddf2. */
static void published_vector(void **state)
{
	(void)state;
	static const uint8_t v[] = { 0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7 };
	assert_int_equal(__builtin_bswap16(pkt_sum_fold(pkt_sum(v, sizeof(v)))), 0xddf2);
}

static void every_length_and_alignment(void **state)
{
	(void)state;
	static uint8_t dst[4096 + 16];
	for (uint32_t len = 0; len <= 300; len++) {
		for (uint32_t at = 0; at < 8; at++) {
			uint16_t want = slow(bytes + at, len);
			assert_int_equal(pkt_sum_fold(pkt_sum(bytes + at, len)), want);
			memset(dst, 0xaa, sizeof(dst));
			assert_int_equal(pkt_sum_fold(pkt_sum_copy(dst + 3, bytes + at, len)), want);
			assert_memory_equal(dst + 3, bytes + at, len);
			assert_int_equal(dst[2], 0xaa);
			assert_int_equal(dst[3 + len], 0xaa);
		}
	}
	assert_int_equal(pkt_sum_fold(pkt_sum(bytes, 4096)), slow(bytes, 4096));
}

static void carries_are_kept(void **state)
{
	(void)state;
	uint8_t ones[256];
	memset(ones, 0xff, sizeof(ones));
	for (uint32_t len = 0; len <= sizeof(ones); len++)
		assert_int_equal(pkt_sum_fold(pkt_sum(ones, len)), slow(ones, len));
	assert_int_equal(pkt_sum_add(UINT64_MAX, 1), 1);
}

static void every_cut_into_three(void **state)
{
	(void)state;
	const uint32_t len = 61;
	uint16_t want = slow(bytes, len);
	for (uint32_t a = 0; a <= len; a++) {
		for (uint32_t b = a; b <= len; b++) {
			struct rn_iov iov[3] = { { bytes, a }, { bytes + a, b - a }, { bytes + b, len - b } };
			assert_int_equal(pkt_sum_fold(pkt_sum_iov(iov, 3)), want);
		}
	}
}

/* The example of RFC 1624, section 4: checksum dd2f, word 5555 becomes 3285, checksum becomes 0000. */
static void incremental_update(void **state)
{
	(void)state;
	assert_int_equal(pkt_csum_update(0xdd2f, 0x5555, 0x3285), 0x0000);
	for (uint32_t i = 0; i + 64 < 2048; i += 2) {
		uint8_t word[64];
		uint16_t from, to = (uint16_t)(i * 77);
		memcpy(word, bytes + i, sizeof(word));
		uint16_t csum = (uint16_t)~pkt_sum_fold(pkt_sum(word, sizeof(word)));
		memcpy(&from, word + 10, 2);
		memcpy(word + 10, &to, 2);
		assert_int_equal(pkt_csum_update(csum, from, to), (uint16_t)~pkt_sum_fold(pkt_sum(word, sizeof(word))));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_vector),   cmocka_unit_test(every_length_and_alignment),
		cmocka_unit_test(carries_are_kept),   cmocka_unit_test(every_cut_into_three),
		cmocka_unit_test(incremental_update),
	};
	return cmocka_run_group_tests(tests, fill, NULL);
}
