/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How rnicctl inject reaches a program. A program over rnicd gets orders through an event queue. A program with iWARP
 * in its own process (--embedded, --design host or assisted) is no client of rnicd. It has a socket under an abstract
 * name with its process number, where a thread takes the same message from root and from the program's own user.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "rnic/verbs/fail.h"

#define PATIENCE_S 1 /* time limit for a connection on which no message comes */
#define BACKLOG    16
#define PAUSE_NS   (100 * 1000000L) /* wait before the next try when no descriptor is free */

static pthread_mutex_t door_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static int door = -1;
static bool hooked;

static void nothing_seen(const void *slot, void *arg)
{
	(void)slot;
	(void)arg;
}

static void *orders_take(void *arg)
{
	struct rnic_evq *q = arg;
	union {
		struct ipc_order order;
		uint8_t slot[IPC_EVENT_SLOT_CM];
	} u;

	while (rnic_evq_get(q, u.slot, nothing_seen, NULL) == 0) {
		u.order.spec[sizeof(u.order.spec) - 1] = '\0';
		rnic_inject_order(u.order.spec);
	}
	return NULL; /* rnicd is gone; the queue stays with its session */
}

/* ---- the socket of a process that runs iWARP itself ---- */

static bool may_order(int sock)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	return getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && (cred.uid == 0 || cred.uid == geteuid());
}

static void order_take(int sock)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct ipc_msg m;
	unsigned none = 0;

	if (setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0 ||
	    ipc_recv(sock, &m, NULL, &none) != 0 || m.type != IPC_INJECT || m.len != IPC_MSG_LEN(inject))
		return;
	m.inject.spec[sizeof(m.inject.spec) - 1] = '\0';
	rnic_inject_order(m.inject.spec);
	m.status = 0;
	m.len = IPC_MSG_HDR;
	(void)ipc_send(sock, &m, NULL, 0); /* the asking process may have gone */
}

static void *door_keep(void *arg)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	const int fd = *(const int *)arg;

	for (;;) {
		const int sock = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (sock >= 0) {
			if (may_order(sock)) /* rnicctl checks the same before it sends */
				order_take(sock);
			close(sock);
		} else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			nanosleep(&pause, NULL);
		} else if (errno != EINTR && errno != ECONNABORTED) {
			return NULL;
		}
	}
}

/* After fork(): the child has another process number and no thread; its first device makes a socket of its own. */
static void door_child(void)
{
	pthread_mutex_init(&door_lock, NULL);
	if (door >= 0)
		close(door);
	door = -1;
}

static int door_make(void)
{
	struct sockaddr_un un;
	const socklen_t len = ipc_orders_name(&un, (uint32_t)getpid());
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd >= 0 && (bind(fd, (struct sockaddr *)&un, len) != 0 || listen(fd, BACKLOG) != 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* Makes the socket and its thread. If there is no thread, rnicctl reports that the program takes no orders. */
static void door_open(void)
{
	pthread_mutex_lock(&door_lock);
	if (!hooked)
		hooked = pthread_atfork(NULL, NULL, door_child) == 0;
	if (hooked && door < 0) {
		door = door_make();
		if (door >= 0 && rnic_thread(door_keep, &door) != 0) {
			close(door);
			door = -1;
		}
	}
	pthread_mutex_unlock(&door_lock);
}

void rnic_orders_begin(struct rnic_session *s)
{
	struct rnic_evq *q = NULL;

	if (s->own.turn != NULL) {
		door_open();
		return;
	}
	q = calloc(1, sizeof(*q));
	if (q == NULL || rnic_evq_open(q, s, IPC_CHANNEL_ORDERS, 0) != 0)
		free(q);
	else
		(void)rnic_thread(orders_take, q); /* without the thread rnicctl gets a success, but nothing happens */
}
