/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "iwarp/mpa_fpdu.h"
#include "iwarp/mpa_neg.h"

static const struct mpa_policy plain = {
	.rev = 2, .crc = true, .rtr = MPA_RTR_WRITE | MPA_RTR_READ, .ird = 16, .ord = 8
};

/* Feeds a whole frame at once. */
static enum mpa_neg_verdict parse(struct mpa_neg_rx *rx, bool reply, const uint8_t *p, uint32_t n, struct mpa_frame *f)
{
	uint32_t used;

	mpa_neg_rx_init(rx, reply);
	return mpa_neg_feed(rx, p, n, &used, f);
}

static uint32_t raw(uint8_t *b, bool reply, uint8_t flags, uint8_t rev, uint16_t pd_len)
{
	memcpy(b, reply ? "MPA ID Rep Frame" : "MPA ID Req Frame", 16);
	b[16] = flags;
	b[17] = rev;
	rn_store_be16(b + 18, pd_len);
	for (uint32_t i = 0; i < pd_len && i < MPA_PD_MAX; i++)
		b[20 + i] = (uint8_t)i;
	return 20u + pd_len;
}

/* Runs the functions of both sides against each other with the policies i and r; ai and ar are the results. */
static enum mpa_neg_verdict talk(const struct mpa_policy *i, const struct mpa_policy *r, struct mpa_agreed *ai,
				 struct mpa_agreed *ar, enum mpa_neg_verdict *accept)
{
	struct mpa_neg_rx rx;
	struct mpa_frame f;
	struct mpa_out out;

	assert_int_equal(mpa_neg_request(i, (const uint8_t *)"ask", 3, &out), MPA_NEG_OK);
	assert_int_equal(parse(&rx, false, out.buf, out.len, &f), MPA_NEG_OK);
	assert_int_equal(f.pd_len, 3);
	assert_memory_equal(f.pd, "ask", 3);
	*accept = mpa_neg_accept(r, &f, (const uint8_t *)"tell", 4, &out, ar);
	assert_int_equal(parse(&rx, true, out.buf, out.len, &f), MPA_NEG_OK);
	assert_memory_equal(f.pd, "tell", 4);
	return mpa_neg_finish(i, &f, ai);
}

static void agree(const struct mpa_policy *i, const struct mpa_policy *r, struct mpa_agreed *ai, struct mpa_agreed *ar)
{
	enum mpa_neg_verdict accept;

	assert_int_equal(talk(i, r, ai, ar, &accept), MPA_NEG_OK);
	assert_int_equal(accept, MPA_NEG_OK);
	assert_int_equal(ai->crc, ar->crc);
	assert_int_equal(ai->rev, ar->rev);
	assert_int_equal(ai->rtr, ar->rtr);
	assert_int_equal(ai->tx_markers, ar->rx_markers);
	assert_int_equal(ai->rx_markers, ar->tx_markers);
}

static void every_split_of_a_reply(void **state)
{
	uint8_t b[MPA_FRAME_MAX + 40];
	uint32_t len = raw(b, true, MPA_F_ENHANCED | MPA_F_CRC, 2, 40);

	(void)state;
	memset(b + len, 0x5a, 40); /* the first FPDU, in the same segment */
	for (uint32_t cut = 0; cut <= len + 40; cut++) {
		struct mpa_neg_rx rx;
		struct mpa_frame f;
		uint32_t used, used2 = 0;
		enum mpa_neg_verdict v;

		mpa_neg_rx_init(&rx, true);
		v = mpa_neg_feed(&rx, b, cut, &used, &f);
		assert_int_equal(used, cut < len ? cut : len);
		assert_int_equal(v, cut < len ? MPA_NEG_MORE : MPA_NEG_OK);
		if (v == MPA_NEG_MORE)
			v = mpa_neg_feed(&rx, b + cut, len + 40 - cut, &used2, &f);
		assert_int_equal(v, MPA_NEG_OK);
		assert_int_equal(used + used2, len);
		assert_int_equal(f.pd_len, 36);
		assert_int_equal(f.ird, 0x0001);
		assert_int_equal(f.ord, 0x0203);
		assert_memory_equal(f.pd, b + 24, 36);
	}
}

