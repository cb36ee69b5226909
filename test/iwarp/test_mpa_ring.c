/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/mpa_ring.h"
#include "ref_mpa.h"

#define RING (1u << 17)

static struct ref_stream ref;
static uint8_t bytes[RING];

/* FPDUs of many lengths, the longest and an empty one among them; together no longer than the ring. */
static void make(bool markers)
{
	static const uint16_t lens[] = { 14, 18, 0, 1460, 508, 506, 65535, 20, 1, 16000, 510, 30000, 14 };

	ref_init(&ref, 0, markers, true);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(lens); i++)
		ref_fpdu(&ref, lens[i], (uint8_t)(i + 1));
	assert_true(ref.len < RING);
}

static void to_ring(uint32_t at, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		bytes[(at + i) & (RING - 1)] = p[i];
}

/* A walk over the ring; Full Operation begins at index `base`. */
static struct mpa_ring ring_at(uint32_t base, bool markers)
{
	return (struct mpa_ring){
		.bytes = bytes, .mask = RING - 1, .base = base, .at = base, .step = markers ? ref_step : 0
	};
}

/* Indices at which fields lie across the ring's end, or at which indices wrap. */
static const uint32_t bases[] = { 0, 1, RING - 1, RING - 2, RING - 700, 0u - 1, 0u - 1000, 12345 };

static void seal_gives_each_fpdu_the_sum_of_a_sender(bool markers)
{
	make(markers);
	for (uint32_t b = 0; b < RN_ARRAY_LEN(bases); b++) {
		struct mpa_ring r = ring_at(bases[b], markers);

		to_ring(r.base, ref.buf, ref.len);
		for (uint32_t i = 0; i < ref.n_fpdu; i++) /* the CRC field's place is the last four octets */
			to_ring(r.base + ref.first[i] + ref.size[i] - 4, (const uint8_t *)"\0\0\0\0", 4);
		for (uint32_t i = 0; i < ref.n_fpdu; i++) {
			assert_int_equal(mpa_ring_seal(&r, r.base + ref.len), MPA_RING_FPDU);
			assert_int_equal(r.at - r.base, ref.first[i] + ref.size[i]);
		}
		assert_int_equal(mpa_ring_seal(&r, r.base + ref.len), MPA_RING_MORE);
		for (uint32_t i = 0; i < ref.len; i++)
			assert_int_equal(bytes[(r.base + i) & (RING - 1)], ref.buf[i]);
	}
}

static void seal_without_markers(void **state)
{
	(void)state;
	seal_gives_each_fpdu_the_sum_of_a_sender(false);
}

static void seal_with_markers(void **state)
{
	(void)state;
	for (ref_step = MPA_MARKER_STEP; ref_step <= MPA_MARKER_STEP_MAX; ref_step *= 2)
		seal_gives_each_fpdu_the_sum_of_a_sender(true);
	ref_step = MPA_MARKER_STEP;
}

static void check_takes_what_a_sender_has_summed(void **state)
{
	(void)state;
	for (int markers = 0; markers < 2; markers++) {
		make(markers);
		for (uint32_t b = 0; b < RN_ARRAY_LEN(bases); b++) {
			struct mpa_ring r = ring_at(bases[b], markers);

			to_ring(r.base, ref.buf, ref.len);
			for (uint32_t i = 0; i < ref.n_fpdu; i++)
				assert_int_equal(mpa_ring_check(&r, r.base + ref.len), MPA_RING_FPDU);
			assert_int_equal(r.at - r.base, ref.len);
		}
	}
}

static void one_wrong_bit_is_a_bad_crc(void **state)
{
	(void)state;
	make(true);
	struct mpa_ring r = ring_at(RING - 9, true);
	to_ring(r.base, ref.buf, ref.len);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(mpa_ring_check(&r, r.base + ref.len), MPA_RING_FPDU);
	uint32_t at = r.at, size = ref.size[3];
	/* from the ninth octet on: a changed length would make another FPDU */
	for (uint32_t i = 8; i < size; i += 97) {
		bytes[(at + i) & (RING - 1)] ^= 4;
		assert_int_equal(mpa_ring_check(&r, r.base + ref.len), MPA_RING_BAD_CRC);
		assert_int_equal(r.at, at);
		bytes[(at + i) & (RING - 1)] ^= 4;
	}
	assert_int_equal(mpa_ring_check(&r, r.base + ref.len), MPA_RING_FPDU);
}

static void an_fpdu_that_is_not_whole_is_left_alone(void **state)
{
	(void)state;
	make(true);
	struct mpa_ring r = ring_at(RING - 5, true);
	to_ring(r.base, ref.buf, ref.len);
	for (uint32_t n = 0; n < ref.size[0]; n++) {
		assert_int_equal(mpa_ring_seal(&r, r.base + n), MPA_RING_MORE);
		assert_int_equal(mpa_ring_check(&r, r.base + n), MPA_RING_MORE);
		assert_int_equal(r.at, r.base);
	}
	assert_int_equal(mpa_ring_seal(&r, r.base + ref.size[0]), MPA_RING_FPDU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seal_without_markers),
		cmocka_unit_test(seal_with_markers),
		cmocka_unit_test(check_takes_what_a_sender_has_summed),
		cmocka_unit_test(one_wrong_bit_is_a_bad_crc),
		cmocka_unit_test(an_fpdu_that_is_not_whole_is_left_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
