/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for several descriptors. The memory of a socket of ours tells what the socket is ready for; its descriptor
 * wakes a thread that sleeps. A stream's descriptor is settled just before a thread sleeps at it; that of a datagram
 * socket is kept up to date from the first poll() or select() on. Lists without a socket of ours are passed to the
 * kernel.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC __attribute__((visibility("default")))
#define FEW    64u /* descriptors for which no memory is allocated, and at which a thread looks before it sleeps */
#define LOOKS  64u /* looks at descriptors between two yields of the CPU */
#define ALWAYS (POLLERR | POLLHUP | POLLNVAL)
#define TICK   (100 * RN_NS_PER_MS) /* between looks at a stream whose end wakes nobody */

static bool is_ours(int fd)
{
	return (uint32_t)fd < SOCK_FDS && __atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) != NULL;
}

static bool some_ours(const struct pollfd *p, nfds_t n)
{
	for (nfds_t i = 0; i < n; i++)
		if (is_ours(p[i].fd))
			return true;
	return false;
}

static short bound_events(const struct sock *s)
{
	int in = s->rx_shut ? POLLIN | POLLRDNORM | POLLRDHUP : 0;

	return (short)(in | POLLOUT | POLLWRNORM | POLLHUP);
}

/* The events of a socket. told: the events of its descriptor; 0: the descriptor has not been polled in this look. */
static short events_of(const struct sock *s, short told)
{
	switch (s->kind) {
	case SOCK_BOUND: return bound_events(s);
	case SOCK_LISTENS: return (short)(told & (POLLIN | POLLRDNORM | POLLNVAL));
	case SOCK_IS_STREAM: return sock_stream_events(s, told);
	case SOCK_IS_GRAM: return sock_gram_events(s, told);
	}
	return 0;
}

/* One look at a list. */
struct look {
	struct pollfd *all; /* the program's list, followed by the kernel's sockets below some of its entries */
	nfds_t *of;         /* for each of those sockets: the index of the program's entry */
	nfds_t n, below;
	bool streams; /* the list has streams, and otherwise only sockets of ours without a kernel's socket below */
	bool mute;    /* a stream's end, which the program waits for, shows at no descriptor */
};

/*
 * The program waits for the stream's end only: the descriptor shows the end as POLLRDHUP. If it shows that already, it
 * will not change at the end.
 */
static void look_for_end(struct look *l, nfds_t i, const struct sock *s)
{
	if ((l->all[i].events & (POLLIN | POLLRDNORM | POLLRDHUP | POLLOUT | POLLWRNORM)) != 0)
		return;
	if ((sock_stream_events(s, 0) & POLLRDHUP) == 0)
		l->all[i].events |= POLLRDHUP;
	else
		l->mute = true;
}

/* Fills the list. True: the memory of a socket already shows an event. */
static bool look_first(struct look *l, struct pollfd *p)
{
	bool some = false, others = false;

	l->below = 0;
	l->streams = l->mute = false;
	for (nfds_t i = 0; i < l->n; i++) {
		struct sock *s = sock_get(p[i].fd);
		l->all[i] = p[i];
		if (s == NULL) {
			others = others || p[i].fd >= 0;
			continue;
		}
		if (s->kind == SOCK_IS_GRAM)
			sock_gram_watch(s, p[i].fd);
		l->streams = l->streams || s->kind == SOCK_IS_STREAM;
		others = others || s->kind == SOCK_IS_GRAM || sock_below_fd(s) >= 0;
		some = some || (events_of(s, 0) & (p[i].events | ALWAYS)) != 0;
		if (s->kind == SOCK_IS_STREAM)
			look_for_end(l, i, s);
		if (s->kind == SOCK_LISTENS)
			l->all[i].events &= (POLLIN | POLLRDNORM);
		int below = (p[i].events & (POLLIN | POLLRDNORM)) != 0 ? sock_below_fd(s) : -1;
		if (below >= 0) {
			l->of[l->below] = i;
			l->all[l->n + l->below++] = (struct pollfd){ .fd = below,
								     .events = p[i].events & (POLLIN | POLLRDNORM) };
		}
		sock_put(s);
	}
	l->streams = l->streams && !others;
	return some;
}

