/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory as the daemon sees it: the memory that a client shares, and the regions in that memory. */
#include "fake_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ipc/ipc_region.h"

/* The descriptor of a region, and the offset in its file at which the region begins. */
static int region_fd(const struct fake_client *c, uint32_t region, uint64_t *off, uint64_t *len)
{
	const struct fake_import *i = &c->import[region % RN_ARRAY_LEN(c->import)];

	*off = 0;
	*len = IPC_ARENA_SIZE;
	if (region == IPC_REGION_ARENA || region == IPC_REGION_HUGE)
		return c->fd[region];
	if (region < IPC_REGIONS || region >= RN_ARRAY_LEN(c->import) || !i->used)
		return -1;
	*off = i->off;
	*len = i->len;
	return i->fd;
}

/* The client is this process. */
int fake_import(struct fake *f, struct fake_client *c, struct ipc_msg *m, const int *fds, unsigned nfds)
{
	struct ipc_import a = m->import;
	char path[80];
	uint32_t h;
	int fd = nfds > 0 ? fds[0] : -1;

	for (h = IPC_REGIONS; h < RN_ARRAY_LEN(c->import) && c->import[h].used; h++)
		;
	if (h == RN_ARRAY_LEN(c->import))
		return ENOMEM;
	if (nfds == 0 && f->blind)
		return ENXIO;
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)a.start, (unsigned long)a.end);
	if (nfds == 0)
		fd = open(path, (a.writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (fd < 0)
		return errno == EPERM ? ENXIO : errno;
	c->import[h] = (struct fake_import){ true, fd, a.off, a.len, a.writable };
	return fake_answer_handle(m, h);
}

int fake_forget(struct fake_client *c, struct ipc_msg *m)
{
	uint32_t h = m->handle.handle;

	if (h < IPC_REGIONS || !VALID(c->import, h))
		return EINVAL;
	close(c->import[h].fd);
	c->import[h].used = false;
	return fake_answer_empty(m);
}

int fake_reg_mr(struct fake_client *c, struct ipc_msg *m)
{
	struct ipc_reg_mr *a = &m->reg_mr;
	uint64_t sum = 0;
	uint32_t h = 0;

	if (a->pd == 0 || !rn_in_range(a->pieces_off, a->npieces * sizeof(struct ipc_piece), IPC_QUEUES_SIZE) ||
	    a->npieces == 0)
		return EINVAL;
	for (uint32_t i = 1; i < FAKE_MAX && h == 0; i++)
		h = c->mr[i].used ? 0 : i;
	if (h == 0)
		return ENOMEM;
	struct fake_mr *mr = &c->mr[h];
	mr->pieces = malloc(a->npieces * sizeof(struct ipc_piece));
	memcpy(mr->pieces, c->queues + a->pieces_off, a->npieces * sizeof(struct ipc_piece));
	for (uint32_t i = 0; i < a->npieces; i++) {
		const struct ipc_piece *p = &mr->pieces[i];
		uint64_t off, len;
		if (region_fd(c, p->region, &off, &len) < 0 || !rn_in_range(p->off, p->len, len))
			return EINVAL;
		sum += p->len;
	}
	if (sum != a->len)
		return EINVAL;
	mr->used = true;
	mr->npieces = a->npieces;
	mr->iova = a->iova;
	mr->len = a->len;
	mr->access = a->access;
	mr->stag = h << 8 | 0x5a;
	m->reg_mr_ok = (struct ipc_reg_mr_ok){ .handle = h, .stag = mr->stag };
	m->len = IPC_MSG_LEN(reg_mr_ok);
	return 0;
}

static bool mr_io(struct fake_client *c, uint32_t stag, uint64_t to, void *buf, uint64_t len, bool write_it)
{
	uint32_t h = stag >> 8;
	uint8_t *p = buf;

	if (h == 0 || h >= FAKE_MAX || !c->mr[h].used || c->mr[h].stag != stag || to < c->mr[h].iova ||
	    !rn_in_range(to - c->mr[h].iova, len, c->mr[h].len))
		return false;
	uint64_t off = to - c->mr[h].iova;
	for (uint32_t i = 0; i < c->mr[h].npieces && len > 0; i++) {
		const struct ipc_piece *pc = &c->mr[h].pieces[i];
		if (off >= pc->len) {
			off -= pc->len;
			continue;
		}
		uint64_t n = rn_min_u64(len, pc->len - off), start, room;
		int fd = region_fd(c, pc->region, &start, &room);
		uint64_t at = start + pc->off + off;
		uint64_t skew = at % IPC_HUGE_PAGE, span = (skew + n + IPC_HUGE_PAGE - 1) & ~(IPC_HUGE_PAGE - 1);
		uint8_t *map = mmap(NULL, span, PROT_READ | (write_it ? PROT_WRITE : 0), MAP_SHARED, fd,
				    (off_t)(at - skew));
		if (map == MAP_FAILED)
			return false;
		if (write_it)
			memcpy(map + skew, p, n);
		else
			memcpy(p, map + skew, n);
		munmap(map, span);
		p += n;
		len -= n;
		off = 0;
	}
	return len == 0;
}

bool fake_mr_read(struct fake_client *c, uint32_t stag, uint64_t to, void *buf, uint64_t len)
{
	return mr_io(c, stag, to, buf, len, false);
}

bool fake_mr_write(struct fake_client *c, uint32_t stag, uint64_t to, const void *buf, uint64_t len)
{
	return mr_io(c, stag, to, (void *)(uintptr_t)buf, len, true);
}

/* ---- refusals ---- */

void fake_refuse(struct fake *f, int errno_value, const char *text)
{
	pthread_mutex_lock(&f->lock);
	f->refuse = errno_value;
	f->refuse_type = 0;
	f->refuse_after = 0;
	snprintf(f->text, sizeof(f->text), "%s", text);
	pthread_mutex_unlock(&f->lock);
}

void fake_refuse_later(struct fake *f, int errno_value, uint16_t type, uint32_t after)
{
	pthread_mutex_lock(&f->lock);
	f->refuse = errno_value;
	f->refuse_type = type;
	f->refuse_after = after;
	pthread_mutex_unlock(&f->lock);
}
