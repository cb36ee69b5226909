/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs with patience: messages that find no receive wait until one is posted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"
#include "tcp_lite/tcpl_int.h"

#define SRQ_OFF   (RIG_REGION / 2)
#define SRQ_SLOTS 64u
#define CLOSE_NS  (5 * RN_NS_PER_S)

static struct rig *R;
static struct rig_node *A, *B;
static struct qp_srq *srq;
static struct spsc_prod ring; /* the client's end of the SRQ's ring */

static void up_cfg(const struct rig_cfg *cfg, uint64_t patience)
{
	R = rig_new(cfg);
	A = &R->n[0];
	B = &R->n[1];
	qp_set(&B->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = patience });
	rig_connect(R, 0);
	for (uint32_t i = 0; i < RIG_MEM; i++)
		A->mem[i] = (uint8_t)(i * 7 + (i >> 8) + (i >> 16));
}

static void up(uint64_t patience)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	up_cfg(&cfg, patience);
}

static void down(void)
{
	assert_int_equal(B->ctx.rnr_kept, 0);
	assert_int_equal(B->ctx.rc.rnr_stages, 0);
	for (uint32_t i = 0; i < QP_TENANTS; i++)
		assert_int_equal(B->ctx.rnr_of[i] | B->ctx.rc.rnr_stages_of[i], 0);
	assert_null(B->ctx.rc.rnr.first);
	rig_free(R);
}

static void post_send(uint32_t flow, uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct qp_sge s = rig_sge(A, off, len);
	const struct rig_wr w = { .wr_id = wr_id, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };

	assert_true(rig_post(A, flow, &w));
}

static void post_recv(uint64_t wr_id, uint32_t off, uint32_t len)
{
	struct qp_sge s = rig_sge(B, off, len);

	assert_true(rig_post_recv(B, 0, wr_id, &s, 1));
	rig_turn(R, 1);
}

static void expect(uint64_t wr_id, uint32_t len, enum qp_wc_status status)
{
	struct qp_cqe e;

	assert_true(rig_poll(&B->rcq_client, &e));
	assert_int_equal(e.wr_id, wr_id);
	assert_int_equal(e.status, status);
	if (status == QP_WC_SUCCESS)
		assert_int_equal(e.byte_len, len);
}

static void expect_none(struct spsc_cons *cq)
{
	struct qp_cqe e;

	assert_false(rig_poll(cq, &e));
}

static void a_message_waits_until_its_receive_is_posted(void **state)
{
	static const uint32_t len[] = { 100, 5000, 1, 0, 3000 };

	(void)state;
	up(RN_NEVER);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(len); i++)
		post_send(0, i, i * 8192, len[i]);
	rig_run(R, 20 * RN_NS_PER_S);
	expect_none(&B->rcq_client);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	assert_int_equal(B->q[0].qp.rq.hdr->asked, 1);
	assert_int_equal(B->ctx.rc.qp.stats.rnr_waits, 1);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(len); i++) {
		post_recv(50 + i, i * 8192, 8192);
		expect(50 + i, len[i], QP_WC_SUCCESS); /* completes at once */
		expect_none(&B->rcq_client);
		assert_memory_equal(B->mem + i * 8192, A->mem + i * 8192, len[i]);
	}
	assert_int_equal(B->q[0].qp.rq.hdr->asked, 0);
	assert_int_equal(B->ctx.rc.qp.stats.rnr_waits, RN_ARRAY_LEN(len));
	/* From now on the connection works as before. */
	post_recv(60, 0, 64);
	post_send(0, 60, 0, 64);
	rig_settle(R);
	expect(60, 64, QP_WC_SUCCESS);
	down();
}

static void without_patience_the_stream_ends(void **state)
{
	(void)state;
	up(0);
	post_send(0, 1, 0, 100);
	rig_settle(R);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.rnr_waits, 0);
	down();
}

