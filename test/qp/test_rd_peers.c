/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams, in simulations (rd_sim.h): several peers of a queue pair, and the flows between two devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rn_seq.h"
#include "rd_sim.h"

/* Node 0 has two pairs, of the same queue pair. The next packet of node 0 never arrives, until sim.hole is false. */
static void up_with_hole(void)
{
	struct rd_wr w = { .op = QP_WR_WRITE, .len = 100, .qkey = RD_QKEY };

	rd_sim_up(1, PAIRS);
	for (w.to = 0; w.to < 2; w.to++)
		rd_post(0, &w);
	rd_run(PATIENCE / 10);
	rd_all_over();
	sim.hole = true;
	sim.hole_at = sim.node[0].tx.end;
}

/* The request of a Read or Atomic is lost, for a while or for good. What is fenced behind it begins when it is over. */
static void a_fenced_request_waits_for_reads_of_all_peers(void **state)
{
	static const uint8_t reads[] = { QP_WR_READ, QP_WR_FETCH_ADD };

	(void)state;
	for (uint32_t i = 0; i < 16; i++) {
		const struct rd_wr first = { .op = reads[i & 1], .len = 5000, .qkey = RD_QKEY };
		const struct rd_wr free = { .op = QP_WR_WRITE, .to = 1, .len = 5000, .qkey = RD_QKEY };
		struct rd_wr fenced = free;

		fenced.flags = QP_WF_FENCE;
		fenced.to = i < 8;
		rd_sim_loose = i >> 1 & 1;
		up_with_hole();
		const uint32_t a = rd_post(0, &first), b = rd_post(0, &free), c = rd_post(0, &fenced);
		rd_run(PATIENCE / 2);
		assert_false(sim.node[0].ops[a].over || sim.node[0].ops[c].over);
		assert_int_equal(rd_status(0, b), QP_WC_SUCCESS);
		sim.faults = i & 4;
		while (sim.faults && !sim.node[0].ops[a].over) /* until the flow is lost */
			rd_run(RN_NS_PER_MS);
		sim.hole = false;
		rd_run(2 * PATIENCE);
		rd_all_over();
		assert_int_equal(rd_status(0, a), i & 4 ? QP_WC_RETRY_EXC_ERR : QP_WC_SUCCESS);
		assert_int_equal(rd_status(0, c), QP_WC_SUCCESS);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* RESET abandons a Read: nothing is fenced behind it afterwards. */
static void a_fence_does_not_outlive_a_reset(void **state)
{
	const struct rd_wr read = { .op = QP_WR_READ, .len = 5000, .qkey = RD_QKEY };
	struct rd_wr fenced = { .op = QP_WR_WRITE, .to = 1, .len = 100, .qkey = RD_QKEY, .flags = QP_WF_FENCE };
	struct qp *qp;

	(void)state;
	up_with_hole();
	qp = &sim.node[0].n->q[0].qp;
	rd_post(0, &read);
	for (uint32_t s = QP_S_RESET; s <= QP_S_RTS; s++)
		assert_int_equal(rd_modify(&sim.node[0].d, qp, (enum qp_state)s), QP_OK);
	const uint32_t a = rd_post(0, &fenced);
	rd_run(PATIENCE / 10);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	rd_sim_down();
}

/*
 * Both nodes send more than their flows take, and refuse some of it. An answer that finds no room is lost, and asked
 * for again. It must not stop what the other flow carries.
 */
static void full_flows_do_not_stop_each_other(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		rd_sim_ring = RING_FEW;
		rd_sim_up(seed, PAIRS);
		sim.faults = true;
		for (uint32_t k = 0; k < 2 * 40; k++) {
			struct rd_wr w = { .op = QP_WR_WRITE, .from = k / 2 % 2, .len = 8000, .qkey = RD_QKEY };

			w.to = k / 2 % 5 == 4 ? 7 : k / 4 % 2; /* there is no queue pair 7 */
			rd_post(k % 2, &w);
			if (k % 2)
				rd_run(rn_rng_below(&sim.rng, 60) * RN_NS_PER_US);
		}
		rd_run(30 * RN_NS_PER_S);
		for (uint32_t k = 0; k < 2 * 40; k++)
			assert_int_equal(rd_status(k % 2, k / 2) == QP_WC_SUCCESS, k / 2 % 5 != 4);
		rd_sim_down();
	}
}

/*
 * The engine counts the work requests of a pair that never rests without end. The count passes 2^31 and 2^32, and each
 * work request completes all the same. A message that waits for a receive keeps the pair from resting.
 */
static void any_number_of_work_requests_completes(void **state)
{
	static const uint32_t begin[] = { UINT32_MAX / 2 - 9, UINT32_MAX - 9 };

	(void)state;
	for (uint32_t i = 0; i < 4; i++) {
		const struct rd_wr send = { .op = QP_WR_SEND, .len = 100, .qkey = RD_QKEY };
		struct rd_wr w = { .op = QP_WR_WRITE, .len = 100, .qkey = RD_QKEY };
		struct qp_work *k = NULL;

		rd_sim_loose = i >> 1;
		rd_sim_up(1, PAIRS);
		const uint32_t waits = rd_post(1, &send);
		rd_run(PATIENCE / 10);
		for (uint32_t p = 0; p < PAIRS; p++)
			if (sim.node[0].pair[p].state == RD_UP && !sim.node[0].pair[p].rests)
				k = sim.node[0].pair[p].k->m.work;
		assert_non_null(k);
		k->wr_head = k->wr_tail = begin[i & 1];
		for (uint32_t n = 0; n < 20; n++) {
			w.op = n & 1 ? QP_WR_READ : QP_WR_WRITE;
			rd_post(0, &w);
			rd_run(PATIENCE / 10);
		}
		assert_int_equal(k->wr_tail, begin[i & 1] + 20);
		rd_post_recv(0, 0);
		rd_run(PATIENCE);
		rd_all_over();
		assert_int_equal(rd_status(1, waits), QP_WC_SUCCESS);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* The pair of node 0's queue pair q, which has one. */
static const struct rd_pair *pair_of(uint32_t q)
{
	const struct rd_pair *p = sim.node[0].pair;

	while (p->qp != &sim.node[0].n->q[q].qp)
		p++;
	return p;
}

/* A queue pair begins a run each millisecond. Its numbers grow faster than the clock's, those of another one do not. */
static void a_queue_pair_that_begins_many_runs_puts_no_other_ahead_of_the_clock(void **state)
{
	const struct rd_wr refused = { .op = QP_WR_WRITE, .to = 7, .len = 100, .qkey = RD_QKEY };
	const struct rd_wr w = { .op = QP_WR_WRITE, .from = 1, .len = 100, .qkey = RD_QKEY };
	uint32_t run = 0;

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	for (uint32_t k = 0; k < 40; k++) {
		const uint32_t id = rd_post(0, &refused); /* there is no queue pair 7 */
		assert_true(k == 0 || rn_seq_gt(pair_of(0)->run, run));
		run = pair_of(0)->run;
		rd_run(RN_NS_PER_MS);
		assert_int_not_equal(rd_status(0, id), QP_WC_SUCCESS);
	}
	const uint32_t a = rd_post(0, &w), clock = sim.node[0].d.run + (uint32_t)(sim.now / RD_RUN_NS);
	assert_true(rn_seq_gt(run, clock));
	assert_true(rn_seq_le(pair_of(1)->run, clock));
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	rd_sim_down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fenced_request_waits_for_reads_of_all_peers),
		cmocka_unit_test(a_fence_does_not_outlive_a_reset),
		cmocka_unit_test(full_flows_do_not_stop_each_other),
		cmocka_unit_test(any_number_of_work_requests_completes),
		cmocka_unit_test(a_queue_pair_that_begins_many_runs_puts_no_other_ahead_of_the_clock),
	};

	return cmocka_run_group_tests_name("qp_rd_peers", tests, NULL, NULL);
}
