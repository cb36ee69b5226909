/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A peer that breaks the rules, byte by byte: each error gets its Terminate, ends only its own connection, and places
 * nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "raw.h"

/* ---- errors of a single segment ---- */

static void w_bad_stag(void) { send_write(0x00ffff00, iova(0), 10, true); }
static void w_stag_zero(void) { send_write(0, iova(0), 10, true); }
static void w_stag_huge(void) { send_write(0xffffffff, iova(0), 10, true); }
static void w_wrong_key(void) { send_write(dev()->rkey ^ 1, iova(0), 10, true); }
static void w_stale(void) { send_write(B.stale, iova(0), 10, true); }
static void w_other_pd(void) { send_write(B.other_pd, iova(0), 10, true); }
static void w_no_right(void) { send_write(B.ro, iova(0), 10, true); }
static void w_past_end(void) { send_write(B.small, iova(2 * SMALL_LEN - 9), 10, true); }
static void w_before(void) { send_write(B.small, iova(SMALL_LEN - 1), 10, true); }
static void w_wrap(void) { send_write(B.small, UINT64_MAX - 5, 10, true); }
static void w_wrap_edge(void) { send_write(B.small, UINT64_MAX, 1, true); }
static void s_no_buffer(void) { send_send(1, 0, 10, true); }
static void s_gap(void) { send_send(2, 0, 10, true); }
static void s_repeat(void) { send_send(0, 0, 10, true); }
static void s_mo(void) { send_send(1, 4, 10, true); }

static void s_qn(void)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, 0);

	h.qn = 9;
	send_ddp(&h, junk, 4);
}

static void s_qn_of_reads(void)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, 0);

	h.qn = DDP_QN_READ_REQ;
	send_ddp(&h, junk, 4);
}

static void raw_octet(uint32_t at, uint8_t value)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, true, 0, 1, 0);
	uint8_t u[32] = { 0 };

	ddp_build(u, &h);
	u[at] = value;
	send_ulpdu(u, 22, false);
}

static void h_opcode(void) { raw_octet(1, 0x4f); }
static void h_opcode_imm(void) { raw_octet(1, 0x48); }
static void h_ddp_version(void) { raw_octet(0, 0x42); }
static void h_rdmap_version(void) { raw_octet(1, 0x03); }
static void h_write_untagged(void) { raw_octet(1, 0x40); }
static void h_mo_wraps(void) { send_send(1, UINT32_MAX - 3, 10, true); }

static void h_tagged_version(void)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, 1, 1);
	uint8_t u[32] = { 0 };

	ddp_build(u, &h);
	u[0] = 0xc0;
	send_ulpdu(u, 20, false);
}

static void r_bad_stag(void) { send_read(1, B.stale, iova(0), 10); }
static void r_bounds(void) { send_read(1, B.small, iova(SMALL_LEN), SMALL_LEN + 1); }
static void r_right(void) { send_read(1, B.ro, iova(0), 10); }
static void r_pd(void) { send_read(1, B.other_pd, iova(0), 10); }
static void r_wrap(void) { send_read(1, B.small, UINT64_MAX - 1, 10); }
static void r_4g(void) { send_read(1, B.small, iova(SMALL_LEN), UINT32_MAX); }
static void r_msn(void) { send_read(2, B.small, iova(SMALL_LEN), 1); }

static void r_short_body(void)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, 1, 0);

	send_ddp(&h, junk, RDMAP_READ_REQ_LEN - 1);
}

static void resp_unasked(void)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_READ_RESP, true, dev()->rkey, iova(0));

	send_ddp(&h, junk, 10);
}

static void f_crc(void)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, dev()->rkey, iova(0));
	uint8_t u[64] = { 0 };

	ddp_build(u, &h);
	send_ulpdu(u, 40, true);
}

static void f_short(void) { send_ulpdu(junk, 13, false); }
static void f_one(void) { send_ulpdu(junk, 1, false); }
static void f_empty(void) { send_ulpdu(junk, 0, false); }

