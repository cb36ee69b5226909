/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ibv_reg_mr() of ordinary memory: its pages move into the arena, in place. For each stretch: take room in the arena,
 * guard the stretch against writers, copy the pages that have contents, map the arena over the stretch, end the guard.
 */
#include "rnic/mem/arena.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "rnic/map.h"

#define CHUNK       (UINT64_C(16) << 20)  /* bytes moved under one guard, during which other writers wait */
#define GRANULE     (UINT64_C(64) << 10)  /* heap pages around a small buffer that move with it: mappings stay few */
#define CHAPTER     (UINT64_C(128) << 10) /* bytes: the smallest block that malloc() maps by itself */
#define STACK_BELOW (UINT64_C(1) << 20)   /* bytes kept growable under a moved page of the main stack */
#define STRETCHES   64                    /* stretches that one chunk may be split into */

struct stretch {
	uint64_t va, off, len;
};

struct move {
	struct rnic_mem *m;
	const struct rnic_vma *v;
	uintptr_t start;
	uint64_t len;
	enum ipc_region region;
	struct stretch to[STRETCHES];
	uint32_t n;
	bool stack; /* the caller's own stack is in the range */
	int rc;
};

/* ---- copying: writes only to its own stack, and calls nothing that writes elsewhere (see rnic_guard_begin) ---- */

