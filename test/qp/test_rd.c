/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulations of reliable datagrams: rd_sim.h. usage: test_qp_rd [SEED]: runs that seed only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rd_sim.h"

#define SEEDS 250u

static uint64_t only;

static struct rd_wr any(void)
{
	static const uint8_t op[] = { QP_WR_SEND, QP_WR_SEND, QP_WR_WRITE, QP_WR_READ, QP_WR_FETCH_ADD };
	struct rd_wr w = { .op = op[rn_rng_below(&sim.rng, RN_ARRAY_LEN(op))],
			   .from = (uint8_t)rn_rng_below(&sim.rng, QPS),
			   .to = (uint8_t)rn_rng_below(&sim.rng, QPS),
			   .len = 2 + rn_rng_below(&sim.rng, rn_rng_below(&sim.rng, 2) ? 100 : OP_MAX - 2),
			   .qkey = RD_QKEY };

	w.wrong = sim.faults && w.op != QP_WR_SEND && rn_rng_below(&sim.rng, 10) == 0;
	if (sim.faults && rn_rng_below(&sim.rng, 20) == 0)
		w.qkey++;
	return w;
}

/* Posts work for both nodes; receives are posted sooner or later. */
static void work(void)
{
	uint32_t recvs = 0;

	while (sim.node[0].given < OPS || sim.node[1].given < OPS || recvs < OPS) {
		for (uint32_t i = 0; i < 2; i++) {
			const struct rd_wr w = any();

			if (sim.node[i].given < OPS && rn_rng_below(&sim.rng, 2))
				rd_post(i, &w);
		}
		if (recvs < OPS && rn_rng_below(&sim.rng, 2)) {
			for (uint32_t k = 0; k < 2 * QPS; k++)
				rd_post_recv(k / QPS, k % QPS);
			recvs++;
		}
		if (sim.faults && rn_rng_below(&sim.rng, 40) == 0)
			sim.blackout = sim.now + 3 * RN_NS_PER_S;
		rd_run(rn_rng_below(&sim.rng, 300) * RN_NS_PER_US);
	}
	rd_run(60 * RN_NS_PER_S);
	rd_all_over();
}

static uint64_t words_of(uint32_t i, bool only_good)
{
	uint64_t n = 0;

	for (uint32_t id = 0; id < sim.node[!i].given; id++)
		n += sim.node[!i].ops[id].op == QP_WR_FETCH_ADD &&
		     (!only_good || sim.node[!i].ops[id].status == QP_WC_SUCCESS);
	return n;
}

static uint64_t held, lost, refused; /* sums over all runs */

static void a_seed(uint64_t seed, bool faults)
{
	rd_sim_ring = seed % 3 == 0 ? RING : RING_FEW;
	rd_sim_up(seed, PAIRS);
	sim.faults = faults;
	/* a message that is cut off uses up its receive, so other messages must be able to wait for one */
	for (uint32_t k = 0; faults && k < 2 * QPS; k++)
		qp_set(&sim.node[k / QPS].n->q[k % QPS].qp,
		       &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = RD_QKEY, .rnr_ns = 2 * RN_NS_PER_S });
	sim.loss = rn_rng_below(&sim.rng, 3) * 30000;
	sim.twice = rn_rng_below(&sim.rng, 2) * 20000;
	sim.late = rn_rng_below(&sim.rng, 3) * 50000;
	sim.old = rn_rng_below(&sim.rng, 4) == 0;
	work();
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t word;

		memcpy(&word, sim.node[i].n->mem + AT_WORD, sizeof(word));
		assert_true(word >= words_of(i, true) && word <= words_of(i, false));
		for (uint32_t k = 0; k < QPS; k++)
			assert_int_equal(qp_get_state(&sim.node[i].n->q[k].qp), QP_S_RTS);
	}
	held += sim.node[0].d.stats.held;
	refused += sim.node[0].d.stats.no_work;
	lost += sim.lost;
	rd_sim_down();
}

static void each_request_is_carried_out_once_and_in_order(void **state)
{
	(void)state;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++)
		a_seed(seed, false);
	assert_true(only || (held > 1000 && lost > 1000)); /* the network has lost and delayed packets */
}

