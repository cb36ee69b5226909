/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of memory writes to it while it is sent: Reads, Writes and Sends of it complete, over loss and reordering,
 * with and without markers, through a window that splits FPDUs, through a middlebox that cuts segments, and with few
 * buffers for copies. Which bytes arrive is not defined, but each CRC is right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_seq.h"
#include "rig.h"
#include "tcp_lite/tcpl_path.h"

#define BIG  20000u
#define SINK (1u << 20) /* offset of the memory that receives the other side's bytes */

static bool when_known; /* the memory changes only once the middlebox is known, and what was sent before has arrived */

static uint32_t flows = 1; /* connections that share the copies */

static bool known(struct rig *r, uint32_t edge[2][RIG_FLOWS])
{
	bool all = true;

	for (uint32_t i = 0; i < 2 * flows; i++) {
		const struct tcpl_conn *t = &r->n[i % 2].conn[i / 2].tcp;
		if (tcpl_path(t) != TCPL_PATH_CUTS)
			edge[i % 2][i / 2] = t->snd_nxt;
		all &= tcpl_path(t) == TCPL_PATH_CUTS && !rn_seq_lt(t->snd_una, edge[i % 2][i / 2]);
	}
	return all;
}

static void scribble(struct rig *r)
{
	for (int id = 0; id < 2; id++)
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
	const uint32_t q = i / 3 % flows;
	const uint32_t len = 1 + rn_rng_below(&r->rng, BIG);
	struct rig_wr w = { .wr_id = i, .op = op[i % 3], .flags = QP_WF_SIGNALED, .num_sge = 1, .rkey = o->rkey };
	struct qp_sge g = rig_sge(n, w.op == QP_WR_READ ? SINK : 0, len);
	const struct qp_sge sink = rig_sge(o, SINK, BIG);

	w.sge = &g;
	w.raddr = RIG_IOVA(!id) + (w.op == QP_WR_READ ? 0 : SINK);
	if (w.op == QP_WR_SEND)
		assert_true(rig_post_recv(o, q, i, &sink, 1));
	assert_true(rig_post(n, q, &w));
}

static uint32_t rounds = 300; /* messages that each side sends */
static uint32_t copies;       /* buffers for copies of FPDUs in flight; 0: as many as are needed */
static uint64_t staged;       /* FPDUs of the last run that were received in parts */

/* Both sides keep a few messages under way. Returns the number of retransmitted segments. */
static uint64_t soak(const struct rig_cfg *cfg)
{
	struct rig *r = rig_new(cfg);
	uint32_t posted[2] = { 0 }, done[2] = { 0 }, edge[2][RIG_FLOWS];
	uint64_t again = 0;
	uint32_t idle = 0;

	staged = 0;
	for (uint32_t f = 0; f < flows; f++)
		rig_connect(r, f);
	while (posted[0] < 3 * flows) /* the side that connects speaks first */
		post(r, 0, posted[0]++);
	while (done[0] < rounds || done[1] < rounds) {
		for (int id = 0; id < 2; id++) {
			done[id] += poll(&r->n[id]);
			while (done[0] >= 3 * flows && posted[id] < rounds && posted[id] - done[id] < 4 * flows)
				post(r, id, posted[id]++);
		}
		if (!when_known || known(r, edge))
			scribble(r);
		idle = rig_step(r) ? 0 : idle + 1; /* the last turn may have made completions */
		if (idle > 1 && (done[0] < rounds || done[1] < rounds))
			fail_msg("stalled: %u %u", done[0], done[1]);
	}
	for (int id = 0; id < 2; id++) {
		assert_int_equal(r->n[id].ctx.rc.qp.stats.crc_errors, 0);
		assert_int_equal(r->n[id].ctx.rc.qp.stats.terms_sent, 0);
		staged += r->n[id].ctx.rc.qp.stats.staged;
		for (uint32_t f = 0; f < flows; f++)
			again += r->n[id].conn[f].tcp.stats.rexmits;
	}
	assert_true(!when_known || known(r, edge));
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
	when_known = true;
	flows = 4;
	for (copies = 1; copies <= 64; copies *= 2)
		for (seed = 1; seed <= 4; seed++)
			run(1500, 0, seed & 1, 20000, 500000);
	when_known = false;
	flows = 1;
	copies = 0;
	seed = 1;
}

