/* SPDX-License-Identifier: BSD-3-Clause */
/* Packet pools that make their buffers when they are needed: buffers are whole, bounded, and take no memory before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/mman.h>

#include <rte_malloc.h>
#include <rte_memory.h>

#include "eal.h"
#include "plane/pool.h"

#define BUFFERS   3000u
#define CACHE     32u
#define PAGE      4096u
#define EAL_PAGES ((64u << 20) / PAGE)

static void *at; /* an address in the memory of EAL */

static int setup(void **state)
{
	(void)state;
	rnicd.cfg.hugepages = false;
	if (!eal_for_test())
		return -1;
	at = rte_zmalloc("at", 64, 0);
	return at == NULL ? -1 : 0;
}

static struct rte_mempool *make(const char *name, uint32_t n, uint16_t room, uint32_t cache)
{
	struct rte_mempool *mp = pool_create(name, &(struct pool_size){ .n = n, .cache = cache, .room = room }, 0);

	assert_non_null(mp);
	assert_int_equal(mp->populated_size, n);
	assert_int_equal(rte_mempool_avail_count(mp), n);
	return mp;
}

/* Pages of the memory of the test's EAL that have been touched. */
static uint32_t resident(void)
{
	static unsigned char map[EAL_PAGES];
	uint32_t n = 0;

	assert_int_equal(mincore(rte_mem_virt2memseg_list(at)->base_va, (size_t)EAL_PAGES * PAGE, map), 0);
	for (size_t i = 0; i < EAL_PAGES; i++)
		n += map[i] & 1;
	return n;
}

static void buffers_that_nobody_has_used_take_no_memory(void **state)
{
	(void)state;
	const uint32_t without = resident();
	struct rte_mempool *mp = make("idle", BUFFERS, 2048, CACHE);
	struct rte_mbuf *m[8];

	const uint32_t before = resident();
	assert_in_range(before - without, 1,
			BUFFERS / 8); /* the pool's head, with the caches; a page holds 1 or 2 buffers */
	assert_int_equal(rte_pktmbuf_alloc_bulk(mp, m, 8), 0);
	assert_in_range(resident(), before + 1, before + 16); /* none for the caches of lcores */
	const uint32_t some = resident();
	for (uint32_t turn = 0; turn < 10 * BUFFERS; turn++) {
		rte_pktmbuf_free_bulk(m, 8);
		assert_int_equal(rte_pktmbuf_alloc_bulk(mp, m, 8), 0);
	}
	assert_in_range(resident(), some, some + 4); /* returned buffers are used again first */
	rte_pktmbuf_free_bulk(m, 8);
	assert_int_equal(rte_mempool_avail_count(mp), BUFFERS);
	rte_mempool_free(mp);
}

static void check_all(const char *name, uint16_t room, uint32_t cache)
{
	static struct rte_mbuf *m[BUFFERS + 1];
	struct rte_mempool *mp = make(name, BUFFERS / 8, room, cache);
	const uint32_t n = BUFFERS / 8;

	for (uint32_t round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < n; i++) {
			m[i] = rte_pktmbuf_alloc(mp);
			assert_non_null(m[i]);
			assert_ptr_equal(m[i]->pool, mp);
			assert_int_equal(m[i]->priv_size, MBUF_PRIV_SIZE);
			assert_int_equal(m[i]->buf_len, room);
			assert_int_equal(rte_mempool_virt2iova(m[i]), (uintptr_t)m[i]);
			assert_int_equal(rte_pktmbuf_iova(m[i]), (uintptr_t)rte_pktmbuf_mtod(m[i], void *));
			memset(m[i]->buf_addr, (int)i, room); /* no buffer reaches into another one */
		}
		assert_null(rte_pktmbuf_alloc(mp));
		assert_int_equal(rte_mempool_avail_count(mp), 0);
		for (uint32_t i = 0; i < n; i++) {
			assert_ptr_equal(m[i]->pool, mp);
			for (uint32_t k = 0; k < room; k++)
				assert_int_equal(((uint8_t *)m[i]->buf_addr)[k], i & 0xff);
			rte_pktmbuf_free(m[i]);
		}
		assert_int_equal(rte_mempool_avail_count(mp), n);
	}
	rte_mempool_free(mp);
}

static void each_buffer_is_whole_and_there_are_no_more(void **state)
{
	(void)state;
	check_all("small", 256, 0);
	check_all("wire", 1728, CACHE);
	check_all("page", 4096, 0);
	check_all("jumbo", 9344, CACHE);
	check_all("most", 65472, 0);
}

static void a_bulk_is_taken_whole_or_not_at_all(void **state)
{
	(void)state;
	struct rte_mempool *mp = make("bulk", 100, 256, 0);
	struct rte_mbuf *m[100], *more[64];

	assert_int_equal(rte_pktmbuf_alloc_bulk(mp, m, 60), 0);
	rte_pktmbuf_free_bulk(m, 10);
	assert_int_not_equal(rte_pktmbuf_alloc_bulk(mp, more, 51), 0); /* 10 have been returned, 40 are not made yet */
	assert_int_equal(rte_mempool_avail_count(mp), 50);
	assert_int_equal(rte_pktmbuf_alloc_bulk(mp, more, 50), 0);
	assert_int_equal(rte_mempool_avail_count(mp), 0);
	rte_pktmbuf_free_bulk(more, 50);
	rte_pktmbuf_free_bulk(m + 10, 50);
	assert_int_equal(rte_mempool_avail_count(mp), 100);
	rte_mempool_free(mp);
}

static void a_pool_that_has_no_memory_is_refused(void **state)
{
	(void)state;
	assert_null(pool_create("large", &(struct pool_size){ .n = 16383, .room = 65472 }, 0));
	rte_mempool_free(make("large", 100, 2048, 0)); /* nothing of the first attempt is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_that_nobody_has_used_take_no_memory),
		cmocka_unit_test(each_buffer_is_whole_and_there_are_no_more),
		cmocka_unit_test(a_bulk_is_taken_whole_or_not_at_all),
		cmocka_unit_test(a_pool_that_has_no_memory_is_refused),
	};
	return cmocka_run_group_tests(tests, setup, NULL);
}
