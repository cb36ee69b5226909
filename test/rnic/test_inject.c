/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures that a program asks for: how they are written, and which call or completion fails. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "rnic/inject.h"

static void parse(struct rnic_inject_rules *rules, const char *spec)
{
	const char *rest, *wrong = rnic_inject_parse(rules, spec, &rest);

	if (wrong != NULL)
		fail_msg("%s: %s", spec, wrong);
}

static void the_nth_call_fails_and_no_other(void **state)
{
	struct rnic_inject_rules rules;

	(void)state;
	parse(&rules, "reg_mr:3=ENOMEM,create_qp:1=EAGAIN");
	for (int i = 1; i <= 10; i++) {
		const struct rnic_inject_rule *r = rnic_inject_hit(&rules, RNIC_INJECT_REG_MR, 0, 0);
		assert_int_equal(r != NULL, i == 3);
		assert_true(r == NULL || r->result == ENOMEM);
		assert_null(rnic_inject_hit(&rules, RNIC_INJECT_CONNECT, 0, 0));
	}
	assert_int_equal(rnic_inject_hit(&rules, RNIC_INJECT_CREATE_QP, 0, 0)->result, EAGAIN);
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_CREATE_QP, 0, 0));
}

static void a_completion_counts_by_its_opcode_and_queue_pair(void **state)
{
	struct rnic_inject_rules rules;

	(void)state;
	parse(&rules, "wc.recv@7:2=LOC_PROT_ERR,wc.write:1=REM_ACCESS_ERR,wc:6=GENERAL_ERR");
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_RECV, 8));
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_RECV, 7));
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_SEND, 7));
	assert_int_equal(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_RDMA_WRITE, 7)->result, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_RECV_RDMA_WITH_IMM, 7)->result,
			 IBV_WC_LOC_PROT_ERR);
	assert_int_equal(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_FETCH_ADD, 1)->result, IBV_WC_GENERAL_ERR);
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_RDMA_WRITE, 7));
}

static void an_event_follows_a_call_or_comes_with_a_completion(void **state)
{
	struct rnic_inject_rules rules;

	(void)state;
	parse(&rules, "connect:1=REJECTED,async@7:2=PORT_ERR,connect:2=ETIMEDOUT");
	const struct rnic_inject_rule *r = rnic_inject_hit(&rules, RNIC_INJECT_CONNECT, 0, 0);
	assert_true(r != NULL && r->event == RDMA_CM_EVENT_REJECTED && r->result == 0);
	r = rnic_inject_hit(&rules, RNIC_INJECT_CONNECT, 0, 0);
	assert_true(r != NULL && r->event == 0 && r->result == ETIMEDOUT);
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_ASYNC, IBV_WC_SEND, 7));
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_ASYNC, IBV_WC_SEND, 8));
	assert_null(rnic_inject_hit(&rules, RNIC_INJECT_WC, IBV_WC_RECV, 7));
	assert_int_equal(rnic_inject_hit(&rules, RNIC_INJECT_ASYNC, IBV_WC_RECV, 7)->result, IBV_EVENT_PORT_ERR);
}

static void no_two_opcodes_share_a_bit(void **state)
{
	static const uint32_t ops[] = { IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
					IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD,  IBV_WC_BIND_MW,
					IBV_WC_LOCAL_INV, IBV_WC_RECV,       IBV_WC_RECV_RDMA_WITH_IMM };
	uint32_t seen = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		assert_int_equal(seen & rnic_inject_op(ops[i]), 0);
		seen |= rnic_inject_op(ops[i]);
	}
}

static void a_wrong_specification_is_refused(void **state)
{
	static const char *const specs[] = { "",
					     ",",
					     "reg_mr",
					     "reg_mr:",
					     "reg_mr:0=ENOMEM",
					     "reg_mr:-1=ENOMEM",
					     "reg_mr:1",
					     "reg_mr:1=",
					     "reg_mr:1=ENONSENSE",
					     "reg_mr:1=RETRY_EXC_ERR",
					     "wc:1=ENOMEM",
					     "connect:1=ADDR_ERROR",
					     "listen:1=REJECTED",
					     "async:1=CQ_ERR",
					     "daemon:1=FATAL_ERR",
					     "async:1=ENOMEM",
					     "wc:1=SUCCESS",
					     "wc@:1=FATAL_ERR",
					     "wc@0:1=FATAL_ERR",
					     "wc@16777216:1=FATAL_ERR",
					     "reg_mr@3:1=ENOMEM",
					     "wc.nothing:1=FATAL_ERR",
					     "reg_mr:99999999999999999999=ENOMEM",
					     "reg_mr:1=ENOMEM,",
					     "reg_mr:1=ENOMEM,,wc:1=FATAL_ERR",
					     "reg_mr:1=ENOMEM wc:1=FATAL_ERR",
					     "reg_mr:000000000000000000000000000000001=ENOMEM",
					     "wc.recv@7:111111111111111111=RNR_RETRY_EXC_ERR_AND_MORE" };
	struct rnic_inject_rules rules;
	const char *rest;

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (rnic_inject_parse(&rules, specs[i], &rest) == NULL)
			fail_msg("accepted: '%s'", specs[i]);
}

static void the_wrong_part_is_named_and_the_seventeenth_is_one(void **state)
{
	struct rnic_inject_rules rules;
	char spec[512] = "";
	const char *rest;

	(void)state;
	assert_non_null(rnic_inject_parse(&rules, "reg_mr:1=ENOMEM,create_cq:x=EIO", &rest));
	assert_string_equal(rest, "create_cq:x=EIO");
	for (uint32_t i = 0; i < RNIC_INJECT_MOST; i++)
		strcat(spec, i == 0 ? "wc:1=FATAL_ERR" : ",wc:1=FATAL_ERR");
	parse(&rules, spec);
	strcat(spec, ",wc:1=FATAL_ERR");
	assert_non_null(rnic_inject_parse(&rules, spec, &rest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_call_fails_and_no_other),
		cmocka_unit_test(a_completion_counts_by_its_opcode_and_queue_pair),
		cmocka_unit_test(an_event_follows_a_call_or_comes_with_a_completion),
		cmocka_unit_test(no_two_opcodes_share_a_bit),
		cmocka_unit_test(a_wrong_specification_is_refused),
		cmocka_unit_test(the_wrong_part_is_named_and_the_seventeenth_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