static void patience_ends(void **state)
{
	(void)state;
	up(50 * RN_NS_PER_MS);
	post_send(0, 1, 0, 100);
	rig_run(R, 30 * RN_NS_PER_MS);
	post_recv(5, 0, 100); /* in time; the next message gets its own full time */
	expect(5, 100, QP_WC_SUCCESS);
	post_send(0, 2, 0, 100);
	post_send(0, 3, 0, 100);
	rig_run(R, 40 * RN_NS_PER_MS);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	rig_run(R, 20 * RN_NS_PER_MS);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(A->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.rnr_timeouts, 1);
	assert_int_equal(B->ctx.rc.qp.stats.terms_sent, 1);
	down();
}

static void the_window_closes_and_opens_and_nothing_is_sent_twice(void **state)
{
	enum { N = 60, LEN = 50000 }; /* bytes; all messages together are three times the window */
	uint32_t sent = 0;
	struct qp_cqe e;

	(void)state;
	up(RN_NEVER);
	for (uint32_t i = 0; i < N; i++)
		post_send(0, i, i * LEN, LEN);
	rig_run(R, 10 * RN_NS_PER_S);
	while (rig_poll(&A->scq_client, &e))
		sent++;
	assert_in_range(sent, 1, (1u << 20) / LEN);
	assert_true(sent < N);
	assert_true(A->conn[0].tcp.snd_wnd < LEN);
	assert_int_equal(A->conn[0].tcp.stats.rexmits, 0);
	for (uint32_t i = 0; i < N; i++)
		post_recv(i, i * LEN, LEN);
	rig_settle(R);
	for (uint32_t i = 0; i < N; i++)
		expect(i, LEN, QP_WC_SUCCESS);
	assert_memory_equal(B->mem, A->mem, N * LEN);
	assert_int_equal(A->conn[0].tcp.stats.rexmits, 0);
	assert_true(A->conn[0].tcp.snd_wnd >= 1u << 19);
	down();
}

static void what_there_is_no_room_for_comes_again(void **state)
{
	enum { N = 40, LEN = 4000 };

	(void)state;
	up(RN_NEVER);
	B->ctx.cfg.rnr_pkts = 5;
	for (uint32_t i = 0; i < N; i++)
		post_send(0, i, i * LEN, LEN);
	rig_run(R, RN_NS_PER_S);
	assert_true(B->ctx.rc.qp.stats.rnr_drops > 0);
	assert_true(B->ctx.rnr_kept <= 6);
	for (uint32_t i = 0; i < N; i++)
		post_recv(i, i * LEN, LEN);
	rig_run(R, 10 * RN_NS_PER_S);
	for (uint32_t i = 0; i < N; i++)
		expect(i, LEN, QP_WC_SUCCESS);
	assert_memory_equal(B->mem, A->mem, N * LEN);
	down();
}

static void one_tenant_keeps_half_of_what_there_is_room_for(void **state)
{
	enum { N = 60, LEN = 1000, ROOM = 20 };
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	up_cfg(&cfg, RN_NEVER);
	B->ctx.cfg.rnr_pkts = ROOM;
	for (uint32_t f = 1; f < 3; f++) {
		qp_set(&B->q[f].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = RN_NEVER });
		B->q[f].qp.tenant = f == 1 ? 0 : 5;
		rig_connect(R, f);
	}
	for (uint32_t i = 0; i < N; i++) {
		post_send(0, i, i * LEN, LEN);
		post_send(1, i, i * LEN, LEN);
		rig_run(R, 10 * RN_NS_PER_US);
	}
	rig_run(R, RN_NS_PER_S);
	assert_true(B->ctx.rc.qp.stats.rnr_drops > 0);
	/* the first packet of each connection is kept in any case */
	assert_in_range(B->ctx.rnr_kept, ROOM / 2, ROOM / 2 + 2);
	post_send(2, 0, 0, LEN);
	post_send(2, 1, 0, LEN);
	rig_run(R, RN_NS_PER_S);
	assert_true(B->ctx.rnr_of[5] > 0);
	rig_free(R);
}

