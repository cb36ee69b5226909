/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 7306 byte by byte: a raw peer sends requests, answers and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "qp/qp_imm.h"
#include "raw.h"

#define WORD 4096u /* offset of the word that Atomics change */

/* RFC 7306, figure of the Atomic Request: reserved and AOpCode, identifier, STag, TO, data, mask, compare, its mask. */
static void send_atomic(uint32_t msn, const struct rdmap_atomic_req *q)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_REQ, true, 0, msn, 0);
	uint8_t body[RDMAP_ATOMIC_REQ_LEN];

	rdmap_atomic_req_build(body, q);
	send_ddp(&h, body, sizeof(body));
}

static struct rdmap_atomic_req add_one(void)
{
	return (struct rdmap_atomic_req){
		.op = RDMAP_FETCH_ADD, .id = 0xcafe0001, .stag = dev()->rkey, .to = iova(WORD), .data = 1
	};
}

static void responder_up(void)
{
	open_bench(0, NULL);
	raw_up();
	send_write(0, 0, 0, true); /* after the first FPDU the device may send */
	rig_settle(B.r);
}

static void request_and_response_as_drawn(void **state)
{
	/* T=0 L=1 DV=1, RV=1 opcode 10, reserved word, QN 1, MSN 1, MO 0; then the request. STag and TO follow. */
	uint8_t req[] = { 0x41, 0x4a, 0,    0,    0,    0,    0,    0,    0,    1,    0,    0,    0, 1, 0, 0,   0, 0,
			  0xff, 0xff, 0xff, 0xf2, 0xde, 0xad, 0xbe, 0xef, 0,    0,    0,    0,    0, 0, 0, 0,   0, 0,
			  0,    0,    0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0xff, 0xff, 0, 0, 0, 0,   0, 0,
			  0,    0,    0,    0,    0,    0,    0,    0x09, 0,    0,    0,    0,    0, 0, 0, 0x0f };
	static const uint8_t resp[] = { 0xde, 0xad, 0xbe, 0xef, 0, 0, 0, 0, 0, 0, 0, 0x39 };
	uint8_t body[2000];
	struct ddp_hdr h;
	uint32_t len;

	(void)state;
	assert_int_equal(sizeof(req), 18 + RDMAP_ATOMIC_REQ_LEN);
	responder_up();
	rn_store_be32(req + 26, dev()->rkey);
	rn_store_be64(req + 30, iova(WORD));
	/* the low four bits are 9, which equals the compare value, so the highest two octets are swapped */
	rig_word_set(dev(), WORD, 0x39);
	send_ulpdu(req, sizeof(req), false);
	rig_settle(B.r);
	assert_true(rig_word(dev(), WORD) == 0x1122000000000039);
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_ATOMIC_RESP);
	assert_int_equal(h.qn, DDP_QN_ATOMIC_RESP);
	assert_int_equal(h.msn, 1);
	assert_int_equal(len, sizeof(resp));
	assert_memory_equal(body, resp, len);
	assert_false(next_fpdu(&h, body, &len));
	close_bench();
}

static void x_stag(void)
{
	struct rdmap_atomic_req q = add_one();

	q.stag = B.stale;
	send_atomic(1, &q);
}

static void x_pd(void)
{
	struct rdmap_atomic_req q = add_one();

	q.stag = B.other_pd;
	q.to = iova(0);
	send_atomic(1, &q);
}

static void x_right(void)
{
	struct rdmap_atomic_req q = add_one();

	q.stag = B.ro;
	q.to = iova(0);
	send_atomic(1, &q);
}

static void x_bounds(void)
{
	struct rdmap_atomic_req q = add_one();

	q.stag = B.small;
	q.to = iova(2 * SMALL_LEN - 4);
	send_atomic(1, &q);
}

static void x_wrap(void)
{
	struct rdmap_atomic_req q = add_one();

	q.to = UINT64_MAX - 3;
	send_atomic(1, &q);
}

static void x_odd(void)
{
	struct rdmap_atomic_req q = add_one();

	q.to += 4;
	send_atomic(1, &q);
}

static void x_op(void)
{
	struct rdmap_atomic_req q = add_one();

	q.op = 1;
	send_atomic(1, &q);
}

static void x_msn(void)
{
	const struct rdmap_atomic_req q = add_one();

	send_atomic(2, &q);
}

static void x_qn(void)
{
	struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_REQ, true, 0, 1, 0);

	h.qn = DDP_QN_ATOMIC_RESP;
	send_ddp(&h, junk, RDMAP_ATOMIC_REQ_LEN);
}

static void sized(enum rdmap_opcode op, uint32_t len, bool last)
{
	const struct ddp_hdr h = ddp_untagged(op, last, 0, 1, 0);

	send_ddp(&h, junk, len);
}

