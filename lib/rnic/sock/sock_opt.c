/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Socket names and socket options. An option that rnicd's TCP follows anyway (TCP_NODELAY; keepalive, as the port is
 * configured), or that has no meaning there, can be set without effect (sock_opts.c).
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>

#include <rnic/sock.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC __attribute__((visibility("default")))

static int fail(int err)
{
	errno = err;
	return -1;
}

PUBLIC int getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.getsockname(fd, sa, len);
	int rc = 0;
	if (s->kind == SOCK_IS_GRAM && (s->peer_below || s->below_own))
		rc = sock_libc.getsockname(s->below, sa, len);
	else
		sock_addr_out(s, &s->local, sa, len);
	sock_put(s);
	return rc;
}

PUBLIC int getpeername(int fd, struct sockaddr *sa, socklen_t *len)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.getpeername(fd, sa, len);
	if (s->below_own) {
		int rc = sock_libc.getpeername(s->below, sa, len);
		sock_put(s);
		return rc;
	}
	bool connected = s->kind == SOCK_IS_GRAM ? s->has_peer : sock_is_connected(s);
	if (connected)
		sock_addr_out(s, &s->remote, sa, len);
	sock_put(s);
	return connected ? 0 : fail(ENOTCONN);
}

static struct timeval time_of(int ms)
{
	struct timeval tv = { 0 };

	if (ms > 0)
		tv = (struct timeval){ .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	return tv;
}

static int get_socket(struct sock *s, int name, void *to, socklen_t *len)
{
	struct timeval tv = time_of(name == SO_RCVTIMEO ? s->rcv_ms : s->snd_ms);
	int v = 0;

	switch (name) {
	case SO_RCVTIMEO:
	case SO_SNDTIMEO: return sock_opt_give(to, len, &tv, sizeof(tv));
	case SO_LINGER: return sock_opt_give(to, len, &s->linger, sizeof(s->linger));
	case SO_ERROR: v = sock_pending_error(s); break;
	case SO_TYPE: v = SOCK_STREAM; break;
	case SO_DOMAIN: v = s->domain; break;
	case SO_PROTOCOL: v = IPPROTO_TCP; break;
	case SO_ACCEPTCONN: v = s->kind == SOCK_LISTENS; break;
	case SO_RCVBUF:
	case SO_SNDBUF: v = (int)IPC_STREAM_RING; break;
	default: return sock_opts_get(s, SOL_SOCKET, name, to, len);
	}
	return sock_opt_give(to, len, &v, sizeof(v));
}

static int get_tcp(struct sock *s, int name, void *to, socklen_t *len)
{
	uint32_t state = s->mem != NULL ? sock_state(s) : 0;
	uint32_t mss = (state & IPC_STREAM_CONNECTED) != 0 ? s->mem->mss : TCP_MSS_DEFAULT;
	struct tcp_info info = { .tcpi_state = TCP_CLOSE, .tcpi_snd_mss = mss, .tcpi_rcv_mss = mss };
	int v = 0;

	switch (name) {
	case TCP_INFO:
		if (s->mem != NULL && (state & IPC_STREAM_ENDED) == 0)
			info.tcpi_state = (uint8_t)__atomic_load_n(&s->mem->tcp, __ATOMIC_RELAXED);
		return sock_opt_give(to, len, &info, sizeof(info));
	case TCP_CONGESTION: return sock_opt_give(to, len, "cubic", sizeof("cubic"));
	case TCP_MAXSEG: v = (int)mss; break;
	default: return sock_opts_get(s, IPPROTO_TCP, name, to, len);
	}
	return sock_opt_give(to, len, &v, sizeof(v));
}

PUBLIC int getsockopt(int fd, int level, int name, void *to, socklen_t *len)
{
	sock_ready();
	if (level == SOL_RNIC)
		return sock_wire_get(fd, name, to, len);
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.getsockopt(fd, level, name, to, len);
	int rc = s->kind == SOCK_IS_GRAM ? sock_udp_getopt(s, level, name, to, len)
		 : s->below >= 0         ? sock_libc.getsockopt(s->below, level, name, to, len)
		 : level == SOL_SOCKET   ? get_socket(s, name, to, len)
		 : level == IPPROTO_TCP  ? get_tcp(s, name, to, len)
					 : sock_opts_get(s, level, name, to, len);
	sock_put(s);
	return rc;
}

static int set(struct sock *s, int level, int name, const void *from, socklen_t len)
{
	if (level == SOL_SOCKET && name == SO_RCVTIMEO)
		return sock_set_time(&s->rcv_ms, from, len);
	if (level == SOL_SOCKET && name == SO_SNDTIMEO)
		return sock_set_time(&s->snd_ms, from, len);
	if (level == SOL_SOCKET && name == SO_LINGER) {
		struct linger l;

		if (len < sizeof(l))
			return fail(EINVAL);
		memcpy(&l, from, sizeof(l));
		sock_set_linger(s, l);
		return 0;
	}
	return sock_opts_set(s, level, name, from, len);
}

static int set_wire(int fd, int name, const void *from, socklen_t len)
{
	const int rc = sock_wire_set(fd, name, from, len);

	if (rc == 0 && sock_kernels())
		sock_kernels_udp_wire(fd);
	return rc;
}

PUBLIC int setsockopt(int fd, int level, int name, const void *from, socklen_t len)
{
	sock_ready();
	if (level == SOL_RNIC)
		return set_wire(fd, name, from, len);
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.setsockopt(fd, level, name, from, len);
	int rc = s->kind == SOCK_IS_GRAM ? sock_udp_setopt(s, level, name, from, len)
		 : s->below >= 0         ? sock_libc.setsockopt(s->below, level, name, from, len)
					 : 0;
	if (rc == 0 && s->kind != SOCK_IS_GRAM)
		rc = set(s, level, name, from, len);
	sock_keep(s);
	sock_put(s);
	return rc;
}
