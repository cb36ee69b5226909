/* SPDX-License-Identifier: BSD-3-Clause */
/* libc's own functions, which this room calls by another way than their names. */
#include <dlfcn.h>
#include <fcntl.h>

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
	int high = sock_libc.fcntl(fd, F_DUPFD_CLOEXEC, FIRST_ASIDE);

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
