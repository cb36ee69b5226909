/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 7306: immediate data and atomics between two devices, over bad links, and byte by byte with a raw peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "qp/qp_imm.h"
#include "raw.h"

#define WORD 4096u /* where the word is that atomics change */

static uint64_t word_of(const struct rig_node *n)
{
	uint64_t v;

	memcpy(&v, n->mem + WORD, sizeof(v));
	return v;
}

static void word_set(struct rig_node *n, uint64_t v) { memcpy(n->mem + WORD, &v, sizeof(v)); }

static struct rig *up(const struct rig_cfg *with)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	struct rig *r = rig_new(with != NULL ? with : &cfg);
	rig_connect(r, 0);
	return r;
}

static uint32_t be(uint32_t v)
{
	uint32_t out;

	rn_store_be32((uint8_t *)&out, v);
	return out;
}

/* ---- immediate data ---- */

static void write_with_immediate(void **state)
{
	static const uint32_t len[] = { 0, 1, 64, 5000 };
	struct rig *r = up(NULL);
	struct rig_node *a = &r->n[0], *b = &r->n[1];

	(void)state;
	memset(a->mem, 0x5a, 5000);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(len); i++) {
		struct qp_sge src = rig_sge(a, 0, len[i]), dst = rig_sge(b, 100000, 64);
		struct rig_wr w = { .wr_id = i,
				    .op = QP_WR_WRITE_IMM,
				    .flags = QP_WF_SIGNALED,
				    .sge = &src,
				    .num_sge = 1,
				    .raddr = RIG_IOVA(1) + 10000 * i,
				    .rkey = b->rkey,
				    .aux = be(0x11223344 + i) };
		if (i & 1)
			w.flags |= QP_WF_SOLICITED;
		memset(b->mem + 100000, 0x77, 64);
		assert_true(rig_post_recv(b, 0, 50 + i, &dst, 1));
		assert_true(rig_post(a, 0, &w));
		struct qp_cqe e = rig_wait(r, &b->rcq_client);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, 50 + i);
		assert_int_equal(e.op, QP_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(e.flags, QP_WCF_WITH_IMM);
		assert_int_equal(e.aux, be(0x11223344 + i));
		assert_int_equal(e.byte_len, len[i]);
		assert_int_equal(e.solicited, i & 1);
		assert_memory_equal(b->mem + 10000 * i, a->mem, len[i]);
		for (uint32_t k = 0; k < 64; k++) /* the receive's memory is left alone */
			assert_int_equal(b->mem[100000 + k], 0x77);
		e = rig_wait(r, &a->scq_client);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.op, QP_WC_RDMA_WRITE);
		assert_int_equal(e.byte_len, len[i]);
	}
	rig_free(r);
}

static uint32_t imm_byte_len(struct rig *r)
{
	struct qp_cqe e = rig_wait(r, &r->n[1].rcq_client);

	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.op, QP_WC_RECV_RDMA_WITH_IMM);
	return e.byte_len;
}

/* What was written before by another work request is not counted, whatever lies between the two. */
static void an_immediate_does_not_tell_anothers_length(void **state)
{
	struct rig *r = up(NULL);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	struct qp_sge src = rig_sge(a, 0, 100), dst = rig_sge(b, 100000, 64);
	struct rig_wr write = { .op = QP_WR_WRITE, .sge = &src, .num_sge = 1, .raddr = RIG_IOVA(1), .rkey = b->rkey };
	struct rig_wr imm = { .op = QP_WR_WRITE_IMM, .raddr = RIG_IOVA(1), .rkey = b->rkey }, with = imm;
	struct rig_wr send = { .op = QP_WR_SEND, .sge = &src, .num_sge = 1 };

	(void)state;
	dst.len = 128;
	for (uint32_t i = 0; i < 5; i++)
		assert_true(rig_post_recv(b, 0, i, &dst, 1));
	assert_true(rig_post(a, 0, &write));
	assert_true(rig_post(a, 0, &imm));
	assert_int_equal(imm_byte_len(r), 0);
	assert_true(rig_post(a, 0, &imm));
	assert_int_equal(imm_byte_len(r), 0);
	with.sge = &src;
	with.num_sge = 1;
	assert_true(rig_post(a, 0, &with));
	assert_int_equal(imm_byte_len(r), 100);
	assert_true(rig_post(a, 0, &write));
	assert_true(rig_post(a, 0, &send));
	assert_true(rig_post(a, 0, &imm));
	assert_int_equal(rig_wait(r, &b->rcq_client).op, QP_WC_RECV);
	assert_int_equal(imm_byte_len(r), 0);
	rig_free(r);
}

