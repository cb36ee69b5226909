/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * UDP sockets: when a socket becomes rnicd's, and all calls except sending and receiving. The kernel's socket stays
 * below the socket of rnicd's: it keeps all options, and carries datagrams to addresses that no port reaches. If rnicd
 * refuses a socket, the socket stays the kernel's, and one line on stderr says so.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define CHOICES 32u /* times that another port is chosen for a socket */

bool sock_is_udp(int fd)
{
	return sock_option(fd, SO_PROTOCOL) == IPPROTO_UDP && sock_option(fd, SO_TYPE) == SOCK_DGRAM;
}

static void udp_say(const struct ipc_addr *a, int err)
{
	static bool said; /* read and written by any thread; a child of fork inherits it */
	char ip[INET_ADDRSTRLEN] = "", line[256];

	if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		return;
	inet_ntop(AF_INET, a->ip + 12, ip, sizeof(ip));
	int n = snprintf(line, sizeof(line),
			 "librnicsock: the UDP socket with address %s and port %u stays the kernel's, since rnicd "
			 "refuses it: %s\n",
			 ip, a->port, strerror(err));
	if (sock_libc.write(STDERR_FILENO, line, (size_t)n) < 0)
		return; /* stderr is closed */
}

/* ---- from the kernel's socket to ours ---- */

int sock_udp_number(int fd, int level, int name)
{
	int v = 0;
	socklen_t len = sizeof(v);

	return sock_libc.getsockopt(fd, level, name, &v, &len) == 0 ? v : 0;
}

void sock_udp_learn_options(struct sock *s)
{
	if (!sock_kernels()) {
		s->pktinfo = sock_udp_number(s->below, IPPROTO_IP, IP_PKTINFO) != 0;
		s->recv_ttl = sock_udp_number(s->below, IPPROTO_IP, IP_RECVTTL) != 0;
		s->recv_tos = sock_udp_number(s->below, IPPROTO_IP, IP_RECVTOS) != 0;
		s->corked = sock_udp_number(s->below, IPPROTO_UDP, UDP_CORK) != 0;
	}
	s->tos = (uint8_t)sock_udp_number(s->below, IPPROTO_IP, IP_TOS);
	s->ttl = (uint8_t)sock_udp_number(s->below, IPPROTO_IP, IP_TTL);
	s->segment = (uint16_t)sock_udp_number(s->below, IPPROTO_UDP, UDP_SEGMENT);
	int discover = sock_udp_number(s->below, IPPROTO_IP, IP_MTU_DISCOVER);
	s->whole = discover == IP_PMTUDISC_DO || discover == IP_PMTUDISC_PROBE || discover == IP_PMTUDISC_INTERFACE;
	__atomic_store_n(&s->gram->rx_room, (uint32_t)sock_udp_number(s->below, SOL_SOCKET, SO_RCVBUF),
			 __ATOMIC_RELAXED);
}

/* Makes a socket of rnicd's with this address; *made: its descriptor. NULL and errno. */
static struct sock *make_new(int fd, const struct ipc_addr *local, bool wild, int *made)
{
	static const uint8_t none[16];
	uint32_t flags = (sock_option(fd, SO_REUSEADDR) > 0 ? IPC_GRAM_REUSE : 0) |
			 (sock_option(fd, SO_REUSEPORT) > 0 ? IPC_GRAM_BALANCE : 0);
	struct sock *s = sock_new(sock_option(fd, SO_DOMAIN));
	struct ipc_addr a = *local;
	int err = s == NULL ? ENOMEM : 0;

	if (wild)
		memcpy(a.ip, none, sizeof(a.ip));
	if (err == 0)
		err = sock_gram_new(s, &a, flags, made);
	if (err == 0) {
		s->wild = wild;
		memcpy(s->local.ip, local->ip, sizeof(s->local.ip));
		return s;
	}
	if (s != NULL)
		sock_put(s);
	errno = err;
	return NULL;
}

bool sock_udp_take_place(int fd, int made, struct sock *s)
{
	int err = 0;

	s->below = sock_libc_aside(fd);
	if (s->below < 0) {
		err = errno;
		sock_libc.close(made);
	} else {
		s->wire = sock_wire_of(s->below);
		sock_udp_learn_options(s);
		err = sock_replace(fd, made, s);
	}
	if (err == 0) {
		sock_keep(s);
		sock_below_follows(s);
		return true;
	}
	sock_put(s);
	errno = err;
	return false;
}

/* Binds to the address of one of rnicd's ports. The kernel's socket is not bound: only rnicd has this address. */
static int bind_port(int fd, const struct ipc_addr *a)
{
	int made;
	struct sock *s = make_new(fd, a, false, &made);

	if (s == NULL)
		return -1;
	s->named = true;
	if (!sock_udp_take_place(fd, made, s))
		return -1;
	sock_put(s);
	return 0;
}