/* One queue pair of both devices is unordered, or both are; ordered and unordered ones talk to each other. */
static void each_request_is_carried_out_once_in_any_order(void **state)
{
	uint64_t overtaken = 0;

	(void)state;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++) {
		rd_sim_loose = 1 + seed % 3;
		a_seed(seed, false);
		overtaken += sim.node[0].overtaken + sim.node[1].overtaken;
		rd_sim_loose = 1 + seed % 3;
		a_seed(seed, true);
	}
	rd_sim_loose = 0;
	assert_true(only || overtaken > 500); /* the network has let messages overtake others */
}

/* Receives belong to the shared queue: in any order, with failures, and with messages that wait for receives. */
static void each_request_is_carried_out_once_over_a_shared_receive_queue(void **state)
{
	(void)state;
	rd_sim_shared = true;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS / 5); seed++) {
		rd_sim_loose = seed % 4;
		a_seed(seed, false);
		rd_sim_loose = seed % 4;
		a_seed(seed, true);
	}
	rd_sim_loose = 0;
	rd_sim_shared = false;
}

/* Flows are folded between any two packets, with failures and without. */
static void each_request_is_carried_out_once_over_flows_that_are_folded(void **state)
{
	uint64_t folds = 0;

	(void)state;
	rd_sim_folds = true;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : 1000); seed++) {
		rd_sim_loose = seed % 4;
		a_seed(seed, seed % 2 == 0);
		folds += sim.folds;
	}
	rd_sim_loose = 0;
	rd_sim_folds = false;
	assert_true(only || folds > 1000);
}

/* What finds no working memory at the receiver fails, at most once; nothing hangs, and all memory comes back. */
static void what_finds_no_working_memory_at_the_receiver_fails(void **state)
{
	(void)state;
	refused = 0;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS / 5); seed++) {
		rd_sim_works = 2 + seed % 2;
		rd_sim_loose = seed % 4;
		a_seed(seed, true);
	}
	rd_sim_works = rd_sim_loose = 0;
	assert_true(only || refused > 100);
}

/* The first of two waits that end together fails a strict queue pair, and so the other one's pair. */
static void a_wait_that_ends_may_end_the_others(void **state)
{
	struct rd_wr w = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };
	struct rd_node *n = &sim.node[1];

	(void)state;
	rd_sim_strict = true;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	qp_set(&n->n->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = RD_QKEY, .rnr_ns = RN_NS_PER_S });
	rd_post(0, &w);
	rd_post(1, &w);
	w.from = 1;
	rd_post(0, &w);
	rd_run(RN_NS_PER_S / 2);
	assert_int_equal(n->d.n_waits, 2);
	sim.now = n->n->ctx.rc.qp.now += RN_NS_PER_S;
	assert_true(rd_look(&n->d));
	assert_int_equal(qp_get_state(&n->n->q[0].qp), QP_S_ERR);
	assert_int_equal(n->d.n_waits, 0);
	rd_run(RN_NS_PER_S);
	rd_sim_down();
	rd_sim_strict = false;
}

/*
 * Node 1 has taken node 0's segment, then has lost its flow, and with it the pair. Its new run must not seem to be
 * about node 0's, which waits for a segment that node 1 no longer knows.
 */
static void a_run_that_the_peer_has_forgotten_fails_when_the_peer_begins_anew(void **state)
{
	static const uint8_t addr[RD_ADDR_LEN] = { [15] = 1 }; /* address of node 0 */
	const struct rd_wr w = { .op = QP_WR_WRITE, .len = 500, .qkey = RD_QKEY };

	(void)state;
	for (uint32_t more = 0; more < 2; more++) {
		rd_sim_up(1, PAIRS);
		sim.faults = true;
		const uint32_t a = rd_post(0, &w);
		while (sim.node[1].d.stats.segs_in == 0)
			rd_run(RN_NS_PER_US);
		memset(&sim.node[1].tx, 0, sizeof(sim.node[1].tx)); /* with the TAKEN that lies in it */
		rd_lost(&sim.node[1].d, addr);
		rd_post(1, &w);
		rd_run(RN_NS_PER_S / 10);
		if (more)
			rd_post(0, &w);
		rd_run(20 * RN_NS_PER_S);
		assert_int_equal(rd_status(0, a), QP_WC_RETRY_EXC_ERR);
		rd_all_over();
		rd_sim_down();
	}
}

