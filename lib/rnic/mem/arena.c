/* SPDX-License-Identifier: BSD-3-Clause */
/* Which pages of the arena are taken. The caller of each function here holds rnic_mem.lock. */
#include "rnic/mem/arena.h"

#include <fcntl.h>

#define NO_WIN UINT32_MAX

static struct rnic_mem *retired; /* of all sessions that have ended: the process may still map their files */
static struct rnic_mem *last;    /* the last session's memory; that session may be dead */

/* ---- files ---- */

/* Compares the name too: a System V segment's inode is its number, on the same device as other files. */
bool rnic_file_is(const struct rnic_file *f, const struct rnic_vma *v)
{
	return f->fd >= 0 && v->ino == f->ino && v->dev_major == f->dev_major && v->dev_minor == f->dev_minor &&
	       strncmp(v->name, "/memfd:rnic-", 12) == 0;
}

/* The descriptor of the file of m that the mapping shows; -1: of none. */
static int fd_of(const struct rnic_mem *m, const struct rnic_vma *v)
{
	for (unsigned r = IPC_REGION_ARENA; r < IPC_REGIONS; r++) {
		if (rnic_file_is(&m->file[r], v))
			return m->file[r].fd;
	}
	return -1;
}

/* The retired memory whose file the mapping shows: *fd. NULL: none. */
static const struct rnic_mem *retired_of(const struct rnic_vma *v, int *fd)
{
	const struct rnic_mem *m = retired;

	while (m != NULL && (*fd = fd_of(m, v)) < 0)
		m = m->retired;
	return m;
}

bool rnic_file_retired(const struct rnic_vma *v)
{
	int fd;

	return retired_of(v, &fd) != NULL;
}

const struct rnic_mem *rnic_moved(const struct rnic_mem *m, const struct rnic_vma *v, int *fd)
{
	const struct rnic_mem *before = retired_of(v, fd);

	if (before != NULL)
		return before;
	*fd = fd_of(m, v);
	return *fd >= 0 ? m : NULL;
}

int rnic_moved_fd(const struct rnic_mem *m, const struct rnic_vma *v)
{
	int fd;

	return rnic_moved(m, v, &fd) != NULL ? fd : -1;
}

struct rnic_mem *rnic_mem_last(void) { return __atomic_load_n(&last, __ATOMIC_ACQUIRE); }
/* A session without an arena has moved no memory: libc's functions need not change. */
void rnic_mem_publish(struct rnic_mem *m)
{
	if (!m->own)
		__atomic_store_n(&last, m, __ATOMIC_RELEASE);
}

void rnic_mem_retire(struct rnic_mem *m)
{
	if (m->own)
		return;
	m->retired = retired;
	retired = m;
}

/* ---- windows ---- */

static uint32_t hash_of(uint64_t va)
{
	return (uint32_t)((va * UINT64_C(0x9e3779b97f4a7c15)) >> 49) & (RNIC_WINDOWS - 1);
}

static uint32_t win_find(const struct rnic_mem *m, uint64_t va)
{
	uint16_t i = m->hash[hash_of(va)];

	while (i != 0 && m->win[i - 1].va != va)
		i = m->win[i - 1].next;
	return i != 0 ? i - 1u : NO_WIN;
}

static void win_unbind(struct rnic_mem *m, uint32_t w)
{
	uint16_t *p;

	if (m->win[w].va == 0)
		return;
	for (p = &m->hash[hash_of(m->win[w].va)]; *p != w + 1; p = &m->win[*p - 1].next)
		;
	*p = m->win[w].next;
	m->win[w].va = 0;
	m->win[w].next = 0;
}

static void win_bind(struct rnic_mem *m, uint32_t w, uint64_t va)
{
	uint32_t old = win_find(m, va);
	uint16_t *head = &m->hash[hash_of(va)];

	if (old == w)
		return;
	if (old != NO_WIN)
		win_unbind(m, old);
	m->win[w].va = va;
	m->win[w].next = *head;
	*head = (uint16_t)(w + 1);
}

static bool win_empty(const struct rnic_win *w)
{
	uint64_t any = 0;

	for (size_t i = 0; i < RN_ARRAY_LEN(w->used); i++)
		any |= w->used[i];
	return any == 0;
}

static bool win_free(const struct rnic_mem *m, uint32_t w)
{
	return w < RNIC_WINDOWS && m->win[w].va == 0 && w != m->alloc_win && win_empty(&m->win[w]);
}

static bool bits_clear(const struct rnic_win *w, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++) {
		if ((w->used[i / 64] >> (i % 64) & 1) != 0)
			return false;
	}
	return true;
}

static uint32_t windows_from(const struct rnic_mem *m, uint32_t from, uint32_t to, uint32_t n)
{
	uint32_t run = 0;

	for (uint32_t w = from; w < to; w++) {
		run = win_free(m, w) ? run + 1 : 0;
		if (run == n)
			return w + 1 - n;
	}
	return NO_WIN;
}