static void octet_by_octet(void **state)
{
	uint8_t b[MPA_FRAME_MAX];
	uint32_t len = raw(b, false, 0, 1, MPA_PD_MAX);
	struct mpa_neg_rx rx;
	struct mpa_frame f;
	uint32_t used;

	(void)state;
	mpa_neg_rx_init(&rx, false);
	for (uint32_t i = 0; i < len; i++) {
		assert_int_equal(mpa_neg_feed(&rx, b + i, 1, &used, &f), i + 1 < len ? MPA_NEG_MORE : MPA_NEG_OK);
		assert_int_equal(used, 1);
	}
	assert_int_equal(f.pd_len, MPA_PD_MAX);
}

static void wrong_key_is_seen_at_its_octet(void **state)
{
	(void)state;
	for (uint32_t at = 0; at < MPA_KEY_LEN; at++) {
		uint8_t b[MPA_FRAME_MAX];
		struct mpa_neg_rx rx;
		struct mpa_frame f;
		uint32_t used;

		raw(b, false, 0, 1, 0);
		b[at] ^= 0x20;
		mpa_neg_rx_init(&rx, false);
		if (at > 0)
			assert_int_equal(mpa_neg_feed(&rx, b, at, &used, &f), MPA_NEG_MORE);
		assert_int_equal(mpa_neg_feed(&rx, b + at, 1, &used, &f), MPA_NEG_BAD_KEY);
	}
}

static void request_is_no_reply(void **state)
{
	uint8_t b[MPA_FRAME_MAX];
	struct mpa_neg_rx rx;
	struct mpa_frame f;

	(void)state;
	assert_int_equal(parse(&rx, true, b, raw(b, false, 0, 1, 0), &f), MPA_NEG_BAD_KEY);
	assert_int_equal(parse(&rx, false, b, raw(b, true, 0, 1, 0), &f), MPA_NEG_BAD_KEY);
}

static void revisions(void **state)
{
	uint8_t b[MPA_FRAME_MAX];
	struct mpa_neg_rx rx;
	struct mpa_frame f;

	(void)state;
	for (uint32_t rev = 0; rev < 256; rev++) {
		enum mpa_neg_verdict want = rev == 0 ? MPA_NEG_REV_0 : rev > 2 ? MPA_NEG_REV_UNKNOWN : MPA_NEG_OK;

		assert_int_equal(parse(&rx, false, b, raw(b, false, 0, (uint8_t)rev, 0), &f), want);
		assert_int_equal(parse(&rx, true, b, raw(b, true, 0, (uint8_t)rev, 0), &f), want);
	}
}

static void private_data_of_513_octets(void **state)
{
	uint8_t b[MPA_FRAME_MAX + 8];
	struct mpa_neg_rx rx;
	struct mpa_frame f;
	struct mpa_out out;

	(void)state;
	raw(b, false, 0, 1, 512);
	assert_int_equal(parse(&rx, false, b, 532, &f), MPA_NEG_OK);
	rn_store_be16(b + 18, 513);
	/* refused at once, not only after 513 octets */
	assert_int_equal(parse(&rx, false, b, 20, &f), MPA_NEG_PD_TOO_LONG);
	rn_store_be16(b + 18, 65535);
	assert_int_equal(parse(&rx, false, b, 20, &f), MPA_NEG_PD_TOO_LONG);
	assert_int_equal(mpa_neg_pd_max(&plain), 508);
	assert_int_equal(mpa_neg_request(&plain, b, 508, &out), MPA_NEG_OK);
	assert_int_equal(out.len, MPA_FRAME_MAX);
	assert_int_equal(mpa_neg_request(&plain, b, 509, &out), MPA_NEG_PD_TOO_LONG);
	assert_int_equal(mpa_neg_request(&plain, b, UINT32_MAX, &out), MPA_NEG_PD_TOO_LONG);
}

static void enhanced_words_missing(void **state)
{
	uint8_t b[MPA_FRAME_MAX];
	struct mpa_neg_rx rx;
	struct mpa_frame f;
	struct mpa_agreed a;

	(void)state;
	for (uint16_t n = 0; n < 4; n++) {
		assert_int_equal(parse(&rx, false, b, raw(b, false, MPA_F_ENHANCED, 2, n), &f), MPA_NEG_PD_SHORT);
		assert_int_equal(parse(&rx, true, b, raw(b, true, MPA_F_ENHANCED, 2, n), &f), MPA_NEG_PD_SHORT);
		/* a Reply that rejects is accepted nevertheless */
		assert_int_equal(parse(&rx, true, b, raw(b, true, MPA_F_ENHANCED | MPA_F_REJECT, 2, n), &f),
				 MPA_NEG_OK);
		assert_int_equal(mpa_neg_finish(&plain, &f, &a), MPA_NEG_REJECTED);
		/* in revision 1 the bit S has no meaning */
		assert_int_equal(parse(&rx, false, b, raw(b, false, MPA_F_ENHANCED, 1, n), &f), MPA_NEG_OK);
		assert_false(f.enhanced);
		assert_int_equal(f.pd_len, n);
	}
}

