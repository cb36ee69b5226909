/* SPDX-License-Identifier: BSD-3-Clause */
/* Workarounds for single peers: rc_quirk.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rc/rc_quirk.h"
#include "raw.h"

static struct rig *up(bool p2p)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.p2p = p2p;
	struct rig *r = rig_new(&cfg);
	rig_connect(r, 0);
	return r;
}

static void send_one(struct rig *r, int from)
{
	struct rig_node *a = &r->n[from], *b = &r->n[1 - from];
	struct qp_sge src = rig_sge(a, 0, 32), dst = rig_sge(b, 64, 32);
	struct rig_wr w = { .wr_id = 1, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &src, .num_sge = 1 };

	assert_true(rig_post_recv(b, 0, 7, &dst, 1));
	assert_true(rig_post(a, 0, &w));
	assert_int_equal(rig_wait(r, &b->rcq_client).status, QP_WC_SUCCESS);
	assert_int_equal(rig_wait(r, &a->scq_client).status, QP_WC_SUCCESS);
}

static void silent_peer_is_nudged_a_few_times(void **state)
{
	struct rig *r = up(true);

	(void)state;
	rig_run(r, 60 * RN_NS_PER_S);
	assert_int_equal(r->n[0].ctx.rc.qp.stats.nudges, RC_NUDGES);
	assert_int_equal(r->n[1].ctx.rc.qp.stats.nudges, 0);
	assert_int_equal(r->n[1].ctx.rc.qp.stats.fpdus_in, 1 + RC_NUDGES); /* the RTR counts, too */
	assert_int_equal(r->n[1].ctx.rc.qp.stats.ddp_errors + r->n[1].ctx.rc.qp.stats.rdmap_errors, 0);
	send_one(r, 0);
	send_one(r, 1);
	assert_int_equal(r->n[0].ctx.rc.qp.stats.nudges, RC_NUDGES);
	rig_free(r);
}

static void peer_that_speaks_is_not_nudged(void **state)
{
	struct rig *r = up(true);

	(void)state;
	send_one(r, 1);
	rig_run(r, 60 * RN_NS_PER_S);
	assert_int_equal(r->n[0].ctx.rc.qp.stats.nudges, 0);
	rig_free(r);
}

/*
 * A nudge and the peer's first message cross. A nudge is no request of the program, so a queue pair that goes to ERR
 * while the nudge is in flight still says so.
 */
static void a_nudge_in_flight_lets_a_terminate_follow(void **state)
{
	struct rig *r = up(true);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	struct qp_sge s = rig_sge(b, 0, 32), d = rig_sge(a, 64, 32);
	struct rig_wr w = { .wr_id = 1, .op = QP_WR_SEND, .sge = &s, .num_sge = 1 };

	(void)state;
	while (a->ctx.rc.qp.stats.nudges == 0)
		assert_true(rig_step(r));
	assert_true(rig_post_recv(a, 0, 7, &d, 1));
	assert_true(rig_post(b, 0, &w));
	rig_turn(r, 1);
	b->paused = true; /* acknowledges nothing more */
	assert_int_equal(rig_wait(r, &a->rcq_client).status, QP_WC_SUCCESS);
	assert_false(rc_quiet(&a->conn[0].rc));
	assert_int_equal(rc_modify(&a->ctx.rc, &a->q[0].qp, QP_S_ERR), QP_OK);
	b->paused = false;
	rig_settle(r);
	assert_int_equal(b->ctx.rc.qp.stats.terms_rcvd, 1);
	assert_int_equal(b->ctx.rc.qp.stats.resets, 0);
	assert_int_equal(b->q[0].qp.state, QP_S_ERR);
	rig_free(r);
}

