/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/rdmap_track.h"

static struct ddp_hdr send_seg(uint32_t msn, uint32_t mo, uint32_t len, bool last)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_SEND, last, 0, msn, mo);

	h.payload_len = len;
	return h;
}

static struct ddp_hdr resp_seg(uint32_t stag, uint64_t to, uint32_t len, bool last)
{
	struct ddp_hdr h = ddp_tagged(RDMAP_READ_RESP, last, stag, to);

	h.payload_len = len;
	return h;
}

/* Checks a segment; if the segment is good, commits it. */
static enum rdmap_verdict put(struct ddp_uq *q, struct ddp_hdr h, uint32_t posted, uint32_t buf_len)
{
	enum rdmap_verdict v = ddp_uq_check(q, &h, posted, buf_len);

	if (v == RDMAP_OK || v == RDMAP_DONE)
		ddp_uq_advance(q, &h);
	return v;
}

static enum rdmap_verdict put_resp(struct rdmap_readq *q, struct ddp_hdr h)
{
	enum rdmap_verdict v = rdmap_readq_check(q, &h);

	if (v == RDMAP_OK || v == RDMAP_DONE)
		rdmap_readq_advance(q, &h);
	return v;
}

static void assert_err(enum rdmap_verdict v, struct ddp_hdr h, uint8_t layer, uint8_t etype, uint8_t code)
{
	struct iw_err e = rdmap_verdict_err(v, &h);

	assert_int_equal(e.layer, layer);
	assert_int_equal(e.etype, etype);
	assert_int_equal(e.code, code);
	assert_true(iw_err_known(e));
	assert_int_equal(e.hdrct & 0xc0, 0xc0);
}

static void messages_in_order(void **state)
{
	struct ddp_uq q;

	(void)state;
	ddp_uq_init(&q);
	assert_int_equal(put(&q, send_seg(1, 0, 100, false), 2, 250), RDMAP_OK);
	assert_int_equal(put(&q, send_seg(1, 100, 100, false), 2, 250), RDMAP_OK);
	assert_int_equal(put(&q, send_seg(1, 200, 50, true), 2, 250), RDMAP_DONE);
	assert_int_equal(put(&q, send_seg(2, 0, 0, true), 1, 0), RDMAP_DONE); /* zero-length Send */
	assert_int_equal(q.msn, 3);
	assert_int_equal(put(&q, send_seg(3, 0, 0, true), 0, 0), RDMAP_NO_BUFFER);
}

static void message_verdicts(void **state)
{
	struct ddp_uq q;
	struct ddp_hdr h = send_seg(1, 10, 90, true);

	(void)state;
	ddp_uq_init(&q);
	assert_int_equal(put(&q, send_seg(2, 0, 1, true), 5, 10), RDMAP_MSN_GAP);
	assert_int_equal(put(&q, send_seg(0, 0, 1, true), 5, 10), RDMAP_MSN_REPEAT);
	assert_int_equal(put(&q, send_seg(1, 4, 1, true), 5, 10), RDMAP_MO_WRONG);
	assert_int_equal(put(&q, send_seg(1, 0, 11, true), 5, 10), RDMAP_TOO_LONG);
	assert_int_equal(put(&q, send_seg(1, 0, 10, false), 5, 100), RDMAP_OK);
	assert_int_equal(put(&q, send_seg(1, 0, 10, false), 5, 100), RDMAP_MO_WRONG);
	/* the length is checked at every segment, not at the first only */
	assert_int_equal(put(&q, send_seg(1, 10, 91, true), 5, 100), RDMAP_TOO_LONG);
	h.opcode = RDMAP_SEND_SE;
	assert_int_equal(put(&q, h, 5, 100), RDMAP_OP_CHANGED);
	h.opcode = RDMAP_SEND;
	h.stag = 7;
	assert_int_equal(put(&q, h, 5, 100), RDMAP_OP_CHANGED);
	h.stag = 0;
	assert_int_equal(put(&q, h, 5, 100), RDMAP_DONE);
	assert_int_equal(put(&q, h, 5, 100), RDMAP_MSN_REPEAT);

	assert_err(RDMAP_NO_BUFFER, h, 1, 2, 2);
	assert_err(RDMAP_MSN_GAP, h, 1, 2, 3);
	assert_err(RDMAP_MSN_REPEAT, h, 1, 2, 3);
	assert_err(RDMAP_MO_WRONG, h, 1, 2, 4);
	assert_err(RDMAP_TOO_LONG, h, 1, 2, 5);
	assert_err(RDMAP_OP_CHANGED, h, 0, 2, 6);
}

