/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets of reliable datagrams, as doc/datagram-iwarp.md has them: whole UDP payloads of known octets, and the rules
 * of the header.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "dgram/rd.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

static const uint8_t wire_rd_segment[] = {
	0x10, 0x22, 0x00, 0x00, 0x00, 0x01, 0x00, 0x02, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f, 0x00, 0x00,
	0x00, 0x08, 0x00, 0x00, 0x03, 0xfc, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56,
	0x00, 0xab, 0xcd, 0xef, 0x11, 0x11, 0x11, 0x11, 0x00, 0x00, 0x65, 0x43, 0x00, 0x00, 0x12, 0x34, 0x00, 0x00,
	0x00, 0x05, 0x00, 0x00, 0x00, 0x02, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x64, 0x61, 0x74, 0x61, 0x67, 0x72, 0x61, 0x6d, 0x2f, 0xa3, 0xeb, 0xc3,
};

static const uint8_t wire_rd_chain[] = {
	0x10, 0x22, 0x00, 0x00, 0x00, 0x01, 0x00, 0x02, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f, 0x00,
	0x00, 0x00, 0x09, 0x00, 0x00, 0x04, 0x06, 0x00, 0x00, 0x00, 0x00, 0x01, 0x0b, 0x00, 0x00, 0x00, 0x12,
	0x34, 0x56, 0x00, 0xab, 0xcd, 0xef, 0x11, 0x11, 0x11, 0x11, 0x00, 0x00, 0x65, 0x43, 0x00, 0x00, 0x12,
	0x34, 0x00, 0x00, 0x00, 0x06, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0b,
	0x01, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00,
	0x00, 0x64, 0x61, 0x74, 0x61, 0x67, 0x72, 0x61, 0x6d, 0xe6, 0x60, 0xbb, 0x16,
};

static const uint8_t wire_rd_segments[] = {
	0x10, 0x22, 0x00, 0x00, 0x00, 0x01, 0x00, 0x02, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f, 0x00, 0x00,
	0x00, 0x0a, 0x00, 0x00, 0x04, 0x10, 0x00, 0x00, 0x00, 0x00, 0x04, 0x40, 0x00, 0x00, 0x00, 0x12, 0x34, 0x56,
	0x00, 0xab, 0xcd, 0xef, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x65, 0x43, 0x00, 0x00, 0x12, 0x34, 0x00, 0x00,
	0x00, 0x07, 0x00, 0x00, 0x00, 0x02, 0x00, 0x16, 0x00, 0x03, 0x11, 0x11, 0x11, 0x11, 0x41, 0x43, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x64, 0x61, 0x74, 0x61,
	0x00, 0x16, 0x00, 0x00, 0x11, 0x11, 0x11, 0x11, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x00, 0x67, 0x72, 0x61, 0x6d, 0x63, 0x8e, 0x58, 0x9b,
};

static const uint8_t wire_rd_taken[] = {
	0x10, 0x22, 0x00, 0x00, 0x00, 0x02, 0x00, 0x01, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f,
	0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x07, 0xd0, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00,
	0x00, 0xab, 0xcd, 0xef, 0x00, 0x12, 0x34, 0x56, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x12, 0x34,
	0x00, 0x00, 0x65, 0x43, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x06, 0xc6, 0x7a, 0xd0, 0x6d,
};

static const uint8_t wire_rd_refused[] = {
	0x10, 0x22, 0x00, 0x00, 0x00, 0x02, 0x00, 0x01, 0x11, 0x22, 0x33, 0x44, 0x0c, 0x0d, 0x0e, 0x0f, 0x00, 0x00,
	0x00, 0x04, 0x00, 0x00, 0x07, 0xd0, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0xab, 0xcd, 0xef,
	0x00, 0x12, 0x34, 0x56, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x12, 0x34, 0x00, 0x00, 0x65, 0x43, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x01, 0x02, 0xc0, 0x00, 0x00, 0x1a, 0x41, 0x43, 0x00, 0x00, 0x00, 0x00,
	0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0xe8, 0x2b, 0x39, 0xa5,
};

/* Returns the segment that a DATA packet carries; checks the CRC, and the header by reading and building it. */
static const uint8_t *carried(const uint8_t *p, uint32_t len, const struct rd_hdr *want, uint32_t *body)
{
	uint8_t built[RD_HDR_LEN + RD_MORE_LEN];
	struct udpr_hdr u;
	struct rd_hdr h;

	assert_true(udpl_crc_good(p, len));
	assert_int_equal(udpr_parse(p, len, &u), UDPR_OK);
	assert_int_equal(u.kind, UDPR_DATA);
	assert_true(rd_parse(p + u.body, u.body_len, &h));
	assert_int_equal(rd_build(built, &h), h.body); /* the header that was read */
	assert_memory_equal(p + u.body, built, h.body);
	assert_int_equal(rd_build(built, want), h.body); /* the header that is expected */
	assert_memory_equal(p + u.body, built, h.body);
	*body = u.body_len - h.body;
	return p + u.body + h.body;
}

