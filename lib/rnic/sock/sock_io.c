/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives bytes through the shared rings, and waits for bytes or room: a waiting thread looks for a while,
 * then sets its bit in `want`, looks once more, and sleeps at the descriptor.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

#define MASK       (IPC_STREAM_RING - 1)
#define LOOKS      64u                   /* looks between two yields of the CPU */
#define OUT_ROOM   (IPC_STREAM_RING / 4) /* rnicd reports writability when this much is free */
#define IN_EVENTS  (POLLIN | POLLRDNORM)
#define OUT_EVENTS (POLLOUT | POLLWRNORM)
#define PIECE      IPC_STREAM_TELL /* bytes that are copied before rnicd is told: it works on them meanwhile */

static uint32_t fin_of(const struct sock *s) { return __atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED); }

/* Whether connect() has reported its result, in any process. */
static bool connect_told(const struct sock *s) { return (fin_of(s) & IPC_STREAM_TOLD) != 0; }

/* Bytes to read; UINT32_MAX: the indices are impossible. */
static uint32_t unread(const struct sock *s)
{
	uint32_t n = __atomic_load_n(&s->mem->rx_tail, __ATOMIC_ACQUIRE) - s->mem->rx_head;

	return n <= IPC_STREAM_RING ? n : UINT32_MAX;
}

static uint32_t room(const struct sock *s)
{
	uint32_t n = s->mem->tx_tail - __atomic_load_n(&s->mem->tx_head, __ATOMIC_ACQUIRE);

	return n <= IPC_STREAM_RING ? IPC_STREAM_RING - n : 0;
}

uint32_t sock_unread(const struct sock *s)
{
	uint32_t n = s->kind == SOCK_IS_STREAM ? unread(s) : 0;

	return n == UINT32_MAX ? 0 : n;
}

uint32_t sock_untold(const struct sock *s) { return s->kind == SOCK_IS_STREAM ? IPC_STREAM_RING - room(s) : 0; }

static void rx_begin(struct sock *s) { sock_turn_begin(&s->rx, &s->mem->rx_turn); }
static void rx_end(struct sock *s) { sock_turn_end(&s->rx, &s->mem->rx_turn); }
static void tx_begin(struct sock *s) { sock_turn_begin(&s->tx, &s->mem->tx_turn); }
static void tx_end(struct sock *s) { sock_turn_end(&s->tx, &s->mem->tx_turn); }

/* ---- readiness of the descriptor ---- */

/*
 * Nothing is left to read: makes the descriptor unreadable until bytes come. The caller has the turn, so no other
 * thread closes the descriptor meanwhile (sock_leave_begin()).
 */
static void settle_in(const struct sock *s, int fd)
{
	int saved = errno;

	fd = sock_still(s, fd);
	if (fd < 0)
		return;
	(void)sock_empty(fd);
	__atomic_fetch_or(&s->mem->want, IPC_STREAM_WANT_IN, __ATOMIC_SEQ_CST);
	if (unread(s) != 0)
		sock_bell(s);
	errno = saved;
}

/* There is no room: makes the descriptor unwritable until there is some. The caller has the turn. */
static void settle_out(const struct sock *s, int fd)
{
	static const uint8_t block[IPC_STREAM_BLOCK];
	int saved = errno;

	fd = sock_still(s, fd);
	if (fd < 0)
		return;
	/* If the block does not fit, the descriptor is unwritable already. */
	if (sock_libc_put(fd, block, sizeof(block)) < 0)
		errno = saved;
	__atomic_fetch_or(&s->mem->want, IPC_STREAM_WANT_OUT, __ATOMIC_SEQ_CST);
	if (room(s) >= OUT_ROOM || (sock_state(s) & IPC_STREAM_ENDED) || (fin_of(s) & IPC_STREAM_FIN))
		sock_bell(s);
	errno = saved;
}