static void msn_wraps(void **state)
{
	struct ddp_uq q;

	(void)state;
	ddp_uq_init(&q);
	q.msn = UINT32_MAX;
	assert_int_equal(put(&q, send_seg(0, 0, 1, true), 9, 10), RDMAP_MSN_GAP);
	assert_int_equal(put(&q, send_seg(UINT32_MAX, 0, 1, true), 9, 10), RDMAP_DONE);
	assert_int_equal(put(&q, send_seg(UINT32_MAX, 0, 1, true), 9, 10), RDMAP_MSN_REPEAT);
	assert_int_equal(put(&q, send_seg(0, 0, 1, true), 9, 10), RDMAP_DONE);
}

static void offsets_near_the_end_of_32_bits(void **state)
{
	struct ddp_uq q = { .msn = 1, .mo = UINT32_MAX - 4, .open = true, .opcode = RDMAP_SEND };

	(void)state;
	assert_int_equal(put(&q, send_seg(1, UINT32_MAX - 4, 5, true), 1, UINT32_MAX), RDMAP_TOO_LONG);
	q = (struct ddp_uq){ .msn = 1, .mo = UINT32_MAX - 4, .open = true, .opcode = RDMAP_SEND };
	assert_int_equal(put(&q, send_seg(1, UINT32_MAX - 4, 4096, true), 1, 4096), RDMAP_TOO_LONG);
}

static void segments_ahead_of_the_stream(void **state)
{
	struct ddp_hdr h;
	struct ddp_uq q;
	uint32_t slot = 99;

	(void)state;
	ddp_uq_init(&q);
	h = send_seg(1, 0, 10, false);
	assert_int_equal(ddp_uq_peek(&q, &h, 2, &slot), RDMAP_OK);
	assert_int_equal(slot, 0);
	h = send_seg(2, 50, 10, false);
	assert_int_equal(ddp_uq_peek(&q, &h, 2, &slot), RDMAP_OK);
	assert_int_equal(slot, 1);
	h = send_seg(3, 0, 10, false);
	assert_int_equal(ddp_uq_peek(&q, &h, 2, &slot), RDMAP_NO_BUFFER);
	h = send_seg(0, 0, 10, false);
	assert_int_equal(ddp_uq_peek(&q, &h, 2, &slot), RDMAP_MSN_REPEAT);
	h = send_seg(0x80000000u, 0, 10, false);
	assert_int_equal(ddp_uq_peek(&q, &h, 2, &slot), RDMAP_NO_BUFFER);
}

static void reads_in_order(void **state)
{
	struct rdmap_read ring[4];
	struct rdmap_readq q;

	(void)state;
	rdmap_readq_init(&q, ring, 4, 3);
	assert_null(rdmap_readq_head(&q));
	rdmap_readq_post(&q, 7, 1000, 300, 11);
	rdmap_readq_post(&q, 8, 0, 0, 12);
	assert_false(rdmap_readq_full(&q));
	rdmap_readq_post(&q, 9, UINT64_MAX - 9, 10, 13);
	assert_true(rdmap_readq_full(&q)); /* full at the limit ORD, not at the ring's size */
	assert_int_equal(rdmap_readq_head(&q)->cookie, 11);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 200, false)), RDMAP_OK);
	assert_int_equal(put_resp(&q, resp_seg(7, 1200, 100, true)), RDMAP_DONE);
	assert_int_equal(rdmap_readq_head(&q)->cookie, 12);
	/* zero-length Read: the sink is not checked */
	assert_int_equal(put_resp(&q, resp_seg(0, 0, 0, true)), RDMAP_DONE);
	assert_int_equal(put_resp(&q, resp_seg(9, UINT64_MAX - 9, 10, true)), RDMAP_DONE);
	assert_int_equal(rdmap_readq_count(&q), 0);
	for (uint32_t i = 0; i < 20; i++) { /* more Reads than the ring has places */
		rdmap_readq_post(&q, i, i, 1, i);
		assert_int_equal(put_resp(&q, resp_seg(i, i, 1, true)), RDMAP_DONE);
	}
}

static void read_response_verdicts(void **state)
{
	struct ddp_hdr h = resp_seg(7, 1000, 1, true);
	struct rdmap_read ring[2];
	struct rdmap_readq q;

	(void)state;
	rdmap_readq_init(&q, ring, 2, 2);
	assert_int_equal(put_resp(&q, h), RDMAP_READ_NONE);
	rdmap_readq_post(&q, 7, 1000, 300, 0);
	rdmap_readq_post(&q, 8, 5000, 300, 0);
	/* not the sink of the oldest Read */
	assert_int_equal(put_resp(&q, resp_seg(8, 5000, 300, true)), RDMAP_READ_STAG);
	assert_int_equal(put_resp(&q, resp_seg(7, 999, 10, false)), RDMAP_READ_TO);
	assert_int_equal(put_resp(&q, resp_seg(7, 1001, 10, false)), RDMAP_READ_TO);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 301, true)), RDMAP_READ_OVERRUN);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, UINT32_MAX, false)), RDMAP_READ_OVERRUN);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 299, true)), RDMAP_READ_LAST);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 300, false)), RDMAP_READ_LAST);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 200, false)), RDMAP_OK);
	/* checked at later segments, too */
	assert_int_equal(put_resp(&q, resp_seg(7, 1200, 101, true)), RDMAP_READ_OVERRUN);
	assert_int_equal(put_resp(&q, resp_seg(7, 1200, 100, true)), RDMAP_DONE);

	assert_err(RDMAP_READ_NONE, h, 0, 2, 6);
	assert_err(RDMAP_READ_STAG, h, 1, 1, 0);
	assert_err(RDMAP_READ_TO, h, 1, 1, 1);
	assert_err(RDMAP_READ_OVERRUN, h, 1, 1, 1);
	assert_err(RDMAP_READ_LAST, h, 0, 2, 7);
}

