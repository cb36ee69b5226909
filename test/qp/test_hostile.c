/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that breaks the rules, byte by byte: each fault gets its Terminate, costs only its own connection, and
 * places nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"
#include "iwarp/mpa_tx.h"
#include "iwarp/rdmap_wire.h"
#include "rig.h"

/* The raw side is 0 when it initiates, 1 when it responds; the device is the other one. */
struct bench {
	struct rig *r;
	int raw, dev;
	uint32_t rx_at;     /* bytes of the device's stream already looked at */
	struct mpa_rx rx;
	uint8_t stage[MPA_STAGE_SIZE];
	uint32_t ro, other_pd, stale, small; /* STags */
};

#define SMALL_LEN 4096u

static struct bench B;

static void open_bench(int raw, const struct rig_cfg *with)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	if (with != NULL)
		cfg = *with;
	cfg.raw[raw] = true;
	memset(&B, 0, sizeof(B));
	B.raw = raw;
	B.dev = !raw;
	B.r = rig_new(&cfg);
	struct rig_node *n = &B.r->n[B.dev];
	B.ro = rig_reg(n, 0, SMALL_LEN, QP_ACC_LOCAL_WRITE, RIG_PD);
	B.other_pd = rig_reg(n, 0, SMALL_LEN, QP_ACC_ALL, RIG_PD + 1);
	B.stale = rig_reg(n, 0, SMALL_LEN, QP_ACC_ALL, RIG_PD);
	B.small = rig_reg(n, SMALL_LEN, SMALL_LEN, QP_ACC_ALL, RIG_PD);
	assert_int_equal(qp_mr_dereg(&n->dev, B.stale), QP_MR_OK);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		n->mem[i] = 0xee;
}

static struct rig_node *dev(void) { return &B.r->n[B.dev]; }
static struct rig_raw *raw(void) { return B.r->n[B.raw].raw; }
static uint64_t iova(uint32_t off) { return RIG_IOVA(B.dev) + off; }

static void close_bench(void) { rig_free(B.r); }

static void send_bytes(const void *p, uint32_t n) { rig_raw_send(B.r, B.raw, p, n); }

/* An FPDU without markers around any ULPDU; flip: breaks the CRC. */
static void send_ulpdu(const uint8_t *ulpdu, uint32_t len, bool flip)
{
	uint8_t f[70000] = { 0 };
	uint32_t total = mpa_fpdu_len(len), crc;

	rn_store_be16(f, (uint16_t)len);
	memcpy(f + 2, ulpdu, len);
	crc = crc32c(0, f, total - 4) ^ (flip ? 1 : 0);
	memcpy(f + total - 4, &crc, 4);
	send_bytes(f, total);
}

static void send_ddp(const struct ddp_hdr *h, const void *payload, uint32_t len)
{
	uint8_t u[66000];
	uint32_t n = ddp_build(u, h);

	if (len > 0)
		memcpy(u + n, payload, len);
	send_ulpdu(u, n + len, false);
}

static uint8_t junk[60000];

static void send_write(uint32_t stag, uint64_t to, uint32_t len, bool last)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, last, stag, to);

	send_ddp(&h, junk, len);
}

static void send_send(uint32_t msn, uint32_t mo, uint32_t len, bool last)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, last, 0, msn, mo);

	send_ddp(&h, junk, len);
}

static void send_read(uint32_t msn, uint32_t stag, uint64_t to, uint32_t len)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, msn, 0);
	const struct rdmap_read_req q = { .sink_stag = 0x1234, .sink_to = 0x1000, .len = len, .src_stag = stag,
					  .src_to = to };
	uint8_t body[RDMAP_READ_REQ_LEN];

	rdmap_read_req_build(body, &q);
	send_ddp(&h, body, sizeof(body));
}

static struct mpa_policy raw_policy(void)
{
	return (struct mpa_policy){ .rev = 2, .crc = true, .ird = 8, .ord = 8, .rtr = MPA_RTR_WRITE };
}