bool sock_settle(struct sock *s, int fd, short events)
{
	bool none = true;

	if (s->kind != SOCK_IS_STREAM)
		return true;
	if ((events & IN_EVENTS) != 0) {
		rx_begin(s);
		if (unread(s) == 0)
			settle_in(s, fd);
		else
			none = false;
		rx_end(s);
	}
	if ((events & OUT_EVENTS) != 0 && sock_is_connected(s)) {
		tx_begin(s);
		if (room(s) < OUT_ROOM)
			settle_out(s, fd);
		else
			none = false;
		tx_end(s);
	}
	return none;
}

bool sock_sleeps(struct sock *s, int fd, short events)
{
	uint32_t want = s->kind == SOCK_IS_STREAM ? __atomic_load_n(&s->mem->want, __ATOMIC_RELAXED) : 0;

	/* A bit in `want` says that the descriptor has been settled, and that rnicd has not answered. */
	if ((want & IPC_STREAM_WANT_IN) != 0)
		events &= (short)~IN_EVENTS;
	if ((want & IPC_STREAM_WANT_OUT) != 0)
		events &= (short)~OUT_EVENTS;
	return sock_settle(s, fd, events);
}

/* rnicd has closed its end of the descriptor, so the connection is gone. */
static void lost(const struct sock *s)
{
	if ((sock_state(s) & IPC_STREAM_ENDED) != 0)
		return;
	s->mem->error = ECONNRESET;
	__atomic_fetch_or(&s->mem->state, IPC_STREAM_ENDED, __ATOMIC_RELEASE);
}

/* The poll() events, as Linux's TCP has them. */
short sock_stream_events(const struct sock *s, short told)
{
	if ((told & POLLHUP) != 0)
		lost(s);
	uint32_t state = sock_state(s), fin = fin_of(s);
	bool ended = (state & IPC_STREAM_ENDED) != 0, connected = (state & IPC_STREAM_CONNECTED) != 0;
	bool none = ended && !connected &&
		    (fin & IPC_STREAM_TOLD) != 0; /* a failed connect() was reported: as if there had been none */
	bool in_shut = (fin & IPC_STREAM_DEAF) != 0 || (ended && !none) || (state & IPC_STREAM_PEER_FIN) != 0;
	bool out_shut = ended || (fin & (IPC_STREAM_FIN | IPC_STREAM_RESET)) != 0;
	bool waits = __atomic_load_n(&s->full, __ATOMIC_RELAXED) ||
		     (__atomic_load_n(&s->mem->want, __ATOMIC_RELAXED) & IPC_STREAM_WANT_OUT) != 0;
	bool room_there = room(s) >= (waits ? OUT_ROOM : 1);
	int e = 0;

	if (in_shut || unread(s) != 0)
		e |= POLLIN | POLLRDNORM;
	if (in_shut)
		e |= POLLRDHUP;
	if (out_shut || (connected && room_there))
		e |= POLLOUT | POLLWRNORM;
	if ((in_shut && out_shut) || none)
		e |= POLLHUP;
	if (ended && __atomic_load_n(&s->mem->error, __ATOMIC_RELAXED) != 0)
		e |= POLLERR;
	return (short)(e | (told & POLLNVAL));
}

void sock_watch(struct sock *s, int fd)
{
	if (s->kind != SOCK_IS_STREAM)
		return;
	s->in_epoll = true;
	if (__atomic_load_n(&s->watched, __ATOMIC_RELAXED))
		return;
	rx_begin(s);
	__atomic_store_n(&s->watched, true, __ATOMIC_RELAXED);
	settle_in(s, fd);
	rx_end(s);
}

void sock_unwatch(struct sock *s, int fd)
{
	int saved = errno;

	if (s->kind != SOCK_IS_STREAM)
		return;
	rx_begin(s);
	__atomic_store_n(&s->watched, false, __ATOMIC_RELAXED);
	__atomic_fetch_and(&s->mem->want, ~(uint32_t)IPC_STREAM_WANT_IN, __ATOMIC_RELAXED);
	fd = sock_still(s, fd);
	if (fd >= 0)
		(void)sock_empty(fd);
	rx_end(s);
	errno = saved;
}

