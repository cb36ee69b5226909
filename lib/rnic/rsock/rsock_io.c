/* SPDX-License-Identifier: BSD-3-Clause */
/* rsockets: sending and receiving. Each direction copies once, between the program's buffers and a ring. */
#include "rnic/rsock/rsock.h"

/* Out-of-band data is not supported; flags other than rsocket(7)'s are ignored. */
#define FLAGS_REFUSED (MSG_OOB | MSG_ERRQUEUE)

/* A position in a list of buffers. */
struct cursor {
	const struct iovec *iov;
	size_t n, off;
};

static size_t iov_sum(const struct iovec *iov, size_t n)
{
	size_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += iov[i].iov_len;
	return sum;
}

/* Copies n bytes between the list and `flat`, and moves the position. */
static void cursor_copy(struct cursor *c, uint8_t *flat, size_t n, bool to_list)
{
	while (n > 0) {
		size_t part = c->iov->iov_len - c->off < n ? c->iov->iov_len - c->off : n;
		uint8_t *mine = (uint8_t *)c->iov->iov_base + c->off;
		if (part > 0)
			memcpy(to_list ? mine : flat, to_list ? flat : mine, part);
		flat += part;
		n -= part;
		c->off += part;
		if (c->off == c->iov->iov_len) {
			c->iov++;
			c->off = 0;
		}
	}
}

/*
 * Begins a call; `turn` admits one call at a time in each direction. 0: `turn` and the rsocket's lock are held; *now:
 * the call must not wait.
 */
static int enter(struct rsock *rs, pthread_mutex_t *turn, int flags, bool *now)
{
	if ((flags & FLAGS_REFUSED) != 0)
		return EOPNOTSUPP;
	*now = rs->nonblock || (flags & MSG_DONTWAIT) != 0;
	if (!*now)
		pthread_mutex_lock(turn);
	else if (pthread_mutex_trylock(turn) != 0)
		return EAGAIN;
	rsock_call.turn = turn;
	pthread_mutex_lock(&rs->lock);
	return 0;
}

/* Ends a call that was begun. An error counts only if nothing was done before it. */
static ssize_t leave(struct rsock *rs, pthread_mutex_t *turn, size_t done, int rc)
{
	pthread_mutex_unlock(&rs->lock);
	pthread_mutex_unlock(turn);
	return rsock_done(rs, done > 0 ? 0 : rc) == 0 ? (ssize_t)done : -1;
}

static bool starting(const struct rsock *rs) { return rs->state >= RSOCK_ADDR && rs->state <= RSOCK_ACCEPTING; }

/* ---- sending ---- */

static bool window(const struct rsock *rs)
{
	return rsock_room(rs, 2 + RSOCK_SQ_CTRL) && rs->seq != rs->seq_max && rs->ntargets > 0 &&
	       rs->s_used < rs->ssize;
}

bool rsock_can_send(const struct rsock *rs)
{
	return rs->tx_shut || (rs->state == RSOCK_OPEN ? window(rs) : !starting(rs));
}

/* Why nothing can be sent any more; 0: sending is possible. */
static int send_error(const struct rsock *rs)
{
	if (rs->state == RSOCK_NEW || rs->state == RSOCK_LISTENING)
		return ENOTCONN;
	if (rs->state == RSOCK_GONE && rs->err != 0)
		return rs->err;
	return rs->tx_shut || rs->state == RSOCK_GONE ? EPIPE : 0;
}

/* How many bytes are sent at once. The ring and the peer's buffers are used in order, each to its end. */
static uint32_t portion(const struct rsock *rs, size_t left)
{
	uint32_t n = rn_min_u32(rn_min_u32(rs->target[0].length, RSOCK_XFER_MAX),
				rn_min_u32(rs->ssize - rs->s_used, rs->ssize - rs->s_head));

	return left < n ? (uint32_t)left : n;
}

static void sent(struct rsock *rs, uint32_t n)
{
	rs->seq++;
	rs->target[0].addr += n;
	rs->target[0].length -= n;
	if (rs->target[0].length == 0) {
		rs->target[0] = rs->target[1];
		rs->ntargets--;
	}
}

/* Sends one DATA message. The lock is held, and released while the bytes are copied into the ring. */
static uint32_t send_some(struct rsock *rs, struct cursor *c, size_t left)
{
	uint32_t n = portion(rs, left), msg = rsock_msg(RSOCK_DATA, n);
	uint8_t small[512], *at = rs->sbuf + rs->s_head;
	struct rsock_write w = { .from = at, .n = n, .ring = n, .to = rs->target[0].addr, .key = rs->target[0].key };

	if (n <= rs->inl && n <= sizeof(small)) {
		cursor_copy(c, small, n, false);
		w.from = small;
	} else {
		pthread_mutex_unlock(&rs->lock);
		cursor_copy(c, at, n, false);
		pthread_mutex_lock(&rs->lock);
		if (rs->state != RSOCK_OPEN || rs->tx_shut)
			return 0;
	}
	rs->s_head = rs->s_head + n == rs->ssize ? 0 : rs->s_head + n;
	rs->s_used += n;
	sent(rs, n);
	rsock_write_post(rs, &w, &msg);
	return n;
}

