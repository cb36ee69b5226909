/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two workers share no cache line that both write for a packet. What a worker writes lies in its own struct
 * (connections, QPs, timers, pools of work are allocations of its own), in its element of an array with one per worker,
 * or in a ring of which it is the one producer or consumer. Here: those arrays and rings put each worker on lines of
 * its own. Not here, because both must write it: the line rate of a shaped port (one compare-and-swap a burst), the
 * common part of a packet pool (in bulk, past a cache per thread).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ipc/ipc_shm.h"
#include "qp/qp_cq.h"
#include "plane/worker_int.h"

/* Elements of an array at this offset: none begins or ends on a line of its neighbour's. */
static void own_lines(size_t offset, size_t element)
{
	assert_int_equal(offset % RN_CACHE_LINE, 0);
	assert_int_equal(element % RN_CACHE_LINE, 0);
}

static void counters_of_a_port(void **state)
{
	(void)state;
	own_lines(offsetof(struct rnicd_port, stats), sizeof(struct rnicd_port_stats));
	assert_true(_Alignof(struct rnicd_port) >= RN_CACHE_LINE);
	/* the word of the shaper is not beside what everybody reads for each packet */
	own_lines(offsetof(struct rnicd_port, shape_tat), RN_CACHE_LINE);
	assert_true(offsetof(struct rnicd_port, stats) - offsetof(struct rnicd_port, shape_tat) >= RN_CACHE_LINE);
}

static void completion_rings(void **state)
{
	(void)state;
	own_lines(offsetof(struct qp_cq, ring), sizeof(struct qp_cq_ring));
	assert_true(_Alignof(struct qp_cq) >= RN_CACHE_LINE);
	for (uint32_t cqe = 2; cqe <= 1u << 18; cqe *= 2) /* a worker's ring after another's in the client's memory */
		own_lines(0, spsc_size(cqe, QP_CQE_SIZE));
	own_lines(offsetof(struct spsc_hdr, cons), RN_CACHE_LINE);
}

static void doorbells(void **state)
{
	(void)state;
	own_lines(0, sizeof(struct ipc_doorbell));
	own_lines(offsetof(struct ipc_doorbell, need_wakeup), RN_CACHE_LINE);
	own_lines(offsetof(struct ipc_doorbell, bits), RN_CACHE_LINE);
}

/* What others write into a worker's struct (wake-up, rings) is not on a line that its own turn writes. */
static void a_worker_and_its_visitors(void **state)
{
	(void)state;
	own_lines(0, sizeof(struct rnicd_worker));
	own_lines(offsetof(struct rnicd_worker, index), RN_CACHE_LINE);
	own_lines(0, sizeof(struct bell));
	assert_true(offsetof(struct rnicd_worker, index) >= sizeof(struct worker_shared));
	assert_true(_Alignof(struct rnicd_worker) >= RN_CACHE_LINE);
}

/* References to a client's memory: each thread counts those that it gives back on another line. */
static void references_given_back(void **state)
{
	const struct worker_client *c = NULL;

	(void)state;
	assert_int_equal(sizeof(c->ext_freed[0]), RN_CACHE_LINE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_of_a_port),
		cmocka_unit_test(completion_rings),
		cmocka_unit_test(doorbells),
		cmocka_unit_test(a_worker_and_its_visitors),
		cmocka_unit_test(references_given_back),
	};

	return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
