/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's registered memory: how it is made, and what memory regions ask of it. */
#include "rnic/mem/arena.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static int file_init(struct rnic_file *f, int fd)
{
	struct stat st;

	f->fd = fd;
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) != 0)
		return errno;
	f->ino = st.st_ino;
	f->dev_major = major(st.st_dev);
	f->dev_minor = minor(st.st_dev);
	return 0;
}

uint64_t rnic_huge_free(void)
{
	FILE *f = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "re");
	unsigned long n = 0;

	if (f == NULL)
		return 0;
	if (fscanf(f, "%lu", &n) != 1)
		n = 0;
	fclose(f);
	return n;
}

struct rnic_mem *rnic_mem_create(struct rnic_session *s, int arena_fd, int huge_fd)
{
	struct rnic_mem *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	pthread_mutex_init(&m->lock, NULL);
	m->s = s;
	m->alloc_win = UINT32_MAX;
	m->fork_pipe[0] = m->fork_pipe[1] = -1;
	m->file[IPC_REGION_QUEUES].fd = -1;
	m->win = calloc(RNIC_WINDOWS, sizeof(*m->win));
	m->hash = calloc(RNIC_WINDOWS, sizeof(*m->hash));
	if (m->win == NULL || m->hash == NULL || file_init(&m->file[IPC_REGION_ARENA], arena_fd) != 0 ||
	    file_init(&m->file[IPC_REGION_HUGE], huge_fd) != 0)
		goto fail;
	if (rnic_procfs_open(&m->proc) != 0) {
		rnic_complain("rnic: memory registration needs /proc: mount it");
		goto fail;
	}
	m->uffd = rnic_guard_open();
	return m;
fail:
	free(m->win);
	free(m->hash);
	free(m);
	return NULL;
}

void rnic_mem_destroy(struct rnic_mem *m)
{
	if (m == NULL)
		return;
	rnic_procfs_close(&m->proc);
	if (m->uffd >= 0)
		close(m->uffd);
	pthread_mutex_destroy(&m->lock);
	free(m->win);
	free(m->hash);
	free(m);
}

/* ---- memory regions ---- */

/* The backing is listed from the moment its pages are placed, so that they count as used. */
int rnic_mem_back(struct rnic_mem *m, uintptr_t addr, uint64_t len, bool write, struct rnic_backing *b)
{
	int rc;

	if (m->own)
		return rnic_own_pieces(m, addr, len, write, b);
	const int cancel = rnic_mem_lock(m);
	rc = rnic_mem_pieces(m, addr, len, write, &b->piece, &b->n);
	if (rc == 0)
		rn_list_push_front(&m->backings, &b->link);
	rnic_mem_unlock(m, cancel);
	return rc;
}

void rnic_mem_unback(struct rnic_mem *m, struct rnic_backing *b)
{
	if (m->own) {
		free(b->piece);
		return;
	}
	const int cancel = rnic_mem_lock(m);
	rn_list_remove(&m->backings, &b->link);
	rnic_pieces_free(m, b->piece, b->n);
	rnic_mem_unlock(m, cancel);
}

void rnic_mem_back_swap(struct rnic_mem *m, struct rnic_backing *b, struct rnic_backing *by)
{
	const int cancel = rnic_mem_lock(m);
	if (m->own) {
		free(b->piece);
	} else {
		rnic_pieces_free(m, b->piece, b->n);
		rn_list_remove(&m->backings, &by->link);
	}
	b->piece = by->piece;
	b->n = by->n;
	by->piece = NULL;
	by->n = 0;
	rnic_mem_unlock(m, cancel);
}
