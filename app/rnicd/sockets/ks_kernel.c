/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's TCP sockets as this plane's connections: design embedded. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "sockets/ks.h"

#define PROBES_MIN 3u /* probes of a closed window in a row without an answer: the peer may be silent */

/* librnicsock waits for SO_LINGER (sock_linger): the process that serves sockets must not wait in close(). */
static void linger_not(int fd)
{
	struct linger l = { 0 };
	socklen_t len = sizeof(l);

	if (getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len) != 0 || l.l_onoff == 0 || l.l_linger == 0)
		return;
	l.l_onoff = 0;
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static void kernel_close(struct ks_src *s)
{
	if (s->fd >= 0 && ks.serves)
		linger_not(s->fd);
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* Binds the socket to the local end. On failure false and errno, and the socket has been closed. */
static bool bound(struct ks_src *s, const struct conn_addr *a)
{
	union ks_sockaddr at;
	const socklen_t len = ks_sockaddr(&at, a->port, &a->local, a->lport);

	if (s->fd >= 0 && bind(s->fd, &at.sa, len) == 0)
		return true;
	int err = errno;
	kernel_close(s);
	errno = err;
	return false;
}

/* Makes TCP send short segments at once. */
static void at_once(const struct ks_src *s)
{
	int one = 1;

	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static bool kernel_open(struct ks_src *s, const struct conn_addr *a)
{
	s->fd = ks_socket(&a->local, SOCK_STREAM);
	at_once(s);
	return bound(s, a);
}

static uint16_t kernel_lport(const struct ks_src *s)
{
	union ks_sockaddr at = { .sa = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(at);
	uint16_t port = 0;

	if (getsockname(s->fd, &at.sa, &len) == 0)
		(void)ks_sockaddr_ip(&at, &port);
	return port;
}

static void kernel_tos(const struct ks_src *s, uint8_t tos)
{
	int value = tos;

	setsockopt(s->fd, IPPROTO_IP, IP_TOS, &value, sizeof(value));
	setsockopt(s->fd, IPPROTO_IPV6, IPV6_TCLASS, &value, sizeof(value)); /* fails on an IPv4 socket, harmlessly */
}

static void kernel_keepalive(const struct ks_src *s, uint64_t ns)
{
	int one = 1, idle = (int)(ns / RN_NS_PER_S);

	if (idle == 0)
		return;
	setsockopt(s->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(s->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(s->fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
}

static bool kernel_connect(const struct ks_src *s, const struct conn_addr *a)
{
	union ks_sockaddr to;
	const socklen_t len = ks_sockaddr(&to, a->port, &a->remote, a->rport);

	return connect(s->fd, &to.sa, len) == 0 || errno == EINPROGRESS;
}

static int kernel_connected(const struct ks_src *s)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 ? errno : err;
}

/*
 * A descriptor that is given up when the process has no other: a connection that is accepted with it can be closed.
 * Unaccepted it would keep its listener readable. -1: none.
 */
static int spare = -1;

static void spare_open(void)
{
	if (spare < 0)
		spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Closes the connection that waits longest. */
static void refuse(const struct ks_src *l)
{
	if (spare < 0)
		return;
	close(spare);
	spare = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (spare >= 0)
		close(spare);
	spare = -1;
}

static bool kernel_listen(struct ks_src *s, const struct conn_addr *at, const struct ks_listening *how)
{
	const bool has_port = s->fd >= 0;
	int one = 1;

	if (!has_port)
		s->fd = ks_socket(&at->local, SOCK_STREAM);
	if (s->fd >= 0)
		setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (s->fd >= 0 && how->shared)
		setsockopt(s->fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	kernel_tos(s, how->tos); /* the listener's connections inherit the TOS */
	if (!has_port && !bound(s, at))
		return false;
	if (listen(s->fd, (int)how->backlog) == 0) {
		spare_open();
		return true;
	}
	int err = errno;
	kernel_close(s);
	errno = err;
	return false;
}

static bool kernel_accept(const struct ks_src *l, struct ks_src *s)
{
	s->fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (s->fd >= 0) {
		at_once(s);
		return true;
	}
	const int err = errno;
	if (err == EMFILE || err == ENFILE) {
		refuse(l);
		spare_open();
	}
	errno = err;
	return false;
}

static int option_of(int fd, int which)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, which, &value, &len) == 0 ? value : -1;
}

static int kernel_take(int fd, struct ks_src *s, char *err, uint32_t err_len)
{
	if (option_of(fd, SO_TYPE) != SOCK_STREAM || option_of(fd, SO_PROTOCOL) != IPPROTO_TCP) {
		int rc = fcntl(fd, F_GETFD) < 0 ? EBADF : ENOTSOCK;
		snprintf(err, err_len, "descriptor %d is no TCP socket of the kernel's", fd);
		return rc;
	}
	spare_open();
	s->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (s->fd >= 0)
		return 0;
	snprintf(err, err_len, "no file descriptors: raise the limit of the program's (ulimit -n)");
	return EMFILE;
}

static void kernel_begin(const struct ks_src *s)
{
	fcntl(s->fd, F_SETFL, fcntl(s->fd, F_GETFL) | O_NONBLOCK);
	at_once(s);
}

static bool kernel_ends(const struct ks_src *s, struct conn_addr *a)
{
	union ks_sockaddr local = { .sa = { .sa_family = AF_UNSPEC } }, remote = local;
	socklen_t len = sizeof(local), rlen = sizeof(remote);

	if (getsockname(s->fd, &local.sa, &len) != 0 || getpeername(s->fd, &remote.sa, &rlen) != 0)
		return false;
	a->local = ks_sockaddr_ip(&local, &a->lport);
	a->remote = ks_sockaddr_ip(&remote, &a->rport);
	return true;
}

static uint32_t kernel_mss(const struct ks_src *s)
{
	int mss = 0;
	socklen_t len = sizeof(mss);

	return getsockopt(s->fd, IPPROTO_TCP, TCP_MAXSEG, &mss, &len) == 0 && mss > 0 ? (uint32_t)mss : 0;
}

static ssize_t kernel_recv(const struct ks_src *s, void *to, size_t len) { return recv(s->fd, to, len, 0); }

static ssize_t kernel_send(const struct ks_src *s, const struct iovec *iov, uint32_t n)
{
	const struct msghdr mh = { .msg_iov = (struct iovec *)iov, .msg_iovlen = n };

	return sendmsg(s->fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static uint32_t kernel_unacked(const struct ks_src *s)
{
	int left = 0;

	return ioctl(s->fd, SIOCOUTQ, &left) == 0 ? (uint32_t)left : 0;
}

/*
 * TCP_USER_TIMEOUT would also end connections with a peer that answers, but keeps its window closed. The last of the
 * retransmissions in a row has doubled the time-out to tcpi_rto, so all of them have waited nearly as long before it.
 */
static uint64_t kernel_unanswered(const struct ks_src *s)
{
	struct tcp_info i = { .tcpi_state = 0 };
	socklen_t len = sizeof(i);

	if (getsockopt(s->fd, IPPROTO_TCP, TCP_INFO, &i, &len) != 0)
		return 0;
	const uint64_t rto = i.tcpi_rto * RN_NS_PER_US, silent = i.tcpi_last_ack_recv * RN_NS_PER_MS;
	if (i.tcpi_retransmits > 0)
		return rn_min_u64(silent, rto - (rto >> i.tcpi_retransmits % 64));
	return i.tcpi_probes >= PROBES_MIN ? silent : 0;
}

static void kernel_finish(const struct ks_src *s) { shutdown(s->fd, SHUT_WR); }

/*
 * Resets the connection. With SO_LINGER close() sends the reset; but a socket that was handed over may have further
 * descriptors, so connect() to AF_UNSPEC resets the connection at once.
 */
static void kernel_reset(const struct ks_src *s)
{
	const struct linger now = { .l_onoff = 1 };
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)connect(s->fd, &none, sizeof(none)); /* if this fails, the connection has ended already */
}

const struct ks_net ks_net_kernel = {
	.ports = ks_ports,
	.open = kernel_open,
	.lport = kernel_lport,
	.keepalive = kernel_keepalive,
	.tos = kernel_tos,
	.connect = kernel_connect,
	.connected = kernel_connected,
	.listen = kernel_listen,
	.accept = kernel_accept,
	.take = kernel_take,
	.begin = kernel_begin,
	.ends = kernel_ends,
	.mss = kernel_mss,
	.recv = kernel_recv,
	.send = kernel_send,
	.unacked = kernel_unacked,
	.unanswered = kernel_unanswered,
	.finish = kernel_finish,
	.reset = kernel_reset,
	.close = kernel_close,
};
