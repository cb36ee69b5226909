/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a client that polls its memory may see while a segment is missing: no byte of a later message, not the last
 * bytes of the open message, and never an older Write over a newer one. Which segments are placed ahead of the stream,
 * and which are not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"
#include "raw.h"

#define BIG   60000u /* bytes of a message of seven segments */
#define BLANK 0xEE
#define SRC   (1u << 20)
#define FLAG  300000u

static struct rig *R;
static struct rig_node *A, *Z;
static uint32_t seen, drop_at; /* segments with payload that A has sent; which one is lost (0: none) */

static void lose_one(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *payload)
{
	(void)payload;
	if (from == 0 && o->len > 0 && ++seen == drop_at)
		r->lose = 1;
}

static void lose_the(uint32_t which)
{
	seen = 0;
	drop_at = which;
}

static struct rig_wr wr_of(enum qp_wr_op op, const struct qp_sge *g, uint32_t to)
{
	return (struct rig_wr){ .op = (uint8_t)op,
				.flags = QP_WF_SIGNALED,
				.sge = g,
				.num_sge = 1,
				.raddr = RIG_IOVA(1) + to,
				.rkey = Z->rkey };
}

static void post_write(uint32_t from, uint32_t to, uint32_t len)
{
	const struct qp_sge g = rig_sge(A, from, len);
	const struct rig_wr w = wr_of(QP_WR_WRITE, &g, to);

	assert_true(rig_post(A, 0, &w));
}

static void post_send(uint32_t from, uint32_t len)
{
	const struct qp_sge g = rig_sge(A, from, len);
	const struct rig_wr w = wr_of(QP_WR_SEND, &g, 0);

	assert_true(rig_post(A, 0, &w));
}

static void open_with(const struct rig_cfg *cfg)
{
	R = rig_new(cfg);
	A = &R->n[0];
	Z = &R->n[1];
	drop_at = 0;
	R->tap = lose_one;
	rig_connect(R, 0);
	for (uint32_t i = 0; i < 2 * SRC; i++)
		A->mem[i] = (uint8_t)(i * 7 + i / 253 + 1);
	post_write(0, 3 * SRC, 8); /* opens the stream, and TCP's congestion window */
	rig_run(R, 30 * RN_NS_PER_MS);
	for (uint32_t i = 0; i < 8; i++) {
		post_write(0, 3 * SRC, BIG);
		rig_run(R, 30 * RN_NS_PER_MS);
	}
	memset(Z->mem, BLANK, RIG_MEM);
}

static int up(void **state)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.mtu = 9000;
	open_with(&cfg);
	(void)state;
	return 0;
}

static int up_marked(void **state)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.mtu = 9000;
	cfg.markers[0] = cfg.markers[1] = true;
	open_with(&cfg);
	(void)state;
	return 0;
}

static int down(void **state)
{
	(void)state;
	rig_free(R);
	return 0;
}

static bool blank(uint32_t from, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (Z->mem[from + i] != BLANK)
			return false;
	return true;
}

/* All segments but the lost one arrive. Z has not answered, so nothing is retransmitted. */
static void arrive(void)
{
	rig_turn(R, 1);
	Z->paused = true;
	rig_run(R, 40 * RN_NS_PER_US);
	Z->paused = false;
}

static void a_flag_is_not_seen_before_its_data(void **state)
{
	(void)state;
	lose_the(1);
	post_write(0, 0, BIG);
	post_write(64, FLAG, 8);
	arrive();
	assert_int_equal(R->dropped, 1);
	assert_true(blank(0, 8));
	assert_true(blank(FLAG, 8));
	rig_settle(R);
	assert_memory_equal(Z->mem, A->mem, BIG);
	assert_memory_equal(Z->mem + FLAG, A->mem + 64, 8);
}

static void the_last_byte_is_not_seen_before_the_others(void **state)
{
	(void)state;
	for (uint32_t which = 1; which <= 6; which++) {
		lose_the(which);
		post_write(0, 0, BIG);
		arrive();
		assert_true(blank(BIG - 1, 1));
		rig_settle(R);
		assert_memory_equal(Z->mem, A->mem, BIG);
		memset(Z->mem, BLANK, BIG);
	}
}

/* A Write that continues where the open one ends, in full segments: no field tells that it is another message. */
static void the_next_write_is_not_taken_for_this_one(void **state)
{
	const uint32_t part = R->n[0].conn[0].rc.out.mulpdu - DDP_TAGGED_HDR_LEN;

	(void)state;
	lose_the(3);
	post_write(0, 0, 3 * part);
	post_write(3 * part, 3 * part, 3 * part);
	arrive();
	assert_false(blank(0, part));
	assert_true(blank(2 * part, 4 * part));
	rig_settle(R);
	assert_memory_equal(Z->mem, A->mem, 6 * part);
}

