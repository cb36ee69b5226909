/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended reliable connections: shared receive queues that end. */
#include "xrc_rig.h"

/* Whether a part of a message has come, and not all of it. */
static bool in_message(uint32_t flow)
{
	const struct qp_work *k = B->conn[flow].rc.m.work;

	return k != NULL && k->recv.loaded;
}

static void leave(uint32_t i)
{
	qp_xsrq_withdraw(&B->dev, P[i].srq);
	assert_true(rc_srq_leave(&B->ctx.rc, P[i].srq));
}

/* Nothing of the process is touched from now on: its memory is overwritten. */
static void gone(uint32_t i)
{
	rig_turn(R, 1);
	memset(P[i].srq, 0xff, sizeof(*P[i].srq));
	memset(P[i].cq, 0xff, sizeof(*P[i].cq));
}

static void a_queue_that_ends_leaves_the_connection_to_the_others(void **state)
{
	(void)state;
	up(0);
	post(0, 1, 0, 4096);
	post(1, 2, 8192, 4096);
	go(QP_WR_SEND, P[0].srq->num, 0, 64, 0);
	go(QP_WR_WRITE, 0, 0, 64, P[0].rkey);
	(void)sent();
	(void)sent();
	leave(0);
	gone(0);
	go(QP_WR_SEND, P[1].srq->num, 8192, 64, 0);
	assert_int_equal(received(1).wr_id, 2);
	assert_int_equal(sent().status, QP_WC_SUCCESS);
	go(QP_WR_WRITE, 0, 0, 64, P[0].rkey); /* the process's PD no longer has a queue in the domain */
	assert_int_equal(sent().status, QP_WC_REM_ACCESS_ERR);
	down();
}

static void a_queue_that_ends_while_a_message_waits_for_it_ends_the_connection(void **state)
{
	(void)state;
	up(RN_NEVER);
	start(QP_WR_SEND, P[0].srq->num, 0, 5000, 0);
	rig_run(R, RN_NS_PER_S);
	assert_int_equal(P[0].srq->waiting[0], 1);
	leave(0);
	assert_int_equal(P[0].srq->waiting[0], 0);
	gone(0);
	rig_settle(R);
	assert_int_equal(B->ctx.rc.qp.stats.xrc_refused, 1);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	down();
}

static void a_queue_that_ends_in_the_middle_of_a_message_flushes_what_was_taken(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(0);
	post(0, 1, 0, 1 << 20);
	start(QP_WR_SEND, P[0].srq->num, 0, 1 << 20, 0);
	while (!in_message(0))
		assert_true(rig_step(R));
	leave(0);
	rig_turn(R, 1);
	e = received(0);
	assert_true(e.wr_id == 1 && e.status == QP_WC_WR_FLUSH_ERR);
	gone(0);
	rig_settle(R);
	assert_int_equal(sent().status, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	down();
}

static void a_queue_that_ends_in_the_middle_of_many_messages_tells_of_each(void **state)
{
	enum { TARGETS = 3 };
	static struct qp_target more[TARGETS] RN_ALIGNED(RN_CACHE_LINE);

	(void)state;
	up(0);
	struct qp_ctx *qp = &B->ctx.rc.qp;
	for (uint32_t f = 1; f < TARGETS; f++)
		xrc_connect(f, &more[f], 0);
	for (via = 0; via < TARGETS; via++) {
		post(0, via, 0, 1 << 20);
		start(QP_WR_SEND, P[0].srq->num, 0, 1 << 20, 0);
	}
	via = 0;
	while (!in_message(0) || !in_message(1) || !in_message(2))
		assert_true(rig_step(R));
	while (qp->n_fx + QP_FX_PER_CALL < QP_FX_MAX) /* other connections have reported so much in this turn */
		(void)qp_fx_add(qp, QP_FX_CQ_NOTIFY, 0);
	qp_xsrq_withdraw(&B->dev, P[0].srq);
	assert_false(rc_srq_leave(&B->ctx.rc, P[0].srq));
	rig_turn(R, 1);
	assert_true(rc_srq_leave(&B->ctx.rc, P[0].srq));
	gone(0);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_QP_EVENT), TARGETS);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_DISCONNECTED), TARGETS);
	down();
}

/*
 * Any user may have thousands of targets, whose queues end when their programs like. The PD of the second target is one
 * that no queue has: a look at the target would find that.
 */
static void a_queue_that_ends_looks_at_its_own_targets_only(void **state)
{
	enum { NOBODYS = 999 };
	struct qp_target *other = aligned_alloc(RN_CACHE_LINE, sizeof(*other));

	(void)state;
	up(0);
	xrc_connect(1, other, 0);
	for (via = 0; via < 2; via++) {
		post(via, via, 8192 * via, 4096);
		go(QP_WR_SEND, P[via].srq->num, 8192 * via, 64, 0);
		assert_int_equal(received(via).status, QP_WC_SUCCESS);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
	}
	B->q[1].qp.pd = NOBODYS;
	leave(0);
	gone(0);
	assert_ptr_equal(B->q[0].qp.srq, &target->srq);
	assert_ptr_equal(B->q[1].qp.srq, P[1].srq);
	assert_int_equal(B->q[1].qp.pd, NOBODYS);
	leave(1);
	gone(1);
	assert_ptr_equal(B->q[1].qp.srq, &other->srq);
	via = 0;
	down();
	free(other);
}

