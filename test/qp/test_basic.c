/* SPDX-License-Identifier: BSD-3-Clause */
/* Send, Write and Read over a perfect link; connection set-up and orderly end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

static void pattern(uint8_t *p, uint32_t len, uint32_t seed)
{
	struct rn_rng g;

	rn_rng_seed(&g, seed);
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)rn_rng_u32(&g);
}

static struct rig *up(const struct rig_cfg *cfg)
{
	struct rig *r = rig_new(cfg);

	rig_connect(r, 0);
	return r;
}

static void set_up_tells_both_sides(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.ird = 4;
	cfg.ord = 9;
	struct rig *r = up(&cfg);
	const struct qp_fx *req = rig_fx(r, 1, QP_FX_CONNECT_REQUEST), *act = rig_fx(r, 0, QP_FX_ESTABLISHED);
	assert_non_null(req);
	assert_int_equal(req->priv_len, 5);
	assert_memory_equal(r->n[1].priv[req - r->n[1].fx], "hello", 5);
	assert_int_equal(req->ird, 9);
	assert_int_equal(req->ord, 4);
	assert_non_null(rig_fx(r, 1, QP_FX_ESTABLISHED));
	assert_non_null(act);
	assert_int_equal(act->priv_len, 7);
	assert_memory_equal(r->n[0].priv[act - r->n[0].fx], "welcome", 7);
	assert_int_equal(act->ird, 4);
	assert_int_equal(act->ord, 4);
	assert_int_equal(r->n[0].q[0].qp.state, QP_S_RTS);
	assert_int_equal(r->n[1].q[0].qp.shm->state, QP_S_RTS);
	rig_free(r);
}

static void one_of_each(const struct rig_cfg *cfg, uint32_t len)
{
	struct rig *r = up(cfg);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	struct qp_sge src = rig_sge(a, 100, len), dst = rig_sge(b, 64, len);
	struct qp_cqe cqe;

	pattern(a->mem + 100, len, len);
	assert_true(rig_post_recv(b, 0, 77, &dst, 1));
	struct rig_wr w = {
		.wr_id = 1, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED | QP_WF_SOLICITED, .sge = &src, .num_sge = 1
	};
	assert_true(rig_post(a, 0, &w));
	cqe = rig_wait(r, &b->rcq_client);
	assert_int_equal(cqe.status, QP_WC_SUCCESS);
	assert_int_equal(cqe.wr_id, 77);
	assert_int_equal(cqe.byte_len, len);
	assert_int_equal(cqe.op, QP_WC_RECV);
	assert_int_equal(cqe.qpn, 10);
	assert_int_equal(cqe.solicited, 1);
	assert_memory_equal(b->mem + 64, a->mem + 100, len);
	cqe = rig_wait(r, &a->scq_client);
	assert_int_equal(cqe.status, QP_WC_SUCCESS);
	assert_int_equal(cqe.wr_id, 1);
	assert_int_equal(cqe.op, QP_WC_SEND);

	w = (struct rig_wr){ .wr_id = 2,
			     .op = QP_WR_WRITE,
			     .flags = QP_WF_SIGNALED,
			     .sge = &src,
			     .num_sge = 1,
			     .raddr = RIG_IOVA(1) + (2u << 20),
			     .rkey = b->rkey };
	assert_true(rig_post(a, 0, &w));
	cqe = rig_wait(r, &a->scq_client);
	assert_int_equal(cqe.status, QP_WC_SUCCESS);
	assert_int_equal(cqe.wr_id, 2);
	assert_int_equal(cqe.op, QP_WC_RDMA_WRITE);
	assert_memory_equal(b->mem + (2u << 20), a->mem + 100, len);

	struct qp_sge back = rig_sge(a, 2u << 20, len);
	w = (struct rig_wr){ .wr_id = 3,
			     .op = QP_WR_READ,
			     .flags = QP_WF_SIGNALED,
			     .sge = &back,
			     .num_sge = 1,
			     .raddr = RIG_IOVA(1) + (2u << 20),
			     .rkey = b->rkey };
	assert_true(rig_post(a, 0, &w));
	cqe = rig_wait(r, &a->scq_client);
	assert_int_equal(cqe.status, QP_WC_SUCCESS);
	assert_int_equal(cqe.wr_id, 3);
	assert_int_equal(cqe.op, QP_WC_RDMA_READ);
	assert_int_equal(cqe.byte_len, len);
	assert_memory_equal(a->mem + (2u << 20), a->mem + 100, len);

	/* Also in the other direction. */
	struct qp_sge in = rig_sge(a, 0, 64), out = rig_sge(b, 64, 32);
	assert_true(rig_post_recv(a, 0, 78, &in, 1));
	w = (struct rig_wr){ .wr_id = 4, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &out, .num_sge = 1 };
	assert_true(rig_post(b, 0, &w));
	cqe = rig_wait(r, &a->rcq_client);
	assert_int_equal(cqe.wr_id, 78);
	assert_int_equal(cqe.byte_len, 32);
	rig_free(r);
}