static void f_short_untagged(void)
{
	uint8_t u[18] = { 0x41, 0x43 };

	send_ulpdu(u, 14, false);
}

static void i_bad_stag(void)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND_INV, true, B.other_pd, 1, 0);
	struct qp_sge s = rig_sge(dev(), 0, 0);

	rig_post_recv(dev(), 0, 1, &s, 1);
	send_ddp(&h, junk, 0);
}

static void one_segment_faults(void **state)
{
	static const struct {
		const char *name;
		void (*act)(void);
		uint8_t layer, etype, code;
	} t[] = {
		{ "Write, no such STag", w_bad_stag, 1, 1, 0x00 },
		{ "Write, STag 0", w_stag_zero, 1, 1, 0x00 },
		{ "Write, STag past the table", w_stag_huge, 1, 1, 0x00 },
		{ "Write, wrong key", w_wrong_key, 1, 1, 0x00 },
		{ "Write, deregistered", w_stale, 1, 1, 0x00 },
		{ "Write, other PD", w_other_pd, 1, 1, 0x02 },
		{ "Write, no right", w_no_right, 0, 1, 0x02 },
		{ "Write past the end", w_past_end, 1, 1, 0x01 },
		{ "Write before the beginning", w_before, 1, 1, 0x01 },
		{ "Write, TO wraps", w_wrap, 1, 1, 0x03 },
		{ "Write at the last TO", w_wrap_edge, 1, 1, 0x01 },
		{ "Send without a receive", s_no_buffer, 1, 2, 0x02 },
		{ "Send, MSN gap", s_gap, 1, 2, 0x03 },
		{ "Send, MSN repeated", s_repeat, 1, 2, 0x03 },
		{ "Send, no such QN", s_qn, 1, 2, 0x01 },
		{ "Send on the Read queue", s_qn_of_reads, 1, 2, 0x01 },
		{ "opcode 15", h_opcode, 0, 2, 0x06 },
		{ "Immediate Data of 4", h_opcode_imm, 0, 2, 0x07 },
		{ "untagged Write", h_write_untagged, 0, 2, 0x06 },
		{ "DDP version, untagged", h_ddp_version, 1, 2, 0x06 },
		{ "DDP version, tagged", h_tagged_version, 1, 1, 0x04 },
		{ "RDMAP version", h_rdmap_version, 0, 2, 0x05 },
		{ "MO wraps", h_mo_wraps, 1, 2, 0x04 },
		{ "Read, deregistered", r_bad_stag, 0, 1, 0x00 },
		{ "Read past the end", r_bounds, 0, 1, 0x01 },
		{ "Read of 4 GiB", r_4g, 0, 1, 0x01 },
		{ "Read, no right", r_right, 0, 1, 0x02 },
		{ "Read, other PD", r_pd, 0, 1, 0x03 },
		{ "Read, TO wraps", r_wrap, 0, 1, 0x04 },
		{ "Read, MSN gap", r_msn, 1, 2, 0x03 },
		{ "Read Request too short", r_short_body, 0, 2, 0x07 },
		{ "Read Response unasked for", resp_unasked, 0, 2, 0x06 },
		{ "bad CRC", f_crc, 2, 0, 0x02 },
		{ "FPDU of 13", f_short, 2, 0, 0x03 },
		{ "FPDU of 1", f_one, 2, 0, 0x03 },
		{ "FPDU of nothing", f_empty, 2, 0, 0x03 },
		{ "untagged FPDU of 14", f_short_untagged, 2, 0, 0x03 },
		{ "Send with Invalidate, other PD", i_bad_stag, 0, 1, 0x09 },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		print_message("# %s\n", t[i].name);
		open_bench(0, NULL);
		raw_up();
		send_write(0, 0, 0, true); /* after the first FPDU the device may send */
		rig_settle(B.r);
		t[i].act();
		expect_terminate((enum iw_layer)t[i].layer, t[i].etype, t[i].code);
		assert_true(untouched());
		close_bench();
	}
}

