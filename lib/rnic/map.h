/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Mappings that librnic makes, ends and advises for itself: as mmap(2), munmap(2) and madvise(2), past any library that
 * stands before libc's functions. Libraries that remember registrations (libfabric, UCX) do, to hear what a program
 * unmaps; they hold a lock while they register, and would wait for it themselves were they told from inside a
 * registration.
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
