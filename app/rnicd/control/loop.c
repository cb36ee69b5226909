/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/loop.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "border/event.h"

#define BATCH        64
#define TIMERS_MAX   256u /* timers that one turn handles */
#define SLEEP_MAX_MS 1000 /* also the longest delay of events that make no descriptor readable */

static int ep = -1;
static int poke_fd = -1;
static struct rn_wheel wheel;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loop_fd poke_src, worker_src;

static void drain(struct loop_fd *f, uint32_t events)
{
	uint64_t n;

	(void)events;
	ssize_t r = read(f->fd, &n, sizeof(n));
	(void)r; /* EAGAIN: another thread has read it */
}

/* event_awake(), which the loop calls after every sleep, reads the descriptor. */
static void awake(struct loop_fd *f, uint32_t events)
{
	(void)f;
	(void)events;
}

bool loop_start(void)
{
	ep = epoll_create1(EPOLL_CLOEXEC);
	poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (ep < 0 || poke_fd < 0)
		return false;
	rn_wheel_init(&wheel, rnicd_now());
	poke_src = (struct loop_fd){ .fd = -1, .ready = drain };
	worker_src = (struct loop_fd){ .fd = -1, .ready = awake };
	return loop_add(&poke_src, poke_fd, EPOLLIN) && loop_add(&worker_src, rnicd.control_fd, EPOLLIN);
}

void loop_stop(void)
{
	close(ep);
	close(poke_fd);
	ep = poke_fd = -1;
}

bool loop_add(struct loop_fd *f, int fd, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = f };

	if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0)
		return false;
	f->fd = fd;
	return true;
}

void loop_events(struct loop_fd *f, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = f };

	if (f->fd >= 0)
		epoll_ctl(ep, EPOLL_CTL_MOD, f->fd, &e);
}

void loop_del(struct loop_fd *f)
{
	if (f->fd >= 0)
		epoll_ctl(ep, EPOLL_CTL_DEL, f->fd, NULL);
	f->fd = -1;
}

void loop_timer_arm(struct loop_timer *t, uint64_t when) { rn_wheel_arm(&wheel, &t->t, when); }
void loop_timer_disarm(struct loop_timer *t) { rn_wheel_disarm(&wheel, &t->t); }

/* Clients decide how many timers are due at once. Those that are left come in the next turn, which does not sleep. */
static void run_timers(void)
{
	uint64_t now = rnicd_now();
	struct rn_timer *t;

	for (uint32_t n = 0; n < TIMERS_MAX && (t = rn_wheel_pop(&wheel, now)) != NULL; n++) {
		struct loop_timer *l = rn_container_of(t, struct loop_timer, t);
		l->due(l);
	}
}

static int sleep_ms(void)
{
	uint64_t next = rn_wheel_next(&wheel), now = rnicd_now();

	if (next <= now)
		return 0;
	return (int)rn_min_u64((next - now + RN_NS_PER_MS - 1) / RN_NS_PER_MS, SLEEP_MAX_MS);
}

static void wait_and_serve(bool may_sleep)
{
	struct epoll_event e[BATCH];
	int ms = 0, n;

	if (may_sleep && event_prepare_sleep())
		ms = sleep_ms();
	pthread_mutex_unlock(&lock);
	n = epoll_wait(ep, e, BATCH, ms);
	pthread_mutex_lock(&lock);
	event_awake();
	for (int i = 0; i < n; i++) {
		struct loop_fd *f = e[i].data.ptr;
		if (f->fd >= 0) /* not removed by a handler before it in this batch */
			f->ready(f, e[i].events);
	}
}

void loop_run(const struct loop_hooks *h)
{
	bool idle = false;

	pthread_mutex_lock(&lock);
	while (!h->until()) {
		wait_and_serve(idle);
		run_timers();
		idle = h->collect() == 0;
		h->turn_end();
	}
	pthread_mutex_unlock(&lock);
}

void loop_lock(void) { pthread_mutex_lock(&lock); }
void loop_unlock(void) { pthread_mutex_unlock(&lock); }

void loop_poke(void)
{
	uint64_t one = 1;
	ssize_t r = write(poke_fd, &one, sizeof(one));

	(void)r; /* EAGAIN: it is readable anyway */
}
