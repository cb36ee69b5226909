/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues, and completion queues that are resized while they are in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define SRQ_OFF   (RIG_REGION / 2)
#define SRQ_SLOTS 64u
#define WQE_SLOTS 2u /* up to seven SGEs */
#define SRQ_PD    (RIG_PD + 1)
#define OWNER     77u

static struct rig *R;
static struct rig_node *A, *B;
static struct qp_srq *srq;
static struct spsc_prod ring; /* the client's end of the SRQ's ring */
static uint32_t lkey;         /* key of B's memory, in the SRQ's protection domain */

static void up(uint32_t flows)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	const struct qp_srq_attr a = { .owner = OWNER,
				       .pd = SRQ_PD,
				       .wqe_slots = WQE_SLOTS,
				       .ring = { B->region, RIG_REGION, SRQ_OFF, SRQ_SLOTS, QP_SLOT_SIZE } };
	srq = aligned_alloc(RN_CACHE_LINE, sizeof(*srq));
	assert_int_equal(qp_srq_init(srq, &a), SPSC_OK);
	assert_int_equal(spsc_prod_attach(&ring, &a.ring), SPSC_OK);
	lkey = rig_reg(B, 0, RIG_MEM, QP_ACC_LOCAL_WRITE, SRQ_PD);
	for (uint32_t i = 0; i < flows; i++) {
		rig_share(B, i, srq);
		rig_connect(R, i);
	}
}

static void down(void)
{
	rig_free(R);
	free(srq);
}

static void post(uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct qp_rwqe w = {
		.wr_id = wr_id, .num_sge = 1, .slots = WQE_SLOTS, .sge[0] = { RIG_IOVA(1) + off, len, lkey }
	};

	assert_true(spsc_prod_free(&ring, WQE_SLOTS) >= WQE_SLOTS);
	spsc_prod_copy(&ring, 0, &w, sizeof(w));
	spsc_prod_publish(&ring, WQE_SLOTS);
}

static void send(uint32_t flow, uint32_t off, uint32_t len)
{
	struct qp_sge s = rig_sge(A, off, len);
	const struct rig_wr w = { .wr_id = off, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };

	assert_true(rig_post(A, flow, &w));
	rig_settle(R);
}

static void expect(uint64_t wr_id, uint32_t qpn, enum qp_wc_status status)
{
	struct qp_cqe e;

	assert_true(rig_poll(&B->rcq_client, &e));
	assert_int_equal(e.wr_id, wr_id);
	assert_int_equal(e.qpn, qpn);
	assert_int_equal(e.status, status);
}

static void expect_none(void)
{
	struct qp_cqe e;

	assert_false(rig_poll(&B->rcq_client, &e));
}

static uint32_t events(enum qp_event ev)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < B->n_fx; i++)
		n += (B->fx[i].type == QP_FX_SRQ_EVENT || B->fx[i].type == QP_FX_QP_EVENT) && B->fx[i].code == ev;
	return n;
}

static void queue_pairs_take_in_turn_and_return_the_slots_at_once(void **state)
{
	(void)state;
	up(3);
	for (uint32_t round = 0; round < 5; round++) { /* more receives than the ring holds */
		for (uint32_t i = 0; i < SRQ_SLOTS / WQE_SLOTS; i++)
			post(i, i * 8192, 8192);
		assert_int_equal(spsc_prod_free(&ring, WQE_SLOTS), 0);
		for (uint32_t i = 0; i < SRQ_SLOTS / WQE_SLOTS; i++) {
			memset(A->mem, (int)(round + i), 5000);
			send(i % 3, 0, 5000);
			expect(i, 10 + i % 3, QP_WC_SUCCESS);
			assert_memory_equal(B->mem + i * 8192, A->mem, 5000);
		}
		assert_int_equal(spsc_prod_free(&ring, SRQ_SLOTS), SRQ_SLOTS);
	}
	expect_none();
	assert_int_equal(B->q[0].qp.rq.verdict, SPSC_OK);
	down();
}