static int copy_run(const struct move *mv, uint64_t va, uint64_t off, uint64_t len)
{
	while (len > 0) {
		ssize_t n = syscall(SYS_pwrite64, mv->m->file[mv->region].fd, va, len, off);
		if (n <= 0)
			return n < 0 ? errno : EIO;
		va += (uint64_t)n;
		off += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Files of hugepages cannot be written by pwrite(). */
static int copy_run_huge(const struct move *mv, uint64_t va, uint64_t off, uint64_t len)
{
	void *p = rnic_map(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, mv->m->file[mv->region].fd,
			   off);

	if (p == MAP_FAILED)
		return errno;
	rnic_copy_pages(p, (const void *)(uintptr_t)va, len);
	rnic_unmap(p, len);
	return 0;
}

static int copy_stretch(const struct move *mv, const struct stretch *st)
{
	uint64_t present[RNIC_WIN_PAGES / 64];
	bool all = mv->v->ino != 0 && !mv->v->hugetlb; /* an absent page of a file has the file's contents */
	int rc = 0;

	for (uint64_t done = 0; done < st->len && rc == 0;) {
		uint64_t n = rn_min_u64((st->len - done) / RNIC_PAGE, RNIC_WIN_PAGES), p = 0;
		if (all)
			memset(present, 0xff, sizeof(present));
		else
			rc = rnic_pages_present(&mv->m->proc, st->va + done, n, present);
		while (p < n && rc == 0) {
			uint64_t run = 0;
			while (p + run < n && (present[(p + run) / 64] >> ((p + run) % 64) & 1) != 0)
				run++;
			uint64_t at = done + p * RNIC_PAGE;
			if (run > 0 && mv->region == IPC_REGION_HUGE)
				rc = copy_run_huge(mv, st->va + at, st->off + at, run * RNIC_PAGE);
			else if (run > 0)
				rc = copy_run(mv, st->va + at, st->off + at, run * RNIC_PAGE);
			p += run + 1;
		}
		done += n * RNIC_PAGE;
	}
	return rc;
}

/*
 * Gives one page a different, harmless attribute, so that a block that malloc() has mapped consists of at least two
 * mappings: mremap() refuses to grow two at once, and realloc() then copies instead of growing into other pages. In
 * small stretches only pages at certain addresses get it, so that neighbours still join and mappings stay few.
 */
static void divide(const struct stretch *st)
{
	uint64_t end = st->va + st->len, page = st->len > CHAPTER ? end : end & ~(CHAPTER - 1);

	if (page > st->va)
		rnic_advise((void *)(uintptr_t)(page - RNIC_PAGE), RNIC_PAGE, MADV_RANDOM);
}

static int replace(const struct move *mv, const struct stretch *st)
{
	void *p = rnic_map((void *)(uintptr_t)st->va, st->len, mv->v->prot, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
			   mv->m->file[mv->region].fd, st->off);

	if (p == MAP_FAILED)
		return errno;
	if (mv->region == IPC_REGION_ARENA)
		divide(st);
	return 0;
}

static int move_now(void *arg)
{
	struct move *mv = arg;
	struct rnic_guard g;

	for (uint32_t i = 0; i < mv->n && mv->rc == 0; i++) {
		const struct stretch *st = &mv->to[i];
		int rc = rnic_guard_begin(&g, mv->m, mv->v, st->va, st->len);
		bool moved = false;
		if (rc == 0) {
			rc = copy_stretch(mv, st);
			if (rc == 0) {
				rc = replace(mv, st);
				moved = rc == 0;
			}
			rnic_guard_end(&g, moved);
		}
		mv->rc = rc;
		mv->n = rc == 0 ? mv->n : i;
	}
	return 0;
}

/* ---- one chunk ---- */

static bool place_all(struct move *mv)
{
	uint64_t done = 0;

	mv->n = 0;
	mv->region = IPC_REGION_ARENA;
	if (mv->v->hugetlb && mv->len % RNIC_HUGE_PAGE == 0 && rnic_huge_place(mv->m, mv->len, &mv->to[0].off)) {
		mv->region = IPC_REGION_HUGE;
		mv->to[0].va = mv->start;
		mv->to[0].len = mv->len;
		mv->n = 1;
		return true;
	}
	/* A mapping of larger pages can only be replaced in whole pages, so its room must be in one stretch. */
	while (done < mv->len && mv->n < STRETCHES) {
		struct stretch *st = &mv->to[mv->n];
		st->va = mv->start + done;
		st->len = rnic_arena_place(mv->m, st->va, mv->len - done, &st->off);
		if (st->len == 0)
			return false;
		mv->n++;
		done += st->len;
		if (st->len % mv->v->page != 0)
			return false;
	}
	mv->len = done;
	return true;
}

static void release_from(const struct move *mv, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i++)
		rnic_arena_release(mv->m, mv->region, mv->to[i].off, mv->to[i].len);
}

static bool place_or_sweep(struct move *mv)
{
	if (place_all(mv))
		return true;
	release_from(mv, 0, mv->n);
	rnic_arena_sweep(mv->m);
	if (place_all(mv))
		return true;
	release_from(mv, 0, mv->n);
	return false;
}

static int move_chunk(struct move *mv)
{
	sigset_t all, old;
	uint32_t taken;

	if (!place_or_sweep(mv))
		return ENOMEM;
	taken = mv->n;
	mv->rc = 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (mv->stack) {
		int rc = rnic_run_aside(move_now, mv);
		if (rc != 0) {
			mv->rc = rc;
			mv->n = 0;
		}
	} else {
		move_now(mv);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (mv->rc == 0)
		return 0;
	release_from(mv, mv->n, taken);
	return mv->rc == EEXIST || mv->rc == EBUSY ? EAGAIN : mv->rc;
}

/* ---- which parts to move ---- */

/*
 * The main stack can grow while its lowest page has not been moved: extends it to a margin below the moved part, as far
 * as its limit allows.
 */
static void stack_margin(const struct rnic_vma *v, uintptr_t start)
{
	struct rlimit lim;
	uint64_t want = start > v->start + STACK_BELOW ? 0 : STACK_BELOW;

	if (want == 0 || strcmp(v->name, "[stack]") != 0 || getrlimit(RLIMIT_STACK, &lim) != 0)
		return;
	if (lim.rlim_cur != RLIM_INFINITY && v->end - start + 2 * want > lim.rlim_cur)
		return;
	(void)*(volatile uint8_t *)(start - want);
}

/* Moves the part of the mapping v that [at, end) touches. */
static int move_part(struct rnic_mem *m, const struct rnic_vma *v, uintptr_t at, uintptr_t end)
{
	uint64_t grain = strcmp(v->name, "[heap]") == 0 ? GRANULE : v->page;
	uintptr_t here = (uintptr_t)__builtin_frame_address(0), self = (uintptr_t)pthread_self();
	uintptr_t lo = at & ~(grain - 1), hi = (end + grain - 1) & ~(grain - 1);
	struct move *mv = rnic_map(NULL, sizeof(*mv), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int rc = 0;

	if (mv == MAP_FAILED)
		return ENOMEM;
	lo = lo < v->start ? v->start : lo;
	hi = hi > v->end || hi < end ? v->end : hi;
	stack_margin(v, lo);
	while (lo < hi && rc == 0) {
		*mv = (struct move){
			.m = m, .v = v, .start = lo, .len = rn_min_u64(hi - lo, v->page > CHUNK ? v->page : CHUNK)
		};
		mv->stack = here >= v->start && here < v->end;
		/* Moving earlier parts may have cut the stack into several mappings. */
		if (mv->stack || (self < hi && self + RNIC_PAGE > lo))
			rnic_stack_moved();
		rc = move_chunk(mv);
		lo += mv->len;
	}
	rnic_unmap(mv, sizeof(*mv));
	return rc;
}

/* ---- messages about memory that cannot be moved ---- */

static int refuse(const struct rnic_vma *v, uintptr_t addr, uint64_t len, int rc, const char *why)
{
	rnic_complain("rnic: cannot register %#lx..%#lx (in %#lx..%#lx %s): %s", (unsigned long)addr,
		      (unsigned long)(addr + len), (unsigned long)v->start, (unsigned long)v->end,
		      v->name[0] != '\0' ? v->name : "anonymous memory", why);
	return rc;
}

static bool ours(const struct rnic_mem *m, const struct rnic_vma *v, uint32_t *region)
{
	*region = rnic_file_is(&m->file[IPC_REGION_HUGE], v) ? IPC_REGION_HUGE : IPC_REGION_ARENA;
	return *region == IPC_REGION_HUGE || rnic_file_is(&m->file[IPC_REGION_ARENA], v);
}

static int check(const struct rnic_vma *v, uintptr_t addr, uint64_t len, bool write, bool is_ours)
{
	if ((v->prot & PROT_READ) == 0)
		return refuse(v, addr, len, EFAULT, "it may not be read: give it PROT_READ");
	if (write && (v->prot & PROT_WRITE) == 0)
		return refuse(v, addr, len, EACCES, "it is read-only: register it without write access");
	if (is_ours)
		return 0;
	if (v->name[0] == '[' && v->name[1] == 'v')
		return refuse(v, addr, len, EOPNOTSUPP, "it belongs to the kernel: use memory of the program's own");
	if ((v->prot & (PROT_EXEC | PROT_WRITE)) == PROT_EXEC && !v->shared)
		return refuse(v, addr, len, EOPNOTSUPP, "it is code: copy it to plain memory");
	return 0;
}

static int move_check(const struct rnic_mem *m, const struct rnic_vma *v, uintptr_t addr, uint64_t len, int rc)
{
	const char *verbose = getenv("RNIC_REG_VERBOSE");

	if (rc == ENOMEM)
		return refuse(v, addr, len, rc, "no room in the arena, or too many mappings: raise vm.max_map_count");
	if (rc != 0)
		return refuse(v, addr, len, rc, strerror(rc));
	if (verbose != NULL && verbose[0] == '1')
		rnic_complain("rnic: moved memory in %#lx..%#lx %s for %#lx..%#lx (%s)", (unsigned long)v->start,
			      (unsigned long)v->end, v->name, (unsigned long)addr, (unsigned long)(addr + len),
			      m->uffd >= 0 ? "userfaultfd" : "signal");
	return 0;
}

static const char *import_why(int rc)
{
	switch (rc) {
	case ENXIO:
		return "it is shared with others, and rnicd may not open it: give its file a name, run rnicd as root, or "
		       "use private memory";
	case EOPNOTSUPP:
		return "it is shared through a file that does not lie in memory: take one in /dev/shm, a memfd or "
		       "hugepages, or private memory";
	case EACCES: return "its file may not be opened for writing: register it without write access";
	case EINVAL: return "its file ends before it: make the file longer";
	case ENOMEM:
		return "rnicd cannot import more memory that is shared with other processes: deregister some, or "
		       "use private memory";
	default: return strerror(rc);
	}
}

/* ---- pieces ---- */

struct pieces {
	struct ipc_piece *p;
	uint32_t n, room;
};

/* Pieces of an import are not joined: each counts as one of the import's users. */
static bool piece_add(struct pieces *ps, uint32_t region, uint64_t off, uint64_t len)
{
	struct ipc_piece *last = ps->n > 0 ? &ps->p[ps->n - 1] : NULL;

	if (last != NULL && last->region == region && region < IPC_REGIONS && last->off + last->len == off) {
		last->len += len;
		return true;
	}
	if (ps->n == ps->room) {
		uint32_t room = ps->room == 0 ? 4 : ps->room * 2;
		struct ipc_piece *p = realloc(ps->p, room * sizeof(*p));
		if (p == NULL)
			return false;
		ps->p = p;
		ps->room = room;
	}
	ps->p[ps->n++] = (struct ipc_piece){ .region = region, .off = off, .len = len };
	return true;
}

static int import_add(struct rnic_mem *m, struct pieces *ps, const struct rnic_vma *v, uintptr_t at, uint64_t len,
		      bool write)
{
	struct ipc_piece p;
	int rc = rnic_import_get(m, v, at, len, write, &p);

	if (rc != 0)
		return refuse(v, at, len, rc == ENXIO ? EOPNOTSUPP : rc, import_why(rc));
	if (piece_add(ps, p.region, p.off, p.len))
		return 0;
	rnic_import_put(m, p.region);
	return ENOMEM;
}

void rnic_pieces_free(struct rnic_mem *m, struct ipc_piece *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (pieces[i].region >= IPC_REGIONS)
			rnic_import_put(m, pieces[i].region);
	}
	free(pieces);
}

int rnic_mem_pieces(struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write, struct ipc_piece **pieces,
		    uint32_t *n)
{
	struct pieces ps = { 0 };
	uintptr_t at = addr, end = addr + len;
	uintptr_t moved_to = 0;
	int rc = 0;

	if (m->dealt > (m->collided ? RNIC_SWEEP_PAGES_COLLIDED : RNIC_SWEEP_PAGES))
		rnic_arena_sweep(m);
	while (at < end && rc == 0) {
		struct rnic_vma v;
		uint32_t region;
		rc = rnic_vma_at(&m->proc, at, &v);
		if (rc == ENOENT || (rc == 0 && v.start > at)) {
			rnic_complain("rnic: cannot register %#lx..%#lx: nothing is mapped at %#lx",
				      (unsigned long)addr, (unsigned long)end, (unsigned long)at);
			rc = EFAULT;
		}
		if (rc != 0)
			break;
		uintptr_t upto = v.end < end ? v.end : end;
		bool is_ours = ours(m, &v, &region);
		rc = check(&v, addr, len, write, is_ours);
		if (rc != 0)
			break;
		if (is_ours) {
			rc = piece_add(&ps, region, v.off + (at - v.start), upto - at) ? 0 : ENOMEM;
			at = upto;
		} else if (v.shared && !rnic_file_retired(&v)) {
			rc = import_add(m, &ps, &v, at, upto - at, write);
			at = upto;
		} else if (moved_to > at) {
			rc = refuse(&v, addr, len, EAGAIN, "another thread maps over it at the same time");
		} else {
			rc = move_check(m, &v, addr, len, move_part(m, &v, at, upto));
			moved_to = upto;
		}
	}
	if (rc != 0) {
		rnic_pieces_free(m, ps.p, ps.n);
		return rc;
	}
	*pieces = ps.p;
	*n = ps.n;
	return 0;
}
