/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <infiniband/verbs.h>
#include <linux/userfaultfd.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/ipc.h"
#include "program.h"

#define FEW_MAPS  65530ul /* the kernel's default of vm.max_map_count */
#define FEW_FILES 1024ul
#define SPACE     (UINT64_C(4) << 30)  /* bytes of address space that librnic and a program need */
#define FILE_SIZE (UINT64_C(64) << 30) /* size of the sparse files that are shared with rnicd */
#define ANSWER_MS 2000                 /* time to wait for the daemon's answer */
#define PART      (UINT64_C(1) << 16)  /* bytes of memory that are registered as a trial */

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

/* Prints a finding that stops programs; the sentence says what to do. */
#define wrong(...) (bad = 1, say("wrong", __VA_ARGS__))

static bool is_socket(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

static int check_socket(const char *path)
{
	const int s = ipc_dial(path);

	if (s >= 0) {
		close(s);
		return 0;
	}
	switch (-s) {
	case ENAMETOOLONG: wrong("the path of the socket is too long: %s", path); break;
	case ENOENT:
		wrong("no rnicd at %s: start it (rnicd --config FILE), or name its socket with --socket", path);
		break;
	case ENOTSOCK:
	case ECONNREFUSED:
		if (!is_socket(path))
			wrong("%s is no socket: name rnicd's with --socket", path);
		else
			wrong("%s is left over from an rnicd that is gone: start rnicd again", path);
		break;
	case EACCES:
		wrong("you may not use %s: ask for socket-mode = 0666, or for its group, in rnicd's configuration",
		      path);
		break;
	default: wrong("%s: %s", path, strerror(-s));
	}
	return -1;
}

/* Whether the kernel has an interface with this IPv4 address that is up and is not the loopback interface. */
static bool kernel_has(const uint8_t ip[4])
{
	struct ifaddrs *all, *a;
	bool found = false;

	if (getifaddrs(&all) != 0)
		return false;
	for (a = all; a != NULL; a = a->ifa_next)
		if (a->ifa_addr != NULL && a->ifa_addr->sa_family == AF_INET && (a->ifa_flags & IFF_UP) != 0 &&
		    (a->ifa_flags & IFF_LOOPBACK) == 0)
			found |= memcmp(&((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr, ip, 4) == 0;
	freeifaddrs(all);
	return found;
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
	if (strncmp(ip, "::ffff:", 7) == 0 && !kernel_has(gid.raw + 12)) /* IPv6 addresses are always the kernel's */
		say("note",
		    "%s: libfabric, and OpenMPI over it, use a device only if an interface of the kernel has its address: "
		    "ip link add name %s type veth peer name %s-peer; ip addr add %s/32 dev %s; ip link set dev %s up",
		    name, name, name, strrchr(ip, ':') + 1, name, name);
	ibv_close_device(ctx);
}

static bool can_register(struct ibv_pd *pd, int flags)
{
	void *mem = mmap(NULL, PART, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = mem != MAP_FAILED ? ibv_reg_mr(pd, mem, PART, IBV_ACCESS_LOCAL_WRITE) : NULL;

	if (mr != NULL)
		ibv_dereg_mr(mr);
	if (mem != MAP_FAILED)
		munmap(mem, PART);
	return mr != NULL;
}

static void check_registration(struct ibv_device *dev)
{
	struct ibv_context *ctx = ibv_open_device(dev);
	struct ibv_pd *pd = ctx != NULL ? ibv_alloc_pd(ctx) : NULL;

	if (pd == NULL || !can_register(pd, MAP_PRIVATE))
		wrong("64 KiB of ordinary memory cannot be registered: %s", strerror(errno));
	else if (can_register(pd, MAP_SHARED))
		say("ok", "memory can be registered, shared mappings too");
	else
		say("note", "ordinary memory can be registered, memory shared with others cannot: run rnicd as root");
	if (pd != NULL)
		ibv_dealloc_pd(pd);
	if (ctx != NULL)
		ibv_close_device(ctx);
}

static void check_devices(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list == NULL && errno == EPROTO)
		wrong("rnicd and librnic are from different releases: install both from the same one");
	else if (list == NULL || n == 0)
		wrong("rnicd shows no device: %s", list == NULL ? strerror(errno) : "its configuration has no port");
	for (int i = 0; i < n; i++)
		check_device(list[i]);
	if (n > 0)
		check_registration(list[0]);
	if (list != NULL)
		ibv_free_device_list(list);
}

/* The number after `key` in a file of /proc; -1: there is none. */
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

/* Registering moves pages, so other threads that write to them meanwhile must be blocked. */
static void check_guard(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0)
		say("ok", "userfaultfd guards memory while it is registered");
	else
		say("note",
		    "no userfaultfd (%s): a thread that writes to memory while it is registered is held up by SIGSEGV",
		    strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void check_limit(int which, uint64_t least, const char *sentence)
{
	struct rlimit r;

	if (getrlimit((__rlimit_resource_t)which, &r) == 0 && r.rlim_cur != RLIM_INFINITY && r.rlim_cur < least)
		wrong("%s: %llu MiB", sentence, (unsigned long long)(r.rlim_cur >> 20));
}

static void check_memory(void)
{
	long huge = number("/proc/meminfo", "HugePages_Free:"), maps = number("/proc/sys/vm/max_map_count", "");
	struct rlimit files;

	if (huge > 0)
		say("ok", "%ld free hugepages", huge);
	else
		say("note",
		    "no free hugepages; rnic works without, a little slower: echo 512 > /proc/sys/vm/nr_hugepages");
	if (maps >= 0 && (unsigned long)maps <= FEW_MAPS)
		say("note", "vm.max_map_count is %ld: tens of thousands of scattered memory regions need more", maps);
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < FEW_FILES)
		say("note", "only %lu file descriptors (ulimit -n): each event channel takes one",
		    (unsigned long)files.rlim_cur);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 4)
		say("note", "%ld CPUs: daemon and polling clients take turns, latencies are those of the scheduler",
		    sysconf(_SC_NPROCESSORS_ONLN));
}

static void check_program(const char *program)
{
	const char *none = program_none(program), *obstacle = none == NULL ? program_obstacle(program) : NULL;

	if (none != NULL || obstacle != NULL) {
		wrong("%s: %s", program, none != NULL ? none : obstacle);
		return;
	}
	say("ok", "%s can have the library preloaded", program);
	if (!program_links_verbs(program))
		say("note",
		    "%s is not linked with libibverbs or librdmacm: only libraries that it loads while it runs can use the devices",
		    program);
}

/*
 * Runs in a separate process: if the daemon is stopped or hangs, it accepts a connection but does not answer, and the
 * calls of librnic block.
 */
static void check_daemon(const char *sock)
{
	int status = 0, up[2];

	fflush(stdout);
	if (pipe2(up, O_CLOEXEC) != 0) {
		wrong("rnicd at %s was not checked: there is no pipe (%s)", sock, strerror(errno));
		return;
	}
	pid_t pid = fork();
	if (pid == 0) {
		bad = 0;
		if (check_socket(sock) == 0) {
			check_devices();
			say(bad ? "note" : "ok", "rnicd answers at %s", sock);
		}
		fflush(stdout);
		_exit(bad);
	}
	close(up[1]);
	struct pollfd end = { .fd = up[0], .events = POLLIN };
	if (pid < 0)
		wrong("rnicd at %s was not checked: there is no process (%s)", sock, strerror(errno));
	else if (poll(&end, 1, ANSWER_MS) <= 0 && kill(pid, SIGKILL) == 0)
		wrong("rnicd at %s accepts the connection but has not answered for %d s: is it stopped? Its log may say more",
		      sock, ANSWER_MS / 1000);
	else if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		wrong("the check of rnicd at %s has crashed", sock);
	else if (WEXITSTATUS(status) != 0)
		bad = 1;
	close(up[0]);
}

int doctor(const char *lib, const char *sock, const char *program)
{
	say("ok", "library %s", lib);
	if (program != NULL)
		check_program(program);
	check_limit(RLIMIT_AS, SPACE, "too few addresses (ulimit -v unlimited)");
	check_limit(RLIMIT_FSIZE, FILE_SIZE, "files may not become large enough (ulimit -f unlimited)");
	check_daemon(sock);
	check_guard();
	check_memory();
	puts(bad ? "Programs cannot run yet." : "Programs can run: rnicrun PROGRAM.");
	return bad;
}
