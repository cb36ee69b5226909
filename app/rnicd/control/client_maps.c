/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/client_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
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

/* ---- this process as the client's user ---- */

struct rights {
	struct __user_cap_data_struct caps[CAPS];
	bool changed;
	int n_groups;
	gid_t groups[NGROUPS_MAX];
};

/* Takes the groups that the client had when it connected; -1: they are not known, or cannot be taken. */
static int groups_take(int sock)
{
	static gid_t groups[NGROUPS_MAX];
	socklen_t len = sizeof(groups);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERGROUPS, groups, &len) != 0)
		return -1;
	return setgroups(len / sizeof(groups[0]), groups);
}

/*
 * Takes the rights of the client's user: user, group and supplementary groups. Of the capabilities, only those stay of
 * which map_files requires one. Nothing changes if the client's user is this process's user: it could do the same by
 * itself.
 */
static bool rights_take(const struct client_proc *p, int sock, struct rights *old)
{
	struct __user_cap_header_struct h = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct now[CAPS];

	old->changed = p->uid != geteuid();
	if (!old->changed)
		return true;
	old->n_groups = getgroups(NGROUPS_MAX, old->groups);
	if (syscall(SYS_capget, &h, old->caps) != 0 || old->n_groups < 0 || groups_take(sock) != 0)
		return false;
	memcpy(now, old->caps, sizeof(now));
	now[0].effective &= 1u << CAP_SYS_ADMIN;
	now[1].effective &= 1u << (CAP_CHECKPOINT_RESTORE % 32);
	setfsgid(p->gid);
	setfsuid(p->uid);
	/* setfsuid() and setfsgid() report no errors. A second call returns the id that is in force. */
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
	syscall(SYS_capset, &h, old->caps); /* setfsuid() has changed the capabilities */
	if (old->n_groups >= 0 && setgroups((size_t)old->n_groups, old->groups) != 0)
		_exit(1); /* another helper takes the next job */
}

/* ---- only memory files ---- */

/* Whether the O_PATH descriptor names a file of tmpfs or hugetlbfs; called before the file is opened. The kernel
 * reports the type of the file system, so the name of a mount cannot forge it. */
static bool path_is_memory(int path)
{
	struct statx x;
	struct statfs fs;

	return statx(path, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &x) == 0 && S_ISREG(x.stx_mode) &&
	       fstatfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

/* Opens the link `name` in /proc/PID. It follows the link first (O_PATH), so the file that is checked is the file that
 * is opened. */
static int open_as_client(const struct client_proc *p, const char *name, bool writable)
{
	char self[32];
	int fd, path = openat(p->dir, name, O_PATH | O_CLOEXEC);

	if (path < 0)
		return errno == EPERM || errno == EACCES || errno == ESRCH ? -ENXIO : -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", path);
	int rc = -EOPNOTSUPP;
	if (path_is_memory(path)) {
		fd = open(self, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
		rc = fd >= 0 ? fd : errno == EACCES || errno == EROFS ? -EACCES : -EOPNOTSUPP;
	}
	close(path);
	return rc;
}

int client_maps_open(const struct client_proc *p, int sock, uint64_t start, uint64_t end, bool writable)
{
	static struct rights old; /* large */
	char name[64];
	int fd = -ENXIO;

	if (p->dir < 0)
		return -ENXIO;
	snprintf(name, sizeof(name), "map_files/%llx-%llx", (unsigned long long)start, (unsigned long long)end);
	if (rights_take(p, sock, &old))
		fd = open_as_client(p, name, writable);
	rights_back(&old);
	return fd;
}
