/* SPDX-License-Identifier: BSD-3-Clause */
/* The message engine with a carrier that knows no stream: carrier.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "carrier.h"
#include "rig.h"

#define DEPTH 8u

static struct rig *R;
static struct rig_node *A, *B;
static struct carrier *a, *b;
static struct rn_rng rng;

static void up(uint64_t seed)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	a = malloc(sizeof(*a));
	b = malloc(sizeof(*b));
	carrier_up(a, &A->ctx.rc.qp, &A->q[0].qp, DEPTH);
	carrier_up(b, &B->ctx.rc.qp, &B->q[0].qp, DEPTH);
	rn_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		A->mem[i] = (uint8_t)rn_rng_u32(&rng);
}

static void down(void)
{
	qp_detach(a->ctx, &a->m, QP_END_FLUSH);
	qp_detach(b->ctx, &b->m, QP_END_FLUSH);
	free(a);
	free(b);
	rig_free(R);
}

static void expect(struct spsc_cons *cq, uint64_t wr_id, uint8_t op, uint32_t len)
{
	struct qp_cqe e;

	assert_true(rig_poll(cq, &e));
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.wr_id, wr_id);
	assert_int_equal(e.op, op);
	assert_int_equal(e.byte_len, len);
}

static void post(uint64_t id, uint8_t op, const struct qp_sge *s, uint64_t at)
{
	const struct rig_wr w = { .wr_id = id,
				  .op = op,
				  .flags = QP_WF_SIGNALED,
				  .sge = s,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + at,
				  .rkey = B->rkey,
				  .operand = 5 };

	assert_true(rig_queue(A, 0, &w));
}

/* One message of each kind, all under way at the same time, over a line that reorders and repeats. */
static void all_operations(void **state)
{
	enum { LEN = 20000, WORD = 1 << 20 };

	uint32_t early = 0, repeats = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		up(seed);
		struct qp_sge from = rig_sge(A, 0, LEN), back = rig_sge(A, 200000, LEN), word = rig_sge(A, 400000, 8);
		struct qp_sge to = rig_sge(B, 100000, LEN);
		uint64_t old = 37, found;

		memcpy(B->mem + WORD, &old, sizeof(old));
		memcpy(B->mem + 300000, A->mem, LEN);
		assert_true(rig_post_recv(B, 0, 70, &to, 1));
		post(1, QP_WR_SEND, &from, 0);
		post(2, QP_WR_WRITE, &from, 0);
		post(3, QP_WR_READ, &back, 300000);
		post(4, QP_WR_FETCH_ADD, &word, WORD);
		carrier_run(a, b, &rng);
		assert_false(a->failed || b->failed);
		expect(&A->scq_client, 1, QP_WC_SEND, LEN);
		expect(&A->scq_client, 2, QP_WC_RDMA_WRITE, LEN);
		expect(&A->scq_client, 3, QP_WC_RDMA_READ, LEN);
		expect(&A->scq_client, 4, QP_WC_FETCH_ADD, 8);
		expect(&B->rcq_client, 70, QP_WC_RECV, LEN);
		assert_memory_equal(B->mem + 100000, A->mem, LEN);
		assert_memory_equal(B->mem, A->mem, LEN);
		assert_memory_equal(A->mem + 200000, B->mem + 300000, LEN);
		memcpy(&found, A->mem + 400000, sizeof(found));
		assert_int_equal(found, 37);
		memcpy(&found, B->mem + WORD, sizeof(found));
		assert_int_equal(found, 42);
		early += b->early;
		repeats += b->repeats;
		down();
	}
	assert_true(early > 0 && repeats > 0);
}

/* The engine returns the verdict, completes the requests of both clients, and calls no carrier. */
static void a_refused_message_ends_the_sequence(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(1);
	struct qp_sge from = rig_sge(A, 0, 100);
	const struct rig_wr w = { .wr_id = 1,
				  .op = QP_WR_WRITE,
				  .flags = QP_WF_SIGNALED,
				  .sge = &from,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + RIG_MEM,
				  .rkey = B->rkey };
	assert_true(rig_queue(A, 0, &w));
	carrier_run(a, b, &rng);
	assert_true(b->failed);
	assert_int_equal(b->m.err.layer, IW_LAYER_DDP);
	assert_int_equal(b->m.err.code, IW_DT_BASE_BOUNDS);
	assert_int_equal(qp_get_state(&B->q[0].qp), QP_S_ERR);
	/* What a carrier calls for the peer's Terminate: qp_blame(), then qp_end(). */
	struct rdmap_term t = { .err = b->m.err };
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, w.rkey, w.raddr);
	t.ddp_len = (uint8_t)ddp_build(t.ddp, &h);
	qp_blame(&a->m, &t);
	qp_detach(a->ctx, &a->m, QP_END_FLUSH);
	qp_flush(a->ctx);
	assert_true(rig_poll(&A->scq_client, &e));
	assert_int_equal(e.status, QP_WC_REM_ACCESS_ERR);
	down();
}

/* Local work (bind, invalidate) needs no segment; its failure ends the sequence. */
static void local_work(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(1);
	const struct rig_wr w = { .wr_id = 9, .op = QP_WR_LOCAL_INV, .aux = 0x77777701 };
	assert_true(rig_queue(A, 0, &w));
	carrier_run(a, b, &rng);
	assert_int_equal(a->sent, 0);
	assert_true(a->failed);
	assert_true(rig_poll(&A->scq_client, &e));
	assert_int_equal(e.wr_id, 9);
	assert_int_equal(e.status, QP_WC_MW_BIND_ERR);
	down();
}

/* A work request was taken while its carrier had no room: its memory is looked up again when there is room. */
static void memory_taken_back_before_its_segment_is_made(void **state)
{
	uint8_t hdr[QP_SEG_HDR_MAX], inl[QP_MAX_INLINE];
	struct rn_iov iov[QP_SEG_SLICES];
	struct qp_seg seg = { .hdr = hdr, .inl = inl, .iov = iov };
	struct qp_cqe e;
	uint32_t len;

	(void)state;
	/* short: copied behind the header; long: by reference */
	for (uint32_t bytes = 50; bytes <= 500; bytes += 450) {
		up(1);
		struct qp_sge from = rig_sge(A, 0, bytes);
		from.lkey = rig_reg(A, 0, 1000, 0, RIG_PD);
		post(1, QP_WR_WRITE, &from, 0);
		assert_int_equal(qp_peek(a->ctx, &a->m, CARRIER_SEG, &len), QP_PULL_OK);
		assert_int_equal(qp_mr_dereg(&A->dev, from.lkey), QP_MR_OK);
		assert_int_equal(qp_peek(a->ctx, &a->m, CARRIER_SEG, &len), QP_PULL_OK);
		assert_int_equal(qp_pull(a->ctx, &a->m, CARRIER_SEG, &seg), QP_PULL_FAILED);
		qp_flush(a->ctx);
		assert_true(rig_poll(&A->scq_client, &e));
		assert_int_equal(e.status, QP_WC_LOC_PROT_ERR);
		down();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_operations),
		cmocka_unit_test(a_refused_message_ends_the_sequence),
		cmocka_unit_test(local_work),
		cmocka_unit_test(memory_taken_back_before_its_segment_is_made),
	};

	return cmocka_run_group_tests_name("qp_carrier", tests, NULL, NULL);
}
