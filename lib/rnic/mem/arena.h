/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory of a session: which pages lie where in the arena files (IPC_REGION_ARENA, IPC_REGION_HUGE), and how
 * ordinary memory gets there.
 *
 * Each registration asks the kernel what backs the virtual addresses (vma.h). The answer is not kept, so memory that
 * was unmapped, moved or mapped anew needs no special case. Only the pages of the arena that are taken are recorded.
 * The arena is given out in windows of 2 MiB. A window of virtual addresses is bound to a window of the arena. So pages
 * that are neighbours in the program, and are moved one after another, are neighbours in the arena, too, in one mapping
 * and one piece. When the arena or the budget of pages is used up, a sweep over the map of the process finds the pages
 * of the arena that are no longer mapped and are in no memory region.
 *
 * Moved memory still behaves as private memory: fork() copies it for the child (fork.c), madvise() and mremap() act on
 * it as on private memory (advise.c), and the program's SIGSEGV handler runs after the guard's. Hazards that remain:
 *  - During a registration, system calls of other threads that write into the memory may return EFAULT.
 *  - Where userfaultfd is not available, a thread that blocks SIGSEGV and writes into memory that is being registered
 *    ends the process: the kernel runs no handler of a blocked signal (guard.c).
 *  - Other threads of a process that forks may write to the memory while the child takes its copy; what the child reads
 *    of other threads' heaps may then be inconsistent.
 *  - A runtime that makes its own system calls (Go) gets no zeros from madvise(MADV_DONTNEED).
 *  - The page of a thread's stack that also holds the thread's descriptor must not be registered by another thread if
 *    the thread is joined (the thread itself may register it: stack.c), and the thread must not fork while the page is
 *    in a memory region.
 */
#ifndef RNIC_ARENA_H
#define RNIC_ARENA_H

#include <signal.h>

#include "rnic/mem/mem.h"
#include "rnic/mem/vma.h"

/* ---- private to lib/rnic/mem ---- */

#define RNIC_PAGE      UINT64_C(4096)
#define RNIC_HUGE_PAGE (UINT64_C(2) << 20)
#define RNIC_WIN_SHIFT 21
#define RNIC_WIN_SIZE  (UINT64_C(1) << RNIC_WIN_SHIFT)
#define RNIC_WIN_PAGES (RNIC_WIN_SIZE / RNIC_PAGE)
#define RNIC_WINDOWS   (IPC_ARENA_SIZE >> RNIC_WIN_SHIFT)
#define RNIC_HUGES     (IPC_HUGE_SIZE / RNIC_HUGE_PAGE)

struct rnic_file {
	int fd; /* -1: absent */
	uint64_t ino;
	uint32_t dev_major, dev_minor;
};

struct rnic_win {
	uint64_t va;   /* address >> RNIC_WIN_SHIFT, plus 1; 0: bound to none */
	uint16_t next; /* next window in its hash chain, plus 1 */
	uint64_t used[RNIC_WIN_PAGES / 64];
};

struct rnic_block { /* a block of rnic_alloc() */
	struct rn_link link;
	void *p;
	enum ipc_region region;
	uint64_t off, len;
};

struct rnic_mem {
	pthread_mutex_t lock;
	struct rnic_session *s;
	bool own;                           /* own.c's: of the members below only proc and blocks are used */
	bool forked;                        /* inherited by fork(): the pages of its files are the parent's */
	struct rnic_file file[IPC_REGIONS]; /* ARENA and HUGE */
	struct rnic_mem *retired;           /* the next one in the list of retired ones; it is never freed */
	struct rnic_procfs proc;
	int uffd;             /* userfaultfd, or -1 */
	struct rnic_win *win; /* [RNIC_WINDOWS] */
	uint16_t *hash;       /* [RNIC_WINDOWS]: window + 1 */
	uint32_t win_next;    /* where the next search for free windows begins */
	uint32_t alloc_win;   /* window that small blocks of rnic_alloc() come from; UINT32_MAX: none */
	uint64_t dealt;       /* pages taken since the last sweep */
	bool collided;        /* an address was registered again whose old page is still taken: a sweep may free it */
	uint64_t huge_used[RNIC_HUGES / 64];
	struct rn_list backings; /* struct rnic_backing: memory that must not be given back */
	struct rn_list imports;  /* struct rnic_import */
	struct rn_list blocks;   /* struct rnic_block */
	int fork_pipe[2];
};

/* Returns what rnic_mem_unlock() is given. Under the lock cancellation is off. */
static inline int rnic_mem_lock(struct rnic_mem *m)
{
	const int cancel = rnic_cancel_off();

	pthread_mutex_lock(&m->lock);
	return cancel;
}

static inline void rnic_mem_unlock(struct rnic_mem *m, int cancel)
{
	pthread_mutex_unlock(&m->lock);
	rnic_cancel_back(cancel);
}

/* ---- arena.c; the caller holds the lock ---- */