static void enhanced_words_bit_by_bit(void **state)
{
	uint8_t b[MPA_FRAME_MAX], again[MPA_FRAME_MAX];
	struct mpa_neg_rx rx;
	struct mpa_frame f;

	(void)state;
	for (uint32_t bit = 0; bit < 32; bit++) {
		uint32_t len = raw(b, false, MPA_F_ENHANCED, 2, 4);

		rn_store_be32(b + 20, UINT32_C(0x80000000) >> bit);
		assert_int_equal(parse(&rx, false, b, len, &f), MPA_NEG_OK);
		assert_int_equal(f.p2p, bit == 0);
		assert_int_equal(f.rtr, bit == 1    ? MPA_RTR_SEND
					: bit == 16 ? MPA_RTR_WRITE
					: bit == 17 ? MPA_RTR_READ
						    : 0);
		assert_int_equal(f.ird, bit >= 2 && bit < 16 ? 1 << (15 - bit) : 0);
		assert_int_equal(f.ord, bit >= 18 ? 1 << (31 - bit) : 0);
		assert_int_equal(mpa_neg_build(&f, again), len);
		assert_memory_equal(again, b, len);
	}
}

/* RFC 5044 section 7.1.1: the CRC is used if either side asks for it. */
static void crc_asked_by_one_side_only(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		for (int r = 0; r < 2; r++) {
			struct mpa_policy pi = plain, pr = plain;
			struct mpa_agreed ai, ar;

			pi.crc = i;
			pr.crc = r;
			agree(&pi, &pr, &ai, &ar);
			assert_int_equal(ai.crc, i || r);
		}
}

/*
 * The Reply has no C flag although the Request had one. The CRC was asked for, so it is used nevertheless, or
 * (crc_must) the connection is refused.
 */
static void reply_without_the_c_asked_for(void **state)
{
	struct mpa_policy p = plain;
	uint8_t b[MPA_FRAME_MAX];
	struct mpa_neg_rx rx;
	struct mpa_agreed a;
	struct mpa_frame f;

	(void)state;
	assert_int_equal(parse(&rx, true, b, raw(b, true, 0, 2, 0), &f), MPA_NEG_OK);
	assert_int_equal(mpa_neg_finish(&p, &f, &a), MPA_NEG_OK);
	assert_true(a.crc);
	p.crc_must = true;
	assert_int_equal(mpa_neg_finish(&p, &f, &a), MPA_NEG_NO_CRC);
}

static void markers_each_direction_on_its_own(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		for (int r = 0; r < 2; r++) {
			struct mpa_policy pi = plain, pr = plain;
			struct mpa_agreed ai, ar;

			pi.markers = i;
			pr.markers = r;
			agree(&pi, &pr, &ai, &ar);
			assert_int_equal(ai.rx_markers, i ? MPA_MARKER_STEP : 0);
			assert_int_equal(ai.tx_markers, r ? MPA_MARKER_STEP : 0);
		}
}

static void markers_refused(void **state)
{
	struct mpa_policy pi = plain, pr = plain;
	struct mpa_agreed ai, ar;
	enum mpa_neg_verdict accept;

	(void)state;
	pi.markers = pr.no_markers = true;
	assert_int_equal(talk(&pi, &pr, &ai, &ar, &accept), MPA_NEG_REJECTED);
	assert_int_equal(accept, MPA_NEG_NO_MARKERS);
	pi = plain;
	pr = plain;
	pr.markers = pi.no_markers = true;
	assert_int_equal(talk(&pi, &pr, &ai, &ar, &accept), MPA_NEG_NO_MARKERS);
}