/* Raw initiator: TCP, Request, Reply; the stream is at the beginning of Full Operation. */
static void raw_up(void)
{
	const struct mpa_policy p = raw_policy();
	struct mpa_out out;
	struct mpa_neg_rx nrx;
	struct mpa_frame f;
	uint32_t used;

	rig_raw_connect(B.r, B.raw);
	assert_int_equal(mpa_neg_request(&p, NULL, 0, &out), MPA_NEG_OK);
	send_bytes(out.buf, out.len);
	rig_settle(B.r);
	mpa_neg_rx_init(&nrx, true);
	assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
	B.rx_at = used;
	mpa_rx_init(&B.rx, false, true);
	assert_true(mpa_rx_give_stage(&B.rx, B.stage, sizeof(B.stage)));
}

/* Raw responder: takes the Request, replies, leaves the rest to the test. */
static void raw_respond(const struct mpa_policy *p)
{
	struct mpa_neg_rx nrx;
	struct mpa_frame f;
	struct mpa_out out;
	struct mpa_agreed a;
	uint32_t used;

	rig_connect_start(B.r, 0, NULL, 0);
	rig_settle(B.r);
	mpa_neg_rx_init(&nrx, false);
	assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
	B.rx_at = used;
	mpa_rx_init(&B.rx, false, true);
	assert_true(mpa_rx_give_stage(&B.rx, B.stage, sizeof(B.stage)));
	(void)!mpa_neg_accept(p, &f, NULL, 0, &out, &a);
	send_bytes(out.buf, out.len);
	rig_settle(B.r);
}

/* The device's next FPDU; false when there is none. */
static bool next_fpdu(struct ddp_hdr *h, uint8_t *payload, uint32_t *len)
{
	struct rn_iov iov = { raw()->rx + B.rx_at, raw()->rx_len - B.rx_at };
	struct mpa_rx_in in;
	struct mpa_view v;
	uint8_t all[66000];

	mpa_rx_input(&in, &iov, 1);
	if (mpa_rx_next(&B.rx, &in, &v) != MPA_RX_FPDU)
		return false;
	assert_true(mpa_rx_crc(&v));
	B.rx_at += v.raw_len;
	rn_iov_gather(v.ulpdu, v.n, all, sizeof(all));
	assert_int_equal(ddp_parse(all, v.ulpdu_len, h), DDP_OK);
	*len = v.ulpdu_len - h->hdr_len;
	memcpy(payload, all + h->hdr_len, *len);
	return true;
}

static void expect_terminate(enum iw_layer layer, uint8_t etype, uint8_t code)
{
	static uint8_t body[66000];
	struct rdmap_term t;
	struct ddp_hdr h;
	uint32_t len;

	rig_settle(B.r);
	do {
		if (!next_fpdu(&h, body, &len))
			fail_msg("no Terminate, wanted %u/%u/%u", layer, etype, code);
	} while (h.opcode != RDMAP_TERMINATE);
	assert_int_equal(h.qn, DDP_QN_TERMINATE);
	assert_int_equal(h.msn, 1);
	assert_int_equal(rdmap_term_parse(body, len, &t), RDMAP_TERM_OK);
	if (t.err.layer != layer || t.err.etype != etype || t.err.code != code)
		fail_msg("Terminate %u/%u/%02x, wanted %u/%u/%02x", t.err.layer, t.err.etype, t.err.code, layer, etype,
			 code);
	assert_true(raw()->fin);
	assert_int_equal(dev()->q[0].qp.state, QP_S_ERR);
	assert_int_equal(rig_fx_count(B.r, B.dev, QP_FX_DISCONNECTED), 1);
	assert_int_equal(rig_fx(B.r, B.dev, QP_FX_DISCONNECTED)->vendor_err,
			 (uint32_t)layer << 16 | (uint32_t)etype << 8 | code);
	assert_int_equal(rig_fx_count(B.r, B.dev, QP_FX_QP_EVENT), 1);
}