static void send_with_immediate_takes_one_receive(void **state)
{
	struct rig *r = up(NULL);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	struct qp_sge src = rig_sge(a, 0, 3000), dst = rig_sge(b, 0, 4000);
	struct qp_cqe e;

	(void)state;
	memset(a->mem, 0x5a, 3000);
	for (uint32_t i = 0; i < 6; i++) {
		struct rig_wr w = { .wr_id = i,
				    .op = i & 1 ? QP_WR_SEND : QP_WR_SEND_IMM,
				    .flags = QP_WF_SIGNALED,
				    .sge = &src,
				    .num_sge = 1,
				    .aux = be(700 + i) };
		assert_true(rig_post_recv(b, 0, i, &dst, 1));
		assert_true(rig_post(a, 0, &w));
		e = rig_wait(r, &b->rcq_client);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.op, QP_WC_RECV);
		assert_int_equal(e.byte_len, 3000);
		assert_int_equal(e.flags, i & 1 ? 0 : QP_WCF_WITH_IMM);
		if (!(i & 1))
			assert_int_equal(e.aux, be(700 + i));
		assert_memory_equal(b->mem, a->mem, 3000);
		e = rig_wait(r, &a->scq_client);
		assert_int_equal(e.op, QP_WC_SEND);
	}
	rig_free(r);
}

/* ---- atomics ---- */

static struct qp_cqe atomic(struct rig *r, uint8_t op, uint64_t operand, uint64_t swap)
{
	struct rig_node *a = &r->n[0];
	struct qp_sge res = rig_sge(a, 64, 8);
	const struct rig_wr w = { .wr_id = 9,
				  .op = op,
				  .flags = QP_WF_SIGNALED,
				  .sge = &res,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + WORD,
				  .rkey = r->n[1].rkey,
				  .operand = operand,
				  .swap = swap };

	assert_true(rig_post(a, 0, &w));
	return rig_wait(r, &a->scq_client);
}

static void atomics(void **state)
{
	struct rig *r = up(NULL);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	uint64_t got;

	(void)state;
	word_set(b, UINT64_MAX - 1);
	struct qp_cqe e = atomic(r, QP_WR_FETCH_ADD, 5, 0);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.op, QP_WC_FETCH_ADD);
	assert_int_equal(e.byte_len, 8);
	memcpy(&got, a->mem + 64, 8);
	assert_true(got == UINT64_MAX - 1);
	assert_true(word_of(b) == 3);
	e = atomic(r, QP_WR_CMP_SWAP, 4, 77);
	assert_int_equal(e.op, QP_WC_COMP_SWAP);
	memcpy(&got, a->mem + 64, 8);
	assert_true(got == 3 && word_of(b) == 3);
	e = atomic(r, QP_WR_CMP_SWAP, 3, 77);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	memcpy(&got, a->mem + 64, 8);
	assert_true(got == 3 && word_of(b) == 77);
	rig_free(r);
}

/* RFC 7306, 5.1.1 and 5.1.2 with masks, against the RFC's own way of saying it: bit by bit. */
static uint64_t add_by_bits(uint64_t old, uint64_t add, uint64_t mask)
{
	uint64_t out = 0;
	unsigned int carry = 0;

	for (int i = 0; i < 64; i++) {
		unsigned int sum = carry + (old >> i & 1) + (add >> i & 1);
		out |= (uint64_t)(sum & 1) << i;
		carry = sum >> 1 && !(mask >> i & 1);
	}
	return out;
}

static void masks(void **state)
{
	struct rn_rng g;

	(void)state;
	rn_rng_seed(&g, 3);
	for (uint32_t i = 0; i < 20000; i++) {
		struct rdmap_atomic_req q = { .op = RDMAP_FETCH_ADD, .data = rn_rng_u64(&g), .mask = rn_rng_u64(&g) };
		uint64_t old = rn_rng_u64(&g);
		if (i % 3 == 0)
			q.mask &= rn_rng_u64(&g) & rn_rng_u64(&g);
		assert_true(rdmap_atomic_result(&q, old) == add_by_bits(old, q.data, q.mask));
		q.op = RDMAP_CMP_SWAP;
		q.compare_mask = rn_rng_u64(&g) & rn_rng_u64(&g);
		q.compare = i & 1 ? (old & q.compare_mask) | (rn_rng_u64(&g) & ~q.compare_mask) : rn_rng_u64(&g);
		bool equal = ((old ^ q.compare) & q.compare_mask) == 0;
		assert_true(rdmap_atomic_result(&q, old) == (equal ? (old & ~q.mask) | (q.data & q.mask) : old));
	}
}