/* Two Writes to one place, then a Send: when the Send completes, all bytes are those of the second Write. */
static void the_later_write_wins(void **state)
{
	const struct qp_sge rb = rig_sge(Z, 3 * SRC, 64);

	(void)state;
	for (uint32_t which = 1; which <= 15; which++) {
		assert_true(rig_post_recv(Z, 0, which, &rb, 1));
		lose_the(which);
		post_write(0, 0, BIG);
		post_write(SRC, 0, BIG);
		post_send(0, 8);
		assert_int_equal(rig_wait(R, &Z->rcq_client).status, QP_WC_SUCCESS);
		assert_memory_equal(Z->mem, A->mem + SRC, BIG);
		rig_settle(R);
	}
}

/*
 * The middle of the open Send is in its receive, its end and the next Send are not. The same once more when the whole
 * Send is here.
 */
static void the_middle_of_a_send_is_placed_early(void **state)
{
	const struct qp_sge one = rig_sge(Z, 0, BIG), two = rig_sge(Z, SRC, 64);
	const uint32_t part = R->n[0].conn[0].rc.out.mulpdu - DDP_UNTAGGED_HDR_LEN;
	const uint64_t before = Z->ctx.rc.qp.stats.ooo_placed;

	(void)state;
	assert_true(rig_post_recv(Z, 0, 1, &one, 1));
	assert_true(rig_post_recv(Z, 0, 2, &two, 1));
	lose_the(2);
	post_send(0, BIG);
	post_send(0, 64);
	arrive();
	assert_int_equal(Z->ctx.rc.qp.stats.ooo_placed - before, 4);
	assert_true(blank(part, part));
	assert_memory_equal(Z->mem + 2 * part, A->mem + 2 * part, 4 * part);
	assert_true(blank(6 * part, BIG - 6 * part));
	assert_true(blank(SRC, 64));
	/* when the segment is in turn, it is neither copied again nor lost */
	memset(Z->mem + 2 * part, 0x11, 1);
	assert_int_equal(rig_wait(R, &Z->rcq_client).wr_id, 1);
	assert_int_equal(Z->mem[2 * part], 0x11);
	Z->mem[2 * part] = A->mem[2 * part];
	assert_memory_equal(Z->mem, A->mem, BIG);
	assert_int_equal(rig_wait(R, &Z->rcq_client).wr_id, 2);
	rig_settle(R);
}

/* The Read's Response comes from A: Z has posted the Read. */
static void the_middle_of_a_read_is_placed_early(void **state)
{
	const struct qp_sge g = rig_sge(Z, 0, BIG);
	const struct rig_wr w = { .op = QP_WR_READ,
				  .flags = QP_WF_SIGNALED,
				  .sge = &g,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(0),
				  .rkey = A->rkey };
	const uint32_t part = R->n[0].conn[0].rc.out.mulpdu - DDP_TAGGED_HDR_LEN;
	const uint64_t before = Z->ctx.rc.qp.stats.ooo_placed;

	(void)state;
	lose_the(2);
	assert_true(rig_post(Z, 0, &w));
	arrive();
	assert_int_equal(Z->ctx.rc.qp.stats.ooo_placed - before, 4);
	assert_true(blank(part, part));
	assert_memory_equal(Z->mem + 2 * part, A->mem + 2 * part, 4 * part);
	assert_true(blank(6 * part, BIG - 6 * part));
	assert_int_equal(rig_wait(R, &Z->scq_client).status, QP_WC_SUCCESS);
	assert_memory_equal(Z->mem, A->mem, BIG);
	rig_settle(R);
}

/* A receive of several pieces, and one that is shorter than the message. */
static void what_does_not_fit_the_receive_is_not_placed_early(void **state)
{
	const uint32_t part = R->n[0].conn[0].rc.out.mulpdu - DDP_UNTAGGED_HDR_LEN;
	const struct qp_sge one = rig_sge(Z, 0, 4 * part - 1);

	(void)state;
	assert_true(rig_post_recv(Z, 0, 1, &one, 1));
	lose_the(2);
	post_send(0, BIG);
	arrive();
	assert_int_equal(Z->ctx.rc.qp.stats.ooo_placed, 1);
	assert_true(blank(3 * part, 2 * part));
	assert_int_equal(rig_wait(R, &Z->rcq_client).status, QP_WC_LOC_LEN_ERR);
	assert_true(blank(4 * part - 1, part));
	rig_settle(R);
}

/* ---- a peer whose FPDUs do not end at segment boundaries ---- */

#define PIECE 1000u /* bytes of the raw peer's segments */

