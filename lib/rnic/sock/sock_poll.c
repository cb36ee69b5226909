/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for several descriptors is the kernel's; from the first time on ours are kept true for it. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC __attribute__((visibility("default")))

/* Its readiness is kept true from now on. Returns the kernel's socket below, which may be ready too; -1: none. */
static int watch(int fd)
{
	struct sock *s = sock_get(fd);
	int below = -1;

	if (s == NULL)
		return -1;
	if (s->kind == SOCK_IS_GRAM)
		sock_gram_watch(s, fd);
	else
		sock_watch(s, fd);
	below = sock_gram_below_fd(s);
	sock_put(s);
	return below;
}

/* How many of them have a kernel's socket below. */
static nfds_t watch_all(const struct pollfd *p, nfds_t n)
{
	nfds_t below = 0;

	sock_ready();
	for (nfds_t i = 0; i < n; i++)
		below += watch(p[i].fd) >= 0;
	return below;
}

/* The same call with the kernel's sockets behind the program's list, `more` of them at most. */
static int poll_both(struct pollfd *p, nfds_t n, nfds_t more, const struct timespec *ts, const sigset_t *mask)
{
	struct pollfd *all = malloc((n + more) * sizeof(*all));
	nfds_t *of = malloc(more * sizeof(*of)), k = 0;
	int rc = -1, ready = 0;

	if (all != NULL && of != NULL) {
		memcpy(all, p, n * sizeof(*all));
		for (nfds_t i = 0; i < n && k < more; i++) {
			int below = (p[i].events & (POLLIN | POLLRDNORM)) != 0 ? watch(p[i].fd) : -1;
			if (below < 0)
				continue;
			of[k] = i;
			all[n + k++] = (struct pollfd){ .fd = below, .events = p[i].events & (POLLIN | POLLRDNORM) };
		}
		rc = sock_libc.ppoll(all, n + k, ts, mask);
	} else {
		errno = ENOMEM;
	}
	for (nfds_t i = 0; rc >= 0 && i < k; i++)
		all[of[i]].revents |= all[n + i].revents;
	for (nfds_t i = 0; rc >= 0 && i < n; i++) {
		p[i].revents = all[i].revents;
		ready += p[i].revents != 0;
	}
	free(all);
	free(of);
	return rc < 0 ? rc : ready;
}

PUBLIC int poll(struct pollfd *p, nfds_t n, int ms)
{
	nfds_t below = watch_all(p, n);
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	return below == 0 ? sock_libc.poll(p, n, ms) : poll_both(p, n, below, ms < 0 ? NULL : &ts, NULL);
}

PUBLIC int ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	nfds_t below = watch_all(p, n);

	return below == 0 ? sock_libc.ppoll(p, n, ts, mask) : poll_both(p, n, below, ts, mask);
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

/* The kernel's sockets below those of a set, while a call waits for them too. */
struct both {
	int below[FD_SETSIZE]; /* by descriptor of the program's; valid where it is in `of` */
	fd_set of;
	int n; /* the call's first argument */
};

static void watch_sets(struct both *b, int n, fd_set *r, const fd_set *w)
{
	sock_ready();
	b->n = n;
	FD_ZERO(&b->of);
	for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++) {
		bool in = r != NULL && FD_ISSET(fd, r);
		int below = in || (w != NULL && FD_ISSET(fd, w)) ? watch(fd) : -1;
		if (!in || below < 0 || below >= FD_SETSIZE || FD_ISSET(below, r))
			continue;
		b->below[fd] = below;
		FD_SET(fd, &b->of);
		if (b->n <= below)
			b->n = below + 1;
	}
	for (int fd = 0; fd < n && fd < FD_SETSIZE; fd++)
		if (FD_ISSET(fd, &b->of))
			FD_SET(b->below[fd], r);
}

/* What the call has found, told of the program's own descriptors. Returns the call's result. */
static int told(const struct both *b, int n, fd_set *r, int rc)
{
	for (int fd = 0; b->n > n && fd < n && fd < FD_SETSIZE; fd++) {
		if (!FD_ISSET(fd, &b->of) || !FD_ISSET(b->below[fd], r))
			continue;
		FD_CLR(b->below[fd], r);
		if (rc < 0)
			continue;
		if (FD_ISSET(fd, r))
			rc--;
		FD_SET(fd, r);
	}
	return rc;
}

PUBLIC int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv)
{
	struct both b;

	watch_sets(&b, n, r, w);
	return told(&b, n, r, sock_libc.select(b.n, r, w, x, tv));
}

PUBLIC int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *ts, const sigset_t *mask)
{
	struct both b;

	watch_sets(&b, n, r, w);
	return told(&b, n, r, sock_libc.pselect(b.n, r, w, x, ts, mask));
}

/* The kernel's socket below is in the same set and says the same of itself, but for room to write. */
static void epoll_below(int ep, int op, int fd, const struct epoll_event *ev)
{
	struct sock *s = sock_get(fd);
	int saved = errno;

	if (s != NULL && s->kind == SOCK_IS_GRAM && s->wild && s->below >= 0) {
		struct epoll_event in = { 0 };
		if (ev != NULL)
			in = *ev;
		in.events &= ~(uint32_t)(EPOLLOUT | EPOLLWRNORM | EPOLLWRBAND);
		(void)sock_libc.epoll_ctl(ep, op, s->below, &in);
	}
	if (s != NULL)
		sock_put(s);
	errno = saved;
}

PUBLIC int epoll_ctl(int ep, int op, int fd, struct epoll_event *ev)
{
	sock_ready();
	if (op != EPOLL_CTL_DEL)
		(void)watch(fd);
	int rc = sock_libc.epoll_ctl(ep, op, fd, ev);
	if (rc == 0)
		epoll_below(ep, op, fd, ev);
	return rc;
}