bool sock_readable(const struct sock *s)
{
	return unread(s) != 0 || (sock_state(s) & (IPC_STREAM_PEER_FIN | IPC_STREAM_ENDED)) != 0;
}

bool sock_sleeps_at(const struct sock *s, int fd, short events, int ms, struct sock_waits *w)
{
	struct pollfd p = { .fd = fd, .events = events };

	if (w->end == 0)
		w->end = sock_end_in(ms);
	int n = sock_sleep(&p, 1, w->end, !w->has_bytes);
	if (n > 0 && (p.revents & POLLHUP) != 0)
		lost(s);
	return n > 0;
}

/* Whether a thread that waits for `events` may go on: POLLIN: there is something to read; POLLOUT: there is room. */
static bool may_go_on(const struct sock *s, short events)
{
	if (events == POLLIN)
		return sock_readable(s);
	return room(s) >= OUT_ROOM || (sock_state(s) & IPC_STREAM_ENDED) != 0;
}

/*
 * In a request/response dialogue the next bytes come within microseconds, and so does room for more in a bulk transfer;
 * sleeping would cost more. The waiting thread yields the CPU in between: the worker, or the peer, may need it.
 */
static bool look_for(const struct sock *s, short events)
{
	struct sock_looks t = { 0 };

	do {
		for (uint32_t i = 0; i < LOOKS; i++) {
			if (may_go_on(s, events))
				return true;
		}
	} while (sock_look_on(&t));
	return false;
}

/* ---- receiving ---- */

/* Copies n bytes into iov behind its first `skip` bytes; fewer if iov is full. */
static size_t copy_out(const struct sock *s, uint32_t n, const struct iovec *iov, int count, size_t skip)
{
	const uint8_t *ring = (const uint8_t *)s->mem + IPC_STREAM_RX_OFF;
	uint32_t pos = s->mem->rx_head;
	size_t done = 0;

	for (int i = 0; i < count && n > 0; i++) {
		size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
		size_t left = iov[i].iov_len - cut;
		uint8_t *to = (uint8_t *)iov[i].iov_base + cut;
		uint32_t len = left < n ? (uint32_t)left : n, place = pos & MASK;
		uint32_t first = len < IPC_STREAM_RING - place ? len : IPC_STREAM_RING - place;
		memcpy(to, ring + place, first);
		memcpy(to + first, ring, len - first);
		skip -= cut;
		pos += len;
		n -= len;
		done += len;
	}
	return done;
}