static struct rd_hdr header(uint8_t kind, uint32_t number, uint32_t taken)
{
	return (struct rd_hdr){ .kind = kind,
				.dst_qpn = 0xabcdef,
				.src_qpn = 0x123456,
				.run = 0x1234,
				.peer_run = 0x6543,
				.number = number,
				.taken = taken };
}

static void a_segment_of_known_octets(void **state)
{
	struct rd_hdr want = header(RD_SEGMENT, 5, 2);
	struct ddp_hdr d;
	uint32_t len;

	(void)state;
	want.dst_qpn = 0x123456;
	want.src_qpn = 0xabcdef;
	want.qkey = 0x11111111;
	want.run = 0x6543;
	want.peer_run = 0x1234;
	const uint8_t *seg = carried(wire_rd_segment, sizeof(wire_rd_segment), &want, &len);
	assert_int_equal(len, DDP_UNTAGGED_HDR_LEN + 8);
	assert_int_equal(ddp_parse(seg, len, &d), DDP_OK);
	assert_int_equal(d.opcode, RDMAP_SEND);
	assert_memory_equal(seg + DDP_UNTAGGED_HDR_LEN, "datagram", 8);
}

static void a_chain_and_a_map_of_known_octets(void **state)
{
	struct rd_hdr want = header(RD_SEGMENT, 6, 2);
	struct ddp_hdr d;
	uint32_t len;

	(void)state;
	want.flags = RD_F_LOOSE | RD_F_FIRST;
	want.more = 1 | 2 | 8;
	want.dst_qpn = 0x123456;
	want.src_qpn = 0xabcdef;
	want.qkey = 0x11111111;
	want.run = 0x6543;
	want.peer_run = 0x1234;
	const uint8_t *seg = carried(wire_rd_chain, sizeof(wire_rd_chain), &want, &len);
	assert_int_equal(ddp_parse(seg, len, &d), DDP_OK);
	assert_false(d.last);
	assert_memory_equal(seg + DDP_UNTAGGED_HDR_LEN, "datagram", 8);
}

static void segments_of_known_octets_in_one_packet(void **state)
{
	static const char *const text[] = { "data", "gram" };
	struct rd_hdr want = header(RD_SEGMENTS, 7, 2);
	uint8_t built[RD_PART_LEN];
	struct rd_part part;
	uint32_t len, at = 0;
	struct ddp_hdr d;

	(void)state;
	want.flags = RD_F_PACKS;
	want.dst_qpn = 0x123456;
	want.src_qpn = 0xabcdef;
	want.run = 0x6543;
	want.peer_run = 0x1234;
	const uint8_t *body = carried(wire_rd_segments, sizeof(wire_rd_segments), &want, &len);
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(rd_part_parse(body, len, at, &part));
		assert_true(part.flags == 0 && part.rnr == (i == 0 ? 3 : 0) && part.qkey == 0x11111111);
		rd_part_build(built, &part);
		assert_memory_equal(built, body + at, RD_PART_LEN);
		assert_int_equal(part.at, at + RD_PART_LEN);
		assert_int_equal(part.len, DDP_UNTAGGED_HDR_LEN + 4);
		assert_int_equal(ddp_parse(body + part.at, part.len, &d), DDP_OK);
		assert_int_equal(d.msn, 4 + i);
		assert_memory_equal(body + part.at + DDP_UNTAGGED_HDR_LEN, text[i], 4);
		at = part.at + part.len;
	}
	assert_int_equal(at, len);
}

/* Writes a SEGMENTS with n parts of this length. Returns the packet's length. */
static uint32_t parts(uint8_t *p, uint64_t more, uint32_t n, uint32_t len)
{
	struct rd_hdr h = header(RD_SEGMENTS, 0, 0);

	h.more = more;
	uint32_t at = rd_build(p, &h);
	for (uint32_t i = 0; i < n; i++, at += RD_PART_LEN + len)
		rd_part_build(p + at, &(struct rd_part){ .len = len, .qkey = i });
	return at;
}

