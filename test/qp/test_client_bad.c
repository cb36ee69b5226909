/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Clients that break the rules, and memory and queues that make a work request fail: only that client's own work is
 * harmed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "client_rig.h"

static void bad_one(const struct rig_wr *w, uint8_t status)
{
	struct qp_sge good = rig_sge(A, 0, 3000);
	struct rig_wr ok = wr(QP_WR_WRITE, 1, &good);

	rig_post(A, 0, &ok);
	rig_post(A, 0, w);
	ok.wr_id = 3;
	rig_post(A, 0, &ok);
	rig_settle(R);
	expect(&A->scq_client, 1, QP_WC_SUCCESS); /* earlier work requests succeed */
	expect(&A->scq_client, 2, status);
	expect(&A->scq_client, 3, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(A->q[0].qp.state, QP_S_ERR);
	assert_int_equal(rig_fx(R, 0, QP_FX_QP_EVENT)->code, QP_EVENT_FATAL);
	assert_int_equal(B->ctx.rc.qp.stats.terms_rcvd, 1);
	assert_int_equal(rig_fx(R, 1, QP_FX_DISCONNECTED)->vendor_err, 0);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	rig_free(R);
}

static void bad_work_requests(void **state)
{
	struct qp_sge s[QP_MAX_SGE];
	struct rig_wr w;

	(void)state;
	up();
	s[0] = (struct qp_sge){ RIG_IOVA(0), 100, A->lkey ^ 1 };
	w = wr(QP_WR_SEND, 2, s);
	bad_one(&w, QP_WC_LOC_PROT_ERR);

	up(); /* SGE of another protection domain */
	s[0] = rig_sge(A, 0, 100);
	s[0].lkey = rig_reg(A, 0, 4096, QP_ACC_ALL, RIG_PD + 1);
	w = wr(QP_WR_WRITE, 2, s);
	bad_one(&w, QP_WC_LOC_PROT_ERR);

	up(); /* SGE beyond the end of the region */
	s[0] = rig_sge(A, RIG_MEM - 10, 11);
	w = wr(QP_WR_WRITE, 2, s);
	bad_one(&w, QP_WC_LOC_PROT_ERR);

	up(); /* SGE that wraps */
	s[0] = (struct qp_sge){ UINT64_MAX - 3, 10, A->lkey };
	w = wr(QP_WR_WRITE, 2, s);
	bad_one(&w, QP_WC_LOC_PROT_ERR);

	up(); /* remote address that wraps */
	s[0] = rig_sge(A, 0, 100);
	w = wr(QP_WR_WRITE, 2, s);
	w.raddr = UINT64_MAX - 50;
	bad_one(&w, QP_WC_LOC_LEN_ERR);

	up(); /* the sink of a Read must be writable */
	s[0] = rig_sge(A, 0, 100);
	s[0].lkey = rig_reg(A, 0, 4096, 0, RIG_PD);
	w = wr(QP_WR_READ, 2, s);
	bad_one(&w, QP_WC_LOC_PROT_ERR);

	up(); /* a Read with two sinks, the second of which has a wrong key */
	s[0] = rig_sge(A, 0, 100);
	s[1] = (struct qp_sge){ 0, 100, A->lkey ^ 1 };
	w = wr(QP_WR_READ, 2, s);
	w.num_sge = 2;
	bad_one(&w, QP_WC_LOC_PROT_ERR);

	up(); /* an operation that does not exist */
	w = wr(200, 2, s);
	bad_one(&w, QP_WC_LOC_QP_OP_ERR);

	up(); /* inline Read */
	w = wr(QP_WR_READ, 2, NULL);
	w.flags |= QP_WF_INLINE;
	w.inl = "abc";
	w.inl_len = 3;
	bad_one(&w, QP_WC_LOC_QP_OP_ERR);

	up(); /* a deregistered region */
	s[0] = rig_sge(A, 0, 100);
	s[0].lkey = rig_reg(A, 0, 4096, 0, RIG_PD);
	assert_int_equal(qp_mr_dereg(&A->dev, s[0].lkey), QP_MR_OK);
	w = wr(QP_WR_WRITE, 2, s);
	bad_one(&w, QP_WC_LOC_PROT_ERR);
}

/* Writes any 64 bytes as a work queue entry. */
static void post_raw(struct rig_node *n, const void *slot)
{
	memcpy(spsc_prod_slot(&n->q[0].sq, 0), slot, QP_SLOT_SIZE);
	spsc_prod_publish(&n->q[0].sq, 1);
	rc_doorbell(&n->ctx.rc, &n->q[0].qp);
}

static void lying_shapes(void **state)
{
	static const struct qp_wqe bad[] = {
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 0 },
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 255 },
		/* more slots than the one that was published */
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 8, .num_sge = 30 },
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 1, .num_sge = 3 }, /* more SGEs than fit into the slots */
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 1, .num_sge = 255 },
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 1, .flags = QP_WF_INLINE, .inline_len = 33 },
		{ .wr_id = 2, .op = QP_WR_SEND, .slots = 8, .flags = QP_WF_INLINE, .inline_len = 65535 },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		up();
		post_raw(A, &bad[i]);
		rig_settle(R);
		expect(&A->scq_client, 2, QP_WC_LOC_QP_OP_ERR);
		assert_int_equal(A->ctx.rc.qp.stats.bad_wqes, 1);
		assert_int_equal(A->q[0].qp.state, QP_S_ERR);
		rig_free(R);
	}
}

