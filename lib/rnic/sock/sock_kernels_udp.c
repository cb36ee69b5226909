/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `rnicrun --embedded --sockets`: UDP sockets with the wire iwarp, served by a process that rnicrun has started. A UDP
 * socket stays the kernel's until a bind, connect or send gives it a port: the kernel checks address and port, and says
 * what is wrong. Then that process gets a descriptor of the kernel's socket, and the program's descriptor becomes one
 * of ours. The kernel's socket is kept below: it is bound and connected as the program wants, so names, peers and
 * options are the kernel's. If the process refuses the socket, the socket stays the kernel's, with the wire plain.
 */
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <time.h>

#include <rnic/sock.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define GO_NS RN_NS_PER_S /* most time that a socket waits for its datagrams to leave, before it loses its port */

static struct ipc_addr peer_name(int fd)
{
	struct sockaddr_storage sa;
	struct ipc_addr a = { .port = 0 };
	socklen_t len = sizeof(sa);

	if (sock_libc.getpeername(fd, (struct sockaddr *)&sa, &len) != 0 ||
	    !sock_addr_in((struct sockaddr *)&sa, len, &a))
		a.port = 0;
	return a;
}

/* Reads the names of the kernel's socket below. */
static void learn_names(struct sock *s)
{
	s->local = sock_bound(s->below);
	s->remote = peer_name(s->below);
	s->has_peer = s->remote.port != 0;
	if (s->has_peer)
		(void)sock_way_is_new(s, &s->remote); /* the kernel has found a route for connect() */
	sock_keep(s);
}

/* ---- from the kernel's socket to ours ---- */

/* Whether the program has asked for something that the kernel alone does. */
static bool is_special(int fd)
{
	static const struct {
		int level, name;
	} asks[] = {
		{ SOL_SOCKET, SO_TIMESTAMP },        { SOL_SOCKET, SO_TIMESTAMPNS },
		{ SOL_SOCKET, SO_TIMESTAMPING },     { SOL_SOCKET, SO_RXQ_OVFL },
		{ IPPROTO_IP, IP_RECVOPTS },         { IPPROTO_IP, IP_RETOPTS },
		{ IPPROTO_IP, IP_TRANSPARENT },      { IPPROTO_IP, IP_RECVORIGDSTADDR },
		{ IPPROTO_IP, IP_RECVERR },          { IPPROTO_IPV6, IPV6_RECVERR },
		{ IPPROTO_IPV6, IPV6_V6ONLY },       { IPPROTO_IPV6, IPV6_RECVPKTINFO },
		{ IPPROTO_IPV6, IPV6_RECVHOPLIMIT }, { IPPROTO_IPV6, IPV6_RECVTCLASS },
	};
	char device[IFNAMSIZ] = "";
	socklen_t len = sizeof(device);

	for (size_t i = 0; i < sizeof(asks) / sizeof(asks[0]); i++)
		if (sock_udp_number(fd, asks[i].level, asks[i].name) != 0)
			return true;
	return sock_libc.getsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, &len) == 0 && len > 1;
}

static bool fits(int fd)
{
	const struct ipc_addr local = sock_bound(fd);

	return (sock_way_is_host(&local) || sock_addr_is_any(&local)) && !is_special(fd);
}

static struct sock *gram_taken(int fd)
{
	struct sock *s = fits(fd) ? sock_new(sock_option(fd, SO_DOMAIN)) : NULL;
	int made;

	if (s == NULL)
		return NULL;
	sock_udp_learn_kept(s, fd);
	if (sock_take_gram(s, fd, &made) != 0) {
		sock_put(s);
		return NULL;
	}
	s->below_own = true;
	if (!sock_udp_take_place(fd, made, s))
		return NULL;
	sock_udp_join_not(s);
	learn_names(s);
	return s;
}

/* The kernel's socket fd has a port: becomes ours if it is a UDP socket whose wire is iwarp. Held; or NULL. */
static struct sock *gram_becomes(int fd)
{
	struct sock *s = NULL;
	int saved = errno;

	if (sock_wire_of(fd) == RNIC_WIRE_IWARP && sock_is_udp(fd)) {
		s = gram_taken(fd);
		if (s == NULL)
			sock_wire_note(fd, RNIC_WIRE_PLAIN); /* it is not asked for with each datagram */
	}
	errno = saved;
	return s;
}

void sock_kernels_udp_wire(int fd)
{
	struct sock *s = sock_bound(fd).port != 0 ? gram_becomes(fd) : NULL;

	if (s != NULL)
		sock_put(s);
}

int sock_kernels_udp_connect(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr to;
	const int rc = sock_libc.connect(fd, sa, len);

	if (rc == 0 && sock_addr_in(sa, len, &to) && sock_way_is_host(&to))
		sock_kernels_udp_wire(fd);
	return rc;
}

/* Gives the kernel's socket a port, as its first send would. */
static bool has_port(int fd)
{
	const struct sockaddr_storage any = { .ss_family = (sa_family_t)sock_option(fd, SO_DOMAIN) };

	return sock_bound(fd).port != 0 || sock_libc.bind(fd, (const struct sockaddr *)&any,
							  any.ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
										    : sizeof(struct sockaddr_in)) == 0;
}

static struct sock *sends(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr to;
	struct sock *s = NULL;
	int saved = errno;

	if (sock_addr_in(sa, len, &to) && sock_way_is_host(&to) && to.port != 0 &&
	    sock_wire_of(fd) == RNIC_WIRE_IWARP && sock_is_udp(fd) && has_port(fd))
		s = gram_becomes(fd);
	errno = saved;
	return s;
}

struct sock *sock_gram_sends(int fd, const struct sockaddr *sa, socklen_t len)
{
	return sock_kernels() ? sends(fd, sa, len) : sock_udp_sends(fd, sa, len);
}

/* ---- peers ---- */

/* Waits until the datagrams of s have left. */
static void let_go(const struct sock *s)
{
	const struct timespec nap = { .tv_nsec = (long)RN_NS_PER_MS };
	const uint64_t end = sock_now() + GO_NS;

	while (!sock_gram_is_empty(s) && sock_now() < end) {
		sched_yield();
		if (!sock_gram_is_empty(s))
			nanosleep(&nap, NULL);
	}
}

static int again(struct sock *s, const struct sockaddr *sa, socklen_t len)
{
	const uint16_t port = (uint16_t)s->local.port;
	int err;

	if (!s->below_own)
		return EOPNOTSUPP;
	if (len >= sizeof(sa->sa_family) && sa->sa_family == AF_UNSPEC)
		let_go(s);
	if (sock_libc.connect(s->below, sa, len) != 0)
		return errno;
	learn_names(s);
	if (s->local.port != 0)
		return sock_gram_peer(s, s->has_peer ? &s->remote : NULL);
	err = sock_udp_as_it_was(s); /* the kernel has taken the port that it had chosen itself */
	sock_await_closed(port);
	sock_udp_give_kept(s);
	return err;
}

int sock_gram_connect(struct sock *s, const struct sockaddr *sa, socklen_t len)
{
	if (!sock_kernels())
		return sock_udp_connect(s, sa, len);
	const int err = again(s, sa, len);
	sock_put(s);
	if (err == 0)
		return 0;
	errno = err;
	return -1;
}
