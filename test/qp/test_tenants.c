/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the tenants of a worker share: records, blocks, packets behind holes. However much of these one tenant's silent
 * peers or idle programs take, its own connections wait for more, and no other tenant's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client_rig.h"
#include "tcp_lite/tcpl_int.h"

/* Posts n Writes of 8 bytes on the flow. */
static void post_writes(uint32_t flow, uint32_t n)
{
	struct qp_sge s = rig_sge(A, 0, 8);

	for (uint32_t i = 0; i < n; i++) {
		struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		assert_true(rig_post(A, flow, &w));
	}
}

/* Flow 3 is another tenant's. */
static void up_with_records(uint32_t recs)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.recs = recs;
	up_with(&cfg);
	A->q[3].qp.tenant = 5;
	for (uint32_t f = 1; f < RIG_FLOWS; f++)
		rig_connect(R, f);
}

static void silent_peers_leave_records_to_other_connections(void **state)
{
	enum { N = 200 };
	struct qp_cqe e;
	uint32_t got = 0;

	(void)state;
	up_with_records(64 + 160); /* 64 are reserved */
	R->silent = 1 << 0 | 1 << 1;
	for (uint32_t f = 0; f < 2; f++) {
		post_writes(f, N);
		rig_turn(R, 0);
	}
	assert_true(A->ctx.rc.qp.stats.no_rec > 0);
	assert_true(A->ctx.rc.rec_left > 64 + 160 / 8);
	post_writes(2, N);
	post_writes(3, N);
	for (uint32_t i = 0; i < 100; i++) {
		rig_run(R, RN_NS_PER_MS);
		while (rig_poll(&A->scq_client, &e)) {
			assert_int_equal(e.status, QP_WC_SUCCESS);
			got++;
		}
	}
	assert_int_equal(got, 2 * N);
	R->silent = 0; /* the peers answer again, and the rest goes */
	rig_run(R, 10 * RN_NS_PER_S);
	while (rig_poll(&A->scq_client, &e)) {
		assert_int_equal(e.status, QP_WC_SUCCESS);
		got++;
	}
	assert_int_equal(got, 4 * N);
	rig_free(R);
}

static void with_blocks_for_all_no_sender_waits(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg); /* as many blocks as connections */
	up_with(&cfg);
	for (uint32_t f = 1; f < RIG_FLOWS; f++)
		rig_connect(R, f);
	rig_run(R, RN_NS_PER_S);
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		post_writes(f, 1);
	rig_turn(R, 0); /* no peer has acknowledged anything */
	assert_int_equal(A->ctx.rc.qp.stats.no_block, 0);
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		assert_int_equal(A->conn[f].rc.out.flying, 1);
	rig_free(R);
}

/* As if n more FPDUs of the tenant were in flight from A. n < 0: these are acknowledged. */
static void others_have_records(uint8_t tenant, int n)
{
	A->ctx.rc.rec_left -= (uint32_t)n;
	A->ctx.rc.recs_of[tenant] += (uint32_t)n;
}

/* Silent peers acknowledge no RTR either, so RTRs of one tenant leave records to the others. */
static void one_tenants_rtrs_leave_records_to_others(void **state)
{
	enum { N = 20, RECS = 160, MOST = RECS - RECS / 16 };
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.p2p = true;
	cfg.recs = 64 + RECS; /* 64 are reserved */
	R = rig_new(&cfg);
	A->q[3].qp.tenant = 5;
	others_have_records(0, MOST - 1);
	rig_connect(R, 0); /* the tenant's last record is for this RTR */
	others_have_records(0, 1);
	rig_connect_start(R, 1, "hello", 5);
	rig_run(R, 100 * RN_NS_PER_MS);
	assert_true(rc_is_up(&A->conn[1].rc) && !rc_is_up(&B->conn[1].rc));
	assert_int_equal(A->ctx.rc.rec_left, 64 + RECS / 16);
	rig_connect(R, 3);
	post_writes(3, N); /* with so few records left, one at a time */
	rig_run(R, 5 * RN_NS_PER_S);
	for (uint32_t i = 0; i < N; i++)
		expect(&A->scq_client, i, QP_WC_SUCCESS);
	others_have_records(0, -MOST);
	rig_run(R, 100 * RN_NS_PER_MS);
	assert_true(rc_is_up(&B->conn[1].rc));
	rig_free(R);
}

enum { BLOCKS = 64 };

/* As if n more connections of the tenant had a block at B. n < 0: these rest. */
static void others_have_blocks(uint8_t tenant, int n)
{
	struct rc_ctx *ctx = &B->ctx.rc;

	ctx->blk_left -= (uint32_t)n;
	ctx->blk_fresh -= (uint32_t)n;
	ctx->blks_of[tenant] += (uint32_t)n;
}

/* A message on the flow. The flow's number is the id of the work request and of the receive. */
static void message(struct rig_node *from, struct rig_node *to, uint32_t flow)
{
	const struct qp_sge s = rig_sge(from, 0, 64), d = rig_sge(to, 64, 64);
	const struct rig_wr w = wr(QP_WR_SEND, flow, &s);

	assert_true(rig_post_recv(to, flow, flow, &d, 1));
	assert_true(rig_post(from, flow, &w));
}

/* The message has come, and no other has. */
static void came(struct rig_node *from, struct rig_node *to, uint32_t flow)
{
	expect(&from->scq_client, flow, QP_WC_SUCCESS);
	expect(&to->rcq_client, flow, QP_WC_SUCCESS);
	expect_none(&A->scq_client);
	expect_none(&A->rcq_client);
	expect_none(&B->scq_client);
	expect_none(&B->rcq_client);
}