static bool untouched(void)
{
	for (uint32_t i = 0; i < RIG_MEM; i++)
		if (dev()->mem[i] != 0xee)
			return false;
	return true;
}

/* ---- what one segment can do wrong ---- */

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
		{ "opcode of RFC 7306", h_opcode_imm, 0, 2, 0x06 },
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
		send_write(0, 0, 0, true); /* the first FPDU opens our direction */
		rig_settle(B.r);
		t[i].act();
		expect_terminate((enum iw_layer)t[i].layer, t[i].etype, t[i].code);
		assert_true(untouched());
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

/* Bounds are checked with each segment, not with the first one only. */
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

static void more_reads_than_ird(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.ird = 2;
	open_bench(0, &cfg);
	raw_up();
	/* In one segment, so that none is answered in between. */
	for (uint32_t i = 1; i <= 3; i++)
		send_read(i, B.small, iova(SMALL_LEN), 16);
	expect_terminate(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER);
	close_bench();
}

/* A Write to memory that another client of the same device owns. */
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

/* ---- Read Responses that are not what was asked for ---- */

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
	assert_true(dev()->conn[0].up);
	struct qp_sge s = rig_sge(dev(), 8192, 2000);
	const struct rig_wr w = { .wr_id = 3, .op = QP_WR_READ, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1,
				  .raddr = 0x5000, .rkey = 0x77 };
	assert_true(rig_post(dev(), 0, &w));
	rig_settle(B.r);
}

static void resp_good(void) { resp(dev()->lkey, iova(8192), 1000, false); resp(dev()->lkey, iova(9192), 1000, true); }
static void resp_overrun(void) { resp(dev()->lkey, iova(8192), 2001, true); }
static void resp_overrun_late(void) { resp(dev()->lkey, iova(8192), 1999, false); resp(dev()->lkey, iova(10191), 2, true); }
static void resp_elsewhere(void) { resp(dev()->lkey, iova(0), 2000, true); }
static void resp_other_stag(void) { resp(B.small, iova(SMALL_LEN), 2000, true); }
static void resp_early_last(void) { resp(dev()->lkey, iova(8192), 1000, true); }
static void resp_late_last(void) { resp(dev()->lkey, iova(8192), 2000, false); }
static void resp_twice(void) { resp_good(); resp(dev()->lkey, iova(8192), 2000, true); }

static void read_responses(void **state)
{
	static const struct {
		void (*act)(void);
		uint8_t layer, etype, code;
		bool completes;
	} t[] = {
		{ resp_overrun, 1, 1, 0x01, false }, { resp_overrun_late, 1, 1, 0x01, false },
		{ resp_elsewhere, 1, 1, 0x01, false }, { resp_other_stag, 1, 1, 0x00, false },
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

/* ---- Terminate from the peer ---- */

static void peer_terminates(struct iw_err e, const struct ddp_hdr *seg, const struct rdmap_read_req *q)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_TERMINATE, true, 0, 1, 0);
	uint8_t body[RDMAP_TERM_MAX_LEN], copy[64] = { 0 };
	uint32_t n = seg != NULL ? ddp_build(copy, seg) : 0;

	if (q != NULL)
		rdmap_read_req_build(copy + n, q);
	n = rdmap_term_build(body, e, seg != NULL ? copy : NULL, n + (q != NULL ? RDMAP_READ_REQ_LEN : 0));
	send_ddp(&h, body, n);
}

static void terminate_blames_the_read(void **state)
{
	struct qp_cqe e;
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, 0, 1, 0);
	const struct rdmap_read_req q = { .len = 2000, .src_stag = 0x77, .src_to = 0x5000 };

	(void)state;
	read_issued();
	struct qp_sge s = rig_sge(dev(), 0, 10);
	rig_post_recv(dev(), 0, 60, &s, 1);
	peer_terminates(iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, true), &h, &q);
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

