/* SPDX-License-Identifier: BSD-3-Clause */
/* Extended reliable connections: one connection, and behind its target the shared receive queues of two processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_be.h"
#include "rig.h"

#define SLOTS  32u
#define CQE    64u
#define OFF(i) (RIG_REGION / 2 + (i)*32768u) /* offset of process i's queues in the queue region */
#define PD(i)  (20u + (i))
#define PROCS  3u /* the last process is in another domain */

struct proc {
	struct qp_srq *srq;
	struct qp_cq *cq;
	struct spsc_prod ring; /* the client's ends of the rings */
	struct spsc_cons polled;
	uint32_t lkey, rkey; /* keys of B's memory, in the process's PD */
};

static struct rig *R;
static struct rig_node *A, *B;
static struct proc P[PROCS];
static struct qp_xrcd *domain[2];
static struct qp_target *target;
static struct qp_srq **numbers;

static void proc_up(uint32_t i)
{
	struct proc *p = &P[i];
	const uint64_t at = OFF(i), rings = at + 4096;
	const struct qp_cq_attr ca = { .owner = 200 + i,
				       .region = B->region,
				       .region_size = RIG_REGION,
				       .shm_off = at,
				       .ring_off = rings,
				       .ring_stride = 0,
				       .workers = 1,
				       .cqe = CQE };
	const struct spsc_place cq = { B->region, RIG_REGION, rings, CQE, QP_CQE_SIZE };
	const struct qp_srq_attr sa = { .owner = 300 + i,
					.pd = PD(i),
					.wqe_slots = 1,
					.ring = { B->region, RIG_REGION, at + 16384, SLOTS, QP_SLOT_SIZE } };

	p->cq = aligned_alloc(RN_CACHE_LINE, sizeof(*p->cq));
	p->srq = aligned_alloc(RN_CACHE_LINE, sizeof(*p->srq));
	assert_int_equal(qp_cq_init(p->cq, &ca), SPSC_OK);
	assert_int_equal(spsc_cons_attach(&p->polled, &cq), SPSC_OK);
	assert_int_equal(qp_srq_init(p->srq, &sa), SPSC_OK);
	assert_int_equal(spsc_prod_attach(&p->ring, &sa.ring), SPSC_OK);
	p->srq->xrcd = domain[i / 2];
	p->srq->cq = p->cq;
	assert_true(qp_xsrq_publish(&B->dev, p->srq, 100 * i));
	p->lkey = rig_reg(B, 0, RIG_MEM, QP_ACC_LOCAL_WRITE, PD(i));
	p->rkey = rig_reg(B, 0, RIG_MEM, QP_ACC_ALL & ~QP_ACC_MW_BIND, PD(i));
}

/* A's QP of the flow is the initiator and B's the target; both connect without connection manager. */
static void connect(uint32_t flow, struct qp_target *to, uint64_t patience)
{
	struct qp_attr a = rig_attr(A, flow);

	a.xrc = QP_XRC_INITIATOR;
	assert_int_equal(qp_init(&A->q[flow].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&A->ctx.rc, &A->q[flow].qp, QP_S_INIT), QP_OK);
	a = rig_attr(B, flow);
	qp_target_attr(to, domain[0], &a);
	assert_int_equal(qp_init(&B->q[flow].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[flow].qp, QP_S_INIT), QP_OK);
	qp_set(&B->q[flow].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = patience });
	rig_connect(R, flow);
}

/* Flow 0 is connected. */
static void up(uint64_t patience)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.p2p = true;
	cfg.accept_flags = cfg.connect_flags = RC_KEEP_RECV;
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	numbers = calloc(QP_XSRQ_NUMS, sizeof(*numbers));
	B->dev.xsrq = numbers;
	for (uint32_t i = 0; i < 2; i++)
		domain[i] = calloc(1, sizeof(*domain[i]));
	for (uint32_t i = 0; i < PROCS; i++)
		proc_up(i);
	target = aligned_alloc(RN_CACHE_LINE, sizeof(*target));
	connect(0, target, patience);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		A->mem[i] = (uint8_t)(i * 7 + (i >> 8) + (i >> 16));
}

