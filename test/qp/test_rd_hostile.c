/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: peers that do not know the Q_Key, and peers that break the rules of a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rd_sim.h"

#define QPN 10u /* of node 0's first queue pair, and of node 1's */
#define RUN 700u

static const uint8_t addr_1[RD_ADDR_LEN] = { [15] = 2 }; /* address of node 1 */

/* DDP segments: the first octets decide. */
static const uint8_t send_seg[DDP_UNTAGGED_HDR_LEN + 4] = { 0x41, 0x43, [13] = 1 };
static const uint8_t resp_seg[DDP_TAGGED_HDR_LEN + 4] = { 0xc1, 0x42 };
static const uint8_t atomic_resp_seg[DDP_UNTAGGED_HDR_LEN + 12] = { 0x41, 0x4b, [9] = 3, [13] = 1 };

static uint8_t answer[RD_ANSWER_MAX];

/* A segment with this number and flags, and the right Q_Key, from QP src of node 1. */
static struct rd_hdr segment(uint32_t src, uint32_t number, uint8_t flags)
{
	return (struct rd_hdr){ .kind = RD_SEGMENT,
				.dst_qpn = QPN,
				.src_qpn = src,
				.run = RUN,
				.qkey = RD_QKEY,
				.number = number,
				.flags = flags };
}

/* Node 0 receives the packet. Returns the length of the answer. */
static uint32_t give(const struct rd_hdr *h, const uint8_t *seg, uint32_t len)
{
	struct rd_node *n = &sim.node[0];
	const struct rd_rx rx = { .p = seg, .len = len, .h = h, .addr = addr_1 };

	return rd_in(&n->d, &n->n->q[0].qp, &rx, answer);
}

/* Node 0 sends what it has to send. Returns the length of the last packet, which lies in `answer` if that is short. */
static uint32_t sends(void)
{
	static uint8_t out[RD_PACKET_MAX];
	struct rd_node *n = &sim.node[0];
	struct rd_pair *p;
	uint32_t len, last = 0;

	while ((p = rd_pop(&n->d)) != NULL)
		while ((len = rd_out(&n->d, p, out)) > 0)
			memcpy(answer, out, rn_min_u32(last = len, sizeof(answer)));
	return last;
}

/* The packet of this length in `answer` is a REFUSED with a Terminate of these first octets. */
static void refused_with(uint32_t len, uint8_t layer, uint8_t code)
{
	struct rd_hdr h;

	assert_true(rd_parse(answer, len, &h));
	assert_int_equal(h.kind, RD_REFUSED);
	assert_true(len > h.body + 2);
	assert_int_equal(answer[h.body], layer);
	assert_int_equal(answer[h.body + 1], code);
}

/* Node 0 and node 1 have a pair, at rest. */
static struct rd_pair *up_with_pair(void)
{
	const struct rd_wr w = { .op = QP_WR_WRITE, .len = 100, .qkey = RD_QKEY };

	rd_sim_up(1, PAIRS);
	sim.faults = true;
	const uint32_t id = rd_post(0, &w);
	rd_run(RN_NS_PER_S / 10);
	assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
	assert_int_equal(rd_pairs(&sim.node[0].d), 1);
	assert_int_equal(sim.node[0].d.works_used, 0);
	return &sim.node[0].pair[0];
}

/* More strangers than there are places, with segments of which some look like answers. */
static void a_stranger_without_the_qkey_gets_no_place_and_no_memory(void **state)
{
	const struct rd_ctx *d = &sim.node[0].d;

	(void)state;
	const struct rd_pair *p = up_with_pair();
	for (uint32_t k = 0; k < 6 * PAIRS; k++) {
		struct rd_hdr h = segment(1000 + k, k % 2, 0);
		h.qkey++;
		refused_with(k % 3 == 0   ? give(&h, send_seg, sizeof(send_seg))
			     : k % 3 == 1 ? give(&h, resp_seg, sizeof(resp_seg))
					  : give(&h, atomic_resp_seg, sizeof(atomic_resp_seg)),
			     0x01, 0x02);
		assert_int_equal(rd_pairs(d), 1);
		assert_int_equal(d->works_used, 0);
		h.qkey = RD_QKEY; /* the run is over */
		refused_with(give(&h, send_seg, sizeof(send_seg)), 0x01, 0x02);
	}
	assert_int_equal(d->stats.evicted, 0);
	assert_int_equal(p->state, RD_UP);
	rd_sim_down();
}

