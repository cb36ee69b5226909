/* SPDX-License-Identifier: BSD-3-Clause */
/* One of our sockets takes the place of a socket of the kernel's, with what the program has set of that one. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

int sock_option(int fd, int which)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return sock_libc.getsockopt(fd, SOL_SOCKET, which, &value, &len) == 0 ? value : -1;
}

static int timeout_of(int fd, int which)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	if (sock_libc.getsockopt(fd, SOL_SOCKET, which, &tv, &len) != 0 || (tv.tv_sec == 0 && tv.tv_usec == 0))
		return -1;
	return (int)(tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000);
}

int sock_set_time(int *ms, const void *from, socklen_t len)
{
	struct timeval tv = { 0 };

	memcpy(&tv, from, rn_min_u64(len, sizeof(tv)));
	if (len < sizeof(tv) || tv.tv_usec < 0 || tv.tv_usec >= 1000000) {
		errno = len < sizeof(tv) ? EINVAL : EDOM;
		return -1;
	}
	*ms = tv.tv_sec == 0 && tv.tv_usec == 0 ? -1 : (int)(tv.tv_sec * 1000 + (tv.tv_usec + 999) / 1000);
	return 0;
}

int sock_replace(int fd, int made, struct sock *s)
{
	int flags = sock_libc.fcntl(fd, F_GETFL), cloexec = sock_libc.fcntl(fd, F_GETFD), err = 0;

	s->rcv_ms = timeout_of(fd, SO_RCVTIMEO);
	s->snd_ms = timeout_of(fd, SO_SNDTIMEO);
	socklen_t len = sizeof(s->linger);
	if (sock_libc.getsockopt(fd, SOL_SOCKET, SO_LINGER, &s->linger, &len) != 0)
		s->linger = (struct linger){ 0 };
	const bool in_epoll = sock_epoll_out(fd);
	if (flags < 0 || cloexec < 0 || sock_libc.dup3(made, fd, (cloexec & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) < 0) {
		err = errno;
	} else {
		sock_libc.fcntl(fd, F_SETFL, flags & O_NONBLOCK);
		sock_set(fd, s);
	}
	sock_libc.close(made);
	if (in_epoll)
		sock_epoll_in(fd);
	return err;
}
