/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/rdmap_wire.h"

/* test/captures/err_08: the Read Request that one siw sent, and the Terminate that the other siw answered. */
static const uint8_t siw_read_seg[] = {
	0x41, 0x41, 0,    0,    0,    0,    0, 0, 0,    1,    0,    0,    0,    1,    0, 0,
	0,    0,    0x59, 0xd1, 0x32, 0x00, 0, 0, 0x7f, 0x5f, 0xb9, 0xc1, 0x50, 0x00, 0, 0,
	0,    0x40, 0xe1, 0x67, 0x49, 0x00, 0, 0, 0x7f, 0xe9, 0xbc, 0x14, 0xe0, 0x00,
};
static const uint8_t siw_term_read[] = {
	0x10, 0x00, 0x07, 0x00, 0x00, 0x00, 0x41, 0x41, 0,    0,    0,    0,    0,    0,    0,    1,    0,    0,
	0,    0x40, 0,    0,    0,    0,    0x59, 0xd1, 0x32, 0x00, 0,    0,    0x7f, 0x5f, 0xb9, 0xc1, 0x50, 0x00,
	0,    0,    0,    0x40, 0xe1, 0x67, 0x49, 0x00, 0,    0,    0x7f, 0xe9, 0xbc, 0x14, 0xe0, 0x00,
};
/* err_04 */
static const uint8_t siw_term_write[] = { 0x11, 0x00, 0x03, 0x00, 0x00, 0x40, 0xc1, 0x40, 0x74, 0x37,
					  0xa7, 0x00, 0x00, 0x00, 0x7f, 0xc6, 0x95, 0xc5, 0x40, 0x00 };

static void read_request_golden(void **state)
{
	struct rdmap_read_req r;
	uint8_t b[RDMAP_READ_REQ_LEN];

	(void)state;
	rdmap_read_req_parse(siw_read_seg + 18, &r);
	assert_int_equal(r.sink_stag, 0x59d13200);
	assert_true(r.sink_to == 0x7f5fb9c15000);
	assert_int_equal(r.len, 64);
	assert_int_equal(r.src_stag, 0xe1674900);
	assert_true(r.src_to == 0x7fe9bc14e000);
	rdmap_read_req_build(b, &r);
	assert_memory_equal(b, siw_read_seg + 18, sizeof(b));
}

static void siw_terminates(void **state)
{
	struct rdmap_term t;

	(void)state;
	assert_int_equal(rdmap_term_parse(siw_term_read, sizeof(siw_term_read), &t), RDMAP_TERM_OK);
	assert_int_equal(t.form, RDMAP_TERM_SWAPPED);
	assert_int_equal(t.err.layer, IW_LAYER_RDMAP);
	assert_int_equal(t.err.etype, IW_RDMAP_PROTECTION);
	assert_int_equal(t.err.code, IW_RP_STAG_INVALID);
	assert_int_equal(t.err.hdrct, 0xe0);
	assert_int_equal(t.ddp_len, 18);
	assert_true(t.has_read_req);
	assert_int_equal(t.read_req.src_stag, 0xe1674900);
	assert_int_equal(t.read_req.len, 64);

	assert_int_equal(rdmap_term_parse(siw_term_write, sizeof(siw_term_write), &t), RDMAP_TERM_OK);
	assert_int_equal(t.form, RDMAP_TERM_SWAPPED);
	assert_int_equal(t.err.layer, IW_LAYER_DDP);
	assert_int_equal(t.err.etype, IW_DDP_TAGGED);
	assert_int_equal(t.segment_len, 64);
	assert_int_equal(t.ddp_len, 14);
	assert_memory_equal(t.ddp, siw_term_write + 6, 14);
	assert_false(t.has_read_req);
}

/* Control words alone: siw's as captured, and the form of the RFC with the same meaning. */
static void bare_terminates(void **state)
{
	static const struct {
		uint8_t b[4];
		enum rdmap_term_form form;
		struct iw_err err;
	} cases[] = {
		{ { 0x02, 0x02, 0, 0 }, RDMAP_TERM_SWAPPED, { 2, 0, 2, 0 } },
		{ { 0x02, 0x03, 0, 0 }, RDMAP_TERM_SWAPPED, { 2, 0, 3, 0 } },
		{ { 0x20, 0x02, 0, 0 }, RDMAP_TERM_RFC, { 2, 0, 2, 0 } },
		{ { 0x20, 0x01, 0, 0 }, RDMAP_TERM_RFC, { 2, 0, 1, 0 } },
		{ { 0x21, 0x06, 0, 0 }, RDMAP_TERM_SWAPPED, { 1, 2, 6, 0 } },
		{ { 0x12, 0x06, 0, 0 }, RDMAP_TERM_RFC, { 1, 2, 6, 0 } },
		/* both readings have a meaning: the RFC's is returned, and the form says that it is a guess */
		{ { 0x20, 0x06, 0, 0 }, RDMAP_TERM_EITHER, { 2, 0, 6, 0 } },
		{ { 0x02, 0x07, 0, 0 }, RDMAP_TERM_EITHER, { 0, 2, 7, 0 } },
		{ { 0x11, 0x01, 0, 0 }, RDMAP_TERM_EITHER, { 1, 1, 1, 0 } },
		{ { 0x00, 0x00, 0, 0 }, RDMAP_TERM_EITHER, { 0, 0, 0, 0 } },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(cases); i++) {
		struct rdmap_term t;

		assert_int_equal(rdmap_term_parse(cases[i].b, 4, &t), RDMAP_TERM_OK);
		assert_int_equal(t.form, cases[i].form);
		assert_memory_equal(&t.err, &cases[i].err, sizeof(t.err));
	}
}

