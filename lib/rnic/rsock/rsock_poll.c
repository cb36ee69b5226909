/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: rpoll() and rselect(), over rsockets and other descriptors together. */
#include "rnic/rsock/rsock.h"

#include <unistd.h>

#define FEW 32 /* descriptors for which no memory is allocated */

/* An entry of the program's list. */
struct item {
	struct rsock *rs; /* NULL: the descriptor is no rsocket */
	struct rsock_waiter waiter;
};

struct poll_call {
	struct pollfd *fds; /* the program's */
	nfds_t n;
	struct item *item;   /* [n] */
	struct pollfd *real; /* [n + 1]: the list for the kernel; the last entry is the thread's eventfd */
	bool any_rs;
	bool listed; /* the thread is in the sockets' lists of waiters */
	struct item few_items[FEW];
	struct pollfd few_real[FEW + 1];
};

/* ---- what a socket is ready for; the lock is held ---- */

static short readiness(const struct rsock *rs)
{
	short r = 0;

	switch (rs->state) {
	case RSOCK_NEW: return POLLOUT | POLLHUP;
	case RSOCK_LISTENING: {
		struct pollfd p = { .fd = rs->ch->fd, .events = POLLIN };
		return poll(&p, 1, 0) == 1 ? POLLIN : 0;
	}
	case RSOCK_ADDR:
	case RSOCK_ROUTE:
	case RSOCK_CONNECTING:
	case RSOCK_ACCEPTING: return 0;
	case RSOCK_OPEN:
	case RSOCK_GONE: break;
	}
	if (rsock_can_recv(rs))
		r |= POLLIN | POLLRDNORM;
	if (rsock_can_send(rs))
		r |= POLLOUT | POLLWRNORM;
	if (rs->rx_end || rs->rx_shut)
		r |= POLLRDHUP;
	/* Programs stop reading at these events, so they are reported only after everything has been read. */
	if (rs->state == RSOCK_GONE && rs->r_avail == 0)
		r |= POLLHUP | (rs->err != 0 ? POLLERR : 0);
	return r;
}

static short revents(const struct rsock *rs, short want) { return readiness(rs) & (want | POLLHUP | POLLERR); }

/* Looks at all sockets; returns how many are ready. With `arm` each raises an event if something happens to it. */
static int look(struct poll_call *p, bool arm)
{
	int ready = 0;

	for (nfds_t i = 0; i < p->n; i++) {
		struct rsock *rs = p->item[i].rs;
		if (rs == NULL)
			continue;
		pthread_mutex_lock(&rs->lock);
		if (rs->state == RSOCK_OPEN || rs->state == RSOCK_GONE)
			rsock_progress(rs);
		else
			rsock_events(rs);
		if (arm)
			rsock_arm(rs);
		p->fds[i].revents = rs->closing ? POLLNVAL : revents(rs, p->fds[i].events);
		pthread_mutex_unlock(&rs->lock);
		ready += p->fds[i].revents != 0;
	}
	return ready;
}

/* ---- sleeping on all sockets ---- */

static void waiters_enter(struct poll_call *p, int wake)
{
	p->listed = true;
	for (nfds_t i = 0; i < p->n; i++) {
		struct rsock *rs = p->item[i].rs;
		if (rs == NULL)
			continue;
		p->item[i].waiter.fd = wake;
		pthread_mutex_lock(&rs->lock);
		rsock_waiter_add(rs, &p->item[i].waiter);
		pthread_mutex_unlock(&rs->lock);
	}
}

static void waiters_leave(struct poll_call *p)
{
	p->listed = false;
	for (nfds_t i = 0; i < p->n; i++) {
		struct rsock *rs = p->item[i].rs;
		if (rs == NULL)
			continue;
		pthread_mutex_lock(&rs->lock);
		rsock_waiter_del(rs, &p->item[i].waiter);
		if (p->real[i].revents != 0)
			rsock_events(rs);
		pthread_mutex_unlock(&rs->lock);
	}
}

/* Ends the holds on the sockets. */
static void let_go(struct poll_call *p)
{
	for (nfds_t i = 0; i < p->n; i++) {
		if (p->item[i].rs != NULL)
			rsock_put(p->item[i].rs);
	}
	if (p->n > FEW) {
		free(p->item);
		free(p->real);
	}
}

/* pthread_cancel() has ended the thread. */
static void gone(void *arg)
{
	struct poll_call *p = arg;

	for (nfds_t i = 0; i < p->n; i++)
		p->real[i].revents = 0;
	if (p->listed)
		waiters_leave(p);
	let_go(p);
}

/* Asks the kernel, and copies its results for other files. Returns their number, or -1 and errno. */
static int ask(struct poll_call *p, nfds_t n, int ms)
{
	int others = 0;

	if (rsock_sleep(p->real, n, ms, gone, p) < 0)
		return -1;
	for (nfds_t i = 0; i < p->n; i++) {
		if (p->item[i].rs == NULL) {
			p->fds[i].revents = p->real[i].revents;
			others += p->real[i].revents != 0;
		}
	}
	return others;
}

