/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of reliable datagrams, in simulations (rd_sim.h): places for pairs, working memory, and lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rd_sim.h"

/* What has been delivered and acknowledged costs no working memory, at neither end. */
static void a_pair_rests_when_nothing_is_under_way(void **state)
{
	const struct rd_wr w = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 0; k < 5; k++) {
		rd_post_recv(1, 0);
		const uint32_t id = rd_post(0, &w);
		assert_int_equal(sim.node[0].d.works_used, 1);
		rd_run(RN_NS_PER_S / 10);
		assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(rd_pairs(&sim.node[i].d), 1);
			assert_int_equal(sim.node[i].d.works_used, 0);
		}
	}
	const uint32_t waits = rd_post(0, &w); /* there is no receive */
	rd_run(RN_NS_PER_S);
	assert_int_equal(sim.node[1].d.works_used, 1);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S / 10);
	assert_int_equal(rd_status(0, waits), QP_WC_SUCCESS);
	assert_int_equal(sim.node[0].d.works_used + sim.node[1].d.works_used, 0);
	rd_sim_down();
}

/* A doorbell costs the same, however many pairs of the queue pair and of others wait. */
static void a_doorbell_leaves_it_to_the_turn_to_look_at_pairs_that_wait(void **state)
{
	struct rd_wr w = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };
	struct rd_node *n = &sim.node[1];

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	qp_set(&n->n->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = RD_QKEY, .rnr_ns = 60 * RN_NS_PER_S });
	rd_post(0, &w);
	w.from = 1;
	rd_post(0, &w);
	rd_run(RN_NS_PER_S / 2);
	assert_int_equal(n->d.n_waits, 2);
	rd_post_recv(1, 0);
	assert_int_equal(n->d.n_waits, 2);
	assert_int_equal(n->d.looks, 2);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(n->d.n_waits, 0);
	rd_sim_down();
}

/* Two pairs wait for a receive for good. Waits of others end one after the other, and the two are not looked at. */
static void a_wait_that_ends_costs_the_same_however_many_pairs_wait(void **state)
{
	struct rd_wr w = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };
	const struct qp_tune tune = { .access = QP_ACC_ALL, .qkey = RD_QKEY, .rnr_ns = RN_NEVER, .rnr_told = 1 };
	struct rd_ctx *d = &sim.node[1].d;

	(void)state;
	rd_sim_up(1, PAIRS);
	for (w.to = 0; w.to < 2; w.to++)
		rd_post(0, &w);
	rd_run(RN_NS_PER_S / 10);
	assert_int_equal(d->n_waits, 2);
	sim.faults = true;
	qp_set(&sim.node[0].n->q[1].qp, &tune);
	struct rn_link *first = d->waits.first;
	d->waits.first = (struct rn_link *)1; /* a walk from the first pair on fails */
	w.from = 1;
	for (uint32_t k = 0; k < 20; k++) {
		w.to = k & 1;
		const uint32_t id = rd_post(0, &w);
		rd_run(RN_NS_PER_S / 10);
		assert_int_equal(rd_status(0, id), QP_WC_RNR_RETRY_EXC_ERR);
	}
	d->waits.first = first;
	assert_int_equal(d->n_waits, 2);
	rd_post_recv(1, 0);
	rd_post_recv(1, 1);
	rd_run(RN_NS_PER_S);
	rd_all_over();
	rd_sim_down();
}

/* Two pairs of the sender have something under way at most: its queues stand still until another pair rests. */
static void pairs_take_turns_to_send_when_working_memory_is_short(void **state)
{
	struct rd_wr w = { .op = QP_WR_WRITE, .len = 3000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_works = 3;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 0; k < 40; k++) {
		w.from = (uint8_t)(k % QPS);
		w.to = (uint8_t)(k / QPS % QPS);
		rd_post(0, &w);
	}
	assert_int_equal(sim.node[0].d.works_used, 2);
	assert_true(sim.node[0].d.stats.no_work > 0);
	rd_run(RN_NS_PER_S / 10);
	rd_all_over();
	rd_run(3 * RN_NS_PER_S); /* by then the last pairs have given back what their peers have promised */
	assert_int_equal(sim.node[0].d.works_used, 0);
	rd_sim_down();
	rd_sim_works = 0;
}

/*
 * Each tenant may have one pair that sends. Tenant 1 has such a pair, which waits for a receive, and two queues that
 * wait for memory. Meanwhile only the queue of tenant 2 is looked at.
 */