static void immediate_data_takes_one_from_it(void **state)
{
	static const uint8_t ops[] = { QP_WR_WRITE_IMM, QP_WR_SEND_IMM, QP_WR_SEND };
	struct qp_sge s;
	struct qp_cqe e;

	(void)state;
	up(2);
	s = rig_sge(A, 0, 300);
	for (uint32_t i = 0; i < 12; i++) {
		const struct rig_wr w = { .op = ops[i % 3],
					  .flags = QP_WF_SIGNALED,
					  .sge = &s,
					  .num_sge = 1,
					  .raddr = RIG_IOVA(1),
					  .rkey = B->rkey,
					  .aux = 500 + i };
		post(i, 8192, 1000);
		assert_true(rig_post(A, i & 1, &w));
		rig_settle(R);
		assert_true(rig_poll(&B->rcq_client, &e));
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.qpn, 10 + (i & 1));
		assert_int_equal(e.op, i % 3 == 0 ? QP_WC_RECV_RDMA_WITH_IMM : QP_WC_RECV);
		assert_int_equal(e.flags, i % 3 < 2 ? QP_WCF_WITH_IMM : 0);
		assert_int_equal(e.aux, i % 3 < 2 ? 500 + i : 0);
		assert_int_equal(e.byte_len, 300);
	}
	expect_none();
	assert_int_equal(spsc_prod_free(&ring, SRQ_SLOTS), SRQ_SLOTS);
	down();
}

static void one_that_ends_leaves_the_others_their_receives(void **state)
{
	(void)state;
	up(2);
	for (uint32_t i = 0; i < 4; i++)
		post(i, i * 131072, 131072);
	struct qp_sge s = rig_sge(A, 0, 131072);
	const struct rig_wr w = { .wr_id = 1, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };
	assert_true(rig_post(A, 0, &w));
	while (spsc_prod_free(&ring, SRQ_SLOTS) < SRQ_SLOTS - 3 * WQE_SLOTS)
		assert_true(rig_step(R)); /* the message has begun: one receive is taken, and not completed yet */
	expect_none();
	B->ctx.rc.qp.now = R->now;
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, QP_S_ERR), QP_OK);
	rig_settle(R);
	expect(0, 10, QP_WC_WR_FLUSH_ERR);
	expect_none();
	assert_int_equal(events(QP_EVENT_LAST_WQE), 1);
	rc_doorbell(&B->ctx.rc, &B->q[0].qp);
	rig_settle(R);
	assert_int_equal(events(QP_EVENT_LAST_WQE), 1);
	for (uint32_t i = 1; i < 4; i++) {
		send(1, 0, 100);
		expect(i, 11, QP_WC_SUCCESS);
	}
	down();
}

static void the_limit_is_told_once_for_each_arming(void **state)
{
	(void)state;
	up(2);
	for (uint32_t i = 0; i < 8; i++)
		post(i, 0, 64);
	qp_srq_arm(srq, 6);
	send(0, 0, 1);
	send(1, 0, 1);
	assert_int_equal(events(QP_EVENT_SRQ_LIMIT), 0); /* six receives are left */
	post(8, 0, 64);
	send(0, 0, 1);
	assert_int_equal(events(QP_EVENT_SRQ_LIMIT), 0); /* again six receives are left */
	send(1, 0, 1);
	assert_int_equal(events(QP_EVENT_SRQ_LIMIT), 1);
	assert_int_equal(qp_srq_limit(srq), 0);
	send(1, 0, 1);
	assert_int_equal(events(QP_EVENT_SRQ_LIMIT), 1);
	qp_srq_arm(srq, 2);
	send(0, 0, 1);
	send(0, 0, 1);
	assert_int_equal(events(QP_EVENT_SRQ_LIMIT), 1);
	send(0, 0, 1);
	assert_int_equal(events(QP_EVENT_SRQ_LIMIT), 2);
	for (uint32_t i = 0; i < B->n_fx; i++)
		assert_true(B->fx[i].type != QP_FX_SRQ_EVENT || B->fx[i].owner == OWNER);
	down();
}