static void x_short(void) { sized(RDMAP_ATOMIC_REQ, RDMAP_ATOMIC_REQ_LEN - 1, true); }
static void x_long(void) { sized(RDMAP_ATOMIC_REQ, RDMAP_ATOMIC_REQ_LEN + 1, true); }
static void x_unfinished(void) { sized(RDMAP_ATOMIC_REQ, RDMAP_ATOMIC_REQ_LEN, false); }
static void x_resp(void) { sized(RDMAP_ATOMIC_RESP, RDMAP_ATOMIC_RESP_LEN, true); }
static void x_resp_short(void) { sized(RDMAP_ATOMIC_RESP, RDMAP_ATOMIC_RESP_LEN - 1, true); }
static void x_imm_short(void) { sized(RDMAP_IMM, RDMAP_IMM_LEN - 1, true); }
static void x_imm_long(void) { sized(RDMAP_IMM_SE, RDMAP_IMM_LEN + 1, true); }
static void x_imm_none(void) { sized(RDMAP_IMM, RDMAP_IMM_LEN, true); }

static void tagged_imm(void)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_IMM, true, dev()->rkey, iova(0));

	send_ddp(&h, junk, RDMAP_IMM_LEN);
}

static void x_ird(void)
{
	const struct rdmap_atomic_req q = add_one();

	send_read(1, dev()->rkey, iova(8192), 1000000); /* the Response fills the window; the Atomics wait behind it */
	for (uint32_t i = 2; i < 40; i++)
		send_atomic(i, &q);
}

static void faults(void **state)
{
	static const struct {
		const char *name;
		void (*act)(void);
		uint8_t layer, etype, code;
		bool keeps;
	} t[] = {
		{ "Atomic, unknown STag", x_stag, 0, 1, 0x00, true },
		{ "Atomic, other PD", x_pd, 0, 1, 0x03, true },
		{ "Atomic, no right", x_right, 0, 1, 0x02, true },
		{ "Atomic past the end", x_bounds, 0, 1, 0x01, true },
		{ "Atomic, TO wraps", x_wrap, 0, 1, 0x04, true },
		{ "Atomic, not aligned", x_odd, 0, 2, 0x07, true },
		{ "Atomic, reserved AOpCode", x_op, 0, 2, 0x06, true },
		{ "Atomic, MSN gap", x_msn, 1, 2, 0x03, true },
		{ "Atomic, wrong QN", x_qn, 1, 2, 0x01, true },
		{ "Atomic too short", x_short, 0, 2, 0x07, true },
		{ "Atomic too long", x_long, 0, 2, 0x07, true },
		{ "Atomic of two segments", x_unfinished, 0, 2, 0x07, true },
		{ "Atomics beyond the depth", x_ird, 1, 2, 0x02, false },
		{ "Atomic Response unasked for", x_resp, 1, 2, 0x02, true },
		{ "Atomic Response too short", x_resp_short, 0, 2, 0x07, true },
		{ "Immediate Data too short", x_imm_short, 0, 2, 0x07, true },
		{ "Immediate Data too long", x_imm_long, 0, 2, 0x07, true },
		{ "Immediate Data, no receive", x_imm_none, 1, 2, 0x02, true },
		{ "Immediate Data, tagged", tagged_imm, 0, 2, 0x06, true },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		print_message("# %s\n", t[i].name);
		responder_up();
		t[i].act();
		expect_terminate((enum iw_layer)t[i].layer, t[i].etype, t[i].code);
		if (t[i].keeps)
			assert_true(untouched());
		close_bench();
	}
}

/* The device asks; the raw peer's answers are wrong. */
static void requester_up(struct rdmap_atomic_req *q)
{
	const struct mpa_policy p = raw_policy();
	uint8_t body[2000];
	struct ddp_hdr h;
	uint32_t len;

	open_bench(1, NULL);
	raw_respond(&p);
	struct qp_sge res = rig_sge(dev(), 64, 8);
	const struct rig_wr w = { .wr_id = 4,
				  .op = QP_WR_CMP_SWAP,
				  .flags = QP_WF_SIGNALED,
				  .sge = &res,
				  .num_sge = 1,
				  .raddr = 0x1000,
				  .rkey = 0x77,
				  .operand = 3,
				  .swap = 4 };
	assert_true(rig_post(dev(), 0, &w));
	rig_settle(B.r);
	do
		assert_true(next_fpdu(&h, body, &len));
	while (h.opcode != RDMAP_ATOMIC_REQ); /* skips a nudge that the device may have sent before */
	assert_int_equal(len, RDMAP_ATOMIC_REQ_LEN);
	assert_int_equal(h.qn, DDP_QN_READ_REQ);
	rdmap_atomic_req_parse(body, q);
	assert_int_equal(q->op, RDMAP_CMP_SWAP);
	assert_true(q->mask == UINT64_MAX && q->compare_mask == UINT64_MAX && q->data == 4 && q->compare == 3);
	assert_true(q->stag == 0x77 && q->to == 0x1000);
}