static int doze(struct poll_call *p, int ms)
{
	int wake = rsock_wake_fd(), others, err;

	if (wake < 0)
		return -1;
	p->real[p->n] = (struct pollfd){ .fd = wake, .events = POLLIN };
	waiters_enter(p, wake);
	/* What happened before the thread was in the lists woke no thread, so it looks again. */
	others = look(p, true) > 0 ? ask(p, p->n, 0) : ask(p, p->n + 1, ms);
	err = errno;
	waiters_leave(p);
	rsock_wake_clear(wake);
	errno = err;
	return others;
}

static int run(struct poll_call *p, int timeout)
{
	uint64_t begin = rsock_now_us(), t = begin;
	uint32_t polls = 0;
	int ready, others;

	for (;;) {
		ready = look(p, false);
		if (ready > 0 || timeout == 0) {
			others = ask(p, p->n, 0);
			return others < 0 ? -1 : ready + others;
		}
		if (t - begin >= RSOCK_SPIN_US && polls++ >= RSOCK_SPIN_POLLS) {
			int left = timeout < 0 ? -1 : timeout - (int)((t - begin) / 1000);
			if (left == 0 || left < -1)
				timeout = 0;
			others = doze(p, timeout == 0 ? 0 : left);
			if (others < 0)
				return -1;
			if (others > 0) {
				ready = look(p, false);
				return ready + others;
			}
		}
		t = rsock_now_us();
		if (timeout > 0 && t - begin >= (uint64_t)timeout * 1000)
			timeout = 0;
	}
}

int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
	struct poll_call p = { .fds = fds, .n = nfds, .item = p.few_items, .real = p.few_real };
	int n;

	if (nfds > FEW) {
		p.item = calloc(nfds, sizeof(*p.item));
		p.real = calloc(nfds + 1, sizeof(*p.real));
	}
	if (p.item == NULL || p.real == NULL) {
		free(p.item);
		free(p.real);
		errno = ENOMEM;
		return -1;
	}
	rsock_call_begin();
	for (nfds_t i = 0; i < nfds; i++) {
		struct rsock *rs = fds[i].fd >= 0 ? rsock_find(fds[i].fd) : NULL;
		p.item[i] = (struct item){ .rs = rs };
		p.real[i] = (struct pollfd){ .fd = fds[i].fd, .events = rs != NULL ? POLLIN : fds[i].events };
		p.any_rs |= rs != NULL;
	}
	n = p.any_rs ? run(&p, timeout) : rsock_sleep(fds, nfds, timeout, gone, &p);
	const int err = errno;
	let_go(&p);
	rsock_call_end();
	errno = err;
	return n;
}

/* ---- rselect ---- */

static short wanted(int fd, const fd_set *r, const fd_set *w, const fd_set *x)
{
	return (short)((r != NULL && FD_ISSET(fd, r) ? POLLIN : 0) | (w != NULL && FD_ISSET(fd, w) ? POLLOUT : 0) |
		       (x != NULL && FD_ISSET(fd, x) ? POLLPRI : 0));
}

/* Leaves in the set those members that are ready; returns their number. */
static int keep(fd_set *set, const struct pollfd *p, short asked, short when)
{
	if (set == NULL || (p->events & asked) == 0)
		return 0;
	if ((p->revents & when) != 0)
		return 1;
	FD_CLR(p->fd, set);
	return 0;
}

/* rpoll() of a list from malloc(), which is freed if pthread_cancel() ends the thread. */
static int poll_of_heap(struct pollfd *fds, nfds_t n, int timeout)
{
	int got;

	pthread_cleanup_push(free, fds);
	got = rpoll(fds, n, timeout);
	pthread_cleanup_pop(0);
	return got;
}

int rselect(int nfds, fd_set *r, fd_set *w, fd_set *x, struct timeval *tv)
{
	struct pollfd *fds;
	nfds_t n = 0;
	int got, bits = 0;

	if (nfds < 0 || nfds > FD_SETSIZE) {
		errno = EINVAL;
		return -1;
	}
	fds = calloc((size_t)nfds + 1, sizeof(*fds));
	if (fds == NULL)
		return -1;
	for (int fd = 0; fd < nfds; fd++) {
		short events = wanted(fd, r, w, x);
		if (events != 0)
			fds[n++] = (struct pollfd){ .fd = fd, .events = events };
	}
	got = poll_of_heap(fds, n, tv == NULL ? -1 : (int)(tv->tv_sec * 1000 + (tv->tv_usec + 999) / 1000));
	for (nfds_t i = 0; i < n && got >= 0; i++) {
		if ((fds[i].revents & POLLNVAL) != 0) {
			errno = EBADF;
			got = -1;
			break;
		}
		bits += keep(r, &fds[i], POLLIN, POLLIN | POLLHUP | POLLERR);
		bits += keep(w, &fds[i], POLLOUT, POLLOUT | POLLERR);
		bits += keep(x, &fds[i], POLLPRI, POLLPRI);
	}
	free(fds);
	return got < 0 ? -1 : bits;
}
