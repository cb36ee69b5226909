/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/ipc_region.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PAGE          UINT64_C(4096)
#define SEALS_REFUSED (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)

uint64_t ipc_region_limit(enum ipc_region region)
{
	switch (region) {
	case IPC_REGION_QUEUES: return IPC_QUEUES_SIZE;
	case IPC_REGION_ARENA: return IPC_ARENA_SIZE;
	case IPC_REGION_HUGE: return IPC_HUGE_SIZE;
	case IPC_REGIONS: break;
	}
	return 0;
}

static int size_check(enum ipc_region region, uint64_t size)
{
	uint64_t page = region == IPC_REGION_HUGE ? IPC_HUGE_PAGE : PAGE;

	return size == 0 || (size & (page - 1)) != 0 || size > ipc_region_limit(region) ? -EINVAL : 0;
}

int ipc_region_create(enum ipc_region region, uint64_t size, int *fd)
{
	static const char *const name[IPC_REGIONS] = { "rnic-queues", "rnic-arena", "rnic-huge" };
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int rc = size_check(region, size);
	struct rlimit most;

	if (rc != 0)
		return rc;
	if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < size) /* ftruncate() would raise SIGXFSZ */
		return -EFBIG;
	if (region == IPC_REGION_HUGE)
		flags |= MFD_HUGETLB | MFD_HUGE_2MB;
	int f = memfd_create(name[region], flags);
	if (f < 0)
		return -errno;
	if (ftruncate(f, (off_t)size) != 0 || fcntl(f, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		rc = -errno;
		close(f);
		return rc;
	}
	*fd = f;
	return 0;
}

bool ipc_file_look(int fd, struct ipc_file *f)
{
	const int seals = fcntl(fd, F_GET_SEALS); /* only files of tmpfs and hugetlbfs have seals */
	struct statfs fs;
	struct stat st;

	if (seals < 0 || fstatfs(fd, &fs) != 0 || fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return false;
	/* st_blksize of a tmpfs may be a preferred size larger than a page. */
	*f = (struct ipc_file){ .size = (uint64_t)st.st_size,
				.page = (uint64_t)fs.f_bsize,
				.seals = seals,
				.huge = (uint64_t)fs.f_type == HUGETLBFS_MAGIC };
	return true;
}

int ipc_region_check(enum ipc_region region, const struct ipc_file *f, uint64_t size)
{
	int rc = size_check(region, size);

	if (rc != 0)
		return rc;
	if ((region == IPC_REGION_HUGE) != f->huge || (f->huge && f->page != IPC_HUGE_PAGE))
		return -EBADF;
	if ((f->seals & (F_SEAL_SHRINK | F_SEAL_SEAL)) != (F_SEAL_SHRINK | F_SEAL_SEAL) ||
	    (f->seals & SEALS_REFUSED) != 0)
		return -EPERM;
	return f->size == size ? 0 : -ERANGE;
}

int ipc_region_map(int fd, uint64_t size, uint8_t **base)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*base = p;
	return 0;
}

int ipc_region_prefault(uint8_t *p, uint64_t len)
{
	uintptr_t first = (uintptr_t)p & ~(uintptr_t)(PAGE - 1);
	uintptr_t end = ((uintptr_t)p + len + PAGE - 1) & ~(uintptr_t)(PAGE - 1);

	if (len == 0)
		return 0;
	while (madvise((void *)first, end - first, MADV_POPULATE_READ) != 0) {
		if (errno == EINTR || errno == EAGAIN)
			continue;
		/* EFAULT stands for a page whose access would raise SIGBUS: no free hugetlb page. */
		return errno == EFAULT ? -ENOMEM : -errno;
	}
	return 0;
}