size_t sock_bytes(const struct iovec *iov, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

static size_t fit(uint32_t there, size_t room) { return there < room ? there : room; }

/* The program has taken the first n unread bytes: their room is rnicd's again. */
static void give_back(struct sock *s, uint32_t n)
{
	uint32_t head = s->mem->rx_head + n;

	__atomic_store_n(&s->mem->rx_head, head, __ATOMIC_RELEASE);
	if (head - s->told >= IPC_STREAM_TELL) {
		s->told = head;
		sock_bell(s);
	}
}

/* The n bytes of a ring from pos on. */
static void ring_pieces(uint8_t *ring, uint32_t pos, uint32_t n, struct iovec v[2])
{
	uint32_t place = pos & MASK, first = rn_min_u32(n, IPC_STREAM_RING - place);

	v[0] = (struct iovec){ .iov_base = ring + place, .iov_len = first };
	v[1] = (struct iovec){ .iov_base = ring, .iov_len = n - first };
}

uint32_t sock_look(const struct sock *s, struct iovec iov[2])
{
	uint32_t n = sock_unread(s);

	if (n > 0)
		ring_pieces((uint8_t *)s->mem + IPC_STREAM_RX_OFF, s->mem->rx_head, n, iov);
	return n;
}

void sock_took_in_turn(struct sock *s, int fd, uint32_t n)
{
	give_back(s, n);
	if (s->watched && unread(s) == 0)
		settle_in(s, fd);
}

void sock_took(struct sock *s, int fd, uint32_t n)
{
	rx_begin(s);
	sock_took_in_turn(s, fd, n);
	rx_end(s);
}

/* Takes n unread bytes, or as many as iov has room for behind its first `skip` bytes; returns how many. */
static size_t take_out(struct sock *s, uint32_t n, const struct iovec *iov, int count, size_t skip)
{
	size_t got = 0, more;

	do {
		more = copy_out(s, rn_min_u32(n - (uint32_t)got, PIECE), iov, count, skip + got);
		give_back(s, (uint32_t)more);
		got += more;
	} while (more == PIECE && got < n);
	return got;
}

/* Returns bytes, 0 at the end of the stream, -1 and errno. EAGAIN: nothing has come yet. */
static ssize_t take(struct sock *s, int fd, const struct iovec *iov, int n, size_t skip, int flags)
{
	uint32_t state = sock_state(s),
		 there = unread(s); /* read after the state, which shows an end only behind the last bytes */

	if (there == UINT32_MAX) {
		errno = EIO;
		return -1;
	}
	if (there != 0) {
		const bool drops = (flags & MSG_TRUNC) != 0;
		size_t got = drops ? fit(there, sock_bytes(iov, (size_t)n) - skip) : 0;
		if ((flags & MSG_PEEK) != 0)
			return (ssize_t)(drops ? got : copy_out(s, there, iov, n, skip));
		if (drops)
			give_back(s, (uint32_t)got);
		else
			got = take_out(s, there, iov, n, skip);
		if (got == there && s->watched)
			settle_in(s, fd);
		return (ssize_t)got;
	}
	if ((state & IPC_STREAM_PEER_FIN) != 0 || (skip > 0 && (state & IPC_STREAM_ENDED) != 0))
		return 0; /* this call has taken bytes already: the next call returns the error */
	/* A pending error comes before the end that the program's own shutdown() makes, as in Linux (tcp_recvmsg). */
	int err = sock_pending_error(s);
	if (err == 0 && (fin_of(s) & IPC_STREAM_DEAF) != 0)
		return 0;
	if (err == 0 && (state & IPC_STREAM_ENDED) != 0) {
		if ((state & IPC_STREAM_CONNECTED) != 0 || !connect_told(s))
			return 0;
		err = ENOTCONN; /* a failed connect() was reported: as if there had been none */
	}
	errno = err != 0 ? err : EAGAIN;
	return -1;
}

/* *number: see sock_still(). True: it is the socket's. Else false and errno. */
static bool still_open(const struct sock *s, int *number)
{
	*number = sock_still(s, *number);
	if (*number < 0)
		errno = EBADF;
	return *number >= 0;
}

/*
 * Waits until there may be bytes, without the lock that the caller holds: other threads go on meanwhile. *number
 * becomes -1 if one of them closes it. False and errno: the call must not wait, or the wait failed.
 */
static bool wait_in(struct sock *s, int *number, int flags, struct sock_waits *w)
{
	bool there;

	if (!still_open(s, number))
		return false;
	if (sock_does_not_block(*number, flags)) {
		if (s->watched)
			settle_in(s, *number);
		errno = EAGAIN;
		return false;
	}
	rx_end(s);
	there = look_for(s, POLLIN);
	rx_begin(s);
	if (there)
		return true;
	if (!still_open(s, number))
		return false;
	settle_in(s, *number);
	rx_end(s);
	there = sock_sleeps_at(s, *number, POLLIN, s->rcv_ms, w);
	rx_begin(s);
	return there;
}

/*
 * MSG_PEEK with MSG_WAITALL, which is rare: waits until that many bytes are there, or no more will come. The descriptor
 * cannot report this, only the first byte.
 */
static void wait_for_all(const struct sock *s, int fd, size_t want, int flags)
{
	const struct timespec nap = { .tv_nsec = (long)(200 * RN_NS_PER_US) };
	const uint64_t end = sock_end_in(s->rcv_ms);

	if (want > IPC_STREAM_RING)
		want = IPC_STREAM_RING;
	while (unread(s) < want && (sock_state(s) & (IPC_STREAM_PEER_FIN | IPC_STREAM_ENDED)) == 0 &&
	       (fin_of(s) & IPC_STREAM_DEAF) == 0 && !sock_does_not_block(fd, flags) && sock_now() < end)
		if (nanosleep(&nap, NULL) != 0)
			return; /* interrupted by a signal */
}

ssize_t sock_recv(struct sock *s, int fd, const struct iovec *iov, int n, int flags)
{
	bool all = (flags & (MSG_WAITALL | MSG_PEEK)) == MSG_WAITALL;
	size_t want = sock_bytes(iov, (size_t)n), got = 0;
	struct sock_waits w = { .end = 0 };
	ssize_t r = 0;

	if (s->kind == SOCK_BOUND && s->rx_shut)
		return 0;
	if (s->kind != SOCK_IS_STREAM || (flags & (MSG_OOB | MSG_ERRQUEUE)) != 0) {
		errno = (flags & MSG_ERRQUEUE) != 0 ? EAGAIN : s->kind != SOCK_IS_STREAM ? ENOTCONN : EINVAL;
		return -1;
	}
	if ((flags & (MSG_WAITALL | MSG_PEEK)) == (MSG_WAITALL | MSG_PEEK))
		wait_for_all(s, fd, want, flags);
	rx_begin(s);
	do { /* also once for length 0: as in Linux, the call then reports an error or the end */
		r = take(s, fd, iov, n, got, flags);
		if (r > 0)
			got += (size_t)r;
		w.has_bytes = got > 0;
		if (r == 0 || (r > 0 && !all) || (r < 0 && errno != EAGAIN) || (r < 0 && !wait_in(s, &fd, flags, &w)))
			break;
	} while (got < want);
	if (want == 0 && r < 0 && errno == EAGAIN && !sock_does_not_block(fd, flags))
		r = 0; /* length 0, and the call has waited once */
	rx_end(s);
	return got > 0 ? (ssize_t)got : r;
}

/* ---- sending ---- */

static size_t copy_in(const struct sock *s, uint32_t n, const struct iovec *iov, int count, size_t skip)
{
	uint8_t *ring = (uint8_t *)s->mem + IPC_STREAM_TX_OFF;
	uint32_t pos = s->mem->tx_tail;
	size_t done = 0;

	for (int i = 0; i < count && n > 0; i++) {
		size_t cut = skip < iov[i].iov_len ? skip : iov[i].iov_len;
		size_t left = iov[i].iov_len - cut;
		const uint8_t *from = (const uint8_t *)iov[i].iov_base + cut;
		uint32_t len = left < n ? (uint32_t)left : n, place = pos & MASK;
		uint32_t first = len < IPC_STREAM_RING - place ? len : IPC_STREAM_RING - place;
		memcpy(ring + place, from, first);
		memcpy(ring, from + first, len - first);
		skip -= cut;
		pos += len;
		n -= len;
		done += len;
	}
	__atomic_store_n(&s->mem->tx_tail, pos, __ATOMIC_RELEASE);
	return done;
}

/* 0: writing is possible. Else an errno; EAGAIN: not yet. */
static int may_send(struct sock *s)
{
	uint32_t state = sock_state(s);

	if (state & IPC_STREAM_ENDED) {
		int err = sock_pending_error(s);
		return err != 0 ? err : EPIPE;
	}
	if ((fin_of(s) & (IPC_STREAM_FIN | IPC_STREAM_RESET)) != 0)
		return EPIPE;
	if (!(state & IPC_STREAM_CONNECTED) || room(s) == 0)
		return EAGAIN;
	return 0;
}

/* As wait_in, until there is room. */
static bool wait_out(struct sock *s, int *number, int flags, struct sock_waits *w)
{
	bool there = false;

	if (!still_open(s, number))
		return false;
	const bool block = !sock_does_not_block(*number, flags);
	if (block && sock_is_connected(s)) {
		tx_end(s);
		there = look_for(s, POLLOUT);
		tx_begin(s);
	}
	if (there)
		return true;
	__atomic_store_n(&s->full, true, __ATOMIC_RELAXED);
	if (block || s->in_epoll || !sock_is_connected(s))
		settle_out(s, *number);
	errno = EAGAIN;
	if (!block || !still_open(s, number))
		return false;
	tx_end(s);
	there = sock_sleeps_at(s, *number, POLLOUT, s->snd_ms, w);
	tx_begin(s);
	return there;
}

bool sock_fill_begin(struct sock *s, int *fd, struct sock_waits *w, size_t n, struct iovec v[2])
{
	int err;

	tx_begin(s);
	while ((err = may_send(s)) == EAGAIN && wait_out(s, fd, 0, w)) {
	}
	if (err != 0) {
		if (err != EAGAIN) /* else wait_out() has set errno */
			errno = err;
		tx_end(s);
		return false;
	}
	__atomic_store_n(&s->full, false, __ATOMIC_RELAXED);
	ring_pieces((uint8_t *)s->mem + IPC_STREAM_TX_OFF, s->mem->tx_tail, (uint32_t)fit(room(s), n), v);
	return true;
}

void sock_fill_end(struct sock *s, uint32_t n)
{
	__atomic_store_n(&s->mem->tx_tail, s->mem->tx_tail + n, __ATOMIC_RELEASE);
	if (n > 0)
		sock_bell(s);
	tx_end(s);
}

ssize_t sock_send(struct sock *s, int fd, const struct iovec *iov, int n, int flags)
{
	size_t want = sock_bytes(iov, (size_t)n), put = 0;
	struct sock_waits w = { .end = 0 };
	int err = 0;

	if (s->kind != SOCK_IS_STREAM) {
		err = EPIPE;
		want = 0;
	} else if ((flags & MSG_OOB) != 0) {
		errno = EOPNOTSUPP;
		return -1;
	} else {
		tx_begin(s);
	}
	/* Also once for length 0: as in Linux, the call then reports that the socket cannot send any more. */
	for (bool empty = want == 0 && s->kind == SOCK_IS_STREAM; put < want || empty;) {
		if (put > 0 && (sock_state(s) & IPC_STREAM_ENDED) != 0)
			break; /* the next call returns the error */
		err = may_send(s);
		if (empty && (err == 0 || sock_is_connected(s)))
			err = err == EAGAIN ? 0 : err;
		if (empty && err != EAGAIN)
			break;
		if (err == 0) {
			uint32_t may = rn_min_u32(room(s), PIECE);
			__atomic_store_n(&s->full, false, __ATOMIC_RELAXED);
			put += copy_in(s, want - put < may ? (uint32_t)(want - put) : may, iov, n, put);
			sock_bell(s);
			w.has_bytes = true;
			continue;
		}
		if (err != EAGAIN)
			break;
		if (!wait_out(s, &fd, flags, &w)) {
			err = errno;
			break;
		}
	}
	if (s->kind == SOCK_IS_STREAM)
		tx_end(s);
	if (put > 0 || err == 0)
		return (ssize_t)put;
	if (err == EPIPE && (flags & MSG_NOSIGNAL) == 0)
		raise(SIGPIPE);
	errno = err;
	return -1;
}