static void raw_begin(void)
{
	struct qp_sge a, b;

	open_bench(0, NULL);
	raw_up();
	a = rig_sge(dev(), 10000, 9000);
	b = rig_sge(dev(), 20000, 9000);
	assert_true(rig_post_recv(dev(), 0, 41, &a, 1));
	assert_true(rig_post_recv(dev(), 0, 42, &b, 1));
	send_write(0, 0, 0, true); /* the first FPDU of the stream */
	rig_run(B.r, RN_NS_PER_MS);
}

/* Payload of a Send that looks like an FPDU which fills a segment, at the right place of the stream. */
static void image(uint8_t *at, uint32_t msn, uint32_t mo)
{
	const uint32_t ulpdu = PIECE - MPA_LEN_FIELD - MPA_CRC_LEN;
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, false, 0, msn, mo);

	memset(at, 'X', PIECE);
	rn_store_be16(at, (uint16_t)ulpdu);
	ddp_build(at + MPA_LEN_FIELD, &h);
	const uint32_t crc = crc32c(0, at, PIECE - MPA_CRC_LEN);
	memcpy(at + PIECE - MPA_CRC_LEN, &crc, MPA_CRC_LEN);
}

/* The message arrives as it was sent, whatever its payload looks like. */
static void payload_is_only_payload(const struct ddp_hdr *h, const uint8_t *pay, uint32_t len, uint32_t whole)
{
	struct qp_cqe e;

	B.r->lose = 1;
	send_ddp(h, pay, len);
	rig_run(B.r, 8 * RN_NS_PER_US);
	assert_int_equal(B.r->dropped, 1);
	for (uint32_t i = 0; i < 9000; i++) {
		assert_int_not_equal(dev()->mem[20000 + i], 'X');
		assert_int_not_equal(dev()->mem[10000 + i], 'X');
	}
	rig_settle(B.r);
	assert_true(rig_poll(&dev()->rcq_client, &e));
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.wr_id, 41);
	assert_int_equal(e.byte_len, whole);
	assert_memory_equal(dev()->mem + 10000 + whole - len, pay, len);
	assert_int_equal(dev()->ctx.rc.qp.stats.framing_errors, 0);
	assert_int_equal(rc_get_state(&dev()->conn[0].rc), RC_OPERATIONAL);
	close_bench();
}

static void an_fpdu_in_a_payload_is_not_placed(void **state)
{
	static uint8_t pay[2980];

	(void)state;
	raw_begin();
	memset(pay, 'd', sizeof(pay));
	image(pay + PIECE - MPA_LEN_FIELD - DDP_UNTAGGED_HDR_LEN, 2, 0);
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, 0);
	payload_is_only_payload(&h, pay, sizeof(pay), sizeof(pay));
}

/* The same after a segment of the same message that looked like an FPDU of its own. */
static void nor_behind_a_full_segment_of_its_message(void **state)
{
	static uint8_t pay[2980];
	const uint32_t part = PIECE - MPA_LEN_FIELD - MPA_CRC_LEN - DDP_UNTAGGED_HDR_LEN;

	(void)state;
	raw_begin();
	memset(pay, 'd', sizeof(pay));
	const struct ddp_hdr first = ddp_untagged(RDMAP_SEND, false, 0, 1, 0);
	send_ddp(&first, pay, part);
	rig_run(B.r, RN_NS_PER_MS);
	image(pay + PIECE - MPA_LEN_FIELD - DDP_UNTAGGED_HDR_LEN, 1, part);
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, part);
	payload_is_only_payload(&h, pay, sizeof(pay), part + sizeof(pay));
}

/*
 * A peer whose segments have all begun with an FPDU so far, and whose next FPDU spans three of them: in its payload, at
 * the right place of the stream, lies the image of this message's next but one segment. The guess is wrong.
 */
static void guess_wrong(const struct ddp_hdr *h, uint32_t n, uint8_t *pay, uint32_t len)
{
	static const uint8_t d[PIECE];
	const uint32_t part = PIECE - MPA_LEN_FIELD - MPA_CRC_LEN - DDP_UNTAGGED_HDR_LEN;
	const struct ddp_hdr first = ddp_untagged(RDMAP_SEND, false, 0, 1, 0);
	const uint32_t before = n == 1 ? 0 : mpa_fpdu_len(DDP_UNTAGGED_HDR_LEN + 100);

	raw_begin();
	memset(dev()->mem, BLANK, RIG_MEM);
	send_ddp(&first, d, part);
	rig_run(B.r, RN_NS_PER_MS);
	memset(pay, 'd', len);
	image(pay + PIECE - before - MPA_LEN_FIELD - DDP_UNTAGGED_HDR_LEN, 1, 2 * part);
	B.r->lose = 1;
	if (n == 2)
		send_ddp(&h[0], d, 100);
	send_ddp(&h[n - 1], pay, len);
	rig_run(B.r, 8 * RN_NS_PER_US);
	assert_int_equal(B.r->dropped, 1);
	assert_int_equal(dev()->ctx.rc.qp.stats.ooo_placed, 1);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		if (i - (10000 + 2 * part) < part)
			assert_int_equal(dev()->mem[i], 'X');
		else
			assert_int_equal(dev()->mem[i], i - 10000 < part ? 0 : BLANK);
	rig_settle(B.r);
	assert_int_equal(dev()->ctx.rc.qp.stats.framing_errors, 0);
	assert_int_equal(rc_get_state(&dev()->conn[0].rc), RC_OPERATIONAL);
}

