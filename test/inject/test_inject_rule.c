/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures that a program asks for: the syntax of rules, and which call or completion they make fail. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "inject/inject_rule.h"

static void parse(struct inject_rules *rules, const char *spec)
{
	const char *rest, *wrong = inject_parse(rules, spec, &rest);

	if (wrong != NULL)
		fail_msg("%s: %s", spec, wrong);
}

static const struct inject_rule *hit(struct inject_rules *rules, enum inject_at at, uint32_t opcode, uint32_t qpn)
{
	const struct inject_what what = { .at = at, .opcode = opcode, .qpn = qpn };
	uint64_t n;

	return inject_hit(rules, &what, false, &n);
}

static void the_nth_call_fails_and_no_other(void **state)
{
	struct inject_rules rules;

	(void)state;
	parse(&rules, "reg_mr:3=ENOMEM,create_qp:1=EAGAIN");
	for (int i = 1; i <= 10; i++) {
		const struct inject_rule *r = hit(&rules, INJECT_REG_MR, 0, 0);
		assert_int_equal(r != NULL, i == 3);
		assert_true(r == NULL || r->result == ENOMEM);
		assert_null(hit(&rules, INJECT_CONNECT, 0, 0));
	}
	assert_int_equal(hit(&rules, INJECT_CREATE_QP, 0, 0)->result, EAGAIN);
	assert_null(hit(&rules, INJECT_CREATE_QP, 0, 0));
}

