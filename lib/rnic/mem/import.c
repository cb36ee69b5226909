/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that is already shared with other processes: it cannot be moved, so the daemon maps its file too. One import
 * serves all memory regions of the same stretch of a file, and ends with the last of them. The caller holds
 * rnic_mem.lock.
 */
#include "rnic/mem/arena.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define GRAIN (UINT64_C(1) << 30) /* bytes of a file that are imported at a time, if the mapping is large enough */

struct rnic_import {
	struct rn_link link;  /* in rnic_mem.imports */
	struct rnic_vma file; /* the mapping, with its file and name */
	uint64_t off, len;    /* the part of the file */
	uint32_t region;
	uint32_t users; /* how many pieces of memory regions use the import */
	bool writable;
};

/* Compares the name too: a System V segment's number may be another file's inode. */
static bool same_file(const struct rnic_vma *a, const struct rnic_vma *b)
{
	return a->ino == b->ino && a->dev_major == b->dev_major && a->dev_minor == b->dev_minor &&
	       strcmp(a->name, b->name) == 0;
}

/* ---- the file as a descriptor: for a daemon that may not open it itself ---- */

static bool fd_is(int fd, const struct rnic_vma *v)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_ino == v->ino && major(st.st_dev) == v->dev_major &&
	       minor(st.st_dev) == v->dev_minor;
}

/*
 * Opens the file by its name, or by a descriptor that the program still has. -1: neither works. The caller closes it.
 */
static int find_fd(const struct rnic_vma *v, bool writable)
{
	int fd = v->name[0] == '/' ? openat(AT_FDCWD, v->name, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC) : -1;
	struct dirent **e = NULL;

	if (fd >= 0 && fd_is(fd, v))
		return fd;
	if (fd >= 0)
		close(fd);
	fd = -1;
	int n = strncmp(v->name, "/SYSV", 5) != 0 ? scandir("/proc/self/fd", &e, NULL, NULL) : 0;
	for (int i = 0; i < n; i++) {
		if (fd < 0 && e[i]->d_name[0] != '.' && fd_is(atoi(e[i]->d_name), v))
			fd = fcntl(atoi(e[i]->d_name), F_DUPFD_CLOEXEC, 0);
		free(e[i]);
	}
	free(e);
	return fd;
}

/* ---- asking the daemon ---- */

static int ask(struct rnic_mem *m, const struct rnic_vma *v, struct rnic_import *i)
{
	struct ipc_msg msg;
	int rc, fd = -1;

	for (int tries = 0;; tries++) {
		msg = (struct ipc_msg){ .type = IPC_IMPORT, .len = IPC_MSG_LEN(import) };
		msg.import = (struct ipc_import){
			.start = v->start, .end = v->end, .off = i->off, .len = i->len, .writable = i->writable
		};
		rc = rnic_call(m->s, &msg, IPC_MSG_LEN(handle), fd);
		if (fd >= 0)
			close(fd);
		if (rc != ENXIO || tries > 0)
			break;
		fd = find_fd(v, i->writable);
		if (fd < 0)
			break;
	}
	i->region = msg.handle.handle;
	return rc;
}

/*
 * Imports a large part of the mapping, so that its other regions use the same import; imports only the part that is
 * needed if the file is too short.
 */
static int import(struct rnic_mem *m, const struct rnic_vma *v, struct rnic_import *i, uint64_t off, uint64_t len)
{
	uint64_t lo = off & ~(GRAIN - 1), hi = (off + len + GRAIN - 1) & ~(GRAIN - 1);
	uint64_t end = v->off + (v->end - v->start);
	int rc;

	i->off = lo < v->off ? v->off : lo;
	i->len = (hi > end ? end : hi) - i->off;
	rc = ask(m, v, i);
	if (rc != EINVAL && rc != ENOMEM)
		return rc;
	i->off = off & ~(v->page - 1);
	i->len = ((off + len + v->page - 1) & ~(v->page - 1)) - i->off;
	return ask(m, v, i);
}

/* Finds an import that covers [off, off + len) of the file, with the rights needed. NULL: none. */
static struct rnic_import *find(const struct rnic_mem *m, const struct rnic_vma *v, uint64_t off, uint64_t len,
				bool write)
{
	rn_list_each(struct rnic_import, i, &m->imports, link) {
		if (same_file(&i->file, v) && (i->writable || !write) && off >= i->off &&
		    rn_in_range(off - i->off, len, i->len))
			return i;
	}
	return NULL;
}

int rnic_import_get(struct rnic_mem *m, const struct rnic_vma *v, uintptr_t at, uint64_t len, bool write,
		    struct ipc_piece *piece)
{
	uint64_t off = v->off + (at - v->start);
	struct rnic_import *i = find(m, v, off, len, write);
	int rc = 0;

	if (i == NULL) {
		i = calloc(1, sizeof(*i));
		if (i == NULL)
			return ENOMEM;
		i->file = *v;
		i->writable = (v->prot & PROT_WRITE) != 0;
		rc = import(m, v, i, off, len);
		if (rc == EACCES && !write && i->writable) {
			i->writable = false;
			rc = import(m, v, i, off, len);
		}
		if (rc != 0) {
			free(i);
			return rc;
		}
		rn_list_push_front(&m->imports, &i->link);
	}
	i->users++;
	*piece = (struct ipc_piece){ .region = i->region, .off = off - i->off, .len = len };
	return 0;
}

void rnic_import_put(struct rnic_mem *m, uint32_t region)
{
	rn_list_each(struct rnic_import, i, &m->imports, link) {
		if (i->region != region)
			continue;
		if (--i->users == 0) {
			rn_list_remove(&m->imports, &i->link);
			rnic_call_handle(m->s, IPC_FORGET, region);
			free(i);
		}
		return;
	}
}
