/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: signals that come while a call waits. */
#include "rsock_rig.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#define HANG_S 120 /* a case that takes longer waits without end */

static void handler(int sig) { (void)sig; }

static void handle(int flags)
{
	const struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	sigaction(SIGUSR1, &sa, NULL);
}

/* A thread's call, with its result and errno. */
struct call {
	int fd, rc, err;
	uint16_t port; /* to which connects() connects */
};

static void *receives(void *arg)
{
	struct call *c = arg;
	char b;

	c->rc = (int)rrecv(c->fd, &b, 1, 0);
	c->err = errno;
	return NULL;
}

static void *connects(void *arg)
{
	struct sockaddr_in to = srv.addr;
	struct call *c = arg;

	to.sin_port = htons(c->port);
	c->rc = rconnect(c->fd, (struct sockaddr *)&to, sizeof(to));
	c->err = errno;
	return NULL;
}

static void *accepts(void *arg)
{
	struct call *c = arg;

	c->rc = raccept(c->fd, NULL, NULL);
	c->err = errno;
	return NULL;
}

/* Starts a thread in a call, and interrupts it so often that signals find it asleep. */
static bool interrupted(pthread_t *th, void *(*run)(void *call), struct call *c)
{
	CHECK(pthread_create(th, NULL, run, c) == 0);
	for (int i = 0; i < 100; i++) {
		usleep(1000);
		pthread_kill(*th, SIGUSR1);
	}
	return true;
}

bool calls_go_on_after_a_handler_with_sa_restart(void)
{
	struct call r, a, c = { .fd = rsocket(AF_INET, SOCK_STREAM, 0), .port = 9019 },
			  more = { .fd = rsocket(AF_INET, SOCK_STREAM, 0), .port = 9019 };
	pthread_t th;
	struct two t;
	int s;

	alarm(HANG_S);
	handle(SA_RESTART);
	CHECK(two_open(&t, 9019, NULL));
	r.fd = t.s;
	a.fd = t.l;
	CHECK(interrupted(&th, receives, &r) && rsend(t.c, "x", 1, 0) == 1);
	CHECK(pthread_join(th, NULL) == 0 && r.rc == 1);
	CHECK(interrupted(&th, connects, &c) && (s = raccept(t.l, NULL, NULL)) >= 0);
	CHECK(pthread_join(th, NULL) == 0 && c.rc == 0);
	CHECK(interrupted(&th, accepts, &a));
	connects(&more);
	CHECK(pthread_join(th, NULL) == 0 && more.rc == 0 && a.rc >= 0);
	alarm(0);
	return rclose(c.fd) == 0 && rclose(s) == 0 && rclose(more.fd) == 0 && rclose(a.rc) == 0 && two_close(&t);
}

static bool ended(void *(*run)(void *call), struct call *c)
{
	pthread_t th;

	CHECK(interrupted(&th, run, c) && pthread_join(th, NULL) == 0);
	CHECK(c->rc == -1 && c->err == EINTR);
	return true;
}

bool calls_end_after_a_handler_without_sa_restart(void)
{
	struct call r, a, c = { .fd = rsocket(AF_INET, SOCK_STREAM, 0), .port = 9020 };
	pthread_t th;
	struct two t;
	int s;

	alarm(HANG_S);
	handle(0);
	CHECK(two_open(&t, 9020, NULL));
	r.fd = t.s;
	a.fd = t.l;
	CHECK(ended(receives, &r) && ended(accepts, &a) && ended(connects, &c));
	/* the connection goes on, and a further call waits for it */
	CHECK(pthread_create(&th, NULL, connects, &c) == 0 && (s = raccept(t.l, NULL, NULL)) >= 0);
	CHECK(pthread_join(th, NULL) == 0 && c.rc == 0);
	alarm(0);
	return rclose(c.fd) == 0 && rclose(s) == 0 && two_close(&t);
}