static void depths_meet_crosswise(void **state)
{
	struct mpa_policy pi = plain, pr = plain;
	struct mpa_agreed ai, ar;

	(void)state;
	pi.ird = 4;
	pi.ord = 100;
	pr.ird = 32;
	pr.ord = 2;
	agree(&pi, &pr, &ai, &ar);
	assert_int_equal(ai.ord, 32);
	assert_int_equal(ar.ird, 32);
	assert_int_equal(ai.ird, 2);
	assert_int_equal(ar.ord, 2);
	assert_true(ai.enhanced && ar.enhanced);
}

static void depths_not_negotiated(void **state)
{
	struct mpa_policy pi = plain;
	struct mpa_agreed ai, ar;

	(void)state;
	pi.ird = pi.ord = MPA_DEPTH_NONE;
	agree(&pi, &plain, &ai, &ar);
	assert_int_equal(ar.ird, plain.ird);
	assert_int_equal(ar.ord, plain.ord);
	assert_int_equal(ai.ord, plain.ird);
}

static void responder_reads_deeper_than_we_serve(void **state)
{
	struct mpa_policy p = plain;
	struct mpa_frame rep = { .reply = true, .rev = 2, .enhanced = true, .ird = 8, .ord = 17 };
	struct mpa_agreed a;
	struct iw_err e;

	(void)state;
	assert_int_equal(mpa_neg_finish(&p, &rep, &a), MPA_NEG_IRD_SHORT);
	assert_true(mpa_neg_err(MPA_NEG_IRD_SHORT, &e));
	assert_memory_equal(&e, (&(struct iw_err){ 2, 0, 6, 0 }), sizeof(e));
	p.ird_max = 17;
	assert_int_equal(mpa_neg_finish(&p, &rep, &a), MPA_NEG_OK);
	assert_int_equal(a.ird, 17);
	rep.ord = MPA_DEPTH_NONE;
	assert_int_equal(mpa_neg_finish(&p, &rep, &a), MPA_NEG_OK);
	assert_int_equal(a.ird, p.ird);
}

static void each_rtr_kind(void **state)
{
	(void)state;
	for (uint8_t offer = 0; offer < 8; offer++)
		for (uint8_t take = 0; take < 8; take++) {
			struct mpa_policy pi = plain, pr = plain;
			struct mpa_agreed ai, ar;
			enum mpa_neg_verdict accept, finish;
			struct iw_err e;

			pi.p2p = true;
			pi.rtr = offer;
			pr.rtr = take;
			finish = talk(&pi, &pr, &ai, &ar, &accept);
			if (offer & take) {
				assert_int_equal(accept, MPA_NEG_OK);
				assert_int_equal(finish, MPA_NEG_OK);
				assert_int_equal(ai.rtr, ar.rtr);
				assert_true(ai.rtr & offer & take);
				assert_true(rn_is_pow2(ai.rtr));
				assert_true(ai.p2p && ar.p2p);
				continue;
			}
			assert_int_equal(accept, MPA_NEG_NO_RTR);
			assert_int_equal(finish, MPA_NEG_NO_RTR);
			assert_true(mpa_neg_err(finish, &e));
			assert_memory_equal(&e, (&(struct iw_err){ 2, 0, 7, 0 }), sizeof(e));
		}
}

/* A Read as RTR message is not chosen if the initiator's ORD, or the IRD that the responder offers, allows no Read. */
static void read_rtr_needs_depth(void **state)
{
	struct mpa_policy pi = plain, pr = plain;
	struct mpa_agreed ai, ar;
	enum mpa_neg_verdict accept;

	(void)state;
	pi.p2p = true;
	pi.rtr = MPA_RTR_READ | MPA_RTR_SEND;
	pr.rtr = MPA_RTR_READ | MPA_RTR_SEND;
	pi.ord = 0;
	agree(&pi, &pr, &ai, &ar);
	assert_int_equal(ai.rtr, MPA_RTR_SEND);
	pi.rtr = MPA_RTR_READ;
	assert_int_equal(talk(&pi, &pr, &ai, &ar, &accept), MPA_NEG_NO_RTR);

	/* A responder chooses the Read although its IRD is 0. */
	struct mpa_frame rep = { .reply = true, .rev = 2, .enhanced = true, .p2p = true, .rtr = MPA_RTR_READ };
	pi.ord = 4;
	assert_int_equal(mpa_neg_finish(&pi, &rep, &ai), MPA_NEG_NO_RTR);
	rep.ird = 1;
	assert_int_equal(mpa_neg_finish(&pi, &rep, &ai), MPA_NEG_OK);
}

