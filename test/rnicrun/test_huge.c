/* SPDX-License-Identifier: BSD-3-Clause */
#include "ordinary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define UNIT  65536u
#define PLACE 16384u /* units at the begin of the pool: more than the test uses */
#define SLOTS 400u

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

static bool used[PLACE];

/* The lowest unit at a multiple of `step` where n units are free. */
static uint32_t lowest(uint32_t n, uint32_t step)
{
	uint32_t at = 0, have = 0;

	while (have < n) {
		if (used[at + have]) {
			at = (at + have + step) / step * step;
			have = 0;
		} else {
			have++;
		}
	}
	return at;
}

static void mark(uint32_t at, uint32_t n, bool as)
{
	for (uint32_t u = at; u < at + n; u++)
		used[u] = as;
}

static void test_each_block_begins_at_the_lowest_place_with_room(void **state)
{
	struct {
		uint8_t *p;
		uint32_t at, n;
	} slot[SLOTS] = { { 0 } };
	uint8_t *const base = malloc(4 * UNIT); /* the first block, at the begin of the pool */
	unsigned seed = 7;

	(void)state;
	assert_true(in_pool(base));
	free(base);
	for (uint32_t i = 0; i < 40000; i++) {
		const uint32_t k = (uint32_t)rand_r(&seed) % SLOTS;
		if (slot[k].p != NULL) {
			free(slot[k].p);
			mark(slot[k].at, slot[k].n, false);
			slot[k].p = NULL;
			continue;
		}
		const uint32_t kind = (uint32_t)rand_r(&seed) % 16, any = (uint32_t)rand_r(&seed);
		const uint32_t step = kind == 0 ? 32 : kind < 3 ? 4 : 1;
		slot[k].n = kind == 4 ? 33 + any % 40 : 2 + any % (kind < 12 ? 4 : 31);
		slot[k].p = aligned_alloc((size_t)step * UNIT, (size_t)slot[k].n * UNIT);
		slot[k].at = lowest(slot[k].n, step);
		assert_ptr_equal(slot[k].p, base + (size_t)slot[k].at * UNIT);
		mark(slot[k].at, slot[k].n, true);
	}
	for (uint32_t k = 0; k < SLOTS; k++)
		free(slot[k].p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_signal_leaves_a_block_in_hugepages),
		cmocka_unit_test(test_each_block_begins_at_the_lowest_place_with_room),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