/* Binds the kernel's socket to this address with the port of s. On failure false and errno, and s is given back. */
static bool bind_below(int fd, int made, struct sock *s, const struct sockaddr *sa, socklen_t len)
{
	union {
		struct sockaddr_in v4; /* the port is at the same place in both */
		struct sockaddr_in6 v6;
	} at = { 0 };

	memcpy(&at, sa, len < sizeof(at) ? len : sizeof(at));
	at.v4.sin_port = htons(s->local.port);
	if (sock_libc.bind(fd, (struct sockaddr *)&at, len < sizeof(at) ? len : sizeof(at)) == 0)
		return true;
	int err = errno;
	sock_libc.close(made);
	sock_put(s);
	errno = err;
	return false;
}

/*
 * Binds to all addresses: takes the port at rnicd first, then at the kernel's socket. Port 0: rnicd chooses a port,
 * which a socket of the kernel's may have; then rnicd chooses once more.
 */
static int bind_any(int fd, const struct ipc_addr *a, const struct sockaddr *sa, socklen_t len)
{
	struct sock *s;
	int made;

	for (uint32_t i = 0;; i++) {
		s = make_new(fd, a, true, &made);
		if (s == NULL && errno == EADDRINUSE && a->port != 0)
			return -1;
		if (s == NULL) {
			udp_say(a, errno);
			return sock_libc.bind(fd, sa, len);
		}
		if (bind_below(fd, made, s, sa, len))
			break;
		if (a->port != 0 || errno != EADDRINUSE || i == CHOICES)
			return -1;
	}
	s->below_live = s->named = true;
	if (!sock_udp_take_place(fd, made, s))
		return -1;
	sock_put(s);
	return 0;
}

bool sock_udp_bind(int fd, const struct ipc_addr *a, const struct sockaddr *sa, socklen_t len, int *rc)
{
	bool any = sock_addr_is_any(a);
	int saved = errno;

	if ((!any && !sock_may_reach(sa, len)) || !sock_is_udp(fd)) {
		errno = saved;
		return false;
	}
	errno = saved;
	if (any && sock_world() != NULL && sock_udp_number(fd, IPPROTO_IPV6, IPV6_V6ONLY) == 0) {
		*rc = bind_any(fd, a, sa, len);
		return true;
	}
	if (any || !sock_is_port(a))
		return false;
	*rc = bind_port(fd, a);
	return true;
}

/* *a: the port that the kernel's socket is bound to, 0 if to none. False: the socket has a peer or an address. */
static bool kernels_port(int fd, struct ipc_addr *a)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (sock_libc.getpeername(fd, (struct sockaddr *)&sa, &len) == 0)
		return false;
	len = sizeof(sa);
	return sock_libc.getsockname(fd, (struct sockaddr *)&sa, &len) == 0 &&
	       sock_addr_in((struct sockaddr *)&sa, len, a) && sock_addr_is_any(a);
}

static struct sock *becomes(int fd, const struct ipc_addr *to)
{
	struct ipc_addr local;
	int made;

	if (!kernels_port(fd, &local))
		return NULL;
	struct sock *s = make_new(fd, &local, true, &made);
	if (s == NULL && local.port != 0) { /* another program has the port at rnicd: the peer sees another port */
		struct ipc_addr other = local;
		other.port = 0;
		s = make_new(fd, &other, true, &made);
	}
	if (s == NULL) {
		udp_say(to, errno);
		return NULL;
	}
	s->below_live = local.port != 0;
	return sock_udp_take_place(fd, made, s) ? s : NULL;
}

struct sock *sock_udp_sends(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr to, from;
	int saved = errno;
	struct sock *s = NULL;

	if (__builtin_expect(!sock_may_reach(sa, len), 1))
		return NULL;
	if (sock_is_udp(fd) && sock_addr_in(sa, len, &to) && sock_reaches(&to, &from))
		s = becomes(fd, &to);
	errno = saved;
	return s;
}

/* Whether the kernel's socket is bound to all addresses, and the peer is behind a port of rnicd's. */
static bool is_apart(const struct sock *s) { return s->wild && s->below_live && s->has_peer && !s->peer_below; }

/* Takes the peer from the kernel's socket, which then hears everybody. */
static int hear_all(const struct sock *s)
{
	const struct sockaddr none = { .sa_family = AF_UNSPEC };

	return sock_libc.connect(s->below, &none, sizeof(none));
}