/* Both queue pairs wait for a receive of their shared queue; the one that ends takes no receive from the other. */
static void of_pairs_that_wait_for_a_shared_receive_each_gets_one(void **state)
{
	const struct rd_wr first = { .op = QP_WR_SEND, .to = 0, .len = 3000, .qkey = RD_QKEY };
	const struct rd_wr second = { .op = QP_WR_SEND, .from = 1, .to = 1, .len = 3000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_shared = true;
	rd_sim_up(1, PAIRS);
	const uint32_t a = rd_post(0, &first), b = rd_post(0, &second);
	rd_run(RN_NS_PER_S);
	assert_int_equal(sim.node[1].srq->waiting[0], 2);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(sim.node[0].ops[a].over + sim.node[0].ops[b].over, 1);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	rd_all_over();
	assert_int_equal(spsc_prod_asked(&sim.node[1].srq_ring), 0);
	const uint32_t c = rd_post(0, &first), e = rd_post(0, &second);
	rd_run(RN_NS_PER_S);
	sim.faults = true;
	assert_int_equal(rd_modify(&sim.node[1].d, &sim.node[1].n->q[0].qp, QP_S_RESET), QP_OK);
	rd_run(RN_NS_PER_S);
	assert_int_not_equal(rd_status(0, c), QP_WC_SUCCESS);
	rd_post_recv(1, 1);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, e), QP_WC_SUCCESS);
	rd_sim_down();
	rd_sim_shared = false;
}

/* One packet never arrives; the others do. Only the message of that packet waits, which has several packets. */
static void a_lost_packet_delays_its_own_message_alone(void **state)
{
	struct rd_wr w = { .op = QP_WR_SEND, .len = 5000, .qkey = RD_QKEY };
	uint32_t id[12];

	(void)state;
	for (rd_sim_loose = 0; rd_sim_loose < 2; rd_sim_loose++) {
		rd_sim_up(1, PAIRS);
		for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++)
			rd_post_recv(1, 0);
		sim.hole = true;
		sim.hole_at = 1;
		for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++) {
			static const uint8_t op[] = { QP_WR_SEND, QP_WR_WRITE, QP_WR_READ, QP_WR_FETCH_ADD };
			w.op = op[k % 4];
			w.len = k == 0 ? 5000 : 500;
			id[k] = rd_post(0, &w);
		}
		rd_run(PATIENCE / 2);
		for (uint32_t k = 0; k < RN_ARRAY_LEN(id); k++)
			assert_int_equal(sim.node[0].ops[id[k]].over, rd_sim_loose && k > 0);
		sim.hole = false;
		rd_run(PATIENCE);
		rd_all_over();
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* A Send without a receive waits, and other messages for the same queue pair go on. */
static void in_any_order_a_send_waits_alone_for_its_receive(void **state)
{
	struct rd_wr w = { .op = QP_WR_SEND, .len = 3000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_loose = 1;
	rd_sim_up(1, PAIRS);
	const uint32_t a = rd_post(0, &w), b = rd_post(0, &w);
	w.op = QP_WR_WRITE;
	const uint32_t c = rd_post(0, &w);
	rd_run(10 * RN_NS_PER_S);
	assert_false(sim.node[0].ops[a].over || sim.node[0].ops[b].over);
	assert_int_equal(rd_status(0, c), QP_WC_SUCCESS);
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	assert_false(sim.node[0].ops[b].over);
	sim.faults = true;
	qp_set(&sim.node[1].n->q[0].qp, &(struct qp_tune){ .qkey = RD_QKEY, .rnr_ns = RN_NS_PER_S });
	rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, b), QP_WC_SUCCESS);
	w.op = QP_WR_SEND;
	const uint32_t e = rd_post(0, &w);
	rd_run(3 * RN_NS_PER_S);
	assert_int_equal(rd_status(0, e), QP_WC_RNR_RETRY_EXC_ERR);
	rd_sim_down();
	rd_sim_loose = 0;
}

/* Wrong STags, wrong Q_Keys, and a network that is silent longer than a flow's patience. */
static void a_failed_request_was_carried_out_at_most_once(void **state)
{
	(void)state;
	for (uint64_t seed = only ? only : 1; seed <= (only ? only : SEEDS); seed++)
		a_seed(seed, true);
}