/* Sends a Terminate frame (or what looks like one) in each state of the set-up and after. */
static void terminate_in_every_state(void **state)
{
	const struct iw_err e = iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, false);
	const struct mpa_policy p = raw_policy();
	struct rig_cfg cfg;
	struct mpa_out out;

	(void)state;
	/* Instead of a Request: not an MPA frame. */
	open_bench(0, NULL);
	rig_raw_connect(B.r, 0);
	peer_terminates(e, NULL, NULL);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_int_equal(B.r->n[1].n_fx, 1); /* CLOSED: the control plane never heard of it */
	close_bench();
	/* Between Request and Reply: RFC 5044, 7.1.2 forbids it. */
	rig_defaults(&cfg);
	cfg.manual = true;
	open_bench(0, &cfg);
	rig_raw_connect(B.r, 0);
	assert_int_equal(mpa_neg_request(&p, NULL, 0, &out), MPA_NEG_OK);
	send_bytes(out.buf, out.len);
	peer_terminates(e, NULL, NULL);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_non_null(rig_fx(B.r, 1, QP_FX_CONNECT_REQUEST));
	assert_non_null(rig_fx(B.r, 1, QP_FX_CONNECT_ERROR));
	close_bench();
	/* As the first FPDU, in full operation, and again while closing. */
	for (uint32_t i = 0; i < 3; i++) {
		open_bench(0, NULL);
		raw_up();
		if (i > 0)
			send_write(0, 0, 0, true);
		rig_settle(B.r);
		if (i > 1)
			qp_conn_disconnect(&dev()->ctx, &dev()->conn[0]);
		rig_settle(B.r);
		peer_terminates(e, NULL, NULL);
		peer_terminates(e, NULL, NULL);
		rig_settle(B.r);
		assert_int_equal(rig_fx_count(B.r, 1, QP_FX_DISCONNECTED), 1);
		assert_int_equal(dev()->ctx.stats.terms_rcvd, 1);
		assert_int_equal(dev()->q[0].qp.state, QP_S_ERR);
		close_bench();
	}
	/* To an initiator, instead of the Reply. */
	open_bench(1, NULL);
	rig_connect_start(B.r, 0, NULL, 0);
	rig_settle(B.r);
	peer_terminates(e, NULL, NULL);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_CONNECT_ERROR), 1);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT); /* it may be tried again */
	close_bench();
}

/* ---- set-up ---- */

static void expect_refused(const uint8_t *frame, uint32_t len)
{
	open_bench(0, NULL);
	rig_raw_connect(B.r, 0);
	send_bytes(frame, len);
	rig_settle(B.r);
	assert_true(raw()->reset);
	assert_int_equal(B.r->n[1].n_fx, 1);
	assert_int_equal(B.r->n[1].fx[0].type, QP_FX_CLOSED);
	assert_int_equal(dev()->ctx.stats.neg_errors, 1);
	close_bench();
}

static void bad_requests(void **state)
{
	const struct mpa_policy p = { .rev = 1, .crc = true, .ird = 1, .ord = 1 };
	struct mpa_out out;

	(void)state;
	assert_int_equal(mpa_neg_request(&p, junk, 512, &out), MPA_NEG_OK);
	uint8_t f[MPA_FRAME_MAX];
	memcpy(f, out.buf, sizeof(f));
	f[17] = 0; /* revision 0 */
	expect_refused(f, MPA_HDR_LEN);
	f[17] = 3;
	expect_refused(f, MPA_HDR_LEN);
	f[17] = 1;
	f[18] = 2; /* private data of 513 */
	f[19] = 1;
	expect_refused(f, MPA_HDR_LEN);
	memcpy(f, out.buf, sizeof(f));
	f[3] ^= 1; /* key */
	expect_refused(f, MPA_HDR_LEN);
	memcpy(f, out.buf, sizeof(f));
	memcpy(f, "MPA ID Rep Frame", 16);
	expect_refused(f, MPA_HDR_LEN);
}