/* A responder that chooses several kinds of RTR leaves the choice to the initiator. */
static void reply_with_two_kinds(void **state)
{
	struct mpa_policy p = plain;
	struct mpa_frame rep = { .reply = true,
				 .rev = 2,
				 .enhanced = true,
				 .p2p = true,
				 .ird = 8,
				 .ord = 8,
				 .rtr = MPA_RTR_SEND | MPA_RTR_READ };
	struct mpa_agreed a;

	(void)state;
	p.p2p = true;
	assert_int_equal(mpa_neg_finish(&p, &rep, &a), MPA_NEG_OK);
	assert_int_equal(a.rtr, MPA_RTR_READ);
}

static void revision_1_on_either_side(void **state)
{
	struct mpa_policy one = plain;
	struct mpa_agreed ai, ar;

	(void)state;
	one.rev = 1;
	agree(&one, &plain, &ai, &ar); /* the Reply comes in the Request's revision */
	assert_int_equal(ai.rev, 1);
	assert_false(ai.enhanced || ar.enhanced);
	assert_int_equal(ar.ord, plain.ord);
	agree(&plain, &one, &ai, &ar); /* an initiator of revision 2 accepts a Reply of revision 1 */
	assert_int_equal(ai.rev, 1);
	assert_int_equal(ai.ird, plain.ird);
	agree(&one, &one, &ai, &ar);
	assert_int_equal(mpa_neg_pd_max(&one), 512);
}

static void reply_above_the_requests_revision(void **state)
{
	struct mpa_policy one = plain;
	struct mpa_frame rep = { .reply = true, .rev = 2 };
	struct mpa_agreed a;

	(void)state;
	one.rev = 1;
	assert_int_equal(mpa_neg_finish(&one, &rep, &a), MPA_NEG_REV_UNKNOWN);
	rep.flags = MPA_F_REJECT;
	assert_int_equal(mpa_neg_finish(&one, &rep, &a), MPA_NEG_REJECTED);
}

static void reject_carries_private_data(void **state)
{
	struct mpa_neg_rx rx;
	struct mpa_agreed a;
	struct mpa_frame f;
	struct mpa_out out;
	struct iw_err e;

	(void)state;
	assert_int_equal(mpa_neg_request(&plain, NULL, 0, &out), MPA_NEG_OK);
	assert_int_equal(parse(&rx, false, out.buf, out.len, &f), MPA_NEG_OK);
	assert_int_equal(mpa_neg_reject(&plain, &f, (const uint8_t *)"no", 2, &out), MPA_NEG_OK);
	assert_int_equal(parse(&rx, true, out.buf, out.len, &f), MPA_NEG_OK);
	assert_true(f.enhanced);
	assert_int_equal(f.pd_len, 2);
	assert_memory_equal(f.pd, "no", 2);
	assert_int_equal(mpa_neg_finish(&plain, &f, &a), MPA_NEG_REJECTED);
	assert_false(mpa_neg_err(MPA_NEG_REJECTED, &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split_of_a_reply),
		cmocka_unit_test(octet_by_octet),
		cmocka_unit_test(wrong_key_is_seen_at_its_octet),
		cmocka_unit_test(request_is_no_reply),
		cmocka_unit_test(revisions),
		cmocka_unit_test(private_data_of_513_octets),
		cmocka_unit_test(enhanced_words_missing),
		cmocka_unit_test(enhanced_words_bit_by_bit),
		cmocka_unit_test(crc_asked_by_one_side_only),
		cmocka_unit_test(reply_without_the_c_asked_for),
		cmocka_unit_test(markers_each_direction_on_its_own),
		cmocka_unit_test(markers_refused),
		cmocka_unit_test(depths_meet_crosswise),
		cmocka_unit_test(depths_not_negotiated),
		cmocka_unit_test(responder_reads_deeper_than_we_serve),
		cmocka_unit_test(each_rtr_kind),
		cmocka_unit_test(read_rtr_needs_depth),
		cmocka_unit_test(reply_with_two_kinds),
		cmocka_unit_test(revision_1_on_either_side),
		cmocka_unit_test(reply_above_the_requests_revision),
		cmocka_unit_test(reject_carries_private_data),
	};

	return cmocka_run_group_tests_name("mpa_neg", tests, NULL, NULL);
}