/* Target and initiator belong to the rig. */
static void down(void)
{
	rig_free(R);
	for (uint32_t i = 0; i < PROCS; i++) {
		free(P[i].srq);
		free(P[i].cq);
	}
	free(domain[0]);
	free(domain[1]);
	free(target);
	free(numbers);
}

static void post(uint32_t i, uint64_t wr_id, uint32_t off, uint32_t len)
{
	const struct qp_rwqe w = {
		.wr_id = wr_id, .num_sge = 1, .slots = 1, .sge[0] = { RIG_IOVA(1) + off, len, P[i].lkey }
	};

	assert_true(spsc_prod_free(&P[i].ring, 1) >= 1);
	memcpy(spsc_prod_slot(&P[i].ring, 0), &w, sizeof(w));
	spsc_prod_publish(&P[i].ring, 1);
	rc_recvs(&B->ctx.rc);
	rc_recvs_look(&B->ctx.rc);
}

static uint32_t via; /* the flow whose initiator sends */

static void start(uint8_t op, uint32_t to, uint32_t off, uint32_t len, uint32_t rkey)
{
	struct qp_sge s = rig_sge(A, off, len);
	const struct rig_wr w = { .wr_id = off,
				  .op = op,
				  .flags = QP_WF_SIGNALED,
				  .sge = &s,
				  .num_sge = 1,
				  .raddr = RIG_IOVA(1) + off,
				  .rkey = rkey,
				  .aux = 0x01020304,
				  .srqn = (uint16_t)to };

	assert_true(rig_post(A, via, &w));
}

static void go(uint8_t op, uint32_t to, uint32_t off, uint32_t len, uint32_t rkey)
{
	start(op, to, off, len, rkey);
	rig_settle(R);
}

static struct qp_cqe received(uint32_t i)
{
	struct qp_cqe e = { 0 };

	assert_true(rig_poll(&P[i].polled, &e));
	return e;
}

static struct qp_cqe sent(void)
{
	struct qp_cqe e = { 0 };

	assert_true(rig_poll(&A->scq_client, &e));
	return e;
}

static bool nothing(uint32_t i)
{
	struct qp_cqe e;

	return !rig_poll(&P[i].polled, &e);
}

/* Whether a part of a message has come, and not all of it. */
static bool in_message(uint32_t flow)
{
	const struct qp_work *k = B->conn[flow].rc.m.work;

	return k != NULL && k->recv.loaded;
}

/* The peer gets a Terminate, and the sender's work request this status. */
static void refused(enum qp_wc_status status)
{
	assert_int_equal(sent().status, status);
	assert_int_equal(B->ctx.rc.qp.stats.terms_sent, 1);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_true(nothing(0) && nothing(1) && nothing(2));
}

static void each_message_goes_to_the_queue_and_the_cq_that_it_names(void **state)
{
	(void)state;
	up(0);
	for (uint32_t round = 0; round < 20; round++) {
		const uint32_t i = round % 3 == 0, off = round * 16384, len = round % 2 == 0 ? 100 : 9000;
		post(i, 1000 + round, off, 16384);
		go(QP_WR_SEND, P[i].srq->num, off, len, 0);
		const struct qp_cqe e = received(i);
		assert_int_equal(e.wr_id, 1000 + round);
		assert_int_equal(e.qpn, 10);
		assert_int_equal(e.byte_len, len);
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_true(nothing(1 - i));
		assert_memory_equal(B->mem + off, A->mem + off, len);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
	}
	down();
}