/* A peer that guesses STags is counted, and each guess costs it the connection. */
static void each_guess_of_an_stag_is_counted(void **state)
{
	static void (*const guess[])(void) = { w_bad_stag, w_stag_huge, w_wrong_key, w_stale,
					       w_other_pd, r_bad_stag,  r_pd,        i_bad_stag };

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(guess); i++) {
		open_bench(0, NULL);
		raw_up();
		send_write(0, 0, 0, true);
		rig_settle(B.r);
		guess[i]();
		rig_settle(B.r);
		assert_int_equal(dev()->ctx.rc.qp.stats.access_errors, 1);
		assert_int_equal(dev()->ctx.rc.qp.stats.terms_sent, 1);
		close_bench();
	}
}

static void wrong_mo_is_refused(void **state)
{
	struct qp_sge s;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	s = rig_sge(dev(), 0, 100);
	rig_post_recv(dev(), 0, 1, &s, 1);
	send_write(0, 0, 0, true);
	s_mo();
	expect_terminate(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MO);
	close_bench();
}

/* Bounds are checked at each segment, not at the first only. */
static void later_segments_are_checked(void **state)
{
	(void)state;
	open_bench(0, NULL);
	raw_up();
	send_write(B.small, iova(SMALL_LEN), 1000, false);
	send_write(B.small, iova(SMALL_LEN + 1000), 1000, false);
	send_write(B.small, iova(2 * SMALL_LEN - 500), 501, true);
	expect_terminate(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS);
	for (uint32_t i = 2 * SMALL_LEN - 500; i < 3 * SMALL_LEN; i++)
		assert_int_equal(dev()->mem[i], 0xee);
	close_bench();
}

static void send_longer_than_its_receive(void **state)
{
	struct qp_cqe e;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	struct qp_sge s = rig_sge(dev(), 0, 1500);
	rig_post_recv(dev(), 0, 41, &s, 1);
	rig_post_recv(dev(), 0, 42, &s, 1);
	send_send(1, 0, 1000, false);
	send_send(1, 1000, 501, true);
	expect_terminate(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_TOO_LONG);
	assert_true(rig_poll(&dev()->rcq_client, &e));
	assert_int_equal(e.wr_id, 41);
	assert_int_equal(e.status, QP_WC_LOC_LEN_ERR);
	assert_true(rig_poll(&dev()->rcq_client, &e));
	assert_int_equal(e.wr_id, 42);
	assert_int_equal(e.status, QP_WC_WR_FLUSH_ERR);
	assert_false(rig_poll(&dev()->rcq_client, &e));
	for (uint32_t i = 1000; i < 3000; i++)
		assert_int_equal(dev()->mem[i], 0xee);
	close_bench();
}

