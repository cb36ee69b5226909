/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `rnicrun --embedded --sockets`: the wire iwarp over the kernel's TCP, served by a process that rnicrun has started.
 * The kernel's socket stays the kernel's until it listens or connects: the kernel checks its address and port, and says
 * what is wrong. Then that process takes the kernel's socket over, and the program's descriptor becomes one of ours.
 */
#include <errno.h>
#include <fcntl.h>

#include <rnic/sock.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

/* The kernel's socket neither listens nor connects any more, so the program may try again; a bound port stays. */
static void undo(int fd)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)sock_libc.connect(fd, &none, sizeof(none));
}

/*
 * The kernel's socket fd becomes ours, with the file status flags `flags`. to: as of sock_take_new(). Returns the
 * socket, held; NULL and errno: fd is the kernel's socket still, as it was before listen() or connect().
 */
static struct sock *taken(int fd, int flags, const struct ipc_addr *to, uint32_t backlog)
{
	struct sock *s = sock_new(sock_option(fd, SO_DOMAIN));
	int made, err = ENOMEM;

	if (s != NULL) {
		sock_settings(s, fd);
		s->wire = RNIC_WIRE_IWARP;
		err = sock_take_new(s, fd, to, backlog, &made);
	}
	if (err == 0) {
		err = sock_become(fd, made, O_NONBLOCK, s);
		sock_libc.close(made);
	}
	if (err != 0)
		undo(fd);
	/* the process that serves has set O_NONBLOCK of the kernel's socket */
	(void)sock_libc.fcntl(fd, F_SETFL, flags);
	if (err == 0)
		return s;
	if (s != NULL)
		sock_put(s);
	/* listen() and connect() of the kernel need no descriptor */
	errno = err == EMFILE || err == ENFILE ? ENOBUFS : err;
	return NULL;
}

int sock_kernels_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr a;
	int rc = sock_libc.bind(fd, sa, len);

	if (rc == 0 || errno != EADDRINUSE || !sock_addr_in(sa, len, &a) || sock_wire_of(fd) != RNIC_WIRE_IWARP)
		return rc;
	/* perhaps a program has closed the socket with this port, and the process that serves has not seen it yet */
	sock_await_closed((uint16_t)a.port);
	return sock_libc.bind(fd, sa, len);
}

void sock_kernels_closed(const struct sock *s)
{
	int saved = errno;

	sock_await_closed((uint16_t)s->local.port);
	errno = saved;
}

int sock_kernels_listen(int fd, int backlog)
{
	const bool ours = sock_wire_of(fd) == RNIC_WIRE_IWARP;
	const int flags = sock_libc.fcntl(fd, F_GETFL), rc = sock_libc.listen(fd, backlog);

	if (rc != 0 || !ours)
		return rc;
	struct sock *s = taken(fd, flags, NULL, backlog < 0 ? 4096 : (uint32_t)backlog);
	if (s == NULL)
		return -1;
	sock_put(s);
	return 0;
}

int sock_kernels_connect(int fd, const struct sockaddr *sa, socklen_t len, const struct ipc_addr *to)
{
	const int flags = sock_libc.fcntl(fd, F_GETFL);
	const struct ipc_addr bound = sock_bound(fd);
	int rc;

	if (sock_wire_of(fd) != RNIC_WIRE_IWARP)
		return sock_libc.connect(fd, sa, len);
	(void)sock_libc.fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	rc = sock_libc.connect(fd, sa, len);
	if (rc != 0 && errno != EINPROGRESS) {
		int err = errno;
		(void)sock_libc.fcntl(fd, F_SETFL, flags);
		errno = err;
		return rc;
	}
	struct sock *s = taken(fd, flags, to, 0);
	if (s == NULL)
		return -1;
	s->bound = bound;
	if (s->in_epoll)
		sock_watch(s, fd);
	SOCK_PUT_AFTER(s, rc, sock_connected(s, fd, true));
	return rc;
}
