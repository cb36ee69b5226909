/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets of reliable datagrams with several segments: in simulations (rd_sim.h), and packets of any content. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rd_sim.h"

#define SEEDS 250u

static const uint8_t addr_1[RD_ADDR_LEN] = { [15] = 2 }; /* address of node 1 */
static const struct rd_wr small_send = { .op = QP_WR_SEND, .len = 64, .qkey = RD_QKEY };
static const struct rd_wr small_write = { .op = QP_WR_WRITE, .len = 64, .qkey = RD_QKEY };

static const struct rd_stats *stats(uint32_t i) { return &sim.node[i].d.stats; }

/* Node 0 learns from an answer of node 1 that node 1 takes packets with several segments. */
static void get_to_know(void)
{
	const uint32_t id = rd_post(0, &small_write);

	rd_run(RN_NS_PER_S / 100);
	assert_int_equal(rd_status(0, id), QP_WC_SUCCESS);
}

static void post_recvs(uint32_t n)
{
	for (uint32_t k = 0; k < n; k++)
		rd_post_recv(1, 0);
}

static uint32_t over(uint32_t from, uint32_t n)
{
	uint32_t count = 0;

	for (uint32_t k = from; k < from + n; k++)
		count += sim.node[0].ops[k].over;
	return count;
}

/* ---- between two nodes ---- */

