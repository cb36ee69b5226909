/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's side: order of completions, fences, depths, flushes, and the pools that connections share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "client_rig.h"

/* ---- order ---- */

static void unsignaled_make_no_entry_but_free_their_slots(void **state)
{
	(void)state;
	up();
	struct qp_sge s = rig_sge(A, 0, 64);
	for (uint32_t i = 0; i < 1000; i++) {
		struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		if (i % 100 != 99)
			w.flags = 0;
		while (!rig_post(A, 0, &w))
			assert_true(rig_step(R));
	}
	rig_settle(R);
	for (uint32_t i = 99; i < 1000; i += 100)
		expect(&A->scq_client, i, QP_WC_SUCCESS);
	expect_none(&A->scq_client);
	assert_int_equal(A->q[0].sq.hdr->cons, A->q[0].sq.hdr->prod);
	rig_free(R);
}

/* The Write is acknowledged long before the Read's Response arrives, and still completes after the Read. */
static void writes_wait_for_earlier_reads(void **state)
{
	(void)state;
	up();
	struct qp_sge big = rig_sge(A, 2u << 20, 500000), small = rig_sge(A, 0, 8);
	struct rig_wr w = wr(QP_WR_READ, 1, &big);
	rig_post(A, 0, &w);
	w = wr(QP_WR_WRITE, 2, &small);
	rig_post(A, 0, &w);
	struct qp_cqe e = rig_wait(R, &A->scq_client);
	assert_int_equal(e.wr_id, 1);
	assert_int_equal(e.op, QP_WC_RDMA_READ);
	e = rig_wait(R, &A->scq_client);
	assert_int_equal(e.wr_id, 2);
	rig_free(R);
}

static uint32_t tap_reads, tap_resp, tap_writes_before_resp, tap_max_open;

/*
 * Counts the Read Requests and the last segments of their Responses on the wire (no markers, one FPDU in each segment).
 */
static void tap(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *p)
{
	uint32_t at = 0;

	(void)r;
	while (at + 20 <= o->len && p[at + 3] >> 6 == 1) {
		uint32_t len = (uint32_t)p[at] << 8 | p[at + 1];
		uint8_t op = p[at + 3] & 15;

		if (from == 0 && op == RDMAP_READ_REQ)
			tap_reads++;
		if (from == 1 && op == RDMAP_READ_RESP && (p[at + 2] & 0x40))
			tap_resp++;
		if (from == 0 && op == RDMAP_WRITE && tap_reads > tap_resp)
			tap_writes_before_resp++;
		if (tap_reads - tap_resp > tap_max_open && tap_reads >= tap_resp)
			tap_max_open = tap_reads - tap_resp;
		at += mpa_fpdu_len(len);
	}
}

static void tap_reset(void) { tap_reads = tap_resp = tap_writes_before_resp = tap_max_open = 0; }

static void a_fence_waits_for_reads(void **state)
{
	(void)state;
	for (int fenced = 0; fenced < 2; fenced++) {
		up();
		tap_reset();
		R->tap = tap;
		struct qp_sge d = rig_sge(A, 2u << 20, 1000), s = rig_sge(A, 0, 1000);
		struct rig_wr w = wr(QP_WR_READ, 1, &d);
		rig_post(A, 0, &w);
		w = wr(QP_WR_WRITE, 2, &s);
		if (fenced)
			w.flags |= QP_WF_FENCE;
		rig_post(A, 0, &w);
		rig_settle(R);
		assert_int_equal(tap_reads, 1);
		assert_int_equal(tap_writes_before_resp, fenced ? 0 : 1);
		expect(&A->scq_client, 1, QP_WC_SUCCESS);
		expect(&A->scq_client, 2, QP_WC_SUCCESS);
		rig_free(R);
	}
}