static void immediates_are_told_to_the_queue_that_takes_them(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(0);
	post(0, 1, 0, 4096);
	post(1, 2, 8192, 4096);
	go(QP_WR_SEND_IMM, P[1].srq->num, 0, 300, 0);
	e = received(1);
	assert_true(e.wr_id == 2 && e.aux == 0x01020304 && e.byte_len == 300 && e.flags == QP_WCF_WITH_IMM);
	go(QP_WR_WRITE_IMM, P[0].srq->num, 4096, 5000, P[1].rkey);
	e = received(0);
	assert_true(e.wr_id == 1 && e.aux == 0x01020304 && e.byte_len == 5000 && e.op == QP_WC_RECV_RDMA_WITH_IMM);
	assert_memory_equal(B->mem + 4096, A->mem + 4096, 5000);
	down();
}

static void memory_of_each_pd_that_has_a_queue_in_the_domain_is_reached_and_no_other(void **state)
{
	(void)state;
	up(0);
	for (uint32_t round = 0; round < 4; round++) {
		const uint32_t off = round * 65536;
		go(QP_WR_WRITE, 0, off, 20000, P[round % 2].rkey);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_memory_equal(B->mem + off, A->mem + off, 20000);
		memset(B->mem + off, 1, 20000);
		/* Reads of both PDs are under way at once: each returns bytes of its own PD */
		start(QP_WR_READ, 0, off, 20000, P[round % 2].rkey);
		start(QP_WR_READ, 0, off + 32768, 20000, P[1 - round % 2].rkey);
		rig_settle(R);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_memory_equal(A->mem + off, B->mem + off, 20000);
		go(QP_WR_FETCH_ADD, 0, off, 8, P[round % 2].rkey);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
	}
	go(QP_WR_WRITE, 0, 0, 64, P[2].rkey);
	refused(QP_WC_REM_ACCESS_ERR);
	down();
}

static void a_queue_of_another_domain_is_refused(void **state)
{
	(void)state;
	up(RN_NEVER);
	post(2, 1, 0, 4096);
	go(QP_WR_SEND, P[2].srq->num, 0, 64, 0);
	refused(QP_WC_REM_INV_REQ_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.xrc_refused, 1);
	down();
}

static void a_number_that_no_queue_has_is_refused(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		up(RN_NEVER);
		go(QP_WR_SEND, i == 0 ? 0 : 40000, 0, 64, 0);
		refused(QP_WC_REM_INV_REQ_ERR);
		down();
	}
}

/* The word of a Send with Invalidate is an STag, so the Send cannot name a queue. */
static void a_send_with_invalidate_is_refused(void **state)
{
	(void)state;
	up(0);
	post(0, 1, 0, 4096);
	go(QP_WR_SEND_INV, P[0].srq->num, 0, 64, 0);
	refused(QP_WC_REM_INV_REQ_ERR);
	down();
}

static void an_initiator_receives_nothing(void **state)
{
	struct qp_attr a;

	(void)state;
	up(0);
	a = rig_attr(B, 1); /* an ordinary queue pair, which the daemon would not have let connect */
	assert_int_equal(qp_init(&B->q[1].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[1].qp, QP_S_INIT), QP_OK);
	a = rig_attr(A, 1);
	a.xrc = QP_XRC_INITIATOR;
	assert_int_equal(qp_init(&A->q[1].qp, &a), QP_OK);
	assert_int_equal(rc_modify(&A->ctx.rc, &A->q[1].qp, QP_S_INIT), QP_OK);
	rig_connect(R, 1);
	struct qp_sge s = rig_sge(B, 0, 64);
	const struct rig_wr w = { .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };
	s = rig_sge(A, 0, 64);
	assert_true(rig_post_recv(A, 1, 5, &s, 1));
	s = rig_sge(B, 0, 64);
	assert_true(rig_post(B, 1, &w));
	rig_settle(R);
	assert_int_equal(A->ctx.rc.qp.stats.xrc_refused, 1);
	down();
}