/* Looks at the sockets' memory for a while, but not after `end`. True: there may be an event. */
static bool look_on(const struct look *l, const struct pollfd *p, uint64_t end)
{
	struct sock *held[FEW];
	struct sock_looks t = { 0 };
	bool some = false;

	if (!l->streams || l->n > FEW)
		return false;
	for (nfds_t i = 0; i < l->n; i++)
		held[i] = sock_get(p[i].fd);
	do {
		for (nfds_t looks = 0; looks < LOOKS && !some; looks += l->n)
			for (nfds_t i = 0; i < l->n && !some; i++)
				some = held[i] != NULL && (events_of(held[i], 0) & (p[i].events | ALWAYS)) != 0;
	} while (!some && t.now < end && sock_look_on(&t));
	for (nfds_t i = 0; i < l->n; i++)
		if (held[i] != NULL)
			sock_put(held[i]);
	return some;
}

/*
 * The caller will sleep: the streams' descriptors show what comes from now on. False: something has come since the last
 * look, which no descriptor shows, so the caller must not sleep.
 */
static bool may_sleep(const struct look *l, const struct pollfd *p)
{
	bool may = true;

	for (nfds_t i = 0; i < l->n; i++) {
		struct sock *s = sock_get(p[i].fd);
		if (s == NULL)
			continue;
		may = sock_sleeps(s, p[i].fd, p[i].events) && may;
		sock_put(s);
	}
	return may;
}

/* The descriptor has shown events that the socket does not have any more. */
static void settle(struct sock *s, int fd, short gone)
{
	if (s->kind != SOCK_IS_GRAM)
		(void)sock_settle(s, fd, gone);
	else if ((gone & POLLIN) != 0)
		sock_gram_settle(s, fd);
}

/* Writes the results for the program's descriptors; returns how many have events. */
static int look_behind(const struct look *l, struct pollfd *p)
{
	int ready = 0;

	for (nfds_t i = 0; i < l->n; i++) {
		struct sock *s = sock_get(p[i].fd);
		p[i].revents = l->all[i].revents;
		if (s != NULL) {
			const short shown = l->all[i].revents, events = events_of(s, shown);
			p[i].revents = (short)(events & (p[i].events | ALWAYS));
			settle(s, p[i].fd, (short)(shown & ~events));
			sock_put(s);
		}
	}
	for (nfds_t i = 0; i < l->below; i++)
		p[l->of[i]].revents |= l->all[l->n + i].revents;
	for (nfds_t i = 0; i < l->n; i++)
		ready += p[i].revents != 0;
	return ready;
}

static struct timespec until_then(uint64_t end)
{
	uint64_t now = sock_now(), left = now < end ? end - now : 0;

	return (struct timespec){ .tv_sec = (time_t)(left / RN_NS_PER_S), .tv_nsec = (long)(left % RN_NS_PER_S) };
}

static int look_until(struct look *l, struct pollfd *p, const struct timespec *ts, const sigset_t *mask)
{
	static const struct timespec now;
	uint64_t end = ts == NULL ? UINT64_MAX : sock_end_of(ts);
	bool waits = ts == NULL || ts->tv_sec != 0 || ts->tv_nsec != 0;

	for (;;) {
		bool some = look_first(l, p) || (waits && (look_on(l, p, end) || !may_sleep(l, p)));
		const bool ticks = l->mute && !some;
		struct timespec left = until_then(ticks ? rn_min_u64(end, sock_now() + TICK) : end);
		const struct timespec *sleeps = ts == NULL && !ticks ? NULL : &left;
		int rc = sock_libc.ppoll(l->all, l->n + l->below, some ? &now : sleeps, mask);
		if (rc < 0)
			return rc;
		int ready = look_behind(l, p);
		if (ready > 0 || (!some && !ticks && rc == 0))
			return ready;
		if (ts != NULL && sock_now() >= end)
			return 0;
	}
}

static int poll_ours(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	struct pollfd few[2 * FEW];
	nfds_t few_of[FEW];
	struct look l = { .all = few, .of = few_of, .n = n };

	if (ts != NULL && (ts->tv_sec < 0 || ts->tv_nsec < 0 || ts->tv_nsec >= (long)RN_NS_PER_S)) {
		errno = EINVAL;
		return -1;
	}
	if (n <= FEW)
		return look_until(&l, p, ts, mask);
	l.all = malloc(2 * n * sizeof(*l.all));
	l.of = malloc(n * sizeof(*l.of));
	int rc = -1, err = ENOMEM;
	if (l.all != NULL && l.of != NULL) {
		rc = look_until(&l, p, ts, mask);
		err = errno;
	}
	free(l.all);
	free(l.of);
	errno = err;
	return rc;
}

