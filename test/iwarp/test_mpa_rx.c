/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/mpa_rx.h"
#include "ref_mpa.h"

static struct ref_stream ref;
static uint8_t stage[MPA_STAGE_SIZE];

static void start(struct mpa_rx *rx, const struct ref_stream *s)
{
	mpa_rx_init(rx, s->step, s->crc);
	rx->pos = rx->start = s->base;
}

/* A view must be FPDU k of the reference, octet for octet, with a good CRC. */
static void is_fpdu(const struct mpa_view *v, const struct ref_stream *s, uint32_t k)
{
	uint32_t i = 0;

	assert_true(k < s->n_fpdu);
	assert_int_equal(v->ulpdu_len, s->ulpdu_len[k]);
	assert_int_equal(v->pos, s->base + s->first[k]);
	assert_int_equal(v->raw_len, s->size[k]);
	assert_int_equal(rn_iov_len(v->ulpdu, v->n), v->ulpdu_len);
	assert_true(mpa_rx_crc(v));
	for (uint32_t j = 0; j < v->n; j++)
		for (uint32_t o = 0; o < v->ulpdu[j].len; o++, i++)
			if (v->ulpdu[j].base[o] != ref_octet(s->ulpdu_seed[k], i))
				fail_msg("FPDU %u differs at octet %u", k, i);
}

/* Feeds a list of slices; *k counts FPDUs. Returns the last verdict. */
static enum mpa_rx_verdict feed(struct mpa_rx *rx, const struct rn_iov *iov, uint32_t n, const struct ref_stream *s,
				uint32_t *k)
{
	struct mpa_rx_in in;
	struct mpa_view v;

	mpa_rx_input(&in, iov, n);
	for (;;) {
		enum mpa_rx_verdict r = mpa_rx_next(rx, &in, &v);

		if (r == MPA_RX_NEED_STAGE) {
			uint32_t need = mpa_rx_stage_need(rx);

			assert_true(need <= sizeof(stage));
			assert_false(mpa_rx_give_stage(rx, stage, need - 1));
			memset(stage, 0xa5, sizeof(stage));
			assert_true(mpa_rx_give_stage(rx, stage, need));
			continue;
		}
		if (r != MPA_RX_FPDU && r != MPA_RX_EMPTY)
			return r;
		is_fpdu(&v, s, (*k)++);
		assert_true(mpa_rx_idle(rx));
		mpa_rx_take_stage(rx);
	}
}

static void three_fpdus(uint32_t base, bool markers, bool crc)
{
	ref_init(&ref, base, markers, crc);
	ref_fpdu(&ref, 14, 1);
	ref_fpdu(&ref, 201, 2);
	ref_fpdu(&ref, 723, 3);
}

static void split_in_two(uint32_t base, bool markers, bool crc)
{
	three_fpdus(base, markers, crc);
	for (uint32_t cut = 0; cut <= ref.len; cut++) {
		struct rn_iov a = { ref.buf, cut }, b = { ref.buf + cut, ref.len - cut };
		struct mpa_rx rx;
		uint32_t k = 0;

		start(&rx, &ref);
		assert_int_equal(feed(&rx, &a, 1, &ref, &k), MPA_RX_MORE);
		assert_int_equal(feed(&rx, &b, 1, &ref, &k), MPA_RX_MORE);
		assert_int_equal(k, 3);
		assert_int_equal(mpa_rx_pos(&rx), base + ref.len);
	}
}

static void unmarked_every_split(void **state)
{
	(void)state;
	split_in_two(0, false, true);
	split_in_two(0, false, false);
	split_in_two(UINT32_MAX - 203, false, true);
}

static void every_phase_every_split(void **state)
{
	(void)state;
	for (uint32_t phase = 0; phase < 512; phase += 4)
		split_in_two(phase, true, true);
}

static void wrap_of_the_offset(void **state)
{
	(void)state;
	for (uint32_t back = 4; back < 1100; back += 4)
		split_in_two(0u - back, true, back & 4);
}

