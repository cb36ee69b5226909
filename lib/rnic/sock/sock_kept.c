/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a socket passes on to the program that exec starts: its settings, which lie in its shared memory, and the
 * kernel's socket below it.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "rnic/sock/sock.h"

enum {
	KEPT_WILD = 1,
	KEPT_NAMED = 2,
	KEPT_HAS_PEER = 4,
	KEPT_PEER_BELOW = 8,
	KEPT_BELOW_LIVE = 16,
	KEPT_PKTINFO = 32,
	KEPT_RECV_TTL = 64,
	KEPT_RECV_TOS = 128,
};
#define KEPT_WIRE 8 /* the first bit of `flags` that has the wire */

struct ipc_sock_kept *sock_kept_of(const struct sock *s)
{
	uint8_t *base = s->mem != NULL ? (uint8_t *)s->mem : (uint8_t *)s->gram;

	return base == NULL ? NULL : (struct ipc_sock_kept *)(void *)(base + IPC_SOCK_KEPT_OFF);
}

uint64_t sock_file_number(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

void sock_keep(const struct sock *s)
{
	struct ipc_sock_kept *k = sock_kept_of(s);

	if (k == NULL)
		return;
	*k = (struct ipc_sock_kept){
		.domain = (uint32_t)s->domain,
		.rcv_ms = s->rcv_ms,
		.snd_ms = s->snd_ms,
		.linger_on = s->linger.l_onoff,
		.linger_s = s->linger.l_linger,
		.flags = (s->wild ? KEPT_WILD : 0) | (s->named ? KEPT_NAMED : 0) | (s->has_peer ? KEPT_HAS_PEER : 0) |
			 (s->peer_below ? KEPT_PEER_BELOW : 0) | (s->below_live ? KEPT_BELOW_LIVE : 0) |
			 (s->pktinfo ? KEPT_PKTINFO : 0) | (s->recv_ttl ? KEPT_RECV_TTL : 0) |
			 (s->recv_tos ? KEPT_RECV_TOS : 0) | (uint32_t)s->wire << KEPT_WIRE,
		.below = sock_file_number(s->below),
		.local = s->local,
		.remote = s->remote,
	};
}

void sock_learn_kept(struct sock *s)
{
	const struct ipc_sock_kept k = *sock_kept_of(s); /* a copy, since other processes may write it */

	if (k.domain != AF_INET && k.domain != AF_INET6)
		return;
	s->domain = (int)k.domain;
	s->rcv_ms = k.rcv_ms < 0 ? -1 : k.rcv_ms;
	s->snd_ms = k.snd_ms < 0 ? -1 : k.snd_ms;
	s->linger = (struct linger){ .l_onoff = k.linger_on, .l_linger = k.linger_s };
	s->local = k.local;
	s->remote = k.remote;
	s->wild = (k.flags & KEPT_WILD) != 0;
	s->named = (k.flags & KEPT_NAMED) != 0;
	s->has_peer = (k.flags & KEPT_HAS_PEER) != 0;
	s->peer_below = (k.flags & KEPT_PEER_BELOW) != 0;
	s->below_live = (k.flags & KEPT_BELOW_LIVE) != 0;
	s->pktinfo = (k.flags & KEPT_PKTINFO) != 0;
	s->recv_ttl = (k.flags & KEPT_RECV_TTL) != 0;
	s->recv_tos = (k.flags & KEPT_RECV_TOS) != 0;
	if (k.flags >> KEPT_WIRE <= IPC_GRAM_IWARP)
		s->wire = (uint8_t)(k.flags >> KEPT_WIRE);
}

void sock_below_follows(const struct sock *s)
{
	int closes = FD_CLOEXEC, saved = errno;

	if (s->below < 0)
		return;
	for (int fd = 0; fd < SOCK_FDS && closes != 0; fd++)
		if (__atomic_load_n(&sock_tab[fd], __ATOMIC_RELAXED) == s)
			closes = sock_libc.fcntl(fd, F_GETFD) & FD_CLOEXEC;
	(void)sock_libc.fcntl(s->below, F_SETFD, closes);
	errno = saved;
}