static void answer(uint32_t msn, uint32_t id, uint64_t value)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_RESP, true, 0, msn, 0);
	const struct rdmap_atomic_resp p = { .id = id, .value = value };
	uint8_t body[RDMAP_ATOMIC_RESP_LEN];

	rdmap_atomic_resp_build(body, &p);
	send_ddp(&h, body, sizeof(body));
}

static void responses(void **state)
{
	struct rdmap_atomic_req q;
	struct qp_cqe e;
	uint64_t got;

	(void)state;
	requester_up(&q);
	answer(1, q.id, 42);
	e = rig_wait(B.r, &dev()->scq_client);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	memcpy(&got, dev()->mem + 64, 8);
	assert_true(got == 42);
	close_bench();

	requester_up(&q);
	answer(1, q.id + 1, 42);
	expect_terminate(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM);
	assert_true(untouched());
	close_bench();

	requester_up(&q);
	answer(2, q.id, 42);
	expect_terminate(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MSN_RANGE);
	close_bench();

	/* A Read Response does not answer an Atomic, even if it names the Atomic's sink. */
	requester_up(&q);
	const struct ddp_hdr h = ddp_tagged(RDMAP_READ_RESP, true, dev()->lkey, iova(64));
	send_ddp(&h, junk, 8);
	expect_terminate(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE);
	assert_true(untouched());
	close_bench();
}

/* A Terminate from the peer fails the Atomic that the Terminate names by its MSN. */
static void terminate_blames_the_atomic(void **state)
{
	static const struct {
		uint8_t etype, code, status;
	} t[] = {
		{ IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID, QP_WC_REM_ACCESS_ERR },
		{ IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, QP_WC_REM_INV_REQ_ERR },
	};
	struct rdmap_atomic_req q;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		requester_up(&q);
		const struct ddp_hdr h = ddp_untagged(RDMAP_ATOMIC_REQ, true, 0, q.id, 0);
		send_terminate(iw_err_of(IW_LAYER_RDMAP, (enum iw_etype)t[i].etype, (enum iw_code)t[i].code, false), &h,
			       NULL);
		struct qp_cqe e = rig_wait(B.r, &dev()->scq_client);
		assert_int_equal(e.wr_id, 4);
		assert_int_equal(e.status, t[i].status);
		close_bench();
	}
}

/* An Immediate Data message, and the zero-length Write that marks a Send with immediate, both from the raw peer. */
static void immediates_byte_by_byte(void **state)
{
	static const uint8_t imm[] = { 0x41, 0x48, 0, 0, 0, 0,    0,    0,    0,    0,    0,    0,    0,
				       1,    0,    0, 0, 0, 0xa1, 0xa2, 0xa3, 0xa4, 0xb5, 0xb6, 0xb7, 0xb8 };
	struct qp_cqe e;

	(void)state;
	responder_up();
	for (uint32_t i = 1; i <= 3; i++) {
		struct qp_sge s = rig_sge(dev(), 0, 100);
		assert_true(rig_post_recv(dev(), 0, i, &s, 1));
	}
	send_ulpdu(imm, sizeof(imm), false);
	e = rig_wait(B.r, &dev()->rcq_client);
	assert_int_equal(e.op, QP_WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(&e.aux, imm + 18, 4);
	assert_int_equal(e.byte_len, 0);
	assert_true(untouched());
	/* With another STag the same zero-length Write is an ordinary one. */
	send_write(QP_IMM_STAG + 1, (uint64_t)QP_IMM_MARK << 32 | 5, 0, true);
	send_send(2, 0, 10, true);
	e = rig_wait(B.r, &dev()->rcq_client);
	assert_int_equal(e.flags, 0);
	send_write(QP_IMM_STAG, (uint64_t)QP_IMM_MARK << 32 | 5, 0, true);
	send_send(3, 0, 10, true);
	e = rig_wait(B.r, &dev()->rcq_client);
	assert_int_equal(e.flags, QP_WCF_WITH_IMM);
	assert_int_equal(e.aux, htonl(5));
	close_bench();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(request_and_response_as_drawn),
		cmocka_unit_test(faults),
		cmocka_unit_test(responses),
		cmocka_unit_test(terminate_blames_the_atomic),
		cmocka_unit_test(immediates_byte_by_byte),
	};

	return cmocka_run_group_tests_name("qp_7306_wire", tests, NULL, NULL);
}