/* The peer's TCP has acknowledged the request of a Read, and its RDMAP has not answered yet. */
static void a_read_that_waits_lets_a_terminate_follow(void **state)
{
	struct rig *r = up(false);
	struct rig_node *a = &r->n[0], *b = &r->n[1];
	const struct qp_sge s = rig_sge(a, 0, 32);
	const struct rig_wr w = { .op = QP_WR_READ, .sge = &s, .num_sge = 1, .raddr = RIG_IOVA(1), .rkey = b->rkey };

	(void)state;
	send_one(r, 0);
	send_one(r, 1);
	rig_settle(r);
	const uint32_t left = b->ctx.rc.rec_left;
	b->ctx.rc.rec_left = 0; /* the answer waits for a record */
	assert_true(rig_post(a, 0, &w));
	do
		assert_true(rig_step(r));
	while (!rc_quiet(&a->conn[0].rc) || !qp_msgs_busy(&a->conn[0].rc.m));
	assert_true(b->ctx.rc.qp.stats.no_rec > 0);
	assert_int_equal(rc_modify(&a->ctx.rc, &a->q[0].qp, QP_S_ERR), QP_OK);
	b->ctx.rc.rec_left = left;
	rig_settle(r);
	assert_int_equal(b->ctx.rc.qp.stats.terms_rcvd, 1);
	assert_int_equal(b->ctx.rc.qp.stats.resets, 0);
	assert_int_equal(b->q[0].qp.state, QP_S_ERR);
	rig_free(r);
}

static void nothing_said_nothing_nudged(void **state)
{
	struct rig *r = up(false);

	(void)state;
	rig_run(r, 60 * RN_NS_PER_S);
	assert_int_equal(r->n[0].ctx.rc.qp.stats.nudges, 0);
	assert_int_equal(r->n[1].ctx.rc.qp.stats.fpdus_in, 0);
	rig_free(r);
}

/* Connects a device to a raw responder in peer-to-peer mode: the RTR has come, and the responder has not answered. */
static void young(uint16_t ird)
{
	struct mpa_policy p = raw_policy();
	struct rig_cfg cfg;
	struct ddp_hdr h;
	uint32_t len;

	rig_defaults(&cfg);
	cfg.p2p = true;
	open_bench(1, &cfg);
	p.ird = ird;
	raw_reply(&p);
	rig_run(B.r, RN_NS_PER_MS);
	assert_non_null(rig_fx(B.r, 0, QP_FX_ESTABLISHED));
	assert_true(next_fpdu(&h, junk, &len));
	assert_int_equal(h.opcode, RDMAP_WRITE);
	assert_false(next_fpdu(&h, junk, &len));
}

/* The device's next FPDU, which it sends because the responder is silent. */
static struct ddp_hdr nudged(void)
{
	struct ddp_hdr h;
	uint32_t len;

	rig_run(B.r, RC_NUDGE_FIRST_NS * 2);
	assert_true(next_fpdu(&h, junk, &len));
	assert_int_equal(len, h.opcode == RDMAP_WRITE ? 0 : RDMAP_READ_REQ_LEN);
	assert_int_equal(dev()->ctx.rc.qp.stats.nudges, 1);
	return h;
}

/*
 * The nudge's STag and TO are those of the last Write that the responder accepted, since a responder may check them
 * even in a zero-length Write.
 */
static void a_nudge_goes_where_the_last_write_went(void **state)
{
	struct ddp_hdr h;
	uint32_t len;

	(void)state;
	for (int invalidated = 0; invalidated < 2; invalidated++) {
		young(8);
		struct qp_sge src = rig_sge(dev(), 0, 32);
		struct rig_wr w = { .op = QP_WR_WRITE, .sge = &src, .num_sge = 1, .raddr = 0x7000, .rkey = 0x1234 };
		assert_true(rig_post(dev(), 0, &w));
		w = (struct rig_wr){ .op = QP_WR_SEND_INV, .sge = &src, .num_sge = 1, .aux = 0x1234 };
		assert_true(!invalidated || rig_post(dev(), 0, &w));
		rig_run(B.r, RN_NS_PER_MS);
		assert_true(next_fpdu(&h, junk, &len));
		assert_int_equal(len, 32);
		assert_true(!invalidated || next_fpdu(&h, junk, &len));
		h = nudged();
		assert_int_equal(h.opcode, RDMAP_WRITE);
		assert_int_equal(h.stag, invalidated ? 0 : 0x1234);
		assert_int_equal(h.to, invalidated ? 0 : 0x7000);
		close_bench();
	}
}

/* A responder that chose a Read as RTR gets a Read as nudge. */
static void a_nudge_is_what_the_responder_wanted_as_rtr(void **state)
{
	struct mpa_policy p = raw_policy();
	struct rig_cfg cfg;
	struct ddp_hdr h;
	uint32_t len;

	(void)state;
	rig_defaults(&cfg);
	cfg.p2p = true;
	open_bench(1, &cfg);
	p.rtr = MPA_RTR_READ;
	p.ird = 8;
	raw_reply(&p);
	rig_run(B.r, RN_NS_PER_MS);
	assert_true(next_fpdu(&h, junk, &len));
	assert_int_equal(h.opcode, RDMAP_READ_REQ);
	assert_int_equal(nudged().opcode, RDMAP_READ_REQ);
	close_bench();
}