static void a_message_waits_for_a_receive_of_the_queue_that_it_names(void **state)
{
	(void)state;
	up(RN_NEVER);
	post(0, 1, 0, 16384);
	start(QP_WR_SEND, P[1].srq->num, 16384, 5000, 0);
	start(QP_WR_SEND, P[0].srq->num, 0, 5000, 0);
	rig_run(R, 20 * RN_NS_PER_S);
	assert_true(nothing(0) && nothing(1)); /* later messages wait behind it, as on InfiniBand */
	post(1, 2, 16384, 16384);
	rig_settle(R);
	assert_int_equal(received(1).wr_id, 2);
	assert_int_equal(received(0).wr_id, 1);
	assert_memory_equal(B->mem, A->mem, 5000);
	down();
}

static void leave(uint32_t i)
{
	qp_xsrq_withdraw(&B->dev, P[i].srq);
	assert_true(rc_srq_leave(&B->ctx.rc, P[i].srq));
}

/* Nothing of the process is touched from now on: its memory is overwritten. */
static void gone(uint32_t i)
{
	rig_turn(R, 1);
	memset(P[i].srq, 0xff, sizeof(*P[i].srq));
	memset(P[i].cq, 0xff, sizeof(*P[i].cq));
}

static void a_queue_that_ends_leaves_the_connection_to_the_others(void **state)
{
	(void)state;
	up(0);
	post(0, 1, 0, 4096);
	post(1, 2, 8192, 4096);
	go(QP_WR_SEND, P[0].srq->num, 0, 64, 0);
	go(QP_WR_WRITE, 0, 0, 64, P[0].rkey);
	(void)sent();
	(void)sent();
	leave(0);
	gone(0);
	go(QP_WR_SEND, P[1].srq->num, 8192, 64, 0);
	assert_int_equal(received(1).wr_id, 2);
	assert_int_equal(sent().status, QP_WC_SUCCESS);
	go(QP_WR_WRITE, 0, 0, 64, P[0].rkey); /* the process's PD no longer has a queue in the domain */
	assert_int_equal(sent().status, QP_WC_REM_ACCESS_ERR);
	down();
}

static void a_queue_that_ends_while_a_message_waits_for_it_ends_the_connection(void **state)
{
	(void)state;
	up(RN_NEVER);
	start(QP_WR_SEND, P[0].srq->num, 0, 5000, 0);
	rig_run(R, RN_NS_PER_S);
	assert_int_equal(P[0].srq->waiting[0], 1);
	leave(0);
	assert_int_equal(P[0].srq->waiting[0], 0);
	gone(0);
	rig_settle(R);
	assert_int_equal(B->ctx.rc.qp.stats.xrc_refused, 1);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	down();
}

static void a_queue_that_ends_in_the_middle_of_a_message_flushes_what_was_taken(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(0);
	post(0, 1, 0, 1 << 20);
	start(QP_WR_SEND, P[0].srq->num, 0, 1 << 20, 0);
	while (!in_message(0))
		assert_true(rig_step(R));
	leave(0);
	rig_turn(R, 1);
	e = received(0);
	assert_true(e.wr_id == 1 && e.status == QP_WC_WR_FLUSH_ERR);
	gone(0);
	rig_settle(R);
	assert_int_equal(sent().status, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	down();
}

static void a_queue_that_ends_in_the_middle_of_many_messages_tells_of_each(void **state)
{
	enum { TARGETS = 3 };
	static struct qp_target more[TARGETS] RN_ALIGNED(RN_CACHE_LINE);

	(void)state;
	up(0);
	struct qp_ctx *qp = &B->ctx.rc.qp;
	for (uint32_t f = 1; f < TARGETS; f++)
		connect(f, &more[f], 0);
	for (via = 0; via < TARGETS; via++) {
		post(0, via, 0, 1 << 20);
		start(QP_WR_SEND, P[0].srq->num, 0, 1 << 20, 0);
	}
	via = 0;
	while (!in_message(0) || !in_message(1) || !in_message(2))
		assert_true(rig_step(R));
	while (qp->n_fx + QP_FX_PER_CALL < QP_FX_MAX) /* other connections have reported so much in this turn */
		(void)qp_fx_add(qp, QP_FX_CQ_NOTIFY, 0);
	qp_xsrq_withdraw(&B->dev, P[0].srq);
	assert_false(rc_srq_leave(&B->ctx.rc, P[0].srq));
	rig_turn(R, 1);
	assert_true(rc_srq_leave(&B->ctx.rc, P[0].srq));
	gone(0);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_QP_EVENT), TARGETS);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_DISCONNECTED), TARGETS);
	down();
}