uint32_t rnic_arena_windows(struct rnic_mem *m, uint32_t n)
{
	uint32_t w = windows_from(m, m->win_next, RNIC_WINDOWS, n);

	if (w == NO_WIN)
		w = windows_from(m, 0, RNIC_WINDOWS, n);
	if (w != NO_WIN)
		m->win_next = w + n;
	return w;
}

void rnic_arena_mark(struct rnic_mem *m, uint64_t off, uint64_t len)
{
	for (uint64_t p = off / RNIC_PAGE; p < (off + len + RNIC_PAGE - 1) / RNIC_PAGE; p++)
		m->win[p / RNIC_WIN_PAGES].used[p % RNIC_WIN_PAGES / 64] |= UINT64_C(1) << (p % 64);
	m->dealt += len / RNIC_PAGE;
}

/*
 * How much of [va, va + len) fits from window w on: while the following windows are free or bound to the right
 * addresses.
 */
static uint64_t stretch(struct rnic_mem *m, uint32_t w, uintptr_t va, uint64_t len)
{
	uint64_t key = (va >> RNIC_WIN_SHIFT) + 1;
	uint64_t in = va & (RNIC_WIN_SIZE - 1);
	uint64_t fit = 0;

	while (fit < len && w < RNIC_WINDOWS) {
		uint64_t take = rn_min_u64(RNIC_WIN_SIZE - in, len - fit);
		uint32_t bound = win_find(m, key);

		if (bound == w) {
			if (!bits_clear(&m->win[w], (uint32_t)(in / RNIC_PAGE), (uint32_t)(take / RNIC_PAGE)))
				break;
		} else if (bound != NO_WIN || !win_free(m, w)) {
			break;
		}
		win_bind(m, w, key);
		fit += take;
		in = 0;
		w++;
		key++;
	}
	return fit;
}

uint64_t rnic_arena_place(struct rnic_mem *m, uintptr_t va, uint64_t len, uint64_t *off)
{
	uint64_t key = (va >> RNIC_WIN_SHIFT) + 1;
	uint64_t in = va & (RNIC_WIN_SIZE - 1);
	uint64_t fit = 0;
	uint32_t w;

	w = win_find(m, key);
	if (w == NO_WIN) {
		w = win_find(m, key - 1);
		w = w != NO_WIN && win_free(m, w + 1) ? w + 1 : NO_WIN;
	}
	if (w == NO_WIN) {
		w = win_find(m, key + 1);
		w = w != NO_WIN && w > 0 && win_free(m, w - 1) ? w - 1 : NO_WIN;
	}
	if (w != NO_WIN) {
		fit = stretch(m, w, va, len);
		m->collided |= fit == 0;
	}
	for (uint64_t n = (in + len + RNIC_WIN_SIZE - 1) >> RNIC_WIN_SHIFT; fit == 0 && n > 0; n /= 2) {
		w = n <= RNIC_WINDOWS ? rnic_arena_windows(m, (uint32_t)n) : NO_WIN;
		if (w == NO_WIN)
			continue;
		for (uint32_t i = 0; i < n; i++)
			win_bind(m, w + i, key + i);
		fit = rn_min_u64(len, n * RNIC_WIN_SIZE - in);
	}
	if (fit == 0)
		return 0;
	*off = ((uint64_t)w << RNIC_WIN_SHIFT) + in;
	rnic_arena_mark(m, *off, fit);
	return fit;
}

/* ---- hugepages ---- */

static bool huge_is_used(const struct rnic_mem *m, uint64_t i) { return (m->huge_used[i / 64] >> (i % 64) & 1) != 0; }

bool rnic_huge_place(struct rnic_mem *m, uint64_t len, uint64_t *off)
{
	uint64_t n = (len + RNIC_HUGE_PAGE - 1) / RNIC_HUGE_PAGE;
	uint64_t run = 0, first = 0;

	if (m->file[IPC_REGION_HUGE].fd < 0 || n == 0)
		return false;
	for (uint64_t i = 0; i < RNIC_HUGES && run < n; i++) {
		run = huge_is_used(m, i) ? 0 : run + 1;
		first = i + 1 - run;
	}
	if (run < n)
		return false;
	/* Reserves the hugepages now, so that a later access cannot raise SIGBUS. */
	if (fallocate(m->file[IPC_REGION_HUGE].fd, 0, (off_t)(first * RNIC_HUGE_PAGE), (off_t)(n * RNIC_HUGE_PAGE)) !=
	    0) {
		rnic_arena_release(m, IPC_REGION_HUGE, first * RNIC_HUGE_PAGE, n * RNIC_HUGE_PAGE);
		return false;
	}
	for (uint64_t i = first; i < first + n; i++)
		m->huge_used[i / 64] |= UINT64_C(1) << (i % 64);
	*off = first * RNIC_HUGE_PAGE;
	return true;
}

/* ---- giving pages back ---- */

