/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that was moved into the arena is shared, so after fork() the child would share it instead of having a copy. As
 * the kernel does with pinned memory, every page of it is copied for the child before fork() returns in the parent.
 * Memory of rnic_alloc() stays shared, and so does memory that is shared with other processes anyway.
 *
 * The child is born without these pages (MADV_DONTFORK), because it must not write to the shared pages: libc's fork()
 * releases locks of malloc() in them. A page that the child touches before it is copied is copied on the fault, by the
 * handler of the write guard. Parent and child run on a stack of their own meanwhile (hooks.c). Small stretches come
 * first, most of all the heap around small buffers: other threads of the parent go on.
 */
#include "rnic/mem/arena.h"

#include <fcntl.h>

#include "rnic/map.h"

#define STACK_NEAR (UINT64_C(64) << 10) /* bytes around the stack pointer that fork() itself may use */

struct range {
	uintptr_t start;
	uint64_t len, off;
	int prot, fd; /* the file that is mapped */
	bool absent;  /* the child was born without it */
	bool done;
};

/* What the child must copy: collected in the parent, used in the child. Under rnic_mem.lock; not on the heap. */
static struct range *ranges;
static size_t nranges, ranges_room;
static pid_t parent;  /* the process that forks; 0: none */
static sigset_t mask; /* the forking thread's */

static bool ranges_grow(void)
{
	size_t room = ranges_room == 0 ? 1024 : ranges_room * 2;
	struct range *more = rnic_map(NULL, room * sizeof(*more), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				      -1, 0);

	if (more == MAP_FAILED)
		return false;
	if (ranges_room > 0) {
		memcpy(more, ranges, nranges * sizeof(*more));
		rnic_unmap(ranges, ranges_room * sizeof(*more));
	}
	ranges = more;
	ranges_room = room;
	return true;
}

static void add(const struct range *r)
{
	if (nranges < ranges_room || ranges_grow())
		ranges[nranges++] = *r;
}