static void an_empty_one_ends_the_connection_as_an_empty_receive_queue_does(void **state)
{
	(void)state;
	up(2);
	send(0, 0, 10);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->q[1].qp.state, QP_S_RTS);
	assert_int_equal(events(QP_EVENT_LAST_WQE), 1);
	assert_int_equal(events(QP_EVENT_SRQ_ERR), 0);
	down();
}

static void receives_that_lie_cost_their_taker_and_no_one_else(void **state)
{
	static const struct qp_rwqe lies[] = {
		{ .wr_id = 50, .num_sge = 1, .slots = 1 }, /* fewer slots than each of the queue's receives has */
		{ .wr_id = 50, .num_sge = 8, .slots = 2 }, /* more SGEs than fit into the slots */
		{ .wr_id = 50, .num_sge = 31, .slots = 8 },    { .wr_id = 50, .num_sge = 0, .slots = 0 },
		{ .wr_id = 50, .num_sge = 255, .slots = 255 },
	};

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(lies); i++) {
		up(2);
		spsc_prod_copy(&ring, 0, &lies[i], sizeof(lies[i]));
		spsc_prod_publish(&ring, WQE_SLOTS);
		post(51, 0, 64);
		send(0, 0, 10);
		expect(50, 10, QP_WC_LOC_QP_OP_ERR);
		assert_int_equal(B->q[0].qp.state, QP_S_ERR);
		send(1, 0, 10);
		expect(51, 11, QP_WC_SUCCESS);
		expect_none();
		down();
	}
}

static void an_impossible_index_is_told_once(void **state)
{
	(void)state;
	up(2);
	post(1, 0, 64);
	ring.hdr->prod += 1000;
	send(0, 0, 10);
	send(1, 0, 10);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->q[1].qp.state, QP_S_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.bad_rings, 2);
	assert_int_equal(events(QP_EVENT_SRQ_ERR), 1);
	down();
}

static void part_of_a_receive_is_none(void **state)
{
	(void)state;
	up(1);
	const struct qp_rwqe w = { .wr_id = 5, .num_sge = 1, .slots = WQE_SLOTS, .sge[0] = { RIG_IOVA(1), 64, lkey } };
	spsc_prod_copy(&ring, 0, &w, sizeof(w));
	spsc_prod_publish(&ring, 1);
	send(0, 0, 10);
	expect(5, 10, QP_WC_LOC_QP_OP_ERR);
	expect_none();
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	down();
}

static void the_receives_belong_to_the_queues_domain(void **state)
{
	(void)state;
	up(1);
	lkey = B->lkey; /* in the QP's own protection domain */
	post(1, 0, 64);
	send(0, 0, 10);
	expect(1, 10, QP_WC_LOC_PROT_ERR);
	down();
}

/* A client rings for no receive at all. Connections that wait are looked at in their order, some in each turn. */
static void a_bell_brings_a_part_of_many_that_wait_in_each_turn(void **state)
{
	enum { MANY = 600, PART = 256 };
	struct rc *c = aligned_alloc(RN_CACHE_LINE, MANY * sizeof(*c)), *ready;
	uint32_t n, at = 0;

	(void)state;
	up(1);
	struct rc_ctx *ctx = &B->ctx.rc;
	memset(c, 0, MANY * sizeof(*c));
	for (uint32_t i = 0; i < MANY; i++) {
		c[i].state = RC_DEAD;
		rn_list_push_back(&ctx->rnr, &c[i].rnr.link);
	}
	ctx->n_rnr = MANY;
	assert_int_equal(rc_recvs_look(ctx), 0);
	rc_recvs(ctx);
	for (uint32_t turn = 0; (n = rc_recvs_look(ctx)) > 0; turn++) {
		assert_true(n <= PART);
		for (; n > 0; n--) {
			ready = rn_list_pop(&ctx->ready, struct rc, ready);
			assert_ptr_equal(ready, &c[at++ % MANY]);
		}
		if (turn == 0)
			rc_recvs(ctx);
	}
	assert_int_equal(at, PART + MANY); /* the second bell asks for all of them once more */
	ctx->rnr = (struct rn_list){ 0 };
	ctx->n_rnr = 0;
	free(c);
	down();
}