static void octet_by_octet(void **state)
{
	(void)state;
	for (uint32_t phase = 0; phase < 512; phase += 4) {
		struct mpa_rx rx;
		uint32_t k = 0;

		three_fpdus(phase, true, true);
		start(&rx, &ref);
		for (uint32_t i = 0; i < ref.len; i++) {
			struct rn_iov one = { ref.buf + i, 1 };

			assert_int_equal(feed(&rx, &one, 1, &ref, &k), MPA_RX_MORE);
		}
		assert_int_equal(k, 3);
	}
}

/* One FPDU in a chain of slices, cut at every pair of places, is never copied. */
static void chains_are_views(void **state)
{
	(void)state;
	for (uint32_t phase = 0; phase < 512; phase += 20) {
		ref_init(&ref, phase, true, true);
		ref_fpdu(&ref, 301, 9);
		for (uint32_t a = 0; a <= ref.len; a += 3)
			for (uint32_t b = a; b <= ref.len; b += 5) {
				struct rn_iov iov[4] = { { ref.buf, a },
							 { ref.buf, 0 },
							 { ref.buf + a, b - a },
							 { ref.buf + b, ref.len - b } };
				struct mpa_rx_in in;
				struct mpa_rx rx;
				struct mpa_view v;

				start(&rx, &ref);
				mpa_rx_input(&in, iov, 4);
				assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_FPDU);
				assert_false(v.staged);
				is_fpdu(&v, &ref, 0);
				assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_MORE);
			}
	}
}

/* An FPDU in more slices than a view holds is copied to the stage. */
static void crumbs_are_staged(void **state)
{
	static struct rn_iov iov[REF_MAX];
	struct mpa_rx rx;
	uint32_t k = 0;

	(void)state;
	three_fpdus(8, true, true);
	for (uint32_t i = 0; i < ref.len; i++)
		iov[i] = (struct rn_iov){ ref.buf + i, 1 };
	start(&rx, &ref);
	assert_int_equal(feed(&rx, iov, ref.len, &ref, &k), MPA_RX_MORE);
	assert_int_equal(k, 3);
}

static void random_streams(void **state)
{
	uint64_t rng = 42;

	(void)state;
	for (uint32_t round = 0; round < 60; round++) {
		bool markers = ref_rand(&rng) & 1, crc = ref_rand(&rng) & 1;
		struct rn_iov iov[32];
		struct mpa_rx rx;
		uint32_t k = 0, n = 0;

		ref_init(&ref, ref_rand(&rng) & ~3u, markers, crc);
		while (ref.len < 20000)
			ref_fpdu(&ref, 14 + (ref_rand(&rng) & (ref_rand(&rng) & 1 ? 63 : 4095)),
				 (uint8_t)ref_rand(&rng));
		start(&rx, &ref);
		for (uint32_t at = 0; at < ref.len;) {
			uint32_t len = ref_rand(&rng) % 1500;

			len = rn_min_u32(len, ref.len - at);
			iov[n++] = (struct rn_iov){ ref.buf + at, len };
			at += len;
			if (n == 32 || (ref_rand(&rng) & 3) == 0 || at == ref.len) {
				assert_int_equal(feed(&rx, iov, n, &ref, &k), MPA_RX_MORE);
				n = 0;
			}
		}
		assert_int_equal(k, ref.n_fpdu);
	}
}

/* The cases above, with each of the larger marker spacings. */
static void markers_that_stand_elsewhere(void **state)
{
	for (ref_step = 1024; ref_step <= MPA_MARKER_STEP_MAX; ref_step *= 2) {
		every_phase_every_split(state);
		octet_by_octet(state);
		chains_are_views(state);
		crumbs_are_staged(state);
		random_streams(state);
	}
	ref_step = MPA_MARKER_STEP;
}

