/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_layout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void test_parts_follow_each_other(void **state)
{
	const struct tp_point p = { .mode = TP_SOAK, .qps = 3, .slots = 5, .size = 1000 };
	struct tp_layout l;

	(void)state;
	tp_layout_make(&l, &p);
	assert_true(l.stride >= p.size && l.fence >= tp_credit_out(2) + 64 && l.tx >= l.cards && l.cards > l.fence);
	assert_true(l.rx >= l.tx + 3 * 5 * l.stride && l.constant >= l.rx + 3 * 5 * l.stride);
	assert_true(l.len >= l.constant + l.stride && l.len < l.constant + l.stride + TP_PAGE);
	assert_int_equal(tp_tx_off(&l, 2, 4), l.tx + 14 * l.stride);
}

/* The length is refused by whoever compares it with a limit, or asks for as much memory. */
static void test_more_buffers_than_addresses_are_no_short_region(void **state)
{
	struct tp_point p = { .mode = TP_WRITE_BW, .slots = TP_MAX_BUFFERS, .size = TP_MAX_SIZE };
	struct tp_layout l;

	(void)state;
	for (p.qps = 1; p.qps <= TP_MAX_QPS; p.qps *= 2) {
		tp_layout_make(&l, &p);
		assert_true(l.tx < l.rx && l.rx < l.constant && l.constant <= l.len && l.len >= UINT64_C(1) << 51);
	}
	p = (struct tp_point){ .mode = TP_SOAK, .qps = TP_MAX_QPS, .slots = TP_MAX_BUFFERS, .size = TP_MAX_SIZE - 1 };
	tp_layout_make(&l, &p);
	assert_true(l.len > UINT64_C(1) << 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts_follow_each_other),
		cmocka_unit_test(test_more_buffers_than_addresses_are_no_short_region),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
