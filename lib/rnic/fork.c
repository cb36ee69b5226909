/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was moved into the arena is shared, so fork() would give the child not a copy but the thing itself. Pages
 * that lie wholly inside a memory region stay so, as pinned memory is no copy either; every other page, most of all the
 * heap around a buffer, is made the child's own before fork() returns in the parent.
 */
#include "rnic/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_NEAR (UINT64_C(64) << 10) /* bytes around the stack pointer that fork() itself may use */

struct range { uintptr_t start; uint64_t len; int prot; };

/* What the child must copy: made in the parent, used in the child. Under rnic_mem.lock. */
static struct range *ranges;
static size_t nranges, ranges_room;

static bool add(uintptr_t start, uint64_t len, int prot)
{
	if (nranges == ranges_room) {
		size_t room = ranges_room == 0 ? 64 : ranges_room * 2;
		struct range *r = realloc(ranges, room * sizeof(*r));
		if (r == NULL)
			return false;
		ranges = r;
		ranges_room = room;
	}
	ranges[nranges++] = (struct range){ .start = start, .len = len, .prot = prot };
	return true;
}

/* The first byte from `off` on, below `end`, that changes between inside and outside of whole pages of regions. */
static uint64_t next_edge(const struct rnic_mem *m, uint64_t off, uint64_t end, bool *inside)
{
	uint64_t edge = end;

	*inside = false;
	for (const struct rnic_mr *mr = m->mrs; mr != NULL; mr = mr->next) {
		for (uint32_t i = 0; i < mr->npieces; i++) {
			const struct ipc_piece *p = &mr->pieces[i];
			uint64_t lo = (p->off + RNIC_PAGE - 1) & ~(RNIC_PAGE - 1);
			uint64_t hi = (p->off + p->len) & ~(RNIC_PAGE - 1);
			if (p->region != IPC_REGION_ARENA || lo >= hi)
				continue;
			if (off >= lo && off < hi) {
				*inside = true;
				return rn_min_u64(hi, end);
			}
			if (lo > off)
				edge = rn_min_u64(edge, lo);
		}
	}
	return edge;
}

static void make_own(const struct range *r)
{
	void *copy = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return;
	rnic_copy_pages(copy, (const void *)r->start, r->len);
	if ((r->prot & PROT_WRITE) == 0)
		mprotect(copy, r->len, r->prot);
	if (mremap(copy, r->len, r->len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)r->start) == MAP_FAILED)
		munmap(copy, r->len);
}

static int make_own_aside(void *arg)
{
	make_own(arg);
	return 0;
}

/*
 * Parent and child run on the same addresses until the child has its copies: the stack they run on must be private
 * before. `v` holds a part of it; pages of no region go back to what they were.
 */
static void stack_back(const struct rnic_mem *m, const struct rnic_vma *v, uintptr_t sp)
{
	uintptr_t lo = (sp - STACK_NEAR) & ~(uintptr_t)(RNIC_PAGE - 1);

	for (uintptr_t at = lo < v->start ? v->start : lo; at < v->end && at < sp + STACK_NEAR; at += RNIC_PAGE) {
		struct range r = { at, RNIC_PAGE, v->prot };
		if (rnic_file_retired(v) || !rnic_in_region(m, IPC_REGION_ARENA, v->off + (at - v->start), RNIC_PAGE))
			rnic_run_aside(make_own_aside, &r);
	}
}

/* Ordinary memory of this session or an older one. */
static bool moved(const struct rnic_mem *m, const struct rnic_vma *v)
{
	return rnic_file_is(&m->file[IPC_REGION_ARENA], v) || rnic_file_retired(v);
}

static bool allocated(const struct rnic_mem *m, const struct rnic_vma *v)
{
	for (const struct rnic_block *b = m->blocks; b != NULL; b = b->next) {
		if (v->start >= (uintptr_t)b->p && v->start < (uintptr_t)b->p + b->len)
			return true;
	}
	return false;
}

void rnic_mem_fork_prepare(struct rnic_mem *m)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
	struct rnic_vma v;

	pthread_mutex_lock(&m->lock);
	nranges = 0;
	for (uintptr_t at = sp - STACK_NEAR; rnic_vma_at(&m->proc, at, &v) == 0; at = v.end) {
		if (v.start >= sp + STACK_NEAR)
			break;
		if (moved(m, &v))
			stack_back(m, &v, sp);
	}
	for (uintptr_t at = 0; rnic_vma_at(&m->proc, at, &v) == 0; at = v.end) {
		if (!moved(m, &v) || allocated(m, &v))
			continue;
		uint64_t off = v.off, end = v.off + (v.end - v.start);
		if (rnic_file_retired(&v)) {
			add(v.start, v.end - v.start, v.prot);
			continue;
		}
		while (off < end) {
			bool inside;
			uint64_t edge = next_edge(m, off, end, &inside);
			if (!inside && !add(v.start + (off - v.off), edge - off, v.prot))
				break;
			off = edge;
		}
	}
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
