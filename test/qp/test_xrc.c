/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended reliable connections: one connection, and behind its target the shared receive queues of two processes. */
#include "base/rn_be.h"
#include "xrc_rig.h"

/* Whether a part of a message has come, and not all of it. */
static bool in_message(uint32_t flow)
{
	const struct qp_work *k = B->conn[flow].rc.m.work;

	return k != NULL && k->recv.loaded;
}

/* The peer gets a Terminate, and the sender's work request this status. */
static void refused(enum qp_wc_status status)
{
	assert_int_equal(sent().status, status);
	assert_int_equal(B->ctx.rc.qp.stats.terms_sent, 1);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_true(nothing(0) && nothing(1) && nothing(2));
}

static void each_message_goes_to_the_queue_and_the_cq_that_it_names(void **state)
{
	(void)state;
	up(0);
	for (uint32_t round = 0; round < 20; round++) {
		const uint32_t i = round % 3 == 0, off = round * 16384, len = round % 2 == 0 ? 100 : 9000;
		post(i, 1000 + round, off, 16384);
		go(QP_WR_SEND, P[i].srq->num, off, len, 0);
		const struct qp_cqe e = received(i);
		assert_int_equal(e.wr_id, 1000 + round);
		assert_int_equal(e.qpn, 10);
		assert_int_equal(e.byte_len, len);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_true(nothing(1 - i));
		assert_memory_equal(B->mem + off, A->mem + off, len);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
	}
	down();
}

static void immediates_are_told_to_the_queue_that_takes_them(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(0);
	post(0, 1, 0, 4096);
	post(1, 2, 8192, 4096);
	go(QP_WR_SEND_IMM, P[1].srq->num, 0, 300, 0);
	e = received(1);
	assert_true(e.wr_id == 2 && e.aux == 0x01020304 && e.byte_len == 300 && e.flags == QP_WCF_WITH_IMM);
	go(QP_WR_WRITE_IMM, P[0].srq->num, 4096, 5000, P[1].rkey);
	e = received(0);
	assert_true(e.wr_id == 1 && e.aux == 0x01020304 && e.byte_len == 5000 && e.op == QP_WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(B->mem + 4096, A->mem + 4096, 5000);
	down();
}

static void memory_of_each_pd_that_has_a_queue_in_the_domain_is_reached_and_no_other(void **state)
{
	(void)state;
	up(0);
	for (uint32_t round = 0; round < 4; round++) {
		const uint32_t off = round * 65536;
		go(QP_WR_WRITE, 0, off, 20000, P[round % 2].rkey);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_memory_equal(B->mem + off, A->mem + off, 20000);
		memset(B->mem + off, 1, 20000);
		/* Reads of both PDs are under way at once: each returns bytes of its own PD */
		start(QP_WR_READ, 0, off, 20000, P[round % 2].rkey);
		start(QP_WR_READ, 0, off + 32768, 20000, P[1 - round % 2].rkey);
		rig_settle(R);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_memory_equal(A->mem + off, B->mem + off, 20000);
		go(QP_WR_FETCH_ADD, 0, off, 8, P[round % 2].rkey);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
	}
	go(QP_WR_WRITE, 0, 0, 64, P[2].rkey);
	refused(QP_WC_REM_ACCESS_ERR);
	down();
}

static void a_queue_of_another_domain_is_refused(void **state)
{
	(void)state;
	up(RN_NEVER);
	post(2, 1, 0, 4096);
	go(QP_WR_SEND, P[2].srq->num, 0, 64, 0);
	refused(QP_WC_REM_INV_REQ_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.xrc_refused, 1);
	down();
}

static void a_number_that_no_queue_has_is_refused(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		up(RN_NEVER);
		go(QP_WR_SEND, i == 0 ? 0 : 40000, 0, 64, 0);
		refused(QP_WC_REM_INV_REQ_ERR);
		down();
	}
}

/* The word of a Send with Invalidate is an STag, so the Send cannot name a queue. */
static void a_send_with_invalidate_is_refused(void **state)
{
	(void)state;
	up(0);
	post(0, 1, 0, 4096);
	go(QP_WR_SEND_INV, P[0].srq->num, 0, 64, 0);
	refused(QP_WC_REM_INV_REQ_ERR);
	down();
}

static void an_initiator_receives_nothing(void **state)
{
	struct qp_attr a;

	(void)state;
	up(0);
	a = rig_attr(B, 1); /* an ordinary queue pair, which the daemon would not have let connect */
	assert_int_equal(qp_init(&B->q[1].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[1].qp, QP_S_INIT), QP_OK);
	a = rig_attr(A, 1);
	a.xrc = QP_XRC_INITIATOR;
	assert_int_equal(qp_init(&A->q[1].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&A->ctx.rc, &A->q[1].qp, QP_S_INIT), QP_OK);
	rig_connect(R, 1);
	struct qp_sge s = rig_sge(B, 0, 64);
	const struct rig_wr w = { .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };
	s = rig_sge(A, 0, 64);
	assert_true(rig_post_recv(A, 1, 5, &s, 1));
	s = rig_sge(B, 0, 64);
	assert_true(rig_post(B, 1, &w));
	rig_settle(R);
	assert_int_equal(A->ctx.rc.qp.stats.xrc_refused, 1);
	down();
}

