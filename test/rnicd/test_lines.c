/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two workers never both write the same cache line for a packet. What a worker writes is in its own struct
 * (connections, QPs, timers and pools of work are allocations of their own), in its element of an array with one
 * element per worker, or in a ring that has this worker as its one producer or consumer. Tested: these arrays and rings
 * give each worker lines of its own. Not tested, because both workers must write them: the line rate of a shaped port
 * (one compare-and-swap for a burst), and the common part of a packet pool (in bulk, behind a cache per thread).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "ipc/ipc_shm.h"
#include "qp/qp_cq.h"
#include "plane/worker_int.h"

/* The elements of an array at this offset begin and end at cache lines. */
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
	/* the shaper's word is not on a line that all workers read for each packet */
	own_lines(offsetof(struct rnicd_port, shape_tat), RN_CACHE_LINE);
	assert_true(offsetof(struct rnicd_port, stats) - offsetof(struct rnicd_port, shape_tat) >= RN_CACHE_LINE);
}

static void completion_rings(void **state)
{
	(void)state;
	own_lines(offsetof(struct qp_cq, ring), sizeof(struct qp_cq_ring));
	assert_true(_Alignof(struct qp_cq) >= RN_CACHE_LINE);
	for (uint32_t cqe = 2; cqe <= 1u << 18; cqe *= 2) /* rings of different workers in the client's memory */
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

/* Fields of a worker that other threads write (wake-up, rings) are not on a line that the worker's own turn writes. */
static void a_worker_and_its_visitors(void **state)
{
	(void)state;
	own_lines(0, sizeof(struct rnicd_worker));
	own_lines(offsetof(struct rnicd_worker, index), RN_CACHE_LINE);
	own_lines(0, sizeof(struct bell));
	assert_true(offsetof(struct rnicd_worker, index) >= sizeof(struct worker_shared));
	assert_true(_Alignof(struct rnicd_worker) >= RN_CACHE_LINE);
}

/* Each thread counts the references to a client's memory that it has returned, on a cache line of its own. */
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
