/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "crc32c/crc32c.h"
#include "udp/udpl.h"
#include "udp/udpl_sidr.h"

/* The vectors of doc/datagram-iwarp.md; test_document.py builds them with a CRC and headers of its own. */
static const uint8_t wire_send[] = {
	0x10, 0x01, 0x01, 0x00, 0x00, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd, 0xef, 0x11, 0x11, 0x11, 0x11, 0x00,
	0x00, 0x00, 0x00, 0x41, 0x43, 0xde, 0xad, 0xbe, 0xef, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07,
	0x00, 0x00, 0x00, 0x00, 0x64, 0x61, 0x74, 0x61, 0x67, 0x72, 0x61, 0x6d, 0x2b, 0x98, 0x6e, 0x64,
};
static const uint8_t wire_request[] = {
	0x10, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x00, 0x00, 0x1c, 0x06,
	0x00, 0x00, 0x9c, 0x41, 0x00, 0x00, 0x00, 0x00, 0x70, 0x69, 0x6e, 0x67, 0xe7, 0x61, 0x00, 0x88,
};
static const uint8_t wire_reply[] = {
	0x10, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x00, 0x00,
	0x1c, 0x06, 0x00, 0x00, 0x00, 0x42, 0x01, 0x23, 0x45, 0x67, 0xfa, 0x09, 0xe9, 0x48,
};

static const uint8_t wire_segment[] = {
	0x10, 0x04, 0x00, 0x01, 0x00, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd, 0xef, 0x11, 0x11, 0x11, 0x11,
	0x00, 0x00, 0x00, 0x96, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x08, 0x00, 0x00, 0x00, 0x80, 0x74, 0x68, 0x65, 0x20, 0x65, 0x6e, 0x64, 0x20, 0x6f, 0x66,
	0x20, 0x74, 0x68, 0x65, 0x20, 0x6d, 0x65, 0x73, 0x73, 0x61, 0x67, 0x65, 0x4d, 0x3f, 0x06, 0xfd,
};

static const uint8_t wire_large[] = { 0x13, 0x04, 0x00, 0xfd, 0x00, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd, 0xef,
				      0x11, 0x11, 0x11, 0x11, 0x00, 0x00, 0xff, 0x50, 0x41, 0x43, 0x00, 0x00,
				      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00,
				      0xff, 0x40, 0x74, 0x68, 0x65, 0x20, 0x65, 0x6e, 0x64, 0x20, 0x6f, 0x66,
				      0x20, 0x74, 0x68, 0x65, 0x20, 0x6d, 0x5c, 0xbc, 0x09, 0x07 };
static const uint8_t wire_record[] = {
	0x10, 0x05, 0x01, 0x01, 0x00, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd, 0xef, 0x11, 0x11, 0x11,
	0x11, 0x00, 0x00, 0x00, 0x48, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x40, 0xde, 0xad,
	0xbe, 0xef, 0xc1, 0x40, 0x12, 0x34, 0x56, 0x78, 0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10,
	0x40, 0x72, 0x65, 0x63, 0x6f, 0x72, 0x64, 0x65, 0x64, 0x06, 0x6e, 0xba, 0xc5,
};

static const uint8_t wire_read[] = {
	0x10, 0x06, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56, 0x00, 0xab, 0xcd, 0xef, 0x11, 0x11, 0x11, 0x11, 0x22, 0x22,
	0x22, 0x22, 0x41, 0x41, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x0a, 0x00, 0x00,
	0x00, 0x00, 0x87, 0x65, 0x43, 0x21, 0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x0b, 0xb8,
	0x12, 0x34, 0x56, 0x78, 0x00, 0x00, 0x7f, 0x00, 0x00, 0x00, 0x10, 0x00, 0x44, 0x69, 0x9b, 0x90,
};

#define DDP_LEN 18u

