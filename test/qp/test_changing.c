/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of memory writes to it while it is sent: Reads, Writes and Sends of it complete, over loss and reordering,
 * with and without markers, through a window that splits FPDUs, and through a middlebox that cuts segments. Which bytes
 * arrive is not defined, but each CRC is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"
#include "tcp_lite/tcpl_path.h"

#define BIG  20000u
#define SINK (1u << 20) /* offset of the memory that receives the other side's bytes */

static bool changes = true;

static void scribble(struct rig *r)
{
	for (int id = 0; changes && id < 2; id++)
		for (uint32_t i = 0; i < 16; i++)
			r->n[id].mem[rn_rng_below(&r->rng, BIG)]++;
}

/* Takes completions of both queues, which must all be good. */
static uint32_t poll(struct rig_node *n)
{
	struct qp_cqe e;
	uint32_t got = 0;

	while (rig_poll(&n->scq_client, &e)) {
		assert_int_equal(e.status, QP_WC_SUCCESS);
		got++;
	}
	while (rig_poll(&n->rcq_client, &e))
		assert_int_equal(e.status, QP_WC_SUCCESS);
	return got;
}

static void post(struct rig *r, int id, uint32_t i)
{
	static const uint8_t op[] = { QP_WR_READ, QP_WR_WRITE, QP_WR_SEND };
	struct rig_node *n = &r->n[id], *o = &r->n[!id];
	const uint32_t len = 1 + rn_rng_below(&r->rng, BIG);
	struct rig_wr w = { .wr_id = i, .op = op[i % 3], .flags = QP_WF_SIGNALED, .num_sge = 1, .rkey = o->rkey };
	struct qp_sge g = rig_sge(n, w.op == QP_WR_READ ? SINK : 0, len);
	const struct qp_sge sink = rig_sge(o, SINK, BIG);

	w.sge = &g;
	w.raddr = RIG_IOVA(!id) + (w.op == QP_WR_READ ? 0 : SINK);
	if (w.op == QP_WR_SEND)
		assert_true(rig_post_recv(o, 0, i, &sink, 1));
	assert_true(rig_post(n, 0, &w));
}

static uint32_t rounds = 300; /* messages that each side sends */
static uint32_t copies;       /* buffers for copies of FPDUs in flight; 0: as many as are needed */
static uint64_t staged;       /* FPDUs of the last run that were received in parts */

/* Both sides keep a few messages under way. Returns the number of retransmitted segments. */
static uint64_t soak(const struct rig_cfg *cfg)
{
	struct rig *r = rig_new(cfg);
	uint32_t posted[2] = { 0 }, done[2] = { 0 };
	uint64_t again = 0;

	staged = 0;
	rig_connect(r, 0);
	post(r, 0, 1);
	posted[0]++;
	while (done[0] < rounds || done[1] < rounds) {
		for (int id = 0; id < 2; id++) {
			done[id] += poll(&r->n[id]);
			while (done[0] > 0 && posted[id] < rounds && posted[id] - done[id] < 4)
				post(r, id, ++posted[id]);
		}
		scribble(r);
		if (!rig_step(r) && (done[0] < rounds || done[1] < rounds))
			fail_msg("stalled: %u %u", done[0], done[1]);
	}
	for (int id = 0; id < 2; id++) {
		assert_int_equal(r->n[id].ctx.rc.qp.stats.crc_errors, 0);
		assert_int_equal(r->n[id].ctx.rc.qp.stats.terms_sent, 0);
		staged += r->n[id].ctx.rc.qp.stats.staged;
		again += r->n[id].conn[0].tcp.stats.rexmits;
	}
	rig_free(r);
	return again;
}

static uint64_t seed = 1;

static void run(uint32_t mtu, uint32_t rcv_space, bool markers, uint32_t loss, uint32_t cut)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.seed = seed;
	cfg.link.cut = cut;
	cfg.mtu = mtu;
	cfg.stages = 64;
	cfg.copies = copies ? copies : 1024;
	cfg.rcv_space = rcv_space;
	cfg.markers[0] = cfg.markers[1] = markers;
	cfg.link.loss = loss;
	cfg.link.reorder = loss;
	cfg.link.reorder_ns = 20000;
	cfg.link.dup = loss;
	uint64_t again = soak(&cfg);
	assert_true(loss == 0 || again > 10);
}

static void with(uint32_t mtu, uint32_t rcv_space, bool markers, uint32_t loss)
{
	run(mtu, rcv_space, markers, loss, 0);
}

static void cut(uint32_t mtu, bool markers) { run(mtu, 0, markers, 0, 500000); }

static void without_loss(void **state)
{
	(void)state;
	with(1500, 0, false, 0);
	with(9000, 0, true, 0);
}

static void sent_again(void **state)
{
	(void)state;
	for (uint32_t markers = 0; markers < 2; markers++) {
		with(1500, 0, markers, 20000);
		with(9000, 0, markers, 20000);
	}
}

/* The window is smaller than an FPDU, so FPDUs are sent in parts. */
static void sent_in_parts(void **state)
{
	(void)state;
	for (uint32_t markers = 0; markers < 2; markers++) {
		with(1500, 1000, markers, 0);
		assert_true(staged > 1000);
		with(1500, 1000, markers, 20000);
		with(9000, 5000, markers, 20000);
	}
}

/* A middlebox cuts segments in two, and nothing is lost: both halves of an FPDU belong to one transmission. */
static void cut_on_the_way(void **state)
{
	(void)state;
	for (uint32_t markers = 0; markers < 2; markers++) {
		cut(1500, markers);
		assert_true(staged > 1000);
		cut(9000, markers);
		assert_true(staged > 100);
	}
}

/* The same with loss: the peer holds one half of an FPDU, the memory changes, and the other half is retransmitted. */
static void halves_lost_on_the_way(void **state)
{
	(void)state;
	for (seed = 1; seed <= 8; seed++) {
		run(1500, 0, seed & 1, 20000, 500000);
		assert_true(staged > 1000);
		run(9000, 0, seed & 1, 20000, 500000);
		assert_true(staged > 100);
	}
	seed = 1;
}

/* The stream without a cut is so long that the path would pass for one that keeps segments whole. */
static void halves_lost_of_a_long_stream(void **state)
{
	(void)state;
	rounds = 2 * TCPL_PATH_PROOF / (BIG / 2);
	run(9000, 0, false, 20000, 500000);
	rounds = 300;
}

/* A connection waits for a free copy while its path cuts segments: no connection stalls, and all copies come back. */
static void few_copies_hold_nothing_up(void **state)
{
	(void)state;
	changes = false;
	for (copies = 8; copies <= 64; copies *= 2)
		run(1500, 0, false, 20000, 500000);
	copies = 0;
	changes = true;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_loss),
		cmocka_unit_test(sent_again),
		cmocka_unit_test(sent_in_parts),
		cmocka_unit_test(cut_on_the_way),
		cmocka_unit_test(halves_lost_on_the_way),
		cmocka_unit_test(halves_lost_of_a_long_stream),
		cmocka_unit_test(few_copies_hold_nothing_up),
	};

	return cmocka_run_group_tests_name("qp_changing", tests, NULL, NULL);
}
