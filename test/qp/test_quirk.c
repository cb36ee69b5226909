/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done for the sake of single peers: qp_quirk.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "qp/qp_quirk.h"
#include "rig.h"

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
	assert_int_equal(r->n[0].ctx.stats.nudges, QP_NUDGES);
	assert_int_equal(r->n[1].ctx.stats.nudges, 0);
	assert_int_equal(r->n[1].ctx.stats.fpdus_in, 1 + QP_NUDGES); /* the RTR, too */
	assert_int_equal(r->n[1].ctx.stats.ddp_errors + r->n[1].ctx.stats.rdmap_errors, 0);
	send_one(r, 0);
	send_one(r, 1);
	assert_int_equal(r->n[0].ctx.stats.nudges, QP_NUDGES);
	rig_free(r);
}

static void peer_that_speaks_is_not_nudged(void **state)
{
	struct rig *r = up(true);

	(void)state;
	send_one(r, 1);
	rig_run(r, 60 * RN_NS_PER_S);
	assert_int_equal(r->n[0].ctx.stats.nudges, 0);
	rig_free(r);
}

static void nothing_said_nothing_nudged(void **state)
{
	struct rig *r = up(false);

	(void)state;
	rig_run(r, 60 * RN_NS_PER_S);
	assert_int_equal(r->n[0].ctx.stats.nudges, 0);
	assert_int_equal(r->n[1].ctx.stats.fpdus_in, 0);
	rig_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_peer_is_nudged_a_few_times),
		cmocka_unit_test(peer_that_speaks_is_not_nudged),
		cmocka_unit_test(nothing_said_nothing_nudged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
