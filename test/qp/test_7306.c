/* SPDX-License-Identifier: BSD-3-Clause */
/* RFC 7306: immediate data and atomics between two devices, over bad links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <arpa/inet.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "qp/qp_imm.h"
#include "rig.h"

#define WORD 4096u /* offset of the word that Atomics change */

static struct rig *up(const struct rig_cfg *with)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	struct rig *r = rig_new(with != NULL ? with : &cfg);
	rig_connect(r, 0);
	return r;
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
				    .aux = htonl(0x11223344 + i) };
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
		assert_int_equal(e.aux, htonl(0x11223344 + i));
		assert_int_equal(e.byte_len, len[i]);
		assert_int_equal(e.solicited, i & 1);
		assert_memory_equal(b->mem + 10000 * i, a->mem, len[i]);
		for (uint32_t k = 0; k < 64; k++) /* the immediate data do not touch the receive's memory */
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

/*
 * An immediate does not count the bytes of an earlier Write by another work request, whatever was sent between the two.
 */
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
				    .aux = htonl(700 + i) };
		assert_true(rig_post_recv(b, 0, i, &dst, 1));
		assert_true(rig_post(a, 0, &w));
		e = rig_wait(r, &b->rcq_client);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.op, QP_WC_RECV);
		assert_int_equal(e.byte_len, 3000);
		assert_int_equal(e.flags, i & 1 ? 0 : QP_WCF_WITH_IMM);
		if (!(i & 1))
			assert_int_equal(e.aux, htonl(700 + i));
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
	rig_word_set(b, WORD, UINT64_MAX - 1);
	struct qp_cqe e = atomic(r, QP_WR_FETCH_ADD, 5, 0);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.op, QP_WC_FETCH_ADD);
	assert_int_equal(e.byte_len, 8);
	memcpy(&got, a->mem + 64, 8);
	assert_true(got == UINT64_MAX - 1);
	assert_true(rig_word(b, WORD) == 3);
	e = atomic(r, QP_WR_CMP_SWAP, 4, 77);
	assert_int_equal(e.op, QP_WC_COMP_SWAP);
	memcpy(&got, a->mem + 64, 8);
	assert_true(got == 3 && rig_word(b, WORD) == 3);
	e = atomic(r, QP_WR_CMP_SWAP, 3, 77);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	memcpy(&got, a->mem + 64, 8);
	assert_true(got == 3 && rig_word(b, WORD) == 77);
	rig_free(r);
}

/* RFC 7306, 5.1.1 and 5.1.2 with masks, compared with the RFC's own definition, bit by bit. */
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

/*
 * N additions over a link that loses, repeats and reorders: each is carried out once, and the answers are 0, 1, 2, ...
 */
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
		assert_true(rig_word(&r->n[1], WORD) == n);
		assert_true(r->dropped > 0);
		rig_free(r);
	}
}

/* A series of messages that take receives, over a bad link: each gets its own receive and its own immediate. */
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
							  .aux = htonl(posted) };
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
				assert_int_equal(e.aux, htonl(got));
			if (op[got] != QP_WR_WRITE_IMM)
				assert_memory_equal(b->mem + (1u << 20) + 4000 * got, a->mem, len[got]);
			while (rig_poll(&a->scq_client, &e))
				assert_int_equal(e.status, QP_WC_SUCCESS);
		}
		rig_free(r);
	}
}

/* ---- invalid work requests ---- */

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
	};

	return cmocka_run_group_tests_name("qp_7306", tests, NULL, NULL);
}