/* Sends that are not in turn leave no trace, even in their receives; then all complete in order. */
static void later_sends_wait_for_their_turn(void **state)
{
	struct qp_sge many[5], one, small;
	struct qp_cqe e;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	for (uint32_t i = 0; i < 5; i++)
		many[i] = rig_sge(dev(), 1000 + 200 * i, 100);
	one = rig_sge(dev(), 3000, 500);
	small = rig_sge(dev(), 5000, 9);
	rig_post_recv(dev(), 0, 41, &one, 1);
	rig_post_recv(dev(), 0, 42, many, 5);
	one = rig_sge(dev(), 4000, 500);
	rig_post_recv(dev(), 0, 43, &one, 1);
	rig_post_recv(dev(), 0, 44, &small, 1);
	send_write(0, 0, 0, true); /* the first FPDU of the stream */
	rig_run(B.r, RN_NS_PER_MS);
	B.r->lose = 1;
	for (uint32_t msn = 1; msn <= 4; msn++) { /* each Send in a segment of its own, all before the first ACK */
		send_send(msn, 0, msn == 4 ? 10 : 450, true);
		rig_run(B.r, RN_NS_PER_US);
	}
	rig_run(B.r, 5 * RN_NS_PER_US);
	assert_int_equal(dev()->ctx.rc.qp.stats.ooo_placed, 0);
	assert_false(rig_poll(&dev()->rcq_client, &e));
	assert_true(untouched());
	/* the Terminate for the last Send, in its turn */
	expect_terminate(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_TOO_LONG);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(rig_poll(&dev()->rcq_client, &e));
		assert_int_equal(e.wr_id, 41 + i);
		assert_int_equal(e.status, i == 3 ? QP_WC_LOC_LEN_ERR : QP_WC_SUCCESS);
		assert_int_equal(e.byte_len, i == 3 ? 0 : 450);
	}
	for (uint32_t i = 0; i < 450; i++) {
		assert_int_equal(dev()->mem[3000 + i], junk[i]);
		assert_int_equal(dev()->mem[1000 + 200 * (i / 100) + i % 100], junk[i]);
		assert_int_equal(dev()->mem[4000 + i], junk[i]);
	}
	assert_int_equal(dev()->mem[5000], 0xee);
	close_bench();
}

static void more_reads_than_ird(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.ird = 2;
	open_bench(0, &cfg);
	raw_up();
	/* All requests in one segment, so that the device cannot answer in between. */
	for (uint32_t i = 1; i <= 3; i++)
		send_read(i, B.small, iova(SMALL_LEN), 16);
	expect_terminate(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER);
	close_bench();
}

/* A zero-length Write and Read with an STag of memory that another client of the device owns. */
static void nothing_for_length_zero(void **state)
{
	(void)state;
	open_bench(0, NULL);
	raw_up();
	send_write(0xdeadbeef, UINT64_MAX, 0, true);
	send_read(1, 0xdeadbeef, UINT64_MAX, 0);
	rig_settle(B.r);
	struct ddp_hdr h;
	uint8_t body[64];
	uint32_t len = 1;
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_READ_RESP);
	assert_int_equal(len, 0);
	assert_true(h.last);
	assert_int_equal(h.stag, 0x1234);
	assert_int_equal(dev()->q[0].qp.state, QP_S_RTS);
	close_bench();
}

static void invalidate_comes_before_delivery(void **state)
{
	struct qp_cqe e;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	struct qp_sge s = rig_sge(dev(), 100, 100);
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND_SE_INV, true, B.small, 1, 0);
	rig_post_recv(dev(), 0, 41, &s, 1);
	send_ddp(&h, junk, 10);
	rig_settle(B.r);
	assert_true(rig_poll(&dev()->rcq_client, &e));
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.flags, QP_WCF_WITH_INV);
	assert_int_equal(e.aux, B.small);
	assert_int_equal(e.solicited, 1);
	send_write(B.small, iova(SMALL_LEN), 1, true);
	expect_terminate(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID);
	assert_int_equal(qp_mr_dereg(&dev()->dev, B.small), QP_MR_OK);
	close_bench();
}

/* ---- Read Responses that answer no request ---- */

static void resp(uint32_t stag, uint64_t to, uint32_t len, bool last)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_READ_RESP, last, stag, to);

	send_ddp(&h, junk, len);
}

static void read_issued(void)
{
	const struct mpa_policy p = raw_policy();

	open_bench(1, NULL);
	raw_respond(&p);
	assert_true(rc_is_up(&dev()->conn[0].rc));
	struct qp_sge s = rig_sge(dev(), 8192, 2000);
	const struct rig_wr w = { .wr_id = 3,
				  .op = QP_WR_READ,
				  .flags = QP_WF_SIGNALED,
				  .sge = &s,
				  .num_sge = 1,
				  .raddr = 0x5000,
				  .rkey = 0x77 };
	assert_true(rig_post(dev(), 0, &w));
	rig_settle(B.r);
}