static void an_answer_to_nothing_needs_the_qkey(void **state)
{
	const struct rd_ctx *d = &sim.node[0].d;

	(void)state;
	for (uint32_t k = 0; k < 2; k++) {
		const struct rd_pair *p = up_with_pair();
		struct rd_hdr h = segment(QPN, p->next + 1, 0);

		h.qkey = 1;
		h.run = p->peer_run;
		h.peer_run = p->run;
		assert_int_equal(k ? give(&h, resp_seg, sizeof(resp_seg))
				   : give(&h, atomic_resp_seg, sizeof(atomic_resp_seg)),
				 0);
		assert_int_equal(rd_pairs(d), 0);
		refused_with(sends(), 0x01, 0x02);
		assert_int_equal(d->works_used, 0);
		rd_sim_down();
	}
}

/* Node 0 alone, for this time: its packets are lost. */
static void alone(uint64_t ns)
{
	struct rd_node *n = &sim.node[0];

	for (const uint64_t end = n->n->ctx.rc.qp.now + ns; n->n->ctx.rc.qp.now < end;) {
		n->n->ctx.rc.qp.now += RN_NS_PER_S / 4;
		if (rd_timer(&n->d) <= n->n->ctx.rc.qp.now)
			rd_tick(&n->d);
		while (rd_look(&n->d))
			;
		(void)sends();
	}
}

/* A peer keeps a hole open: in an ordered run, in an unordered one, and a chain that never began. */
static void a_run_whose_missing_segment_never_comes_ends(void **state)
{
	static const struct {
		uint32_t number;
		uint8_t flags;
	} t[] = { { 1, 0 }, { 1, RD_F_LOOSE | RD_F_FIRST | RD_F_LAST }, { 1, RD_F_LOOSE }, { 0, RD_F_LOOSE } };

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(t); i++) {
		rd_sim_up(1, PAIRS);
		rd_post_recv(0, 0);
		for (uint32_t k = 0; k < PAIRS; k++) {
			const struct rd_hdr h = segment(1000 + k, t[i].number, t[i].flags);
			assert_int_equal(give(&h, send_seg, sizeof(send_seg)), 0);
			rd_post_recv(0, 0);
		}
		alone(RD_SURE_NS);
		assert_int_equal(sim.node[0].d.works_used, PAIRS);
		alone(2 * RD_SURE_NS);
		assert_int_equal(sim.node[0].d.works_used, 0);
		assert_int_equal(rd_pairs(&sim.node[0].d), 0);
		sim.faults = true;
		rd_sim_down();
	}
}

static void a_run_that_waits_for_a_receive_goes_on(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 0; k < 3; k++) {
		const struct rd_hdr h = segment(1000, k, 0);
		assert_int_equal(give(&h, send_seg, sizeof(send_seg)), 0);
	}
	alone(60 * RN_NS_PER_S);
	assert_int_equal(sim.node[0].pair[0].k->holds, 3);
	rd_sim_down();
}

/* The last of them has the number of the first missing segment. */
static void a_pair_keeps_no_more_than_its_own_segments(void **state)
{
	const struct rd_ctx *d = &sim.node[0].d;

	(void)state;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 1; k <= RD_WIN + 1; k++) {
		const struct rd_hdr h = segment(1000, k % (RD_WIN + 1), RD_F_LOOSE);
		assert_int_equal(give(&h, send_seg, sizeof(send_seg)), 0);
	}
	assert_int_equal(rd_pairs(d), 0);
	assert_int_equal(rn_pool_left(&d->holds), PAIRS * RD_WIN + PROMISES);
	refused_with(sends(), 0x02, 0x07);
	rd_sim_down();
}

