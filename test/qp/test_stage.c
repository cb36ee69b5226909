/* SPDX-License-Identifier: BSD-3-Clause */
/* FPDUs that come in pieces: the memory in which they are put together is scarce, and comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client_rig.h"
#include "tcp_lite/tcpl_int.h"

#define ALWAYS 1000000u /* of the link's chances, ppm */

static void queue_send(uint32_t flow, uint64_t id, uint32_t len)
{
	struct qp_sge s = rig_sge(A, 0, len);
	const struct rig_wr w = wr(QP_WR_SEND, id, &s);

	assert_true(rig_queue(A, flow, &w));
}

static void post_recv(uint32_t flow, uint64_t id)
{
	struct qp_sge s = rig_sge(B, 0, 4096);

	assert_true(rig_post_recv(B, flow, id, &s, 1));
	rig_turn(R, 1);
}

/* One segment carries both messages. It is cut within the first one, so its second piece has all of the second one. */
static void a_message_that_waits_whole_keeps_no_stage(void **state)
{
	(void)state;
	up();
	qp_set(&B->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = RN_NEVER });
	post_recv(0, 11);
	R->cfg.link.cut = ALWAYS;
	queue_send(0, 1, 1200);
	queue_send(0, 2, 10);
	rc_doorbell(&A->ctx.rc, &A->q[0].qp);
	rig_run(R, RN_NS_PER_S);
	expect(&B->rcq_client, 11, QP_WC_SUCCESS);
	assert_int_equal(B->ctx.rc.qp.stats.staged, 1);
	assert_int_equal(B->conn[0].rc.rnr.state, RC_RNR_WAITS);
	assert_int_equal(B->ctx.rc.rnr_stages, 0);
	assert_null(B->conn[0].rc.in.mpa.stage);
	post_recv(0, 12);
	expect(&B->rcq_client, 12, QP_WC_SUCCESS);
	rig_free(R);
}

/* The first octets of an FPDU come to B, and no more. */
static void begin(uint32_t flow)
{
	const struct tcpl_conn *tcp = &B->conn[flow].tcp;
	const uint8_t bytes[50] = { 0x03, 0xe8 }; /* the length of its ULPDU: 1,000 */
	struct tcpl_out o = {
		.seq = tcp->rcv_nxt, .ack = tcp->snd_nxt, .len = sizeof(bytes), .wnd = 1000, .flags = TCPL_ACK
	};

	o.optlen = tcpl_opt_ts(tcp->ts_recent, 0, o.opt);
	rig_inject(R, 1, flow, &o, bytes);
	rig_run(R, RN_NS_PER_MS);
	assert_non_null(B->conn[flow].rc.in.mpa.stage);
}

/* Connects all flows; the last one is the tenant's. The peers of all others have stopped within an FPDU. */
static void up_stopped(uint32_t stages, uint8_t tenant)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.stages = stages;
	up_with(&cfg);
	B->q[RIG_FLOWS - 1].qp.tenant = tenant;
	for (uint32_t f = 1; f < RIG_FLOWS; f++)
		rig_connect(R, f);
	for (uint32_t f = 0; f < RIG_FLOWS - 1; f++)
		begin(f);
	post_recv(RIG_FLOWS - 1, 7);
	R->cfg.link.cut = ALWAYS;
	queue_send(RIG_FLOWS - 1, 1, 1200);
	rc_doorbell(&A->ctx.rc, &A->q[RIG_FLOWS - 1].qp);
	rig_run(R, RN_NS_PER_S);
}

static void alive(uint32_t from)
{
	for (uint32_t f = from; f < RIG_FLOWS; f++) {
		assert_int_equal(B->q[f].qp.state, QP_S_RTS);
		assert_int_equal(A->q[f].qp.state, QP_S_RTS);
	}
}

static void a_quarter_of_the_stages_is_for_other_tenants(void **state)
{
	(void)state;
	up_stopped(RIG_FLOWS, 5);
	expect(&B->rcq_client, 7, QP_WC_SUCCESS);
	assert_int_equal(B->ctx.rc.qp.stats.no_stage, 0);
	rig_free(R);
	up_stopped(RIG_FLOWS, 0);
	expect_none(&B->rcq_client);
	alive(0);
	rig_free(R);
}

static void without_a_stage_an_fpdu_waits_until_one_comes_back(void **state)
{
	(void)state;
	up_stopped(RIG_FLOWS - 1, 5);
	expect_none(&B->rcq_client);
	alive(0);
	B->ctx.rc.qp.now = R->now;
	rc_abort(&B->ctx.rc, &B->conn[1].rc);
	rig_run(R, RN_NS_PER_MS);
	expect(&B->rcq_client, 7, QP_WC_SUCCESS);
	alive(2);
	rig_free(R);
}