static void a_message_waits_for_a_receive_of_the_queue_that_it_names(void **state)
{
	(void)state;
	up(RN_NEVER);
	post(0, 1, 0, 16384);
	start(QP_WR_SEND, P[1].srq->num, 16384, 5000, 0);
	start(QP_WR_SEND, P[0].srq->num, 0, 5000, 0);
	rig_run(R, 20 * RN_NS_PER_S);
	assert_true(nothing(0) && nothing(1)); /* later messages wait behind it, as on InfiniBand */
	post(1, 2, 16384, 16384);
	rig_settle(R);
	assert_int_equal(received(1).wr_id, 2);
	assert_int_equal(received(0).wr_id, 1);
	assert_memory_equal(B->mem, A->mem, 5000);
	down();
}

static void an_error_of_the_target_flushes_what_it_has_taken_and_nothing_else(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(0);
	post(0, 1, 0, 1 << 20);
	post(0, 2, 0, 1 << 20);
	post(1, 3, 0, 1 << 20);
	start(QP_WR_SEND, P[0].srq->num, 0, 1 << 20, 0);
	while (!in_message(0))
		assert_true(rig_step(R));
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, QP_S_ERR), QP_OK);
	rig_settle(R);
	e = received(0);
	assert_true(e.wr_id == 1 && e.status == QP_WC_WR_FLUSH_ERR);
	assert_true(nothing(0) && nothing(1));
	down();
}

/* Queue pairs of other kinds send the reserved word as 0, whatever their client has written there. */
static uint32_t word;
static void look(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *payload)
{
	(void)r;
	/* MPA's length, DDP's control octets, then the word: RFC 5041, 4.3 */
	if (from == 0 && o->len > 8 && (payload[3] & 0xf) == RDMAP_SEND)
		word = rn_load_be32(payload + 4);
}

static void the_number_is_on_the_wire_of_an_initiator_and_of_nobody_else(void **state)
{
	struct qp_sge s;

	(void)state;
	up(0);
	R->tap = look;
	post(0, 1, 0, 4096);
	go(QP_WR_SEND, P[0].srq->num, 0, 64, 0);
	assert_int_equal(word, P[0].srq->num);
	rig_connect(R, 1);
	s = rig_sge(B, 0, 64);
	assert_true(rig_post_recv(B, 1, 5, &s, 1));
	s = rig_sge(A, 0, 64);
	const struct rig_wr w = { .op = QP_WR_SEND, .sge = &s, .num_sge = 1, .srqn = 0x1234 };
	assert_true(rig_post(A, 1, &w));
	rig_settle(R);
	assert_int_equal(word, 0);
	down();
}

static void numbers_are_not_given_twice_and_a_domain_has_a_limit_of_pds(void **state)
{
	struct qp_srq **many = calloc(QP_XRCD_PDS + 1, sizeof(*many));

	(void)state;
	up(0);
	for (uint32_t i = 0; i <= QP_XRCD_PDS; i++) {
		many[i] = aligned_alloc(RN_CACHE_LINE, sizeof(**many));
		memset(many[i], 0, sizeof(**many));
		many[i]->xrcd = domain[1];
		many[i]->pd = 1000 + i;
		const bool there_is_room = i + 1 < QP_XRCD_PDS; /* one place is that of P[2] */
		assert_int_equal(qp_xsrq_publish(&B->dev, many[i], 65000), there_is_room);
		for (uint32_t k = 0; k < i && there_is_room; k++)
			assert_true(many[k]->num != many[i]->num && many[i]->num != 0);
		assert_int_equal(qp_xrcd_has(domain[1], 1000 + i), there_is_room);
	}
	qp_xsrq_withdraw(&B->dev, many[7]);
	assert_false(qp_xrcd_has(domain[1], 1007));
	assert_true(qp_xsrq_publish(&B->dev, many[QP_XRCD_PDS], many[7]->num));
	assert_int_equal(many[QP_XRCD_PDS]->num, many[7]->num);
	for (uint32_t i = 0; i <= QP_XRCD_PDS; i++)
		free(many[i]);
	free(many);
	down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message_goes_to_the_queue_and_the_cq_that_it_names),
		cmocka_unit_test(immediates_are_told_to_the_queue_that_takes_them),
		cmocka_unit_test(memory_of_each_pd_that_has_a_queue_in_the_domain_is_reached_and_no_other),
		cmocka_unit_test(a_queue_of_another_domain_is_refused),
		cmocka_unit_test(a_number_that_no_queue_has_is_refused),
		cmocka_unit_test(a_send_with_invalidate_is_refused),
		cmocka_unit_test(an_initiator_receives_nothing),
		cmocka_unit_test(a_message_waits_for_a_receive_of_the_queue_that_it_names),
		cmocka_unit_test(an_error_of_the_target_flushes_what_it_has_taken_and_nothing_else),
		cmocka_unit_test(the_number_is_on_the_wire_of_an_initiator_and_of_nobody_else),
		cmocka_unit_test(numbers_are_not_given_twice_and_a_domain_has_a_limit_of_pds),
	};

	return cmocka_run_group_tests_name("qp_xrc", tests, NULL, NULL);
}
