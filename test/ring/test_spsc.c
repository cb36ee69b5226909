/* SPDX-License-Identifier: BSD-3-Clause */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rn_rng.h"
#include "ring/spsc.h"

#define NSLOTS 8u
#define SLOT   32u
#define BYTES  (sizeof(struct spsc_hdr) + NSLOTS * SLOT)

/* Guard lines around the ring: a write outside the ring changes them. */
struct arena {
	RN_ALIGNED(RN_CACHE_LINE) uint8_t before[RN_CACHE_LINE];
	RN_ALIGNED(RN_CACHE_LINE) uint8_t ring[BYTES];
	RN_ALIGNED(RN_CACHE_LINE) uint8_t after[RN_CACHE_LINE];
};

static struct arena mem;

static struct spsc_place place(void)
{
	return (struct spsc_place){ .region = &mem,
				    .region_size = sizeof(mem),
				    .off = offsetof(struct arena, ring),
				    .nslots = NSLOTS,
				    .slot_size = SLOT };
}

static struct spsc_hdr *hdr(void) { return (struct spsc_hdr *)(void *)mem.ring; }

static void fresh(struct spsc_prod *p, struct spsc_cons *c, uint32_t start)
{
	struct spsc_place at = place();

	memset(&mem, 0, sizeof(mem));
	hdr()->prod = start;
	hdr()->cons = start;
	assert_int_equal(spsc_prod_attach(p, &at), SPSC_OK);
	assert_int_equal(spsc_cons_attach(c, &at), SPSC_OK);
}

static void size_is_header_and_slots(void **state)
{
	(void)state;
	assert_int_equal(spsc_size(NSLOTS, SLOT), BYTES);
	assert_int_equal(spsc_size(1, 64), 192);
	assert_true(spsc_size(1u << 31, 1u << 31) == 128 + (UINT64_C(1) << 62));
	assert_int_equal(spsc_size(0, 32), 0);
	assert_int_equal(spsc_size(8, 0), 0);
	assert_int_equal(spsc_size(6, 32), 0);
	assert_int_equal(spsc_size(8, 48), 0);
}

static void attach_refuses_a_bad_place(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;
	struct spsc_place at;

	(void)state;
	memset(&mem, 0, sizeof(mem));
	at = place();
	at.nslots = 7;
	assert_int_equal(spsc_prod_attach(&p, &at), SPSC_BAD_GEOMETRY);
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_BAD_GEOMETRY);
	at = place();
	at.slot_size = 33;
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_BAD_GEOMETRY);
	at = place();
	at.region_size = at.off + BYTES - 1;
	assert_int_equal(spsc_prod_attach(&p, &at), SPSC_BAD_RANGE);
	at.region_size++;
	assert_int_equal(spsc_prod_attach(&p, &at), SPSC_OK);
	at.off = UINT64_MAX - 63;
	assert_int_equal(spsc_prod_attach(&p, &at), SPSC_BAD_RANGE);
	at = place();
	at.nslots = 1u << 31;
	at.slot_size = 1u << 31;
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_BAD_RANGE);
	at = place();
	at.off += 32;
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_BAD_ALIGN);
}

static void attach_refuses_impossible_indices(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;
	struct spsc_place at = place();

	(void)state;
	memset(&mem, 0, sizeof(mem));
	hdr()->prod = 5;
	hdr()->cons = 6;
	assert_int_equal(spsc_prod_attach(&p, &at), SPSC_CORRUPT);
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_CORRUPT);
	hdr()->prod = 6 + NSLOTS + 1;
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_CORRUPT);
	hdr()->prod = 6 + NSLOTS;
	assert_int_equal(spsc_cons_attach(&c, &at), SPSC_OK);
	assert_int_equal(spsc_cons_avail(&c, 1), NSLOTS);
	assert_int_equal(spsc_prod_attach(&p, &at), SPSC_OK);
	assert_int_equal(spsc_prod_free(&p, 1), 0);
}

/* Fills and empties the ring across the wrap of the 32-bit index. */
static void fifo_across_the_index_wrap(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;
	uint32_t next_in = 0, next_out = 0;

	(void)state;
	fresh(&p, &c, UINT32_MAX - 20);
	for (uint32_t round = 0; round < 100; round++) {
		uint32_t n = 1 + round % NSLOTS;

		assert_int_equal(spsc_prod_free(&p, NSLOTS), NSLOTS);
		for (uint32_t i = 0; i < n; i++) {
			uint32_t *s = spsc_prod_slot(&p, i);
			assert_int_equal((uintptr_t)s % SLOT, 0);
			*s = next_in++;
		}
		assert_int_equal(spsc_cons_avail(&c, 1), 0);
		spsc_prod_publish(&p, n);
		assert_int_equal(spsc_cons_avail(&c, 1), n);
		assert_int_equal(spsc_prod_free(&p, NSLOTS), NSLOTS - n);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(*(const uint32_t *)spsc_cons_slot(&c, i), next_out++);
		spsc_cons_release(&c, n);
	}
	assert_int_equal(p.verdict, SPSC_OK);
	assert_int_equal(c.verdict, SPSC_OK);
}