static void reads_keep_to_the_depth(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.ord = 3;
	cfg.link.delay_ns = 100000;
	up_with(&cfg);
	tap_reset();
	R->tap = tap;
	for (uint32_t i = 0; i < 40; i++) {
		struct qp_sge d = rig_sge(A, (2u << 20) + i * 1000, 1000);
		struct rig_wr w = wr(QP_WR_READ, i, &d);
		assert_true(rig_post(A, 0, &w));
	}
	rig_settle(R);
	assert_int_equal(tap_reads, 40);
	assert_int_equal(tap_max_open, 3);
	for (uint32_t i = 0; i < 40; i++)
		expect(&A->scq_client, i, QP_WC_SUCCESS);
	assert_int_equal(B->ctx.rc.qp.stats.rdmap_errors, 0);
	rig_free(R);
}

/* ---- notification ---- */

static void armed_queues_notify_once(void **state)
{
	(void)state;
	up();
	struct qp_sge s = rig_sge(A, 0, 8), d = rig_sge(B, 0, 100);
	B->rcq.shm->armed = QP_CQ_ARM_SOLICITED;
	A->scq.shm->armed = QP_CQ_ARM_ANY;
	for (uint32_t i = 0; i < 4; i++)
		rig_post_recv(B, 0, i, &d, 1);
	struct rig_wr w = wr(QP_WR_SEND, 1, &s);
	rig_post(A, 0, &w);
	rig_settle(R);
	assert_int_equal(A->notifies, 1);
	assert_int_equal(B->notifies, 0); /* not solicited */
	assert_int_equal(B->rcq.shm->armed, QP_CQ_ARM_SOLICITED);
	rig_post(A, 0, &w);
	rig_settle(R);
	assert_int_equal(A->notifies, 1); /* not armed again */
	w.flags |= QP_WF_SOLICITED;
	rig_post(A, 0, &w);
	rig_settle(R);
	assert_int_equal(B->notifies, 1);
	B->rcq.shm->armed = 0xdeadbeef; /* any other value that a client writes counts as armed */
	rig_post(A, 0, &w);
	rig_settle(R);
	assert_int_equal(B->notifies, 2);
	rig_free(R);
}

static void a_reset_notifies_of_nothing_but_new_entries(void **state)
{
	(void)state;
	for (uint32_t entries = 0; entries < 2; entries++) {
		up();
		struct qp_sge d = rig_sge(B, 0, 100);
		rig_post_recv(B, 0, 1, &d, 1);
		rig_settle(R);
		B->scq.shm->armed = B->rcq.shm->armed = QP_CQ_ARM_ANY;
		if (entries) {
			qp_enter_error(&B->ctx.rc.qp, &B->q[0].qp); /* the entry is not published yet */
			expect_none(&B->rcq_client);
		}
		assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, QP_S_RESET), QP_OK);
		rig_turn(R, 1);
		assert_int_equal(B->notifies, entries);
		assert_int_equal(B->scq.shm->armed, QP_CQ_ARM_ANY);
		assert_int_equal(B->rcq.shm->armed, entries ? QP_CQ_UNARMED : QP_CQ_ARM_ANY);
		rig_free(R);
	}
}

/* ---- flush ---- */

