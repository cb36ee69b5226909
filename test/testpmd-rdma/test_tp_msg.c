/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_msg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

static struct tp_err err;

static void test_setup_survives_the_wire(void **state)
{
	struct tp_point p = { .mode = TP_SEND_BW,
			      .qp_type = TP_QP_RD,
			      .bidir = true,
			      .verify = true,
			      .events = false,
			      .touch = true,
			      .qps = 3,
			      .depth = 100,
			      .batch = 7,
			      .signal_every = 5,
			      .slots = 9,
			      .size = 12345,
			      .iters = UINT64_C(1) << 40,
			      .duration = 11,
			      .warmup_ops = 12,
			      .warmup = 13,
			      .timeout = 14,
			      .seed = UINT64_MAX },
			q;
	struct tp_region r = { .addr = 0x123456789abcdef0, .len = 77, .rkey = 0xfedcba98 }, s;
	uint8_t wire[TP_MSG_SIZE];
	struct tp_msg m, n;
	uint32_t inline_max = 0;

	(void)state;
	tp_msg_put_setup(&m, &p, &r, 64);
	tp_msg_encode(wire, &m);
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_OK);
	assert_int_equal(n.type, TP_MSG_SETUP);
	tp_msg_get_setup(&n, &q, &s, &inline_max);
	assert_int_equal(q.mode, p.mode);
	assert_int_equal(q.qp_type, p.qp_type);
	assert_int_equal(q.loss, TP_NO_LOSS);
	assert_true(q.bidir && q.verify && !q.events && q.touch);
	assert_int_equal(q.qps, p.qps);
	assert_int_equal(q.depth, p.depth);
	assert_int_equal(q.batch, p.batch);
	assert_int_equal(q.signal_every, p.signal_every);
	assert_int_equal(q.slots, p.slots);
	assert_int_equal(q.size, p.size);
	assert_int_equal(q.iters, p.iters);
	assert_int_equal(q.duration, p.duration);
	assert_int_equal(q.warmup_ops, p.warmup_ops);
	assert_int_equal(q.warmup, p.warmup);
	assert_int_equal(q.timeout, p.timeout);
	assert_true(q.seed == p.seed);
	assert_int_equal(s.addr, r.addr);
	assert_int_equal(s.len, r.len);
	assert_int_equal(s.rkey, r.rkey);
	assert_int_equal(inline_max, 64);
}

static void test_result_survives_the_wire(void **state)
{
	struct tp_figures f = { 1, 2, 3, 4, 5, 6, 7, 8, { 9, 10, 11, 12, 13, 14, 15 }, 16, 17, 18, 19, 20, 1, 21, 22 },
			  g;
	uint8_t wire[TP_MSG_SIZE];
	struct tp_msg m, n;

	(void)state;
	tp_msg_put_result(&m, &f);
	tp_msg_encode(wire, &m);
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_OK);
	tp_msg_get_result(&n, &g);
	assert_memory_equal(&f, &g, sizeof(f));
}

/* A number too large for its field is refused, not truncated to a valid one. */
static void test_numbers_are_not_cut(void **state)
{
	struct tp_point p = { .mode = TP_WRITE_BW, .qps = 1 };
	struct tp_region r = { 0 };
	struct tp_msg m;
	uint32_t inline_max;

	(void)state;
	tp_msg_put_setup(&m, &p, &r, 0);
	m.word[4] = UINT64_C(1) << 32;
	m.word[6] = (UINT64_C(1) << 32) + 1;
	m.word[18] = UINT64_C(1) << 32;
	tp_msg_get_setup(&m, &p, &r, &inline_max);
	assert_int_equal(p.mode, TP_MODE_COUNT);
	assert_int_equal(p.qp_type, TP_QP_TYPES);
	assert_int_equal(p.qps, UINT32_MAX);
}

static void test_foreign_messages_are_refused(void **state)
{
	struct tp_msg m = { .type = TP_MSG_GO }, n;
	uint8_t wire[TP_MSG_SIZE];

	(void)state;
	memset(m.text, 'x', sizeof(m.text));
	tp_msg_encode(wire, &m);
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_OK);
	assert_int_equal(strlen(n.text), TP_MSG_TEXT - 1);
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire) - 1, &err), TP_BAD_PEER);
	assert_int_equal(tp_msg_decode(&n, wire, 0, &err), TP_BAD_PEER);
	wire[0] ^= 1;
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_BAD_PEER);
	wire[0] ^= 1;
	wire[11]++; /* version */
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_BAD_PEER);
	assert_non_null(strstr(err.text, "version"));
	wire[11]--;
	wire[15] = 0;
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_BAD_PEER);
	wire[15] = 200;
	assert_int_equal(tp_msg_decode(&n, wire, sizeof(wire), &err), TP_BAD_PEER);
}

static void test_private_data(void **state)
{
	struct tp_private p = { TP_ROLE_DATA, 1023, 0x1122334455667788 }, q;
	uint8_t wire[TP_PRIVATE_SIZE + 32] = { 0 };

	(void)state;
	tp_private_encode(wire, &p);
	assert_int_equal(tp_private_decode(&q, wire, sizeof(wire), &err), TP_OK);
	assert_int_equal(q.role, TP_ROLE_DATA);
	assert_int_equal(q.index, 1023);
	assert_int_equal(q.session, p.session);
	assert_int_equal(tp_private_decode(&q, wire, TP_PRIVATE_SIZE - 1, &err), TP_BAD_PEER);
	assert_int_equal(tp_private_decode(&q, NULL, 0, &err), TP_BAD_PEER);
	wire[11] = 3;
	assert_int_equal(tp_private_decode(&q, wire, sizeof(wire), &err), TP_BAD_PEER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_setup_survives_the_wire),
		cmocka_unit_test(test_result_survives_the_wire),
		cmocka_unit_test(test_numbers_are_not_cut),
		cmocka_unit_test(test_foreign_messages_are_refused),
		cmocka_unit_test(test_private_data),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