static void resp_good(void)
{
	resp(dev()->lkey, iova(8192), 1000, false);
	resp(dev()->lkey, iova(9192), 1000, true);
}
static void resp_overrun(void) { resp(dev()->lkey, iova(8192), 2001, true); }

static void resp_overrun_late(void)
{
	resp(dev()->lkey, iova(8192), 1999, false);
	resp(dev()->lkey, iova(10191), 2, true);
}

static void resp_elsewhere(void) { resp(dev()->lkey, iova(0), 2000, true); }
static void resp_other_stag(void) { resp(B.small, iova(SMALL_LEN), 2000, true); }
static void resp_early_last(void) { resp(dev()->lkey, iova(8192), 1000, true); }
static void resp_late_last(void) { resp(dev()->lkey, iova(8192), 2000, false); }
static void resp_twice(void)
{
	resp_good();
	resp(dev()->lkey, iova(8192), 2000, true);
}

static void read_responses(void **state)
{
	static const struct {
		void (*act)(void);
		uint8_t layer, etype, code;
		bool completes;
	} t[] = {
		{ resp_overrun, 1, 1, 0x01, false },    { resp_overrun_late, 1, 1, 0x01, false },
		{ resp_elsewhere, 1, 1, 0x01, false },  { resp_other_stag, 1, 1, 0x00, false },
		{ resp_early_last, 0, 2, 0x07, false }, { resp_late_last, 0, 2, 0x07, false },
		{ resp_twice, 0, 2, 0x06, true },
	};
	struct qp_cqe e;

	(void)state;
	read_issued();
	resp_good();
	rig_settle(B.r);
	assert_true(rig_poll(&dev()->scq_client, &e));
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.byte_len, 2000);
	assert_memory_equal(dev()->mem + 8192, junk, 1000);
	close_bench();
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		read_issued();
		t[i].act();
		expect_terminate((enum iw_layer)t[i].layer, t[i].etype, t[i].code);
		assert_true(rig_poll(&dev()->scq_client, &e));
		assert_int_equal(e.status, t[i].completes ? QP_WC_SUCCESS : QP_WC_WR_FLUSH_ERR);
		assert_false(rig_poll(&dev()->scq_client, &e));
		for (uint32_t k = 0; k < RIG_MEM; k++)
			if (k < 8192 || k >= 10192)
				assert_int_equal(dev()->mem[k], 0xee);
		close_bench();
	}
}

/* ---- Terminates from the peer ---- */

static void terminate_blames_the_read(void **state)
{
	struct qp_cqe e;
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, 1, 0);
	const struct rdmap_read_req q = { .len = 2000, .src_stag = 0x77, .src_to = 0x5000 };

	(void)state;
	read_issued();
	struct qp_sge s = rig_sge(dev(), 0, 10);
	rig_post_recv(dev(), 0, 60, &s, 1);
	send_terminate(iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, true), &h, &q);
	rig_settle(B.r);
	assert_true(rig_poll(&dev()->scq_client, &e));
	assert_int_equal(e.status, QP_WC_REM_ACCESS_ERR);
	assert_int_equal(e.vendor_err, 0x0102);
	assert_true(rig_poll(&dev()->rcq_client, &e));
	assert_int_equal(e.status, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(e.wr_id, 60);
	assert_int_equal(rig_fx(B.r, B.dev, QP_FX_QP_EVENT)->code, QP_EVENT_ACCESS_ERR);
	assert_int_equal(rig_fx(B.r, B.dev, QP_FX_DISCONNECTED)->vendor_err, 0x0102);
	assert_true(raw()->fin);
	close_bench();
}