/* ---- completion queues that grow ---- */

static void a_larger_ring_takes_over_in_order(void **state)
{
	enum { MORE = 2 * RIG_CQE };
	struct spsc_prod to[QP_MAX_WORKERS];
	const struct qp_cq_attr a = { .region = NULL,
				      .region_size = RIG_REGION,
				      .ring_off = SRQ_OFF + 65536,
				      .ring_stride = spsc_size(MORE, QP_CQE_SIZE),
				      .workers = 1,
				      .cqe = MORE };
	struct qp_cq_attr at = a;
	struct qp_cqe e;

	(void)state;
	up(1);
	at.region = B->region;
	for (uint32_t i = 0; i < 20; i++)
		post(i, 0, 64);
	for (uint32_t i = 0; i < 10; i++)
		send(0, 0, 1);
	for (uint32_t i = 0; i < 4; i++)
		expect(i, 10, QP_WC_SUCCESS);
	assert_int_equal(qp_cq_rings(&at, to), SPSC_OK);
	qp_cq_change(&B->ctx.rc.qp, &B->rcq, to);
	struct spsc_place place = { B->region, RIG_REGION, a.ring_off, MORE, QP_CQE_SIZE };
	assert_int_equal(spsc_cons_attach(&B->rcq_client, &place), SPSC_OK);
	for (uint32_t i = 10; i < 20; i++)
		send(0, 0, 1);
	for (uint32_t i = 4; i < 20; i++)
		expect(i, 10, QP_WC_SUCCESS);
	expect_none();

	/* Invalid rings: the CQ has not changed. */
	at.ring_off = RIG_REGION - 64;
	assert_int_equal(qp_cq_rings(&at, to), SPSC_BAD_RANGE);
	at.ring_off = UINT64_MAX;
	assert_int_equal(qp_cq_rings(&at, to), SPSC_BAD_RANGE);
	at.ring_off = SRQ_OFF + 65536 + 4;
	assert_int_equal(qp_cq_rings(&at, to), SPSC_BAD_ALIGN);

	/*
	 * The client has written garbage into the new ring, so that it counts as full: an overrun, and no write beyond
	 * the ring.
	 */
	post(30, 0, 64);
	send(0, 0, 1);
	at.ring_off = SRQ_OFF + 65536;
	at.cqe = 16;
	memset(B->region + at.ring_off, 0, spsc_size(16, QP_CQE_SIZE));
	((struct spsc_hdr *)(void *)(B->region + at.ring_off))->prod = 16;
	assert_int_equal(qp_cq_rings(&at, to), SPSC_OK);
	qp_cq_change(&B->ctx.rc.qp, &B->rcq, to);
	assert_int_equal(B->rcq.shm->error, 1);
	assert_false(rig_poll(&B->rcq_client, &e) && e.wr_id != 30);
	down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_pairs_take_in_turn_and_return_the_slots_at_once),
		cmocka_unit_test(immediate_data_takes_one_from_it),
		cmocka_unit_test(one_that_ends_leaves_the_others_their_receives),
		cmocka_unit_test(the_limit_is_told_once_for_each_arming),
		cmocka_unit_test(an_empty_one_ends_the_connection_as_an_empty_receive_queue_does),
		cmocka_unit_test(receives_that_lie_cost_their_taker_and_no_one_else),
		cmocka_unit_test(an_impossible_index_is_told_once),
		cmocka_unit_test(part_of_a_receive_is_none),
		cmocka_unit_test(the_receives_belong_to_the_queues_domain),
		cmocka_unit_test(a_bell_brings_a_part_of_many_that_wait_in_each_turn),
		cmocka_unit_test(a_larger_ring_takes_over_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
