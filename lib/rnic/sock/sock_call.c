/* SPDX-License-Identifier: BSD-3-Clause */
/* bind, listen, connect, accept, shutdown and ioctl, in front of libc's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC            __attribute__((visibility("default")))
#define IOCTLS_OF_SOCKETS 0x89 /* the upper byte of an ioctl that asks for interfaces and addresses, as SIOCGIFADDR */

/* ---- from the kernel's descriptor to ours ---- */

static bool is_tcp(int fd)
{
	return sock_option(fd, SO_TYPE) == SOCK_STREAM && sock_option(fd, SO_PROTOCOL) == IPPROTO_TCP;
}

/* Puts a new socket of rnicd's at this address in place of the kernel's; held. NULL and errno. */
static struct sock *become(int fd, const struct ipc_addr *local)
{
	uint32_t reuse = sock_option(fd, SO_REUSEPORT) > 0 ? IPC_SOCK_REUSE : 0;
	struct sock *s = sock_new(sock_option(fd, SO_DOMAIN));
	int made, err = s == NULL ? ENOMEM : sock_bind_new(s, local, reuse, &made);

	if (err == 0)
		s->wire = sock_wire_of(fd); /* fd must still be the kernel's socket here */
	if (err == 0)
		err = sock_replace(fd, made, s);
	if (err == 0)
		return s;
	if (s != NULL)
		sock_put(s);
	errno = err;
	return NULL;
}

static int result(int err)
{
	if (err == 0)
		return 0;
	errno = err;
	return -1;
}

/* bind() on a socket that is the kernel's still. */
static int bind_kernels(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr a;
	int rc;

	if (sock_kernels()) {
		rc = sock_kernels_bind(fd, sa, len);
		if (rc == 0)
			sock_kernels_udp_wire(fd);
		return rc;
	}
	bool known = sock_addr_in(sa, len, &a);
	if (known && sock_udp_bind(fd, &a, sa, len, &rc))
		return rc;
	if (!known || !is_tcp(fd) || !sock_is_port(&a))
		return sock_libc.bind(fd, sa, len);
	struct sock *s = become(fd, &a);
	if (s == NULL)
		return -1;
	s->bound = s->local;
	sock_put(s);
	return 0;
}

static int bind_as(const struct sock *old, int fd)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (old->bound.port == 0)
		return 0;
	sock_addr_out(old, &old->bound, (struct sockaddr *)&sa, &len);
	return bind_kernels(fd, (struct sockaddr *)&sa, len) == 0 ? 0 : errno;
}

/*
 * The number fd, whose connect() as `old` has failed, becomes a new socket, which is bound to the same. The kernel's
 * socket is bound first: if its port is taken meanwhile, fd stays `old`. 0 or an errno.
 */
static int begin_again(struct sock *old, int fd)
{
	const bool first = sock_kernels(); /* a socket of rnicd's has to be bound at its own number */
	const int made = sock_anew(old);
	int err = made < 0 ? errno : first ? bind_as(old, made) : 0;

	if (err == 0)
		err = sock_become(fd, made, O_NONBLOCK, NULL);
	if (made >= 0)
		sock_libc.close(made);
	if (err == 0 && !first)
		err = bind_as(old, fd);
	/* bind(), listen() and connect() of the kernel need no descriptor */
	return err == EMFILE || err == ENFILE ? ENOBUFS : err;
}

/*
 * *s: as sock_get(). A socket whose connect() has failed becomes a new one first, and keeps what it was bound to. 0, or
 * -1 and errno.
 */
static int socket_of(int fd, struct sock **s)
{
	struct sock *old = *s = sock_get(fd);

	if (old == NULL || !sock_has_failed(old))
		return 0;
	const int rc = result(begin_again(old, fd));
	*s = rc == 0 ? sock_get(fd) : NULL;
	sock_put(old);
	return rc;
}

PUBLIC int bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct sock *s;

	sock_ready();
	if (socket_of(fd, &s) != 0)
		return -1;
	if (s == NULL)
		return bind_kernels(fd, sa, len);
	sock_put(s);
	return result(EINVAL);
}

PUBLIC int listen(int fd, int backlog)
{
	struct sock *s;

	sock_ready();
	if (socket_of(fd, &s) != 0)
		return -1;
	if (s == NULL)
		return !is_tcp(fd)      ? sock_libc.listen(fd, backlog)
		       : sock_kernels() ? sock_kernels_listen(fd, backlog)
					: sock_listen_any(fd, backlog);
	if (s->kind == SOCK_LISTENS && s->below >= 0)
		(void)sock_libc.listen(s->below, backlog);
	int err = s->kind == SOCK_IS_GRAM     ? EOPNOTSUPP
		  : s->kind == SOCK_IS_STREAM ? EINVAL
					      : sock_listen(s, backlog < 0 ? 4096 : (uint32_t)backlog);
	sock_put(s);
	return result(err);
}