static void golden_send(void **state)
{
	struct udpl_hdr h;
	uint8_t b[sizeof(wire_send)];
	const uint32_t len = sizeof(wire_send) - UDPL_CRC_LEN;

	(void)state;
	assert_int_equal(udpl_parse(wire_send, sizeof(wire_send), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_send, sizeof(wire_send)));
	assert_int_equal(h.kind, UDPL_SEND);
	assert_int_equal(h.flags, UDPL_F_IMM);
	assert_int_equal(h.dst_qpn, 0x123456);
	assert_int_equal(h.src_qpn, 0xabcdef);
	assert_int_equal(h.qkey, 0x11111111);
	assert_int_equal(h.body_len, DDP_LEN + 8);
	memcpy(b, wire_send, sizeof(b));
	memset(b, 0x55, UDPL_HDR_LEN);
	memset(b + len, 0x55, UDPL_CRC_LEN);
	udpl_build(b, &h);
	udpl_crc_put(b, len, crc32c(0, b, len));
	assert_memory_equal(b, wire_send, sizeof(b));
}

static void golden_segment(void **state)
{
	struct udpl_hdr h;
	uint8_t b[sizeof(wire_segment)];
	const uint32_t len = sizeof(wire_segment) - UDPL_CRC_LEN;

	(void)state;
	assert_int_equal(udpl_parse(wire_segment, sizeof(wire_segment), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_segment, sizeof(wire_segment)));
	assert_true(h.kind == UDPL_SEGMENT && h.unit == 64 && h.total == 150 && h.body_len == DDP_LEN + 22);
	memcpy(b, wire_segment, sizeof(b));
	memset(b, 0x55, UDPL_HDR_LEN);
	udpl_build(b, &h);
	udpl_crc_put(b, len, crc32c(0, b, len));
	assert_memory_equal(b, wire_segment, sizeof(b));
}

static void golden_record(void **state)
{
	struct udpl_record rec;
	struct udpl_hdr h;
	uint8_t b[sizeof(wire_record)];

	(void)state;
	assert_int_equal(udpl_parse(wire_record, sizeof(wire_record), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_record, sizeof(wire_record)));
	assert_true(h.kind == UDPL_RECORD && h.flags == UDPL_F_IMM && h.unit == 64 && h.total == 72);
	udpl_record_parse(wire_record + UDPL_HDR_LEN, &rec);
	assert_true(rec.id == 9 && rec.offset == 64);
	assert_memory_equal(rec.imm, "\xde\xad\xbe\xef", 4);
	memcpy(b, wire_record, sizeof(b));
	memset(b, 0x55, UDPL_HDR_LEN + UDPL_RECORD_LEN);
	udpl_build(b, &h);
	udpl_record_build(b + UDPL_HDR_LEN, &rec);
	assert_memory_equal(b, wire_record, sizeof(b));
}

static void golden_large(void **state)
{
	struct udpl_hdr h;
	uint8_t b[sizeof(wire_large)];

	(void)state;
	assert_int_equal(udpl_parse(wire_large, sizeof(wire_large), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_large, sizeof(wire_large)));
	assert_true(h.kind == UDPL_SEGMENT && h.unit == 65344 && h.total == 65360 && h.body_len == DDP_LEN + 16);
	memcpy(b, wire_large, sizeof(b));
	memset(b, 0x55, UDPL_HDR_LEN);
	udpl_build(b, &h);
	assert_memory_equal(b, wire_large, sizeof(b));
}

static void golden_read(void **state)
{
	struct udpl_hdr h;
	uint8_t b[sizeof(wire_read)];

	(void)state;
	assert_int_equal(udpl_parse(wire_read, sizeof(wire_read), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_read, sizeof(wire_read)));
	assert_true(h.kind == UDPL_READ && h.unit == 0 && h.total == 0x22222222 && h.body_len == DDP_LEN + 28);
	memcpy(b, wire_read, sizeof(b));
	memset(b, 0x55, UDPL_HDR_LEN);
	udpl_build(b, &h);
	assert_memory_equal(b, wire_read, sizeof(b));
}