static void queues_that_wait_for_memory_cost_other_tenants_nothing(void **state)
{
	struct rd_wr w = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };
	struct rd_node *n = &sim.node[0];
	uint32_t id[4];

	(void)state;
	rd_sim_up(1, PAIRS);
	rd_share(&n->d, PAIRS, 2);
	for (uint32_t q = QPS; q < RIG_QPS; q++)
		rd_sim_qp(n, q);
	for (uint32_t q = 0; q < RIG_QPS; q++)
		n->n->q[q].qp.tenant = q == 1 ? 2 : 1;
	const uint32_t waits = rd_post(0, &w);
	w.op = QP_WR_WRITE;
	for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++) {
		w.from = (uint8_t)(k < 2 ? 2 + k : 1);
		w.to = k & 1;
		id[k] = rd_post(0, &w);
	}
	for (uint32_t q = QPS; q < RIG_QPS; q++)
		n->side[q].qp = NULL; /* a look at the queue fails */
	rd_run(RN_NS_PER_S);
	for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++)
		assert_int_equal(n->ops[id[k]].over, k >= 2);
	for (uint32_t q = QPS; q < RIG_QPS; q++)
		n->side[q].qp = &n->n->q[q].qp;
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, waits), QP_WC_SUCCESS);
	rd_all_over();
	rd_sim_down();
}

/* Four pairs take turns in a table with two places. */
static void resting_pairs_give_their_place(void **state)
{
	(void)state;
	rd_sim_up(1, 2);
	for (uint32_t k = 0; k < 40; k++) {
		const struct rd_wr w = {
			.op = QP_WR_WRITE, .from = k % 2, .to = k / 2 % 2, .len = 2000, .qkey = RD_QKEY
		};
		const uint32_t id = rd_post(0, &w);

		rd_run(RN_NS_PER_S);
		assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
	}
	assert_true(sim.node[0].d.stats.evicted > 10);
	rd_sim_down();
}

/* What rd_find() remembers is only where to look first: a place that has another pair by now, or none, does no harm. */
static void a_place_that_is_remembered_may_have_another_pair(void **state)
{
	struct rd_wr w = { .op = QP_WR_WRITE, .len = 2000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 0; k < OPS; k++) {
		w.from = (uint8_t)(k % QPS);
		w.to = (uint8_t)(k / QPS % QPS);
		rd_post(0, &w);
		for (uint32_t i = 0; i < 2 * RD_NEAR; i++)
			sim.node[i % 2].d.near[i / 2] = (uint16_t)rn_rng_below(&sim.rng, PAIRS + 1);
		rd_run(RN_NS_PER_MS / 10);
	}
	rd_run(RN_NS_PER_S);
	rd_all_over();
	rd_sim_down();
}

/*
 * A tenant that has its share of pairs gets another only in place of a resting one of its own; other tenants get
 * theirs.
 */
static void a_tenant_takes_no_more_than_its_share_of_pairs(void **state)
{
	struct rd_wr w = { .op = QP_WR_WRITE, .len = 2000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	rd_share(&sim.node[0].d, 1, PAIRS);
	sim.node[0].n->q[0].qp.tenant = 1;
	sim.node[0].n->q[1].qp.tenant = 2;
	sim.blackout = sim.now + RN_NS_PER_S / 2;
	const uint32_t a = rd_post(0, &w);
	w.to = 1;
	const uint32_t b = rd_post(0, &w);
	w.from = 1;
	const uint32_t c = rd_post(0, &w);
	rd_run(2 * PATIENCE);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	assert_int_equal(rd_status(0, b), QP_WC_RETRY_EXC_ERR); /* the pair of a is not resting yet */
	assert_int_equal(rd_status(0, c), QP_WC_SUCCESS);
	w.from = 0;
	const uint32_t e = rd_post(0, &w);
	rd_run(2 * RN_NS_PER_S);
	assert_int_equal(rd_status(0, e), QP_WC_SUCCESS);
	assert_true(sim.node[0].d.stats.evicted > 0);
	rd_sim_down();
}

/* A tenant with many pairs that have something to send delays one with few such pairs by one pair at most. */
static void tenants_take_turns_to_send(void **state)
{
	static const struct rd_wr w[] = { { .op = QP_WR_WRITE, .len = 100, .qkey = RD_QKEY },
					  { .op = QP_WR_WRITE, .to = 1, .len = 100, .qkey = RD_QKEY },
					  { .op = QP_WR_WRITE, .from = 1, .len = 100, .qkey = RD_QKEY } };
	static const uint8_t order[] = { 1, 2, 1 };
	struct rd_pair *p[RN_ARRAY_LEN(order)];

	(void)state;
	rd_sim_up(1, PAIRS);
	struct rd_ctx *d = &sim.node[0].d;
	for (uint32_t q = 0; q < QPS; q++)
		sim.node[0].n->q[q].qp.tenant = (uint8_t)(q + 1);
	for (uint32_t k = 0; k < RN_ARRAY_LEN(w); k++)
		rd_post(0, &w[k]);
	for (uint32_t k = 0; k < RN_ARRAY_LEN(order); k++) {
		p[k] = rd_pop(d);
		assert_non_null(p[k]);
		assert_int_equal(p[k]->tenant, order[k]);
	}
	assert_null(rd_pop(d));
	for (uint32_t k = 0; k < RN_ARRAY_LEN(order); k++)
		rd_put(d, p[k]);
	rd_run(RN_NS_PER_S / 10);
	rd_all_over();
	rd_sim_down();
}

/* What was taken from the queue before SQD, and had not begun, is sent when the queue pair is in RTS again. */
static void pairs_go_on_when_their_queue_pair_leaves_sqd(void **state)
{
	struct rd_wr w = { .op = QP_WR_WRITE, .len = 3000, .qkey = RD_QKEY };
	uint32_t id[4];

	(void)state;
	rd_sim_up(1, PAIRS);
	struct qp *qp = &sim.node[0].n->q[0].qp;
	for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++) {
		w.to = k % QPS;
		id[k] = rd_post(0, &w);
	}
	assert_int_equal(rd_modify(&sim.node[0].d, qp, QP_S_SQD), QP_OK);
	rd_run(RN_NS_PER_S / 10);
	for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++)
		assert_false(sim.node[0].ops[id[k]].over);
	assert_int_equal(rd_modify(&sim.node[0].d, qp, QP_S_RTS), QP_OK);
	rd_run(RN_NS_PER_S / 10);
	rd_all_over();
	rd_sim_down();
}

