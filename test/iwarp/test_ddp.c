/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/ddp.h"

/* Headers that siw sent (test/captures: err_04 frame 8, err_08 frame 8, nocrc_10 frame 9). */
static const uint8_t wire_write[] = {
	0xc1, 0x40, 0x74, 0x37, 0xa7, 0x00, 0x00, 0x00, 0x7f, 0xc6, 0x95, 0xc5, 0x40, 0x00
};
static const uint8_t wire_read_req[] = { 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0 };
static const uint8_t wire_send[] = { 0x01, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0x05, 0x90 };

static void golden_headers(void **state)
{
	struct ddp_hdr h;
	uint8_t b[DDP_MAX_HDR_LEN];

	(void)state;
	assert_int_equal(ddp_parse(wire_write, 78, &h), DDP_OK);
	assert_true(h.tagged && h.last);
	assert_int_equal(h.opcode, RDMAP_WRITE);
	assert_int_equal(h.stag, 0x7437a700);
	assert_true(h.to == 0x7fc695c54000);
	assert_int_equal(h.payload_len, 64);
	assert_int_equal(ddp_build(b, &h), 14);
	assert_memory_equal(b, wire_write, 14);

	assert_int_equal(ddp_parse(wire_read_req, 46, &h), DDP_OK);
	assert_int_equal(h.opcode, RDMAP_READ_REQ);
	assert_int_equal(h.qn, 1);
	assert_int_equal(h.msn, 1);
	assert_int_equal(h.payload_len, 28);
	assert_int_equal(ddp_build(b, &h), 18);
	assert_memory_equal(b, wire_read_req, 18);

	assert_int_equal(ddp_parse(wire_send, 1442, &h), DDP_OK);
	assert_false(h.last);
	assert_int_equal(h.mo, 1424);
	assert_int_equal(ddp_build(b, &h), 18);
	assert_memory_equal(b, wire_send, 18);
}

static void shorthands_build_the_same(void **state)
{
	struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, 0x7437a700, 0x7fc695c54000);
	uint8_t b[DDP_MAX_HDR_LEN];

	(void)state;
	assert_int_equal(ddp_build(b, &h), 14);
	assert_memory_equal(b, wire_write, 14);
	h = ddp_untagged(RDMAP_READ_REQ, true, 0, 1, 0);
	assert_int_equal(ddp_build(b, &h), 18);
	assert_memory_equal(b, wire_read_req, 18);
	h = ddp_untagged(RDMAP_SEND, false, 0, 1, 1424);
	assert_int_equal(ddp_build(b, &h), 18);
	assert_memory_equal(b, wire_send, 18);
	h = ddp_untagged(RDMAP_TERMINATE, true, 0, 1, 0);
	assert_int_equal(h.qn, DDP_QN_TERMINATE);
}

static void every_opcode_there_and_back(void **state)
{
	(void)state;
	for (uint8_t op = 0; op < RDMAP_NUM_OPCODES; op++) {
		const struct rdmap_op *o = rdmap_op_of(op);
		uint8_t b[DDP_MAX_HDR_LEN];
		struct ddp_hdr h = o->tagged ? ddp_tagged(op, true, 0x01020304, 0x1122334455667788)
					     : ddp_untagged(op, true, 0x0a0b0c0d, 0x55667788, 0);
		uint32_t len = ddp_build(b, &h);
		struct ddp_hdr back;

		h.payload_len = o->min_payload;
		if (o->name == NULL) {
			assert_int_equal(ddp_parse(b, len, &back), DDP_BAD_OPCODE);
			continue;
		}
		assert_int_equal(len, o->hdr_len);
		assert_int_equal(ddp_parse(b, len + h.payload_len, &back), DDP_OK);
		assert_int_equal(back.opcode, op);
		assert_int_equal(back.stag, h.stag);
		assert_true(back.to == h.to && back.qn == h.qn && back.msn == h.msn && back.mo == h.mo);
	}
}

/* A ULPDU that ends inside its header: no octet behind it is read (the copy is exactly as long as the ULPDU). */
static void shorter_than_its_header(void **state)
{
	(void)state;
	for (uint32_t n = 0; n < 18; n++) {
		uint8_t exact[18];
		struct ddp_hdr h;

		memcpy(exact + 18 - n, wire_send, n);
		assert_int_equal(ddp_parse(exact + 18 - n, n, &h), DDP_TOO_SHORT);
		memcpy(exact + 18 - n, wire_write, n < 14 ? n : 14);
		assert_int_equal(ddp_parse(exact + 18 - n, n, &h), n < 14 ? DDP_TOO_SHORT : DDP_OK);
	}
}

static struct iw_err verdict_of(const uint8_t *hdr, uint32_t len, uint32_t at, uint8_t value, enum ddp_verdict want)
{
	uint8_t b[DDP_MAX_HDR_LEN];
	struct ddp_hdr h;

	memcpy(b, hdr, len == 14 ? 14 : 18);
	b[at] = value;
	assert_int_equal(ddp_parse(b, len, &h), want);
	return ddp_verdict_err(want, &h);
}

#define EXPECT_ERR(got, l, t, c, m) \
	do { \
		struct iw_err got_ = (got), want_ = { l, t, c, m }; \
		assert_memory_equal(&got_, &want_, sizeof(got_)); \
	} while (0)

