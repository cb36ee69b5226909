/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/rc works without TCP: each operation, and each way to end, over rings of bytes that are cut at random places. */
#include "ring.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define SEEDS 24u
#define A     (&g->r->n[0])
#define B     (&g->r->n[1])

static struct rig_cfg config(uint64_t seed)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.seed = seed;
	cfg.mtu = seed % 3 == 0 ? 1500 : 9000;
	cfg.stages = 16; /* a quarter of these staging buffers is for records that are written in parts */
	cfg.crc = seed % 4 != 0;
	cfg.markers[0] = seed % 3 == 0;
	cfg.markers[1] = seed % 2 == 0;
	return cfg;
}

static struct ring *connected(uint64_t seed)
{
	static const uint32_t mss[] = { 256, 536, 1448, 4000, 8948 };
	struct rig_cfg cfg = config(seed);
	struct ring *g = ring_new(&cfg, mss[seed % RN_ARRAY_LEN(mss)], seed % 5 < 3 ? RING_READ : RING_TAKEN,
				  (uint32_t)0 - (uint32_t)(seed * 977));

	if (seed % 7 == 3)
		g->pipe[0].size = 900; /* FPDUs are written in parts */
	ring_connect(g);
	return g;
}

static void close_both(struct ring *g)
{
	rc_disconnect(&A->ctx.rc, &g->end[0].rc);
	ring_run(g);
	for (int id = 0; id < 2; id++)
		assert_int_equal(ring_fx(g, id, QP_FX_DISCONNECTED)->code, 0);
	ring_free(g);
}

static struct rig_wr wr_of(uint8_t op, const struct qp_sge *s, uint64_t raddr, uint32_t rkey)
{
	return (struct rig_wr){
		.op = op, .flags = QP_WF_SIGNALED, .sge = s, .num_sge = 1, .raddr = raddr, .rkey = rkey
	};
}

static void post(struct ring *g, int id, const struct rig_wr *w) { assert_true(rig_post(&g->r->n[id], 0, w)); }

static void completes(struct ring *g, int id, uint8_t op)
{
	struct qp_cqe e = ring_cqe(g, &g->r->n[id].scq_client);

	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.op, op);
}

/* One message of each kind from one side; the memory of both sides is compared. */
static void exchange(struct ring *g, int id, uint32_t len)
{
	struct rig_node *n = &g->r->n[id], *o = &g->r->n[!id];
	struct qp_sge src = rig_sge(n, 0, len), sink = rig_sge(o, 1 << 20, len), back = rig_sge(n, 2 << 20, len);
	struct qp_sge old = rig_sge(n, 3 << 20, 8);
	uint64_t counter = 41;
	struct rig_wr w[4] = { wr_of(QP_WR_SEND, &src, 0, 0),
			       wr_of(QP_WR_WRITE, &src, RIG_IOVA(o->id) + (3u << 19), o->rkey),
			       wr_of(QP_WR_READ, &back, RIG_IOVA(o->id) + (3u << 19), o->rkey),
			       wr_of(QP_WR_FETCH_ADD, &old, RIG_IOVA(o->id) + (3u << 20) + 64, o->rkey) };

	for (uint32_t i = 0; i < len; i++)
		n->mem[i] = (uint8_t)rn_rng_u32(&g->r->rng);
	memcpy(o->mem + (3 << 20) + 64, &counter, 8);
	w[3].operand = 1;
	assert_true(rig_post_recv(o, 0, 5, &sink, 1));
	for (uint32_t i = 0; i < RN_ARRAY_LEN(w); i++)
		post(g, id, &w[i]);
	struct qp_cqe e = ring_cqe(g, &o->rcq_client);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.byte_len, len);
	completes(g, id, QP_WC_SEND);
	completes(g, id, QP_WC_RDMA_WRITE);
	completes(g, id, QP_WC_RDMA_READ);
	completes(g, id, QP_WC_FETCH_ADD);
	assert_memory_equal(n->mem, o->mem + (1 << 20), len);
	assert_memory_equal(n->mem, n->mem + (2 << 20), len);
	memcpy(&counter, n->mem + (3 << 20), 8);
	assert_int_equal(counter, 41);
	memcpy(&counter, o->mem + (3 << 20) + 64, 8);
	assert_int_equal(counter, 42);
}

static void each_operation_works_over_any_stream(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ring *g = connected(seed);
		for (uint32_t i = 0; i < 12; i++)
			exchange(g, (int)(i % 2), 1 + rn_rng_below(&g->r->rng, i < 6 ? 300 : 60000));
		for (int id = 0; id < 2; id++) {
			const struct qp_stats *st = &g->r->n[id].ctx.rc.qp.stats;
			assert_int_equal(st->crc_errors + st->framing_errors + st->ddp_errors + st->rdmap_errors, 0);
			assert_int_equal(st->ooo_placed, 0);
		}
		close_both(g);
	}
}

/* The bytes stay in the stream until a receive is posted; later messages keep their order. */
static void a_receiver_that_is_not_ready_holds_the_stream(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ring *g = connected(seed);
		struct qp_sge src = rig_sge(A, 0, 3000), sink = rig_sge(B, 1 << 20, 3000);
		struct rig_wr send = wr_of(QP_WR_SEND, &src, 0, 0);
		struct rig_wr write = wr_of(QP_WR_WRITE, &src, RIG_IOVA(1) + (3u << 19), B->rkey);

		qp_set(&B->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = RN_NEVER });
		memset(A->mem, 0x5a, 3000);
		post(g, 0, &send);
		post(g, 0, &write);
		ring_run(g);
		assert_int_equal(g->end[1].rc.rnr.state, RC_RNR_WAITS);
		assert_int_equal(B->mem[3 << 19], 0);
		assert_true(rig_post_recv(B, 0, 1, &sink, 1));
		assert_int_equal(ring_cqe(g, &B->rcq_client).status, QP_WC_SUCCESS);
		completes(g, 0, QP_WC_SEND);
		completes(g, 0, QP_WC_RDMA_WRITE);
		ring_run(g);
		assert_memory_equal(A->mem, B->mem + (1 << 20), 3000);
		assert_memory_equal(A->mem, B->mem + (3 << 19), 3000);
		close_both(g);
	}
}

