/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The character device of a kernel's RDMA device, /dev/infiniband/NAME: some programs (UCX) use no device without it.
 * A question for ours, which have names as no kernel gives them, is answered with /dev/null. Exported without a version
 * and under libc's names, for which its headers may have macros.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rnic/common.h"

#define OURS "/dev/infiniband/" RNIC_DEV_PREFIX

int rnic_hook_stat(const char *path, struct stat *st) __asm__("stat");
int rnic_hook_stat64(const char *path, struct stat *st) __asm__("stat64"); /* one structure on 64-bit machines */
int rnic_hook_access(const char *path, int mode) __asm__("access");

static const char *seen(const char *path)
{
	return path != NULL && strncmp(path, OURS, sizeof(OURS) - 1) == 0 ? "/dev/null" : path;
}

int rnic_hook_stat(const char *path, struct stat *st) { return fstatat(AT_FDCWD, seen(path), st, 0); }
int rnic_hook_stat64(const char *path, struct stat *st) { return fstatat(AT_FDCWD, seen(path), st, 0); }
int rnic_hook_access(const char *path, int mode) { return faccessat(AT_FDCWD, seen(path), mode, 0); }