bool rnic_in_region(const struct rnic_mem *m, enum ipc_region region, uint64_t off, uint64_t len)
{
	rn_list_each(const struct rnic_backing, b, &m->backings, link) {
		for (uint32_t i = 0; i < b->n; i++) {
			const struct ipc_piece *p = &b->piece[i];
			if (p->region == (uint32_t)region && p->off < off + len && off < p->off + p->len)
				return true;
		}
	}
	return false;
}

void rnic_arena_release(struct rnic_mem *m, enum ipc_region region, uint64_t off, uint64_t len)
{
	if (!m->forked)
		fallocate(m->file[region].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)off, (off_t)len);
	if (region == IPC_REGION_HUGE) {
		for (uint64_t i = off / RNIC_HUGE_PAGE; i < (off + len) / RNIC_HUGE_PAGE; i++)
			m->huge_used[i / 64] &= ~(UINT64_C(1) << (i % 64));
		return;
	}
	for (uint64_t p = off / RNIC_PAGE; p < (off + len) / RNIC_PAGE; p++) {
		struct rnic_win *w = &m->win[p / RNIC_WIN_PAGES];
		w->used[p % RNIC_WIN_PAGES / 64] &= ~(UINT64_C(1) << (p % 64));
	}
}

static void live_set(uint64_t *live, uint64_t off, uint64_t len, uint64_t page)
{
	for (uint64_t p = off / page; p < (off + len + page - 1) / page; p++)
		live[p / 64] |= UINT64_C(1) << (p % 64);
}

/* Marks what the mappings of this process name. false: the map could not be read. */
static bool live_mappings(const struct rnic_mem *m, uint64_t *live, uint64_t *huge)
{
	struct rnic_vma v;
	int rc;

	for (uintptr_t at = 0; (rc = rnic_vma_at(&m->proc, at, &v)) == 0; at = v.end) {
		if (rnic_file_is(&m->file[IPC_REGION_ARENA], &v))
			live_set(live, v.off, v.end - v.start, RNIC_PAGE);
		else if (rnic_file_is(&m->file[IPC_REGION_HUGE], &v))
			live_set(huge, v.off, v.end - v.start, RNIC_HUGE_PAGE);
	}
	return rc == ENOENT;
}

/*
 * Marks everything that a mapping of this process or a memory region names. false: the map could not be read. While the
 * map is read, another thread's mremap() may move a mapping to addresses that were read already. So it is read twice.
 */
static bool live_collect(const struct rnic_mem *m, uint64_t *live, uint64_t *huge)
{
	const bool all = live_mappings(m, live, huge) && live_mappings(m, live, huge);

	rn_list_each(const struct rnic_backing, b, &m->backings, link) {
		for (uint32_t i = 0; i < b->n; i++) {
			const struct ipc_piece *p = &b->piece[i];
			if (p->region == IPC_REGION_ARENA)
				live_set(live, p->off, p->len, RNIC_PAGE);
			else if (p->region == IPC_REGION_HUGE)
				live_set(huge, p->off, p->len, RNIC_HUGE_PAGE);
		}
	}
	return all;
}

static void sweep_window(struct rnic_mem *m, uint32_t w, const uint64_t *live)
{
	for (uint32_t p = 0; p < RNIC_WIN_PAGES; p++) {
		uint32_t n = 0;
		while (p + n < RNIC_WIN_PAGES &&
		       (m->win[w].used[(p + n) / 64] & ~live[(p + n) / 64]) >> ((p + n) % 64) & 1)
			n++;
		if (n == 0)
			continue;
		rnic_arena_release(m, IPC_REGION_ARENA, ((uint64_t)w << RNIC_WIN_SHIFT) + p * RNIC_PAGE, n * RNIC_PAGE);
		p += n;
	}
	if (win_empty(&m->win[w]))
		win_unbind(m, w);
}

void rnic_arena_sweep(struct rnic_mem *m)
{
	uint64_t *live = calloc(RNIC_WINDOWS * RNIC_WIN_PAGES / 64, sizeof(*live));
	uint64_t *huge = calloc(RNIC_HUGES / 64, sizeof(*huge));

	if (live != NULL && huge != NULL && live_collect(m, live, huge)) {
		for (uint32_t w = 0; w < RNIC_WINDOWS; w++) {
			if (m->win[w].va != 0 || !win_empty(&m->win[w]))
				sweep_window(m, w, live + (size_t)w * RNIC_WIN_PAGES / 64);
		}
		for (uint64_t i = 0; i < RNIC_HUGES; i++) {
			if (huge_is_used(m, i) && (huge[i / 64] >> (i % 64) & 1) == 0)
				rnic_arena_release(m, IPC_REGION_HUGE, i * RNIC_HUGE_PAGE, RNIC_HUGE_PAGE);
		}
		m->win_next = 0;
	}
	m->dealt = 0;
	m->collided = false;
	free(live);
	free(huge);
}