/* The peer begins anew, so a Write under way fails, and the strict queue pair with it: nothing is taken any more. */
static void a_segment_that_ends_its_queue_pair_is_not_carried_out(void **state)
{
	const struct rd_wr w = { .op = QP_WR_WRITE, .from = 0, .to = 0, .len = 100, .qkey = RD_QKEY };
	const struct rd_node *n = &sim.node[0];
	struct rd_hdr h;

	(void)state;
	rd_sim_strict = true;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	rd_post_recv(0, 0);
	rd_post_recv(0, 0);
	h = segment(QPN, 0, 0);
	assert_int_equal(give(&h, send_seg, sizeof(send_seg)), 0);
	rd_post(0, &w);
	h.run++;
	assert_true(give(&h, send_seg, sizeof(send_seg)) > 0);
	assert_int_equal(qp_get_state(&n->n->q[0].qp), QP_S_ERR);
	assert_int_equal(rd_pairs(&n->d), 0);
	assert_int_equal(n->d.stats.segs_in, 1);
	rd_sim_down();
	rd_sim_strict = false;
}

/* A REFUSED that names no run ends no pair, also none whose peer has sent nothing yet. */
static void a_refusal_of_no_run_ends_nothing(void **state)
{
	const struct rd_wr w = { .op = QP_WR_WRITE, .len = 100, .qkey = RD_QKEY };
	const struct rd_hdr h = { .kind = RD_REFUSED, .dst_qpn = QPN, .src_qpn = QPN };

	(void)state;
	rd_sim_up(1, PAIRS);
	const uint32_t id = rd_post(0, &w);
	assert_int_equal(give(&h, send_seg, 0), 0);
	rd_run(RN_NS_PER_S);
	assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
	rd_sim_down();
}

/* The source of a Read goes while the Read is being answered: this Read has the error, and not the oldest request. */
static void a_read_whose_source_goes_is_the_one_that_fails(void **state)
{
	const struct rd_wr send = { .op = QP_WR_SEND, .len = 100, .qkey = RD_QKEY };
	const struct rd_wr read = { .op = QP_WR_READ, .len = OP_MAX, .qkey = RD_QKEY };
	uint32_t id[5];

	(void)state;
	for (rd_sim_loose = 0; rd_sim_loose < 2; rd_sim_loose++) {
		uint32_t n[QP_WC_GENERAL_ERR + 1] = { 0 };

		rd_sim_up(1, PAIRS);
		sim.faults = true; /* work requests may fail */
		if (rd_sim_loose == 0)
			rd_post_recv(1, 0);
		const uint32_t first = rd_post(0, &send); /* unordered: it waits for a receive, and is the oldest */
		for (uint32_t i = 0; i < RN_ARRAY_LEN(id); i++)
			id[i] = rd_post(0, &read);
		for (uint32_t i = 0; i < 1000 && sim.node[1].d.stats.segs_out < 10; i++)
			rd_run(RN_NS_PER_US);
		assert_int_equal(qp_mr_dereg(&sim.node[1].n->dev, sim.node[1].n->rkey), QP_MR_OK);
		rd_run(RN_NS_PER_S);
		rd_all_over();
		for (uint32_t i = 0; i < RN_ARRAY_LEN(id); i++)
			n[rd_status(0, id[i])]++;
		assert_int_equal(n[QP_WC_REM_ACCESS_ERR], 1);
		assert_int_equal(n[QP_WC_SUCCESS] + n[QP_WC_WR_FLUSH_ERR], RN_ARRAY_LEN(id) - 1);
		assert_int_equal(rd_status(0, first), rd_sim_loose ? QP_WC_WR_FLUSH_ERR : QP_WC_SUCCESS);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stranger_without_the_qkey_gets_no_place_and_no_memory),
		cmocka_unit_test(an_answer_to_nothing_needs_the_qkey),
		cmocka_unit_test(a_run_whose_missing_segment_never_comes_ends),
		cmocka_unit_test(a_run_that_waits_for_a_receive_goes_on),
		cmocka_unit_test(a_pair_keeps_no_more_than_its_own_segments),
		cmocka_unit_test(a_segment_that_ends_its_queue_pair_is_not_carried_out),
		cmocka_unit_test(a_refusal_of_no_run_ends_nothing),
		cmocka_unit_test(a_read_whose_source_goes_is_the_one_that_fails),
	};

	return cmocka_run_group_tests_name("qp_rd_hostile", tests, NULL, NULL);
}