static void lengths(void **state)
{
	static const uint32_t len[] = { 0, 1, 3, 4, 64, 77, 78, 79, 1400, 1434, 1435, 4096, 65536, 1000003 };
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(len); i++)
		one_of_each(&cfg, len[i]);
}

static void every_combination(void **state)
{
	static const uint32_t mtu[] = { 576, 1500, 4096, 9000 };
	struct rig_cfg cfg;

	(void)state;
	for (uint32_t i = 0; i < 64; i++) {
		rig_defaults(&cfg);
		cfg.mtu = mtu[i & 3];
		cfg.crc = i & 4;
		cfg.markers[0] = i & 8;
		cfg.markers[1] = i & 16;
		cfg.p2p = i & 32;
		cfg.rtr = i & 4 ? MPA_RTR_READ : i & 8 ? MPA_RTR_WRITE : MPA_RTR_SEND;
		cfg.split = i & 1;
		cfg.rev = i & 32 || i & 16 ? 2 : 1;
		one_of_each(&cfg, 50000 + i);
	}
}

static void orderly_end(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	struct rig *r = up(&cfg);
	struct qp_sge s = rig_sge(&r->n[0], 0, 100000), d = rig_sge(&r->n[1], 0, 64);
	struct rig_wr w = { .wr_id = 5,
			    .op = QP_WR_WRITE,
			    .flags = QP_WF_SIGNALED,
			    .sge = &s,
			    .num_sge = 1,
			    .raddr = RIG_IOVA(1),
			    .rkey = r->n[1].rkey };
	struct qp_cqe cqe;

	rig_post_recv(&r->n[1], 0, 9, &d, 1);
	rig_post(&r->n[0], 0, &w);
	rc_disconnect(&r->n[0].ctx.rc, &r->n[0].conn[0].rc);
	assert_int_equal(r->n[0].q[0].qp.state, QP_S_SQD);
	rig_run(r, 3 * RN_NS_PER_S);
	assert_true(rig_poll(&r->n[0].scq_client, &cqe));
	assert_int_equal(cqe.status, QP_WC_SUCCESS);
	assert_true(rig_poll(&r->n[1].rcq_client, &cqe));
	assert_int_equal(cqe.status, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(cqe.wr_id, 9);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_fx_count(r, i, QP_FX_DISCONNECTED), 1);
		assert_int_equal(rig_fx(r, i, QP_FX_DISCONNECTED)->code, 0);
		assert_int_equal(rig_fx_count(r, i, QP_FX_CLOSED), 1);
		assert_int_equal(rc_get_state(&r->n[i].conn[0].rc), RC_FREE);
		assert_int_equal(r->n[i].q[0].qp.state, QP_S_ERR);
	}
	/* The QP can be used again. */
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rc_modify(&r->n[i].ctx.rc, &r->n[i].q[0].qp, QP_S_RESET), QP_OK);
		assert_int_equal(rc_modify(&r->n[i].ctx.rc, &r->n[i].q[0].qp, QP_S_INIT), QP_OK);
	}
	rig_connect(r, 0);
	rig_free(r);
}

