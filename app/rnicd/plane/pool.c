/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/pool.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>

#include <rte_malloc.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "plane/worker_int.h"

#define POOL_OPS  "rnicd_grow"
#define POOL_PAGE 4096u

/* The state of a pool that makes its buffers when they are needed; any lcore may take and return buffers. */
struct pool_state {
	struct rte_ring *back; /* buffers that have been used and returned */
	uint8_t *base;         /* of the memory for all buffers */
	uint32_t each;         /* bytes of a buffer with its headers */
	uint32_t in_page;      /* buffers that lie in a page; 0: buffers follow each other and cross pages */
	uint32_t n;            /* buffers that have memory */
	_Atomic uint32_t made; /* buffers [0, made) exist */
};

/* Bytes from the first buffer to buffer i. No buffer crosses the end of a page if it fits into one. */
static size_t pool_offset(const struct pool_state *s, uint32_t i)
{
	if (s->in_page == 0)
		return (size_t)i * s->each;
	return (size_t)(i / s->in_page) * POOL_PAGE + (size_t)(i % s->in_page) * s->each;
}

static void pool_free(struct rte_mempool *mp)
{
	struct pool_state *s = mp->pool_data;

	if (s == NULL)
		return;
	rte_ring_free(s->back);
	rte_free(s->base);
	rte_free(s);
}

/* Takes one piece of memory for all buffers, and makes none of them. After an error pool_free() returns the rest. */
static int pool_alloc(struct rte_mempool *mp)
{
	char name[RTE_RING_NAMESIZE];
	struct pool_state *s = rte_zmalloc_socket("pool", sizeof(*s), RN_CACHE_LINE, mp->socket_id);

	if (s == NULL)
		return -ENOMEM;
	s->n = mp->size;
	s->each = mp->header_size + mp->elt_size + mp->trailer_size;
	s->in_page = POOL_PAGE / s->each;
	snprintf(name, sizeof(name), "P_%s", mp->name);
	s->back = rte_ring_create(name, rte_align32pow2(s->n + 1), mp->socket_id, 0);
	s->base = rte_malloc_socket("buffers", pool_offset(s, s->n - 1) + s->each, POOL_PAGE, mp->socket_id);
	mp->pool_data = s;
	return s->back != NULL && s->base != NULL ? 0 : -ENOMEM;
}

static int pool_enqueue(struct rte_mempool *mp, void *const *obj, unsigned int n)
{
	const struct pool_state *s = mp->pool_data;

	return rte_ring_mp_enqueue_bulk(s->back, obj, n, NULL) == n ? 0 : -ENOBUFS;
}

/* Makes buffer i: the headers that rte_mempool_create() and rte_pktmbuf_pool_create() write. */
static void *pool_make(struct rte_mempool *mp, const struct pool_state *s, uint32_t i)
{
	const size_t at = pool_offset(s, i) + mp->header_size;
	void *obj = s->base + at;
	struct rte_mempool_objhdr *hdr = RTE_PTR_SUB(obj, sizeof(*hdr));

	hdr->mp = mp;
	hdr->iova = (uintptr_t)obj; /* without hugepages DPDK has no other addresses */
	rte_pktmbuf_init(mp, NULL, obj, i);
	return obj;
}

/* Makes n buffers. False: fewer than n are left to be made, and none is made. */
static bool pool_grow(struct rte_mempool *mp, struct pool_state *s, void **obj, uint32_t n)
{
	uint32_t at = atomic_load_explicit(&s->made, memory_order_relaxed);

	/* the counter alone decides who makes a buffer; the ring passes the buffer on to others */
	do {
		if (n > s->n - at)
			return false;
	} while (!atomic_compare_exchange_weak_explicit(&s->made, &at, at + n, memory_order_relaxed,
							memory_order_relaxed));
	for (uint32_t i = 0; i < n; i++)
		obj[i] = pool_make(mp, s, at + i);
	return true;
}

/*
 * Whether DPDK asks for a whole cache beside the buffers that the caller wants: if it gets none, it asks again for what
 * the caller wants. A pool that has made few buffers makes none for the cache.
 */
static bool pool_spares(const struct rte_mempool *mp, const struct pool_state *s, uint32_t n)
{
	return mp->cache_size != 0 && n > mp->cache_size &&
	       atomic_load_explicit(&s->made, memory_order_relaxed) < 2 * mp->cache_size;
}

static int pool_dequeue(struct rte_mempool *mp, void **obj, unsigned int n)
{
	struct pool_state *s = mp->pool_data;
	const uint32_t had = rte_ring_mc_dequeue_burst(s->back, obj, n, NULL);

	if (had == n || (!pool_spares(mp, s, n) && pool_grow(mp, s, obj + had, n - had)))
		return 0;
	if (had != 0)
		rte_ring_mp_enqueue_bulk(s->back, obj, had, NULL); /* the ring has room for all buffers */
	return -ENOBUFS;
}

static unsigned int pool_count(const struct rte_mempool *mp)
{
	const struct pool_state *s = mp->pool_data;

	return rte_ring_count(s->back) + (s->n - atomic_load_explicit(&s->made, memory_order_relaxed));
}

static const struct rte_mempool_ops pool_ops = {
	.name = POOL_OPS,
	.alloc = pool_alloc,
	.free = pool_free,
	.enqueue = pool_enqueue,
	.dequeue = pool_dequeue,
	.get_count = pool_count,
};
RTE_MEMPOOL_REGISTER_OPS(pool_ops);

static struct rte_mempool *pool_growing(const char *name, const struct pool_size *size, int socket)
{
	struct rte_pktmbuf_pool_private priv = { .mbuf_data_room_size = size->room, .mbuf_priv_size = MBUF_PRIV_SIZE };
	struct rte_mempool *mp = rte_mempool_create_empty(name, size->n,
							  sizeof(struct rte_mbuf) + MBUF_PRIV_SIZE + size->room,
							  size->cache, sizeof(priv), socket, 0);

	if (mp == NULL)
		return NULL;
	if (rte_mempool_set_ops_byname(mp, POOL_OPS, NULL) != 0 || pool_alloc(mp) != 0) {
		rte_mempool_free(mp);
		return NULL;
	}
	mp->flags |= RTE_MEMPOOL_F_POOL_CREATED;
	mp->populated_size = mp->size;
	rte_pktmbuf_pool_init(mp, &priv);
	return mp;
}

struct rte_mempool *pool_create(const char *name, const struct pool_size *size, int socket)
{
	if (!rnicd.cfg.hugepages && !size->nic)
		return pool_growing(name, size, socket);
	return rte_pktmbuf_pool_create(name, size->n, size->cache, MBUF_PRIV_SIZE, size->room, socket);
}