/* The windows are smaller than an FPDU, and there are fewer copies than connections. */
static void few_copies_are_enough_for_parts(void **state)
{
	(void)state;
	flows = 4;
	for (copies = 1; copies <= 4; copies++)
		for (uint32_t markers = 0; markers < 2; markers++) {
			with(1500, 1000, markers, 0);
			assert_true(staged > 1000);
			with(1500, 1000, markers, 20000);
		}
	flows = 1;
	copies = 0;
}

/* ---- copies that others hold ---- */

#define COPIES  16u
#define PERSIST (5 * RN_NS_PER_S) /* a window too small for a whole FPDU is used after a while only */

/* As if FPDUs of this tenant's other connections were n copies longer in flight. n < 0: these are acknowledged. */
static void others_hold(struct rig *r, uint8_t tenant, int n)
{
	struct rc_ctx *ctx = &r->n[0].ctx.rc;

	ctx->copies_left -= (uint32_t)n;
	ctx->copy_fresh.n -= (uint32_t)n;
	ctx->copies_of[tenant] += (uint32_t)n;
}

/* Two connections of different tenants, each with a Write to send. */
static struct rig *two_tenants(uint32_t rcv_space, bool cuts)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.copies = COPIES;
	cfg.rcv_space = rcv_space;
	struct rig *r = rig_new(&cfg);
	for (uint32_t f = 0; f < 2; f++) {
		r->n[0].q[f].qp.tenant = (uint8_t)(f + 1);
		rig_connect(r, f);
		r->n[0].conn[f].tcp.stats.cuts = cuts; /* as if an ACK had shown it */
	}
	rig_settle(r);
	return r;
}

static void post_each(struct rig *r)
{
	for (uint32_t f = 0; f < 2; f++) {
		const struct qp_sge g = rig_sge(&r->n[0], 0, 1400);
		const struct rig_wr w = { .wr_id = f,
					  .op = QP_WR_WRITE,
					  .flags = QP_WF_SIGNALED,
					  .sge = &g,
					  .num_sge = 1,
					  .raddr = RIG_IOVA(1) + SINK,
					  .rkey = r->n[1].rkey };
		assert_true(rig_post(&r->n[0], f, &w));
	}
}

static void write_each(struct rig *r)
{
	post_each(r);
	rig_run(r, PERSIST);
}

static void nothing_leaves(struct rig *r, uint32_t f, uint64_t bytes)
{
	struct qp_cqe e;

	assert_int_equal(r->n[0].conn[f].tcp.stats.bytes_out, bytes);
	assert_true(rc_is_up(&r->n[0].conn[f].rc));
	assert_true(r->n[0].ctx.rc.qp.stats.no_copy > 0);
	assert_false(rig_poll(&r->n[0].scq_client, &e));
}

static void both_wait_for_copies(uint32_t rcv_space, bool cuts)
{
	struct rig *r = two_tenants(rcv_space, cuts);
	const uint64_t before[2] = { r->n[0].conn[0].tcp.stats.bytes_out, r->n[0].conn[1].tcp.stats.bytes_out };

	others_hold(r, 3, COPIES / 2);
	others_hold(r, 4, COPIES / 2);
	write_each(r);
	for (uint32_t f = 0; f < 2; f++)
		nothing_leaves(r, f, before[f]);
	others_hold(r, 3, -(int)COPIES / 2);
	rig_run(r, PERSIST);
	assert_int_equal(poll(&r->n[0]), 2);
	others_hold(r, 4, -(int)COPIES / 2);
	rig_free(r);
}

