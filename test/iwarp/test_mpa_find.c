/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/mpa_rx.h"
#include "ref_mpa.h"

static struct ref_stream ref;

static void begin(struct mpa_find *f, struct rn_iov *iov, uint32_t n, uint32_t off)
{
	struct mpa_rx rx;

	mpa_rx_init(&rx, ref.step, ref.crc);
	mpa_find_init(f, &rx, ref.base + off, iov, n);
}

/* The number of the FPDU of the reference that equals the view; fails if there is none. */
static uint32_t which(const struct mpa_view *v)
{
	for (uint32_t k = 0; k < ref.n_fpdu; k++) {
		uint32_t i = 0;

		if (v->pos != ref.base + ref.first[k])
			continue;
		assert_int_equal(v->raw_len, ref.size[k]);
		assert_int_equal(v->ulpdu_len, ref.ulpdu_len[k]);
		for (uint32_t j = 0; j < v->n; j++)
			for (uint32_t o = 0; o < v->ulpdu[j].len; o++)
				assert_int_equal(v->ulpdu[j].base[o], ref_octet(ref.ulpdu_seed[k], i++));
		assert_false(v->staged);
		return k;
	}
	fail_msg("found an FPDU where there is none: offset %u", v->pos - ref.base);
	return 0;
}

/*
 * In any segment [a, b) of a stream with markers: mpa_find finds only whole FPDUs, one directly behind the other, up to
 * the last whole one. It finds every FPDU behind the first marker of the segment that points into the segment.
 */
static void any_segment(uint32_t a, uint32_t b)
{
	struct rn_iov iov[3] = { { ref.buf + a, (b - a) / 3 },
				 { ref.buf + a + (b - a) / 3, 0 },
				 { ref.buf + a + (b - a) / 3, b - a - (b - a) / 3 } };
	uint32_t must = UINT32_MAX, got = UINT32_MAX, last = UINT32_MAX;
	struct mpa_find f;
	struct mpa_view v;

	for (uint32_t k = 0; k < ref.n_fpdu; k++) {
		uint32_t end = ref.first[k] + ref.size[k];
		uint32_t mark = ref.first[k] + ((0u - (ref.base + ref.first[k])) & (ref_step - 1));

		if (ref.first[k] < a || end > b)
			continue;
		last = k;
		if (must == UINT32_MAX &&
		    ((ref.markers && mark < end) || (ref.crc && !ref.markers && ref.first[k] == a)))
			must = k;
	}
	begin(&f, iov, 3, a);
	while (mpa_find_next(&f, &v)) {
		uint32_t k = which(&v);

		assert_true(ref.first[k] >= a && ref.first[k] + ref.size[k] <= b);
		if (got != UINT32_MAX)
			assert_int_equal(k, got + 1);
		else
			assert_true(must == UINT32_MAX || k <= must);
		got = k;
	}
	if (must != UINT32_MAX)
		assert_int_equal(got, last);
	assert_false(mpa_find_next(&f, &v));
}

static void mixed_stream(uint32_t base, bool markers, bool crc, uint64_t seed)
{
	ref_init(&ref, base, markers, crc);
	while (ref.len < 6000)
		ref_fpdu(&ref, 14 + ref_rand(&seed) % (ref_rand(&seed) & 1 ? 60 : 1000), (uint8_t)ref_rand(&seed));
}

static void through_markers_without_crc(void **state)
{
	(void)state;
	for (uint32_t base = 0; base < 512; base += 68) {
		mixed_stream(0u - 2048 + base, true, false, base);
		for (uint32_t a = 0; a < ref.len; a++)
			any_segment(a, rn_min_u32(a + 1448, ref.len));
	}
}

static void through_markers_with_crc(void **state)
{
	(void)state;
	for (uint32_t base = 0; base < 512; base += 132) {
		mixed_stream(base, true, true, base);
		for (uint32_t a = 0; a < ref.len; a += 2)
			any_segment(a, rn_min_u32(a + 1448, ref.len));
	}
}

static void through_markers_that_stand_elsewhere(void **state)
{
	for (ref_step = 1024; ref_step <= MPA_MARKER_STEP_MAX; ref_step *= 2) {
		through_markers_without_crc(state);
		through_markers_with_crc(state);
	}
	ref_step = MPA_MARKER_STEP;
}

static void by_alignment_and_crc(void **state)
{
	(void)state;
	mixed_stream(0xffffff00u, false, true, 3);
	for (uint32_t a = 0; a < ref.len; a++)
		any_segment(a, rn_min_u32(a + 1448, ref.len));
	for (uint32_t k = 0; k < ref.n_fpdu; k++)
		for (uint32_t len = 0; len < 1100; len += 13)
			any_segment(ref.first[k], rn_min_u32(ref.first[k] + len, ref.len));
}

static void nothing_without_markers_and_crc(void **state)
{
	struct mpa_find f;
	struct mpa_view v;

	(void)state;
	mixed_stream(0, false, false, 3);
	struct rn_iov iov = { ref.buf, ref.len };
	begin(&f, &iov, 1, 0);
	assert_false(mpa_find_next(&f, &v));
}

static void bad_crc_ends_the_search(void **state)
{
	struct mpa_find f;
	struct mpa_view v;

	(void)state;
	ref_init(&ref, 4, false, true);
	ref_fpdu(&ref, 100, 1);
	ref_fpdu(&ref, 100, 2);
	ref_fpdu(&ref, 100, 3);
	ref.buf[ref.first[1] + 40] ^= 1;
	struct rn_iov iov = { ref.buf, ref.len };
	begin(&f, &iov, 1, 0);
	assert_true(mpa_find_next(&f, &v));
	assert_int_equal(v.pos, 4);
	assert_false(mpa_find_next(&f, &v));
}

static void lying_markers(void **state)
{
	struct mpa_find f;
	struct mpa_view v;

	(void)state;
	ref_init(&ref, 256, true, false);
	ref_fpdu(&ref, 600, 1);
	struct rn_iov iov = { ref.buf + 8, ref.len - 8 };
	for (uint32_t ptr = 0; ptr < 65536; ptr += 4) {
		ref.buf[256 + 2] = (uint8_t)(ptr >> 8);
		ref.buf[256 + 3] = (uint8_t)ptr;
		begin(&f, &iov, 1, 8);
		if (mpa_find_next(&f, &v)) { /* whatever it finds must lie inside the segment */
			assert_true(v.pos >= 256 + 8);
			assert_true(v.pos + v.raw_len <= 256 + ref.len);
		}
	}
}

static void nothing_in_nothing(void **state)
{
	struct rn_iov none = { NULL, 0 };
	struct mpa_find f;
	struct mpa_view v;

	(void)state;
	ref_init(&ref, 0, true, true);
	begin(&f, &none, 0, 0);
	assert_false(mpa_find_next(&f, &v));
	begin(&f, &none, 1, 0);
	assert_false(mpa_find_next(&f, &v));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(through_markers_without_crc),
		cmocka_unit_test(through_markers_with_crc),
		cmocka_unit_test(through_markers_that_stand_elsewhere),
		cmocka_unit_test(by_alignment_and_crc),
		cmocka_unit_test(nothing_without_markers_and_crc),
		cmocka_unit_test(bad_crc_ends_the_search),
		cmocka_unit_test(lying_markers),
		cmocka_unit_test(nothing_in_nothing),
	};

	return cmocka_run_group_tests_name("mpa_find", tests, NULL, NULL);
}
