/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files and paths that libfabric's efa provider looks at beside verbs and efadv, as it expects them for our devices of
 * `personality = efa`:
 *
 *   realpath of /sys/class/infiniband/DEVICE/device         a path whose last part has the form of a PCI address
 *   realpath of /sys/class/infiniband/DEVICE/device/driver  a path whose last part is the driver's name
 *   /sys/class/infiniband_verbs/abi_version                 a file that it reads
 *
 * What really exists is never hidden. The functions are exported without a version and under libc's names. librnic
 * opens its own files by openat(), which is not intercepted.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rnic/verbs/verbs.h"

char *rnic_hook_realpath(const char *path, char *resolved) __asm__("realpath");
char *rnic_hook_realpath_chk(const char *path, char *resolved, size_t size) __asm__("__realpath_chk");
int rnic_hook_open(const char *path, int flags, ...) __asm__("open");
int rnic_hook_open64(const char *path, int flags, ...) __asm__("open64");

#define DEVICES "/sys/class/infiniband/"

/* No host bridge has this number, so no real device has such a name. */
#define EFA_PCI     "/sys/devices/pciefa0:00/efa0:00:%02x.0"
#define EFA_DRIVER  "/sys/bus/pci/drivers/efa"
#define ABI_VERSION "/sys/class/infiniband_verbs/abi_version"

/* The index of the device with this name (NULL: any name) and `personality = efa`. False: there is none. */
static bool efa_find(const char *name, size_t len, uint32_t *index)
{
	struct rnic_session *s = rnic_session_get();
	uint32_t n = 0;
	struct rnic_dev **devs = s != NULL ? rnic_devices(s, &n) : NULL;
	bool found = false;

	for (uint32_t i = 0; devs != NULL && i < n && !found; i++) {
		const char *is = devs[i]->info.name;
		found = devs[i]->info.efa && (name == NULL || (strlen(is) == len && strncmp(is, name, len) == 0));
		*index = devs[i]->index;
	}
	free(devs);
	return found;
}

/* Writes the path's target to buf; false: the path is not one of such a device. */
static bool efa_leads(const char *path, char buf[PATH_MAX])
{
	uint32_t index;

	if (path == NULL || strncmp(path, DEVICES, sizeof(DEVICES) - 1) != 0)
		return false;
	const char *name = path + sizeof(DEVICES) - 1, *rest = strchr(name, '/');
	if (rest == NULL || (strcmp(rest, "/device") != 0 && strcmp(rest, "/device/driver") != 0) ||
	    !efa_find(name, (size_t)(rest - name), &index))
		return false;
	if (strcmp(rest, "/device") == 0)
		snprintf(buf, PATH_MAX, EFA_PCI, index);
	else
		snprintf(buf, PATH_MAX, EFA_DRIVER);
	return true;
}

char *rnic_hook_realpath(const char *path, char *resolved)
{
	static rnic_fn kept;
	rnic_fn f = __atomic_load_n(&kept, __ATOMIC_RELAXED);
	char buf[PATH_MAX];

	if (f == NULL) {
		f = rnic_stock("realpath");
		__atomic_store_n(&kept, f, __ATOMIC_RELAXED);
	}
	char *real = ((char *(*)(const char *, char *))f)(path, resolved);
	const int err = errno;

	if (rn_likely(real != NULL || err != ENOENT))
		return real;
	const bool ours = efa_leads(path, buf);
	errno = err;
	if (!ours)
		return NULL;
	return resolved != NULL ? strcpy(resolved, buf) : strdup(buf);
}

char *rnic_hook_realpath_chk(const char *path, char *resolved, size_t size)
{
	if (size < PATH_MAX)
		abort(); /* as libc does: the program itself has a bug */
	return rnic_hook_realpath(path, resolved);
}

/* Opens a file with the number of the verbs ABI of today's kernels. -1: not possible. */
static int abi_open(int flags)
{
	static const char text[] = "6\n";
	uint32_t index;

	if ((flags & O_ACCMODE) != O_RDONLY || !efa_find(NULL, 0, &index))
		return -1;
	int fd = memfd_create("abi_version", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);
	if (fd >= 0 &&
	    (write(fd, text, sizeof(text) - 1) != (ssize_t)sizeof(text) - 1 || lseek(fd, 0, SEEK_SET) != 0)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int open_as(const char *path, int flags, mode_t mode)
{
	int fd = openat(AT_FDCWD, path, flags, mode);

	if (rn_likely(fd >= 0 || errno != ENOENT || path == NULL || strcmp(path, ABI_VERSION) != 0))
		return fd;
	fd = abi_open(flags);
	if (fd < 0)
		errno = ENOENT;
	return fd;
}

/* The flags say whether there is a third argument. */
int rnic_hook_open(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_as(path, flags, mode);
}

int rnic_hook_open64(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	const mode_t mode = (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(args, mode_t) : 0;
	va_end(args);
	return open_as(path, flags | O_LARGEFILE, mode);
}
