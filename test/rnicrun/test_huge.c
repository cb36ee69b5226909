/* SPDX-License-Identifier: BSD-3-Clause */
#include "ordinary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define UNIT 65536u

/* libc's big blocks have a header at the begin of their first page. */
static bool in_pool(const void *p) { return (uintptr_t)p % UNIT == 0; }

static void test_a_signal_leaves_a_block_in_hugepages(void **state)
{
	(void)state;
	ordinary_signals = 5;
	void *p = malloc(64 * UNIT);
	assert_int_equal(ordinary_signals, 0);
	assert_true(in_pool(p));
	free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_signal_leaves_a_block_in_hugepages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