/* The queue is the last of the target's domain that anything refers to; afterwards nothing does. */
static void last_leaves(uint32_t i)
{
	leave(i);
	gone(i);
	assert_true(rn_list_empty(&B->ctx.rc.qp.targets));
	assert_true(rn_list_empty(&B->ctx.rc.rnr));
	assert_ptr_equal(B->q[0].qp.srq, &target->srq);
	assert_ptr_equal(B->q[0].qp.rcq, &target->cq);
}

static void an_open_message_goes_on_when_another_queue_of_the_domain_ends(void **state)
{
	const uint32_t len = 1 << 20;

	(void)state;
	for (uint32_t wrote = 0; wrote < 2; wrote++) {
		up(0);
		if (wrote) {
			go(QP_WR_WRITE, 0, len, 64, P[0].rkey);
			assert_int_equal(sent().status, QP_WC_SUCCESS);
		}
		post(1, 2, 0, len);
		start(QP_WR_SEND, P[1].srq->num, 0, len, 0);
		while (!in_message(0))
			assert_true(rig_step(R));
		leave(0);
		gone(0);
		assert_int_equal(B->q[0].qp.pd, 0); /* the process's PD no longer has a queue in the domain */
		rig_settle(R);
		const struct qp_cqe e = received(1);
		assert_true(e.wr_id == 2 && e.status == QP_WC_SUCCESS && e.byte_len == len);
		assert_int_equal(sent().status, QP_WC_SUCCESS);
		assert_memory_equal(B->mem, A->mem, len);
		last_leaves(1);
		down();
	}
}

static void a_waiting_message_waits_on_when_another_queue_of_the_domain_ends(void **state)
{
	(void)state;
	for (uint32_t posted = 0; posted < 2; posted++) {
		up(RN_NEVER);
		start(QP_WR_SEND, P[1].srq->num, 0, 5000, 0);
		rig_run(R, RN_NS_PER_S);
		leave(0);
		gone(0);
		rig_run(R, RN_NS_PER_S);
		assert_int_equal(P[1].srq->waiting[0], 1);
		if (posted) {
			post(1, 2, 0, 16384);
			rig_settle(R);
			assert_int_equal(received(1).wr_id, 2);
			assert_int_equal(sent().status, QP_WC_SUCCESS);
			assert_memory_equal(B->mem, A->mem, 5000);
		}
		last_leaves(1);
		rig_settle(R);
		assert_int_equal(B->ctx.rc.qp.stats.xrc_refused, posted ? 0 : 1);
		down();
	}
}

static void an_error_of_the_target_flushes_what_it_has_taken_and_nothing_else(void **state)
{
	struct qp_cqe e;

	(void)state;
	up(0);
	post(0, 1, 0, 1 << 20);
	post(0, 2, 0, 1 << 20);
	post(1, 3, 0, 1 << 20);
	start(QP_WR_SEND, P[0].srq->num, 0, 1 << 20, 0);
	while (!in_message(0))
		assert_true(rig_step(R));
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, QP_S_ERR), QP_OK);
	rig_settle(R);
	e = received(0);
	assert_true(e.wr_id == 1 && e.status == QP_WC_WR_FLUSH_ERR);
	assert_true(nothing(0) && nothing(1));
	down();
}

/* Queue pairs of other kinds send the reserved word as 0, whatever their client has written there. */
static uint32_t word;
static void look(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *payload)
{
	(void)r;
	/* MPA's length, DDP's control octets, then the word: RFC 5041, 4.3 */
	if (from == 0 && o->len > 8 && (payload[3] & 0xf) == RDMAP_SEND)
		word = rn_load_be32(payload + 4);
}

