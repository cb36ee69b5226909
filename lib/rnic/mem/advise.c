/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * madvise() and mremap() of memory that was moved into the arena: the kernel cannot do on that shared memory what a
 * program may do to its private memory, so it is done here. No lock, no allocation: allocators call these.
 */
#include "rnic/mem/arena.h"

#include <fcntl.h>

#include "rnic/map.h"

/*
 * Zeroes the range, as the daemon sees it too. Ordinary pages go back to the system; hugepages might be missing when
 * they are needed again. Memory that was not moved, and blocks that a child of fork() shares with its parent, are left
 * to the kernel.
 */
static int discard(const struct rnic_mem *m, const struct rnic_vma *v, uintptr_t from, uintptr_t to, int advice)
{
	int fd;
	const struct rnic_mem *of = rnic_moved(m, v, &fd);

	if (of == NULL || of->forked)
		return rnic_advise((void *)from, to - from, advice);
	if (!v->hugetlb) {
		/* Older kernels refuse MADV_REMOVE of a mapping that is read-only at present. */
		const int rc = rnic_advise((void *)from, to - from, MADV_REMOVE);
		if (rc == 0 || errno != EACCES || !v->shared)
			return rc;
		return (int)syscall(SYS_fallocate, fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				    v->off + (from - v->start), to - from);
	}
	if ((v->prot & PROT_WRITE) != 0)
		memset((void *)from, 0, to - from);
	return 0;
}

int rnic_mem_discard(const struct rnic_mem *m, uintptr_t addr, size_t len, int advice)
{
	uintptr_t end = addr + len, at = addr;
	struct rnic_vma v;
	bool hole = false;
	int rc = 0;

	while (rc == 0 && at < end) {
		const int err = rnic_vma_at(&m->proc, at, &v);
		if (err != 0 && err != ENOENT) /* nothing is known of the range: it is left to the kernel */
			return rnic_advise((void *)at, end - at, advice);
		if (err != 0 || v.start >= end) {
			hole = true;
			break;
		}
		uintptr_t from = v.start > at ? v.start : at, to = v.end < end ? v.end : end;
		hole |= from > at;
		rc = discard(m, &v, from, to, advice);
		at = to;
	}
	if (rc != 0 || !hole)
		return rc;
	errno = ENOMEM; /* as the kernel reports it, after the rest is done */
	return -1;
}

/* Whether the whole range is mapped, with ordinary pages, and a part of it lies in the arena. */
static bool resizable(const struct rnic_mem *m, uintptr_t addr, size_t len, int *prot)
{
	bool some = false;
	struct rnic_vma v;

	for (uintptr_t at = addr; at < addr + len; at = v.end) {
		if (rnic_vma_at(&m->proc, at, &v) != 0 || v.start > at || v.hugetlb)
			return false;
		some |= rnic_moved_fd(m, &v) >= 0;
		*prot = v.prot;
	}
	return some;
}

/* Moves each mapping by itself, to the same place in the new range, so that memory regions keep their pages. */
static bool shift(const struct rnic_mem *m, uintptr_t from, size_t len, uintptr_t to)
{
	struct rnic_vma v;

	for (uintptr_t at = from; at < from + len; at = v.end) {
		if (rnic_vma_at(&m->proc, at, &v) != 0)
			return false;
		size_t n = (v.end < from + len ? v.end : from + len) - at;
		if (syscall(SYS_mremap, at, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, to + (at - from)) == -1)
			return false;
	}
	return true;
}

static void *map_private(uintptr_t at, size_t len, int prot, int flags)
{
	return rnic_map((void *)at, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

bool rnic_mem_resize(const struct rnic_mem *m, uintptr_t old, size_t old_len, size_t new_len, int flags, void **addr)
{
	uintptr_t to = (uintptr_t)*addr;
	int prot = 0;

	old_len = (old_len + RNIC_PAGE - 1) & ~(RNIC_PAGE - 1);
	new_len = (new_len + RNIC_PAGE - 1) & ~(RNIC_PAGE - 1);
	if (old % RNIC_PAGE != 0 || old_len == 0 || new_len < old_len ||
	    (flags & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) != 0 || !resizable(m, old, old_len, &prot))
		return false;
	*addr = MAP_FAILED;
	if ((flags & MREMAP_FIXED) == 0 && (new_len == old_len || map_private(old + old_len, new_len - old_len, prot,
									      MAP_FIXED_NOREPLACE) != MAP_FAILED)) {
		*addr = (void *)old;
		return true;
	}
	if ((flags & MREMAP_MAYMOVE) == 0) {
		errno = ENOMEM;
		return true;
	}
	void *p = map_private((flags & MREMAP_FIXED) != 0 ? to : 0, new_len, prot,
			      (flags & MREMAP_FIXED) != 0 ? MAP_FIXED : 0);
	if (p != MAP_FAILED && shift(m, old, old_len, (uintptr_t)p))
		*addr = p;
	return true;
}
