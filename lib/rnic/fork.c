/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was moved into the arena is shared, so fork() would give the child not a copy but the thing itself. As the
 * kernel does with pinned memory, every page of it is copied for the child before fork() returns in the parent; what
 * rnic_alloc() handed out stays shared, and so does what others share anyway. Small stretches come first, most of all the
 * heap around small buffers: other threads of the parent go on meanwhile. Parent and child run on a stack of their own
 * until then (hooks.c), as theirs may be among it.
 */
#include "rnic/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

struct range {
	uintptr_t start;
	uint64_t len, off;
	int prot, fd; /* the file it is mapped from; -1: not known */
};

/* What the child must copy: made in the parent, used in the child. Under rnic_mem.lock. */
static struct range *ranges;
static size_t nranges, ranges_room;

static void add(const struct range *r)
{
	if (nranges == ranges_room) {
		size_t room = ranges_room == 0 ? 64 : ranges_room * 2;
		struct range *more = realloc(ranges, room * sizeof(*more));
		if (more == NULL)
			return;
		ranges = more;
		ranges_room = room;
	}
	ranges[nranges++] = *r;
}

/* Pages that have contents: holes of the file stay absent. A file of hugepages does not tell. */
static void copy_contents(uint8_t *copy, const struct range *r)
{
	uint64_t end = r->off + r->len;

	for (uint64_t at = r->off; at < end;) {
		off_t data = r->fd >= 0 ? lseek(r->fd, (off_t)at, SEEK_DATA) : (off_t)at;
		if (data < 0 || (uint64_t)data >= end)
			return;
		off_t hole = r->fd >= 0 ? lseek(r->fd, data, SEEK_HOLE) : (off_t)end;
		uint64_t upto = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
		rnic_copy_pages(copy + ((uint64_t)data - r->off), (const void *)(r->start + ((uint64_t)data - r->off)),
				upto - (uint64_t)data);
		at = upto;
	}
}

/* Where there is no memory for a copy, writes at least go no further than the child. */
static void make_own(const struct range *r)
{
	uint8_t *copy = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (copy == MAP_FAILED) {
		if (r->fd >= 0)
			mmap((void *)r->start, r->len, r->prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, r->fd, (off_t)r->off);
		return;
	}
	if ((r->prot & PROT_READ) == 0)
		mprotect((void *)r->start, r->len, PROT_READ);
	copy_contents(copy, r);
	if (r->prot != (PROT_READ | PROT_WRITE))
		mprotect(copy, r->len, r->prot);
	if (syscall(SYS_mremap, copy, r->len, r->len, MREMAP_MAYMOVE | MREMAP_FIXED, r->start) == -1)
		munmap(copy, r->len);
}

static bool allocated(const struct rnic_mem *m, const struct rnic_vma *v)
{
	for (const struct rnic_block *b = m->blocks; b != NULL; b = b->next) {
		if (v->start >= (uintptr_t)b->p && v->start < (uintptr_t)b->p + b->len)
			return true;
	}
	return false;
}

/* Is it memory of this session or an older one that was moved? */
static bool moved(const struct rnic_mem *m, const struct rnic_vma *v, struct range *r)
{
	bool arena = rnic_file_is(&m->file[IPC_REGION_ARENA], v), huge = rnic_file_is(&m->file[IPC_REGION_HUGE], v);

	if ((!arena && !huge && !rnic_file_retired(v)) || allocated(m, v))
		return false;
	*r = (struct range){ .start = v->start, .len = v->end - v->start, .off = v->off, .prot = v->prot,
			     .fd = arena ? m->file[IPC_REGION_ARENA].fd : -1 };
	return true;
}

static int small_first(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->len > y->len) - (x->len < y->len);
}

void rnic_mem_fork_prepare(struct rnic_mem *m)
{
	struct rnic_vma v;
	struct range r;

	pthread_mutex_lock(&m->lock);
	nranges = 0;
	for (uintptr_t at = 0; rnic_vma_at(&m->proc, at, &v) == 0; at = v.end) {
		if (moved(m, &v, &r))
			add(&r);
	}
	qsort(ranges, nranges, sizeof(*ranges), small_first);
	if (nranges > 0 && pipe2(m->fork_pipe, O_CLOEXEC) != 0)
		m->fork_pipe[0] = m->fork_pipe[1] = -1;
}

/* Waits until the child has its copies or is dead. */
void rnic_mem_fork_parent(struct rnic_mem *m)
{
	char c;

	if (m->fork_pipe[0] >= 0) {
		close(m->fork_pipe[1]);
		while (read(m->fork_pipe[0], &c, 1) < 0 && errno == EINTR)
			;
		close(m->fork_pipe[0]);
		m->fork_pipe[0] = m->fork_pipe[1] = -1;
	}
	pthread_mutex_unlock(&m->lock);
}

void rnic_mem_fork_child(struct rnic_mem *m)
{
	for (size_t i = 0; i < nranges; i++)
		make_own(&ranges[i]);
	if (m->fork_pipe[0] >= 0) {
		close(m->fork_pipe[0]);
		close(m->fork_pipe[1]);
	}
	m->fork_pipe[0] = m->fork_pipe[1] = -1;
	pthread_mutex_init(&m->lock, NULL);
	/* These look into the parent. */
	rnic_procfs_close(&m->proc);
	rnic_procfs_open(&m->proc);
	if (m->uffd >= 0)
		close(m->uffd);
	m->uffd = -1;
}