static void must_ask(void)
{
	uint8_t body[64];
	struct ddp_hdr h;
	uint32_t len;

	rig_run(B.r, RN_NS_PER_MS);
	assert_true(next_fpdu(&h, body, &len));
	assert_int_equal(h.opcode, RDMAP_READ_REQ);
	assert_int_equal(len, RDMAP_READ_REQ_LEN);
	assert_false(raw()->fin);
}

static void must_end(void)
{
	rig_run(B.r, RN_NS_PER_MS);
	assert_true(raw()->fin);
	assert_false(raw()->reset);
	tcpl_shutdown(&raw()->tcp, B.r->now);
	rig_run(B.r, 2 * RN_NS_PER_S); /* until TIME_WAIT is over */
	assert_int_equal(rig_fx_count(B.r, 0, QP_FX_CLOSED), 1);
	assert_int_equal(dev()->ctx.rc.qp.stats.close_timeouts + dev()->ctx.rc.qp.stats.resets, 0);
	close_bench();
}

static void early_disconnect_waits_for_a_word(void **state)
{
	const struct ddp_hdr answer = ddp_tagged(RDMAP_READ_RESP, true, 0, 0);

	(void)state;
	young(8);
	rc_disconnect(&dev()->ctx.rc, &dev()->conn[0].rc);
	must_ask();
	send_ddp(&answer, NULL, 0);
	must_end();
}

static void early_disconnect_does_not_wait_for_ever(void **state)
{
	(void)state;
	for (uint16_t ird = 0; ird <= 8; ird += 8) { /* with an IRD of 0 no Read is possible */
		struct ddp_hdr h;
		uint32_t n = 0, len;

		young(ird);
		rc_disconnect(&dev()->ctx.rc, &dev()->conn[0].rc);
		rig_run(B.r, 200 * RN_NS_PER_MS);
		assert_false(raw()->fin);
		for (; next_fpdu(&h, junk, &len); n += h.opcode == RDMAP_WRITE)
			;
		assert_int_equal(n, RC_NUDGES_END - 1);
		rig_run(B.r, 20 * RN_NS_PER_MS);
		must_end();
	}
}

static void early_destroy_waits_too(void **state)
{
	const struct ddp_hdr answer = ddp_tagged(RDMAP_READ_RESP, true, 0, 0);

	(void)state;
	for (int disconnected = 0; disconnected < 2; disconnected++) {
		young(8);
		if (disconnected)
			rc_disconnect(&dev()->ctx.rc, &dev()->conn[0].rc);
		rc_destroy(&dev()->ctx.rc, &dev()->q[0].qp);
		must_ask();
		send_ddp(&answer, NULL, 0);
		must_end();
	}
}

static void early_disconnect_is_quick_towards_our_own(void **state)
{
	struct rig *r = up(true);
	uint64_t start = r->now;

	(void)state;
	rc_disconnect(&r->n[0].ctx.rc, &r->n[0].conn[0].rc);
	while (rig_fx_count(r, 1, QP_FX_DISCONNECTED) == 0)
		assert_true(rig_step(r));
	assert_true(r->now - start < RC_NUDGE_FIRST_NS);
	assert_int_equal(r->n[0].ctx.rc.qp.stats.nudges, 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_peer_is_nudged_a_few_times),
		cmocka_unit_test(peer_that_speaks_is_not_nudged),
		cmocka_unit_test(a_nudge_in_flight_lets_a_terminate_follow),
		cmocka_unit_test(a_read_that_waits_lets_a_terminate_follow),
		cmocka_unit_test(nothing_said_nothing_nudged),
		cmocka_unit_test(a_nudge_goes_where_the_last_write_went),
		cmocka_unit_test(a_nudge_is_what_the_responder_wanted_as_rtr),
		cmocka_unit_test(early_disconnect_waits_for_a_word),
		cmocka_unit_test(early_disconnect_does_not_wait_for_ever),
		cmocka_unit_test(early_destroy_waits_too),
		cmocka_unit_test(early_disconnect_is_quick_towards_our_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