static void a_completion_counts_by_its_opcode_and_queue_pair(void **state)
{
	struct inject_rules rules;

	(void)state;
	parse(&rules, "wc.recv@7:2=LOC_PROT_ERR,wc.write:1=REM_ACCESS_ERR,wc:6=GENERAL_ERR");
	assert_null(hit(&rules, INJECT_WC, IBV_WC_RECV, 8));
	assert_null(hit(&rules, INJECT_WC, IBV_WC_RECV, 7));
	assert_null(hit(&rules, INJECT_WC, IBV_WC_SEND, 7));
	assert_int_equal(hit(&rules, INJECT_WC, IBV_WC_RDMA_WRITE, 7)->result, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(hit(&rules, INJECT_WC, IBV_WC_RECV_RDMA_WITH_IMM, 7)->result, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(hit(&rules, INJECT_WC, IBV_WC_FETCH_ADD, 1)->result, IBV_WC_GENERAL_ERR);
	assert_null(hit(&rules, INJECT_WC, IBV_WC_RDMA_WRITE, 7));
}

static void an_event_follows_a_call_or_comes_with_a_completion(void **state)
{
	struct inject_rules rules;

	(void)state;
	parse(&rules, "connect:1=REJECTED,async@7:2=PORT_ERR,connect:2=ETIMEDOUT");
	const struct inject_rule *r = hit(&rules, INJECT_CONNECT, 0, 0);
	assert_true(r != NULL && r->event == RDMA_CM_EVENT_REJECTED && r->result == 0);
	r = hit(&rules, INJECT_CONNECT, 0, 0);
	assert_true(r != NULL && r->event == 0 && r->result == ETIMEDOUT);
	assert_null(hit(&rules, INJECT_ASYNC, IBV_WC_SEND, 7));
	assert_null(hit(&rules, INJECT_ASYNC, IBV_WC_SEND, 8));
	assert_null(hit(&rules, INJECT_WC, IBV_WC_RECV, 7));
	assert_int_equal(hit(&rules, INJECT_ASYNC, IBV_WC_RECV, 7)->result, IBV_EVENT_PORT_ERR);
}

static void a_side_of_a_connection_counts_alone(void **state)
{
	struct inject_what what = { .at = INJECT_WC, .opcode = IBV_WC_SEND, .qpn = 7, .side = INJECT_PASSIVE };
	struct inject_rules rules;
	uint64_t n;

	(void)state;
	parse(&rules, "wc.sq@active:2=REM_OP_ERR");
	assert_null(inject_hit(&rules, &what, false, &n));
	what.side = INJECT_ACTIVE;
	assert_null(inject_hit(&rules, &what, false, &n));
	what.opcode = IBV_WC_RECV;
	assert_null(inject_hit(&rules, &what, false, &n));
	what.opcode = IBV_WC_RDMA_READ;
	assert_int_equal(inject_hit(&rules, &what, false, &n)->result, IBV_WC_REM_OP_ERR);
	assert_int_equal(n, 2);
}

static void what_comes_later_is_counted_beside_what_fails(void **state)
{
	const struct inject_what what = { .at = INJECT_WC, .opcode = IBV_WC_SEND };
	struct inject_rules rules;
	uint64_t n;

	(void)state;
	parse(&rules, "wc:1=DELAYED/500ms,wc:1=FATAL_ERR,connect:1=TIMED_OUT/2s,post_recv@7:3=HELD/20ms");
	const struct inject_rule *r = inject_hit(&rules, &what, true, &n);
	assert_true(r->result == INJECT_LATER && r->last_ms == 500);
	assert_int_equal(inject_hit(&rules, &what, false, &n)->result, IBV_WC_FATAL_ERR);
	r = hit(&rules, INJECT_CONNECT, 0, 0);
	assert_true(r->event == RDMA_CM_EVENT_UNREACHABLE && r->last_ms == 2000 && !r->refused);
	assert_true(rules.r[3].qpn == 7 && rules.r[3].nth == 3 && rules.r[3].last_ms == 20);
}

static void what_comes_at_a_time_counts_nothing(void **state)
{
	struct inject_rules rules;

	(void)state;
	parse(&rules, "async:500ms=PORT_ERR,daemon:3s=GONE/1s");
	assert_true(rules.r[0].after_ms == 500 && rules.r[0].nth == 0);
	assert_true(rules.r[1].after_ms == 3000 && rules.r[1].last_ms == 1000);
	for (int i = 0; i < 600; i++)
		assert_null(hit(&rules, INJECT_ASYNC, IBV_WC_SEND, 7));
}

/* The calls that a seed makes fail: bit i is set for call i. */
static uint64_t drawn(const char *spec)
{
	struct inject_rules rules;
	uint64_t set = 0;

	parse(&rules, spec);
	for (uint32_t i = 0; i < 64; i++)
		set |= (uint64_t)(hit(&rules, INJECT_REG_MR, 0, 0) != NULL) << i;
	return set;
}

static void chance_is_repeated_by_its_seed(void **state)
{
	const uint64_t one = drawn("reg_mr:?4=ENOMEM,seed=1");

	(void)state;
	assert_true(one == drawn("seed=1,reg_mr:?4=ENOMEM") && one != drawn("reg_mr:?4=ENOMEM,seed=2"));
	assert_in_range(__builtin_popcountll(one), 4, 32);
	assert_true(drawn("reg_mr:?1=ENOMEM") == UINT64_MAX);
}

static void none_is_no_failure(void **state)
{
	struct inject_rules rules;

	(void)state;
	parse(&rules, "none");
	assert_int_equal(rules.n, 0);
}

static void no_two_opcodes_share_a_bit(void **state)
{
	static const uint32_t ops[] = { IBV_WC_SEND,      IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ,
					IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD,  IBV_WC_BIND_MW,
					IBV_WC_LOCAL_INV, IBV_WC_RECV,       IBV_WC_RECV_RDMA_WITH_IMM };
	uint32_t seen = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		assert_int_equal(seen & inject_op_bit(ops[i]), 0);
		seen |= inject_op_bit(ops[i]);
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
					     "reg_mr:01=ENOMEM",
					     "wc.recv@7:1111=RNR_RETRY_EXC_ERR_AND_MORE",
					     "reg_mr:1=ENOMEMandmorethanthereisroomforinthetextofonerulewhichisshort",
					     "reg_mr:500ms=ENOMEM",
					     "wc:1s=FATAL_ERR",
					     "async:5000000s=PORT_ERR",
					     "async:0ms=PORT_ERR",
					     "async:5m=PORT_ERR",
					     "reg_mr:?0=ENOMEM",
					     "reg_mr:?=ENOMEM",
					     "reg_mr:1?=ENOMEM",
					     "wc:1=DELAYED",
					     "wc:1=DELAYED/",
					     "wc:1=DELAYED/0s",
					     "wc:1=DELAYED/5",
					     "wc:1=DELAYED/5sx",
					     "wc:1=HELD/5s",
					     "wc:1=FATAL_ERR/5s",
					     "async:1=PORT_ERR/5s",
					     "reg_mr:1=ENOMEM/5s",
					     "post_send:1=HELD/5s",
					     "wc@left:1=FATAL_ERR",
					     "connect@active:1=EIO",
					     "seed=",
					     "seed=x",
					     "seed=0",
					     "none,reg_mr:1=ENOMEM" };
	struct inject_rules rules;
	const char *rest;

	(void)state;
	for (size_t i = 0; i < sizeof(specs) / sizeof(specs[0]); i++)
		if (inject_parse(&rules, specs[i], &rest) == NULL)
			fail_msg("accepted: '%s'", specs[i]);
}

static void the_wrong_part_is_named_and_the_seventeenth_is_one(void **state)
{
	struct inject_rules rules;
	char spec[512] = "";
	const char *rest;

	(void)state;
	assert_non_null(inject_parse(&rules, "reg_mr:1=ENOMEM,create_cq:x=EIO", &rest));
	assert_string_equal(rest, "create_cq:x=EIO");
	for (uint32_t i = 0; i < INJECT_MOST; i++)
		strcat(spec, i == 0 ? "wc:1=FATAL_ERR" : ",wc:1=FATAL_ERR");
	parse(&rules, spec);
	strcat(spec, ",wc:1=FATAL_ERR");
	assert_non_null(inject_parse(&rules, spec, &rest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_nth_call_fails_and_no_other),
		cmocka_unit_test(a_completion_counts_by_its_opcode_and_queue_pair),
		cmocka_unit_test(an_event_follows_a_call_or_comes_with_a_completion),
		cmocka_unit_test(a_side_of_a_connection_counts_alone),
		cmocka_unit_test(what_comes_later_is_counted_beside_what_fails),
		cmocka_unit_test(what_comes_at_a_time_counts_nothing),
		cmocka_unit_test(chance_is_repeated_by_its_seed),
		cmocka_unit_test(none_is_no_failure),
		cmocka_unit_test(no_two_opcodes_share_a_bit),
		cmocka_unit_test(a_wrong_specification_is_refused),
		cmocka_unit_test(the_wrong_part_is_named_and_the_seventeenth_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