static void stages_are_kept_up_to_a_bound(void **state)
{
	enum { LEN = 1000 };
	/* room: stages. tenant: of the last connection, the others' is 0. kept: connections whose message is kept. */
	static const struct {
		uint32_t room;
		uint8_t tenant;
		uint32_t kept;
	} row[] = { { 3, 5, 3 }, { 4, 0, 3 }, { 4, 5, 4 } };
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.stages = 64;
	cfg.link.cut = 1000000; /* each FPDU comes in two pieces */
	for (uint32_t i = 0; i < RN_ARRAY_LEN(row); i++) {
		up_cfg(&cfg, RN_NEVER);
		B->ctx.rc.cfg.rnr_stages = row[i].room;
		for (uint32_t f = 1; f < RIG_FLOWS; f++) {
			qp_set(&B->q[f].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = RN_NEVER });
			B->q[f].qp.tenant = f == RIG_FLOWS - 1 ? row[i].tenant : 0;
			rig_connect(R, f);
		}
		for (uint32_t f = 0; f < RIG_FLOWS; f++) {
			post_send(f, f, f * LEN, LEN);
			rig_run(R, RN_NS_PER_S);
			assert_int_equal(B->q[f].qp.state, f < row[i].kept ? QP_S_RTS : QP_S_ERR);
		}
		assert_int_equal(B->ctx.rc.rnr_stages, row[i].kept);
		assert_int_equal(B->ctx.rc.qp.stats.rnr_timeouts, RIG_FLOWS - row[i].kept);
		for (uint32_t f = 0; f < row[i].kept; f++) {
			struct qp_sge s = rig_sge(B, f * LEN, LEN);
			assert_true(rig_post_recv(B, f, f, &s, 1));
			rig_turn(R, 1);
			expect(f, LEN, QP_WC_SUCCESS);
		}
		assert_memory_equal(B->mem, A->mem, row[i].kept * LEN);
		down();
	}
}

