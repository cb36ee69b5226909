/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files of a kernel's RDMA device that programs look at, answered for our devices:
 *
 *   /dev/infiniband/NAME                    the character device; some programs (UCX) use no device without it. Our
 *                                           names have a prefix that no kernel uses; /dev/null is shown in their place
 *   /sys/class/infiniband/DEVICE/device/net a folder of one entry, the network interface that has the device's
 *                                           address. There is no such folder when the host has no such interface
 *
 * What really exists is never hidden. The functions are exported without a version and under libc's names, for which
 * its headers may have macros.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "rnic/verbs/verbs.h"

#define OURS     "/dev/infiniband/" RNIC_DEV_PREFIX
#define DEVICES  "/sys/class/infiniband/"
#define NET      "/device/net"
#define ALL_NETS "/sys/class/net" /* a real folder that is opened in place of ours */
#define DIRS     8u               /* folders of ours open at the same time */

int rnic_hook_stat(const char *path, struct stat *st) __asm__("stat");
int rnic_hook_stat64(const char *path, struct stat *st) __asm__("stat64"); /* one structure on 64-bit machines */
int rnic_hook_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *st) __asm__("statx");
int rnic_hook_access(const char *path, int mode) __asm__("access");
DIR *rnic_hook_opendir(const char *path) __asm__("opendir");
struct dirent *rnic_hook_readdir(DIR *d) __asm__("readdir");
struct dirent *rnic_hook_readdir64(DIR *d) __asm__("readdir64"); /* the same */
void rnic_hook_rewinddir(DIR *d) __asm__("rewinddir");
int rnic_hook_closedir(DIR *d) __asm__("closedir");

/* ---- the interface of a device ---- */

/*
 * Parses the path of a device's folder of interfaces, or of something in it: finds the device's name. Returns the rest
 * of the path behind the folder's name: "", or "/" and more. NULL: another path.
 */
static const char *parse(const char *path, char name[IPC_DEV_NAME_MAX])
{
	if (path == NULL || strncmp(path, DEVICES, sizeof(DEVICES) - 1) != 0)
		return NULL;
	path += sizeof(DEVICES) - 1;
	size_t len = strcspn(path, "/");
	if (len == 0 || len >= IPC_DEV_NAME_MAX || strncmp(path + len, NET, sizeof(NET) - 1) != 0)
		return NULL;
	memcpy(name, path, len);
	name[len] = '\0';
	path += len + sizeof(NET) - 1;
	return path[0] == '\0' || path[0] == '/' ? path : NULL;
}