static void full_is_full_and_empty_is_empty(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;

	(void)state;
	fresh(&p, &c, 3);
	spsc_prod_publish(&p, NSLOTS);
	assert_int_equal(spsc_prod_free(&p, 1), 0);
	assert_int_equal(p.verdict, SPSC_OK);
	assert_int_equal(spsc_cons_avail(&c, 1), NSLOTS);
	spsc_cons_release(&c, NSLOTS);
	assert_int_equal(spsc_cons_avail(&c, 1), 0);
	assert_int_equal(c.verdict, SPSC_OK);
	assert_int_equal(spsc_prod_free(&p, 1), NSLOTS);
}

/* The shared index is not read while the known value is enough: this keeps the cache line from moving between CPUs. */
static void refresh_only_when_short(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;

	(void)state;
	fresh(&p, &c, 0);
	spsc_prod_publish(&p, 2);
	assert_int_equal(spsc_cons_avail(&c, 1), 2);
	spsc_prod_publish(&p, 3);
	assert_int_equal(spsc_cons_avail(&c, 2), 2);
	assert_int_equal(spsc_cons_avail(&c, 3), 5);
	spsc_cons_release(&c, 4);
	assert_int_equal(spsc_prod_free(&p, 3), 3);
	assert_int_equal(spsc_prod_free(&p, 4), 7);
}

static void entries_of_many_slots_wrap(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;
	uint8_t in[5 * SLOT], out[5 * SLOT];

	(void)state;
	fresh(&p, &c, UINT32_MAX - 2);
	for (uint32_t round = 0; round < 50; round++) {
		size_t len = sizeof(in) - round % SLOT;

		for (size_t i = 0; i < sizeof(in); i++)
			in[i] = (uint8_t)(i * 7 + round);
		assert_true(spsc_prod_free(&p, 6) >= 6);
		memset(spsc_prod_slot(&p, 0), 0xEE, SLOT);
		spsc_prod_copy(&p, 1, in, len);
		spsc_prod_publish(&p, 6);
		assert_int_equal(spsc_cons_avail(&c, 6), 6);
		memset(out, 0, sizeof(out));
		spsc_cons_copy(&c, 1, out, len);
		assert_memory_equal(in, out, len);
		for (uint32_t i = 0; i < 4; i++)
			assert_memory_equal(spsc_cons_slot(&c, 1 + i), in + i * SLOT, SLOT);
		spsc_cons_release(&c, 6);
	}
	for (uint32_t i = 0; i < RN_CACHE_LINE; i++)
		assert_int_equal(mem.before[i] | mem.after[i], 0);
}

static void entries_that_do_not_wrap_are_written_in_place(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;
	uint8_t aside[NSLOTS * SLOT];

	(void)state;
	for (uint32_t start = 0; start < NSLOTS; start++) {
		fresh(&p, &c, UINT32_MAX - NSLOTS + 1 + start);
		for (uint32_t i = 0; i < NSLOTS; i++) {
			const uint32_t at = (start + i) % NSLOTS;
			for (uint32_t n = 1; n <= NSLOTS; n++)
				assert_ptr_equal(spsc_prod_place(&p, i, n, aside),
						 at + n <= NSLOTS ? mem.ring + BYTES - (NSLOTS - at) * SLOT : aside);
		}
	}
}

static void consumer_latches_a_corrupt_producer(void **state)
{
	static const uint32_t bad[] = { 99, 100 + NSLOTS + 1, 0, 0x80000064u, UINT32_MAX };
	struct spsc_prod p;
	struct spsc_cons c;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		fresh(&p, &c, 100);
		hdr()->prod = bad[i];
		assert_int_equal(spsc_cons_avail(&c, 1), 0);
		assert_int_equal(c.verdict, SPSC_CORRUPT);
		hdr()->prod = 101; /* a corrected index does not help: the verdict stays */
		assert_int_equal(spsc_cons_avail(&c, 1), 0);
		assert_int_equal(c.verdict, SPSC_CORRUPT);
	}
	fresh(&p, &c, 100);
	spsc_prod_publish(&p, 4);
	assert_int_equal(spsc_cons_avail(&c, 1), 4);
	hdr()->prod = 102; /* the index moves back behind entries that the consumer has seen */
	assert_int_equal(spsc_cons_avail(&c, 5), 0);
	assert_int_equal(c.verdict, SPSC_CORRUPT);
}

static void producer_latches_a_corrupt_consumer(void **state)
{
	static const uint32_t bad[] = { 99, 105, 0, 0x80000064u, UINT32_MAX };
	struct spsc_prod p;
	struct spsc_cons c;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(bad); i++) {
		fresh(&p, &c, 100);
		spsc_prod_publish(&p, 4);
		hdr()->cons = bad[i];
		assert_int_equal(spsc_prod_free(&p, NSLOTS), 0);
		assert_int_equal(p.verdict, SPSC_CORRUPT);
		hdr()->cons = 104;
		assert_int_equal(spsc_prod_free(&p, 1), 0);
		assert_int_equal(p.verdict, SPSC_CORRUPT);
	}
}