static void a_peer_that_has_stopped_for_long_loses_its_stage_to_another(void **state)
{
	(void)state;
	up_stopped(RIG_FLOWS - 1, 5);
	rig_run(R, 8 * RN_NS_PER_S);
	expect_none(&B->rcq_client);
	alive(0);
	rig_run(R, 3 * RN_NS_PER_S);
	expect(&B->rcq_client, 7, QP_WC_SUCCESS);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR); /* the one that has stopped first, and no other */
	alive(1);
	/* From now on the connection works as before. */
	post_recv(RIG_FLOWS - 1, 8);
	queue_send(RIG_FLOWS - 1, 2, 1200);
	rc_doorbell(&A->ctx.rc, &A->q[RIG_FLOWS - 1].qp);
	rig_run(R, RN_NS_PER_S);
	expect(&B->rcq_client, 8, QP_WC_SUCCESS);
	rig_free(R);
}

static void one_that_waits_for_a_stage_can_be_ended(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		up_stopped(RIG_FLOWS - 1, 5);
		B->ctx.rc.qp.now = R->now;
		if (i == 0)
			rc_destroy(&B->ctx.rc, &B->q[RIG_FLOWS - 1].qp);
		else if (i == 1)
			rc_abort(&B->ctx.rc, &B->conn[RIG_FLOWS - 1].rc);
		else
			rc_disconnect(&B->ctx.rc, &B->conn[RIG_FLOWS - 1].rc);
		rig_run(R, 20 * RN_NS_PER_S);
		for (uint32_t t = 0; t < QP_TENANTS; t++)
			assert_true(rn_list_empty(&B->ctx.rc.stageless[t]));
		assert_int_equal(B->ctx.rnr_kept, 0);
		rig_free(R);
	}
}

/* Two connections of a tenant wait for the only stage, and behind them one of another tenant. */
static void tenants_take_turns_for_a_stage(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.stages = 1;
	up_with(&cfg);
	B->q[3].qp.tenant = 5;
	for (uint32_t f = 1; f < 4; f++)
		rig_connect(R, f);
	begin(0);
	R->cfg.link.cut = ALWAYS;
	for (uint32_t f = 1; f < 4; f++) {
		post_recv(f, f);
		queue_send(f, 1, 1200);
		rc_doorbell(&A->ctx.rc, &A->q[f].qp);
		rig_run(R, RN_NS_PER_S);
		assert_true(B->conn[f].rc.rnr.stage);
	}
	B->ctx.rc.qp.now = R->now;
	rc_abort(&B->ctx.rc, &B->conn[0].rc);
	rig_run(R, RN_NS_PER_S);
	expect(&B->rcq_client, 1, QP_WC_SUCCESS);
	expect(&B->rcq_client, 3, QP_WC_SUCCESS);
	expect(&B->rcq_client, 2, QP_WC_SUCCESS);
	rig_free(R);
}

/* Four connections share one stage over a bad line. */
static void data_is_whole_with_a_single_stage(void **state)
{
	enum { N = 100, LEN = 2500 };
	uint64_t no_stage = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct rig_cfg cfg;
		uint32_t done = 0;
		struct qp_cqe e;

		rig_defaults(&cfg);
		cfg.seed = seed;
		cfg.stages = 1;
		cfg.markers[1] = seed & 1;
		up_with(&cfg);
		for (uint32_t f = 1; f < RIG_FLOWS; f++)
			rig_connect(R, f);
		R->cfg.link = (struct rig_link){ .loss = 20000,
						 .dup = 20000,
						 .reorder = 50000,
						 .cut = 300000,
						 .delay_ns = 20 * RN_NS_PER_US,
						 .reorder_ns = 100 * RN_NS_PER_US };
		for (uint32_t i = 0; i < RIG_FLOWS * N * LEN; i++)
			A->mem[i] = (uint8_t)(i * 7 + (i >> 8) + seed);
		for (uint32_t i = 0; i < RIG_FLOWS * N; i++) {
			struct qp_sge s = rig_sge(A, i * LEN, LEN);
			struct rig_wr w = wr(QP_WR_WRITE, i, &s);
			w.raddr = RIG_IOVA(1) + i * LEN;
			assert_true(rig_post(A, i % RIG_FLOWS, &w));
		}
		while (done < RIG_FLOWS * N) {
			e = rig_wait(R, &A->scq_client);
			assert_int_equal(e.status, QP_WC_SUCCESS);
			done++;
		}
		assert_memory_equal(B->mem, A->mem, RIG_FLOWS * N * LEN);
		no_stage += B->ctx.rc.qp.stats.no_stage;
		rig_free(R);
	}
	assert_true(no_stage > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_that_waits_whole_keeps_no_stage),
		cmocka_unit_test(a_quarter_of_the_stages_is_for_other_tenants),
		cmocka_unit_test(without_a_stage_an_fpdu_waits_until_one_comes_back),
		cmocka_unit_test(a_peer_that_has_stopped_for_long_loses_its_stage_to_another),
		cmocka_unit_test(one_that_waits_for_a_stage_can_be_ended),
		cmocka_unit_test(tenants_take_turns_for_a_stage),
		cmocka_unit_test(data_is_whole_with_a_single_stage),
	};

	return cmocka_run_group_tests_name("qp_stage", tests, NULL, NULL);
}