static void short_unknown_and_cut(void **state)
{
	struct rdmap_term t;

	(void)state;
	for (uint32_t n = 0; n < 4; n++)
		assert_int_equal(rdmap_term_parse(siw_term_read, n, &t), RDMAP_TERM_SHORT);
	for (uint32_t n = 4; n < sizeof(siw_term_read); n++) {
		uint8_t exact[sizeof(siw_term_read)];
		uint8_t *p = exact + sizeof(exact) - n;

		memcpy(p, siw_term_read, n);
		assert_int_equal(rdmap_term_parse(p, n, &t), RDMAP_TERM_CUT);
		assert_int_equal(t.err.layer, IW_LAYER_RDMAP);
		assert_false(t.has_read_req);
	}
	assert_int_equal(rdmap_term_parse((const uint8_t[4]){ 0x55, 0x66, 0, 0 }, 4, &t), RDMAP_TERM_UNKNOWN);
	assert_string_equal(iw_err_text(t.err), "unknown");
}

/* Every error that an RFC names is built, and reads back in the RFC's form. */
static void build_and_read_back(void **state)
{
	uint8_t seg[46];

	(void)state;
	memcpy(seg, siw_read_seg, sizeof(seg));
	for (uint32_t layer = 0; layer < 3; layer++)
		for (uint32_t etype = 0; etype < 3; etype++)
			for (uint32_t code = 0; code < 256; code++)
				for (uint32_t rr = 0; rr < 2; rr++) {
					struct iw_err e = iw_err_of(layer, etype, code, rr);
					uint8_t b[RDMAP_TERM_MAX_LEN];
					struct rdmap_term t;
					uint32_t n = rdmap_term_build(b, e, seg, sizeof(seg));

					assert_true(n <= sizeof(b));
					if (!iw_err_known(e))
						continue;
					assert_int_equal(rdmap_term_parse(b, n, &t), RDMAP_TERM_OK);
					assert_int_not_equal(t.form, RDMAP_TERM_SWAPPED);
					assert_memory_equal(&t.err, &e, sizeof(e));
					assert_int_equal(t.ddp_len, e.hdrct ? 18 : 0);
					assert_int_equal(t.has_read_req, (e.hdrct & IW_HDRCT_RDMAP) != 0);
					assert_int_equal(t.segment_len, e.hdrct ? 46 : 0);
				}
}

static void terminate_as_octets(void **state)
{
	/* RFC 5040 figure 8: layer 1 (DDP), type 1 (tagged), code 1; M and D set; segment length 78; tagged header. */
	static const uint8_t want[] = { 0x11, 0x01, 0xc0, 0x00, 0x00, 0x4e, 0xc1, 0x40, 0x74, 0x37,
					0xa7, 0x00, 0x00, 0x00, 0x7f, 0xc6, 0x95, 0xc5, 0x40, 0x00 };
	uint8_t b[RDMAP_TERM_MAX_LEN], seg[78] = { 0 };

	(void)state;
	memcpy(seg, siw_term_write + 6, 14);
	assert_int_equal(rdmap_term_build(b, iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, false), seg, 78),
			 sizeof(want));
	assert_memory_equal(b, want, sizeof(want));
}

static void headers_that_are_not_there_are_not_copied(void **state)
{
	struct iw_err e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, true);
	uint8_t b[RDMAP_TERM_MAX_LEN];

	(void)state;
	assert_int_equal(rdmap_term_build(b, e, NULL, 0), 4);
	assert_int_equal(b[2], 0);
	assert_int_equal(rdmap_term_build(b, e, siw_read_seg, 17), 4);
	assert_int_equal(rdmap_term_build(b, e, siw_read_seg, 45), 4 + 2 + 18);
	assert_int_equal(b[2], 0xc0);
	assert_int_equal(rdmap_term_build(b, e, siw_read_seg, 46), RDMAP_TERM_MAX_LEN);
	assert_int_equal(b[2], 0xe0);
}

static void texts(void **state)
{
	(void)state;
	assert_string_equal(iw_err_text(iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CRC, false)), "MPA: CRC error");
	assert_string_equal(iw_err_text((struct iw_err){ 9, 9, 9, 0 }), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_request_golden),
		cmocka_unit_test(siw_terminates),
		cmocka_unit_test(bare_terminates),
		cmocka_unit_test(short_unknown_and_cut),
		cmocka_unit_test(build_and_read_back),
		cmocka_unit_test(terminate_as_octets),
		cmocka_unit_test(headers_that_are_not_there_are_not_copied),
		cmocka_unit_test(texts),
	};

	return cmocka_run_group_tests_name("rdmap_wire", tests, NULL, NULL);
}
