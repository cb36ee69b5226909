/* SPDX-License-Identifier: BSD-3-Clause */
#include "ordinary.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/types.h>

#define PAGE (UINT64_C(2) << 20)
#define MOST (UINT64_C(8) << 30) /* bytes of the pool that can be used: valgrind has too few addresses for the whole */

unsigned ordinary_signals;

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
	(void)flags;
	return __real_memfd_create(name, MFD_CLOEXEC);
}

void *__real_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t from);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t from);
void *__wrap_mmap64(void *at, size_t len, int prot, int flags, int fd, off_t from)
{
	if (len > MOST)
		len = (flags & MAP_FIXED) != 0 ? MOST : MOST + PAGE;
	return __real_mmap64(at, len, prot, flags, fd, from);
}

int __wrap_fallocate64(int fd, int mode, off_t at, off_t len);
int __wrap_fallocate64(int fd, int mode, off_t at, off_t len)
{
	(void)fd, (void)mode, (void)at, (void)len;
	if (ordinary_signals == 0)
		return 0;
	ordinary_signals--;
	errno = EINTR;
	return -1;
}