static void zero_length_read_takes_no_octets(void **state)
{
	struct rdmap_read ring[2];
	struct rdmap_readq q;

	(void)state;
	rdmap_readq_init(&q, ring, 2, 2);
	rdmap_readq_post(&q, 7, 1000, 0, 0);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 1, true)), RDMAP_READ_OVERRUN);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 0, false)), RDMAP_READ_LAST);
	assert_int_equal(put_resp(&q, resp_seg(7, 1000, 0, true)), RDMAP_DONE);
}

static void responses_ahead_of_the_stream(void **state)
{
	struct rdmap_read ring[4];
	struct rdmap_readq q;
	struct ddp_hdr h;

	(void)state;
	rdmap_readq_init(&q, ring, 4, 4);
	h = resp_seg(7, 1000, 10, false);
	assert_int_equal(rdmap_readq_peek(&q, &h), RDMAP_READ_NONE);
	rdmap_readq_post(&q, 7, 1000, 300, 0);
	rdmap_readq_post(&q, 8, 5000, 300, 0);
	assert_int_equal(rdmap_readq_peek(&q, &h), RDMAP_OK);
	h = resp_seg(8, 5290, 10, true);
	assert_int_equal(rdmap_readq_peek(&q, &h), RDMAP_OK);
	h = resp_seg(8, 5291, 10, true);
	assert_int_equal(rdmap_readq_peek(&q, &h), RDMAP_READ_OVERRUN);
	h = resp_seg(8, 4999, 10, true);
	assert_int_equal(rdmap_readq_peek(&q, &h), RDMAP_READ_OVERRUN);
	h = resp_seg(7, UINT64_MAX, 2, true);
	assert_int_equal(rdmap_readq_peek(&q, &h), RDMAP_READ_OVERRUN);
}

static void more_reads_than_ird(void **state)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, 3, 0);
	struct rdmap_ird q;

	(void)state;
	rdmap_ird_init(&q, 2);
	assert_int_equal(rdmap_ird_take(&q), RDMAP_OK);
	assert_int_equal(rdmap_ird_take(&q), RDMAP_OK);
	assert_int_equal(rdmap_ird_take(&q), RDMAP_IRD_OVERFLOW);
	rdmap_ird_give(&q);
	assert_int_equal(rdmap_ird_take(&q), RDMAP_OK);
	assert_err(RDMAP_IRD_OVERFLOW, h, 1, 2, 2);
	rdmap_ird_init(&q, 0);
	assert_int_equal(rdmap_ird_take(&q), RDMAP_IRD_OVERFLOW);
}

static void an_answer_in_any_order_finds_its_read(void **state)
{
	struct rdmap_read ring[4];
	struct rdmap_readq q;

	(void)state;
	rdmap_readq_init(&q, ring, 4, 4);
	assert_false(rdmap_readq_bring(&q, 0));
	for (uint32_t i = 5; i < 8; i++)
		rdmap_readq_post(&q, i, 0, 100, i)->id = i;
	rdmap_readq_post_atomic(&q, 9, 0, 8, 8);
	static const uint32_t order[] = { 7, 5, 8, 6 };
	for (uint32_t i = 0; i < RN_ARRAY_LEN(order); i++) {
		assert_true(rdmap_readq_bring(&q, order[i]));
		assert_int_equal(rdmap_readq_head(&q)->cookie, order[i]);
		rdmap_readq_retire(&q);
		assert_false(rdmap_readq_bring(&q, order[i]));
	}
	assert_int_equal(rdmap_readq_count(&q), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_answer_in_any_order_finds_its_read),
		cmocka_unit_test(messages_in_order),
		cmocka_unit_test(message_verdicts),
		cmocka_unit_test(msn_wraps),
		cmocka_unit_test(offsets_near_the_end_of_32_bits),
		cmocka_unit_test(segments_ahead_of_the_stream),
		cmocka_unit_test(reads_in_order),
		cmocka_unit_test(read_response_verdicts),
		cmocka_unit_test(zero_length_read_takes_no_octets),
		cmocka_unit_test(responses_ahead_of_the_stream),
		cmocka_unit_test(more_reads_than_ird),
	};

	return cmocka_run_group_tests_name("rdmap_track", tests, NULL, NULL);
}