static void a_changed_work_request_is_not_read_again(void **state)
{
	(void)state;
	up();
	memset(A->mem, 1, 300000);
	memset(A->mem + 400000, 2, 300000);
	struct qp_sge s = rig_sge(A, 0, 300000);
	struct rig_wr w = wr(QP_WR_WRITE, 1, &s);
	rig_post(A, 0, &w);
	rig_turn(R, 0);
	/* The request is half sent; now all memory of the queue is overwritten. */
	struct qp_wqe *slot = (struct qp_wqe *)(void *)(A->region + A->q[0].sq_off + sizeof(struct spsc_hdr));
	for (uint32_t i = 0; i < RIG_SLOTS; i++)
		slot[i] = (struct qp_wqe){ .wr_id = 99,
					   .op = QP_WR_READ,
					   .slots = 7,
					   .num_sge = 30,
					   .sge = { { RIG_IOVA(0) + 400000, 300000, A->lkey } } };
	rig_settle(R);
	expect(&A->scq_client, 1, QP_WC_SUCCESS);
	for (uint32_t i = 0; i < 300000; i++)
		assert_int_equal(B->mem[(1u << 20) + i], 1);
	rig_free(R);
}

static void garbage_indices(void **state)
{
	static const uint32_t bad[] = { RIG_SLOTS + 1, 0x7fffffff, 0x80000000, UINT32_MAX };

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		up(); /* send queue: the producer's index */
		struct qp_sge s = rig_sge(A, 0, 100);
		A->q[0].sq.hdr->prod += bad[i];
		rc_doorbell(&A->ctx.rc, &A->q[0].qp);
		rig_settle(R);
		assert_int_equal(A->q[0].qp.state, QP_S_ERR);
		assert_int_equal(A->ctx.rc.qp.stats.bad_rings, 1);
		assert_int_equal(B->q[0].qp.state, QP_S_ERR);
		rig_free(R);

		up(); /* receive queue */
		B->q[0].rq.hdr->prod += bad[i];
		struct rig_wr w = wr(QP_WR_SEND, 1, &s);
		rig_post(A, 0, &w);
		rig_settle(R);
		assert_int_equal(B->q[0].qp.state, QP_S_ERR);
		assert_int_equal(B->ctx.rc.qp.stats.bad_rings, 1);
		rig_free(R);

		up(); /* completion queue: the consumer's index */
		A->scq.ring[0].prod.hdr->cons += bad[i];
		for (uint32_t k = 0; k < 100; k++)
			rig_post(A, 0, &w);
		for (uint32_t k = 0; k < 100; k++) {
			struct qp_sge d = rig_sge(B, 0, 100);
			rig_post_recv(B, 0, k, &d, 1);
		}
		rig_settle(R);
		rig_free(R);
	}
	/* The daemon never reads back the index that it writes itself. */
	up();
	A->q[0].sq.hdr->cons = 12345;
	A->scq.ring[0].prod.hdr->prod = 12345;
	struct qp_sge s = rig_sge(A, 0, 100);
	struct rig_wr w = wr(QP_WR_WRITE, 1, &s);
	w.flags = 0;
	rig_post(A, 0, &w);
	rig_settle(R);
	assert_int_equal(A->q[0].qp.state, QP_S_RTS);
	assert_int_equal(A->q[0].sq.hdr->cons, 1);
	rig_free(R);
}

