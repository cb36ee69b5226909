/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The regions of ipc_shm.h as memory: made by the client, checked and mapped by the daemon. Both sides use these calls,
 * so that the daemon accepts what the client makes. All return 0 or a negative errno. Safe from any thread.
 */
#ifndef IPC_REGION_H
#define IPC_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc_shm.h"

#define IPC_HUGE_PAGE (UINT64_C(2) << 20) /* bytes: the page size of IPC_REGION_HUGE */

/*
 * Client: a sparse memfd of `size` bytes, close-on-exec, of ordinary pages or (IPC_REGION_HUGE) of 2 MiB hugetlb pages,
 * sealed: it can neither shrink nor grow, and no seal can be added. -ENOSYS, -ENODEV or -ENOMEM for IPC_REGION_HUGE:
 * the system has no hugetlb memory, and the client has no such region then. -EFBIG: the process may not have files of
 * this size (RLIMIT_FSIZE). The caller closes *fd.
 */
int ipc_region_create(enum ipc_region region, uint64_t size, int *fd);

/* What is known of a file of tmpfs or hugetlbfs. */
struct ipc_file {
	uint64_t size; /* bytes */
	uint64_t page; /* bytes of a page of the file */
	int seals;
	bool huge; /* of hugetlbfs */
};

/* Looks at a file; false: it is none of tmpfs or hugetlbfs. May block as long as another process that has the file open
 * keeps it locked (fallocate). */
bool ipc_file_look(int fd, struct ipc_file *f);

/*
 * Daemon: checks that the file is a memfd that fits `region`, of exactly `size` bytes, sealed against shrinking (so
 * that no access inside it can end in SIGBUS beyond the end of the file) and against further seals, and without a seal
 * that forbids writing. -EINVAL: size is 0, not a multiple of the page, or above the region's limit; -EPERM: wrong
 * seals; -EBADF: a file of another kind of pages; -ERANGE: the file has another size. A file with these seals keeps
 * them, and does not shrink any more, so the caller may have looked at it earlier.
 */
int ipc_region_check(enum ipc_region region, const struct ipc_file *f, uint64_t size);

/* Maps the whole region shared, without reserving memory for it. The caller unmaps `size` bytes. */
int ipc_region_map(int fd, uint64_t size, uint8_t **base);

/*
 * Makes all pages of [p, p + len) present now. -ENOMEM: there is no memory for them. The pages are populated by
 * reading, since the kernel then populates several at a time; a shared page is mapped with all rights of its mapping
 * anyway.
 */
int ipc_region_prefault(uint8_t *p, uint64_t len);

/* The largest size of the region: IPC_QUEUES_SIZE, IPC_ARENA_SIZE or IPC_HUGE_SIZE. */
uint64_t ipc_region_limit(enum ipc_region region);

#endif