static void request_never_comes(void **state)
{
	(void)state;
	open_bench(0, NULL);
	rig_raw_connect(B.r, 0);
	send_bytes("MPA ID Req", 10);
	rig_run(B.r, 11 * RN_NS_PER_S);
	assert_true(raw()->reset);
	assert_int_equal(dev()->ctx.stats.setup_timeouts, 1);
	assert_int_equal(qp_conn_get_state(&dev()->conn[0]), QP_C_FREE);
	close_bench();
}

static void reply_never_comes(void **state)
{
	(void)state;
	open_bench(1, NULL);
	rig_connect_start(B.r, 0, NULL, 0);
	rig_run(B.r, 11 * RN_NS_PER_S);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_CONNECT_ERROR), 1);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT);
	close_bench();
}

/* The Reply in two parts, cut at every byte, and the peer's first FPDU in the same segment as its end. */
static void reply_split_and_merged(void **state)
{
	const struct mpa_policy p = raw_policy();
	uint32_t total = MPA_HDR_LEN + MPA_ENH_LEN + 9;

	(void)state;
	for (uint32_t cut = 0; cut <= total; cut++) {
		struct mpa_neg_rx nrx;
		struct mpa_frame f;
		struct mpa_out out;
		struct mpa_agreed a;
		struct qp_cqe e;
		uint32_t used;

		open_bench(1, NULL);
		rig_connect_start(B.r, 0, NULL, 0);
		struct qp_sge s = rig_sge(dev(), 0, 100);
		rig_post_recv(dev(), 0, 4, &s, 1);
		rig_settle(B.r);
		mpa_neg_rx_init(&nrx, false);
		assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
		assert_int_equal(mpa_neg_accept(&p, &f, (const uint8_t *)"willkommen", 9, &out, &a), MPA_NEG_OK);
		assert_int_equal(out.len, total);
		send_bytes(out.buf, cut);
		rig_settle(B.r);
		send_bytes(out.buf + cut, total - cut);
		send_send(1, 0, 33, true);
		rig_settle(B.r);
		assert_int_equal(rig_fx_count(B.r, 0, QP_FX_ESTABLISHED), 1);
		assert_int_equal(rig_fx(B.r, 0, QP_FX_ESTABLISHED)->priv_len, 9);
		assert_true(rig_poll(&dev()->rcq_client, &e));
		assert_int_equal(e.byte_len, 33);
		close_bench();
	}
}

static void rejected(void **state)
{
	const struct mpa_policy p = raw_policy();
	struct mpa_neg_rx nrx;
	struct mpa_frame f;
	struct mpa_out out;
	uint32_t used;

	(void)state;
	open_bench(1, NULL);
	rig_connect_start(B.r, 0, NULL, 0);
	rig_settle(B.r);
	mpa_neg_rx_init(&nrx, false);
	assert_int_equal(mpa_neg_feed(&nrx, raw()->rx, raw()->rx_len, &used, &f), MPA_NEG_OK);
	assert_int_equal(mpa_neg_reject(&p, &f, (const uint8_t *)"no", 2, &out), MPA_NEG_OK);
	send_bytes(out.buf, out.len);
	rig_settle(B.r);
	const struct qp_fx *fx = rig_fx(B.r, 0, QP_FX_REJECTED);
	assert_non_null(fx);
	assert_int_equal(fx->priv_len, 2);
	assert_memory_equal(B.r->n[0].priv[fx - B.r->n[0].fx], "no", 2);
	assert_true(raw()->fin);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_DISCONNECTED), 0);
	close_bench();
}

static void rtr_mismatch(void **state)
{
	struct mpa_policy p = raw_policy();
	struct rig_cfg cfg;

	(void)state;
	/* Responder without a common kind: its Reply says what it can, the initiator answers with a Terminate. */
	rig_defaults(&cfg);
	cfg.p2p = true;
	cfg.rtr = MPA_RTR_READ;
	open_bench(1, &cfg);
	raw_respond(&p);
	static uint8_t body[66000];
	struct ddp_hdr h;
	struct rdmap_term t;
	uint32_t len;
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_TERMINATE);
	assert_int_equal(rdmap_term_parse(body, len, &t), RDMAP_TERM_OK);
	assert_int_equal(t.err.layer, IW_LAYER_LLP);
	assert_int_equal(t.err.code, IW_MPA_RTR);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_CONNECT_ERROR), 1);
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_ESTABLISHED), 0);
	assert_int_equal(dev()->q[0].qp.state, QP_S_INIT);
	close_bench();
}

