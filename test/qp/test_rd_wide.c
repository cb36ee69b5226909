/* SPDX-License-Identifier: BSD-3-Clause */
/* Ordered runs with more than RD_WIN segments on the way, in simulations (rd_sim.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rd_sim.h"

static const struct rd_wr big = { .op = QP_WR_WRITE, .len = OP_MAX, .qkey = RD_QKEY };

/* Runs until all work requests of node 0 are over; returns how many segments were on the way at most. */
static uint32_t most_on_the_way(uint64_t ns)
{
	const uint64_t end = sim.now + ns;
	uint32_t most = 0;

	while (sim.now < end) {
		rd_run(10 * RN_NS_PER_US);
		for (uint32_t i = 0; i < PAIRS; i++) {
			const struct rd_pair *p = &sim.node[0].pair[i];
			if (p->state == RD_UP && !p->rests)
				most = rn_max_u32(most, p->sent - p->k->acked);
		}
	}
	return most;
}

static void post_many(uint8_t op)
{
	struct rd_wr w = big;

	w.op = op;
	for (uint32_t k = 0; k < 40; k++) {
		rd_post(0, &w);
		if (op == QP_WR_SEND)
			rd_post_recv(1, 0);
	}
}

static void nothing_is_promised_at_rest(void)
{
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(sim.node[i].d.promised, 0);
		assert_int_equal(sim.node[i].d.wides_free, WIDES);
		assert_int_equal(sim.node[i].d.works_used, 0);
	}
}

static void a_run_with_much_to_send_has_more_segments_on_the_way(void **state)
{
	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		rd_sim_up(1, PAIRS);
		post_many(k == 0 ? QP_WR_WRITE : QP_WR_SEND);
		assert_in_range(most_on_the_way(RN_NS_PER_S / 10), 4 * RD_WIN, RD_WIN + PROMISES);
		rd_all_over();
		rd_run(3 * RN_NS_PER_S);
		nothing_is_promised_at_rest();
		rd_sim_down();
	}
}

/* Neither end, the old one nor the new one, has more on the way than the old one takes. */
static void with_an_end_that_knows_no_promises_nothing_changes(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	sim.old = true;
	post_many(QP_WR_WRITE);
	assert_int_equal(most_on_the_way(RN_NS_PER_S / 10), RD_WIN);
	rd_all_over();
	nothing_is_promised_at_rest();
	rd_sim_down();
}

/* One packet does not come for a while; the receiver keeps all that it has promised to, and takes it in order. */
static void what_is_promised_is_kept_behind_a_missing_segment(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	sim.hole = true;
	sim.hole_at = 60;
	post_many(QP_WR_WRITE);
	rd_run(PATIENCE / 4);
	assert_in_range(sim.node[1].d.stats.held, 3 * RD_WIN, RD_WIN + PROMISES);
	assert_int_equal(sim.node[1].d.stats.bad, 0);
	sim.hole = false;
	rd_run(PATIENCE);
	rd_all_over();
	rd_run(3 * RN_NS_PER_S);
	nothing_is_promised_at_rest();
	rd_sim_down();
}

/* A message that finds no receive holds up those behind it, which lie in what was promised; other pairs go on. */
static void what_is_promised_is_kept_behind_a_message_without_a_receive(void **state)
{
	struct rd_wr w = big;

	(void)state;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 0; k < 30; k++) {
		w.op = k == 10 ? QP_WR_SEND : QP_WR_WRITE;
		rd_post(0, &w);
	}
	rd_run(RN_NS_PER_S);
	assert_in_range(sim.node[1].d.stats.held, 2 * RD_WIN, RD_WIN + PROMISES);
	w.op = QP_WR_WRITE;
	w.to = 1;
	for (uint32_t k = 0; k < 10; k++)
		rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	for (uint32_t k = 30; k < 40; k++)
		assert_int_equal(rd_status(0, k), QP_WC_SUCCESS);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	rd_all_over();
	rd_run(3 * RN_NS_PER_S);
	nothing_is_promised_at_rest();
	rd_sim_down();
}

