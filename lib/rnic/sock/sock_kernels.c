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

/* A socket's name before listen() or connect(). */
struct name {
	struct sockaddr_storage sa;
	socklen_t len;
	struct ipc_addr bound; /* port 0: the program has not bound the socket */
};

static struct name name_of(int fd)
{
	struct name n = { .len = sizeof(n.sa) };
	struct sockaddr *sa = (struct sockaddr *)&n.sa;

	if (sock_libc.getsockname(fd, sa, &n.len) != 0 || !sock_addr_in(sa, n.len, &n.bound))
		n.bound.port = 0;
	return n;
}

/*
 * The kernel's socket neither listens nor connects any more, so the program may try again. The kernel has released a
 * port that it has chosen itself, even if the program had it chosen by bind(): then the socket is bound once more.
 */
static void undo(int fd, const struct name *was)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	(void)sock_libc.connect(fd, &none, sizeof(none));
	if (was->bound.port != 0)
		(void)sock_libc.bind(fd, (const struct sockaddr *)&was->sa, was->len);
}

/*
 * The kernel's socket fd becomes ours, with the file status flags `flags`. to: as of sock_take_new(). Returns the
 * socket, held; NULL and errno: fd is the kernel's socket still, as it was before listen() or connect(), with the name
 * `was`.
 */
static struct sock *taken(int fd, int flags, const struct name *was, const struct ipc_addr *to, uint32_t backlog)
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
	if (err != 0) {
		undo(fd, was);
		/* the process that serves may have switched it off, to close its own descriptor */
		if (s != NULL)
			(void)sock_libc.setsockopt(fd, SOL_SOCKET, SO_LINGER, &s->linger, sizeof(s->linger));
	}
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

void sock_kernels_closed(uint16_t port)
{
	int saved = errno;

	sock_await_closed(port);
	errno = saved;
}

int sock_kernels_listen(int fd, int backlog)
{
	const bool ours = sock_wire_of(fd) == RNIC_WIRE_IWARP;
	const struct name was = name_of(fd);
	const int flags = sock_libc.fcntl(fd, F_GETFL), rc = sock_libc.listen(fd, backlog);

	if (rc != 0 || !ours)
		return rc;
	struct sock *s = taken(fd, flags, &was, NULL, backlog < 0 ? 4096 : (uint32_t)backlog);
	if (s == NULL)
		return -1;
	sock_put(s);
	return 0;
}

int sock_kernels_connect(int fd, const struct sockaddr *sa, socklen_t len, const struct ipc_addr *to)
{
	const int flags = sock_libc.fcntl(fd, F_GETFL);
	const struct name was = name_of(fd);
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
	struct sock *s = taken(fd, flags, &was, to, 0);
	if (s == NULL)
		return -1;
	s->bound = was.bound;
	if (s->in_epoll)
		sock_watch(s, fd);
	SOCK_PUT_AFTER(s, rc, sock_connected(s, fd, true));
	return rc;
}