/* SQD exists so that attributes may change. The end of draining that was asked for is told nevertheless, once. */
static void attributes_change_in_sqd(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.accept_flags = cfg.connect_flags = RC_KEEP_RECV;
	struct rig *r = up(&cfg);
	struct rc_ctx *ctx = &r->n[0].ctx.rc;
	struct qp *qp = &r->n[0].q[0].qp;
	struct qp_sge s = rig_sge(&r->n[0], 0, 100);
	const struct rig_wr w = { .wr_id = 1,
				  .op = QP_WR_READ,
				  .flags = QP_WF_SIGNALED,
				  .sge = &s,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1),
				  .rkey = r->n[1].rkey };

	rig_post(&r->n[0], 0, &w);
	rig_turn(r, 0);
	qp_set(qp, &(struct qp_tune){ .access = QP_ACC_ALL, .tell_drained = true });
	assert_int_equal(rc_modify(ctx, qp, QP_S_SQD), QP_OK);
	qp_set(qp, &(struct qp_tune){ .access = QP_ACC_REMOTE_READ });
	assert_int_equal(rc_modify(ctx, qp, QP_S_SQD), QP_OK);
	assert_int_equal(rig_fx_count(r, 0, QP_FX_QP_EVENT), 0);
	rig_run(r, RN_NS_PER_S);
	assert_int_equal(rig_fx_count(r, 0, QP_FX_QP_EVENT), 1);
	assert_int_equal(rig_fx(r, 0, QP_FX_QP_EVENT)->code, QP_EVENT_SQ_DRAINED);
	assert_int_equal(rc_modify(ctx, qp, QP_S_RTS), QP_OK);
	assert_int_equal(rc_modify(ctx, qp, QP_S_SQD), QP_OK); /* not asked for this time */
	rig_run(r, RN_NS_PER_S);
	assert_int_equal(rig_fx_count(r, 0, QP_FX_QP_EVENT), 1);
	rig_free(r);
}

/*
 * A turn is long when many connections send. An acknowledgement that waited for the end of the turn would keep the
 * peer's work requests open.
 */
static void answers_go_before_what_is_posted(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.p2p = true; /* the responder may send first */
	struct rig *r = rig_new(&cfg);
	for (uint32_t f = 0; f < 3; f++)
		rig_connect(r, f);
	rig_settle(r);
	struct rc_tcp_ctx *ctx = &r->n[0].ctx;
	struct rc_tcp *conn = r->n[0].conn;
	struct qp_sge sge[2] = { rig_sge(&r->n[0], 0, 64), rig_sge(&r->n[1], 0, 64) };
	struct rig_wr w[2];
	for (uint32_t id = 0; id < 2; id++)
		w[id] = (struct rig_wr){ .op = QP_WR_WRITE,
					 .flags = QP_WF_SIGNALED,
					 .sge = &sge[id],
					 .num_sge = 1,
					 .raddr = RIG_IOVA(1 - id),
					 .rkey = r->n[1 - id].rkey };

	r->n[0].paused = true;
	assert_true(rig_post(&r->n[0], 0, &w[0]));
	assert_true(rig_post(&r->n[0], 1, &w[0]));
	assert_true(rig_post(&r->n[1], 2, &w[1]));
	rig_run(r, 100 * RN_NS_PER_MS);
	assert_ptr_equal(rc_tcp_ready_pop(ctx), &conn[2]);
	assert_ptr_equal(rc_tcp_ready_pop(ctx), &conn[0]);
	rc_ready_put(&ctx->rc, &conn[0].rc);
	rc_ready_put(&ctx->rc, &conn[2].rc);
	r->n[0].paused = false;
	for (uint32_t id = 0; id < 2; id++)
		assert_int_equal(rig_wait(r, &r->n[id].scq_client).status, 0);
	assert_int_equal(rig_wait(r, &r->n[0].scq_client).status, 0);
	rig_free(r);
}

/* A Write without and with a CRC: what each end copies is the payload, and what it sums the FPDUs, once. */
static void touched_bytes_are_counted(void **state)
{
	enum { LEN = 20000 };
	struct rig_cfg cfg;

	(void)state;
	for (int crc = 0; crc < 2; crc++) {
		rig_defaults(&cfg);
		cfg.crc = crc;
		struct rig *r = up(&cfg);
		const struct qp_stats *tx = &r->n[0].ctx.rc.qp.stats, *rx = &r->n[1].ctx.rc.qp.stats;
		const struct qp_stats from = *tx, to = *rx;
		struct qp_sge src = rig_sge(&r->n[0], 0, LEN);
		const struct rig_wr w = { .wr_id = 1,
					  .op = QP_WR_WRITE,
					  .flags = QP_WF_SIGNALED,
					  .sge = &src,
					  .num_sge = 1,
					  .raddr = RIG_IOVA(1),
					  .rkey = r->n[1].rkey };
		assert_true(rig_post(&r->n[0], 0, &w));
		assert_int_equal(rig_wait(r, &r->n[0].scq_client).status, QP_WC_SUCCESS);
		assert_int_equal(rx->copied_rx - to.copied_rx, LEN);
		assert_int_equal(tx->copied_rx - from.copied_rx, 0);
		assert_in_range(tx->copied_tx - from.copied_tx, LEN, 2 * LEN + LEN / 5);
		if (crc)
			assert_in_range(rx->summed_rx - to.summed_rx, LEN, LEN + LEN / 10);
		else
			assert_int_equal(rx->summed_rx - to.summed_rx, 0);
		assert_int_equal(tx->summed_tx - from.summed_tx, rx->summed_rx - to.summed_rx);
		rig_free(r);
	}
}

