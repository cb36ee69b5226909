/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernel knows of the process's mappings. Functions here write only to their arguments and their own stack. */
#ifndef RNIC_VMA_H
#define RNIC_VMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RNIC_VMA_NAME 80

struct rnic_vma {
	uintptr_t start, end;
	uint64_t off; /* bytes, in the file */
	uint64_t ino; /* 0: anonymous */
	uint32_t dev_major, dev_minor;
	int prot; /* PROT_* */
	bool shared;
	bool hugetlb;
	uint64_t page;            /* bytes */
	char name[RNIC_VMA_NAME]; /* path or "[heap]"; cut when longer */
};

/* Descriptors into /proc/self, of this process's address space only. */
struct rnic_procfs {
	int maps, pagemap;
	bool query; /* PROCMAP_QUERY works; else the text is read */
};

/* 0 or an errno: ENOENT where /proc is not mounted. */
int rnic_procfs_open(struct rnic_procfs *p);
void rnic_procfs_close(struct rnic_procfs *p);

/* Finds the mapping that covers addr, or the next one above it. 0, ENOENT: there is none, or another errno. */
int rnic_vma_at(const struct rnic_procfs *p, uintptr_t addr, struct rnic_vma *v);

/* As rnic_vma_at(), by reading /proc/self/maps: for kernels without the query. */
int rnic_vma_at_text(const struct rnic_procfs *p, uintptr_t addr, struct rnic_vma *v);

/* Bit i of present[]: whether the i-th page of 4 KiB from addr on has contents, in memory or in swap. 0 or an errno. */
int rnic_pages_present(const struct rnic_procfs *p, uintptr_t addr, size_t n, uint64_t *present);

#endif