static void error_flushes_both_queues_in_order(void **state)
{
	(void)state;
	up();
	B->paused = true; /* B acknowledges nothing from now on */
	struct qp_sge s = rig_sge(A, 0, 20000);
	for (uint32_t i = 0; i < 50; i++) {
		struct rig_wr w = wr(i & 1 ? QP_WR_WRITE : QP_WR_READ, i, &s);
		w.flags = i & 2 ? QP_WF_SIGNALED : 0;
		rig_post(A, 0, &w);
		rig_post_recv(A, 0, 100 + i, &s, 1);
	}
	rig_turn(R, 0);
	assert_int_equal(rc_modify(&A->ctx.rc, &A->q[0].qp, QP_S_ERR), QP_OK);
	rig_turn(R, 0);
	assert_int_equal(A->q[0].qp.shm->state, QP_S_ERR);
	for (uint32_t i = 0; i < 50; i++) {
		expect(&A->scq_client, i, QP_WC_WR_FLUSH_ERR);
		expect(&A->rcq_client, 100 + i, QP_WC_WR_FLUSH_ERR);
	}
	/* Work requests that are posted later are flushed at the doorbell. */
	struct rig_wr w = wr(QP_WR_WRITE, 70, &s);
	rig_post_recv(A, 0, 170, &s, 1);
	rig_post(A, 0, &w);
	rig_turn(R, 0);
	expect(&A->scq_client, 70, QP_WC_WR_FLUSH_ERR);
	expect(&A->rcq_client, 170, QP_WC_WR_FLUSH_ERR);
	expect_none(&A->scq_client);
	assert_int_equal(A->q[0].sq.hdr->cons, A->q[0].sq.hdr->prod);
	assert_int_equal(A->q[0].rq.hdr->cons, A->q[0].rq.hdr->prod);
	B->paused = false;
	rig_settle(R);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.resets, 1); /* work was under way: the stream cannot end with a Terminate */
	rig_free(R);
	/* with nothing under way a Terminate says what has happened */
	up();
	assert_int_equal(rc_modify(&A->ctx.rc, &A->q[0].qp, QP_S_ERR), QP_OK);
	rig_settle(R);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	assert_int_equal(B->ctx.rc.qp.stats.terms_rcvd, 1);
	assert_int_equal(B->ctx.rc.qp.stats.resets, 0);
	rig_free(R);
}

/* Of A's segments, those with bytes that the program has written after the flush. */
static uint32_t tap_late;

static void tap_bytes(struct rig *r, int from, const struct tcpl_out *o, const uint8_t *p)
{
	static const uint8_t late[32] = { [0 ... 31] = 2 };

	(void)r;
	for (uint32_t at = 0; from == 0 && at + sizeof(late) <= o->len; at++) {
		if (memcmp(p + at, late, sizeof(late)) == 0) {
			tap_late++;
			return;
		}
	}
}

/* How the stream ends while the program's Write is under way. */
enum ending {
	PEER_TERMINATES,
	PEER_ENDS,
	PEER_ENDS_TOO,    /* while we drain */
	CLIENT_ENDS,      /* the program moves its queue pair to ERR */
	WE_TERMINATE,     /* the peer has sent a message for which there is no receive */
	WE_HAVE_NO_COPIES /* so, but a Terminate cannot stand behind the Write */
};

static void no_late_bytes(bool crc, enum ending how)
{
	const uint32_t len = 300000;
	struct rig_cfg cfg;
	struct qp_cqe e;

	rig_defaults(&cfg);
	cfg.crc = crc;
	cfg.p2p = true; /* B may send at once */
	cfg.copies = how == WE_HAVE_NO_COPIES ? 2 : 0;
	up_with(&cfg);
	rig_settle(R);
	tap_late = 0;
	R->tap = tap_bytes;
	memset(A->mem, 1, len);
	struct qp_sge s = rig_sge(A, 0, len), back = rig_sge(B, 0, 64);
	struct rig_wr w = wr(QP_WR_WRITE, 1, &s), send = wr(QP_WR_SEND, 2, &back);
	rig_post(A, 0, &w);
	R->lose = 3;
	rig_turn(R, 0);
	assert_int_equal(R->lose, 0);
	if (how == PEER_TERMINATES)
		assert_int_equal(rc_modify(&B->ctx.rc, &B->q[0].qp, QP_S_ERR), QP_OK);
	else if (how == CLIENT_ENDS)
		assert_int_equal(rc_modify(&A->ctx.rc, &A->q[0].qp, QP_S_ERR), QP_OK);
	else if (how >= WE_TERMINATE)
		rig_post(B, 0, &send);
	else
		rc_disconnect(&B->ctx.rc, &B->conn[0].rc);
	if (how == PEER_ENDS_TOO)
		rc_disconnect(&A->ctx.rc, &A->conn[0].rc);
	while (!rig_poll(&A->scq_client, &e))
		assert_true(rig_step(R));
	assert_int_equal(e.wr_id, 1);
	assert_int_equal(e.status, QP_WC_WR_FLUSH_ERR);
	memset(A->mem, 2, len); /* a program that has seen its request flushed uses the memory for something else */
	rig_run(R, 10 * RN_NS_PER_S);
	assert_int_equal(tap_late, 0);
	assert_null(memchr(B->mem, 2, RIG_MEM));
	assert_int_equal(A->ctx.rc.qp.stats.terms_rcvd, how == PEER_TERMINATES);
	assert_int_equal(B->ctx.rc.qp.stats.terms_rcvd, how == WE_TERMINATE);
	assert_int_equal(A->q[0].qp.state, QP_S_ERR);
	assert_int_equal(rig_fx_count(R, 0, QP_FX_CLOSED), 1);
	if (how != WE_HAVE_NO_COPIES &&
	    how != CLIENT_ENDS) { /* nobody answers B's challenge to a RST that came ahead of lost segments */
		assert_int_equal(B->q[0].qp.state, QP_S_ERR);
		assert_int_equal(rig_fx_count(R, 1, QP_FX_CLOSED), 1);
	}
	rig_free(R);
}