/* Each of them may have to be told of. */
static void a_queue_that_ends_lets_go_of_a_part_of_its_targets_in_a_turn(void **state)
{
	enum { MANY = 100, EACH = 64 };
	struct qp *many = calloc(MANY, sizeof(*many));

	(void)state;
	up(0);
	for (uint32_t i = 0; i < MANY; i++) {
		many[i] = (struct qp){ .xrc = QP_XRC_TARGET, .xrcd = domain[0], .target = target, .srq = P[0].srq };
		rn_list_push_back(&P[0].srq->targets[0], &many[i].xrc_link);
	}
	qp_xsrq_withdraw(&B->dev, P[0].srq);
	assert_false(rc_srq_leave(&B->ctx.rc, P[0].srq));
	for (uint32_t i = 0; i < MANY; i++)
		assert_int_equal(many[i].srq == &target->srq, i < EACH);
	assert_true(rc_srq_leave(&B->ctx.rc, P[0].srq));
	for (uint32_t i = 0; i < MANY; i++)
		assert_ptr_equal(many[i].srq, &target->srq);
	down();
	free(many);
}

/* A target remembers the PD of its last Write. The PD's number may be another program's by the next one. */
static void memory_of_a_pd_that_has_left_the_domain_is_not_reached(void **state)
{
	(void)state;
	for (uint32_t op = 0; op < 3; op++) {
		static const uint8_t ops[] = { QP_WR_WRITE, QP_WR_READ, QP_WR_FETCH_ADD };
		up(0);
		go(QP_WR_WRITE, 0, 0, 64, P[0].rkey);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		leave(0);
		gone(0);
		go(ops[op], 0, 0, 8, P[0].rkey);
		assert_int_equal(sent().status, QP_WC_REM_ACCESS_ERR);
		down();
	}
}

/* The queue is the last of the target's domain that anything refers to; afterwards nothing does. */
static void last_leaves(uint32_t i)
{
	leave(i);
	gone(i);
	assert_false(rn_link_linked(&B->q[0].qp.xrc_link));
	assert_true(rn_list_empty(&B->ctx.rc.rnr));
	assert_ptr_equal(B->q[0].qp.srq, &target->srq);
	assert_ptr_equal(B->q[0].qp.rcq, &target->cq);
}

static void an_open_message_goes_on_when_another_queue_of_the_domain_ends(void **state)
{
	const uint32_t len = 1 << 20;

	(void)state;
	for (uint32_t wrote = 0; wrote < 2; wrote++) {
		up(0);
		if (wrote) {
			go(QP_WR_WRITE, 0, len, 64, P[0].rkey);
			assert_int_equal(sent().status, QP_WC_SUCCESS);
		}
		post(1, 2, 0, len);
		start(QP_WR_SEND, P[1].srq->num, 0, len, 0);
		while (!in_message(0))
			assert_true(rig_step(R));
		leave(0);
		gone(0);
		rig_settle(R);
		const struct qp_cqe e = received(1);
		assert_true(e.wr_id == 2 && e.status == QP_WC_SUCCESS && e.byte_len == len);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_memory_equal(B->mem, A->mem, len);
		last_leaves(1);
		down();
	}
}

static void a_waiting_message_waits_on_when_another_queue_of_the_domain_ends(void **state)
{
	(void)state;
	for (uint32_t posted = 0; posted < 2; posted++) {
		up(RN_NEVER);
		start(QP_WR_SEND, P[1].srq->num, 0, 5000, 0);
		rig_run(R, RN_NS_PER_S);
		leave(0);
		gone(0);
		rig_run(R, RN_NS_PER_S);
		assert_int_equal(P[1].srq->waiting[0], 1);
		if (posted) {
			post(1, 2, 0, 16384);
			rig_settle(R);
			assert_int_equal(received(1).wr_id, 2);
			assert_int_equal(sent().status, QP_WC_SUCCESS);
			assert_memory_equal(B->mem, A->mem, 5000);
		}
		last_leaves(1);
		rig_settle(R);
		assert_int_equal(B->ctx.rc.qp.stats.xrc_refused, posted ? 0 : 1);
		down();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_that_ends_leaves_the_connection_to_the_others),
		cmocka_unit_test(a_queue_that_ends_while_a_message_waits_for_it_ends_the_connection),
		cmocka_unit_test(a_queue_that_ends_in_the_middle_of_a_message_flushes_what_was_taken),
		cmocka_unit_test(a_queue_that_ends_in_the_middle_of_many_messages_tells_of_each),
		cmocka_unit_test(a_queue_that_ends_looks_at_its_own_targets_only),
		cmocka_unit_test(a_queue_that_ends_lets_go_of_a_part_of_its_targets_in_a_turn),
		cmocka_unit_test(memory_of_a_pd_that_has_left_the_domain_is_not_reached),
		cmocka_unit_test(an_open_message_goes_on_when_another_queue_of_the_domain_ends),
		cmocka_unit_test(a_waiting_message_waits_on_when_another_queue_of_the_domain_ends),
	};

	return cmocka_run_group_tests_name("qp_xrc_end", tests, NULL, NULL);
}
