/* SPDX-License-Identifier: BSD-3-Clause */
/* FPDUs that come in pieces: the memory in which they are put together is scarce, and comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "client_rig.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_that_waits_whole_keeps_no_stage),
	};

	return cmocka_run_group_tests_name("qp_stage", tests, NULL, NULL);
}
