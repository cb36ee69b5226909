/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests that send nothing, as they bind a memory window: however many a client posts, a turn of a worker
 * carries out a bounded number of them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "border/bell.h"
#include "plane/worker_int.h"
#include "twin.h"

#define PAIRS     32u
#define IN_A_TURN (WORKER_BURST * QP_LOCALS)
#define BINDS     (TWIN_SLOTS + PAIRS * TWIN_MORE - PAIRS - 1)
_Static_assert(BINDS > 2 * IN_A_TURN, "without a bound a turn has more");

static uint32_t window;

static void post_binds(uint32_t pair, uint32_t n)
{
	const struct qp_wqe w = { .op = QP_WR_BIND_MW, .slots = 1, .rkey = window };

	for (uint32_t i = 0; i < n; i++)
		assert_true(twin_post_at(pair, &w));
}

/* Rings for all pairs at once. */
static void ring_all(void)
{
	struct ipc_doorbell *db = twin[0].client[twin[0].worker].doorbell;

	__atomic_fetch_or(&db->bits[0], (UINT64_C(1) << (PAIRS + 1)) - 1, __ATOMIC_RELEASE);
	__atomic_fetch_or(&db->summary, 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	bell_ring(twin[0].worker);
}

static void binds_take_a_bounded_part_of_a_turn(void **state)
{
	struct qp_wqe last = { .wr_id = 7, .op = QP_WR_BIND_MW, .flags = QP_WF_SIGNALED, .slots = 1 };
	struct qp_cqe cqe;

	(void)state;
	twin_configure(1500);
	rnicd.cfg.flows = 4 * PAIRS;
	assert_true(twin_start(0, 1) && twin_connect() && twin_widen(PAIRS));
	const uint32_t pd = qp_mr_pd(&twin[0].dev, twin[0].stag);
	assert_int_equal(qp_mw_alloc(&twin[0].dev, pd, QP_ENTRY_MW_1, &window), QP_MR_OK);
	last.rkey = window;
	for (uint32_t pair = 1; pair <= PAIRS; pair++)
		post_binds(pair, TWIN_MORE - 1);
	post_binds(0, TWIN_SLOTS - 1);
	assert_true(twin_post_at(0, &last)); /* this queue takes the most turns */
	ring_all();
	assert_true(twin_wait(&twin[0], &cqe) && cqe.status == QP_WC_SUCCESS && cqe.wr_id == last.wr_id);
	while (__atomic_load_n(&worker_at[0]->tcp.rc.qp.stats.locals, __ATOMIC_RELAXED) <= BINDS)
		usleep(1000);
	const uint32_t most = __atomic_load_n(&worker_at[0]->locals_most, __ATOMIC_RELAXED);
	assert_true(most > 0 && most <= IN_A_TURN);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(binds_take_a_bounded_part_of_a_turn) };
	int rc = cmocka_run_group_tests_name("binds", tests, NULL, NULL);

	fflush(stdout);
	_exit(rc); /* the connections have no end */
}