static void each_error_and_its_terminate(void **state)
{
	(void)state;
	EXPECT_ERR(verdict_of(wire_write, 14, 0, 0xc2, DDP_BAD_VERSION), 1, 1, 4, 0xc0);
	EXPECT_ERR(verdict_of(wire_write, 14, 0, 0xc0, DDP_BAD_VERSION), 1, 1, 4, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 0, 0x03, DDP_BAD_VERSION), 1, 2, 6, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 1, 0x03, DDP_BAD_RDMAP_VERSION), 0, 2, 5, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 1, 0x83, DDP_BAD_RDMAP_VERSION), 0, 2, 5, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 1, 0x4f, DDP_BAD_OPCODE), 0, 2, 6, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 1, 0x40, DDP_BAD_TBIT), 0, 2, 6, 0xc0);
	EXPECT_ERR(verdict_of(wire_write, 14, 1, 0x43, DDP_BAD_TBIT), 0, 2, 6, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 6, 0x80, DDP_BAD_QN), 1, 2, 1, 0xc0);
	EXPECT_ERR(verdict_of(wire_send, 20, 9, 1, DDP_BAD_QN), 1, 2, 1, 0xc0);
	EXPECT_ERR(verdict_of(wire_read_req, 46, 9, 0, DDP_BAD_QN), 1, 2, 1, 0xc0);
	EXPECT_ERR(verdict_of(wire_read_req, 46, 17, 4, DDP_BAD_MO), 1, 2, 4, 0xc0);
	EXPECT_ERR(verdict_of(wire_read_req, 46, 0, 0x01, DDP_BAD_LENGTH), 0, 2, 7, 0xe0);
	EXPECT_ERR(verdict_of(wire_read_req, 45, 0, 0x41, DDP_BAD_LENGTH), 0, 2, 7, 0xe0);
	EXPECT_ERR(verdict_of(wire_read_req, 47, 0, 0x41, DDP_BAD_LENGTH), 0, 2, 7, 0xe0);
	EXPECT_ERR(verdict_of(wire_send, 17, 0, 0x01, DDP_TOO_SHORT), 2, 0, 3, 0);
}

static void reserved_bits_are_not_looked_at(void **state)
{
	(void)state;
	verdict_of(wire_write, 14, 0, 0xc1 | 0x3c, DDP_OK);
	verdict_of(wire_send, 20, 1, 0x43 | 0x30, DDP_OK);
}

static void tagged_offset_at_the_end_of_the_world(void **state)
{
	struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, 1, UINT64_MAX), back;
	uint8_t b[DDP_MAX_HDR_LEN];

	(void)state;
	ddp_build(b, &h);
	assert_int_equal(ddp_parse(b, 14, &back), DDP_OK);
	assert_int_equal(ddp_parse(b, 15, &back), DDP_OK); /* the segment ends at the last tagged offset */
	assert_int_equal(ddp_parse(b, 16, &back), DDP_TO_WRAP);
	EXPECT_ERR(ddp_verdict_err(DDP_TO_WRAP, &back), 1, 1, 3, 0xc0);
	h.to = UINT64_MAX - 99;
	ddp_build(b, &h);
	assert_int_equal(ddp_parse(b, 14 + 100, &back), DDP_OK);
	assert_int_equal(ddp_parse(b, 14 + 101, &back), DDP_TO_WRAP);
}

static void message_offset_at_its_end(void **state)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, UINT32_MAX - 10), back;
	uint8_t b[DDP_MAX_HDR_LEN];

	(void)state;
	ddp_build(b, &h);
	assert_int_equal(ddp_parse(b, 18 + 10, &back), DDP_OK);
	assert_int_equal(ddp_parse(b, 18 + 11, &back), DDP_BAD_MO);
}

static void facts_about_opcodes(void **state)
{
	(void)state;
	for (uint8_t op = 0; op < RDMAP_NUM_OPCODES; op++) {
		const struct rdmap_op *o = rdmap_op_of(op);

		if (o->name == NULL) {
			assert_true(op > RDMAP_ATOMIC_RESP);
			continue;
		}
		assert_int_equal(o->hdr_len, o->tagged ? 14 : 18);
		assert_int_equal(o->takes_recv, !o->tagged && o->qn == DDP_QN_SEND);
		assert_int_equal(o->invalidates, op == RDMAP_SEND_INV || op == RDMAP_SEND_SE_INV);
		assert_int_equal(o->solicited, op == RDMAP_SEND_SE || op == RDMAP_SEND_SE_INV || op == RDMAP_IMM_SE);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(golden_headers),
		cmocka_unit_test(shorthands_build_the_same),
		cmocka_unit_test(every_opcode_there_and_back),
		cmocka_unit_test(shorter_than_its_header),
		cmocka_unit_test(each_error_and_its_terminate),
		cmocka_unit_test(reserved_bits_are_not_looked_at),
		cmocka_unit_test(tagged_offset_at_the_end_of_the_world),
		cmocka_unit_test(message_offset_at_its_end),
		cmocka_unit_test(facts_about_opcodes),
	};

	return cmocka_run_group_tests_name("ddp", tests, NULL, NULL);
}
