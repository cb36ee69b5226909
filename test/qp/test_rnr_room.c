/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages wait for receives, and there is no room to keep more of them: their sender waits, and is not given up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "client_rig.h"

enum { N = 40, LEN = 4000, PKTS = 5 };

/* B keeps few packets. silence: as in qp_tune, of A. */
static void up_waiting(uint64_t silence)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	up_with(&cfg);
	qp_set(&A->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .silence_ns = silence });
	qp_set(&B->q[0].qp, &(struct qp_tune){ .access = QP_ACC_ALL, .rnr_ns = RN_NEVER });
	B->ctx.cfg.rnr_pkts = PKTS;
}

/* A posts N Sends, and B has no receive. */
static void post_sends(void)
{
	for (uint32_t i = 0; i < N; i++) {
		const struct qp_sge s = rig_sge(A, i * LEN, LEN);
		const struct rig_wr w = wr(QP_WR_SEND, i, &s);

		memset(A->mem + i * LEN, (int)i + 1, LEN);
		assert_true(rig_post(A, 0, &w));
	}
}

static void all_come(void)
{
	assert_true(B->ctx.rc.qp.stats.rnr_drops > 0);
	for (uint32_t i = 0; i < N; i++) {
		const struct qp_sge d = rig_sge(B, i * LEN, LEN);

		assert_true(rig_post_recv(B, 0, i, &d, 1));
	}
	rig_run(R, 120 * RN_NS_PER_S); /* the sender's timer is backed off */
	for (uint32_t i = 0; i < N; i++) {
		expect(&B->rcq_client, i, QP_WC_SUCCESS);
		expect(&A->scq_client, i, QP_WC_SUCCESS);
	}
	assert_memory_equal(B->mem, A->mem, N * LEN);
}

static void a_sender_waits_for_room_as_long_as_it_takes(void **state)
{
	static const uint64_t silence[] = { 0, 2 * RN_NS_PER_S };

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(silence); i++) {
		up_waiting(silence[i]);
		post_sends();
		rig_run(R, RN_NS_PER_S);
		assert_int_equal(A->conn[0].tcp.snd_wnd, 0);
		const uint64_t before = A->conn[0].tcp.stats.rexmits;
		rig_run(R, 600 * RN_NS_PER_S);
		assert_int_equal(A->ctx.rc.qp.stats.tcp_timeouts, 0);
		assert_true(rc_is_up(&A->conn[0].rc));
		assert_in_range(A->conn[0].tcp.stats.rexmits - before, 1, 50); /* less and less often */
		all_come();
		assert_true(A->conn[0].tcp.snd_wnd > N * LEN);
		rig_free(R);
	}
}

/* The ACK of a segment that is dropped still counts, and is not taken for a duplicate, which tells of a loss. */
static void what_is_dropped_tells_of_no_loss(void **state)
{
	enum { WRITES = 200 };
	uint32_t got = 0;
	struct qp_cqe e;

	(void)state;
	up_waiting(0);
	const struct qp_sge s = rig_sge(B, 1u << 20, 30000);
	struct rig_wr w = wr(QP_WR_WRITE, 0, &s);
	w.num_sge = 0;
	assert_true(rig_post(A, 0, &w)); /* B may not send before A has */
	rig_settle(R);
	expect(&A->scq_client, 0, QP_WC_SUCCESS);
	w.num_sge = 1;
	w.raddr = RIG_IOVA(0) + (1u << 20);
	w.rkey = A->rkey;
	for (uint32_t i = 0; i < WRITES; i++)
		assert_true(rig_post(B, 0, &w));
	rig_run(R, 200 * RN_NS_PER_US);
	assert_int_not_equal(B->conn[0].tcp.snd_una, B->conn[0].tcp.snd_nxt);
	post_sends();
	for (uint32_t i = 0; i < 1000; i++) {
		rig_run(R, RN_NS_PER_MS);
		while (rig_poll(&B->scq_client, &e))
			got += e.status == QP_WC_SUCCESS;
	}
	assert_int_equal(got, WRITES);
	assert_int_equal(B->conn[0].tcp.stats.rexmits, 0);
	assert_int_equal(B->conn[0].tcp.stats.dup_acks, 0);
	all_come();
	rig_free(R);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sender_waits_for_room_as_long_as_it_takes),
		cmocka_unit_test(what_is_dropped_tells_of_no_loss),
	};

	return cmocka_run_group_tests_name("qp_rnr_room", tests, NULL, NULL);
}