static void writes_reads_and_immediates_keep_their_place(void **state)
{
	struct qp_sge s;
	struct qp_cqe e;

	(void)state;
	up(RN_NEVER);
	s = rig_sge(A, 0, 300);
	const struct rig_wr imm = { .wr_id = 1,
				    .op = QP_WR_WRITE_IMM,
				    .flags = QP_WF_SIGNALED,
				    .sge = &s,
				    .num_sge = 1,
				    .raddr = RIG_IOVA(1),
				    .rkey = B->rkey,
				    .aux = 77 };
	assert_true(rig_post(A, 0, &imm));
	struct qp_sge sink = rig_sge(A, 1 << 20, 200);
	const struct rig_wr rd = { .wr_id = 2,
				   .op = QP_WR_READ,
				   .flags = QP_WF_SIGNALED,
				   .sge = &sink,
				   .num_sge = 1,
				   .raddr = RIG_IOVA(1) + 4096,
				   .rkey = B->rkey };
	assert_true(rig_post(A, 0, &rd));
	memset(B->mem + 4096, 0x5a, 200);
	rig_settle(R);
	assert_true(rig_poll(&A->scq_client, &e));
	assert_int_equal(e.wr_id, 1);
	expect_none(&A->scq_client); /* the Read waits behind the Send */
	assert_memory_equal(B->mem, A->mem, 300);
	post_recv(9, 8192, 10);
	assert_true(rig_poll(&B->rcq_client, &e));
	assert_int_equal(e.op, QP_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(e.aux, 77);
	rig_settle(R);
	assert_true(rig_poll(&A->scq_client, &e));
	assert_int_equal(e.wr_id, 2);
	assert_memory_equal(A->mem + (1 << 20), B->mem + 4096, 200);
	down();
}

static void the_peers_end_comes_behind_what_waits(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.accept_flags = cfg.connect_flags = RC_KEEP_RECV;
	up_cfg(&cfg, RN_NEVER);
	post_send(0, 1, 0, 3000);
	rig_settle(R);
	A->ctx.rc.qp.now = R->now;
	rc_destroy(&A->ctx.rc, &A->q[0].qp); /* the QP's Send has completed */
	rig_run(R, RN_NS_PER_S);
	post_recv(8, 0, 4000);
	expect(8, 3000, QP_WC_SUCCESS);
	rig_run(R, 10 * RN_NS_PER_S);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	assert_null(rc_of(&B->q[0].qp));
	assert_int_equal(rig_fx_count(R, 1, QP_FX_CLOSED), 1);
	down();
}

static void a_managed_connections_end_is_told_in_time(void **state)
{
	(void)state;
	for (uint32_t late = 0; late < 2; late++) {
		up(RN_NEVER);
		post_send(0, 1, 0, 3000);
		rig_settle(R);
		A->ctx.rc.qp.now = R->now;
		rc_disconnect(&A->ctx.rc, &A->conn[0].rc);
		rig_run(R, CLOSE_NS / 2);
		assert_int_equal(rig_fx_count(R, 1, QP_FX_DISCONNECTED), 0);
		if (late == 0) {
			post_recv(8, 0, 4000);
			expect(8, 3000, QP_WC_SUCCESS);
			rig_run(R, 10 * RN_NS_PER_MS);
			assert_int_equal(rig_fx(R, 1, QP_FX_DISCONNECTED)->code, 0);
		} else {
			rig_run(R, CLOSE_NS);
		}
		assert_int_equal(rig_fx_count(R, 1, QP_FX_DISCONNECTED), 1);
		down();
	}
}

static void one_that_waits_can_be_ended(void **state)
{
	static const enum qp_state to[] = { QP_S_ERR, QP_S_RESET, QP_S_SQD };

	(void)state;
	for (uint32_t i = 0; i < 2 * RN_ARRAY_LEN(to) + 4; i++) {
		struct rig_cfg cfg;

		rig_defaults(&cfg);
		cfg.accept_flags = cfg.connect_flags = i & 1 ? RC_KEEP_RECV : 0;
		up_cfg(&cfg, RN_NEVER);
		post_send(0, 1, 0, 200000);
		post_send(0, 2, 0, 1000);
		rig_settle(R);
		assert_true(B->ctx.rnr_kept > 64);
		B->ctx.rc.qp.now = R->now;
		if (i / 2 < RN_ARRAY_LEN(to))
			assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, to[i / 2]), QP_OK);
		else if (i / 2 == RN_ARRAY_LEN(to))
			rc_destroy(&B->ctx.rc, &B->q[0].qp);
		else
			rc_abort(&B->ctx.rc, &B->conn[0].rc);
		rig_run(R, 20 * RN_NS_PER_S);
		if (!(i / 2 == 2 && (i & 1))) /* SQD without connection manager does not end the connection */
			assert_int_equal(B->ctx.rnr_kept, 0);
		else
			rc_destroy(&B->ctx.rc, &B->q[0].qp);
		rig_run(R, 20 * RN_NS_PER_S);
		down();
	}
}

/* ---- shared ---- */

static void up_shared(uint32_t flows)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	const struct qp_srq_attr a = { .owner = 1,
				       .pd = RIG_PD,
				       .wqe_slots = 1,
				       .ring = { B->region, RIG_REGION, SRQ_OFF, SRQ_SLOTS, QP_SLOT_SIZE } };
	srq = aligned_alloc(RN_CACHE_LINE, sizeof(*srq));
	assert_int_equal(qp_srq_init(srq, &a), SPSC_OK);
	assert_int_equal(spsc_prod_attach(&ring, &a.ring), SPSC_OK);
	for (uint32_t i = 0; i < flows; i++) {
		rig_share(B, i, srq);
		qp_set(&B->q[i].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = RN_NEVER });
		rig_connect(R, i);
	}
}

static void post_shared(uint64_t wr_id, uint32_t off, uint32_t len)
{
	const struct qp_rwqe w = {
		.wr_id = wr_id, .num_sge = 1, .slots = 1, .sge[0] = { RIG_IOVA(1) + off, len, B->lkey }
	};

	spsc_prod_copy(&ring, 0, &w, sizeof(w));
	spsc_prod_publish(&ring, 1);
	if (spsc_prod_asked(&ring) != 0)
		rc_recvs(&B->ctx.rc);
	rc_recvs_look(&B->ctx.rc);
	rig_turn(R, 1);
}

