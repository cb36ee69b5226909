/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/client_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define CAPS 2 /* words of a capability set, version 3 */

struct client_proc client_proc_open(pid_t pid, uid_t uid, gid_t gid)
{
	struct client_proc p = { .dir = -1, .uid = uid, .gid = gid };
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	if (pid > 0)
		p.dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p.dir >= 0 && (fstat(p.dir, &st) != 0 || st.st_uid != uid)) {
		close(p.dir);
		p.dir = -1;
	}
	return p;
}

/* ---- this thread as the client's user ---- */

struct rights { struct __user_cap_data_struct caps[CAPS]; bool changed; };

/*
 * Of the capabilities only the one that map_files itself asks for stays. A client that is root keeps root's: it could do
 * the same by itself.
 */
static bool rights_take(const struct client_proc *p, struct rights *old)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[CAPS];

	old->changed = p->uid != geteuid();
	if (!old->changed)
		return true;
	if (syscall(SYS_capget, &h, old->caps) != 0)
		return false;
	memcpy(now, old->caps, sizeof(now));
	now[0].effective &= 1u << CAP_SYS_ADMIN;
	now[1].effective &= 1u << (CAP_CHECKPOINT_RESTORE % 32);
	setfsgid(p->gid);
	setfsuid(p->uid);
	/* These two have no errors of their own: asked again, they tell. */
	return syscall(SYS_capset, &h, now) == 0 && (uid_t)setfsuid((uid_t)-1) == p->uid &&
	       (gid_t)setfsgid((gid_t)-1) == p->gid;
}

static void rights_back(const struct rights *old)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };

	if (!old->changed)
		return;
	syscall(SYS_capset, &h, old->caps);
	setfsuid(geteuid());
	setfsgid(getegid());
	syscall(SYS_capset, &h, old->caps); /* what setfsuid() did to them */
}

/* ---- which files ---- */

bool client_maps_is_memory(int fd) { return fcntl(fd, F_GET_SEALS) >= 0; /* files of tmpfs and hugetlbfs have seals */ }

static bool dev_of_memfd(unsigned flags, dev_t dev)
{
	int fd = memfd_create("rnicd-probe", MFD_CLOEXEC | flags);
	struct stat st;
	bool same = fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == dev;

	if (fd >= 0)
		close(fd);
	return same;
}

/* A line of mountinfo: "36 35 0:31 / /dev/shm rw,nosuid - tmpfs tmpfs rw" */
static bool dev_of_mount(const struct client_proc *p, dev_t dev)
{
	int fd = openat(p->dir, "mountinfo", O_RDONLY | O_CLOEXEC);
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	char line[4096], type[32];
	unsigned maj, min;
	bool found = false;

	if (f == NULL) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && fgets(line, sizeof(line), f) != NULL) {
		const char *dash = strstr(line, " - ");
		found = dash != NULL && sscanf(line, "%*u %*u %u:%u", &maj, &min) == 2 && makedev(maj, min) == dev &&
			sscanf(dash, " - %31s", type) == 1 &&
			(strcmp(type, "tmpfs") == 0 || strcmp(type, "hugetlbfs") == 0);
	}
	fclose(f);
	return found;
}

/* Before it is opened: an O_PATH descriptor and attributes that the kernel has at hand involve no server. */
static bool path_is_memory(const struct client_proc *p, int path)
{
	struct statx x;

	if (statx(path, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &x) != 0 || !S_ISREG(x.stx_mode))
		return false;
	dev_t dev = makedev(x.stx_dev_major, x.stx_dev_minor);
	return dev_of_memfd(0, dev) || dev_of_memfd(MFD_HUGETLB | MFD_HUGE_2MB, dev) ||
	       dev_of_memfd(MFD_HUGETLB | MFD_HUGE_1GB, dev) || dev_of_mount(p, dev);
}

/* The magic link is followed first, so that what was looked at is what is opened. */
static int open_as_client(const struct client_proc *p, const char *name, bool writable)
{
	char self[32];
	int fd, path = openat(p->dir, name, O_PATH | O_CLOEXEC);

	if (path < 0)
		return errno == EPERM || errno == EACCES || errno == ESRCH ? -ENXIO : -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
	fd = path_is_memory(p, path) ? open(self, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC) : -1;
	int rc = fd >= 0 ? fd : errno == EACCES || errno == EROFS ? -EACCES : -EOPNOTSUPP;
	close(path);
	return rc;
}

int client_maps_open(const struct client_proc *p, uint64_t start, uint64_t end, bool writable)
{
	struct rights old;
	char name[64];
	int fd = -ENXIO;

	if (p->dir < 0)
		return -ENXIO;
	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)start, (unsigned long long)end);
	if (rights_take(p, &old))
		fd = open_as_client(p, name, writable);
	rights_back(&old);
	return fd;
}