/* Connects a TCP socket of ours; to NULL: the address is of another family. As connect(). */
static int connect_to(struct sock *s, int fd, const struct ipc_addr *to)
{
	if (s->kind == SOCK_LISTENS || to == NULL)
		return result(s->kind == SOCK_LISTENS ? EISCONN : EAFNOSUPPORT);
	if (s->kind == SOCK_BOUND) {
		int err = sock_connect(s, to);
		if (err == 0 && s->in_epoll)
			sock_watch(s, fd);
		return err == 0 ? sock_connected(s, fd, true) : result(err);
	}
	int rc = sock_connected(s, fd, false);
	return rc != 0 && errno == EINPROGRESS ? result(EALREADY) : rc;
}

PUBLIC int connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr to, from, any;
	struct sock *s;
	int rc;

	sock_ready();
	if (socket_of(fd, &s) != 0)
		return -1;
	bool known = sock_addr_in(sa, len, &to);
	if (s == NULL && sock_kernels())
		return known && is_tcp(fd) ? sock_kernels_connect(fd, sa, len, &to)
					   : sock_kernels_udp_connect(fd, sa, len);
	if (s == NULL) {
		s = known ? sock_udp_sends(fd, sa, len) : NULL;
		if (s != NULL)
			return sock_udp_connect(s, sa, len);
		if (!known || !is_tcp(fd) || !sock_reaches(&to, &from))
			return sock_libc.connect(fd, sa, len);
		const struct ipc_addr bound = sock_bound(fd);
		if (sock_is_at_any(fd, &any)) /* a port that the program has bound the socket to stays */
			from.port = any.port;
		s = become(fd, &from);
		if (s == NULL && from.port != 0 && (errno == EADDRINUSE || errno == EACCES)) {
			from.port = 0; /* rnicd gives that port to one socket only: the peer sees another port */
			s = become(fd, &from);
		}
		if (s == NULL)
			return -1;
		s->bound = bound;
	}
	if (s->kind == SOCK_IS_GRAM)
		return sock_gram_connect(s, sa, len);
	SOCK_PUT_AFTER(s, rc, connect_to(s, fd, known ? &to : NULL));
	return rc;
}

/* The arguments of accept4(), and the descriptor of a connection of the kernel's; -1: none. */
struct accepting {
	struct sockaddr *sa;
	socklen_t *len;
	int flags, fd;
};

/*
 * Accepts a connection of rnicd's as s, whose descriptor becomes *made, or a connection of the kernel's into b->fd. 0 or
 * an errno; EAGAIN: no connection waits. Calls look first at rnicd's and at the kernel's connections in turn.
 */
static int accept_now(struct sock *l, int fd, struct sock *s, int *made, struct accepting *b)
{
	const bool below_first = ++l->turns % 2 != 0;
	int err;

	b->fd = below_first ? sock_accept_below(l, b->sa, b->len, b->flags) : -1;
	if (b->fd >= 0)
		return 0;
	do
		err = sock_accept(l, fd, s, made);
	while (err == ECONNABORTED);
	if (err != EAGAIN || below_first)
		return err;
	b->fd = sock_accept_below(l, b->sa, b->len, b->flags);
	return b->fd >= 0 ? 0 : errno;
}

/* Waits for a connection, of rnicd's or of the kernel's, and accepts it, one of rnicd's as s. As accept(). */
static int accept_as(struct sock *l, int fd, struct sock *s, struct accepting *b)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN }, { .fd = l->below, .events = POLLIN } };
	const uint64_t end = sock_end_in(l->rcv_ms);
	int made = -1, err = accept_now(l, fd, s, &made, b);

	while (err == EAGAIN && !sock_does_not_block(fd, 0)) {
		if (sock_sleep(p, 2, end, true) <= 0) {
			err = errno;
			break;
		}
		fd = p[0].fd = sock_still(l, fd);
		err = fd < 0 ? EBADF : accept_now(l, fd, s, &made, b);
	}
	if (err != 0 || b->fd >= 0)
		return err != 0 ? result(err) : b->fd;
	/* The descriptor arrives from rnicd close-on-exec and without O_NONBLOCK. */
	if ((b->flags & SOCK_CLOEXEC) == 0)
		sock_libc.fcntl(made, F_SETFD, 0);
	if ((b->flags & SOCK_NONBLOCK) != 0)
		sock_libc.fcntl(made, F_SETFL, O_NONBLOCK);
	sock_addr_out(s, &s->remote, b->sa, b->len);
	memcpy(s->opt, l->opt, sizeof(s->opt));
	s->opts = l->opts;
	sock_set(made, s);
	return made;
}