static void bytes_from_after_the_streams_end_never_leave(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2 * (WE_HAVE_NO_COPIES + 1); i++)
		no_late_bytes(i & 1, (enum ending)(i / 2));
}

/* Our reset answers the peer's FIN, so the end that the peer has asked for is still an orderly one. */
static void a_reset_behind_a_fin_is_an_orderly_end(void **state)
{
	(void)state;
	up();
	rig_settle(R);
	struct qp_sge s = rig_sge(A, 0, 300000);
	struct rig_wr w = wr(QP_WR_WRITE, 1, &s);
	rig_post(A, 0, &w);
	rig_turn(R, 0);
	rc_disconnect(&B->ctx.rc, &B->conn[0].rc);
	rig_run(R, 3 * RN_NS_PER_S);
	assert_int_equal(B->ctx.rc.qp.stats.resets, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_fx(R, i, QP_FX_DISCONNECTED)->code, 0);
		assert_int_equal(rig_fx_count(R, i, QP_FX_CLOSED), 1);
	}
	rig_free(R);
}

/* What the peer has acknowledged with its FIN, or before, is no reason for a reset. */
static void the_peers_end_behind_all_acknowledgements_stays_orderly(void **state)
{
	struct qp_cqe e;

	(void)state;
	up();
	struct qp_sge s = rig_sge(A, 0, 3000), d = rig_sge(B, 0, 3000);
	struct rig_wr w = wr(QP_WR_SEND, 1, &s);
	rig_post_recv(B, 0, 5, &d, 1);
	rig_post(A, 0, &w);
	while (!rig_poll(&B->rcq_client, &e))
		assert_true(rig_step(R));
	rc_disconnect(&B->ctx.rc, &B->conn[0].rc);
	rig_settle(R);
	expect(&A->scq_client, 1, QP_WC_SUCCESS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rig_fx(R, i, QP_FX_DISCONNECTED)->code, 0);
		assert_int_equal(R->n[i].ctx.rc.qp.stats.resets, 0);
	}
	rig_free(R);
}

static void kept_receives_survive_an_orderly_end(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.accept_flags = RC_KEEP_RECV;
	up_with(&cfg);
	struct qp_sge d = rig_sge(B, 0, 100);
	rig_post_recv(B, 0, 5, &d, 1);
	rc_disconnect(&A->ctx.rc, &A->conn[0].rc);
	rig_run(R, 3 * RN_NS_PER_S);
	assert_int_equal(B->q[0].qp.state, QP_S_RTS);
	assert_null(rc_of(&B->q[0].qp));
	expect_none(&B->rcq_client);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_DISCONNECTED), 1);
	rig_free(R);
}