/*
 * The engine counts the work requests of a connection that never rests without end. The count passes 2^31 and 2^32, and
 * each work request completes all the same.
 */
static void any_number_of_work_requests_completes(void **state)
{
	static const uint32_t begin[] = { UINT32_MAX / 2 - 9, UINT32_MAX - 9 };
	static const uint8_t op[] = { QP_WR_SEND, QP_WR_WRITE, QP_WR_READ, QP_WR_FETCH_ADD, QP_WR_WRITE_IMM };
	struct rig_cfg cfg;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(begin) * RN_ARRAY_LEN(op); i++) {
		rig_defaults(&cfg);
		struct rig *r = up(&cfg);
		struct rig_node *a = &r->n[0], *b = &r->n[1];
		struct qp_sge sge = rig_sge(a, 0, 8), in = rig_sge(b, 64, 8);
		struct rig_wr w = { .op = op[i / 2],
				    .flags = QP_WF_SIGNALED,
				    .sge = &sge,
				    .num_sge = 1,
				    .raddr = RIG_IOVA(1),
				    .rkey = b->rkey };
		struct qp_work *k = a->conn[0].rc.m.work;
		assert_non_null(k);
		assert_int_equal(k->wr_head, k->wr_tail);
		k->wr_head = k->wr_tail = begin[i % 2];
		for (w.wr_id = 0; w.wr_id < 20; w.wr_id++) {
			assert_true(rig_post_recv(b, 0, 0, &in, 1));
			assert_true(rig_post(a, 0, &w));
		}
		for (uint32_t n = 0; n < 20; n++) {
			const struct qp_cqe cqe = rig_wait(r, &a->scq_client);
			assert_int_equal(cqe.wr_id, n);
			assert_int_equal(cqe.status, QP_WC_SUCCESS);
		}
		assert_true(a->conn[0].rc.m.work == k && k->wr_tail == begin[i % 2] + 20);
		rig_free(r);
	}
}

/*
 * The acknowledgement of all that was in flight gives no turn if nothing waits, and the block is free at once: the
 * first of two busy connections gives its block back. A connection with more to do gets its turn.
 */
static void last_acknowledgement_gives_no_turn(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.blocks = 2;
	struct rig *r = up(&cfg);
	struct rig_node *a = &r->n[0];
	struct qp_sge src = rig_sge(a, 0, 64);
	struct rig_wr w = { .op = QP_WR_WRITE,
			    .flags = QP_WF_SIGNALED,
			    .sge = &src,
			    .num_sge = 1,
			    .raddr = RIG_IOVA(1),
			    .rkey = r->n[1].rkey };
	rig_settle(r);
	rig_connect(r, 1);
	rig_settle(r);
	for (uint32_t f = 0; f < 2; f++)
		assert_true(rig_post(a, f, &w));
	rig_turn(r, 0);
	assert_int_equal(a->ctx.rc.blk_left, 0);
	while (!rc_quiet(&a->conn[0].rc) || !rc_quiet(&a->conn[1].rc))
		assert_true(rig_step(r));
	assert_int_equal(a->ctx.rc.blk_left, 1);
	for (uint32_t f = 0; f < 2; f++) {
		assert_false(rc_is_ready(&a->conn[f].rc));
		assert_true(a->conn[f].tcp.t_rtx == RN_NEVER);
	}
	assert_true(rig_post(a, 0, &w));
	rig_turn(r, 0);
	assert_true(rig_queue(a, 0, &w)); /* posted, and not looked at before the acknowledgement comes */
	a->q[0].qp.rung = true;
	while (!rc_quiet(&a->conn[0].rc))
		assert_true(rig_step(r));
	assert_true(rc_is_ready(&a->conn[0].rc));
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_up_tells_both_sides),
		cmocka_unit_test(lengths),
		cmocka_unit_test(every_combination),
		cmocka_unit_test(orderly_end),
		cmocka_unit_test(attributes_change_in_sqd),
		cmocka_unit_test(answers_go_before_what_is_posted),
		cmocka_unit_test(touched_bytes_are_counted),
		cmocka_unit_test(any_number_of_work_requests_completes),
		cmocka_unit_test(last_acknowledgement_gives_no_turn),
	};

	return cmocka_run_group_tests_name("qp_basic", tests, NULL, NULL);
}
