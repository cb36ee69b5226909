/* SPDX-License-Identifier: BSD-3-Clause */
/* A Read with several sinks: several Requests on the wire, one work request to the client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define SRC_OFF (2u << 20)

static struct rig *R;
static struct rig_node *A, *B;

static void up(uint16_t depth)
{
	struct rig_cfg cfg;

	rig_defaults(&cfg);
	cfg.ird = cfg.ord = depth;
	R = rig_new(&cfg);
	A = &R->n[0];
	B = &R->n[1];
	rig_connect(R, 0);
	for (uint32_t i = 0; i < RIG_MEM - SRC_OFF; i++)
		A->mem[SRC_OFF + i] = B->mem[SRC_OFF + i] = (uint8_t)(i * 7 + (i >> 8));
}

static struct rig_wr read_into(const struct rig_node *from, const struct qp_sge *sge, uint32_t n, uint64_t wr_id)
{
	return (struct rig_wr){ .wr_id = wr_id,
				.op = QP_WR_READ,
				.flags = QP_WF_SIGNALED,
				.sge = sge,
				.num_sge = n,
				.raddr = RIG_IOVA(from->id) + SRC_OFF,
				.rkey = from->rkey };
}

static void is_one_completion(struct rig_node *n, uint64_t wr_id, uint32_t len)
{
	struct qp_cqe e = rig_wait(R, &n->scq_client);

	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_int_equal(e.wr_id, wr_id);
	assert_int_equal(e.byte_len, len);
	assert_int_equal(e.op, QP_WC_RDMA_READ);
	assert_false(rig_poll(&n->scq_client, &e));
}

/* Empty sinks, at the ends and between, take no Request. */
static void the_bytes_lie_in_their_sinks_in_order(void **state)
{
	static const uint32_t len[] = { 0, 100, 1, 0, 50000, 7, 0 };

	(void)state;
	for (uint16_t depth = 1; depth <= 16; depth += 15) {
		struct qp_sge sge[RN_ARRAY_LEN(len)];
		uint32_t total = 0;

		up(depth);
		for (uint32_t i = 0; i < RN_ARRAY_LEN(len); i++) {
			sge[i] = rig_sge(A, i * 60000, len[i]);
			total += len[i];
		}
		const struct rig_wr w = read_into(B, sge, RN_ARRAY_LEN(len), 9);
		assert_true(rig_post(A, 0, &w));
		is_one_completion(A, 9, total);
		for (uint32_t i = 0, at = 0; i < RN_ARRAY_LEN(len); at += len[i++])
			assert_memory_equal(A->mem + i * 60000, B->mem + SRC_OFF + at, len[i]);
		rig_settle(R);
		rig_free(R);
	}
}

static void sinks_without_bytes_are_one_request(void **state)
{
	(void)state;
	up(4);
	const struct qp_sge sge[2] = { rig_sge(A, 0, 0), rig_sge(A, 8, 0) };
	const struct rig_wr w = read_into(B, sge, 2, 9);
	assert_true(rig_post(A, 0, &w));
	is_one_completion(A, 9, 0);
	rig_settle(R);
	rig_free(R);
}

/* Both ends read from each other with a depth of 1: neither waits for the other for ever. */
static void two_ends_that_read_do_not_wait_for_each_other(void **state)
{
	struct qp_sge at_a[QP_MAX_SGE], at_b[QP_MAX_SGE];

	(void)state;
	up(1);
	for (uint32_t i = 0; i < QP_MAX_SGE; i++) {
		at_a[i] = rig_sge(A, i * 4000, 3000 + i);
		at_b[i] = rig_sge(B, i * 4000, 3000 + i);
	}
	const struct rig_wr a = read_into(B, at_a, QP_MAX_SGE, 1), b = read_into(A, at_b, QP_MAX_SGE, 2);
	const uint32_t total = QP_MAX_SGE * 3000 + QP_MAX_SGE * (QP_MAX_SGE - 1) / 2;
	for (uint32_t i = 0; i < 3; i++)
		assert_true(rig_post(A, 0, &a) && rig_post(B, 0, &b));
	for (uint32_t i = 0; i < 6; i++) {
		struct rig_node *n = i & 1 ? B : A;
		struct qp_cqe e = rig_wait(R, &n->scq_client);
		assert_true(e.status == QP_WC_SUCCESS && e.byte_len == total);
	}
	rig_settle(R);
	rig_free(R);
}

/*
 * A fenced request after a Read with several sinks begins when all its Requests are answered. A fenced Read does not
 * wait for its own Requests.
 */
static void a_fence_waits_for_all_of_its_sinks(void **state)
{
	struct qp_sge sge[3];
	struct qp_cqe e;

	(void)state;
	up(16);
	for (uint32_t i = 0; i < 3; i++)
		sge[i] = rig_sge(A, i * 60000, 30000);
	struct rig_wr w = read_into(B, sge, 3, 1);
	w.flags |= QP_WF_FENCE;
	assert_true(rig_post(A, 0, &w));
	const struct qp_sge got = rig_sge(A, 120000, 30000), to = rig_sge(B, 0, 30000);
	const struct rig_wr send = {
		.wr_id = 2, .op = QP_WR_SEND, .flags = QP_WF_SIGNALED | QP_WF_FENCE, .sge = &got, .num_sge = 1
	};
	assert_true(rig_post_recv(B, 0, 5, &to, 1) && rig_post(A, 0, &send));
	e = rig_wait(R, &B->rcq_client);
	assert_int_equal(e.status, QP_WC_SUCCESS);
	assert_memory_equal(B->mem, B->mem + SRC_OFF + 60000, 30000); /* the bytes in the last sink */
	rig_settle(R);
	rig_free(R);
}

/*
 * The bytes for the second sink lie outside the peer's region: the work request fails once, and the next one is
 * flushed.
 */
static void a_request_that_is_refused_fails_its_work_request_once(void **state)
{
	struct qp_sge sge[3];
	struct qp_cqe e;

	(void)state;
	up(16);
	const uint32_t small = rig_reg(B, SRC_OFF, 150, QP_ACC_ALL, RIG_PD);
	for (uint32_t i = 0; i < 3; i++)
		sge[i] = rig_sge(A, i * 1000, 100);
	struct rig_wr w = read_into(B, sge, 3, 1);
	w.rkey = small;
	assert_true(rig_post(A, 0, &w));
	w.wr_id = 2;
	assert_true(rig_post(A, 0, &w));
	e = rig_wait(R, &A->scq_client);
	assert_int_equal(e.wr_id, 1);
	assert_int_equal(e.status, QP_WC_REM_ACCESS_ERR);
	e = rig_wait(R, &A->scq_client);
	assert_int_equal(e.wr_id, 2);
	assert_int_equal(e.status, QP_WC_WR_FLUSH_ERR);
	rig_settle(R);
	assert_false(rig_poll(&A->scq_client, &e));
	rig_free(R);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bytes_lie_in_their_sinks_in_order),
		cmocka_unit_test(sinks_without_bytes_are_one_request),
		cmocka_unit_test(two_ends_that_read_do_not_wait_for_each_other),
		cmocka_unit_test(a_fence_waits_for_all_of_its_sinks),
		cmocka_unit_test(a_request_that_is_refused_fails_its_work_request_once),
	};

	return cmocka_run_group_tests_name("qp_sinks", tests, NULL, NULL);
}