/* The peer's QP ends while Sends are under way: they stay in the queue until the QP is told to end, too. */
static void sends_under_way_wait_after_the_peers_end(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.connect_flags = RC_KEEP_RECV;
	up_with(&cfg);
	struct qp *qp = &A->q[0].qp;
	struct qp_sge s = rig_sge(A, 0, 64);
	for (uint32_t i = 0; i < 3; i++) {
		struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		rig_post(A, 0, &w);
	}
	rig_turn(R, 0);
	rc_destroy(&B->ctx.rc, &B->q[0].qp);
	rig_run(R, 3 * RN_NS_PER_S);
	assert_int_equal(qp->state, QP_S_RTS);
	assert_null(rc_of(qp));
	expect_none(&A->scq_client);
	assert_true(qp_send_waits(qp));
	qp_unreachable(&A->ctx.rc.qp, qp);
	qp_flush(&A->ctx.rc.qp);
	expect(&A->scq_client, 0, QP_WC_RETRY_EXC_ERR);
	expect(&A->scq_client, 1, QP_WC_WR_FLUSH_ERR);
	expect(&A->scq_client, 2, QP_WC_WR_FLUSH_ERR);
	expect_none(&A->scq_client);
	assert_int_equal(qp->state, QP_S_ERR);
	rig_free(R);
}

static void destroy_makes_no_completion(void **state)
{
	(void)state;
	up();
	struct qp_sge s = rig_sge(A, 0, 300000);
	struct rig_wr w = wr(QP_WR_WRITE, 1, &s);
	rig_post(A, 0, &w);
	rig_turn(R, 0);
	rc_destroy(&A->ctx.rc, &A->q[0].qp);
	rig_run(R, 3 * RN_NS_PER_S);
	expect_none(&A->scq_client);
	assert_int_equal(rig_fx_count(R, 0, QP_FX_DISCONNECTED), 1);
	assert_int_equal(rig_fx_count(R, 0, QP_FX_CLOSED), 1);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_CLOSED), 1);
	assert_int_equal(B->q[0].qp.state, QP_S_ERR);
	rig_free(R);
	/* With nothing under way the end is an orderly one. */
	up();
	rc_destroy(&A->ctx.rc, &A->q[0].qp);
	rig_run(R, 3 * RN_NS_PER_S);
	assert_int_equal(rig_fx(R, 1, QP_FX_DISCONNECTED)->code, 0);
	rig_free(R);
}

static void a_dead_peer_is_noticed(void **state)
{
	(void)state;
	up();
	B->paused = true;
	struct qp_sge s = rig_sge(A, 0, 64);
	for (uint32_t i = 0; i < 3; i++) {
		struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		rig_post(A, 0, &w);
	}
	rig_run(R, 600 * RN_NS_PER_S);
	expect(&A->scq_client, 0, QP_WC_RETRY_EXC_ERR);
	expect(&A->scq_client, 1, QP_WC_WR_FLUSH_ERR);
	expect(&A->scq_client, 2, QP_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_fx_count(R, 0, QP_FX_DISCONNECTED), 1);
	assert_int_equal(A->ctx.rc.qp.stats.tcp_timeouts, 1);
	rig_free(R);
}

