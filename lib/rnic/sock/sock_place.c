/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts a socket of ours in the place of a kernel's socket, or the reverse; the new one takes over the settings. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include <rnic/sock.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

int sock_option(int fd, int which)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return sock_libc.getsockopt(fd, SOL_SOCKET, which, &value, &len) == 0 ? value : -1;
}

/* -1: no limit, or more than 24 days; 0: a negative time, with which Linux does not wait (sock_set_timeout) */
static int ms_of(const struct timeval *tv)
{
	if (tv->tv_sec < 0)
		return 0;
	if ((tv->tv_sec == 0 && tv->tv_usec == 0) || tv->tv_sec >= INT_MAX / 1000)
		return -1;
	return (int)(tv->tv_sec * 1000 + (tv->tv_usec + 999) / 1000);
}

static int timeout_of(int fd, int which)
{
	struct timeval tv = { 0 };
	socklen_t len = sizeof(tv);

	return sock_libc.getsockopt(fd, SOL_SOCKET, which, &tv, &len) == 0 ? ms_of(&tv) : -1;
}

int sock_set_time(int *ms, const void *from, socklen_t len)
{
	struct timeval tv;

	if (len < sizeof(tv)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(&tv, from, sizeof(tv));
	if (tv.tv_usec < 0 || tv.tv_usec >= 1000000) {
		errno = EDOM;
		return -1;
	}
	*ms = ms_of(&tv);
	return 0;
}

int sock_become(int fd, int file, int keep, struct sock *s)
{
	const int flags = sock_libc.fcntl(fd, F_GETFL), cloexec = sock_libc.fcntl(fd, F_GETFD);
	const bool in_epoll = sock_epoll_out(fd);
	struct sock *left = sock_leave_begin(fd);
	int err = 0;

	if (s != NULL && (uint32_t)fd >= SOCK_FDS) { /* the table has no place for it */
		err = EMFILE;
	} else if (flags < 0 || cloexec < 0 ||
		   sock_libc.dup3(file, fd, (cloexec & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0) < 0) {
		err = errno;
	} else {
		sock_libc.fcntl(fd, F_SETFL, flags & keep);
		sock_set(fd, s);
	}
	sock_leave_end(left);
	if (in_epoll)
		sock_epoll_in(fd);
	return err;
}

void sock_settings(struct sock *s, int fd)
{
	socklen_t len = sizeof(s->linger);

	s->rcv_ms = timeout_of(fd, SO_RCVTIMEO);
	s->snd_ms = timeout_of(fd, SO_SNDTIMEO);
	if (sock_libc.getsockopt(fd, SOL_SOCKET, SO_LINGER, &s->linger, &len) != 0)
		s->linger = (struct linger){ 0 };
	if (s->kind != SOCK_IS_GRAM)
		sock_opts_learn(s, fd);
}

int sock_replace(int fd, int made, struct sock *s)
{
	sock_settings(s, fd);
	const int err = sock_become(fd, made, O_NONBLOCK, s);
	sock_libc.close(made);
	return err;
}

static void teach_time(int fd, int which, int ms)
{
	const struct timeval tv = { .tv_sec = ms == 0 ? -1 : ms / 1000, .tv_usec = (suseconds_t)(ms % 1000) * 1000 };

	if (ms >= 0)
		(void)sock_libc.setsockopt(fd, SOL_SOCKET, which, &tv, sizeof(tv));
}

int sock_anew(struct sock *s)
{
	const int wire = s->wire, made = socket(s->domain, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (made < 0)
		return -1;
	teach_time(made, SO_RCVTIMEO, s->rcv_ms);
	teach_time(made, SO_SNDTIMEO, s->snd_ms);
	(void)sock_libc.setsockopt(made, SOL_SOCKET, SO_LINGER, &s->linger, sizeof(s->linger));
	sock_opts_teach(s, made);
	if (wire != sock_wire_usual())
		(void)sock_wire_set(made, RNIC_WIRE, &wire, sizeof(wire));
	return made;
}

struct ipc_addr sock_bound(int fd)
{
	struct sockaddr_storage sa;
	struct ipc_addr a = { .port = 0 };
	socklen_t len = sizeof(sa);

	if (sock_libc.getsockname(fd, (struct sockaddr *)&sa, &len) != 0 ||
	    !sock_addr_in((struct sockaddr *)&sa, len, &a))
		a.port = 0;
	return a;
}