/* N additions over a link that loses, doubles and reorders: each is done once, and the answers are 0, 1, 2, ... */
static void counter_over_loss(void **state)
{
	const uint32_t n = 300;

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct rig_cfg cfg;
		uint32_t posted = 0, done = 0;
		struct qp_cqe e;

		rig_defaults(&cfg);
		cfg.seed = seed;
		cfg.ird = cfg.ord = (uint16_t)(1 + seed);
		cfg.markers[0] = cfg.markers[1] = seed & 1;
		cfg.link = (struct rig_link){
			.loss = 50000, .dup = 50000, .reorder = 100000, .reorder_ns = 200000, .delay_ns = 20000
		};
		struct rig *r = up(&cfg);
		while (done < n) {
			struct qp_sge res = rig_sge(&r->n[0], 8 * posted, 8);
			const struct rig_wr w = { .wr_id = posted,
						  .op = QP_WR_FETCH_ADD,
						  .flags = QP_WF_SIGNALED,
						  .sge = &res,
						  .num_sge = 1,
						  .raddr = RIG_IOVA(1) + WORD,
						  .rkey = r->n[1].rkey,
						  .operand = 1 };
			if (posted < n && posted - done < 40) {
				assert_true(rig_post(&r->n[0], 0, &w));
				posted++;
				continue;
			}
			e = rig_wait(r, &r->n[0].scq_client);
			assert_int_equal(e.status, QP_WC_SUCCESS);
			assert_int_equal(e.wr_id, done);
			uint64_t old;
			memcpy(&old, r->n[0].mem + 8 * done, 8);
			assert_true(old == done);
			done++;
		}
		assert_true(word_of(&r->n[1]) == n);
		assert_true(r->dropped > 0);
		rig_free(r);
	}
}

/* Messages that take receives, in a row over a bad link: each finds its own, with its own immediate. */
static void immediates_over_loss(void **state)
{
	const uint32_t n = 200;

	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct rig_cfg cfg;
		struct qp_cqe e;
		uint32_t posted = 0, len[200];
		uint8_t op[200];

		rig_defaults(&cfg);
		cfg.seed = seed;
		cfg.link = (struct rig_link){
			.loss = 50000, .dup = 50000, .reorder = 100000, .reorder_ns = 200000, .delay_ns = 20000
		};
		struct rig *r = up(&cfg);
		struct rig_node *a = &r->n[0], *b = &r->n[1];
		memset(a->mem, (int)seed, 4000);
		for (uint32_t i = 0; i < n; i++) {
			struct qp_sge dst = rig_sge(b, (1u << 20) + 4000 * i, 4000);
			assert_true(rig_post_recv(b, 0, i, &dst, 1));
		}
		for (uint32_t got = 0; got < n; got++) {
			while (posted < n) {
				static const uint8_t mix[] = { QP_WR_SEND, QP_WR_SEND_IMM, QP_WR_WRITE_IMM };
				op[posted] = mix[rn_rng_below(&r->rng, 3)];
				len[posted] = rn_rng_below(&r->rng, 4000);
				struct qp_sge src = rig_sge(a, 0, len[posted]);
				const struct rig_wr w = { .wr_id = posted,
							  .op = op[posted],
							  .flags = QP_WF_SIGNALED,
							  .sge = &src,
							  .num_sge = 1,
							  .raddr = RIG_IOVA(1),
							  .rkey = b->rkey,
							  .aux = be(posted) };
				if (!rig_post(a, 0, &w))
					break;
				posted++;
			}
			e = rig_wait(r, &b->rcq_client);
			assert_int_equal(e.status, QP_WC_SUCCESS);
			assert_int_equal(e.wr_id, got);
			assert_int_equal(e.byte_len, len[got]);
			assert_int_equal(e.op, op[got] == QP_WR_WRITE_IMM ? QP_WC_RECV_RDMA_WITH_IMM : QP_WC_RECV);
			assert_int_equal(e.flags, op[got] == QP_WR_SEND ? 0 : QP_WCF_WITH_IMM);
			if (op[got] != QP_WR_SEND)
				assert_int_equal(e.aux, be(got));
			if (op[got] != QP_WR_WRITE_IMM)
				assert_memory_equal(b->mem + (1u << 20) + 4000 * got, a->mem, len[got]);
			while (rig_poll(&a->scq_client, &e))
				assert_int_equal(e.status, QP_WC_SUCCESS);
		}
		rig_free(r);
	}
}

/* ---- work requests that cannot be ---- */