/* A hostile peer: nearly valid headers, and any segments. No byte is written out of bounds, and nothing leaks. */
static void a_packet_of_any_content_harms_nobody(void **state)
{
	static const uint32_t runs[] = { 0, 1, 2, 3, 100, 101, 102, UINT32_MAX };
	static const uint8_t addr[RD_ADDR_LEN] = { [15] = 2 }; /* address of node 1 */
	uint8_t p[RD_HDR_LEN + RD_MORE_LEN + 64], out[RD_PACKET_MAX];
	struct rd_node *n = &sim.node[0];
	struct rd_pair *pair;
	struct rd_hdr h;

	(void)state;
	rd_sim_loose = 2;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	for (uint32_t k = 0; k < 400000; k++) {
		h = (struct rd_hdr){ .kind = (uint8_t)(1 + rn_rng_below(&sim.rng, 3)),
				     .flags = k % 2 ? (uint8_t)(rn_rng_below(&sim.rng, 8) | RD_F_LOOSE) : 0,
				     .more = rn_rng_below(&sim.rng, 4) ? 0 : rn_rng_u64(&sim.rng),
				     .dst_qpn = 10 + rn_rng_below(&sim.rng, 3),
				     .src_qpn = rn_rng_below(&sim.rng, 12),
				     .qkey = rn_rng_below(&sim.rng, 8) ? RD_QKEY : 0,
				     .run = runs[rn_rng_below(&sim.rng, RN_ARRAY_LEN(runs))],
				     .peer_run = rn_rng_below(&sim.rng, 2),
				     .number = rn_rng_below(&sim.rng, k % 2 ? 70 : 20),
				     .taken = rn_rng_below(&sim.rng, 4) };
		h.peer_run *= n->d.last_run[h.dst_qpn];
		const uint32_t at = rd_build(p, &h), len = at + rn_rng_below(&sim.rng, 65);

		for (uint32_t i = at; i < len; i++)
			p[i] = (uint8_t)rn_rng_u32(&sim.rng);
		p[at] = (uint8_t)(0x01 | rn_rng_below(&sim.rng, 4) << 6);
		p[at + 1] = (uint8_t)(0x40 | rn_rng_below(&sim.rng, 12));
		uint8_t *exact = malloc(len);
		memcpy(exact, p, len);
		const struct rd_rx rx = { .p = exact, .len = len, .h = &h, .addr = addr };
		struct qp *qp = h.dst_qpn < 10 + QPS ? &n->n->q[h.dst_qpn - 10].qp : NULL;
		if (rd_parse(exact, len, &h))
			(void)rd_in(&n->d, qp, &rx, out);
		free(exact);
		if (k % 1000 == 0 && n->given < OPS)
			rd_post(0, &(struct rd_wr){ .op = QP_WR_WRITE, .len = 100, .qkey = RD_QKEY });
		while ((pair = rd_pop(&n->d)) != NULL)
			while (rd_out(&n->d, pair, out) > 0)
				;
		rc_flush(&n->n->ctx.rc);
		qp_drained(&n->n->ctx.rc.qp);
	}
	for (uint32_t k = 0; k < QPS; k++)
		assert_int_equal(qp_get_state(&n->n->q[k].qp), QP_S_RTS);
	rd_sim_down();
	rd_sim_loose = 0;
}

static void a_refused_request_ends_its_pair_alone(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	const struct rd_wr good = { .op = QP_WR_WRITE, .to = 0, .len = 5000, .qkey = RD_QKEY };
	struct rd_wr bad = good, other = good, key = good;
	bad.wrong = true;
	other.to = 1;
	key.qkey = RD_QKEY + 1;
	const uint32_t a = rd_post(0, &good), b = rd_post(0, &bad), c = rd_post(0, &other);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	assert_int_equal(rd_status(0, b), QP_WC_REM_ACCESS_ERR);
	assert_int_equal(rd_status(0, c), QP_WC_SUCCESS);
	const uint32_t again = rd_post(0, &good), k = rd_post(0, &key);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, k), QP_WC_REM_ACCESS_ERR);
	assert_true(rd_status(0, again) == QP_WC_SUCCESS || rd_status(0, again) == QP_WC_WR_FLUSH_ERR);
	const uint32_t last = rd_post(0, &good);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, last), QP_WC_SUCCESS);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(qp_get_state(&sim.node[i].n->q[0].qp), QP_S_RTS);
	rd_sim_down();
}