/* The bytes of the ACK's segment are kept, and do not begin where the message that waits begins. */
static void work_completes_by_an_ack_behind_a_message_that_waits(void **state)
{
	const struct tcpl_conn *tcp;
	struct qp_sge s;
	uint8_t bytes[64];
	struct qp_cqe e;

	(void)state;
	up(RN_NEVER);
	tcp = &B->conn[0].tcp;
	post_send(0, 1, 0, 100);
	s = rig_sge(A, 0, 100);
	assert_true(rig_post_recv(A, 0, 1, &s, 1));
	rig_settle(R);
	assert_true(B->ctx.rnr_kept > 0);
	A->paused = true; /* its ACK comes with bytes that look like a Terminate */
	s = rig_sge(B, 8192, 100);
	const struct rig_wr w = { .wr_id = 7, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED, .sge = &s, .num_sge = 1 };
	assert_true(rig_post(B, 0, &w));
	rig_turn(R, 1);
	memset(bytes, RDMAP_TERMINATE, sizeof(bytes));
	struct tcpl_out o = {
		.seq = tcp->rcv_nxt, .ack = tcp->snd_nxt, .len = sizeof(bytes), .wnd = 1000, .flags = TCPL_ACK
	};
	o.optlen = tcpl_opt_ts(tcp->ts_recent, 0, o.opt);
	rig_inject(R, 1, 0, &o, bytes);
	rig_run(R, RN_NS_PER_MS);
	assert_int_equal(tcp->snd_una, o.ack);
	assert_true(rig_poll(&B->scq_client, &e));
	assert_int_equal(e.wr_id, 7);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	A->paused = false;
	rc_abort(&B->ctx.rc, &B->conn[0].rc);
	rig_run(R, 20 * RN_NS_PER_S);
	down();
}

static void those_of_a_shared_queue_are_served_as_they_came(void **state)
{
	enum { FLOWS = 3, EACH = 20 };
	uint32_t got[FLOWS] = { 0 };
	struct qp_cqe e;

	(void)state;
	up_shared(FLOWS);
	for (uint32_t k = 0; k < EACH; k++)
		for (uint32_t f = 0; f < FLOWS; f++)
			post_send(f, k, 100 * f + k, 50 + k);
	rig_settle(R);
	expect_none(&B->rcq_client);
	assert_int_equal(srq->waiting[0], FLOWS);
	assert_int_equal(ring.hdr->asked, 1);
	for (uint32_t k = 0; k < FLOWS * EACH; k++) {
		post_shared(k, 0, 4096);
		assert_true(rig_poll(&B->rcq_client, &e));
		assert_int_equal(e.status, QP_WC_SUCCESS);
		assert_int_equal(e.wr_id, k);
		assert_int_equal(e.qpn, 10 + k % FLOWS); /* the queue pair that has waited longest gets the receive */
		assert_int_equal(e.byte_len, 50 + got[e.qpn - 10]);
		assert_memory_equal(B->mem, A->mem + 100 * (e.qpn - 10) + got[e.qpn - 10], e.byte_len);
		got[e.qpn - 10]++;
		expect_none(&B->rcq_client);
	}
	assert_int_equal(srq->waiting[0], 0);
	assert_int_equal(ring.hdr->asked, 0);
	down();
	free(srq);
}

static void one_that_leaves_a_shared_queue_is_forgotten(void **state)
{
	(void)state;
	up_shared(3);
	for (uint32_t f = 0; f < 3; f++)
		post_send(f, 1, 0, 10);
	rig_settle(R);
	B->ctx.rc.qp.now = R->now;
	rc_destroy(&B->ctx.rc, &B->q[1].qp);
	assert_int_equal(srq->waiting[0], 2);
	assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, QP_S_ERR), QP_OK);
	assert_int_equal(srq->waiting[0], 1);
	post_shared(5, 0, 64);
	struct qp_cqe e;
	assert_true(rig_poll(&B->rcq_client, &e));
	assert_int_equal(e.qpn, 12);
	assert_int_equal(ring.hdr->asked, 0);
	rig_settle(R);
	down();
	free(srq);
}

