/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP listener at all addresses, as most servers have it, becomes two listeners: a socket of rnicd's that listens at
 * all of rnicd's ports, and below it the kernel's socket, which goes on listening. If rnicd refuses to listen, the
 * kernel's socket listens alone, and one line on stderr says so.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

static void any_say(const struct ipc_addr *a, int err)
{
	static bool said; /* read and written by any thread; a child of fork inherits it */
	char line[256];

	if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		return;
	int n = snprintf(line, sizeof(line),
			 "librnicsock: the TCP listener at port %u of all addresses is served by the kernel alone, "
			 "since rnicd "
			 "refuses it: %s\n",
			 a->port, strerror(err));
	if (sock_libc.write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr is closed */
}

bool sock_is_at_any(int fd, struct ipc_addr *a)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	return sock_libc.getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	       sock_addr_in((struct sockaddr *)&sa, len, a) && sock_addr_is_any(a);
}

static uint32_t families_of(int fd)
{
	int only = 0;
	socklen_t len = sizeof(only);

	if (sock_option(fd, SO_DOMAIN) != AF_INET6)
		return IPC_SOCK_IP4;
	(void)sock_libc.getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len);
	return only != 0 ? IPC_SOCK_IP6 : IPC_SOCK_IP4 | IPC_SOCK_IP6;
}

/* Makes rnicd's listener at the kernel's port; *made: its descriptor. 0 or an errno. */
static int listen_at_all(struct sock *s, int fd, const struct ipc_addr *a, uint32_t backlog, int *made)
{
	struct ipc_addr all = { .port = a->port };
	uint32_t reuse = sock_option(fd, SO_REUSEPORT) > 0 ? IPC_SOCK_REUSE : 0;
	int err = sock_bind_new(s, &all, families_of(fd) | reuse, made);

	if (err != 0)
		return err;
	err = sock_listen(s, backlog);
	if (err != 0)
		sock_libc.close(*made);
	return err;
}

/* Puts s in fd's place, above the kernel's listener. 0 or an errno; `made` is closed then. */
static int place_above(int fd, int made, struct sock *s)
{
	s->below = sock_libc_aside(fd);
	if (s->below < 0) {
		int err = errno;
		sock_libc.close(made);
		return err;
	}
	s->wild = s->below_live = true;
	int flags = sock_libc.fcntl(fd, F_GETFL), err = sock_replace(fd, made, s);
	/* accept() must not block: another process may take the connection that poll() has reported */
	if (err == 0)
		(void)sock_libc.fcntl(s->below, F_SETFL, flags | O_NONBLOCK);
	sock_below_follows(s);
	return err;
}

int sock_listen_any(int fd, int backlog)
{
	struct ipc_addr a;
	int saved = errno, made, rc, err;

	if (!sock_is_at_any(fd, &a) || sock_world() == NULL) {
		errno = saved;
		return sock_libc.listen(fd, backlog);
	}
	rc = sock_libc.listen(fd, backlog);
	if (rc != 0 || !sock_is_at_any(fd, &a)) /* asks again: an unbound socket gets its port by listen() */
		return rc;
	struct sock *s = sock_new(sock_option(fd, SO_DOMAIN));
	err = s == NULL ? ENOMEM : listen_at_all(s, fd, &a, backlog < 0 ? 4096 : (uint32_t)backlog, &made);
	if (err == 0)
		err = place_above(fd, made, s);
	if (s != NULL)
		sock_put(s);
	if (err != 0)
		any_say(&a, err);
	errno = saved;
	return 0;
}

int sock_accept_below(const struct sock *l, struct sockaddr *sa, socklen_t *len, int flags)
{
	if (l->below >= 0)
		return sock_libc.accept4(l->below, sa, len, flags);
	errno = EAGAIN;
	return -1;
}

int sock_below_fd(const struct sock *s) { return s->kind == SOCK_LISTENS ? s->below : sock_gram_below_fd(s); }