static void parts_that_do_not_fill_their_packet_are_not_read(void **state)
{
	uint8_t p[RD_PACKET_MAX + 1] = { 0 };
	struct rd_hdr h;

	(void)state;
	for (uint64_t more = 0; more < 2; more++) {
		uint32_t len = parts(p, more, 0, 0);
		assert_false(rd_parse(p, len, &h)); /* no part */
		len = parts(p, more, RD_PARTS, 20);
		assert_true(rd_parse(p, len, &h));
		assert_int_equal(h.body, RD_HDR_LEN + (more ? RD_MORE_LEN : 0));
		for (uint32_t i = 1; i < RD_PART_LEN + 20; i++)
			assert_false(rd_parse(p, len - i, &h)); /* the last part goes beyond the packet's end */
		assert_true(rd_parse(p, len - RD_PART_LEN - 20, &h));
		for (uint32_t i = 1; i < RD_PART_LEN; i++)
			assert_false(rd_parse(p, len - RD_PART_LEN - 20 + i, &h)); /* octets behind the last part */
		len = parts(p, more, RD_PARTS + 1, 20);
		assert_false(rd_parse(p, len, &h)); /* too many */
		len = parts(p, more, 3, 20);
		rd_part_build(p + h.body + RD_PART_LEN + 20, &(struct rd_part){ .len = 0 });
		assert_false(rd_parse(p, len, &h)); /* an empty segment */
		len = parts(p, more, 3, 0);
		assert_false(rd_parse(p, len, &h));
		rd_part_build(p + parts(p, more, 0, 0), &(struct rd_part){ .len = UINT16_MAX });
		assert_false(rd_parse(p, RD_PACKET_MAX, &h));
		len = parts(p, more, 1, RD_PACKET_MAX - h.body - RD_PART_LEN);
		assert_int_equal(len, RD_PACKET_MAX);
		assert_true(rd_parse(p, len, &h));
		len = parts(p, more, 1, RD_PACKET_MAX + 1 - h.body - RD_PART_LEN);
		assert_false(rd_parse(p, len, &h)); /* longer than a packet may be */
	}
}

static void what_is_taken_in_known_octets(void **state)
{
	const struct rd_hdr want = header(RD_TAKEN, 0, 6);
	uint32_t len;

	(void)state;
	(void)carried(wire_rd_taken, sizeof(wire_rd_taken), &want, &len);
	assert_int_equal(len, 0);
}

static void a_refusal_of_known_octets(void **state)
{
	const struct rd_hdr want = header(RD_REFUSED, 0, 5);
	struct iw_err e = iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, false);
	uint8_t term[RDMAP_TERM_MAX_LEN];
	uint32_t len;

	(void)state;
	e.hdrct = IW_HDRCT_LEN | IW_HDRCT_DDP;
	const uint8_t *body = carried(wire_rd_refused, sizeof(wire_rd_refused), &want, &len);
	const uint8_t *seg = wire_rd_segment + UDPR_HDR_LEN + RD_HDR_LEN;
	assert_int_equal(len, rdmap_term_build(term, e, seg, DDP_UNTAGGED_HDR_LEN + 8));
	assert_memory_equal(body, term, len);
}

static void a_header_that_cannot_be_is_not_read(void **state)
{
	static const struct {
		uint8_t at, octet;
		bool good;
	} change[] = {
		{ 0, 0, false },   { 0, 5, false }, { 0, 0xff, false }, /* kinds that do not exist */
		{ 1, 0xf6, true }, { 2, 1, true },  { 3, 1, true },     /* octets that a receiver ignores */
		{ 4, 1, false },   { 8, 1, false },                     /* more than 24 bits */
		{ 0, 2, true },    { 0, 3, true },
	};
	uint8_t p[RD_PACKET_MAX + 1] = { 0 };
	struct rd_hdr h = header(RD_SEGMENT, 0, 0);

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(change); i++) {
		rd_build(p, &h);
		p[change[i].at] = change[i].octet;
		struct rd_hdr read;
		assert_int_equal(rd_parse(p, RD_PACKET_MAX, &read), change[i].good);
	}
	for (uint8_t kind = RD_SEGMENT; kind <= RD_REFUSED; kind++) {
		struct rd_hdr read;
		h = header(kind, 0, 0);
		h.run = 0;
		rd_build(p, &h);
		assert_int_equal(rd_parse(p, RD_HDR_LEN, &read), kind == RD_REFUSED);
		h.run = 1;
		rd_build(p, &h);
		assert_true(rd_parse(p, RD_HDR_LEN, &read));
		assert_false(rd_parse(p, RD_HDR_LEN - 1, &read));
		p[1] = RD_F_MORE;
		assert_false(rd_parse(p, RD_HDR_LEN + RD_MORE_LEN - 1, &read));
		assert_true(rd_parse(p, RD_HDR_LEN + RD_MORE_LEN, &read));
		p[1] = 0;
		assert_false(rd_parse(p, RD_PACKET_MAX + 1, &read));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_segment_of_known_octets),
		cmocka_unit_test(a_chain_and_a_map_of_known_octets),
		cmocka_unit_test(segments_of_known_octets_in_one_packet),
		cmocka_unit_test(parts_that_do_not_fill_their_packet_are_not_read),
		cmocka_unit_test(what_is_taken_in_known_octets),
		cmocka_unit_test(a_refusal_of_known_octets),
		cmocka_unit_test(a_header_that_cannot_be_is_not_read),
	};

	return cmocka_run_group_tests_name("qp_rd_wire", tests, NULL, NULL);
}