/* ---- in any order, over a bad line ---- */

static void soak(uint64_t seed)
{
	enum { N = 300 };
	static uint32_t len[N];
	struct rig_cfg cfg;
	struct rn_rng rng;
	uint32_t sent = 0, posted = 0, got = 0;
	struct qp_cqe e;

	rig_defaults(&cfg);
	cfg.seed = seed;
	cfg.split = seed & 1;
	cfg.markers[1] = seed & 2;
	cfg.link.loss = cfg.link.reorder = cfg.link.dup = 20000;
	cfg.link.cut = 100000;
	cfg.link.delay_ns = 20 * RN_NS_PER_US;
	cfg.link.reorder_ns = 100 * RN_NS_PER_US;
	if (seed % 3 == 0)
		cfg.rcv_space = 60000;
	up_cfg(&cfg, RN_NEVER);
	if (seed % 5 == 0)
		B->ctx.cfg.rnr_pkts = 20;
	rn_rng_seed(&rng, seed);
	for (uint32_t rounds = 0; got < N; rounds++) {
		assert_true(rounds < 100000);
		if (sent < N && rn_rng_chance(&rng, 300000)) {
			len[sent] = rn_rng_below(&rng, rn_rng_chance(&rng, 500000) ? 200 : 9000);
			post_send(0, sent, (sent * 9000) % 3000000, len[sent]);
			sent++;
		}
		if (posted < N && rn_rng_chance(&rng, 200000)) {
			struct qp_sge s = rig_sge(B, (posted * 9000) % 3000000, 9000);
			assert_true(rig_post_recv(B, 0, posted, &s, 1));
			posted++;
		}
		rig_run(R, rn_rng_below(&rng, 300) * RN_NS_PER_US);
		while (rig_poll(&B->rcq_client, &e)) {
			assert_int_equal(e.status, QP_WC_SUCCESS);
			assert_int_equal(e.wr_id, got);
			assert_int_equal(e.byte_len, len[got]);
			assert_memory_equal(B->mem + (got * 9000) % 3000000, A->mem + (got * 9000) % 3000000, len[got]);
			got++;
		}
		while (rig_poll(&A->scq_client, &e))
			assert_int_equal(e.status, QP_WC_SUCCESS);
	}
	assert_true(B->ctx.rc.qp.stats.rnr_waits > 10);
	assert_true(B->ctx.rc.qp.stats.staged > 0);
	down();
}

static void data_is_whole_whatever_the_line_does(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		print_message("# seed %llu\n", (unsigned long long)seed);
		soak(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_waits_until_its_receive_is_posted),
		cmocka_unit_test(without_patience_the_stream_ends),
		cmocka_unit_test(patience_ends),
		cmocka_unit_test(the_window_closes_and_opens_and_nothing_is_sent_twice),
		cmocka_unit_test(what_there_is_no_room_for_comes_again),
		cmocka_unit_test(one_tenant_keeps_half_of_what_there_is_room_for),
		cmocka_unit_test(stages_are_kept_up_to_a_bound),
		cmocka_unit_test(writes_reads_and_immediates_keep_their_place),
		cmocka_unit_test(the_peers_end_comes_behind_what_waits),
		cmocka_unit_test(a_managed_connections_end_is_told_in_time),
		cmocka_unit_test(one_that_waits_can_be_ended),
		cmocka_unit_test(work_completes_by_an_ack_behind_a_message_that_waits),
		cmocka_unit_test(those_of_a_shared_queue_are_served_as_they_came),
		cmocka_unit_test(one_that_leaves_a_shared_queue_is_forgotten),
		cmocka_unit_test(data_is_whole_whatever_the_line_does),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
