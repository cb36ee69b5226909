/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mmap(2), munmap(2) and madvise(2) for librnic's own mappings, as direct system calls. Libraries that cache
 * registrations (libfabric, UCX) intercept libc's functions to learn what a program unmaps. They hold a lock while they
 * register memory, so a call from inside a registration to a function that they intercept would deadlock.
 */
#ifndef RNIC_MAP_H
#define RNIC_MAP_H

#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline void *rnic_map(void *at, uint64_t len, int prot, int flags, int fd, uint64_t off)
{
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off); /* -1 is MAP_FAILED */
}

static inline int rnic_unmap(void *at, uint64_t len) { return (int)syscall(SYS_munmap, at, len); }

static inline int rnic_advise(void *at, uint64_t len, int advice) { return (int)syscall(SYS_madvise, at, len, advice); }

#endif