static void bad_receives(void **state)
{
	struct rig_wr w;
	struct qp_sge s, d;

	(void)state;
	up(); /* a receive without the right to write */
	s = rig_sge(A, 0, 100);
	d = rig_sge(B, 0, 100);
	d.lkey = rig_reg(B, 0, 4096, QP_ACC_REMOTE_READ, RIG_PD);
	rig_post_recv(B, 0, 7, &d, 1);
	rig_post_recv(B, 0, 8, &d, 1);
	w = wr(QP_WR_SEND, 1, &s);
	rig_post(A, 0, &w);
	rig_settle(R);
	expect(&B->rcq_client, 7, QP_WC_LOC_PROT_ERR);
	expect(&B->rcq_client, 8, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	rig_free(R);

	up(); /* a receive with more SGEs than slots */
	struct qp_rwqe *slot = spsc_prod_slot(&B->q[0].rq, 0);
	*slot = (struct qp_rwqe){ .wr_id = 7, .num_sge = 31, .slots = 1 };
	spsc_prod_publish(&B->q[0].rq, 1);
	w = wr(QP_WR_SEND, 1, &s);
	rig_post(A, 0, &w);
	rig_settle(R);
	expect(&B->rcq_client, 7, QP_WC_LOC_QP_OP_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.bad_wqes, 1);
	rig_free(R);

	up(); /* SGEs whose lengths add up to more than 2^32 */
	struct qp_sge many[QP_MAX_SGE];
	for (uint32_t i = 0; i < QP_MAX_SGE; i++)
		many[i] = (struct qp_sge){ RIG_IOVA(1), UINT32_MAX, B->lkey };
	rig_post_recv(B, 0, 7, many, QP_MAX_SGE);
	rig_post(A, 0, &w);
	rig_settle(R);
	expect(&B->rcq_client, 7, QP_WC_SUCCESS);
	rig_free(R);
}

static void a_slow_client_overruns_only_its_own_queue(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.cqe = 16;
	up_with(&cfg);
	rig_connect(R, 1); /* another pair of QPs on the same CQs */
	struct qp_sge s = rig_sge(A, 0, 8);
	for (uint32_t i = 0; i < 40; i++) {
		struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		rig_post(A, 0, &w);
	}
	rig_settle(R);
	assert_int_equal(A->ctx.rc.qp.stats.cq_overruns, 1);
	assert_int_equal(rig_fx_count(R, 0, QP_FX_CQ_ERROR), 1);
	assert_int_equal(A->scq.shm->error, 1);
	assert_int_equal(A->q[0].qp.state, QP_S_ERR);
	assert_int_equal(A->q[1].qp.state, QP_S_RTS);
	for (uint32_t i = 0; i < 16; i++) /* older completions are not overwritten */
		expect(&A->scq_client, i, QP_WC_SUCCESS);
	expect_none(&A->scq_client);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->q[1].qp.state, QP_S_RTS);
	rig_free(R);
}

/* Memory is deregistered in the middle of a long message. */
static void memory_goes_away_under_way(void **state)
{
	(void)state;
	up();
	uint32_t stag = rig_reg(A, 0, 2u << 20, 0, RIG_PD);
	struct qp_sge s = rig_sge(A, 0, 2u << 20);
	s.lkey = stag;
	struct rig_wr w = wr(QP_WR_WRITE, 1, &s);
	rig_post(A, 0, &w);
	for (uint32_t i = 0; i < 6; i++)
		rig_step(R);
	assert_int_equal(qp_mr_dereg(&A->dev, stag), QP_MR_OK);
	rig_settle(R);
	expect(&A->scq_client, 1, QP_WC_LOC_PROT_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.terms_rcvd, 1);
	rig_free(R);

	up(); /* the same with the source of a peer's Read */
	stag = rig_reg(B, 0, 2u << 20, QP_ACC_REMOTE_READ, RIG_PD);
	s = rig_sge(A, 0, 2u << 20);
	w = wr(QP_WR_READ, 1, &s);
	w.raddr = RIG_IOVA(1);
	w.rkey = stag;
	rig_post(A, 0, &w);
	for (uint32_t i = 0; i < 8; i++)
		rig_step(R);
	assert_int_equal(qp_mr_dereg(&B->dev, stag), QP_MR_OK);
	rig_settle(R);
	struct qp_cqe e;
	assert_true(rig_poll(&A->scq_client, &e));
	assert_int_equal(e.wr_id, 1);
	assert_true(e.status == QP_WC_REM_ACCESS_ERR || e.status == QP_WC_WR_FLUSH_ERR);
	assert_int_equal(e.vendor_err == 0x0100 || e.status == QP_WC_WR_FLUSH_ERR, 1);
	rig_free(R);
}

static void remote_faults_come_back(void **state)
{
	struct qp_cqe e;

	(void)state;
	up();
	struct qp_sge d = rig_sge(A, 0, 100);
	struct rig_wr w = wr(QP_WR_READ, 1, &d);
	w.rkey ^= 1;
	rig_post(A, 0, &w);
	w.wr_id = 2;
	rig_post(A, 0, &w);
	rig_settle(R);
	assert_true(rig_poll(&A->scq_client, &e));
	assert_int_equal(e.status, QP_WC_REM_ACCESS_ERR);
	assert_int_equal(e.vendor_err, 0x0100);
	expect(&A->scq_client, 2, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_fx(R, 1, QP_FX_QP_EVENT)->code, QP_EVENT_ACCESS_ERR);
	rig_free(R);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_work_requests),
		cmocka_unit_test(lying_shapes),
		cmocka_unit_test(a_changed_work_request_is_not_read_again),
		cmocka_unit_test(garbage_indices),
		cmocka_unit_test(bad_receives),
		cmocka_unit_test(a_slow_client_overruns_only_its_own_queue),
		cmocka_unit_test(memory_goes_away_under_way),
		cmocka_unit_test(remote_faults_come_back),
	};

	return cmocka_run_group_tests_name("qp_client_bad", tests, NULL, NULL);
}