static void a_message_that_cannot_be_has_no_segments(void **state)
{
	static const struct {
		uint32_t unit;
		uint32_t total;
		enum udpl_verdict is;
	} t[] = { { 0, 100, UDPL_BAD_SIZE },
		  { 1, 0, UDPL_BAD_SIZE },
		  { 1, 64 * UDPL_SEGS_MAX, UDPL_OK },
		  { 1, 64 * UDPL_SEGS_MAX + 1, UDPL_BAD_SIZE },
		  { 255, 255 * UDPL_UNIT * UDPL_SEGS_MAX + 1, UDPL_BAD_SIZE },
		  { 256, 256 * UDPL_UNIT * UDPL_SEGS_MAX, UDPL_OK },
		  { 4095, UDPL_UNIT_MAX * UDPL_SEGS_MAX, UDPL_OK },
		  { 4095, UDPL_UNIT_MAX * UDPL_SEGS_MAX + 1, UDPL_BAD_SIZE },
		  { 4095, UINT32_MAX, UDPL_BAD_SIZE } };
	uint8_t b[sizeof(wire_segment)];
	struct udpl_hdr h;

	(void)state;
	memcpy(b, wire_segment, sizeof(b));
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		b[0] = (uint8_t)(0x10 | t[i].unit >> 8);
		b[3] = (uint8_t)t[i].unit;
		for (uint32_t k = 0; k < 4; k++)
			b[16 + k] = (uint8_t)(t[i].total >> (24 - 8 * k));
		assert_int_equal(udpl_parse(b, sizeof(b), &h), t[i].is);
	}
	for (uint32_t room = 0; room < 70000; room++) {
		const uint32_t u = udpl_unit(room, DDP_LEN), around = UDPL_HDR_LEN + DDP_LEN + UDPL_CRC_LEN;
		assert_true(u % UDPL_UNIT == 0 && u <= UDPL_UNIT_MAX && (u == 0 || u + around <= room));
		assert_true(u == UDPL_UNIT_MAX || u + UDPL_UNIT + around > room);
	}
	assert_int_equal(udpl_unit(1472, DDP_LEN), 1408);
	assert_int_equal(udpl_unit(UINT32_MAX, DDP_LEN), UDPL_UNIT_MAX);
}

static void golden_sidr(void **state)
{
	struct udpl_hdr h;
	struct udpl_sidr s;
	uint8_t b[UDPL_SIDR_MAX];

	(void)state;
	assert_int_equal(udpl_parse(wire_request, sizeof(wire_request), &h), UDPL_OK);
	assert_true(udpl_crc_good(wire_request, sizeof(wire_request)));
	assert_int_equal(h.dst_qpn, UDPL_QPN_CM);
	assert_true(udpl_sidr_parse(wire_request + UDPL_HDR_LEN, h.body_len, UDPL_SIDR_REQ, &s));
	assert_true(s.id == UINT64_C(0x0102030405060708) && s.port == 7174 && s.src_port == 40001);
	assert_int_equal(s.priv_len, 4);
	assert_memory_equal(s.priv, "ping", 4);
	assert_int_equal(udpl_sidr_build(b, UDPL_SIDR_REQ, &s), sizeof(wire_request));
	assert_memory_equal(b, wire_request, sizeof(wire_request));

	assert_int_equal(udpl_parse(wire_reply, sizeof(wire_reply), &h), UDPL_OK);
	assert_true(udpl_sidr_parse(wire_reply + UDPL_HDR_LEN, h.body_len, UDPL_SIDR_REP, &s));
	assert_true(s.status == UDPL_SIDR_VALID && s.qpn == 0x42 && s.qkey == 0x01234567 && s.priv_len == 0);
	assert_int_equal(udpl_sidr_build(b, UDPL_SIDR_REP, &s), sizeof(wire_reply));
	assert_memory_equal(b, wire_reply, sizeof(wire_reply));
}