static void messages_that_are_there_share_packets(void **state)
{
	(void)state;
	for (rd_sim_loose = 0; rd_sim_loose < 2; rd_sim_loose++) {
		rd_sim_up(1, PAIRS);
		post_recvs(40);
		for (uint32_t k = 0; k < 10; k++)
			rd_post(0, &small_send);
		while (stats(0)->segs_out < 10)
			rd_run(RN_NS_PER_US);
		assert_int_equal(stats(0)->packs_out, 0); /* the peer has not told yet that it takes such packets */
		rd_run(RN_NS_PER_S / 100);
		rd_all_over();
		const uint64_t segs = stats(0)->segs_out;
		const uint32_t packets = sim.node[0].tx.end;
		for (uint32_t k = 0; k < 15; k++)
			rd_post(0, &small_send);
		rd_run(RN_NS_PER_S / 100);
		rd_all_over();
		assert_int_equal(stats(0)->segs_out, segs + 15);
		assert_int_equal(stats(0)->packs_out, 1);
		assert_int_equal(sim.node[0].tx.end, packets + 1);
		rd_post(0, &small_send); /* one message does not wait for others */
		rd_run(RN_NS_PER_S / 100);
		rd_all_over();
		assert_int_equal(stats(0)->packs_out, 1);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

static void an_end_that_does_not_take_such_packets_gets_none(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	sim.old = true;
	get_to_know();
	post_recvs(20);
	for (uint32_t k = 0; k < 20; k++)
		rd_post(0, &small_send);
	rd_run(RN_NS_PER_S / 100);
	rd_all_over();
	assert_int_equal(stats(0)->segs_out, 21);
	assert_int_equal(stats(0)->packs_out, 0);
	rd_sim_down();
}

/* A long message is cut as if it were alone; its last segment shares a packet with the messages behind it. */
static void no_message_is_cut_to_fill_a_packet(void **state)
{
	struct rd_wr w = small_send;

	(void)state;
	for (rd_sim_loose = 0; rd_sim_loose < 2; rd_sim_loose++) {
		rd_sim_up(1, PAIRS);
		get_to_know();
		post_recvs(20);
		rd_post(0, &small_send);
		w.len = RD_SEG_MAX;
		rd_post(0, &w);
		rd_post(0, &small_send);
		rd_post(0, &small_send);
		const uint64_t segs = stats(0)->segs_out;
		const uint32_t packets = sim.node[0].tx.end;
		rd_run(RN_NS_PER_S / 100);
		rd_all_over();
		assert_int_equal(stats(0)->segs_out, segs + 5);
		assert_int_equal(sim.node[0].tx.end, packets + 3); /* 64 B; the first segment; the rest, and two more */
		assert_int_equal(stats(0)->packs_out, 1);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* The fourth message of a packet finds no receive. It waits, and so do those behind it in an ordered run. */
static void a_message_in_the_middle_waits_for_its_receive(void **state)
{
	(void)state;
	for (rd_sim_loose = 0; rd_sim_loose < 2; rd_sim_loose++) {
		rd_sim_up(1, PAIRS);
		get_to_know();
		post_recvs(3);
		for (uint32_t k = 0; k < 6; k++)
			rd_post(0, &small_send);
		const uint32_t last = rd_post(0, &small_write);
		rd_run(RN_NS_PER_S);
		assert_int_equal(stats(0)->packs_out, 1);
		assert_int_equal(over(1, 3), 3);
		assert_int_equal(over(4, 3), 0);
		assert_int_equal(over(last, 1), rd_sim_loose);
		assert_int_equal(stats(1)->held, rd_sim_loose ? 3 : 4);
		post_recvs(1);
		rd_run(RN_NS_PER_S / 10);
		assert_int_equal(over(4, 3), 1);
		post_recvs(2);
		rd_run(RN_NS_PER_S / 10);
		rd_all_over();
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* The receiver refuses a segment in the middle of a packet: those before it were carried out, those behind were not. */
static void a_segment_in_the_middle_is_refused_alone(void **state)
{
	struct rd_wr bad = small_write, key = small_write;

	(void)state;
	bad.wrong = true;
	key.qkey++;
	for (uint32_t i = 0; i < 4; i++) {
		rd_sim_loose = i / 2;
		rd_sim_up(1, PAIRS);
		sim.faults = true;
		get_to_know();
		const uint32_t a = rd_post(0, &small_write), b = rd_post(0, i % 2 ? &bad : &key);
		const uint32_t c = rd_post(0, &small_write);
		rd_run(RN_NS_PER_S / 100);
		assert_int_equal(stats(0)->packs_out, 1);
		assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
		assert_int_equal(rd_status(0, b), QP_WC_REM_ACCESS_ERR);
		assert_int_equal(rd_status(0, c), QP_WC_WR_FLUSH_ERR);
		assert_int_equal(sim.node[1].n->mem[AT_DST + c * OP_MAX + 2], 0);
		const uint32_t e = rd_post(0, &small_write);
		rd_run(RN_NS_PER_S / 100);
		assert_int_equal(rd_status(0, e), QP_WC_SUCCESS);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* The sender's own memory of a message in the middle is gone: the packet ends before this message. */
static void a_work_request_in_the_middle_fails_alone(void **state)
{
	struct rd_wr bad = small_send;

	(void)state;
	bad.broken = true;
	for (rd_sim_loose = 0; rd_sim_loose < 2; rd_sim_loose++) {
		rd_sim_up(1, PAIRS);
		sim.faults = true;
		get_to_know();
		post_recvs(4);
		const uint32_t a = rd_post(0, &small_send), b = rd_post(0, &small_send), c = rd_post(0, &bad);
		const uint32_t e = rd_post(0, &small_send);
		rd_run(RN_NS_PER_S / 100);
		assert_int_equal(stats(0)->packs_out, 1);
		assert_int_equal(stats(0)->segs_out, 3);
		assert_int_equal(rd_status(0, a), QP_WC_SUCCESS);
		assert_int_equal(rd_status(0, b), QP_WC_SUCCESS);
		assert_int_equal(rd_status(0, c), QP_WC_LOC_PROT_ERR);
		assert_int_equal(rd_status(0, e), QP_WC_WR_FLUSH_ERR);
		const uint32_t f = rd_post(0, &small_send);
		rd_run(RN_NS_PER_S / 100);
		assert_int_equal(rd_status(0, f), QP_WC_SUCCESS);
		rd_sim_down();
	}
	rd_sim_loose = 0;
}

/* Bursts of small messages, and a long one now and then, over a network that loses, repeats, delays and reorders. */
static void bursts(bool faults)
{
	static const uint8_t op[] = { QP_WR_SEND, QP_WR_SEND, QP_WR_WRITE, QP_WR_READ, QP_WR_FETCH_ADD };

	for (uint32_t recvs = 0; sim.node[0].given < OPS || sim.node[1].given < OPS || recvs < OPS;) {
		const uint32_t n = rn_rng_below(&sim.rng, 12), i = rn_rng_below(&sim.rng, 2);

		for (uint32_t k = 0; k < n && sim.node[i].given < OPS; k++) {
			struct rd_wr w = { .op = op[rn_rng_below(&sim.rng, RN_ARRAY_LEN(op))],
					   .from = (uint8_t)rn_rng_below(&sim.rng, QPS),
					   .len = 2 + rn_rng_below(&sim.rng, rn_rng_below(&sim.rng, 8) ? 300 : 4000),
					   .qkey = RD_QKEY };
			w.wrong = faults && w.op != QP_WR_SEND && rn_rng_below(&sim.rng, 30) == 0;
			w.broken = faults && w.op == QP_WR_SEND && rn_rng_below(&sim.rng, 30) == 0;
			w.qkey += faults && rn_rng_below(&sim.rng, 60) == 0;
			rd_post(i, &w);
		}
		for (uint32_t k = rn_rng_below(&sim.rng, 8); k > 0 && recvs < OPS; k--, recvs++)
			for (uint32_t q = 0; q < 2 * QPS; q++)
				rd_post_recv(q / QPS, q % QPS);
		if (faults && rn_rng_below(&sim.rng, 40) == 0)
			sim.blackout = sim.now + 3 * RN_NS_PER_S;
		rd_run(rn_rng_below(&sim.rng, 300) * RN_NS_PER_US);
	}
	rd_run(60 * RN_NS_PER_S);
	rd_all_over();
}

static void each_request_of_a_burst_is_carried_out_once(void **state)
{
	uint64_t packs = 0, lost = 0, held = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		const bool faults = seed % 8 >= 4;

		rd_sim_loose = seed % 4;
		rd_sim_ring = seed % 3 == 0 ? RING : RING_FEW;
		rd_sim_up(seed, PAIRS);
		sim.faults = faults;
		for (uint32_t k = 0; faults && k < 2 * QPS; k++)
			qp_set(&sim.node[k / QPS].n->q[k % QPS].qp,
			       &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = RD_QKEY, .rnr_ns = RN_NS_PER_S });
		sim.loss = rn_rng_below(&sim.rng, 3) * 30000;
		sim.twice = rn_rng_below(&sim.rng, 2) * 20000;
		sim.late = rn_rng_below(&sim.rng, 3) * 50000;
		bursts(faults);
		packs += stats(0)->packs_out + stats(1)->packs_out;
		held += stats(0)->held;
		lost += sim.lost;
		rd_sim_down();
	}
	rd_sim_loose = 0;
	assert_true(packs > 10 * SEEDS && lost > SEEDS && held > SEEDS);
}

/* ---- packets of our own ---- */

#define RUN 7u

/* A packet of node 1 for queue pair 0 of node 0, which is filled part by part. */
static struct {
	struct rd_hdr h;
	uint8_t b[RD_PACKET_MAX];
	uint32_t len;
} packet;

static void begin(uint8_t kind, uint32_t number)
{
	packet.h = (struct rd_hdr){ .kind = kind,
				    .flags = RD_F_PACKS,
				    .dst_qpn = 10,
				    .src_qpn = 10,
				    .qkey = kind == RD_SEGMENT ? RD_QKEY : 0,
				    .run = RUN,
				    .number = number };
	packet.len = RD_HDR_LEN;
}

/* Adds a DDP segment; in a SEGMENTS with the octets before it. */
static void add(uint8_t flags, const struct ddp_hdr *h, const void *data, uint32_t len)
{
	uint8_t *p = packet.b + packet.len;
	const uint32_t head = h->tagged ? DDP_TAGGED_HDR_LEN : DDP_UNTAGGED_HDR_LEN;

	if (packet.h.kind == RD_SEGMENTS) {
		rd_part_build(p, &(struct rd_part){ .len = head + len, .flags = flags, .qkey = RD_QKEY });
		p += RD_PART_LEN;
	}
	ddp_build(p, h);
	memcpy(p + head, data, len);
	packet.len = (uint32_t)(p - packet.b) + head + len;
}

static void add_write(uint8_t flags, uint32_t at, uint8_t octet)
{
	const struct ddp_hdr h = ddp_tagged(RDMAP_WRITE, true, sim.node[0].n->rkey, RIG_IOVA(0) + AT_DST + at);

	add(flags, &h, &octet, 1);
}

static void come(void)
{
	struct rd_node *n = &sim.node[0];
	uint8_t answer[RD_ANSWER_MAX];
	struct rd_hdr h;

	rd_build(packet.b, &packet.h);
	uint8_t *exact = malloc(packet.len);
	memcpy(exact, packet.b, packet.len);
	assert_true(rd_parse(exact, packet.len, &h));
	const struct rd_rx rx = { .p = exact, .len = packet.len, .h = &h, .addr = addr_1 };
	assert_int_equal(rd_in(&n->d, &n->n->q[0].qp, &rx, answer), 0);
	free(exact);
}

static const uint8_t *target(void) { return sim.node[0].n->mem + AT_DST; }

/* Numbers beyond the window are dropped, and those that have come before; the others of the packet are taken. */
static void each_segment_of_a_packet_is_in_the_window_or_not(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	begin(RD_SEGMENTS, 12);
	for (uint32_t k = 0; k < 6; k++)
		add_write(0, 12 + k, 1);
	come(); /* 16 and 17 are beyond the window; the others are kept */
	assert_int_equal(stats(0)->bad, 2);
	assert_int_equal(stats(0)->held, 4);
	begin(RD_SEGMENTS, 0);
	for (uint32_t k = 0; k < RD_PARTS; k++)
		add_write(0, k, 2);
	come(); /* 12 to 15 come again */
	assert_int_equal(stats(0)->bad, 6);
	for (uint32_t k = 0; k < 18; k++)
		assert_int_equal(target()[k], k < 12 ? 2 : k < 16 ? 1 : 0);
	assert_int_equal(sim.node[0].pair[0].next, 16);
	come();
	assert_int_equal(stats(0)->bad, 22);
	assert_int_equal(sim.node[0].pair[0].next, 16);
	rd_sim_down();
}

/*
 * A kept segment has its turn as soon as the one before it in the packet has had its own, so the window moves on in the
 * middle of the packet.
 */
static void the_window_moves_on_within_a_packet(void **state)
{
	(void)state;
	rd_sim_up(1, PAIRS);
	for (uint32_t k = 1; k < RD_WIN; k++) {
		begin(RD_SEGMENT, k);
		add_write(0, k, 1);
		come();
	}
	begin(RD_SEGMENTS, 0);
	for (uint32_t k = 0; k < RD_PARTS; k++)
		add_write(0, k, 2);
	come();
	assert_int_equal(sim.node[0].pair[0].next, RD_WIN);
	begin(RD_SEGMENTS, RD_WIN);
	for (uint32_t k = 0; k < RD_PARTS; k++)
		add_write(0, RD_WIN + k, 3);
	come();
	assert_int_equal(sim.node[0].pair[0].next, 2 * RD_WIN);
	for (uint32_t k = 0; k < 2 * RD_WIN; k++)
		assert_int_equal(target()[k], k == 0 ? 2 : k < RD_WIN ? 1 : 3);
	rd_sim_down();
}

static void add_send(uint8_t flags, uint32_t msn, uint32_t mo, bool last, const char *text)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_SEND, last, 0, msn, mo);

	add(flags, &h, text, (uint32_t)strlen(text));
}

/* Chains of several segments, whole and in parts, in any order of packets. */
static void chains_lie_in_packets_in_any_way(void **state)
{
	struct rig_node *n;
	struct qp_cqe e;

	(void)state;
	rd_sim_up(1, PAIRS);
	n = sim.node[0].n;
	for (uint32_t k = 0; k < 3; k++)
		rd_post_recv(0, 0);
	begin(RD_SEGMENTS, 4); /* the rest of the second chain, and the third one */
	packet.h.flags |= RD_F_LOOSE;
	add_send(RD_F_LAST, 2, 3, true, "ond");
	add_send(RD_F_FIRST, 3, 0, false, "th");
	add_send(RD_F_LAST, 3, 2, true, "ird");
	come();
	begin(RD_SEGMENTS, 0); /* the first chain, and the begin of the second one */
	packet.h.flags |= RD_F_LOOSE;
	add_send(RD_F_FIRST, 1, 0, false, "f");
	add_send(0, 1, 1, false, "ir");
	add_send(RD_F_LAST, 1, 3, true, "st");
	add_send(RD_F_FIRST, 2, 0, false, "sec");
	come();
	rc_flush(&n->ctx.rc);
	static const char *const want[] = { "third", "first", "second" };
	for (uint32_t k = 0; k < 3; k++) {
		assert_true(rig_poll(&n->rcq_client, &e));
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.byte_len, strlen(want[k]));
		assert_memory_equal(n->mem + AT_RECV + e.wr_id * OP_MAX, want[k], e.byte_len);
	}
	assert_int_equal(sim.node[0].pair[0].next, 7);
	rd_sim_down();
}

static void add_read(uint32_t msn, uint32_t stag)
{
	const struct ddp_hdr h = ddp_untagged(RDMAP_READ_REQ, true, DDP_QN_READ_REQ, msn, 0);
	const struct rdmap_read_req q = { .len = 8, .src_stag = stag, .src_to = RIG_IOVA(0) + AT_CONST };
	uint8_t req[RDMAP_READ_REQ_LEN];

	rdmap_read_req_build(req, &q);
	add(0, &h, req, sizeof(req));
}

/* Of two answers that share a packet the second one fails: the first one is sent, and then the peer is told. */
static void what_is_written_before_a_failure_is_sent(void **state)
{
	struct rd_node *n = &sim.node[0];
	uint8_t out[RD_PACKET_MAX];
	struct rd_hdr h;

	(void)state;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	const uint32_t stag = rig_reg(n->n, AT_CONST, 4096, QP_ACC_ALL, RIG_PD);
	begin(RD_SEGMENTS, 0);
	add_read(1, n->n->rkey);
	add_read(2, stag);
	add_read(3, n->n->rkey);
	come();
	assert_int_equal(qp_mr_dereg(&n->n->dev, stag), QP_MR_OK);
	struct rd_pair *p = rd_pop(&n->d);
	assert_true(rd_more(&n->d, p));
	assert_int_equal(rd_out(&n->d, p, out), RD_HDR_LEN + DDP_TAGGED_HDR_LEN + 8);
	assert_true(rd_parse(out, RD_HDR_LEN, &h));
	assert_int_equal(h.kind, RD_SEGMENT);
	assert_int_equal(h.number, 0);
	assert_int_equal(h.taken, 3);
	assert_int_equal(h.qkey, 1);
	assert_int_equal(out[h.body + 1] & 15, RDMAP_READ_RESP);
	assert_true(p->state == RD_ENDED && rd_more(&n->d, p));
	assert_true(rd_out(&n->d, p, out) > RD_HDR_LEN);
	assert_true(rd_parse(out, RD_HDR_LEN, &h));
	assert_true(h.kind == RD_REFUSED && h.taken == 3 && h.flags == 0);
	assert_false(rd_more(&n->d, p));
	assert_null(rd_pop(&n->d));
	assert_int_equal(p->state, RD_FREE);
	rd_sim_down();
}

/* A hostile peer: parts of any content. No byte is written out of bounds, and nothing leaks. */
static void parts_of_any_content_harm_nobody(void **state)
{
	uint8_t out[RD_PACKET_MAX];
	struct rd_node *n = &sim.node[0];
	uint64_t whole = 0;

	(void)state;
	rd_sim_loose = 1;
	rd_sim_up(1, PAIRS);
	sim.faults = true;
	for (uint32_t k = 0; k < 200000; k++) {
		struct rd_pair *pair;
		struct rd_hdr h;

		begin(RD_SEGMENTS, rn_rng_below(&sim.rng, k % 2 ? 70 : 20));
		packet.h.run = 1 + rn_rng_below(&sim.rng, 3);
		packet.h.flags = k % 2 ? RD_F_LOOSE : 0;
		rd_build(packet.b, &packet.h);
		for (uint32_t parts = rn_rng_below(&sim.rng, 20); parts > 0; parts--) {
			const uint32_t len = rn_rng_below(&sim.rng, 40);
			uint8_t *at = packet.b + packet.len;
			const struct rd_part x = { .len = rn_rng_below(&sim.rng, 50) ? len : len + 1,
						   .flags = (uint8_t)rn_rng_below(&sim.rng, 8),
						   .qkey = rn_rng_below(&sim.rng, 30) ? RD_QKEY : 0 };
			rd_part_build(at, &x);
			for (uint32_t i = 0; i < len; i++)
				at[RD_PART_LEN + i] = (uint8_t)rn_rng_u32(&sim.rng);
			at[RD_PART_LEN] = (uint8_t)(0x01 | rn_rng_below(&sim.rng, 4) << 6);
			at[RD_PART_LEN + 1] = (uint8_t)(0x40 | rn_rng_below(&sim.rng, 12));
			packet.len += RD_PART_LEN + len;
		}
		uint8_t *exact = malloc(packet.len);
		memcpy(exact, packet.b, packet.len);
		if (rd_parse(exact, packet.len, &h)) {
			const struct rd_rx rx = { .p = exact, .len = packet.len, .h = &h, .addr = addr_1 };
			(void)rd_in(&n->d, &n->n->q[0].qp, &rx, out);
			whole++;
		}
		free(exact);
		while ((pair = rd_pop(&n->d)) != NULL)
			while (rd_out(&n->d, pair, out) > 0)
				;
		rc_flush(&n->n->ctx.rc);
		qp_drained(&n->n->ctx.rc.qp);
	}
	assert_true(whole > 10000);
	assert_int_equal(qp_get_state(&n->n->q[0].qp), QP_S_RTS);
	rd_sim_down();
	rd_sim_loose = 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_that_are_there_share_packets),
		cmocka_unit_test(an_end_that_does_not_take_such_packets_gets_none),
		cmocka_unit_test(no_message_is_cut_to_fill_a_packet),
		cmocka_unit_test(a_message_in_the_middle_waits_for_its_receive),
		cmocka_unit_test(a_segment_in_the_middle_is_refused_alone),
		cmocka_unit_test(a_work_request_in_the_middle_fails_alone),
		cmocka_unit_test(each_request_of_a_burst_is_carried_out_once),
		cmocka_unit_test(each_segment_of_a_packet_is_in_the_window_or_not),
		cmocka_unit_test(the_window_moves_on_within_a_packet),
		cmocka_unit_test(chains_lie_in_packets_in_any_way),
		cmocka_unit_test(what_is_written_before_a_failure_is_sent),
		cmocka_unit_test(parts_of_any_content_harm_nobody),
	};

	rd_sim_ring = RING;
	return cmocka_run_group_tests_name("qp_rd_packs", tests, NULL, NULL);
}