/* One segment acknowledges a work request in TCP and refuses it by a Terminate: the work request fails. */
static void terminate_blames_what_its_segment_acknowledges(void **state)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, 0x77, 0x6000);
	const uint8_t want[] = { QP_WC_SUCCESS, QP_WC_REM_ACCESS_ERR, QP_WC_WR_FLUSH_ERR };
	struct qp_cqe e;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	send_write(0, 0, 0, true); /* the first FPDU of the stream */
	rig_settle(B.r);
	struct qp_sge s = rig_sge(dev(), 0, 100);
	for (uint32_t i = 0; i < 3; i++) {
		const struct rig_wr w = { .wr_id = i,
					  .op = QP_WR_WRITE,
					  .flags = QP_WF_SIGNALED,
					  .sge = &s,
					  .num_sge = 1,
					  .raddr = 0x5000 + 0x1000 * i,
					  .rkey = 0x77 };
		assert_true(rig_post(dev(), 0, &w));
	}
	B.r->n[B.raw].paused = true;
	rig_run(B.r, 20 * RN_NS_PER_US);
	assert_false(rig_poll(&dev()->scq_client, &e));
	send_terminate(iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, false), &h, NULL);
	B.r->n[B.raw].paused = false;
	rig_settle(B.r);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(rig_poll(&dev()->scq_client, &e));
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.status, want[i]);
	}
	close_bench();
}

/* Random bytes, as FPDUs with good CRCs and without framing: the connection ends, and nothing else happens. */
static void noise(void **state)
{
	struct rn_rng g;

	(void)state;
	rn_rng_seed(&g, 42);
	for (uint32_t i = 0; i < 400; i++) {
		struct rig_cfg cfg;
		rig_defaults(&cfg);
		cfg.split = i & 1;
		open_bench(0, &cfg);
		raw_up();
		if (i & 2)
			B.r->cfg.link = (struct rig_link){ .delay_ns = 5000,
							   .loss = 30000,
							   .dup = 50000,
							   .reorder = 300000,
							   .reorder_ns = 100000,
							   .cut = 200000 };
		struct qp_sge s = rig_sge(dev(), 3u << 20, 1000);
		rig_post_recv(dev(), 0, 1, &s, 1);
		for (uint32_t k = 0; k < 20; k++) {
			uint8_t u[300];
			uint32_t len = 14 + rn_rng_below(&g, 280);
			for (uint32_t b = 0; b < len; b++)
				u[b] = (uint8_t)rn_rng_u32(&g);
			if (rn_rng_below(&g, 4) > 0) { /* most have a plausible header */
				struct ddp_hdr h = ddp_untagged((enum rdmap_opcode)rn_rng_below(&g, 8),
								rn_rng_below(&g, 2), B.small, rn_rng_below(&g, 3),
								rn_rng_below(&g, 2) * 40);
				h.tagged = rn_rng_below(&g, 2);
				h.to = iova(rn_rng_below(&g, 3 * SMALL_LEN));
				h.qn = rn_rng_below(&g, 4);
				ddp_build(u, &h);
			}
			if (rn_rng_below(&g, 20) == 0)
				send_bytes(u, len);
			else
				send_ulpdu(u, len, false);
			rig_step(B.r);
		}
		rig_settle(B.r);
		for (uint32_t b = 2 * SMALL_LEN; b < 3u << 20; b++)
			if (dev()->mem[b] != 0xee)
				fail_msg("round %u: byte %u was written", i, b);
		close_bench();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_segment_faults),
		cmocka_unit_test(each_guess_of_an_stag_is_counted),
		cmocka_unit_test(wrong_mo_is_refused),
		cmocka_unit_test(later_segments_are_checked),
		cmocka_unit_test(send_longer_than_its_receive),
		cmocka_unit_test(later_sends_wait_for_their_turn),
		cmocka_unit_test(more_reads_than_ird),
		cmocka_unit_test(nothing_for_length_zero),
		cmocka_unit_test(invalidate_comes_before_delivery),
		cmocka_unit_test(read_responses),
		cmocka_unit_test(terminate_blames_the_read),
		cmocka_unit_test(terminate_blames_what_its_segment_acknowledges),
		cmocka_unit_test(noise),
	};

	return cmocka_run_group_tests_name("qp_hostile", tests, NULL, NULL);
}
