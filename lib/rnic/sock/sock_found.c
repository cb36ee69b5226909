/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sockets that a program inherits by execve() from the program before it, or receives over a UNIX socket. The program
 * has the sockets' descriptors, and asks rnicd which sockets they are. The settings are in each socket's memory. The
 * kernel's sockets below are inherited, too, but are not received; so are epoll sets: the readiness of their members
 * must be kept up to date.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define LEAST_SNDBUF 8192 /* bytes: the send buffer of rnicd's descriptors is smaller, others' is not by default */
#define NO_PROC      1024 /* number of descriptors that are looked at if /proc is not mounted */

/* ---- the descriptors of this process ---- */

/* Calls each() with every descriptor, until it returns true. */
static void each_descriptor(bool (*each)(int fd, void *arg), void *arg)
{
	DIR *d = sock_libc.opendir("/proc/self/fd");
	const struct dirent *e;

	if (d == NULL) {
		for (int fd = 0; fd < NO_PROC; fd++)
			if (each(fd, arg))
				return;
		return;
	}
	while ((e = sock_libc.readdir(d)) != NULL) {
		int fd = e->d_name[0] == '.' ? -1 : atoi(e->d_name);
		if (fd >= 0 && fd != dirfd(d) && each(fd, arg))
			break;
	}
	sock_libc.closedir(d);
}

bool sock_looks_ours(int fd)
{
	return sock_option(fd, SO_DOMAIN) == AF_UNIX && sock_option(fd, SO_TYPE) == SOCK_STREAM &&
	       sock_option(fd, SO_SNDBUF) < LEAST_SNDBUF;
}

struct wanted {
	uint64_t number;           /* inode number of the socket; 0: search by address */
	const struct ipc_addr *at; /* address of a listener at all addresses */
	int fd;                    /* -1: not found */
};

static bool is_it(int fd, void *arg)
{
	struct wanted *w = arg;
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct ipc_addr a;

	if (sock_tab[fd < SOCK_FDS ? fd : 0] != NULL || sock_libc_is_aside(fd))
		return false;
	if (w->number != 0)
		w->fd = sock_file_number(fd) == w->number ? fd : -1;
	else if (sock_option(fd, SO_ACCEPTCONN) == 1 && sock_option(fd, SO_PROTOCOL) == IPPROTO_TCP &&
		 sock_libc.getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
		 sock_addr_in((struct sockaddr *)&sa, len, &a) && sock_addr_is_any(&a) && a.port == w->at->port)
		w->fd = fd;
	return w->fd >= 0;
}

/* The kernel's socket below, which was inherited with the descriptor. */
static int inherited_below(const struct sock *s)
{
	const struct ipc_sock_kept *k = sock_kept_of(s);
	struct wanted w = { .number = k != NULL ? k->below : 0, .at = &s->local, .fd = -1 };

	if (k == NULL || w.number != 0)
		each_descriptor(is_it, &w);
	return w.fd < 0 ? -1 : sock_libc_take_aside(w.fd);
}

/* ---- one socket ---- */

static bool found_memory(struct sock *s, uint32_t kind, int memory)
{
	const size_t size = kind == IPC_SOCK_IS_STREAM ? IPC_STREAM_SIZE : IPC_GRAM_SIZE;
	void *p = memory < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

	if (p == MAP_FAILED)
		return false;
	if (kind == IPC_SOCK_IS_STREAM) {
		s->mem = p;
		/* the program before may have read bytes that it did not tell: the first read tells them */
		s->told = s->mem->rx_head - IPC_STREAM_TELL;
		s->kind = SOCK_IS_STREAM;
	} else {
		s->gram = p;
		s->kind = SOCK_IS_GRAM;
	}
	sock_learn_kept(s);
	return true;
}

static void found_below(struct sock *s)
{
	s->below = inherited_below(s);
	if (s->kind == SOCK_LISTENS) {
		s->wild = s->below_live = s->below >= 0;
		return;
	}
	s->below_own = s->below >= 0 && sock_kernels();
	if (s->below < 0) { /* makes a new socket below; all its options have their defaults */
		int fd = socket(s->domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		s->below = sock_libc_aside(fd);
		s->below_live = false;
		sock_libc.close(fd);
	}
	if (s->below >= 0)
		sock_udp_learn_options(s);
}

/* Makes the socket of a descriptor, held; NULL: no memory. */
static struct sock *found_new(const struct ipc_sock_found *f, int fd, int memory)
{
	static const uint8_t v4[12] = { [10] = 0xff, [11] = 0xff };
	bool four = f->families != 0 ? f->families == IPC_SOCK_IP4 : memcmp(f->sock.local.ip, v4, sizeof(v4)) == 0;
	struct sock *s = sock_new(four ? AF_INET : AF_INET6);

	if (s == NULL)
		return NULL;
	sock_learn(s, &f->sock);
	s->wire = sock_wire_of(fd);
	s->kind = f->kind == IPC_SOCK_LISTENS ? SOCK_LISTENS : SOCK_BOUND;
	if ((f->kind == IPC_SOCK_IS_STREAM || f->kind == IPC_SOCK_IS_GRAM) && !found_memory(s, f->kind, memory)) {
		sock_put(s);
		return NULL;
	}
	if (s->kind == SOCK_IS_GRAM || (s->kind == SOCK_LISTENS && f->families != 0))
		found_below(s);
	return s;
}

static struct sock *known(uint64_t id)
{
	for (int fd = 0; fd < SOCK_FDS; fd++) {
		struct sock *s = sock_get(fd);
		if (s != NULL && s->id == id)
			return s;
		if (s != NULL)
			sock_put(s);
	}
	return NULL;
}

static bool look_at(int fd, void *arg)
{
	struct sock_bells *u;
	struct ipc_sock_found f;
	int memory;

	(void)arg;
	if (fd >= SOCK_FDS || !sock_looks_ours(fd) || sock_show(fd, &f, &memory, &u) != 0)
		return false;
	struct sock *s = known(f.sock.sock);
	if (s == NULL)
		s = found_new(&f, fd, memory);
	if (s == NULL) {
		sock_give_bells(u);
	} else {
		sock_take_bells(s, u);
		sock_set(fd, s);
		sock_put(s);
		sock_stdio_follows(fd);
	}
	if (memory >= 0)
		sock_libc.close(memory);
	return false;
}

void sock_found_in(const struct msghdr *m)
{
	struct msghdr *all = (struct msghdr *)(uintptr_t)m; /* CMSG_NXTHDR writes nothing */
	int saved = errno;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(all); c != NULL; c = CMSG_NXTHDR(all, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t at = CMSG_LEN(0); at + sizeof(int) <= c->cmsg_len; at += sizeof(int)) {
			int fd;
			memcpy(&fd, (const uint8_t *)c + at, sizeof(fd));
			look_at(fd, NULL);
		}
	}
	errno = saved;
}

static bool look_at_set(int fd, void *arg)
{
	char path[64], target[32] = "";

	(void)arg;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, target, sizeof(target) - 1) > 0 && strcmp(target, "anon_inode:[eventpoll]") == 0)
		sock_epoll_found(fd);
	return false;
}

__attribute__((constructor)) static void find_inherited(void)
{
	int saved = errno;

	sock_ready();
	sock_wires_learn();
	each_descriptor(look_at, NULL);
	each_descriptor(look_at_set, NULL);
	errno = saved;
}