static bool read_run(int fd, uint8_t *to, uint64_t off, uint64_t len)
{
	while (len > 0) {
		ssize_t n = syscall(SYS_pread64, fd, to, len, off);
		if (n <= 0)
			return false;
		to += n;
		off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return true;
}

/* Copies the contents. Holes of the file stay absent pages; a file of hugepages does not report its holes. */
static bool copy_contents(uint8_t *copy, const struct range *r)
{
	uint64_t end = r->off + r->len, at = r->off;

	while (at < end) {
		off_t data = lseek(r->fd, (off_t)at, SEEK_DATA);
		if (data < 0 || (uint64_t)data >= end)
			return data >= 0 || errno == ENXIO;
		off_t hole = lseek(r->fd, data, SEEK_HOLE);
		at = hole < 0 || (uint64_t)hole > end ? end : (uint64_t)hole;
		if (!read_run(r->fd, copy + ((uint64_t)data - r->off), (uint64_t)data, at - (uint64_t)data))
			return false;
	}
	return true;
}

/*
 * A range that is absent in the child is filled in its place, so that nothing else can be mapped there; one in use is
 * replaced at once.
 */
static bool copy_range(const struct range *r)
{
	int fixed = r->absent ? MAP_FIXED : 0;
	void *to = r->absent ? (void *)r->start : NULL;
	uint8_t *copy = rnic_map(to, r->len, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | fixed, -1, 0);

	if (copy == MAP_FAILED || !copy_contents(copy, r) || mprotect(copy, r->len, r->prot) != 0)
		return false;
	return r->absent || syscall(SYS_mremap, copy, r->len, r->len, MREMAP_MAYMOVE | MREMAP_FIXED, r->start) != -1;
}

/*
 * Without memory for a copy, the file is mapped privately, so that at least the child's writes do not reach the parent.
 */
static void make_own(struct range *r)
{
	r->done = true;
	if (!copy_range(r))
		rnic_map((void *)r->start, r->len, r->prot, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, r->fd, r->off);
}

bool rnic_mem_fork_fault(uintptr_t addr)
{
	if (parent == 0 || getpid() == parent)
		return false;
	for (size_t i = 0; i < nranges; i++) {
		if (addr - ranges[i].start < ranges[i].len && !ranges[i].done) {
			make_own(&ranges[i]);
			return true;
		}
	}
	return false;
}

static bool allocated(const struct rnic_mem *m, const struct rnic_vma *v)
{
	rn_list_each(const struct rnic_block, b, &m->blocks, link) {
		if (v->start >= (uintptr_t)b->p && v->start < (uintptr_t)b->p + b->len)
			return true;
	}
	return false;
}

static bool near(const struct range *r, uintptr_t sp)
{
	return sp + STACK_NEAR > r->start && sp - STACK_NEAR < r->start + r->len;
}

static int small_first(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return (x->len > y->len) - (x->len < y->len);
}

void rnic_mem_fork_prepare(struct rnic_mem *m)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0), self = (uintptr_t)pthread_self();
	struct rnic_vma v;
	sigset_t segv;

	pthread_mutex_lock(&m->lock);
	nranges = 0;
	if (!rnic_fork_aside) /* fork() was called inside libc, as by daemon() */
		rnic_stack_back(m, sp - STACK_NEAR, sp + STACK_NEAR, false);
	rnic_stack_back(m, self, self + 1, false); /* the kernel writes the child's thread number there */
	for (uintptr_t at = 0; rnic_vma_at(&m->proc, at, &v) == 0; at = v.end) {
		int fd = rnic_moved_fd(m, &v);
		if (fd >= 0 && !allocated(m, &v))
			add(&(struct range){
				.start = v.start, .len = v.end - v.start, .off = v.off, .prot = v.prot, .fd = fd });
	}
	sigemptyset(&segv);
	sigaddset(&segv, SIGSEGV);
	pthread_sigmask(SIG_UNBLOCK, &segv, &mask);
	if (nranges == 0)
		return;
	qsort(ranges, nranges, sizeof(*ranges), small_first);
	if (pipe2(m->fork_pipe, O_CLOEXEC) != 0)
		m->fork_pipe[0] = m->fork_pipe[1] = -1;
	parent = getpid();
	for (size_t i = 0; i < nranges && rnic_guard_install() == 0; i++) {
		ranges[i].absent = (rnic_fork_aside || !near(&ranges[i], sp)) &&
				   rnic_advise((void *)ranges[i].start, ranges[i].len, MADV_DONTFORK) == 0;
	}
}

/* Waits until the child has its copies or is dead. */
void rnic_mem_fork_parent(struct rnic_mem *m)
{
	char c;

	for (size_t i = 0; i < nranges; i++)
		rnic_advise((void *)ranges[i].start, ranges[i].len, MADV_DOFORK);
	if (m->fork_pipe[0] >= 0) {
		close(m->fork_pipe[1]);
		while (read(m->fork_pipe[0], &c, 1) < 0 && errno == EINTR)
			;
		close(m->fork_pipe[0]);
		m->fork_pipe[0] = m->fork_pipe[1] = -1;
	}
	parent = 0;
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	pthread_mutex_unlock(&m->lock);
}

void rnic_mem_fork_child(struct rnic_mem *m)
{
	for (int absent = 1; absent >= 0; absent--) {
		for (size_t i = 0; i < nranges; i++) {
			if (!ranges[i].done && ranges[i].absent == absent)
				make_own(&ranges[i]);
		}
	}
	parent = 0;
	pthread_sigmask(SIG_SETMASK, &mask, NULL);
	if (m->fork_pipe[0] >= 0) {
		close(m->fork_pipe[0]);
		close(m->fork_pipe[1]);
	}
	m->fork_pipe[0] = m->fork_pipe[1] = -1;
	pthread_mutex_init(&m->lock, NULL);
	/* Functions that look into the parent. */
	rnic_procfs_close(&m->proc);
	rnic_procfs_open(&m->proc);
	if (m->uffd >= 0)
		close(m->uffd);
	m->uffd = -1;
}

void rnic_mem_inherited(struct rnic_mem *m)
{
	pthread_mutex_init(&m->lock, NULL);
	m->forked = true;
}