/* The responder keeps silent until the initiator's first FPDU has come: RFC 5044, 7.1.2. */
static void responder_waits_for_the_first_fpdu(void **state)
{
	static uint8_t body[66000];
	struct ddp_hdr h;
	uint32_t len;

	(void)state;
	open_bench(0, NULL);
	raw_up();
	struct qp_sge s = rig_sge(dev(), 0, 100);
	const struct rig_wr w = { .wr_id = 3, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };
	assert_true(rig_post(dev(), 0, &w));
	rig_settle(B.r);
	assert_int_equal(raw()->rx_len, B.rx_at);
	send_write(0, 0, 0, true);
	rig_settle(B.r);
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_SEND);
	assert_int_equal(len, 100);
	close_bench();
}

/* FIN inside an FPDU is not an orderly end. */
static void fin_inside_an_fpdu(void **state)
{
	(void)state;
	open_bench(0, NULL);
	raw_up();
	send_write(0, 0, 0, true);
	send_bytes("\x00\x40\xc1\x40", 4);
	rig_settle(B.r);
	tcpl_shutdown(&raw()->tcp, B.r->now);
	rig_settle(B.r);
	assert_int_equal(rig_fx_count(B.r, 1, QP_FX_DISCONNECTED), 1);
	assert_int_equal(rig_fx(B.r, 1, QP_FX_DISCONNECTED)->code, 1);
	close_bench();
}

/* Random bytes as FPDUs with good CRCs, and as plain garbage: nothing but an end may come of it. */
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
			B.r->cfg.link = (struct rig_link){ .delay_ns = 5000, .loss = 30000, .dup = 50000, .reorder = 300000,
							   .reorder_ns = 100000, .cut = 200000 };
		struct qp_sge s = rig_sge(dev(), 3u << 20, 1000);
		rig_post_recv(dev(), 0, 1, &s, 1);
		for (uint32_t k = 0; k < 20; k++) {
			uint8_t u[300];
			uint32_t len = 14 + rn_rng_below(&g, 280);
			for (uint32_t b = 0; b < len; b++)
				u[b] = (uint8_t)rn_rng_u32(&g);
			if (rn_rng_below(&g, 4) > 0) { /* mostly a plausible header */
				struct ddp_hdr h = ddp_untagged((enum rdmap_opcode)rn_rng_below(&g, 8), rn_rng_below(&g, 2), B.small,
								rn_rng_below(&g, 3), rn_rng_below(&g, 2) * 40);
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
	for (uint32_t i = 0; i < sizeof(junk); i++)
		junk[i] = (uint8_t)(i * 7);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_segment_faults),
		cmocka_unit_test(wrong_mo_is_refused),
		cmocka_unit_test(later_segments_are_checked),
		cmocka_unit_test(send_longer_than_its_receive),
		cmocka_unit_test(more_reads_than_ird),
		cmocka_unit_test(nothing_for_length_zero),
		cmocka_unit_test(invalidate_comes_before_delivery),
		cmocka_unit_test(read_responses),
		cmocka_unit_test(terminate_blames_the_read),
		cmocka_unit_test(terminate_in_every_state),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(request_never_comes),
		cmocka_unit_test(reply_never_comes),
		cmocka_unit_test(reply_split_and_merged),
		cmocka_unit_test(rejected),
		cmocka_unit_test(rtr_mismatch),
		cmocka_unit_test(responder_waits_for_the_first_fpdu),
		cmocka_unit_test(fin_inside_an_fpdu),
		cmocka_unit_test(noise),
	};

	return cmocka_run_group_tests_name("qp_hostile", tests, NULL, NULL);
}
