/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory, as the rooms above use it: the memory behind memory regions, blocks for the program, fork.
 * arena.h, which is private to this room, says how it is done.
 */
#ifndef RNIC_MEM_H
#define RNIC_MEM_H

#include "rnic/common.h"

/* The memory behind a memory region: its pieces in files that the daemon has mapped. Zeroed: none. */
struct rnic_backing {
	struct rn_link link; /* in the list of memory that must not be given back */
	uint32_t n;
	struct ipc_piece *piece; /* [n], malloc'ed */
};

/*
 * Makes a session's memory. The descriptors stay the session's; -1: absent. NULL: no memory, or one line on stderr has
 * given another reason.
 */
struct rnic_mem *rnic_mem_create(struct rnic_session *s, int arena_fd, int huge_fd);
/*
 * As rnic_mem_create(), when the daemon's part runs in this process: memory is registered in place, and nothing is
 * moved.
 */
struct rnic_mem *rnic_mem_create_own(struct rnic_session *s);
/* The session could not be made: nothing has been registered. NULL is allowed. */
void rnic_mem_destroy(struct rnic_mem *m);
/* The session's daemon is gone: memory in its files may from now on be moved into another session's files. */
void rnic_mem_retire(struct rnic_mem *m);
/*
 * m is the last session's memory from now on, even when that session has died, since memory stays where it was moved
 * to.
 */
void rnic_mem_publish(struct rnic_mem *m);
/*
 * The last session's memory; NULL: there was no session. Any thread, without a lock: only for what never changes in it.
 */
struct rnic_mem *rnic_mem_last(void);
uint64_t rnic_huge_free(void); /* free 2 MiB pages of the system */

/* ---- memory regions; each takes the lock ---- */

/* Makes [addr, addr + len) shared. 0, or an errno as from rnic_mem_pieces() in arena.h; b is zeroed. */
int rnic_mem_back(struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write, struct rnic_backing *b);
/* The memory region is gone. */
void rnic_mem_unback(struct rnic_mem *m, struct rnic_backing *b);
/* Moves the backing from `by` to b; `by` becomes empty. */
void rnic_mem_back_swap(struct rnic_mem *m, struct rnic_backing *b, struct rnic_backing *by);

/*
 * Calls `hook` for faults that this room does not handle. The hook returns whether the access may be repeated. Runs in
 * a signal handler.
 */
void rnic_mem_on_fault(bool (*hook)(uintptr_t addr));

/* ---- blocks that lie in the arena from the start ---- */

void *rnic_mem_alloc(struct rnic_mem *m, size_t size); /* NULL and errno */
bool rnic_mem_free(struct rnic_mem *m, void *p);       /* false: it is not a block of this session */

/* ---- around fork(), called by the session ---- */

void rnic_mem_fork_prepare(struct rnic_mem *m);
void rnic_mem_fork_parent(struct rnic_mem *m);
void rnic_mem_fork_child(struct rnic_mem *m);
/* m is a session's that a child of fork() has inherited: its blocks are shared with the parent, which goes on. */
void rnic_mem_inherited(struct rnic_mem *m);

#endif