static bool is_addr(const struct sockaddr *sa, const uint8_t ip[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (sa == NULL || (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return false;
	if (sa->sa_family == AF_INET6)
		return memcmp(&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, ip, 16) == 0;
	return memcmp(ip, mapped, sizeof(mapped)) == 0 &&
	       memcmp(&((const struct sockaddr_in *)(const void *)sa)->sin_addr, ip + 12, 4) == 0;
}

static bool interface_of(const uint8_t ip[16], char ifname[IF_NAMESIZE])
{
	struct ifaddrs *all, *a;

	if (getifaddrs(&all) != 0)
		return false;
	for (a = all; a != NULL && !is_addr(a->ifa_addr, ip); a = a->ifa_next)
		;
	if (a != NULL)
		snprintf(ifname, IF_NAMESIZE, "%s", a->ifa_name);
	freeifaddrs(all);
	return a != NULL;
}

/* As parse(), but only for a device of ours whose interface exists on the host. NULL leaves errno unchanged. */
static const char *net_of(const char *path, char ifname[IF_NAMESIZE])
{
	char name[IPC_DEV_NAME_MAX];
	const char *rest = parse(path, name);
	const int err = errno;
	bool found = false;
	uint32_t n;

	if (rn_likely(rest == NULL))
		return NULL;
	struct rnic_session *s = rnic_session_get();
	struct rnic_dev **devs = s != NULL ? rnic_devices(s, &n) : NULL;
	for (uint32_t i = 0; devs != NULL && i < n && !found; i++)
		found = strcmp(devs[i]->info.name, name) == 0 && interface_of(devs[i]->info.ip, ifname);
	free(devs);
	errno = err;
	return found ? rest : NULL;
}

/* ---- looking up a file ---- */

/* The path to use in place of `path`; buf is for its text. */
static const char *seen(const char *path, char buf[PATH_MAX])
{
	char ifname[IF_NAMESIZE];

	if (rn_likely(path == NULL || path[0] != '/'))
		return path;
	if (strncmp(path, OURS, sizeof(OURS) - 1) == 0)
		return "/dev/null";
	if (strncmp(path, DEVICES, sizeof(DEVICES) - 1) != 0 || faccessat(AT_FDCWD, path, F_OK, 0) == 0)
		return path;
	const char *rest = net_of(path, ifname);
	return rest != NULL && snprintf(buf, PATH_MAX, ALL_NETS "%s", rest) < PATH_MAX ? buf : path;
}

int rnic_hook_stat(const char *path, struct stat *st)
{
	char buf[PATH_MAX];

	return fstatat(AT_FDCWD, seen(path, buf), st, 0);
}

int rnic_hook_stat64(const char *path, struct stat *st) { return rnic_hook_stat(path, st); }

int rnic_hook_access(const char *path, int mode)
{
	char buf[PATH_MAX];

	return faccessat(AT_FDCWD, seen(path, buf), mode, 0);
}

int rnic_hook_statx(int dir, const char *path, int flags, unsigned int mask, struct statx *st)
{
	char buf[PATH_MAX];

	return (int)syscall(SYS_statx, dir, seen(path, buf), flags, mask, st);
}

/* ---- reading the folder ---- */

/* libc's function, looked up once: programs read large folders too. */
static rnic_fn libc(rnic_fn *kept, const char *name)
{
	rnic_fn f = __atomic_load_n(kept, __ATOMIC_RELAXED);

	if (rn_unlikely(f == NULL)) {
		f = rnic_stock(name);
		__atomic_store_n(kept, f, __ATOMIC_RELAXED);
	}
	return f;
}

/* A folder of ours that a program has open. `dir` is a libc DIR of another folder, and serves only as its handle. */
static struct net_dir {
	DIR *dir;
	uint32_t at; /* index of the next entry: ".", "..", the interface */
	char ifname[IF_NAMESIZE];
	struct dirent entry;
} dirs[DIRS];

static uint32_t n_dirs; /* read without the lock, so that programs with none open pay only for a load */
static pthread_mutex_t dirs_lock = PTHREAD_MUTEX_INITIALIZER;

/* The entry of a folder; d NULL: a free entry. NULL: there is none. The caller holds dirs_lock. */
static struct net_dir *find(const DIR *d)
{
	for (uint32_t i = 0; i < DIRS; i++)
		if (dirs[i].dir == d)
			return &dirs[i];
	return NULL;
}

static bool none_open(void) { return rn_likely(__atomic_load_n(&n_dirs, __ATOMIC_ACQUIRE) == 0); }

DIR *rnic_hook_opendir(const char *path)
{
	static rnic_fn kept;
	DIR *(*stock)(const char *) = (__typeof__(stock))libc(&kept, "opendir");
	char ifname[IF_NAMESIZE];
	DIR *d = stock(path);

	if (rn_likely(d != NULL || errno != ENOENT))
		return d;
	const char *rest = net_of(path, ifname);
	if (rest == NULL || rest[strspn(rest, "/")] != '\0' || (d = stock(ALL_NETS)) == NULL)
		return d;
	pthread_mutex_lock(&dirs_lock);
	struct net_dir *n = find(NULL);
	if (n != NULL) {
		*n = (struct net_dir){ .dir = d };
		memcpy(n->ifname, ifname, sizeof(ifname));
		__atomic_fetch_add(&n_dirs, 1, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&dirs_lock);
	if (n == NULL) {
		closedir(d);
		errno = EMFILE;
		return NULL;
	}
	return d;
}

static const struct dirent *next_entry(struct net_dir *n)
{
	const char *name[] = { ".", "..", n->ifname };

	if (n->at == RN_ARRAY_LEN(name))
		return NULL;
	n->entry = (struct dirent){ .d_ino = n->at + 1,
				    .d_reclen = sizeof(n->entry),
				    .d_type = n->at < 2 ? DT_DIR : DT_LNK };
	snprintf(n->entry.d_name, sizeof(n->entry.d_name), "%s", name[n->at++]);
	return &n->entry;
}

struct dirent *rnic_hook_readdir(DIR *d)
{
	static rnic_fn kept;
	struct dirent *(*stock)(DIR *) = (__typeof__(stock))libc(&kept, "readdir");
	struct dirent *e = NULL;

	if (none_open())
		return stock(d);
	pthread_mutex_lock(&dirs_lock);
	struct net_dir *n = find(d);
	if (n != NULL)
		e = (struct dirent *)(uintptr_t)next_entry(n);
	pthread_mutex_unlock(&dirs_lock);
	return n != NULL ? e : stock(d);
}

struct dirent *rnic_hook_readdir64(DIR *d) { return rnic_hook_readdir(d); }

void rnic_hook_rewinddir(DIR *d)
{
	static rnic_fn kept;
	void (*stock)(DIR *) = (__typeof__(stock))libc(&kept, "rewinddir");

	stock(d);
	if (none_open())
		return;
	pthread_mutex_lock(&dirs_lock);
	struct net_dir *n = find(d);
	if (n != NULL)
		n->at = 0;
	pthread_mutex_unlock(&dirs_lock);
}

int rnic_hook_closedir(DIR *d)
{
	static rnic_fn kept;
	int (*stock)(DIR *) = (__typeof__(stock))libc(&kept, "closedir");

	if (!none_open() && d != NULL) {
		pthread_mutex_lock(&dirs_lock);
		struct net_dir *n = find(d);
		if (n != NULL) {
			n->dir = NULL;
			__atomic_fetch_sub(&n_dirs, 1, __ATOMIC_RELEASE);
		}
		pthread_mutex_unlock(&dirs_lock);
	}
	return stock(d);
}