static ssize_t do_send(int fd, const struct iovec *iov, size_t cnt, int flags)
{
	struct rsock *rs = rsock_get(fd);
	struct cursor c = { .iov = iov, .n = cnt };
	size_t left = iov_sum(iov, cnt), done = 0;
	bool now;

	if (rs == NULL)
		return -1;
	int rc = enter(rs, &rs->snd, flags, &now);
	if (rc != 0)
		return rsock_done(rs, rc);
	rc = send_error(rs);
	while (rc == 0 && left > 0) {
		rc = rsock_wait(rs, rsock_can_send, now, rsock_ms(&rs->opt.sndtimeo));
		if (rc == 0)
			rc = send_error(rs);
		if (rc == 0) {
			uint32_t n = send_some(rs, &c, left);
			done += n;
			left -= n;
		}
	}
	return leave(rs, &rs->snd, done, rc);
}

ssize_t rsend(int fd, const void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)buf, .iov_len = len };

	return do_send(fd, &iov, 1, flags);
}

/* A connected stream takes no destination address. */
ssize_t rsendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to, socklen_t tolen)
{
	if (to != NULL || tolen != 0) {
		errno = EISCONN;
		return -1;
	}
	return rsend(fd, buf, len, flags);
}

ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	if (msg->msg_controllen != 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	return do_send(fd, msg->msg_iov, msg->msg_iovlen, flags);
}

ssize_t rwrite(int fd, const void *buf, size_t len) { return rsend(fd, buf, len, 0); }

ssize_t rwritev(int fd, const struct iovec *iov, int cnt)
{
	if (cnt < 0) {
		errno = EINVAL;
		return -1;
	}
	return do_send(fd, iov, (size_t)cnt, 0);
}

/* ---- receiving ---- */

bool rsock_can_recv(const struct rsock *rs)
{
	return rs->r_avail > 0 || rs->rx_end || rs->rx_shut || rs->state == RSOCK_NEW || rs->state == RSOCK_GONE;
}

/* Waits for n bytes, for one call. 0: there is something to read, or the end. */
static int recv_wait(struct rsock *rs, bool now)
{
	if (rs->state == RSOCK_NEW || rs->state == RSOCK_LISTENING)
		return ENOTCONN;
	int rc = rsock_wait(rs, rsock_can_recv, now, rsock_ms(&rs->opt.rcvtimeo));
	if (rc == 0 && rs->r_avail == 0 && !rs->rx_shut && rs->state == RSOCK_GONE)
		rc = rs->err;
	return rc;
}

/*
 * Copies up to `left` bytes, from `skip` bytes on. The lock is held, and released while the bytes are copied out of the
 * ring.
 */
static size_t recv_some(struct rsock *rs, struct cursor *c, size_t left, bool peek)
{
	uint32_t n = left < rs->r_avail ? (uint32_t)left : rs->r_avail;
	uint32_t first = rn_min_u32(n, rs->rsize - rs->r_head);
	uint8_t *at = rs->rbuf + rs->r_head;

	pthread_mutex_unlock(&rs->lock);
	cursor_copy(c, at, first, true);
	cursor_copy(c, rs->rbuf, n - first, true);
	pthread_mutex_lock(&rs->lock);
	if (peek)
		return n;
	rs->r_head = (rs->r_head + n) % rs->rsize;
	rs->r_avail -= n;
	rs->r_free += n;
	if (rs->state == RSOCK_OPEN)
		rsock_offer(rs);
	return n;
}

static ssize_t do_recv(int fd, const struct iovec *iov, size_t cnt, int flags)
{
	struct rsock *rs = rsock_get(fd);
	struct cursor c = { .iov = iov, .n = cnt };
	size_t left = iov_sum(iov, cnt), done = 0;
	bool peek = (flags & MSG_PEEK) != 0, all = (flags & MSG_WAITALL) != 0 && !peek;
	bool now;

	if (rs == NULL)
		return -1;
	int rc = enter(rs, &rs->rcv, flags, &now);
	if (rc != 0)
		return rsock_done(rs, rc);
	while (left > 0) {
		size_t n = 0;
		rc = recv_wait(rs, now);
		if (rc == 0)
			n = recv_some(rs, &c, left, peek);
		done += n;
		left -= n;
		if (n == 0 || !all)
			break;
	}
	return leave(rs, &rs->rcv, done, rc);
}

ssize_t rrecv(int fd, void *buf, size_t len, int flags)
{
	struct iovec iov = { .iov_base = buf, .iov_len = len };

	return do_recv(fd, &iov, 1, flags);
}

ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *from, socklen_t *fromlen)
{
	ssize_t n = rrecv(fd, buf, len, flags);

	if (n > 0 && from != NULL && fromlen != NULL)
		rgetpeername(fd, from, fromlen);
	return n;
}

ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	msg->msg_controllen = 0;
	msg->msg_flags = 0;
	return do_recv(fd, msg->msg_iov, msg->msg_iovlen, flags);
}

ssize_t rread(int fd, void *buf, size_t len) { return rrecv(fd, buf, len, 0); }

ssize_t rreadv(int fd, const struct iovec *iov, int cnt)
{
	if (cnt < 0) {
		errno = EINVAL;
		return -1;
	}
	return do_recv(fd, iov, (size_t)cnt, 0);
}