/*
 * A socket with a peer hears only that peer. If the peer is behind a port of rnicd's, the kernel's socket gets a peer
 * from which nothing comes: the discard service (RFC 863) of this host.
 */
static void hear_nobody(const struct sock *s)
{
	const struct sockaddr_in discard = { .sin_family = AF_INET,
					     .sin_port = htons(9),
					     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	struct ipc_addr a;

	(void)sock_addr_in((const struct sockaddr *)&discard, sizeof(discard), &a);
	sock_addr_out(s, &a, (struct sockaddr *)&sa, &len);
	(void)sock_libc.connect(s->below, (struct sockaddr *)&sa, len);
}

void sock_gram_below(struct sock *s)
{
	struct ipc_addr any = { .port = s->local.port };
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int saved = errno;

	if (sock_kernels())
		return;
	if (is_apart(s)) /* sends to another address: not from the address that leads to hear_nobody()'s peer */
		(void)hear_all(s);
	if (s->below_live)
		return;
	sock_addr_out(s, &any, (struct sockaddr *)&sa, &len);
	/* If the port is taken, the kernel chooses another one when it sends the datagram. */
	(void)sock_libc.bind(s->below, (struct sockaddr *)&sa, len);
	s->below_live = s->named = true; /* after this bind() the kernel's socket keeps its port, so ours does, too */
	sock_keep(s);
	errno = saved;
}

/* ---- peers ---- */

/* Takes the peer from the socket. A socket that was bound to all addresses is bound to them again. 0 or an errno. */
static int no_peer(struct sock *s)
{
	int err = sock_gram_peer(s, NULL);

	if (err != 0)
		return err;
	if (s->peer_below || is_apart(s))
		(void)hear_all(s);
	s->has_peer = s->peer_below = false;
	if (s->wild)
		memset(s->local.ip, 0, sizeof(s->local.ip));
	return 0;
}

int sock_udp_as_it_was(struct sock *s)
{
	int err = 0;

	for (int fd = 0; fd < SOCK_FDS && err == 0; fd++)
		if (__atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) == s)
			err = sock_become(fd, s->below, ~0, NULL);
	return err;
}

/* A socket that was never bound gives its port back, as in Linux. */
static int never_bound(struct sock *s)
{
	(void)hear_all(s);
	return sock_udp_as_it_was(s);
}

static int peer_of(struct sock *s, const struct sockaddr *sa, socklen_t len, const struct ipc_addr *to)
{
	struct ipc_addr from = s->local;
	bool ours = !s->wild || sock_reaches(to, &from);
	int err = s->peer_below ? no_peer(s) : 0;

	if (err == 0)
		err = sock_gram_peer(s, to);
	if (err != 0)
		return err;
	if (!ours) {
		sock_gram_below(s);
		if (sock_libc.connect(s->below, sa, len) != 0) {
			err = errno;
			(void)sock_gram_peer(s, s->has_peer ? &s->remote : NULL);
			return err;
		}
	}
	s->remote = *to;
	s->has_peer = true;
	s->peer_below = !ours;
	if (s->wild && ours)
		memcpy(s->local.ip, from.ip, sizeof(s->local.ip));
	if (is_apart(s))
		hear_nobody(s);
	return 0;
}

int sock_udp_connect(struct sock *s, const struct sockaddr *sa, socklen_t len)
{
	struct ipc_addr to;
	int err;

	if (len >= sizeof(sa->sa_family) && sa->sa_family == AF_UNSPEC)
		err = s->named ? no_peer(s) : never_bound(s);
	else if (!sock_addr_in(sa, len, &to))
		err = len < sizeof(struct sockaddr_in) ? EINVAL : EAFNOSUPPORT;
	else
		err = peer_of(s, sa, len, &to);
	sock_keep(s);
	sock_put(s);
	if (err == 0)
		return 0;
	errno = err;
	return -1;
}

int sock_udp_shutdown(struct sock *s, int fd, int how)
{
	if (how != SHUT_WR)
		__atomic_fetch_or(&s->gram->shut, IPC_GRAM_SHUT_IN, __ATOMIC_RELAXED);
	if (how != SHUT_RD)
		__atomic_fetch_or(&s->gram->shut, IPC_GRAM_SHUT_OUT, __ATOMIC_RELAXED);
	if (how != SHUT_WR) /* wakes threads that wait at the descriptor */
		(void)sock_libc.shutdown(fd, SHUT_RD);
	return s->has_peer ? 0 : ENOTCONN;
}

/* ---- errors ---- */

int sock_gram_error(struct sock *s)
{
	uint32_t e;

	if (__atomic_load_n(&s->gram->error, __ATOMIC_RELAXED) == 0)
		return 0;
	e = __atomic_exchange_n(&s->gram->error, 0, __ATOMIC_ACQ_REL);
	return e < 4096 ? (int)e : EIO;
}

