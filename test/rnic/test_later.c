/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that librnic carries out later, at a given time (rnic_later). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "rnic/later.h"

static int runs, begun, over;

static void once(void *object, uint64_t arg) { __atomic_fetch_add((int *)object, (int)arg, __ATOMIC_RELEASE); }

static void wait_for(const int *what)
{
	while (__atomic_load_n(what, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
}

/* Work that asks for its next run when it ends, while rnic_later_forget() waits for it. */
static void again(void *object, uint64_t arg)
{
	__atomic_fetch_add(&runs, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
	usleep(2000);
	(void)rnic_later(1, again, object, arg);
}

static void what_is_forgotten_is_not_done_again_by_what_was_being_done(void **state)
{
	(void)state;
	for (int round = 0; round < 20; round++) {
		int object;
		begun = over = 0;
		assert_true(rnic_later(0, again, &object, 0));
		wait_for(&begun);
		rnic_later_forget(&object);
		const int before = __atomic_load_n(&runs, __ATOMIC_RELAXED);
		/* work runs in the order of its times: if `again` were to run once more, it would run before `once` */
		assert_true(rnic_later(2, once, &over, 1));
		wait_for(&over);
		assert_int_equal(__atomic_load_n(&runs, __ATOMIC_RELAXED), before);
	}
}

static void what_is_wished_for_is_done_once_and_in_the_order_of_its_time(void **state)
{
	int first = 0, last = 0;

	(void)state;
	assert_true(rnic_later(20, once, &last, 1));
	assert_true(rnic_later(1, once, &first, 1));
	wait_for(&last);
	assert_int_equal(__atomic_load_n(&first, __ATOMIC_ACQUIRE), 1);
	assert_int_equal(last, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wished_for_is_done_once_and_in_the_order_of_its_time),
		cmocka_unit_test(what_is_forgotten_is_not_done_again_by_what_was_being_done),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
