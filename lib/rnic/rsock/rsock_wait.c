/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: sleeping. A sleeper puts an eventfd of its own into the list of each socket that it waits for, and sleeps
 * on that eventfd and on the socket's descriptor. A thread that wakes may take the event that another one waits for, so
 * a thread that takes events wakes all sleepers.
 */
#include "rnic/rsock/rsock.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* ---- the thread's eventfd ---- */

static pthread_key_t wake_key;
static pthread_once_t wake_once = PTHREAD_ONCE_INIT;
static __thread int wake_fd = -1;

static void wake_close(void *fd) { close((int)(intptr_t)fd - 1); }

/* After fork() the eventfd is the parent's: the child makes its own. */
static void wake_forked(void)
{
	if (wake_fd < 0)
		return;
	close(wake_fd);
	wake_fd = -1;
	pthread_setspecific(wake_key, NULL);
}

static void wake_init(void)
{
	pthread_key_create(&wake_key, wake_close);
	pthread_atfork(NULL, NULL, wake_forked);
}

int rsock_wake_fd(void)
{
	if (wake_fd >= 0)
		return wake_fd;
	pthread_once(&wake_once, wake_init);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd >= 0)
		pthread_setspecific(wake_key, (void *)(intptr_t)(wake_fd + 1));
	return wake_fd;
}

void rsock_wake_clear(int fd)
{
	uint64_t v;
	ssize_t n = read(fd, &v, sizeof(v));
	(void)n;
}

void rsock_waiter_add(struct rsock *rs, struct rsock_waiter *w) { rn_list_push_front(&rs->waiters, &w->link); }

void rsock_waiter_del(struct rsock *rs, struct rsock_waiter *w) { rn_list_remove(&rs->waiters, &w->link); }

void rsock_kick(struct rsock *rs)
{
	rn_list_each(struct rsock_waiter, w, &rs->waiters, link) {
		uint64_t one = 1;
		ssize_t n = write(w->fd, &one, sizeof(one));
		(void)n; /* a full counter wakes the sleeper as well */
	}
}

/* ---- events ---- */

void rsock_arm(struct rsock *rs)
{
	if (rs->cq == NULL || rs->armed)
		return;
	rs->armed = true;
	ibv_req_notify_cq(rs->cq, 0);
	/* Handles completions that came before the request for an event. */
	rsock_progress(rs);
}

void rsock_events(struct rsock *rs)
{
	struct epoll_event ev[2];
	struct ibv_cq *cq;
	void *context;

	if (epoll_wait(rs->fd, ev, 2, 0) <= 0)
		return;
	while (rs->cc != NULL && ibv_get_cq_event(rs->cc, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		rs->armed = false;
	}
	rsock_progress(rs);
	if (rs->state != RSOCK_LISTENING)
		rsock_cm_events(rs);
	rsock_kick(rs);
}

uint64_t rsock_now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- sleeping ---- */

int rsock_sleep(struct pollfd *p, nfds_t n, int ms, void (*gone)(void *arg), void *arg)
{
	const struct rsock_call call = rsock_call; /* a signal handler may make calls meanwhile */
	int got, err, off;

	pthread_cleanup_push(gone, arg);
	pthread_setcancelstate(call.cancel, &off);
	got = poll(p, n, ms);
	err = errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &off);
	pthread_cleanup_pop(0);
	rsock_call = call;
	errno = err;
	return got;
}

/* A thread in rsock_doze(). */
struct dozer {
	struct rsock *rs;
	struct rsock_waiter me;
	pthread_mutex_t *turn;
};

static void dozer_gone(void *arg)
{
	struct dozer *d = arg;

	pthread_mutex_lock(&d->rs->lock);
	rsock_waiter_del(d->rs, &d->me);
	pthread_mutex_unlock(&d->rs->lock);
	if (d->turn != NULL)
		pthread_mutex_unlock(d->turn);
	rsock_put(d->rs);
}

/* Whether all handlers of the program have SA_RESTART: which of them has run is not known. */
static bool handlers_restart(void)
{
	struct sigaction a;

	for (int sig = 1; sig < NSIG; sig++)
		if (sigaction(sig, NULL, &a) == 0 && a.sa_handler != SIG_DFL && a.sa_handler != SIG_IGN &&
		    (a.sa_flags & SA_RESTART) == 0)
			return false;
	return true;
}

static int doze_on(struct rsock *rs, int ms, bool quietly)
{
	struct dozer d = { .rs = rs, .me.fd = rsock_wake_fd(), .turn = rsock_call.turn };
	struct pollfd p[2] = { { .fd = rs->fd, .events = POLLIN }, { .fd = d.me.fd, .events = POLLIN } };
	int n, err;

	if (d.me.fd < 0)
		return errno;
	rsock_waiter_add(rs, &d.me);
	pthread_mutex_unlock(&rs->lock);
	n = quietly ? poll(p, 2, ms) : rsock_sleep(p, 2, ms, dozer_gone, &d);
	err = n < 0 ? errno : 0;
	if (err == EINTR && ms < 0 && handlers_restart())
		err = 0; /* Linux restarts calls of sockets that have no time limit (signal(7)), and never poll() */
	pthread_mutex_lock(&rs->lock);
	rsock_waiter_del(rs, &d.me);
	if (n > 0 && p[1].revents != 0)
		rsock_wake_clear(d.me.fd);
	if (n > 0 && p[0].revents != 0)
		rsock_events(rs);
	return err;
}

int rsock_doze(struct rsock *rs, int ms) { return doze_on(rs, ms, false); }

struct wait {
	bool (*ready)(const struct rsock *rs);
	bool now;     /* must not sleep */
	bool quietly; /* pthread_cancel() does not end the thread */
	int ms;       /* -1: no limit */
};

static int wait_for(struct rsock *rs, const struct wait *w)
{
	uint64_t begin = 0, t = 0;
	uint32_t polls = 0;

	rsock_progress(rs);
	while (!w->ready(rs)) {
		/* Before the connection is up only events change the state. */
		if (rs->state != RSOCK_OPEN) {
			rsock_events(rs);
			if (w->ready(rs))
				return 0;
		}
		if (w->now)
			return EAGAIN;
		t = rsock_now_us();
		begin = begin == 0 ? t : begin;
		if (w->ms >= 0 && t - begin >= (uint64_t)w->ms * 1000)
			return EAGAIN;
		if (rs->state == RSOCK_OPEN && (t - begin < RSOCK_SPIN_US || polls++ < RSOCK_SPIN_POLLS)) {
			/* Another thread may want to look, too. */
			pthread_mutex_unlock(&rs->lock);
			pthread_mutex_lock(&rs->lock);
			rsock_progress(rs);
			continue;
		}
		rsock_arm(rs);
		if (w->ready(rs))
			return 0;
		int rc = doze_on(rs, w->ms < 0 ? -1 : w->ms - (int)((t - begin) / 1000), w->quietly);
		if (rc != 0)
			return rc;
		rsock_progress(rs);
	}
	return 0;
}

int rsock_wait(struct rsock *rs, bool (*ready)(const struct rsock *rs), bool now, int ms)
{
	const struct wait w = { .ready = ready, .now = now, .ms = ms };
	int rc = rs->closing ? EBADF : wait_for(rs, &w);

	return rs->closing ? EBADF : rc;
}

int rsock_wait_quietly(struct rsock *rs, bool (*ready)(const struct rsock *rs), int ms)
{
	const struct wait w = { .ready = ready, .quietly = true, .ms = ms };
	int rc;

	do {
		rc = wait_for(rs, &w);
	} while (rc == EINTR);
	return rc;
}