void sock_gram_error_back(struct sock *s, int error)
{
	__atomic_store_n(&s->gram->error, (uint32_t)error, __ATOMIC_RELEASE);
}

/* ---- options: the kernel's socket below keeps them ---- */

/*
 * Options that the kernel's socket cannot have for the program's sake: the process that serves receives with all
 * control messages, and each datagram by itself, and sends whole datagrams between the program's pieces.
 */
static const struct kept {
	int level, name;
	size_t at; /* offset in struct sock */
} kept[] = {
	{ IPPROTO_IP, IP_PKTINFO, offsetof(struct sock, pktinfo) },
	{ IPPROTO_IP, IP_RECVTTL, offsetof(struct sock, recv_ttl) },
	{ IPPROTO_IP, IP_RECVTOS, offsetof(struct sock, recv_tos) },
	{ IPPROTO_UDP, UDP_CORK, offsetof(struct sock, corked) },
	{ IPPROTO_UDP, UDP_GRO, offsetof(struct sock, gro) },
};
#define KEPT (sizeof(kept) / sizeof(kept[0]))

static bool *kept_at(struct sock *s, const struct kept *k) { return (bool *)(void *)((uint8_t *)s + k->at); }

static bool *option_kept(struct sock *s, int level, int name)
{
	for (size_t i = 0; sock_kernels() && i < KEPT; i++)
		if (kept[i].level == level && kept[i].name == name)
			return kept_at(s, &kept[i]);
	return NULL;
}

static int set_kept(struct sock *s, int level, int name, const void *from, socklen_t len)
{
	bool *place = option_kept(s, level, name);
	int on = 0;

	if (place == NULL)
		return sock_libc.setsockopt(s->below, level, name, from, len);
	if (len < (level == IPPROTO_IP ? 1 : sizeof(on))) { /* options of IP may be one byte */
		errno = EINVAL;
		return -1;
	}
	memcpy(&on, from, len < sizeof(on) ? 1 : sizeof(on));
	*place = on != 0;
	return 0;
}

void sock_udp_learn_kept(struct sock *s, int fd)
{
	for (size_t i = 0; i < KEPT; i++)
		*kept_at(s, &kept[i]) = sock_udp_number(fd, kept[i].level, kept[i].name) != 0;
}

void sock_udp_give_kept(struct sock *s)
{
	const int off = 0;

	for (size_t i = 0; i < KEPT; i++) {
		const int on = *kept_at(s, &kept[i]);
		(void)sock_libc.setsockopt(s->below, kept[i].level, kept[i].name, &on, sizeof(on));
	}
	if (s->domain == AF_INET6) /* the program had not set it: such a socket would have stayed the kernel's */
		(void)sock_libc.setsockopt(s->below, IPPROTO_IPV6, IPV6_RECVPKTINFO, &off, sizeof(off));
}

void sock_udp_join_not(const struct sock *s)
{
	const int off = 0;

	if (s->corked)
		(void)sock_libc.setsockopt(s->below, IPPROTO_UDP, UDP_CORK, &off, sizeof(off));
	if (s->gro)
		(void)sock_libc.setsockopt(s->below, IPPROTO_UDP, UDP_GRO, &off, sizeof(off));
}

int sock_udp_getopt(struct sock *s, int level, int name, void *to, socklen_t *len)
{
	if (level == SOL_SOCKET && name == SO_ERROR && *len >= sizeof(int)) {
		int err = sock_gram_error(s);
		if (err != 0) {
			memcpy(to, &err, sizeof(err));
			*len = sizeof(err);
			return 0;
		}
	}
	const bool *place = option_kept(s, level, name);
	if (place != NULL) {
		const int on = *place;
		return sock_opt_give(to, len, &on, sizeof(on));
	}
	return sock_libc.getsockopt(s->below, level, name, to, len);
}

int sock_udp_setopt(struct sock *s, int level, int name, const void *from, socklen_t len)
{
	int rc = set_kept(s, level, name, from, len);

	if (rc != 0)
		return rc;
	if (level == SOL_SOCKET && name == SO_RCVTIMEO)
		return sock_set_time(&s->rcv_ms, from, len);
	if (level == SOL_SOCKET && name == SO_SNDTIMEO)
		return sock_set_time(&s->snd_ms, from, len);
	if (level == IPPROTO_IP || level == IPPROTO_UDP || level == SOL_SOCKET)
		sock_udp_learn_options(s);
	if (level == IPPROTO_UDP && name == UDP_CORK && !s->corked)
		sock_gram_uncork(s);
	return 0;
}
