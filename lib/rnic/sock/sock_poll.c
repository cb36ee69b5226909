/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for several descriptors is the kernel's; from the first time on ours are kept true for it. */
#include <signal.h>

#include "rnic/sock/sock.h"

#define PUBLIC __attribute__((visibility("default")))

static void watch(int fd)
{
	struct sock *s = sock_get(fd);

	if (s == NULL)
		return;
	sock_watch(s, fd);
	sock_put(s);
}

static void watch_all(const struct pollfd *p, nfds_t n)
{
	sock_ready();
	for (nfds_t i = 0; i < n; i++)
		watch(p[i].fd);
}

PUBLIC int poll(struct pollfd *p, nfds_t n, int ms)
{
	watch_all(p, n);
	return sock_libc.poll(p, n, ms);
}

PUBLIC int ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	watch_all(p, n);
	return sock_libc.ppoll(p, n, ts, mask);
}

/* Names of libc's own for programs that are built with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size);
PUBLIC int __poll_chk(struct pollfd *p, nfds_t n, int ms, size_t size)
{
	(void)size;
	return poll(p, n, ms);
}

int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask, size_t size);
PUBLIC int __ppoll_chk(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask, size_t size)
{
	(void)size;
	return ppoll(p, n, ts, mask);
}

static void watch_sets(int n, const fd_set *r, const fd_set *w)
{
	sock_ready();
	for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++)
		if ((r != NULL && FD_ISSET(fd, r)) || (w != NULL && FD_ISSET(fd, w)))
			watch(fd);
}

PUBLIC int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv)
{
	watch_sets(n, r, w);
	return sock_libc.select(n, r, w, x, tv);
}

PUBLIC int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *ts, const sigset_t *mask)
{
	watch_sets(n, r, w);
	return sock_libc.pselect(n, r, w, x, ts, mask);
}

PUBLIC int epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	sock_ready();
	if (op != EPOLL_CTL_DEL)
		watch(fd);
	return sock_libc.epoll_ctl(ep, op, fd, ev);
}