/* SQD waits for what has begun at all pairs: a Send without a receive, a Read, and a Write whose pair then fails. */
static void sqd_is_told_when_the_begun_work_of_all_pairs_is_over(void **state)
{
	static const struct rd_wr begun[] = {
		{ .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY },
		{ .op = QP_WR_READ, .to = 1, .len = 3000, .qkey = RD_QKEY },
		{ .op = QP_WR_WRITE, .to = 1, .len = 10, .qkey = RD_QKEY, .wrong = true }
	};
	uint32_t id[3];

	(void)state;
	for (uint32_t n = 0; n <= RN_ARRAY_LEN(begun); n++) {
		rd_sim_up(1, PAIRS);
		sim.faults = true; /* work requests may fail */
		struct rd_ctx *d = &sim.node[0].d;
		struct qp *qp = &sim.node[0].n->q[0].qp;
		for (uint32_t k = 0; k < n; k++)
			id[k] = rd_post(0, &begun[k]);
		rd_run(10 * RN_NS_PER_US); /* they are sent, and have not arrived */
		const uint32_t later = rd_post(0, &begun[0]);
		qp_set(qp, &(struct qp_tune){ .qkey = RD_QKEY, .access = QP_ACC_REMOTE, .tell_drained = true });
		assert_int_equal(rd_modify(d, qp, QP_S_SQD), QP_OK);
		rd_run(RN_NS_PER_S / 10);
		assert_int_equal(sim.node[0].drained, n == 0);
		if (n > 0) { /* the Send alone has not completed */
			assert_false(sim.node[0].ops[id[0]].over);
			rd_post_recv(1, 0);
			rd_run(RN_NS_PER_S / 10);
			assert_int_equal(rd_status(0, id[0]), QP_WC_SUCCESS);
			assert_int_equal(sim.node[0].drained, 1);
		}
		assert_false(sim.node[0].ops[later].over);
		rd_sim_down();
	}
}

static void untouched(const void *from, const void *to)
{
	for (const uint8_t *b = from; b < (const uint8_t *)to; b++)
		assert_int_equal(*b, 0);
}

/* A device's tables are long, but only the pages of used entries take memory. */
static void tables_cost_memory_as_far_as_they_are_used(void **state)
{
	const struct rd_wr w = { .op = QP_WR_WRITE, .from = 0, .to = 1, .len = 100, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	const uint32_t a = rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	for (uint32_t i = 0; i < 2; i++) {
		struct rd_node *n = &sim.node[i];

		untouched(&n->pair[1], n->pair + PAIRS);
		untouched(n->hold, n->hold + RN_ARRAY_LEN(n->hold));
		untouched(n->chain, n->chain + RN_ARRAY_LEN(n->chain));
	}
	rd_sim_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pair_rests_when_nothing_is_under_way),
		cmocka_unit_test(a_doorbell_leaves_it_to_the_turn_to_look_at_pairs_that_wait),
		cmocka_unit_test(a_wait_that_ends_costs_the_same_however_many_pairs_wait),
		cmocka_unit_test(pairs_take_turns_to_send_when_working_memory_is_short),
		cmocka_unit_test(queues_that_wait_for_memory_cost_other_tenants_nothing),
		cmocka_unit_test(resting_pairs_give_their_place),
		cmocka_unit_test(a_place_that_is_remembered_may_have_another_pair),
		cmocka_unit_test(a_tenant_takes_no_more_than_its_share_of_pairs),
		cmocka_unit_test(tenants_take_turns_to_send),
		cmocka_unit_test(pairs_go_on_when_their_queue_pair_leaves_sqd),
		cmocka_unit_test(sqd_is_told_when_the_begun_work_of_all_pairs_is_over),
		cmocka_unit_test(tables_cost_memory_as_far_as_they_are_used),
	};

	return cmocka_run_group_tests_name("qp_rd_tables", tests, NULL, NULL);
}