/* A receiver that expects any spacing finds the spacing of the sender, among all that fit. */
static void the_spacing_of_a_sender_is_found(void **state)
{
	static const uint32_t lens[] = { 1400, 3000, 6000 };

	(void)state;
	for (uint32_t s = 0; s < MPA_SPACINGS; s++) {
		for (uint32_t k = 0; k < RN_ARRAY_LEN(lens); k++) {
			ref_step = mpa_spacings[s];
			ref_init(&ref, 4000, ref_step != 0, true); /* a marker of each spacing is still to come */
			ref_fpdu(&ref, 20, 1);
			ref_fpdu(&ref, lens[k], 2);
			for (uint32_t r = 0; r < MPA_SPACINGS; r++) {
				struct rn_iov iov[2] = { { ref.buf, 700 }, { ref.buf + 700, ref.len - 700 } };
				struct mpa_rx rx;
				mpa_rx_init(&rx, mpa_spacings[r], true);
				uint32_t fit = mpa_fitting(&rx, ref.base + ref.first[1], iov, 2, ref.first[1]);
				assert_int_equal(fit >> s & 1, r != s);
				assert_int_equal(fit >> r & 1, 0);
				if (lens[k] == 6000)
					assert_int_equal(fit & ~(1u << s), 0);
				/* an FPDU that is not whole, or has a wrong octet, fits no spacing */
				iov[1].len -= 1;
				assert_int_equal(mpa_fitting(&rx, ref.base + ref.first[1], iov, 2, ref.first[1]), 0);
				iov[1].len += 1;
				ref.buf[ref.len - 1] ^= 1;
				assert_int_equal(mpa_fitting(&rx, ref.base + ref.first[1], iov, 2, ref.first[1]), 0);
				ref.buf[ref.len - 1] ^= 1;
			}
		}
	}
	ref_step = MPA_MARKER_STEP;
}

/*
 * The stage holds an FPDU with a ULPDU of 65,535 octets. With markers, the distance from the length field to the last
 * markers exceeds 16 bits; FPDUPTR has its low 16 bits.
 */
static void largest_fpdu(void **state)
{
	(void)state;
	for (int markers = 0; markers < 2; markers++) {
		struct mpa_rx rx;
		uint32_t k = 0;

		ref_init(&ref, 256, markers, true);
		ref_fpdu(&ref, 65535, 7);
		ref_fpdu(&ref, 20, 8);
		start(&rx, &ref);
		for (uint32_t at = 0; at < ref.len; at += 1448) {
			struct rn_iov seg = { ref.buf + at, rn_min_u32(1448, ref.len - at) };

			assert_int_equal(feed(&rx, &seg, 1, &ref, &k), MPA_RX_MORE);
		}
		assert_int_equal(k, 2);
	}
}

static void short_lengths_are_refused(void **state)
{
	(void)state;
	for (uint32_t len = 1; len < DDP_MIN_HDR_LEN; len++)
		for (uint32_t cut = 0; cut <= 2; cut++) {
			uint8_t b[32] = { 0, (uint8_t)len };
			struct rn_iov first = { b, cut }, rest = { b + cut, sizeof(b) - cut };
			enum mpa_rx_verdict r;
			struct mpa_rx rx;
			uint32_t k = 0;

			mpa_rx_init(&rx, 0, false);
			r = feed(&rx, &first, 1, &ref, &k);
			if (r == MPA_RX_MORE)
				r = feed(&rx, &rest, 1, &ref, &k);
			assert_int_equal(r, MPA_RX_TOO_SHORT);
			assert_int_equal(k, 0);
		}
	assert_int_equal(mpa_rx_err(MPA_RX_TOO_SHORT).code, IW_MPA_MARKER);
	assert_int_equal(mpa_rx_err(MPA_RX_TOO_SHORT).layer, IW_LAYER_LLP);
	assert_int_equal(mpa_rx_err(MPA_RX_TOO_SHORT).hdrct, 0);
}

