/* SPDX-License-Identifier: BSD-3-Clause */
/* libc's own functions, which this room cannot call by their names. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>

#include "rnic/sock/sock.h"

#define FIRST_ASIDE 512

struct sock_libc sock_libc;

void sock_libc_find(void)
{
	static const struct {
		const char *name;
		void **to;
	} calls[] = {
		{ "recv", (void **)&sock_libc.recv },
		{ "recvfrom", (void **)&sock_libc.recvfrom },
		{ "recvmsg", (void **)&sock_libc.recvmsg },
		{ "read", (void **)&sock_libc.read },
		{ "readv", (void **)&sock_libc.readv },
		{ "send", (void **)&sock_libc.send },
		{ "sendto", (void **)&sock_libc.sendto },
		{ "sendmsg", (void **)&sock_libc.sendmsg },
		{ "recvmmsg", (void **)&sock_libc.recvmmsg },
		{ "sendmmsg", (void **)&sock_libc.sendmmsg },
		{ "write", (void **)&sock_libc.write },
		{ "writev", (void **)&sock_libc.writev },
		{ "sendfile", (void **)&sock_libc.sendfile },
		{ "splice", (void **)&sock_libc.splice },
		{ "preadv2", (void **)&sock_libc.preadv2 },
		{ "pwritev2", (void **)&sock_libc.pwritev2 },
		{ "bind", (void **)&sock_libc.bind },
		{ "connect", (void **)&sock_libc.connect },
		{ "listen", (void **)&sock_libc.listen },
		{ "accept4", (void **)&sock_libc.accept4 },
		{ "shutdown", (void **)&sock_libc.shutdown },
		{ "close", (void **)&sock_libc.close },
		{ "dup", (void **)&sock_libc.dup },
		{ "dup2", (void **)&sock_libc.dup2 },
		{ "dup3", (void **)&sock_libc.dup3 },
		{ "fcntl", (void **)&sock_libc.fcntl },
		{ "ioctl", (void **)&sock_libc.ioctl },
		{ "getsockopt", (void **)&sock_libc.getsockopt },
		{ "setsockopt", (void **)&sock_libc.setsockopt },
		{ "getsockname", (void **)&sock_libc.getsockname },
		{ "getpeername", (void **)&sock_libc.getpeername },
		{ "poll", (void **)&sock_libc.poll },
		{ "ppoll", (void **)&sock_libc.ppoll },
		{ "select", (void **)&sock_libc.select },
		{ "pselect", (void **)&sock_libc.pselect },
		{ "epoll_ctl", (void **)&sock_libc.epoll_ctl },
		{ "vfork", (void **)&sock_libc.vfork },
		{ "prctl", (void **)&sock_libc.prctl },
		{ "sigaction", (void **)&sock_libc.sigaction },
		{ "opendir", (void **)&sock_libc.opendir },
		{ "readdir", (void **)&sock_libc.readdir },
		{ "closedir", (void **)&sock_libc.closedir },
		{ "fdopen", (void **)&sock_libc.fdopen },
		{ "fileno", (void **)&sock_libc.fileno },
		{ "close_range", (void **)&sock_libc.close_range },
		{ "execve", (void **)&sock_libc.execve },
		{ "execvpe", (void **)&sock_libc.execvpe },
		{ "execveat", (void **)&sock_libc.execveat },
		{ "fexecve", (void **)&sock_libc.fexecve },
		{ "posix_spawn", (void **)&sock_libc.posix_spawn },
		{ "posix_spawnp", (void **)&sock_libc.posix_spawnp },
	};

	for (size_t i = 0; i < RN_ARRAY_LEN(calls); i++)
		*calls[i].to = dlsym(RTLD_NEXT, calls[i].name);
}

static bool aside[SOCK_FDS];

int sock_libc_aside(int fd)
{
	int saved = errno, high = sock_libc.fcntl(fd, F_DUPFD_CLOEXEC, FIRST_ASIDE);
	struct rlimit limit;

	if (high < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) { /* the process may have no such number, or few */
		errno = saved;
		high = sock_libc.fcntl(fd, F_DUPFD_CLOEXEC, (int)(limit.rlim_cur / 2));
	}
	if (high >= 0 && high < SOCK_FDS)
		__atomic_store_n(&aside[high], true, __ATOMIC_RELAXED);
	return high;
}

void sock_libc_close_aside(int fd)
{
	if ((uint32_t)fd < SOCK_FDS)
		__atomic_store_n(&aside[fd], false, __ATOMIC_RELAXED);
	sock_libc.close(fd);
}

int sock_libc_take_aside(int fd)
{
	if ((uint32_t)fd < SOCK_FDS)
		__atomic_store_n(&aside[fd], true, __ATOMIC_RELAXED);
	return fd;
}

bool sock_libc_is_aside(int fd) { return (uint32_t)fd < SOCK_FDS && __atomic_load_n(&aside[fd], __ATOMIC_RELAXED); }

/* ---- a process that has confined itself by seccomp ---- */

static bool confined, blocks_not[SOCK_FDS];

void sock_libc_confine(void)
{
	for (int fd = 0; fd < SOCK_FDS; fd++)
		if (__atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) != NULL)
			blocks_not[fd] = (sock_libc.fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
	__atomic_store_n(&confined, true, __ATOMIC_RELEASE);
}

bool sock_libc_is_confined(void) { return __builtin_expect(__atomic_load_n(&confined, __ATOMIC_RELAXED), 0); }

bool sock_libc_blocks_not(int fd)
{
	if (sock_libc_is_confined() && (uint32_t)fd < SOCK_FDS)
		return blocks_not[fd];
	return (sock_libc.fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
}

/* poll() first makes sure that the call after it does not wait. */
static bool ready_now(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (sock_libc.poll(&p, 1, 0) > 0)
		return true;
	errno = EAGAIN;
	return false;
}

ssize_t sock_libc_take(int fd, void *to, size_t n)
{
	if (!sock_libc_is_confined())
		return sock_libc.recv(fd, to, n, MSG_DONTWAIT);
	return ready_now(fd, POLLIN) ? sock_libc.read(fd, to, n) : -1;
}

ssize_t sock_libc_put(int fd, const void *from, size_t n)
{
	if (!sock_libc_is_confined())
		return sock_libc.send(fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	return ready_now(fd, POLLOUT) ? sock_libc.write(fd, from, n) : -1;
}

void sock_libc_yield(void)
{
	if (!sock_libc_is_confined())
		sched_yield();
}
