/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's TCP sockets as this plane's connections: design embedded. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets/ks.h"

static struct sockaddr_in sockaddr_of(const struct pkt_addr *ip, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	memcpy(&sin.sin_addr, ip->b + 12, sizeof(sin.sin_addr));
	return sin;
}

/* Address and port; of other families than TCP's, all zero. A program's socket may be of either family. */
static struct pkt_addr addr_of(const struct sockaddr_storage *ss, uint16_t *port)
{
	const struct sockaddr_in *sin = (const void *)ss;
	const struct sockaddr_in6 *sin6 = (const void *)ss;
	struct pkt_addr a = { .b = { 0 } };

	*port = 0;
	if (ss->ss_family == AF_INET) {
		a.b[10] = a.b[11] = 0xff;
		memcpy(a.b + 12, &sin->sin_addr, sizeof(sin->sin_addr));
		*port = ntohs(sin->sin_port);
	} else if (ss->ss_family == AF_INET6) {
		memcpy(a.b, &sin6->sin6_addr, sizeof(sin6->sin6_addr));
		*port = ntohs(sin6->sin6_port);
	}
	return a;
}

static void kernel_close(struct ks_src *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

/* False and errno: the socket is closed. */
static bool bound(struct ks_src *s, const struct pkt_addr *ip, uint16_t port)
{
	const struct sockaddr_in sin = sockaddr_of(ip, port);

	if (s->fd >= 0 && bind(s->fd, (const struct sockaddr *)&sin, sizeof(sin)) == 0)
		return true;
	int err = errno;
	kernel_close(s);
	errno = err;
	return false;
}

static void at_once(const struct ks_src *s)
{
	int one = 1;

	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static bool kernel_open(struct ks_src *s, const struct conn_addr *a)
{
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	at_once(s);
	return bound(s, &a->local, a->lport);
}

static void kernel_tos(const struct ks_src *s, uint8_t tos)
{
	int value = tos;

	setsockopt(s->fd, IPPROTO_IP, IP_TOS, &value, sizeof(value));
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
	const struct sockaddr_in to = sockaddr_of(&a->remote, a->rport);

	return connect(s->fd, (const struct sockaddr *)&to, sizeof(to)) == 0 || errno == EINPROGRESS;
}

static int kernel_connected(const struct ks_src *s)
{
	int err = 0;
	socklen_t len = sizeof(err);

	return getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0 ? errno : err;
}

static bool kernel_listen(struct ks_src *s, const struct conn_addr *at, const struct ks_listening *how)
{
	int one = 1;

	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (s->fd >= 0)
		setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (s->fd >= 0 && how->shared)
		setsockopt(s->fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	kernel_tos(s, how->tos); /* the connections inherit it */
	if (!bound(s, &at->local, at->lport))
		return false;
	if (listen(s->fd, (int)how->backlog) == 0)
		return true;
	int err = errno;
	kernel_close(s);
	errno = err;
	return false;
}

static bool kernel_accept(const struct ks_src *l, struct ks_src *s)
{
	s->fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	at_once(s);
	return s->fd >= 0;
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
	struct sockaddr_storage local, remote;
	socklen_t len = sizeof(local), rlen = sizeof(remote);

	if (getsockname(s->fd, (struct sockaddr *)&local, &len) != 0 ||
	    getpeername(s->fd, (struct sockaddr *)&remote, &rlen) != 0)
		return false;
	a->local = addr_of(&local, &a->lport);
	a->remote = addr_of(&remote, &a->rport);
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

static void kernel_finish(const struct ks_src *s) { shutdown(s->fd, SHUT_WR); }

/* Its close will do it; a socket that was handed over may have more descriptors than ours, so it is reset at once. */
static void kernel_reset(const struct ks_src *s)
{
	const struct linger now = { .l_onoff = 1 };
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	(void)connect(s->fd, &none, sizeof(none)); /* what cannot be reset has ended */
}

const struct ks_net ks_net_kernel = {
	.ports = ks_ports,
	.open = kernel_open,
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
	.finish = kernel_finish,
	.reset = kernel_reset,
	.close = kernel_close,
};