/* Either end resets: requests that are not done are flushed, and the other side gets the event. */
static void a_reset_flushes_what_is_under_way(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ring *g = connected(seed);
		struct qp_sge back = rig_sge(A, 0, 50000);
		struct rig_wr w = wr_of(QP_WR_READ, &back, RIG_IOVA(1), B->rkey);

		post(g, 0, &w);
		for (uint32_t i = 0; i < seed; i++)
			(void)ring_turn(g);
		if (seed % 2)
			rc_abort(&B->ctx.rc, &g->end[1].rc);
		else
			g->pipe[0].rst = g->pipe[1].rst = true;
		ring_run(g);
		struct qp_cqe e = ring_cqe(g, &A->scq_client);
		assert_true(e.status == QP_WC_WR_FLUSH_ERR || e.status == QP_WC_SUCCESS);
		for (int id = 0; id < 2; id++)
			assert_non_null(ring_fx(g, id, QP_FX_DISCONNECTED));
		assert_int_equal(ring_fx(g, 0, QP_FX_DISCONNECTED)->code, 1);
		ring_free(g);
	}
}

static void a_terminate_names_the_work_request(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct ring *g = connected(seed);
		struct qp_sge back = rig_sge(A, 0, 100);
		struct rig_wr w = wr_of(QP_WR_READ, &back, RIG_IOVA(1), B->rkey ^ 0x100);

		post(g, 0, &w);
		assert_int_equal(ring_cqe(g, &A->scq_client).status, QP_WC_REM_ACCESS_ERR);
		ring_run(g);
		assert_int_equal(B->ctx.rc.qp.stats.terms_sent, 1);
		assert_int_equal(A->ctx.rc.qp.stats.terms_rcvd, 1);
		for (int id = 0; id < 2; id++)
			assert_int_equal(ring_fx(g, id, QP_FX_DISCONNECTED)->code, 1);
		ring_free(g);
	}
}

/* A FIN in the middle of an FPDU is no orderly end (RFC 5044, 7.2). */
static void a_stream_that_ends_inside_an_fpdu_is_broken(void **state)
{
	struct ring *g = connected(1);
	struct qp_sge src = rig_sge(A, 0, 200);
	struct rig_wr w = wr_of(QP_WR_WRITE, &src, RIG_IOVA(1), B->rkey);

	(void)state;
	g->pipe[0].size = 100;
	post(g, 0, &w);
	(void)ring_turn(g);
	g->pipe[0].fin = true;
	ring_run(g);
	assert_int_equal(ring_fx(g, 1, QP_FX_DISCONNECTED)->code, 1);
	g->pipe[1].rst = true;
	ring_run(g);
	g->pipe[0].rst = true;
	ring_run(g);
	ring_free(g);
}

/* The memory changes between two parts of one FPDU: both parts are sent as at the first one, and the CRC is right. */
static void an_fpdu_that_goes_in_parts_is_of_one_piece(void **state)
{
	struct ring *g = connected(9);
	struct qp_sge src = rig_sge(A, 0, 8000);
	struct rig_wr w = wr_of(QP_WR_WRITE, &src, RIG_IOVA(1), B->rkey);

	(void)state;
	assert_true(g->r->cfg.crc);
	g->pipe[0].size = 300;
	post(g, 0, &w);
	for (uint32_t i = 0; i < 400; i++) {
		memset(A->mem, (int)i, 8000);
		(void)ring_turn(g);
	}
	completes(g, 0, QP_WC_RDMA_WRITE);
	assert_int_equal(B->ctx.rc.qp.stats.crc_errors, 0);
	close_both(g);
}

/* The peer never answers the Request: lib/rc's own timer ends the set-up. */
static void a_silent_peer_is_given_up(void **state)
{
	struct rig_cfg cfg = config(1);
	struct ring *g = ring_new(&cfg, 1448, RING_READ, 0);
	struct rc_params p = { .dev = &A->dev, .policy = { .rev = 1 }, .qp = &A->q[0].qp };

	(void)state;
	A->ctx.rc.qp.now = g->r->now;
	assert_int_equal(rc_connect(&A->ctx.rc, &g->end[0].rc, &p), QP_OK);
	rc_set_mss(&g->end[0].rc, g->mss);
	rc_opened(&A->ctx.rc, &g->end[0].rc, 0);
	ring_wait(g, 11 * RN_NS_PER_S);
	assert_non_null(ring_fx(g, 0, QP_FX_UNREACHABLE));
	assert_true(g->pipe[0].rst);
	ring_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_operation_works_over_any_stream),
		cmocka_unit_test(a_receiver_that_is_not_ready_holds_the_stream),
		cmocka_unit_test(a_reset_flushes_what_is_under_way),
		cmocka_unit_test(a_terminate_names_the_work_request),
		cmocka_unit_test(a_stream_that_ends_inside_an_fpdu_is_broken),
		cmocka_unit_test(an_fpdu_that_goes_in_parts_is_of_one_piece),
		cmocka_unit_test(a_silent_peer_is_given_up),
	};

	return cmocka_run_group_tests_name("rc_ring", tests, NULL, NULL);
}
