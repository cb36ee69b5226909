/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registered memory when the daemon's part runs in this process (ipc_own.h): each region is one piece of the process's
 * own addresses. There is no arena and no lock. Registration only checks that the addresses are mapped, so that a wrong
 * address is an errno of the registration and not a fault in the worker.
 */
#include "rnic/mem/arena.h"

#include <sys/mman.h>

struct rnic_mem *rnic_mem_create_own(struct rnic_session *s)
{
	struct rnic_mem *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->s = s;
	m->own = true;
	m->uffd = m->fork_pipe[0] = m->fork_pipe[1] = -1;
	for (unsigned i = 0; i < IPC_REGIONS; i++)
		m->file[i].fd = -1;
	if (rnic_procfs_open(&m->proc) == 0)
		return m;
	rnic_complain("rnic: memory registration needs /proc: mount it");
	free(m);
	return NULL;
}

static int own_check(const struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write)
{
	const int need = PROT_READ | (write ? PROT_WRITE : 0);

	for (uintptr_t at = addr; at - addr < len;) {
		struct rnic_vma v;
		int rc = rnic_vma_at(&m->proc, at, &v);
		if (rc == ENOENT || (rc == 0 && (v.start > at || (v.prot & PROT_READ) == 0))) {
			rnic_complain("rnic: cannot register %#lx-%#lx: nothing that can be read is mapped at %#lx",
				      (unsigned long)addr, (unsigned long)(addr + len), (unsigned long)at);
			return EFAULT;
		}
		if (rc != 0)
			return rc;
		if ((v.prot & need) != need) {
			rnic_complain("rnic: cannot register %#lx-%#lx for writing: the memory at %#lx is read-only; "
				      "register it without IBV_ACCESS_LOCAL_WRITE",
				      (unsigned long)addr, (unsigned long)(addr + len), (unsigned long)at);
			return EACCES;
		}
		at = v.end;
	}
	return 0;
}

int rnic_own_pieces(const struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write, struct rnic_backing *b)
{
	int rc = own_check(m, addr, len, write);

	if (rc != 0)
		return rc;
	b->piece = calloc(1, sizeof(*b->piece));
	if (b->piece == NULL)
		return ENOMEM;
	*b->piece = (struct ipc_piece){ .region = IPC_REGION_OWN, .off = addr, .len = len };
	b->n = 1;
	return 0;
}