/*
 * A hostile side rewrites both indices at random while the honest side works. The honest side is never offered more
 * slots than the ring has, and its slots lie inside the ring (sanitizers and guard lines watch the rest).
 */
static void hostile_indices_never_lead_outside(void **state)
{
	struct rn_rng r;
	struct spsc_prod p;
	struct spsc_cons c;
	uint32_t corrupt = 0;

	(void)state;
	rn_rng_seed(&r, 1);
	for (uint32_t run = 0; run < 20000; run++) {
		uint32_t start = rn_rng_u32(&r);

		fresh(&p, &c, start);
		for (uint32_t step = 0; step < 16; step++) {
			uint32_t near = start + rn_rng_below(&r, 24) - 4;
			uint32_t n;

			hdr()->prod = rn_rng_chance(&r, 300000) ? rn_rng_u32(&r) : near;
			hdr()->cons = rn_rng_chance(&r, 300000) ? rn_rng_u32(&r) : near - rn_rng_below(&r, 4);
			n = spsc_cons_avail(&c, rn_rng_below(&r, NSLOTS + 2));
			assert_true(n <= NSLOTS);
			for (uint32_t i = 0; i < n; i++) {
				const uint8_t *s = spsc_cons_slot(&c, i);
				assert_true(s >= mem.ring + sizeof(struct spsc_hdr) && s + SLOT <= mem.ring + BYTES);
			}
			if (n != 0)
				spsc_cons_release(&c, 1 + rn_rng_below(&r, n));
			n = spsc_prod_free(&p, rn_rng_below(&r, NSLOTS + 2));
			assert_true(n <= NSLOTS);
			for (uint32_t i = 0; i < n; i++)
				memset(spsc_prod_slot(&p, i), 0xFF, SLOT);
			if (n != 0)
				spsc_prod_publish(&p, 1 + rn_rng_below(&r, n));
		}
		corrupt += (p.verdict == SPSC_CORRUPT) + (c.verdict == SPSC_CORRUPT);
	}
	assert_true(corrupt > 20000);
	for (uint32_t i = 0; i < RN_CACHE_LINE; i++)
		assert_int_equal(mem.before[i] | mem.after[i], 0);
}

/* Two threads pass entries of 1 to 3 slots, each with its number and a checksum; order and contents are checked. */
#define MESSAGES 200000u

struct entry {
	uint32_t seq;
	uint32_t nslots;
	uint32_t word[(3 * SLOT - 8) / 4];
};

static void *produce(void *arg)
{
	struct spsc_prod *p = arg;
	struct rn_rng r;
	struct entry e;

	rn_rng_seed(&r, 7);
	for (uint32_t seq = 0; seq < MESSAGES; seq++) {
		e.seq = seq;
		e.nslots = 1 + rn_rng_below(&r, 3);
		for (uint32_t i = 0; i < RN_ARRAY_LEN(e.word); i++)
			e.word[i] = seq * 31 + i;
		while (spsc_prod_free(p, e.nslots) < e.nslots)
			sched_yield();
		spsc_prod_copy(p, 0, &e, e.nslots * SLOT);
		spsc_prod_publish(p, e.nslots);
	}
	return NULL;
}

static void two_threads_keep_order_and_contents(void **state)
{
	struct spsc_prod p;
	struct spsc_cons c;
	pthread_t t;
	struct entry e;

	(void)state;
	fresh(&p, &c, UINT32_MAX - 1000);
	assert_int_equal(pthread_create(&t, NULL, produce, &p), 0);
	for (uint32_t seq = 0; seq < MESSAGES; seq++) {
		while (spsc_cons_avail(&c, 1) == 0)
			sched_yield();
		spsc_cons_copy(&c, 0, &e, SLOT);
		assert_int_equal(e.seq, seq);
		assert_true(spsc_cons_avail(&c, e.nslots) >= e.nslots);
		spsc_cons_copy(&c, 0, &e, e.nslots * SLOT);
		for (uint32_t i = 0; i < (e.nslots * SLOT - 8) / 4; i++)
			if (e.word[i] != seq * 31 + i)
				fail_msg("entry %u word %u", seq, i);
		spsc_cons_release(&c, e.nslots);
	}
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(spsc_cons_avail(&c, 1), 0);
	assert_int_equal(c.verdict, SPSC_OK);
	assert_int_equal(p.verdict, SPSC_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_is_header_and_slots),
		cmocka_unit_test(attach_refuses_a_bad_place),
		cmocka_unit_test(attach_refuses_impossible_indices),
		cmocka_unit_test(fifo_across_the_index_wrap),
		cmocka_unit_test(full_is_full_and_empty_is_empty),
		cmocka_unit_test(refresh_only_when_short),
		cmocka_unit_test(entries_of_many_slots_wrap),
		cmocka_unit_test(entries_that_do_not_wrap_are_written_in_place),
		cmocka_unit_test(consumer_latches_a_corrupt_producer),
		cmocka_unit_test(producer_latches_a_corrupt_consumer),
		cmocka_unit_test(hostile_indices_never_lead_outside),
		cmocka_unit_test(two_threads_keep_order_and_contents),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
