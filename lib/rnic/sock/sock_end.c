/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of connect(), and how the program ends a connection: shutdown(), SO_LINGER, and what the last close()
 * waits for.
 */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "rnic/sock/sock.h"

bool sock_is_connected(const struct sock *s)
{
	return s->kind == SOCK_IS_STREAM &&
	       (sock_state(s) & (IPC_STREAM_CONNECTED | IPC_STREAM_ENDED)) == IPC_STREAM_CONNECTED;
}

int sock_pending_error(struct sock *s)
{
	if (s->kind != SOCK_IS_STREAM || !(sock_state(s) & IPC_STREAM_ENDED))
		return 0;
	return __atomic_exchange_n(&s->mem->error, 0, __ATOMIC_RELAXED);
}

int sock_token(struct sock *l, int fd)
{
	uint8_t token;
	ssize_t n = -1;

	sock_lock(&l->rx);
	fd = sock_still(l, fd);
	errno = EBADF;
	if (fd >= 0)
		n = sock_libc.recv(fd, &token, 1, MSG_DONTWAIT);
	sock_unlock(&l->rx);
	return n > 0 ? 0 : n == 0 ? EINVAL : errno;
}

bool sock_tell_connect(struct sock *s)
{
	return (__atomic_fetch_or(&s->mem->fin, IPC_STREAM_TOLD, __ATOMIC_RELAXED) & IPC_STREAM_TOLD) != 0;
}

bool sock_has_failed(const struct sock *s)
{
	return s->kind == SOCK_IS_STREAM && ipc_stream_connect_failed(sock_state(s)) &&
	       (__atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED) & IPC_STREAM_TOLD) != 0;
}

int sock_connected(struct sock *s, int fd, bool first)
{
	const bool block = !sock_does_not_block(fd, 0);
	struct sock_waits w = { .end = 0 };

	if (first && !block) {
		errno = EINPROGRESS; /* as the kernel returns, however soon the peer answers */
		return -1;
	}
	for (;;) {
		uint32_t state = sock_state(s);
		if (state & IPC_STREAM_CONNECTED) {
			errno = EISCONN;
			return sock_tell_connect(s) ? -1 : 0;
		}
		if (state & IPC_STREAM_ENDED) {
			int err = sock_pending_error(s);
			(void)sock_tell_connect(s);
			errno = err != 0 ? err : ECONNABORTED;
			return -1;
		}
		if (!block || !sock_sleeps_at(s, fd, POLLOUT, s->snd_ms, &w)) {
			if (!block || errno == EAGAIN)
				errno = EINPROGRESS; /* also when the time of SO_SNDTIMEO is over (socket(7)) */
			return -1;
		}
	}
}

static bool is_over(const struct sock *s) { return (sock_state(s) & IPC_STREAM_ENDED) != 0; }

/* Whether the peer has not acknowledged all bytes yet. */
static bool unsent(const struct sock *s)
{
	return s->mem->tx_tail != __atomic_load_n(&s->mem->tx_head, __ATOMIC_ACQUIRE);
}

static void end(struct sock *s, uint32_t how)
{
	if (s->kind != SOCK_IS_STREAM)
		return;
	sock_turn_begin(&s->tx, &s->mem->tx_turn);
	__atomic_fetch_or(&s->mem->fin, how, __ATOMIC_RELEASE);
	sock_bell(s);
	sock_turn_end(&s->tx, &s->mem->tx_turn);
}

int sock_shut(struct sock *s, int fd, int how)
{
	bool ended = is_over(s);

	if (sock_is_connected(s))
		(void)sock_tell_connect(s); /* as in Linux: a connect() after shutdown() gets EISCONN */
	if (how != SHUT_WR) {
		__atomic_fetch_or(&s->mem->fin, IPC_STREAM_DEAF, __ATOMIC_RELEASE);
		(void)sock_libc.shutdown(fd, SHUT_RD); /* wakes threads that wait at the descriptor */
	}
	if (how != SHUT_RD && !ended)
		sock_finish(s);
	return ended ? ENOTCONN : 0;
}

void sock_finish(struct sock *s) { end(s, IPC_STREAM_FIN); }

void sock_reset(struct sock *s) { end(s, IPC_STREAM_RESET); }

void sock_set_linger(struct sock *s, struct linger l)
{
	sock_lock(&s->tx);
	s->linger = l;
	if (s->kind == SOCK_IS_STREAM && l.l_onoff != 0 && l.l_linger == 0)
		__atomic_fetch_or(&s->mem->fin, IPC_STREAM_ABORT, __ATOMIC_RELEASE);
	else if (s->kind == SOCK_IS_STREAM)
		__atomic_fetch_and(&s->mem->fin, ~(uint32_t)IPC_STREAM_ABORT, __ATOMIC_RELEASE);
	sock_unlock(&s->tx);
}

void sock_linger(struct sock *s)
{
	const struct timespec nap = { .tv_nsec = (long)RN_NS_PER_MS };
	uint64_t end = sock_end_of(&(struct timespec){ .tv_sec = s->linger.l_linger });
	int saved = errno;

	/* The descriptor is closed, so the thread cannot sleep at it. A near peer acknowledges before the first nap. */
	while (unsent(s) && !is_over(s) && sock_now() < end) {
		sched_yield();
		if (unsent(s))
			nanosleep(&nap, NULL);
	}
	errno = saved;
}