static void every_wrong_header_has_its_name(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t v;
		enum udpl_verdict is;
	} t[] = {
		{ 0, 0x00, UDPL_BAD_VERSION }, { 0, 0x20, UDPL_BAD_VERSION }, { 1, 0, UDPL_BAD_KIND },
		{ 1, 9, UDPL_BAD_KIND },       { 1, 7, UDPL_BAD_QPN },        { 4, 1, UDPL_BAD_QPN },
		{ 8, 0xff, UDPL_BAD_QPN },     { 0, 0x1f, UDPL_OK },          { 3, 0xff, UDPL_OK },
		{ 16, 0xff, UDPL_OK } /* reserved octets are ignored */
	};
	uint8_t b[sizeof(wire_send)];
	struct udpl_hdr h;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		memcpy(b, wire_send, sizeof(b));
		b[t[i].at] = t[i].v;
		assert_int_equal(udpl_parse(b, sizeof(b), &h), t[i].is);
	}
	for (uint32_t len = 0; len < UDPL_HDR_LEN + UDPL_CRC_LEN; len++)
		assert_int_equal(udpl_parse(wire_send, len, &h), UDPL_SHORT);
	assert_int_equal(udpl_parse(wire_send, UDPL_HDR_LEN + UDPL_CRC_LEN, &h), UDPL_OK);
	assert_int_equal(h.body_len, 0);
}

static void a_bit_anywhere_breaks_the_crc(void **state)
{
	uint8_t b[sizeof(wire_send)];

	(void)state;
	for (uint32_t bit = 0; bit < 8 * sizeof(b); bit++) {
		memcpy(b, wire_send, sizeof(b));
		b[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(udpl_crc_good(b, sizeof(b)));
	}
	for (uint32_t len = UDPL_HDR_LEN + UDPL_CRC_LEN; len < sizeof(b); len++)
		assert_false(udpl_crc_good(wire_send, len));
}

static void sidr_lengths(void **state)
{
	uint8_t body[UDPL_SIDR_LEN + UDPL_SIDR_PRIV_MAX + 1] = { 0 }, out[UDPL_SIDR_MAX];
	struct udpl_sidr s;

	(void)state;
	for (uint32_t len = 0; len <= sizeof(body); len++) {
		bool fits = len >= UDPL_SIDR_LEN && len < sizeof(body);
		assert_int_equal(udpl_sidr_parse(body, len, UDPL_SIDR_REQ, &s), fits);
		if (fits)
			assert_int_equal(udpl_sidr_build(out, UDPL_SIDR_REP, &s), UDPL_HDR_LEN + len + UDPL_CRC_LEN);
	}
	s = (struct udpl_sidr){ .priv = body, .priv_len = UDPL_SIDR_PRIV_MAX + 1 };
	assert_int_equal(udpl_sidr_build(out, UDPL_SIDR_REQ, &s), UDPL_SIDR_MAX);
}

static void mtus(void **state)
{
	const uint32_t over = UDPL_HDR_LEN + DDP_LEN + UDPL_CRC_LEN;

	(void)state;
	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		assert_int_equal(udpl_mtu(mtu + over, DDP_LEN), mtu);
		assert_int_equal(udpl_mtu(mtu + over - 1, DDP_LEN), mtu == 256 ? 0 : mtu / 2);
	}
	assert_int_equal(udpl_mtu(9000 - 28, DDP_LEN), 4096);
	assert_int_equal(udpl_mtu(1500 - 28, DDP_LEN), 1024);
	assert_int_equal(udpl_mtu(0, DDP_LEN), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_send),
		cmocka_unit_test(golden_segment),
		cmocka_unit_test(golden_record),
		cmocka_unit_test(golden_large),
		cmocka_unit_test(golden_read),
		cmocka_unit_test(a_message_that_cannot_be_has_no_segments),
		cmocka_unit_test(golden_sidr),
		cmocka_unit_test(every_wrong_header_has_its_name),
		cmocka_unit_test(a_bit_anywhere_breaks_the_crc),
		cmocka_unit_test(sidr_lengths),
		cmocka_unit_test(mtus),
	};

	return cmocka_run_group_tests_name("udpl", tests, NULL, NULL);
}