static void empty_fpdu_has_its_own_verdict(void **state)
{
	(void)state;
	for (uint32_t cut = 0; cut <= 8; cut++) {
		struct rn_iov iov[2];
		struct mpa_rx_in in;
		struct mpa_view v;
		struct mpa_rx rx;
		enum mpa_rx_verdict r;

		ref_init(&ref, 0, false, true);
		ref_fpdu(&ref, 0, 0);
		assert_int_equal(ref.len, 8);
		iov[0] = (struct rn_iov){ ref.buf, cut };
		iov[1] = (struct rn_iov){ ref.buf + cut, 8 - cut };
		mpa_rx_init(&rx, 0, true);
		for (uint32_t i = 0; i < 2; i++) {
			mpa_rx_input(&in, iov + i, 1);
			r = mpa_rx_next(&rx, &in, &v);
			if (r == MPA_RX_NEED_STAGE) {
				assert_true(mpa_rx_give_stage(&rx, stage, sizeof(stage)));
				r = mpa_rx_next(&rx, &in, &v);
			}
			if (r == MPA_RX_EMPTY)
				break;
			assert_int_equal(r, MPA_RX_MORE);
		}
		assert_int_equal(r, MPA_RX_EMPTY);
		assert_int_equal(v.n, 0);
		assert_true(mpa_rx_crc(&v));
	}
}

/* The CRC covers every octet of the stream, also markers: no single changed bit passes. */
static void any_changed_octet_is_noticed(void **state)
{
	(void)state;
	for (uint32_t phase = 0; phase < 512; phase += 36) {
		ref_init(&ref, phase, true, true);
		ref_fpdu(&ref, 601, 4);
		for (uint32_t at = 0; at < ref.len; at++)
			for (uint32_t cut = 0; cut < 2; cut++) {
				struct rn_iov iov[2] = { { ref.buf, cut * 5 },
							 { ref.buf + cut * 5, ref.len - cut * 5 } };
				enum mpa_rx_verdict r = MPA_RX_MORE;
				struct mpa_rx_in in;
				struct mpa_view v;
				struct mpa_rx rx;

				ref.buf[at] ^= 0x01;
				start(&rx, &ref);
				assert_true(mpa_rx_give_stage(&rx, stage, sizeof(stage)));
				for (uint32_t i = 0; i < 2 && r == MPA_RX_MORE; i++) {
					mpa_rx_input(&in, iov + i, 1);
					r = mpa_rx_next(&rx, &in, &v);
				}
				if (r == MPA_RX_FPDU)
					assert_false(mpa_rx_crc(&v));
				ref.buf[at] ^= 0x01;
			}
	}
}

/*
 * FPDUPTR must point at the length field, its low two bits ignored (RFC 5044, section 4.3). CRC is off, so markers are
 * the only protection.
 */