static void completed(uint64_t wr_id, uint32_t len)
{
	struct qp_cqe e;

	assert_true(rig_poll(&dev()->rcq_client, &e));
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.wr_id, wr_id);
	assert_int_equal(e.byte_len, len);
}

static void a_wrong_guess_is_overwritten_in_its_turn(void **state)
{
	static uint8_t pay[2980];
	const uint32_t part = PIECE - MPA_LEN_FIELD - MPA_CRC_LEN - DDP_UNTAGGED_HDR_LEN;
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, part);

	(void)state;
	guess_wrong(&h, 1, pay, sizeof(pay));
	completed(41, part + sizeof(pay));
	assert_memory_equal(dev()->mem + 10000 + part, pay, sizeof(pay));
	close_bench();
}

/* The image is in the next message's payload, and this message ends before the place that the image names. */
static void a_wrong_guess_stays_in_its_receive(void **state)
{
	static uint8_t pay[2980];
	const uint32_t part = PIECE - MPA_LEN_FIELD - MPA_CRC_LEN - DDP_UNTAGGED_HDR_LEN;
	const struct ddp_hdr h[] = { ddp_untagged(RDMAP_SEND, true, 0, 1, part),
				     ddp_untagged(RDMAP_SEND, true, 0, 2, 0) };

	(void)state;
	guess_wrong(h, 2, pay, sizeof(pay));
	completed(41, part + 100);
	completed(42, sizeof(pay));
	assert_memory_equal(dev()->mem + 20000, pay, sizeof(pay));
	for (uint32_t i = 0; i < 10000; i++)
		assert_int_equal(dev()->mem[10000 + i], i < part + 100 ? 0 : i - 2 * part < part ? 'X' : BLANK);
	close_bench();
}

/*
 * Behind a segment of a longer message that has no payload comes a hole, and behind it another such segment. A length
 * of zero is no part in which places ahead of the stream could be counted.
 */
static void empty_segments_are_no_parts_of_a_message(void **state)
{
	struct qp_sge one;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	one = rig_sge(dev(), 3000, 500);
	rig_post_recv(dev(), 0, 41, &one, 1);
	send_send(1, 0, 0, false);
	rig_run(B.r, RN_NS_PER_MS);
	B.r->lose = 1;
	for (uint32_t i = 0; i < 2; i++) { /* the first of these segments is lost */
		send_send(1, 0, 0, false);
		rig_run(B.r, RN_NS_PER_US);
	}
	rig_run(B.r, 8 * RN_NS_PER_US);
	assert_int_equal(B.r->dropped, 1);
	assert_int_equal(dev()->ctx.rc.qp.stats.ooo_placed, 0);
	send_send(1, 0, 450, true);
	rig_settle(B.r);
	completed(41, 450);
	close_bench();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_flag_is_not_seen_before_its_data, up, down),
		cmocka_unit_test_setup_teardown(the_last_byte_is_not_seen_before_the_others, up, down),
		cmocka_unit_test_setup_teardown(the_next_write_is_not_taken_for_this_one, up, down),
		cmocka_unit_test_setup_teardown(the_later_write_wins, up, down),
		cmocka_unit_test_setup_teardown(the_middle_of_a_send_is_placed_early, up, down),
		cmocka_unit_test_setup_teardown(the_middle_of_a_read_is_placed_early, up, down),
		cmocka_unit_test_setup_teardown(the_middle_of_a_send_is_placed_early, up_marked, down),
		cmocka_unit_test_setup_teardown(the_middle_of_a_read_is_placed_early, up_marked, down),
		cmocka_unit_test_setup_teardown(what_does_not_fit_the_receive_is_not_placed_early, up, down),
		cmocka_unit_test(an_fpdu_in_a_payload_is_not_placed),
		cmocka_unit_test(nor_behind_a_full_segment_of_its_message),
		cmocka_unit_test(a_wrong_guess_is_overwritten_in_its_turn),
		cmocka_unit_test(a_wrong_guess_stays_in_its_receive),
		cmocka_unit_test(empty_segments_are_no_parts_of_a_message),
	};

	return cmocka_run_group_tests_name("qp_order", tests, NULL, NULL);
}
