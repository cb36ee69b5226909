/* SPDX-License-Identifier: BSD-3-Clause */
#include "rnic/mem/vma.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE     UINT64_C(4096)
#define HUGE     UINT64_C(2097152)
#define TEXT_BUF 4096

/* PROCMAP_QUERY of linux/fs.h (kernel 6.11), which older headers do not have. */
struct procmap_query_abi {
	uint64_t size, query_flags, query_addr;
	uint64_t vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor;
	uint32_t vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#define PROCMAP_QUERY_ABI _IOWR('f', 17, struct procmap_query_abi)
#define QUERY_READABLE    0x01
#define QUERY_WRITABLE    0x02
#define QUERY_EXECUTABLE  0x04
#define QUERY_SHARED      0x08
#define QUERY_OR_NEXT     0x10

/* pagemap: bit 63: in memory, bit 62: in swap. */
#define PAGEMAP_CONTENTS (UINT64_C(3) << 62)

int rnic_procfs_open(struct rnic_procfs *p)
{
	struct rnic_vma v;

	p->maps = openat(AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	p->pagemap = openat(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (p->maps < 0 || p->pagemap < 0) {
		int rc = errno;
		rnic_procfs_close(p);
		return rc;
	}
	p->query = true;
	p->query = rnic_vma_at(p, 0, &v) == 0;
	return 0;
}

void rnic_procfs_close(struct rnic_procfs *p)
{
	if (p->maps >= 0)
		close(p->maps);
	if (p->pagemap >= 0)
		close(p->pagemap);
	p->maps = p->pagemap = -1;
}

int rnic_vma_at(const struct rnic_procfs *p, uintptr_t addr, struct rnic_vma *v)
{
	struct procmap_query_abi q = { .size = sizeof(q), .query_flags = QUERY_OR_NEXT, .query_addr = addr };

	if (!p->query)
		return rnic_vma_at_text(p, addr, v);
	memset(v, 0, sizeof(*v));
	q.vma_name_addr = (uintptr_t)v->name;
	q.vma_name_size = sizeof(v->name);
	if (ioctl(p->maps, PROCMAP_QUERY_ABI, &q) != 0) {
		if (errno != ENAMETOOLONG)
			return errno;
		q.vma_name_addr = 0;
		q.vma_name_size = 0;
		if (ioctl(p->maps, PROCMAP_QUERY_ABI, &q) != 0)
			return errno;
		strcpy(v->name, "(a long path)");
	}
	v->start = q.vma_start;
	v->end = q.vma_end;
	v->off = q.vma_offset;
	v->ino = q.inode;
	v->dev_major = q.dev_major;
	v->dev_minor = q.dev_minor;
	v->prot = ((q.vma_flags & QUERY_READABLE) != 0 ? PROT_READ : 0) |
		  ((q.vma_flags & QUERY_WRITABLE) != 0 ? PROT_WRITE : 0) |
		  ((q.vma_flags & QUERY_EXECUTABLE) != 0 ? PROT_EXEC : 0);
	v->shared = (q.vma_flags & QUERY_SHARED) != 0;
	v->page = q.vma_page_size;
	v->hugetlb = v->page > PAGE;
	return 0;
}

/* "start-end rwxp offset major:minor inode   name" */
static bool parse_line(char *line, struct rnic_vma *v)
{
	char perm[5];
	unsigned long start, end, off, ino;
	unsigned major, minor;
	int name = 0;

	if (sscanf(line, "%lx-%lx %4s %lx %x:%x %lu %n", &start, &end, perm, &off, &major, &minor, &ino, &name) < 7)
		return false;
	*v = (struct rnic_vma){ .start = start, .end = end, .off = off, .ino = ino };
	v->dev_major = major;
	v->dev_minor = minor;
	v->prot = (perm[0] == 'r' ? PROT_READ : 0) | (perm[1] == 'w' ? PROT_WRITE : 0) |
		  (perm[2] == 'x' ? PROT_EXEC : 0);
	v->shared = perm[3] == 's';
	snprintf(v->name, sizeof(v->name), "%s", line + name);
	v->hugetlb = strncmp(v->name, "/anon_hugepage", 14) == 0 || strncmp(v->name, "/dev/hugepages", 14) == 0 ||
		     strncmp(v->name, "/memfd:rnic-huge", 16) == 0;
	v->page = v->hugetlb ? HUGE : PAGE;
	return true;
}

/* As rnic_vma_at_text(), in the text of one descriptor. A line is longer than the buffer only because of its path. */
static int text_find(int maps, uintptr_t addr, struct rnic_vma *v)
{
	char buf[TEXT_BUF + 1];
	size_t have = 0;
	off_t at = 0;
	bool inside = false; /* the buffer begins inside a line whose beginning has been parsed */

	for (;;) {
		ssize_t n = syscall(SYS_pread64, maps, buf + have, TEXT_BUF - have, at);
		if (n < 0)
			return errno;
		if (n == 0)
			return ENOENT;
		at += n;
		have += (size_t)n;
		char *line = buf, *nl;
		while ((nl = memchr(line, '\n', have - (size_t)(line - buf))) != NULL) {
			*nl = '\0';
			if (!inside && parse_line(line, v) && v->end > addr)
				return 0;
			inside = false;
			line = nl + 1;
		}
		have -= (size_t)(line - buf);
		memmove(buf, line, have);
		if (have == TEXT_BUF) {
			buf[have] = '\0';
			if (!inside && parse_line(buf, v) && v->end > addr)
				return 0;
			inside = true;
			have = 0;
		}
	}
}

/*
 * A descriptor keeps its place in the map between two reads. A read at another offset makes the kernel walk the map
 * again up to that offset in bytes, and another thread's mappings move the lines meanwhile. So each lookup has a
 * descriptor of its own. The shared one is read only if no other can be opened. Direct system calls, because openat()
 * and close() of libc are cancellation points.
 */
int rnic_vma_at_text(const struct rnic_procfs *p, uintptr_t addr, struct rnic_vma *v)
{
	const int err = errno;
	const int own = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	const int rc = text_find(own >= 0 ? own : p->maps, addr, v);

	if (own >= 0)
		syscall(SYS_close, own);
	errno = err;
	return rc;
}

int rnic_pages_present(const struct rnic_procfs *p, uintptr_t addr, size_t n, uint64_t *present)
{
	uint64_t entry[512];

	memset(present, 0, (n + 63) / 64 * sizeof(*present));
	for (size_t done = 0; done < n;) {
		size_t want = n - done < 512 ? n - done : 512;
		ssize_t got = syscall(SYS_pread64, p->pagemap, entry, want * sizeof(entry[0]),
				      (off_t)((addr / PAGE + done) * sizeof(entry[0])));
		if (got <= 0)
			return got < 0 ? errno : EFAULT;
		for (size_t i = 0; i < (size_t)got / sizeof(entry[0]); i++) {
			if ((entry[i] & PAGEMAP_CONTENTS) != 0)
				present[(done + i) / 64] |= UINT64_C(1) << ((done + i) % 64);
		}
		done += (size_t)got / sizeof(entry[0]);
	}
	return 0;
}