bool rnic_file_is(const struct rnic_file *f, const struct rnic_vma *v);
/* Finds and takes room for [va, va + len): *off. Returns how many bytes lie in one stretch there; 0: no room. */
uint64_t rnic_arena_place(struct rnic_mem *m, uintptr_t va, uint64_t len, uint64_t *off);
/* n consecutive free windows, which are not marked as used yet; UINT32_MAX: none. */
uint32_t rnic_arena_windows(struct rnic_mem *m, uint32_t n);
bool rnic_huge_place(struct rnic_mem *m, uint64_t len, uint64_t *off); /* with pages reserved */
void rnic_arena_mark(struct rnic_mem *m, uint64_t off, uint64_t len);
/* Whether a memory region names any part of the range. */
bool rnic_in_region(const struct rnic_mem *m, enum ipc_region region, uint64_t off, uint64_t len);
/* Frees the range and gives its pages back to the system; in a child of fork() they stay, as the parent uses them. */
void rnic_arena_release(struct rnic_mem *m, enum ipc_region region, uint64_t off, uint64_t len);
/* Frees what is neither mapped nor in a memory region; so everything that was taken must be mapped by now. */
void rnic_arena_sweep(struct rnic_mem *m);
/* How many taken pages make a sweep worthwhile: without, and with a sign that pages can be freed. */
#define RNIC_SWEEP_PAGES          (UINT64_C(256) << 20 >> 12)
#define RNIC_SWEEP_PAGES_COLLIDED (UINT64_C(4) << 20 >> 12)

/* ---- own.c ---- */

/* Makes the region one piece of the process's own memory. 0 or an errno, after a line on stderr. */
int rnic_own_pieces(const struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write, struct rnic_backing *b);

/* ---- remap.c ---- */

/*
 * Makes [addr, addr + len) shared and returns it as pieces (malloc'ed). 0 or an errno: EFAULT a hole or PROT_NONE,
 * EACCES write access to read-only memory, EOPNOTSUPP memory of a kind that cannot be moved, ENOMEM. On an error one
 * sentence has been printed. The lock is held.
 */
int rnic_mem_pieces(struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write, struct ipc_piece **pieces,
		    uint32_t *n);

/* The pieces belong to no memory region any more. The lock is held. */
void rnic_pieces_free(struct rnic_mem *m, struct ipc_piece *pieces, uint32_t n);

/* Whether the file is an older session's. */
bool rnic_file_retired(const struct rnic_vma *v);
/* The memory of this session or an older one whose arena file is behind the mapping: *fd. NULL: another file. */
const struct rnic_mem *rnic_moved(const struct rnic_mem *m, const struct rnic_vma *v, int *fd);
/* As rnic_moved(): the file's descriptor, or -1. */
int rnic_moved_fd(const struct rnic_mem *m, const struct rnic_vma *v);

/* ---- aside.c ---- */

/*
 * Runs fn(arg) on a stack of its own while the caller sleeps in the kernel, so that the caller's stack can be replaced.
 * 0, or an errno if fn could not be run.
 */
int rnic_run_aside(int (*fn)(void *arg), void *arg);

/* memcpy() of whole pages, even where a sanitizer forbids access to bytes in them. */
void rnic_copy_pages(void *to, const void *from, uint64_t len);

/* ---- import.c: memory that is already shared with other processes; the caller holds the lock ---- */

/* Imports [at, at + len) of the shared mapping v as a piece. 0 or an errno: see ipc_import; nothing is printed. */
int rnic_import_get(struct rnic_mem *m, const struct rnic_vma *v, uintptr_t at, uint64_t len, bool write,
		    struct ipc_piece *piece);
void rnic_import_put(struct rnic_mem *m, uint32_t region); /* call once for each piece */

/* ---- guard.c: keeps other threads from writing to a range while it is copied and replaced ---- */

struct rnic_guard {
	uintptr_t start;
	uint64_t len;
	int uffd; /* -1: guarded by protection and a signal handler */
	int prot;
};

int rnic_guard_open(void); /* returns a userfaultfd, or -1 */
/*
 * From begin to end the caller must write only to its own stack, which must not be in the range: otherwise it would
 * wait for itself. 0 or an errno. `moved` says that the range was replaced by a new mapping.
 */
int rnic_guard_begin(struct rnic_guard *g, const struct rnic_mem *m, const struct rnic_vma *v, uintptr_t start,
		     uint64_t len);
void rnic_guard_end(struct rnic_guard *g, bool moved);
int rnic_guard_install(void); /* installs the handler of SIGSEGV; 0 or an errno */

/*
 * The program calls sigaction() for SIGSEGV while the guard's handler is installed: the program's handler comes after
 * it. false: the guard's is not installed.
 */
bool rnic_guard_sigaction(const struct sigaction *act, struct sigaction *old);
int rnic_libc_sigaction(int signo, const struct sigaction *act, struct sigaction *old); /* calls libc's sigaction() */

/* ---- stack.c ---- */

/* Notes that a part of the calling thread's stack is being moved. */
void rnic_stack_moved(void);
/* Makes pages of [lo, hi) private again that were moved and are in no memory region (or in any); for a stack in use. */
void rnic_stack_back(const struct rnic_mem *m, uintptr_t lo, uintptr_t hi, bool any);

/* ---- advise.c: madvise() and mremap() of memory that may have been moved; no lock ---- */

/* MADV_DONTNEED or MADV_FREE: the range reads as zero afterwards. As madvise(). */
int rnic_mem_discard(const struct rnic_mem *m, uintptr_t addr, size_t len, int advice);
/*
 * mremap() that does not shrink. False: the kernel can do it. *addr: in: the place for MREMAP_FIXED; out: the result,
 * MAP_FAILED and errno on failure. Pages in memory regions stay in them; added pages are private.
 */
bool rnic_mem_resize(const struct rnic_mem *m, uintptr_t old, size_t old_len, size_t new_len, int flags, void **addr);

/* ---- fork.c ---- */

extern __thread bool rnic_fork_aside; /* this thread runs fork() on a stack of its own (hooks.c) */
/*
 * Handles a fault in a child that does not have all its copies yet: true: the access may be repeated. Called in a
 * signal handler.
 */
bool rnic_mem_fork_fault(uintptr_t addr);

#endif