/* A promise that is older than the giving back of promises does not count, however late it comes. */
static void what_was_given_back_is_not_used(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	post_many(QP_WR_WRITE);
	rd_run(RN_NS_PER_S / 10);
	const struct rd_pair *p = &sim.node[0].pair[0];
	assert_true(!p->rests && p->k->gives && p->k->more > 0);
	const struct rd_hdr old = { .kind = RD_TAKEN,
				    .dst_qpn = p->qpn,
				    .src_qpn = p->peer_qpn,
				    .run = p->peer_run,
				    .peer_run = p->run,
				    .taken = p->sent,
				    .room = RD_ROOM_MAX };
	while (!p->rests)
		rd_run(RN_NS_PER_MS);
	uint8_t none[RD_ANSWER_MAX];
	static const uint8_t addr[RD_ADDR_LEN] = { [15] = 2 }; /* address of node 1 */
	const struct rd_rx rx = { .h = &old, .addr = addr };
	const uint32_t id = rd_post(0, &big);
	assert_int_equal(rd_in(&sim.node[0].d, &sim.node[0].n->q[0].qp, &rx, none), 0);
	assert_true(!p->rests && p->k->more == 0 && !p->k->gives);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
	rd_run(3 * RN_NS_PER_S);
	nothing_is_promised_at_rest();
	rd_sim_down();
}

/* A peer that gives back a promise, and then uses it nevertheless, gets nothing of other pairs' memory. */
static void a_peer_that_uses_what_it_gave_back_is_not_served(void **state)
{
	static const uint8_t addr[RD_ADDR_LEN] = { [15] = 2 }, seg[DDP_UNTAGGED_HDR_LEN]; /* address of node 1 */
	struct rd_node *n = &sim.node[0];
	uint8_t answer[RD_ANSWER_MAX];

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	struct rd_hdr h = { .kind = RD_SEGMENT, .dst_qpn = 10, .src_qpn = 10, .qkey = RD_QKEY, .run = 7 };
	const struct rd_rx rx = { .p = seg, .len = sizeof(seg), .h = &h, .addr = addr };
	for (uint32_t k = 0; k < 4000; k++) {
		h.kind = k % 5 == 4 ? RD_TAKEN : RD_SEGMENT;
		h.flags = k % 5 == 4 ? RD_F_BACK : RD_F_MUCH;
		h.qkey = k % 5 == 4 ? 0 : RD_QKEY;
		h.number = k % 5 == 4 ? 0 : 1 + k % 300; /* segment 0 does not come */
		(void)rd_in(&n->d, &n->n->q[0].qp, &rx, answer);
		assert_true(n->pair[0].k->holds <= RD_WIN + n->pair[0].k->promised);
		assert_true(n->d.promised <= PROMISES);
	}
	rd_sim_down();
}

/*
 * A queue waits for the memory of a pair that needs a promise no more. The pair gives the promise back soon, and other
 * pairs with something under way are not looked at for that.
 */
static void a_promise_is_given_back_when_a_queue_waits_for_memory(void **state)
{
	const struct rd_wr send = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };
	const struct rd_pair *p = sim.node[0].pair;
	struct rd_wr w = big;

	(void)state;
	rd_sim_works = 3; /* two of these for pairs that send */
	rd_sim_up(1, PAIRS);
	const uint32_t waits = rd_post(0, &send);
	w.to = 1;
	for (uint32_t k = 0; k < 20; k++)
		rd_post(0, &w);
	rd_run(RN_NS_PER_S / 10);
	assert_true(p[0].k->acked != p[0].sent && p[1].k->acked == p[1].sent && p[1].k->gives);
	const uint64_t looked = p[0].k->gap_at; /* each look at the pair writes this time */
	w.from = 1;
	const uint32_t id = rd_post(0, &w);
	assert_int_equal(sim.node[0].d.stats.no_work, 1);
	rd_run(10 * RN_NS_PER_MS);
	assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
	assert_int_equal(p[0].k->gap_at, looked);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, waits), QP_WC_SUCCESS);
	rd_run(3 * RN_NS_PER_S);
	nothing_is_promised_at_rest();
	rd_sim_down();
	rd_sim_works = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_with_much_to_send_has_more_segments_on_the_way),
		cmocka_unit_test(with_an_end_that_knows_no_promises_nothing_changes),
		cmocka_unit_test(what_is_promised_is_kept_behind_a_missing_segment),
		cmocka_unit_test(what_is_promised_is_kept_behind_a_message_without_a_receive),
		cmocka_unit_test(what_was_given_back_is_not_used),
		cmocka_unit_test(a_promise_is_given_back_when_a_queue_waits_for_memory),
		cmocka_unit_test(a_peer_that_uses_what_it_gave_back_is_not_served),
	};

	rd_sim_ring = RING;
	return cmocka_run_group_tests_name("qp_rd_wide", tests, NULL, NULL);
}