static void the_number_is_on_the_wire_of_an_initiator_and_of_nobody_else(void **state)
{
	struct qp_sge s;

	(void)state;
	up(0);
	R->tap = look;
	post(0, 1, 0, 4096);
	go(QP_WR_SEND, P[0].srq->num, 0, 64, 0);
	assert_int_equal(word, P[0].srq->num);
	rig_connect(R, 1);
	s = rig_sge(B, 0, 64);
	assert_true(rig_post_recv(B, 1, 5, &s, 1));
	s = rig_sge(A, 0, 64);
	const struct rig_wr w = { .op = QP_WR_SEND, .sge = &s, .num_sge = 1, .srqn = 0x1234 };
	assert_true(rig_post(A, 1, &w));
	rig_settle(R);
	assert_int_equal(word, 0);
	down();
}

static void numbers_are_not_given_twice_and_a_domain_has_a_limit_of_pds(void **state)
{
	struct qp_srq **many = calloc(QP_XRCD_PDS + 1, sizeof(*many));

	(void)state;
	up(0);
	for (uint32_t i = 0; i <= QP_XRCD_PDS; i++) {
		many[i] = aligned_alloc(RN_CACHE_LINE, sizeof(**many));
		memset(many[i], 0, sizeof(**many));
		many[i]->xrcd = domain[1];
		many[i]->pd = 1000 + i;
		const bool there_is_room = i + 1 < QP_XRCD_PDS; /* one place is that of P[2] */
		assert_int_equal(qp_xsrq_publish(&B->dev, many[i], 65000), there_is_room);
		for (uint32_t k = 0; k < i && there_is_room; k++)
			assert_true(many[k]->num != many[i]->num && many[i]->num != 0);
		assert_int_equal(qp_xrcd_has(domain[1], 1000 + i), there_is_room);
	}
	qp_xsrq_withdraw(&B->dev, many[7]);
	assert_false(qp_xrcd_has(domain[1], 1007));
	assert_true(qp_xsrq_publish(&B->dev, many[QP_XRCD_PDS], many[7]->num));
	assert_int_equal(many[QP_XRCD_PDS]->num, many[7]->num);
	for (uint32_t i = 0; i <= QP_XRCD_PDS; i++)
		free(many[i]);
	free(many);
	down();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_message_goes_to_the_queue_and_the_cq_that_it_names),
		cmocka_unit_test(immediates_are_told_to_the_queue_that_takes_them),
		cmocka_unit_test(memory_of_each_pd_that_has_a_queue_in_the_domain_is_reached_and_no_other),
		cmocka_unit_test(a_queue_of_another_domain_is_refused),
		cmocka_unit_test(a_number_that_no_queue_has_is_refused),
		cmocka_unit_test(a_send_with_invalidate_is_refused),
		cmocka_unit_test(an_initiator_receives_nothing),
		cmocka_unit_test(a_message_waits_for_a_receive_of_the_queue_that_it_names),
		cmocka_unit_test(a_queue_that_ends_leaves_the_connection_to_the_others),
		cmocka_unit_test(a_queue_that_ends_while_a_message_waits_for_it_ends_the_connection),
		cmocka_unit_test(a_queue_that_ends_in_the_middle_of_a_message_flushes_what_was_taken),
		cmocka_unit_test(a_queue_that_ends_in_the_middle_of_many_messages_tells_of_each),
		cmocka_unit_test(an_open_message_goes_on_when_another_queue_of_the_domain_ends),
		cmocka_unit_test(a_waiting_message_waits_on_when_another_queue_of_the_domain_ends),
		cmocka_unit_test(an_error_of_the_target_flushes_what_it_has_taken_and_nothing_else),
		cmocka_unit_test(the_number_is_on_the_wire_of_an_initiator_and_of_nobody_else),
		cmocka_unit_test(numbers_are_not_given_twice_and_a_domain_has_a_limit_of_pds),
	};

	return cmocka_run_group_tests_name("qp_xrc", tests, NULL, NULL);
}