static void bad_work_requests(void **state)
{
	static const struct {
		uint8_t op, flags, num_sge;
		uint32_t len;
		uint8_t status;
	} t[] = {
		{ QP_WR_FETCH_ADD, 0, 1, 7, QP_WC_LOC_LEN_ERR },
		{ QP_WR_FETCH_ADD, 0, 0, 8, QP_WC_LOC_QP_OP_ERR },
		{ QP_WR_CMP_SWAP, 0, 2, 8, QP_WC_LOC_QP_OP_ERR },
		{ QP_WR_CMP_SWAP, QP_WF_INLINE, 0, 8, QP_WC_LOC_QP_OP_ERR },
		{ QP_WR_LOCAL_INV, 0, 1, 8, QP_WC_LOC_QP_OP_ERR },
		{ QP_WR_LOCAL_INV, 0, 0, 0, QP_WC_MW_BIND_ERR },
		{ QP_WR_BIND_MW, 0, 0, 0, QP_WC_MW_BIND_ERR },
		{ QP_WR_OPS, 0, 0, 0, QP_WC_LOC_QP_OP_ERR },
		{ 255, 0, 0, 0, QP_WC_LOC_QP_OP_ERR },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		struct rig *r = up(NULL);
		struct qp_sge s[2] = { rig_sge(&r->n[0], 0, t[i].len), rig_sge(&r->n[0], 0, t[i].len) };
		const struct rig_wr w = { .wr_id = 5,
					  .op = t[i].op,
					  .flags = t[i].flags,
					  .sge = s,
					  .num_sge = t[i].num_sge,
					  .inl = "12345678",
					  .inl_len = t[i].flags & QP_WF_INLINE ? t[i].len : 0,
					  .aux = 0x123456 };
		assert_true(rig_post(&r->n[0], 0, &w));
		struct qp_cqe e = rig_wait(r, &r->n[0].scq_client);
		assert_int_equal(e.wr_id, 5);
		assert_int_equal(e.status, t[i].status);
		rig_free(r);
	}
}

/* ---- byte by byte ---- */

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
	send_write(0, 0, 0, true); /* the first FPDU opens our direction */
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
	word_set(dev(), 0x39); /* its low four bits are 9: equal, and the highest two octets are swapped */
	send_ulpdu(req, sizeof(req), false);
	rig_settle(B.r);
	assert_true(word_of(dev()) == 0x1122000000000039);
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

	send_read(1, dev()->rkey, iova(8192), 1000000); /* its answer fills the window; the Atomics wait behind it */
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

/* The device asks; the raw peer answers wrongly. */
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
	while (h.opcode != RDMAP_ATOMIC_REQ); /* a nudge may have gone before */
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

	/* A Read Response is no answer to an Atomic, even one to where its result goes. */
	requester_up(&q);
	const struct ddp_hdr h = ddp_tagged(RDMAP_READ_RESP, true, dev()->lkey, iova(64));
	send_ddp(&h, junk, 8);
	expect_terminate(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE);
	assert_true(untouched());
	close_bench();
}

/* The peer's Terminate finds the Atomic it is about, by its MSN. */
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

/* An Immediate Data message of a peer's own making, and the mark of a Send with immediate. */
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
	/* The mark, without its STag: a Write of nothing as any other. */
	send_write(QP_IMM_STAG + 1, (uint64_t)QP_IMM_MARK << 32 | 5, 0, true);
	send_send(2, 0, 10, true);
	e = rig_wait(B.r, &dev()->rcq_client);
	assert_int_equal(e.flags, 0);
	send_write(QP_IMM_STAG, (uint64_t)QP_IMM_MARK << 32 | 5, 0, true);
	send_send(3, 0, 10, true);
	e = rig_wait(B.r, &dev()->rcq_client);
	assert_int_equal(e.flags, QP_WCF_WITH_IMM);
	assert_int_equal(e.aux, be(5));
	close_bench();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_with_immediate),
		cmocka_unit_test(an_immediate_does_not_tell_anothers_length),
		cmocka_unit_test(send_with_immediate_takes_one_receive),
		cmocka_unit_test(atomics),
		cmocka_unit_test(masks),
		cmocka_unit_test(counter_over_loss),
		cmocka_unit_test(immediates_over_loss),
		cmocka_unit_test(bad_work_requests),
		cmocka_unit_test(request_and_response_as_drawn),
		cmocka_unit_test(faults),
		cmocka_unit_test(responses),
		cmocka_unit_test(terminate_blames_the_atomic),
		cmocka_unit_test(immediates_byte_by_byte),
	};

	return cmocka_run_group_tests_name("qp_7306", tests, NULL, NULL);
}
