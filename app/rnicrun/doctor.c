/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FEW_MAPS  65530ul /* the kernel's default of vm.max_map_count */
#define FEW_FILES 1024ul

static int bad;

__attribute__((format(printf, 2, 3))) static void say(const char *mark, const char *fmt, ...)
{
	va_list ap;

	printf("%-5s ", mark);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* Something that stops programs; the sentence says what to do. */
#define wrong(...) (bad = 1, say("wrong", __VA_ARGS__))

static int check_socket(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(sa.sun_path)) {
		wrong("the path of the socket is too long: %s", path);
		return -1;
	}
	strcpy(sa.sun_path, path);
	int rc = s < 0 ? -1 : connect(s, (struct sockaddr *)&sa, sizeof(sa));
	int e = errno;
	if (s >= 0)
		close(s);
	if (rc == 0) {
		say("ok", "rnicd answers at %s", path);
		return 0;
	}
	switch (e) {
	case ENOENT:
		wrong("no rnicd at %s: start it (rnicd --config FILE), or name its socket with --socket", path);
		break;
	case ECONNREFUSED:
		wrong("%s is left over from an rnicd that is gone: start rnicd again", path);
		break;
	case EACCES:
		wrong("you may not use %s: ask for socket-mode = 0666, or for its group, in rnicd's configuration", path);
		break;
	default:
		wrong("%s: %s", path, strerror(e));
	}
	return -1;
}

static void check_device(struct ibv_device *dev)
{
	const char *name = ibv_get_device_name(dev);
	struct ibv_context *ctx = ibv_open_device(dev);
	char ip[INET6_ADDRSTRLEN] = "?";
	struct ibv_port_attr port;
	union ibv_gid gid;

	if (ctx == NULL) {
		wrong("device %s cannot be opened: %s", name, strerror(errno));
		return;
	}
	if (ibv_query_gid(ctx, 1, 0, &gid) == 0)
		inet_ntop(AF_INET6, gid.raw, ip, sizeof(ip));
	if (ibv_query_port(ctx, 1, &port) != 0)
		wrong("device %s has no port", name);
	else if (port.state != IBV_PORT_ACTIVE)
		wrong("device %s (%s) has no link: look at the other end of its wire", name, ip);
	else
		say("ok", "device %s, address %s, link up", name, ip);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	void *mem = malloc(1 << 16);
	struct ibv_mr *mr = pd != NULL && mem != NULL ? ibv_reg_mr(pd, mem, 1 << 16, IBV_ACCESS_LOCAL_WRITE) : NULL;
	if (mr == NULL)
		wrong("64 KiB of ordinary memory cannot be registered on %s: %s", name, strerror(errno));
	else
		ibv_dereg_mr(mr);
	free(mem);
	if (pd != NULL)
		ibv_dealloc_pd(pd);
	ibv_close_device(ctx);
}

static void check_devices(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list == NULL || n == 0)
		wrong("rnicd shows no device: %s", list == NULL ? strerror(errno) : "its configuration has no port");
	for (int i = 0; i < n; i++)
		check_device(list[i]);
	if (list != NULL)
		ibv_free_device_list(list);
}

/* The number behind `key` in a file of /proc; -1: not there. */
static long number(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[256];
	long v = -1;

	while (f != NULL && v < 0 && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			v = strtol(line + strlen(key), NULL, 10);
	if (f != NULL)
		fclose(f);
	return v;
}

static void check_memory(void)
{
	long huge = number("/proc/meminfo", "HugePages_Free:"), maps = number("/proc/sys/vm/max_map_count", "");
	struct rlimit files;

	if (huge > 0)
		say("ok", "%ld free hugepages", huge);
	else
		say("note", "no free hugepages; it works without, a little slower: echo 512 > /proc/sys/vm/nr_hugepages");
	if (maps >= 0 && (unsigned long)maps <= FEW_MAPS)
		say("note", "vm.max_map_count is %ld: tens of thousands of scattered memory regions need more", maps);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FEW_FILES)
		say("note", "only %lu file descriptors (ulimit -n): each event channel takes one", (unsigned long)files.rlim_cur);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 4)
		say("note", "%ld CPUs: daemon and polling clients take turns, latencies are those of the scheduler",
		    sysconf(_SC_NPROCESSORS_ONLN));
}

int doctor(const char *lib, const char *sock)
{
	say("ok", "library %s", lib);
	if (check_socket(sock) == 0)
		check_devices();
	check_memory();
	puts(bad ? "Programs cannot run yet." : "Programs can run: rnicrun PROGRAM.");
	return bad;
}