static void marker_rules(void **state)
{
	(void)state;
	ref_init(&ref, 100, true, false);
	ref_fpdu(&ref, 700, 4);
	uint32_t mark = 512 - 100;
	for (uint32_t bit = 0; bit < 32; bit++)
		for (uint32_t cut = mark - 2; cut < mark + 7; cut++) {
			struct rn_iov iov[2] = { { ref.buf, cut }, { ref.buf + cut, ref.len - cut } };
			enum mpa_rx_verdict want = bit < 16 || bit >= 30 ? MPA_RX_MORE : MPA_RX_BAD_MARKER, r;
			struct mpa_rx rx;
			uint32_t k = 0;

			ref.buf[mark + bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
			start(&rx, &ref);
			r = feed(&rx, iov, 2, &ref, &k); /* the FPDU as a view */
			assert_int_equal(r, want);
			start(&rx, &ref);
			k = 0;
			r = feed(&rx, iov, 1, &ref, &k); /* the FPDU by the stage */
			if (r == MPA_RX_MORE)
				r = feed(&rx, iov + 1, 1, &ref, &k);
			assert_int_equal(r, want);
			ref.buf[mark + bit / 8] ^= (uint8_t)(0x80 >> bit % 8);
		}
	assert_int_equal(mpa_rx_err(MPA_RX_BAD_MARKER).code, IW_MPA_MARKER);
}

static void marker_before_the_first_fpdu(void **state)
{
	struct mpa_rx rx;
	uint32_t k = 0;

	(void)state;
	ref_init(&ref, 0, true, true);
	ref_fpdu(&ref, 40, 4);
	assert_memory_equal(ref.buf, "\0\0\0\0\0\x28", 6);
	ref.buf[3] = 4;
	start(&rx, &ref);
	struct rn_iov all = { ref.buf, ref.len };
	assert_int_equal(feed(&rx, &all, 1, &ref, &k), MPA_RX_BAD_MARKER);
}

/* Markers are expected and none are sent: the stream is refused. */
static void markers_in_the_wrong_direction(void **state)
{
	struct mpa_rx rx;
	uint32_t k = 0;

	(void)state;
	ref_init(&ref, 0, false, true);
	ref_fpdu(&ref, 1000, 4);
	mpa_rx_init(&rx, MPA_MARKER_STEP, true);
	struct rn_iov all = { ref.buf, ref.len };
	enum mpa_rx_verdict r = feed(&rx, &all, 1, &ref, &k);
	assert_true(r == MPA_RX_BAD_MARKER || r == MPA_RX_TOO_SHORT);
}

static void stage_is_lent_and_returned(void **state)
{
	struct mpa_rx_in in;
	struct mpa_view v;
	struct mpa_rx rx;
	uint8_t small[16];

	(void)state;
	ref_init(&ref, 0, false, true);
	ref_fpdu(&ref, 100, 4);
	struct rn_iov a = { ref.buf, 60 }, b = { ref.buf + 60, ref.len - 60 };
	mpa_rx_init(&rx, 0, true);
	assert_null(mpa_rx_take_stage(&rx));
	mpa_rx_input(&in, &a, 1);
	assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_NEED_STAGE);
	assert_int_equal(mpa_rx_stage_need(&rx), 106);
	assert_false(mpa_rx_give_stage(&rx, small, sizeof(small)));
	assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_NEED_STAGE);
	assert_true(mpa_rx_give_stage(&rx, stage, 106));
	assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_MORE);
	assert_false(mpa_rx_idle(&rx));
	assert_null(mpa_rx_take_stage(&rx));
	assert_false(mpa_rx_give_stage(&rx, stage, sizeof(stage))); /* not in the middle of an FPDU */
	mpa_rx_input(&in, &b, 1);
	assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_FPDU);
	assert_true(v.staged);
	is_fpdu(&v, &ref, 0);
	assert_ptr_equal(mpa_rx_take_stage(&rx), stage);
}

static void head_of_a_view(void **state)
{
	(void)state;
	ref_init(&ref, 500, true, true); /* a marker falls into the DDP header */
	ref_fpdu(&ref, 100, 4);
	struct rn_iov all = { ref.buf, ref.len };
	uint8_t scratch[DDP_MAX_HDR_LEN];
	struct mpa_rx_in in;
	struct mpa_view v;
	struct mpa_rx rx;
	start(&rx, &ref);
	mpa_rx_input(&in, &all, 1);
	assert_int_equal(mpa_rx_next(&rx, &in, &v), MPA_RX_FPDU);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.ulpdu[0].len, 10);
	assert_ptr_equal(mpa_view_head(&v, scratch, 10), ref.buf + 2);
	const uint8_t *h = mpa_view_head(&v, scratch, 18);
	assert_ptr_equal(h, scratch);
	for (uint32_t i = 0; i < 18; i++)
		assert_int_equal(h[i], ref_octet(4, i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unmarked_every_split),
		cmocka_unit_test(every_phase_every_split),
		cmocka_unit_test(wrap_of_the_offset),
		cmocka_unit_test(octet_by_octet),
		cmocka_unit_test(chains_are_views),
		cmocka_unit_test(crumbs_are_staged),
		cmocka_unit_test(random_streams),
		cmocka_unit_test(markers_that_stand_elsewhere),
		cmocka_unit_test(the_spacing_of_a_sender_is_found),
		cmocka_unit_test(largest_fpdu),
		cmocka_unit_test(short_lengths_are_refused),
		cmocka_unit_test(empty_fpdu_has_its_own_verdict),
		cmocka_unit_test(any_changed_octet_is_noticed),
		cmocka_unit_test(marker_rules),
		cmocka_unit_test(marker_before_the_first_fpdu),
		cmocka_unit_test(markers_in_the_wrong_direction),
		cmocka_unit_test(stage_is_lent_and_returned),
		cmocka_unit_test(head_of_a_view),
	};

	return cmocka_run_group_tests_name("mpa_rx", tests, NULL, NULL);
}
