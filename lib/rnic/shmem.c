/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of the queue region; their sizes are powers of two. The free lists lie in private memory. The daemon no longer
 * uses an object's block when it answers the request that destroys the object, so the block can be used again at once.
 */
#include "rnic/map.h"
#include "rnic/common.h"

#define MIN_ORDER  7 /* 128 bytes: two cache lines */
#define MAX_ORDER  30
#define PAGE       4096u
#define REMOVE_MIN (UINT64_C(64) << 10) /* bytes: larger blocks give their pages back to the system while free */

struct freelist {
	uint64_t *off;
	uint32_t n, room;
};

struct rnic_shm {
	pthread_mutex_t lock;
	uint8_t *base;
	uint64_t next, size; /* bytes: [next, size) has never been allocated */
	struct freelist list[MAX_ORDER + 1];
};

struct rnic_shm *rnic_shm_create(uint8_t *base, uint64_t first, uint64_t size)
{
	struct rnic_shm *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->base = base;
	m->next = first;
	m->size = size;
	return m;
}

static uint32_t order_of(uint64_t size)
{
	uint32_t order = MIN_ORDER;

	while (order <= MAX_ORDER && (UINT64_C(1) << order) < size)
		order++;
	return order;
}

/* Zeroes a block that was used before. */
static void wipe(struct rnic_shm *m, uint64_t off, uint64_t size)
{
	if (size >= REMOVE_MIN && rnic_advise(m->base + off, size, MADV_REMOVE) == 0)
		return;
	memset(m->base + off, 0, size);
}

static uint64_t take_new(struct rnic_shm *m, uint64_t size)
{
	uint64_t align = size < PAGE ? size : PAGE;
	uint64_t off = (m->next + align - 1) & ~(align - 1);

	if (!rn_in_range(off, size, m->size))
		return 0;
	m->next = off + size;
	return off;
}

uint64_t rnic_shm_alloc(struct rnic_shm *m, uint64_t size)
{
	uint32_t order = order_of(size);
	struct freelist *f;
	uint64_t off;

	if (order > MAX_ORDER)
		return 0;
	f = &m->list[order];
	pthread_mutex_lock(&m->lock);
	off = f->n > 0 ? f->off[--f->n] : take_new(m, UINT64_C(1) << order);
	pthread_mutex_unlock(&m->lock);
	return off;
}

void rnic_shm_free(struct rnic_shm *m, uint64_t off, uint64_t size)
{
	struct freelist *f = &m->list[order_of(size)];

	if (off == 0)
		return;
	wipe(m, off, UINT64_C(1) << order_of(size));
	pthread_mutex_lock(&m->lock);
	if (f->n == f->room) {
		uint32_t room = f->room == 0 ? 16 : f->room * 2;
		uint64_t *p = realloc(f->off, room * sizeof(*p));
		if (p != NULL) {
			f->off = p;
			f->room = room;
		}
	}
	/* If there is no memory for the list entry, this process cannot use the block again; nothing else is lost. */
	if (f->n < f->room)
		f->off[f->n++] = off;
	pthread_mutex_unlock(&m->lock);
}