PUBLIC int poll(struct pollfd *p, nfds_t n, int ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };

	sock_ready();
	return some_ours(p, n) ? poll_ours(p, n, ms < 0 ? NULL : &ts, NULL) : sock_libc.poll(p, n, ms);
}

PUBLIC int ppoll(struct pollfd *p, nfds_t n, const struct timespec *ts, const sigset_t *mask)
{
	sock_ready();
	return some_ours(p, n) ? poll_ours(p, n, ts, mask) : sock_libc.ppoll(p, n, ts, mask);
}

/* The names of these functions in programs that are built with _FORTIFY_SOURCE. */
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

/* ---- select: as a poll of the same descriptors ---- */

struct sets {
	int n;
	fd_set *r, *w, *x;
};

static bool in_set(const fd_set *s, int fd) { return s != NULL && FD_ISSET(fd, s); }

static bool sets_ours(const struct sets *t)
{
	for (int fd = 0; fd < t->n && fd < FD_SETSIZE; fd++)
		if ((in_set(t->r, fd) || in_set(t->w, fd) || in_set(t->x, fd)) && is_ours(fd))
			return true;
	return false;
}

static int put_set(fd_set *s, int fd, bool ready)
{
	if (!in_set(s, fd))
		return 0;
	if (!ready)
		FD_CLR(fd, s);
	return ready;
}

/* The events of each set are those of select(2), "Correspondence between select() and poll() notifications". */
static int select_ours(const struct sets *t, const struct timespec *ts, const sigset_t *mask)
{
	struct pollfd p[FD_SETSIZE];
	nfds_t n = 0;
	int ready = 0;

	for (int fd = 0; fd < t->n && fd < FD_SETSIZE; fd++) {
		int e = (in_set(t->r, fd) ? POLLIN : 0) | (in_set(t->w, fd) ? POLLOUT : 0) |
			(in_set(t->x, fd) ? POLLPRI : 0);
		if (e != 0) /* a socket of ours never has exceptions: its end must not wake who waits for them only */
			p[n++] = (struct pollfd){ .fd = e == POLLPRI && is_ours(fd) ? ~fd : fd, .events = (short)e };
	}
	if (poll_ours(p, n, ts, mask) < 0)
		return -1;
	for (nfds_t i = 0; i < n; i++) {
		if ((p[i].revents & POLLNVAL) != 0) {
			errno = EBADF;
			return -1;
		}
	}
	for (nfds_t i = 0; i < n; i++) {
		const int fd = p[i].fd < 0 ? ~p[i].fd : p[i].fd;
		ready += put_set(t->r, fd, (p[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0);
		ready += put_set(t->w, fd, (p[i].revents & (POLLOUT | POLLERR)) != 0);
		ready += put_set(t->x, fd, (p[i].revents & POLLPRI) != 0);
	}
	return ready;
}

PUBLIC int select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv)
{
	const struct sets t = { n, r, w, x };
	struct timespec ts = { 0 };

	sock_ready();
	if (!sets_ours(&t))
		return sock_libc.select(n, r, w, x, tv);
	if (tv == NULL)
		return select_ours(&t, NULL, NULL);
	if (tv->tv_sec < 0 || tv->tv_usec < 0) {
		errno = EINVAL;
		return -1;
	}
	ts = (struct timespec){ .tv_sec = tv->tv_sec, .tv_nsec = tv->tv_usec % 1000000 * 1000 };
	if (__builtin_add_overflow(ts.tv_sec, tv->tv_usec / 1000000, &ts.tv_sec))
		ts.tv_sec = LONG_MAX;
	uint64_t end = sock_end_of(&ts);
	int rc = select_ours(&t, &ts, NULL);
	ts = until_then(end);
	*tv = (struct timeval){ .tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000 };
	return rc;
}

PUBLIC int pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *ts, const sigset_t *mask)
{
	const struct sets t = { n, r, w, x };

	sock_ready();
	return sets_ours(&t) ? select_ours(&t, ts, mask) : sock_libc.pselect(n, r, w, x, ts, mask);
}