static void a_receiver_that_is_not_ready_holds_up_no_other(void **state)
{
	const struct rd_wr to_none = { .op = QP_WR_SEND, .to = 0, .len = 3000, .qkey = RD_QKEY };
	const struct rd_wr to_ready = { .op = QP_WR_SEND, .to = 1, .len = 3000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	rd_post_recv(1, 1);
	const uint32_t a = rd_post(0, &to_none);
	for (uint32_t k = 0; k < 30; k++) /* more than the pair takes at once */
		rd_post(0, &to_none);
	const uint32_t b = rd_post(0, &to_ready);
	rd_run(10 * RN_NS_PER_S);
	assert_false(sim.node[0].ops[a].over);
	assert_int_equal(rd_status(0, b), QP_WC_SUCCESS);
	for (uint32_t k = 0; k < 31; k++)
		rd_post_recv(1, 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	rd_all_over();
	sim.faults = true;
	qp_set(&sim.node[1].n->q[0].qp, &(struct qp_tune){ .qkey = RD_QKEY, .rnr_ns = RN_NS_PER_S });
	const uint32_t c = rd_post(0, &to_none);
	rd_run(3 * RN_NS_PER_S);
	assert_int_equal(rd_status(0, c), QP_WC_RNR_RETRY_EXC_ERR);
	rd_post_recv(1, 0);
	const uint32_t e = rd_post(0, &to_none);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, e), QP_WC_SUCCESS);
	rd_sim_down();
}

/* The sender's number of retries and the receiver's timer decide how long a message waits. */
static void a_message_waits_for_a_receive_as_often_as_its_sender_says(void **state)
{
	const struct rd_wr w = { .op = QP_WR_SEND, .to = 0, .len = 3000, .qkey = RD_QKEY };
	struct qp_tune t = { .qkey = RD_QKEY, .rnr_ns = RN_NEVER, .rnr_unit_ns = RN_NS_PER_S };

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	qp_set(&sim.node[1].n->q[0].qp, &t);
	for (uint32_t times = 0; times < 7; times++) {
		t.rnr_told = (uint8_t)(times + 1);
		qp_set(&sim.node[0].n->q[0].qp, &t);
		const uint32_t a = rd_post(0, &w);
		if (times > 0) {
			rd_run(times * RN_NS_PER_S - RN_NS_PER_S / 2);
			assert_false(sim.node[0].ops[a].over);
		}
		rd_run(RN_NS_PER_S);
		assert_int_equal(rd_status(0, a), QP_WC_RNR_RETRY_EXC_ERR);
	}
	t.rnr_told = 0;
	qp_set(&sim.node[0].n->q[0].qp, &t);
	const uint32_t b = rd_post(0, &w);
	rd_run(20 * RN_NS_PER_S);
	assert_false(sim.node[0].ops[b].over);
	t.rnr_told = 1;
	qp_set(&sim.node[0].n->q[0].qp, &t);
	rd_post_recv(1, 0);
	rd_post_recv(1, 0);
	const uint32_t c = rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, b), QP_WC_SUCCESS);
	assert_int_equal(rd_status(0, c), QP_WC_SUCCESS);
	rd_sim_down();
}

/* The peer refuses the first failing work request, or it is broken; it is the last one of its pair. */
static void a_strict_queue_pair_ends_with_its_first_failure(void **state)
{
	const struct rd_wr good = { .op = QP_WR_WRITE, .to = 0, .len = 5000, .qkey = RD_QKEY };
	struct rd_wr bad = good, other = good;

	(void)state;
	other.to = 1;
	rd_sim_strict = true;
	for (uint32_t i = 0; i < 2; i++) {
		bad.wrong = i == 0;
		bad.broken = i == 1;
		rd_sim_up(1, PAIRS);
		sim.faults = true;
		const uint32_t a = rd_post(0, &good);
		rd_run(RN_NS_PER_S);
		assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
		const uint32_t b = rd_post(0, &bad);
		rd_run(RN_NS_PER_S);
		assert_int_equal(rd_status(0, b), i == 0 ? QP_WC_REM_ACCESS_ERR : QP_WC_LOC_PROT_ERR);
		assert_int_equal(qp_get_state(&sim.node[0].n->q[0].qp), QP_S_ERR);
		const uint32_t c = rd_post(0, &other);
		rd_run(RN_NS_PER_S);
		assert_int_equal(rd_status(0, c), QP_WC_WR_FLUSH_ERR);
		/* no work request of node 1 has failed */
		assert_int_equal(qp_get_state(&sim.node[1].n->q[0].qp), QP_S_RTS);
		rd_sim_down();
	}
	rd_sim_strict = false;
}

