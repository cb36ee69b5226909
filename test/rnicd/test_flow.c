/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "plane/flow.h"

#define FLOWS 1000u

static const uint64_t secret[2] = { UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210) };
static struct flow flow[FLOWS];

static void make(struct flow *f, uint32_t i)
{
	*f = (struct flow){ .key = { .local = pkt_addr_ip4(0x0a000001),
				     .remote = pkt_addr_ip4(0x0a000000 + i / 7),
				     .lport = 4791,
				     .rport = (uint16_t)(1024 + i) } };
	f->hash = flow_hash(secret, &f->key);
}

static void slots_are_twice_the_flows(void **state)
{
	(void)state;
	assert_int_equal(flow_slots(1), 2);
	assert_int_equal(flow_slots(1000), 2048);
	assert_int_equal(flow_slots(1024), 2048);
	assert_int_equal(flow_slots(1025), 4096);
}

static void both_ends_have_one_owner(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < FLOWS; i++) {
		struct flow f;
		make(&f, i);
		struct flow_key back = { .local = f.key.remote,
					 .remote = f.key.local,
					 .lport = f.key.rport,
					 .rport = f.key.lport,
					 .port = 3 };
		assert_int_equal(flow_hash(secret, &back), f.hash);
		assert_false(flow_key_eq(&back, &f.key));
		for (uint32_t n = 1; n <= 16; n++)
			assert_in_range(flow_owner(f.hash, n), 0, n - 1);
	}
	/* connections of a port to itself have different hashes, too */
	struct flow_key self = { .local = pkt_addr_ip4(1), .remote = pkt_addr_ip4(1), .lport = 7, .rport = 7 };
	struct flow_key other = { .local = pkt_addr_ip4(2), .remote = pkt_addr_ip4(2), .lport = 7, .rport = 7 };
	assert_int_not_equal(flow_hash(secret, &self), flow_hash(secret, &other));
}

static void flows_spread_over_workers(void **state)
{
	(void)state;
	uint32_t n[4] = { 0 };
	for (uint32_t i = 0; i < FLOWS; i++) {
		struct flow f;
		make(&f, i);
		n[flow_owner(f.hash, 4)]++;
	}
	for (uint32_t w = 0; w < 4; w++)
		assert_in_range(n[w], FLOWS / 4 - 60, FLOWS / 4 + 60);
}

/* Random adding and deleting, compared with a plain array: the gap behind a deleted entry must close. */
static void random_life(void **state)
{
	(void)state;
	struct flow_slot *slot = calloc(flow_slots(FLOWS), sizeof(*slot));
	struct flow_table t;
	bool in[FLOWS] = { false };
	uint32_t used = 0;
	struct rn_rng rng;

	rn_rng_seed(&rng, 42);
	flow_init(&t, slot, flow_slots(FLOWS));
	for (uint32_t i = 0; i < FLOWS; i++) {
		make(&flow[i], i);
		/* long runs of used entries, and runs across the end of the table */
		if (i % 3 == 0)
			flow[i].hash = (flow[i].hash & 0xf0000000u) | (t.mask - 5 + i % 9);
	}
	for (uint32_t step = 0; step < 20000; step++) {
		uint32_t i = rn_rng_below(&rng, FLOWS);
		if (in[i]) {
			assert_int_equal(flow_add(&t, &flow[i]), FLOW_EXISTS);
			flow_del(&t, &flow[i]);
			used--;
		} else {
			assert_int_equal(flow_add(&t, &flow[i]), FLOW_OK);
			used++;
		}
		in[i] = !in[i];
		assert_int_equal(t.used, used);
		if (step % 500 != 0)
			continue;
		for (uint32_t k = 0; k < FLOWS; k++)
			assert_ptr_equal(flow_find(&t, &flow[k].key, flow[k].hash), in[k] ? &flow[k] : NULL);
	}
	free(slot);
}

static void full_table_says_so(void **state)
{
	(void)state;
	struct flow_slot slot[8];
	struct flow_table t;
	uint32_t n = 0;

	flow_init(&t, slot, 8);
	for (uint32_t i = 0; i < 8; i++) {
		make(&flow[i], i);
		n += flow_add(&t, &flow[i]) == FLOW_OK;
	}
	assert_int_equal(n, 4);
	make(&flow[8], 8);
	assert_null(flow_find(&t, &flow[8].key, flow[8].hash));
	flow_del(&t, &flow[8]); /* not in the table: nothing changes */
	assert_int_equal(t.used, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_twice_the_flows), cmocka_unit_test(both_ends_have_one_owner),
		cmocka_unit_test(flows_spread_over_workers), cmocka_unit_test(random_life),
		cmocka_unit_test(full_table_says_so),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