/* More connections than blocks of working memory: idle connections give theirs back, busy ones take turns. */
static void few_blocks_serve_many_connections(void **state)
{
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.blocks = 2;
	up_with(&cfg);
	for (uint32_t f = 1; f < RIG_FLOWS; f++) {
		rig_settle(R);
		rig_connect(R, f);
	}
	rig_settle(R);
	assert_true(A->ctx.rc.blk_left >= 1);
	struct qp_sge s = rig_sge(A, 0, 30000), back = rig_sge(A, 2u << 20, 30000), d = rig_sge(B, 3u << 20, 30000);
	for (uint32_t f = 0; f < RIG_FLOWS; f++) {
		rig_post_recv(B, f, f, &d, 1);
		struct rig_wr w = wr(QP_WR_SEND, f, &s);
		rig_post(A, f, &w);
		w = wr(QP_WR_WRITE, f, &s);
		rig_post(A, f, &w);
		w = wr(QP_WR_READ, f, &back);
		rig_post(A, f, &w);
	}
	for (uint32_t i = 0; i < 3 * RIG_FLOWS; i++)
		assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_SUCCESS);
	for (uint32_t i = 0; i < RIG_FLOWS; i++)
		assert_int_equal(rig_wait(R, &B->rcq_client).status, QP_WC_SUCCESS);
	assert_true(A->ctx.rc.qp.stats.no_block > 0);
	for (uint32_t f = 0; f < RIG_FLOWS; f++)
		rc_disconnect(&A->ctx.rc, &A->conn[f].rc);
	rig_run(R, 10 * RN_NS_PER_S);
	assert_int_equal(rig_fx_count(R, 0, QP_FX_CLOSED), RIG_FLOWS);
	assert_int_equal(rig_fx_count(R, 1, QP_FX_CLOSED), RIG_FLOWS);
	rig_free(R);
}

/* When the wide blocks are used up, connections get narrow ones: fewer FPDUs at a time, the same bytes. */
static void later_connections_get_narrow_blocks(void **state)
{
	enum { EACH = 100, LEN = 3000 };
	struct rig_cfg cfg;

	(void)state;
	rig_defaults(&cfg);
	cfg.wide = 1;
	up_with(&cfg);
	rig_connect(R, 1);
	for (uint32_t i = 0; i < 2 * EACH * LEN; i++)
		A->mem[i] = (uint8_t)(i * 7 + i / 256);
	for (uint32_t i = 0; i < 2 * EACH; i++) {
		struct qp_sge s = rig_sge(A, i * LEN, LEN);
		struct rig_wr w = wr(QP_WR_WRITE, i, &s);
		w.raddr += i * LEN;
		rig_post(A, i % 2, &w);
	}
	rig_turn(R, 0);
	assert_int_equal(A->conn[0].tcp.mem.chunk_n, A->ctx.rc.cfg.chunks);
	assert_int_equal(A->conn[1].tcp.mem.chunk_n, RC_NARROW_CHUNKS);
	for (uint32_t i = 0; i < 2 * EACH; i++)
		assert_int_equal(rig_wait(R, &A->scq_client).status, QP_WC_SUCCESS);
	assert_memory_equal(A->mem, B->mem + (1u << 20), 2 * EACH * LEN);
	rig_free(R);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(unsignaled_make_no_entry_but_free_their_slots),
		cmocka_unit_test(writes_wait_for_earlier_reads),
		cmocka_unit_test(a_fence_waits_for_reads),
		cmocka_unit_test(reads_keep_to_the_depth),
		cmocka_unit_test(armed_queues_notify_once),
		cmocka_unit_test(a_reset_notifies_of_nothing_but_new_entries),
		cmocka_unit_test(error_flushes_both_queues_in_order),
		cmocka_unit_test(bytes_from_after_the_streams_end_never_leave),
		cmocka_unit_test(a_reset_behind_a_fin_is_an_orderly_end),
		cmocka_unit_test(the_peers_end_behind_all_acknowledgements_stays_orderly),
		cmocka_unit_test(kept_receives_survive_an_orderly_end),
		cmocka_unit_test(sends_under_way_wait_after_the_peers_end),
		cmocka_unit_test(destroy_makes_no_completion),
		cmocka_unit_test(a_dead_peer_is_noticed),
		cmocka_unit_test(few_blocks_serve_many_connections),
		cmocka_unit_test(later_connections_get_narrow_blocks),
	};

	return cmocka_run_group_tests_name("qp_client", tests, NULL, NULL);
}