static void a_silent_peer_fails_requests_and_serves_later_ones(void **state)
{
	const struct rd_wr w = { .op = QP_WR_WRITE, .to = 0, .len = 5000, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	const uint32_t a = rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	sim.blackout = RN_NEVER;
	const uint32_t b = rd_post(0, &w), c = rd_post(0, &w);
	rd_run(2 * PATIENCE);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	assert_int_equal(rd_status(0, b), QP_WC_RETRY_EXC_ERR);
	assert_int_equal(rd_status(0, c), QP_WC_WR_FLUSH_ERR);
	sim.blackout = 0;
	const uint32_t e = rd_post(0, &w);
	rd_run(2 * RN_NS_PER_S);
	assert_int_equal(rd_status(0, e), QP_WC_SUCCESS);
	rd_sim_down();
}

/* RESET ends one end's pairs; work requests of the other end that are under way fail. */
static void a_peer_that_is_reset_fails_what_is_under_way(void **state)
{
	const struct rd_wr w = { .op = QP_WR_SEND, .to = 0, .len = 100, .qkey = RD_QKEY };

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	const uint32_t a = rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	assert_false(sim.node[0].ops[a].over); /* no receive is posted */
	assert_int_equal(rd_modify(&sim.node[1].d, &sim.node[1].n->q[0].qp, QP_S_RESET), QP_OK);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_RETRY_EXC_ERR);
	const uint32_t b = rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, b), QP_WC_RETRY_EXC_ERR);
	assert_int_equal(qp_get_state(&sim.node[0].n->q[0].qp), QP_S_RTS);
	rd_sim_down();
}

/* ERR completes all posted work requests; invalid rings end only their own QP. */
static void an_impossible_work_request_ends_its_queue_pair_alone(void **state)
{
	const struct rd_wr w = { .op = QP_WR_WRITE, .from = 1, .to = 0, .len = 100, .qkey = RD_QKEY };
	struct rd_node *n;

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	n = &sim.node[0];
	const struct qp_wqe bad[2] = { { .wr_id = OPS - 1, .op = QP_WR_WRITE, .slots = 1, .num_sge = 1 },
				       { .wr_id = OPS - 2, .op = QP_WR_WRITE, .slots = 1, .num_sge = 1 } };
	n->given = OPS; /* the simulation must not post more */
	spsc_prod_copy(&n->n->q[0].sq, 0, bad, sizeof(bad));
	spsc_prod_publish(&n->n->q[0].sq, 2);
	rd_doorbell(&n->d, &n->n->q[0].qp);
	rd_run(RN_NS_PER_S);
	n->given = 0;
	for (uint32_t k = 0; k < OPS; k++)
		n->ops[k].over = false;
	assert_int_equal(qp_get_state(&n->n->q[0].qp), QP_S_ERR);
	const uint32_t a = rd_post(0, &w);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
	rd_sim_down();
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_is_carried_out_once_and_in_order),
		cmocka_unit_test(each_request_is_carried_out_once_in_any_order),
		cmocka_unit_test(each_request_is_carried_out_once_over_a_shared_receive_queue),
		cmocka_unit_test(each_request_is_carried_out_once_over_flows_that_are_folded),
		cmocka_unit_test(what_finds_no_working_memory_at_the_receiver_fails),
		cmocka_unit_test(a_wait_that_ends_may_end_the_others),
		cmocka_unit_test(a_run_that_the_peer_has_forgotten_fails_when_the_peer_begins_anew),
		cmocka_unit_test(of_pairs_that_wait_for_a_shared_receive_each_gets_one),
		cmocka_unit_test(a_lost_packet_delays_its_own_message_alone),
		cmocka_unit_test(in_any_order_a_send_waits_alone_for_its_receive),
		cmocka_unit_test(a_failed_request_was_carried_out_at_most_once),
		cmocka_unit_test(a_packet_of_any_content_harms_nobody),
		cmocka_unit_test(a_refused_request_ends_its_pair_alone),
		cmocka_unit_test(a_receiver_that_is_not_ready_holds_up_no_other),
		cmocka_unit_test(a_message_waits_for_a_receive_as_often_as_its_sender_says),
		cmocka_unit_test(a_strict_queue_pair_ends_with_its_first_failure),
		cmocka_unit_test(a_silent_peer_fails_requests_and_serves_later_ones),
		cmocka_unit_test(a_peer_that_is_reset_fails_what_is_under_way),
		cmocka_unit_test(an_impossible_work_request_ends_its_queue_pair_alone),
	};

	only = argc > 1 ? strtoull(argv[1], NULL, 0) : 0;
	return cmocka_run_group_tests_name("qp_rd", tests, NULL, NULL);
}
