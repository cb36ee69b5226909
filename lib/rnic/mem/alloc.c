/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of rnic_alloc(), which lies in the arena from the start. */
#include "rnic/mem/arena.h"
#include "rnic/map.h"

#define LARGE (UINT64_C(1) << 20) /* bytes: blocks of at least this size are aligned to 2 MiB */

static bool huge_only(void)
{
	const char *huge = getenv("RNIC_HUGE");

	return huge != NULL && huge[0] == '1';
}

/* Finds consecutive free pages in the window that small blocks come from. */
static bool place_small(struct rnic_mem *m, uint64_t len, uint64_t *off)
{
	uint32_t n = (uint32_t)(len / RNIC_PAGE), run = 0;

	for (int tries = 0; tries < 2; tries++) {
		const struct rnic_win *w = m->alloc_win != UINT32_MAX ? &m->win[m->alloc_win] : NULL;
		run = 0;
		for (uint32_t p = 0; w != NULL && p < RNIC_WIN_PAGES; p++) {
			run = (w->used[p / 64] >> (p % 64) & 1) != 0 ? 0 : run + 1;
			if (run < n)
				continue;
			*off = ((uint64_t)m->alloc_win << RNIC_WIN_SHIFT) + (p + 1 - n) * RNIC_PAGE;
			rnic_arena_mark(m, *off, len);
			return true;
		}
		if (tries == 0)
			m->alloc_win = rnic_arena_windows(m, 1);
	}
	return false;
}

static bool place_large(struct rnic_mem *m, uint64_t len, uint64_t *off)
{
	uint64_t n = (len + RNIC_WIN_SIZE - 1) >> RNIC_WIN_SHIFT;
	uint32_t w = n <= RNIC_WINDOWS ? rnic_arena_windows(m, (uint32_t)n) : UINT32_MAX;

	if (w == UINT32_MAX)
		return false;
	*off = (uint64_t)w << RNIC_WIN_SHIFT;
	rnic_arena_mark(m, *off, len);
	return true;
}

static void *map_aligned(const struct rnic_mem *m, const struct rnic_block *b)
{
	uint64_t align = b->len >= LARGE ? RNIC_HUGE_PAGE : RNIC_PAGE;
	uint8_t *room = rnic_map(NULL, b->len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (room == MAP_FAILED)
		return NULL;
	uint8_t *p = (uint8_t *)(((uintptr_t)room + align - 1) & ~(uintptr_t)(align - 1));
	void *got = rnic_map(p, b->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
			     m->file[b->region].fd, b->off);
	if (got == MAP_FAILED) {
		rnic_unmap(room, b->len + align);
		return NULL;
	}
	if (p > room)
		rnic_unmap(room, (uint64_t)(p - room));
	if (p < room + align)
		rnic_unmap(p + b->len, (uint64_t)(room + align - p));
	return p;
}

static bool place(struct rnic_mem *m, size_t size, struct rnic_block *b)
{
	b->len = (size + RNIC_HUGE_PAGE - 1) & ~(RNIC_HUGE_PAGE - 1);
	b->region = IPC_REGION_HUGE;
	if ((size >= LARGE || huge_only()) && rnic_huge_place(m, b->len, &b->off))
		return true;
	if (huge_only())
		return false;
	b->len = (size + RNIC_PAGE - 1) & ~(RNIC_PAGE - 1);
	b->region = IPC_REGION_ARENA;
	return b->len >= LARGE ? place_large(m, b->len, &b->off) : place_small(m, b->len, &b->off);
}

/* The allocation when there is no arena. */
static bool own_block(size_t size, struct rnic_block *b)
{
	b->len = (size + 4095) & ~UINT64_C(4095);
	b->p = rnic_map(NULL, b->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->p == MAP_FAILED)
		b->p = NULL;
	return b->p != NULL;
}

void *rnic_mem_alloc(struct rnic_mem *m, size_t size)
{
	struct rnic_block *b;

	if (size == 0 || size > IPC_ARENA_SIZE) {
		errno = size == 0 ? EINVAL : ENOMEM;
		return NULL;
	}
	b = calloc(1, sizeof(*b));
	if (b == NULL)
		return NULL;
	const int cancel = rnic_mem_lock(m);
	bool placed = m->own ? own_block(size, b) : place(m, size, b);
	if (!placed && !m->own) {
		rnic_arena_sweep(m);
		placed = place(m, size, b);
	}
	if (placed && !m->own) {
		b->p = map_aligned(m, b);
		if (b->p == NULL)
			rnic_arena_release(m, b->region, b->off, b->len);
	}
	if (b->p == NULL) {
		rnic_mem_unlock(m, cancel);
		free(b);
		errno = ENOMEM;
		return NULL;
	}
	rn_list_push_front(&m->blocks, &b->link);
	rnic_mem_unlock(m, cancel);
	return b->p;
}

bool rnic_mem_free(struct rnic_mem *m, void *p)
{
	struct rnic_block *b = NULL;

	const int cancel = rnic_mem_lock(m);
	rn_list_each(struct rnic_block, i, &m->blocks, link) {
		if (i->p == p)
			b = i;
	}
	if (b != NULL)
		rn_list_remove(&m->blocks, &b->link);
	/* A block that is still registered keeps its pages until a sweep finds them free. */
	if (b != NULL && !m->own && !rnic_in_region(m, b->region, b->off, b->len))
		rnic_arena_release(m, b->region, b->off, b->len);
	rnic_mem_unlock(m, cancel);
	if (b == NULL)
		return false;
	munmap(b->p, b->len); /* libc's, outside of our lock: a library that watches munmap() (map.h) hears of it */
	free(b);
	return true;
}