/*
 * Connections whose programs post no receive, or whose peers stop in the middle of a message, keep their blocks. They
 * stop connections of their own tenant, and those of no other.
 */
static void one_tenants_blocks_hold_up_no_other(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.blocks = BLOCKS;
	up_with(&cfg);
	others_have_blocks(0, BLOCKS - 16);
	B->q[1].qp.tenant = 5;
	rig_connect(R, 1);
	for (uint32_t f = 0; f < 2; f++) {
		message(A, B, f);
		rig_settle(R);
		came(A, B, f);
		assert_null(B->conn[f].rc.blk);
	}
	others_have_blocks(0, 8); /* seven eighths are the tenant's share */
	assert_int_equal(B->ctx.rc.blk_left, BLOCKS / 8);
	message(A, B, 0);
	message(B, A, 0);
	rig_run(R, RN_NS_PER_MS);
	message(B, A, 1);
	rig_run(R, 100 * RN_NS_PER_MS);
	came(B, A, 1);
	message(A, B, 1);
	rig_run(R, 100 * RN_NS_PER_MS);
	came(A, B, 1);
	assert_true(rc_is_up(&B->conn[0].rc));
	others_have_blocks(0, -BLOCKS / 2);
	rig_run(R, 10 * RN_NS_PER_S);
	expect(&A->scq_client, 0, QP_WC_SUCCESS);
	expect(&B->rcq_client, 0, QP_WC_SUCCESS);
	came(B, A, 0);
	others_have_blocks(0, -(BLOCKS / 2 - 8));
	assert_int_equal(B->ctx.rc.blks_of[0] + B->ctx.rc.blks_of[5] + B->ctx.rc.blk_left, BLOCKS);
	rig_free(R);
}

static uint32_t waits_behind_hole(uint32_t flow)
{
	const struct tcpl_conn *t = &B->conn[flow].tcp;

	return t->h_tail - t->h_head;
}

/* A sends n segments on the flow, of which the first is lost. */
static void leave_a_hole(uint32_t flow, uint32_t n)
{
	const struct qp_sge s = rig_sge(A, 0, 1400);

	for (uint32_t i = 0; i < n; i++) {
		const struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		assert_true(rig_post(A, flow, &w));
	}
	R->lose = 1;
	rig_turn(R, 0);
	assert_int_equal(R->lose, 0);
}

/* A peer may leave a hole for as long as it likes. */
static void one_tenants_holes_leave_packet_buffers_to_others(void **state)
{
	enum { HOLDS = 8, SHARE = HOLDS - HOLDS / 4 };
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	R = rig_new(&cfg);
	B->ctx.cfg.hold_pkts = HOLDS;
	for (uint32_t f = 0; f < 2; f++) {
		B->q[f].qp.tenant = (uint8_t)(f + 1);
		rig_connect(R, f);
	}
	leave_a_hole(0, HOLDS + 2);
	leave_a_hole(1, 3);
	A->paused = true; /* it sends nothing again so far */
	rig_run(R, RN_NS_PER_MS);
	assert_int_equal(waits_behind_hole(0), SHARE);
	assert_int_equal(waits_behind_hole(1), 2);
	assert_int_equal(B->ctx.rc.qp.stats.hold_drops, HOLDS + 1 - SHARE);
	A->paused = false;
	rig_settle(R);
	for (uint32_t i = 0; i < HOLDS + 2 + 3; i++)
		assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_SUCCESS);
	rig_free(R);
}

/* A segment comes to B, so far ahead of the bytes that are next. */
static void comes_ahead(uint32_t by)
{
	const struct tcpl_conn *t = &B->conn[0].tcp;
	struct tcpl_out o = { .seq = t->rcv_nxt + by, .ack = t->snd_nxt, .len = 8, .wnd = 1000, .flags = TCPL_ACK };
	const uint8_t bytes[8] = { 0 };

	o.optlen = tcpl_opt_ts(t->ts_recent, 0, o.opt);
	rig_inject(R, 1, 0, &o, bytes);
	rig_run(R, RN_NS_PER_US);
}

/* Such packets are nobody's, also when the queue pair has come. */
static void packets_behind_a_hole_may_come_before_the_queue_pair(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.manual = true;
	R = rig_new(&cfg);
	const struct rc_accept accept = { .qp = &B->q[0].qp };
	B->q[0].qp.tenant = 5;
	rig_connect_start(R, 0, "hello", 5);
	rig_settle(R);
	comes_ahead(100);
	assert_int_equal(B->ctx.held_of[QP_TENANTS], 1);
	assert_int_equal(rc_accept(&B->ctx.rc, rig_fx(R, 1, QP_FX_CONNECT_REQUEST)->conn, &accept), QP_OK);
	comes_ahead(200);
	assert_int_equal(B->ctx.held_of[QP_TENANTS], 2);
	rig_free(R); /* all packets are given back, and counted */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_peers_leave_records_to_other_connections),
		cmocka_unit_test(one_tenants_rtrs_leave_records_to_others),
		cmocka_unit_test(with_blocks_for_all_no_sender_waits),
		cmocka_unit_test(one_tenants_blocks_hold_up_no_other),
		cmocka_unit_test(one_tenants_holes_leave_packet_buffers_to_others),
		cmocka_unit_test(packets_behind_a_hole_may_come_before_the_queue_pair),
	};

	return cmocka_run_group_tests_name("qp_tenants", tests, NULL, NULL);
}