/* Nothing is sent whose bytes could not be sent again. */
static void an_fpdu_waits_for_a_copy_if_the_path_cuts(void **state)
{
	(void)state;
	both_wait_for_copies(0, true);
}

static void an_fpdu_waits_for_a_copy_if_the_window_cuts(void **state)
{
	(void)state;
	both_wait_for_copies(1000, false);
}

static void one_tenants_copies_hold_up_no_other(void **state)
{
	struct qp_cqe e;

	(void)state;
	for (uint32_t cuts = 0; cuts < 2; cuts++) {
		struct rig *r = two_tenants(cuts ? 0 : 1000, cuts);
		const uint64_t before = r->n[0].conn[0].tcp.stats.bytes_out;

		others_hold(r, 1, COPIES - COPIES / 4);
		write_each(r);
		assert_true(rig_poll(&r->n[0].scq_client, &e));
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, 1);
		nothing_leaves(r, 0, before);
		others_hold(r, 1, -(int)(COPIES - COPIES / 4));
		rig_run(r, PERSIST);
		assert_int_equal(poll(&r->n[0]), 1);
		rig_free(r);
	}
}

/* Loses the Write of each flow; a router says that it is too large. */
static void lose_each(struct rig *r)
{
	r->silent = 3;
	post_each(r);
	rig_run(r, 100 * RN_NS_PER_US);
	r->silent = 0;
	for (uint32_t f = 0; f < 2; f++) {
		struct rc_tcp *c = &r->n[0].conn[f];
		r->n[0].ctx.rc.qp.now = r->now;
		rc_tcp_too_big(&r->n[0].ctx, c, c->tcp.snd_una, 600);
		assert_int_equal(c->tcp.n_lost, 1);
	}
}

static void no_timeout(const struct rig *r)
{
	for (uint32_t f = 0; f < 2; f++)
		assert_int_equal(r->n[0].conn[f].tcp.stats.rtos, 0);
}

static void a_lost_fpdu_that_must_be_cut_goes_on_with_the_next_free_copy(void **state)
{
	struct rig *r = two_tenants(0, false);

	(void)state;
	others_hold(r, 3, COPIES / 2);
	others_hold(r, 4, COPIES / 2);
	lose_each(r);
	rig_run(r, RN_NS_PER_MS);
	for (uint32_t f = 0; f < 2; f++)
		assert_int_equal(r->n[0].conn[f].tcp.stats.rexmits, 0);
	others_hold(r, 3, -(int)COPIES / 2);
	rig_run(r, RN_NS_PER_MS);
	assert_int_equal(poll(&r->n[0]), 2);
	no_timeout(r);
	others_hold(r, 4, -(int)COPIES / 2);
	rig_free(r);
}

/* Else connections that have a copy each would wait for one more, and so for each other. */
static void a_lost_fpdu_with_a_copy_waits_for_no_other(void **state)
{
	struct rig *r = two_tenants(0, false);

	(void)state;
	others_hold(r, 3, COPIES / 2);
	others_hold(r, 4, COPIES / 2 - 1);
	lose_each(r);
	rig_run(r, 2 * RN_NS_PER_MS);
	assert_int_equal(poll(&r->n[0]), 2); /* the second one has had the copy of the first */
	no_timeout(r);
	others_hold(r, 3, -(int)COPIES / 2);
	others_hold(r, 4, -(int)(COPIES / 2 - 1));
	rig_free(r);
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
		cmocka_unit_test(few_copies_are_enough_for_parts),
		cmocka_unit_test(an_fpdu_waits_for_a_copy_if_the_path_cuts),
		cmocka_unit_test(an_fpdu_waits_for_a_copy_if_the_window_cuts),
		cmocka_unit_test(one_tenants_copies_hold_up_no_other),
		cmocka_unit_test(a_lost_fpdu_that_must_be_cut_goes_on_with_the_next_free_copy),
		cmocka_unit_test(a_lost_fpdu_with_a_copy_waits_for_no_other),
	};

	return cmocka_run_group_tests_name("qp_changing", tests, NULL, NULL);
}