static int accept_one(struct sock *l, int fd, struct accepting *b)
{
	struct sock *s = sock_new(l->domain); /* first: what is taken from the queue must not be lost */
	int rc;

	if (s == NULL)
		return result(ENOMEM);
	SOCK_PUT_AFTER(s, rc, accept_as(l, fd, s, b));
	return rc;
}

PUBLIC int accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.accept4(fd, sa, len, flags);
	struct accepting b = { .sa = sa, .len = len, .flags = flags, .fd = -1 };
	int rc = -1, err = s->kind == SOCK_LISTENS ? 0 : s->kind == SOCK_IS_GRAM ? EOPNOTSUPP : EINVAL;
	if (err == 0) {
		SOCK_PUT_AFTER(s, rc, accept_one(s, fd, &b));
		return rc;
	}
	sock_put(s);
	return result(err);
}

PUBLIC int accept(int fd, struct sockaddr *sa, socklen_t *len) { return accept4(fd, sa, len, 0); }

static int shut(struct sock *s, int fd, int how)
{
	switch (s->kind) {
	case SOCK_IS_GRAM: return sock_udp_shutdown(s, fd, how);
	case SOCK_LISTENS:
		if (how == SHUT_WR)
			return 0;
		/* The socket listens no more. rnicd takes the shut-down of the descriptor for a close. */
		s->kind = SOCK_BOUND;
		(void)sock_libc.shutdown(fd, SHUT_RDWR);
		if (s->below >= 0)
			(void)sock_libc.shutdown(s->below, SHUT_RDWR);
		if (sock_kernels())
			sock_kernels_closed((uint16_t)s->local.port);
		return 0;
	case SOCK_BOUND:
		s->rx_shut = s->rx_shut || how != SHUT_WR;
		s->tx_shut = s->tx_shut || how != SHUT_RD;
		return ENOTCONN;
	case SOCK_IS_STREAM: return sock_shut(s, fd, how);
	}
	return 0;
}

PUBLIC int shutdown(int fd, int how)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.shutdown(fd, how);
	int err = how < SHUT_RD || how > SHUT_RDWR ? EINVAL : shut(s, fd, how);
	sock_put(s);
	return result(err);
}

/* Bytes that the next read finds, and bytes that have not been sent or not been acknowledged. */
static int unread_of(const struct sock *s)
{
	uint32_t n = s->kind == SOCK_IS_GRAM ? sock_gram_next(s) : sock_unread(s);
	int below = n == 0 && s->kind == SOCK_IS_GRAM ? sock_gram_below_fd(s) : -1, there = 0;

	return below >= 0 && sock_libc.ioctl(below, FIONREAD, &there) == 0 ? there : (int)n;
}

static int ioctl_ours(const struct sock *s, int fd, unsigned long what, void *arg)
{
	if (what == FIONREAD || what == SIOCOUTQ) {
		if (s->kind == SOCK_LISTENS)
			return result(EINVAL);
		*(int *)arg = what == FIONREAD ? unread_of(s) : (int)sock_untold(s);
		return 0;
	}
	int rc = sock_libc.ioctl(fd, what, arg);
	if (what == FIOCLEX || what == FIONCLEX)
		sock_flagged(fd);
	if (rc < 0 && errno == ENOTTY && what >> 8 == IOCTLS_OF_SOCKETS) {
		int other = sock_other(s->domain);
		rc = other < 0 ? -1 : sock_libc.ioctl(other, what, arg);
		sock_other_close(other);
	}
	return rc;
}

PUBLIC int ioctl(int fd, unsigned long what, ...)
{
	va_list ap;

	va_start(ap, what);
	void *arg = va_arg(ap, void *);
	va_end(ap);
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s != NULL) {
		int rc = ioctl_ours(s, fd, what, arg);
		sock_put(s);
		return rc;
	}
	int rc = sock_libc.ioctl(fd, what, arg);
	if (what == FIOCLEX || what == FIONCLEX)
		sock_flagged(fd);
	return rc;
}
