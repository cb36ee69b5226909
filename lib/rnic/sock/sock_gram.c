/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends and receives datagrams through the shared rings (ipc_gram.h). Datagrams to and from addresses that no port of
 * rnicd reaches pass through the kernel's socket below.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define MASK    (IPC_GRAM_RING - 1)
#define LOOKS   64u
#define FAIR    16u   /* one in this many receives looks at the kernel's socket first */
#define GSO_MAX 64u   /* maximum number of segments of one send, as in Linux */
#define PACKET  1472u /* bytes of a datagram that the paths of Ethernet take in one packet */

/* ---- readiness of the descriptor ---- */

static uint32_t gram_unread(const struct sock *s)
{
	return __atomic_load_n(&s->gram->rx_tail, __ATOMIC_ACQUIRE) -
	       __atomic_load_n(&s->gram->rx_head, __ATOMIC_RELAXED);
}

static uint32_t gram_room(const struct sock *s)
{
	uint32_t n = s->gram->tx_tail - __atomic_load_n(&s->gram->tx_head, __ATOMIC_ACQUIRE);

	return n <= IPC_GRAM_RING ? IPC_GRAM_RING - n : 0;
}

bool sock_gram_is_empty(const struct sock *s) { return gram_room(s) == IPC_GRAM_RING; }

static bool gram_broken(const struct sock *s)
{
	return (__atomic_load_n(&s->gram->state, __ATOMIC_ACQUIRE) & IPC_GRAM_BROKEN) != 0;
}

static bool gram_shut(const struct sock *s, uint32_t how)
{
	return (__atomic_load_n(&s->gram->shut, __ATOMIC_RELAXED) & how) != 0;
}

static bool something_in(const struct sock *s)
{
	return gram_unread(s) != 0 || __atomic_load_n(&s->gram->error, __ATOMIC_RELAXED) != 0 || gram_broken(s);
}

/*
 * Nothing is left to read: makes the descriptor unreadable until a datagram comes. The caller has the turn, so no other
 * thread closes the descriptor meanwhile (sock_leave_begin()). False: rnicd is gone.
 */
static bool gram_settle_in(const struct sock *s, int fd)
{
	int saved = errno;

	fd = sock_still(s, fd);
	if (fd < 0)
		return true;
	bool there = sock_empty(fd);

	__atomic_fetch_or(&s->gram->want, IPC_STREAM_WANT_IN, __ATOMIC_SEQ_CST);
	if (something_in(s))
		sock_bell(s);
	errno = saved;
	return there || gram_shut(s, IPC_GRAM_SHUT_IN);
}

/* There is no room: makes the descriptor unwritable until there is some. The caller has the turn. False: no rnicd. */
static bool gram_settle_out(const struct sock *s, int fd)
{
	static const uint8_t block[IPC_STREAM_BLOCK];
	int saved = errno;

	fd = sock_still(s, fd);
	if (fd < 0)
		return true;
	bool there = sock_libc.send(fd, block, sizeof(block), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EAGAIN;

	__atomic_fetch_or(&s->gram->want, IPC_STREAM_WANT_OUT, __ATOMIC_SEQ_CST);
	sock_bell(s);
	errno = saved;
	return there;
}

void sock_gram_watch(struct sock *s, int fd)
{
	if (__atomic_load_n(&s->watched, __ATOMIC_RELAXED))
		return;
	sock_turn_begin(&s->rx, &s->gram->rx_turn);
	__atomic_store_n(&s->watched, true, __ATOMIC_RELAXED);
	(void)gram_settle_in(s, fd);
	sock_turn_end(&s->rx, &s->gram->rx_turn);
}

void sock_gram_settle(struct sock *s, int fd)
{
	sock_turn_begin(&s->rx, &s->gram->rx_turn);
	if (!something_in(s))
		(void)gram_settle_in(s, fd);
	sock_turn_end(&s->rx, &s->gram->rx_turn);
}

short sock_gram_events(const struct sock *s, short told)
{
	bool room_there = (__atomic_load_n(&s->gram->want, __ATOMIC_RELAXED) & IPC_STREAM_WANT_OUT) == 0;
	bool gone = gram_broken(s) || ((told & POLLHUP) != 0 && !gram_shut(s, IPC_GRAM_SHUT_IN));
	int e = 0;

	if (gram_unread(s) != 0 || gram_shut(s, IPC_GRAM_SHUT_IN) || gone)
		e |= POLLIN | POLLRDNORM;
	if (gram_shut(s, IPC_GRAM_SHUT_IN))
		e |= POLLRDHUP;
	if (gram_shut(s, IPC_GRAM_SHUT_IN) && gram_shut(s, IPC_GRAM_SHUT_OUT))
		e |= POLLHUP;
	if (room_there || gone)
		e |= POLLOUT | POLLWRNORM;
	if (__atomic_load_n(&s->gram->error, __ATOMIC_RELAXED) != 0 || gone)
		e |= POLLERR;
	return (short)(e | (told & POLLNVAL));
}

static bool look_a_while(const struct sock *s)
{
	struct sock_looks t = { 0 };

	do {
		for (uint32_t i = 0; i < LOOKS; i++)
			if (something_in(s))
				return true;
	} while (sock_look_on(&t));
	return false;
}

int sock_gram_below_fd(const struct sock *s) { return s->kind == SOCK_IS_GRAM && s->below_live ? s->below : -1; }

/*
 * Sleeps until the ring may have room (POLLOUT), or the ring or the kernel's socket a datagram. 0 or an errno; EBADF:
 * the socket has no descriptor any more.
 */
static int sleep_for(const struct sock *s, int fd, short events, uint64_t end)
{
	struct pollfd p[2] = { { .fd = sock_still(s, fd), .events = events },
			       { .fd = sock_gram_below_fd(s), .events = POLLIN } };

	if (p[0].fd < 0)
		return EBADF;
	if (sock_sleep(p, events == POLLIN ? 2 : 1, end, true) <= 0)
		return errno;
	return (p[0].revents & (POLLHUP | POLLERR)) != 0 && !gram_shut(s, IPC_GRAM_SHUT_IN) ? ENETDOWN : 0;
}

uint32_t sock_gram_next(const struct sock *s)
{
	struct ipc_gram_rec rec;

	if (gram_unread(s) < sizeof(rec) || gram_unread(s) > IPC_GRAM_RING)
		return 0;
	memcpy(&rec, (const uint8_t *)s->gram + IPC_GRAM_RX_OFF + (s->gram->rx_head & MASK), sizeof(rec));
	return rec.len <= UINT16_MAX ? rec.len : 0;
}

/* ---- receiving ---- */

/* Copies a record's bytes to the program's buffers. pos: their offset in the ring, for a record without a slot. */
static uint32_t gram_copy_out(const struct sock *s, uint32_t pos, const struct ipc_gram_rec *rec,
			      const struct msghdr *m)
{
	const uint8_t *ring = (const uint8_t *)s->gram + IPC_GRAM_RX_OFF;
	uint32_t done = 0, n = rec->len;

	if (rec->slot != 0) { /* all slots together are no longer than a ring: the copy below never wraps in them */
		ring = (const uint8_t *)s->gram + IPC_GRAM_SLOT_OFF;
		pos = (rec->slot - 1u) * IPC_GRAM_SLOT;
	}

	for (size_t i = 0; i < m->msg_iovlen && done < n; i++) {
		uint32_t left = n - done, place = pos & MASK;
		uint32_t len = m->msg_iov[i].iov_len < left ? (uint32_t)m->msg_iov[i].iov_len : left;
		uint32_t first = rn_min_u32(len, IPC_GRAM_RING - place);
		memcpy(m->msg_iov[i].iov_base, ring + place, first);
		memcpy((uint8_t *)m->msg_iov[i].iov_base + first, ring, len - first);
		pos += len;
		done += len;
	}
	return done;
}

struct control {
	struct msghdr *m;
	size_t room, used;
};

static void put_control(struct control *c, int level, int type, const void *data, size_t len)
{
	struct cmsghdr h = { .cmsg_len = CMSG_LEN(len), .cmsg_level = level, .cmsg_type = type };

	if (c->room - c->used < h.cmsg_len) {
		c->m->msg_flags |= MSG_CTRUNC;
		return;
	}
	uint8_t *to = (uint8_t *)c->m->msg_control + c->used;
	memcpy(to, &h, sizeof(h));
	memcpy(to + CMSG_LEN(0), data, len);
	size_t space = CMSG_SPACE(len), left = c->room - c->used;
	c->used += space < left ? space : left;
}

static void put_controls(const struct sock *s, const struct ipc_gram_rec *rec, struct msghdr *m)
{
	struct control c = { .m = m, .room = m->msg_control != NULL ? m->msg_controllen : 0 };
	struct in_pktinfo info = { 0 };
	int ttl = rec->ttl;

	if (s->pktinfo) {
		memcpy(&info.ipi_addr, rec->local, sizeof(rec->local));
		info.ipi_ifindex = sock_kernels() ? rec->dev : 0;
		info.ipi_spec_dst = info.ipi_addr;
		put_control(&c, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	}
	if (s->recv_ttl)
		put_control(&c, IPPROTO_IP, IP_TTL, &ttl, sizeof(ttl));
	if (s->recv_tos)
		put_control(&c, IPPROTO_IP, IP_TOS, &rec->tos, sizeof(rec->tos));
	m->msg_controllen = c.used;
}

/* Receives the record at the head of the ring. Bytes, or -1 and errno. */
static ssize_t take_record(struct sock *s, int fd, struct msghdr *m, int flags)
{
	uint32_t head = s->gram->rx_head, there = gram_unread(s);
	struct ipc_gram_rec rec;
	struct ipc_addr from = { .port = 0 };

	if (there < sizeof(rec) || there > IPC_GRAM_RING) {
		errno = there == 0 ? EAGAIN : EIO;
		return -1;
	}
	memcpy(&rec, (const uint8_t *)s->gram + IPC_GRAM_RX_OFF + (head & MASK), sizeof(rec));
	if (rec.len > UINT16_MAX || ipc_gram_rec_need(&rec) > there || rec.slot > IPC_GRAM_SLOTS) {
		errno = EIO; /* another process of this user has overwritten the ring's contents */
		return -1;
	}
	uint32_t done = gram_copy_out(s, head + (uint32_t)sizeof(rec), &rec, m);
	memcpy(from.ip, rec.ip, sizeof(from.ip));
	from.port = rec.port;
	if (sock_kernels() && IN6_IS_ADDR_LINKLOCAL((const struct in6_addr *)(const void *)rec.ip))
		memcpy(&from.scope, rec.local, sizeof(rec.local));
	m->msg_flags = done < rec.len ? MSG_TRUNC : 0;
	if (m->msg_name != NULL)
		sock_addr_out(s, &from, m->msg_name, &m->msg_namelen);
	put_controls(s, &rec, m);
	if (s->wild && sock_port(rec.dev) != NULL) { /* an answer leaves by the port that the datagram came in by */
		sock_lock(&s->tx);
		memcpy(s->last_ip, rec.ip, sizeof(s->last_ip));
		s->last_dev = rec.dev;
		sock_unlock(&s->tx);
	}
	if ((flags & MSG_PEEK) == 0) {
		__atomic_store_n(&s->gram->rx_head, head + ipc_gram_rec_need(&rec), __ATOMIC_RELEASE);
		if (s->watched && there == ipc_gram_rec_need(&rec))
			(void)gram_settle_in(s, fd);
	}
	return (flags & MSG_TRUNC) != 0 ? (ssize_t)rec.len : (ssize_t)done;
}

static ssize_t gram_take(struct sock *s, int fd, struct msghdr *m, int flags)
{
	ssize_t r;

	if (gram_unread(s) == 0) {
		errno = EAGAIN;
		return -1;
	}
	sock_turn_begin(&s->rx, &s->gram->rx_turn);
	r = take_record(s, fd, m, flags);
	sock_turn_end(&s->rx, &s->gram->rx_turn);
	return r;
}

static bool hears_below(const struct sock *s) { return sock_gram_below_fd(s) >= 0; }

static ssize_t take_below(struct sock *s, struct msghdr *m, int flags)
{
	if (hears_below(s))
		return sock_libc.recvmsg(s->below, m, flags | MSG_DONTWAIT);
	errno = EAGAIN;
	return -1;
}

/*
 * The ring is empty: waits, unless the call must not block. *end: when the call's time is over; 0 before its first
 * wait. 0: a datagram may be there now; else an errno.
 */
static int gram_wait_in(struct sock *s, int fd, int flags, uint64_t *end)
{
	const bool blocks = !sock_does_not_block(fd, flags);
	bool there = true;

	if (blocks && look_a_while(s))
		return 0;
	if (blocks || s->watched) {
		sock_turn_begin(&s->rx, &s->gram->rx_turn);
		there = gram_settle_in(s, fd);
		sock_turn_end(&s->rx, &s->gram->rx_turn);
	}
	if (!there || !blocks)
		return there ? EAGAIN : ENETDOWN;
	if (*end == 0)
		*end = sock_end_in(s->rcv_ms);
	return sleep_for(s, fd, POLLIN, *end);
}

static ssize_t nothing(struct msghdr *m)
{
	m->msg_namelen = 0;
	m->msg_controllen = 0;
	m->msg_flags = 0;
	return 0;
}

ssize_t sock_gram_recv(struct sock *s, int fd, struct msghdr *m, int flags)
{
	uint64_t end = 0;
	int err = 0;

	if ((flags & MSG_ERRQUEUE) != 0)
		return sock_libc.recvmsg(s->below, m, flags);
	while (err == 0) {
		bool below_first = hears_below(s) && ++s->turns % FAIR == 0;
		err = sock_gram_error(s);
		if (err != 0)
			break;
		ssize_t r = below_first ? take_below(s, m, flags) : gram_take(s, fd, m, flags);
		if (r < 0 && errno == EAGAIN)
			r = below_first ? gram_take(s, fd, m, flags) : take_below(s, m, flags);
		if (r >= 0 || errno != EAGAIN)
			return r;
		if (gram_broken(s))
			err = EIO;
		else if (gram_shut(s, IPC_GRAM_SHUT_IN) && !sock_does_not_block(fd, flags))
			return nothing(m); /* a call that must not block gets EAGAIN, as in Linux */
		else
			err = gram_wait_in(s, fd, flags, &end);
	}
	errno = err;
	return -1;
}

/* ---- sending ---- */

/* Reads the control messages of a send. 0 or an errno. */
static int read_controls(const struct sock *s, const struct msghdr *m, struct sock_way *w)
{
	struct msghdr *all = (struct msghdr *)(uintptr_t)m; /* CMSG_NXTHDR writes nothing */

	for (struct cmsghdr *c = CMSG_FIRSTHDR(all); c != NULL; c = CMSG_NXTHDR(all, c)) {
		const void *data = CMSG_DATA(c);
		size_t len = c->cmsg_len - CMSG_LEN(0);
		struct in_pktinfo info;
		uint16_t segment;
		int v = 0;

		if (c->cmsg_len < CMSG_LEN(0))
			return EINVAL;
		if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO && len == sizeof(info)) {
			struct ipc_addr a = { .ip = { [10] = 0xff, [11] = 0xff } };
			memcpy(&info, data, sizeof(info));
			memcpy(a.ip + 12, &info.ipi_spec_dst, 4);
			uint32_t dev = sock_port_of(&a);
			memcpy(w->local, a.ip + 12, sizeof(w->local));
			if (sock_kernels() && info.ipi_ifindex != 0)
				return EINVAL;
			if (dev != UINT32_MAX && s->wild)
				w->dev = dev;
		} else if (c->cmsg_level == IPPROTO_IP && (c->cmsg_type == IP_TTL || c->cmsg_type == IP_TOS)) {
			if (len != sizeof(v) && (c->cmsg_type == IP_TTL || len != 1))
				return EINVAL;
			memcpy(&v, data, len);
			if (c->cmsg_type == IP_TTL ? v < 1 || v > 255 : v < 0 || v > 255)
				return EINVAL;
			*(c->cmsg_type == IP_TTL ? &w->ttl : &w->tos) = (uint8_t)v;
		} else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_SEGMENT && len == sizeof(segment)) {
			memcpy(&segment, data, sizeof(segment));
			w->segment = segment;
		} else if (c->cmsg_level == IPPROTO_IP || c->cmsg_level == IPPROTO_UDP) {
			return EINVAL;
		}
	}
	return 0;
}

static int check_length(const struct sock_way *w, size_t total)
{
	const struct ipc_sock_port *port = sock_kernels() ? NULL : sock_port(w->dev);
	const size_t whole = sock_kernels()                              ? PACKET
			     : port != NULL && port->mtu > IPC_GRAM_HDRS ? port->mtu - IPC_GRAM_HDRS
									 : 0;
	const bool many = w->segment != 0 && total > w->segment;

	if (total > UINT16_MAX - IPC_GRAM_HDRS || ((w->whole || many) && (many ? w->segment : total) > whole))
		return EMSGSIZE;
	return w->segment != 0 && total > (size_t)w->segment * GSO_MAX ? EINVAL : 0;
}

/* rnicrun --embedded: what is not for the ring is for the kernel's socket, which says what is wrong, if anything. */
static void way_by_kernels(const struct sock *s, const struct msghdr *m, struct sock_way *w)
{
	sock_way_find(s, m, w);
	w->first = w->first && sock_gram_is_empty(s);
	if (!w->below && m->msg_control != NULL)
		w->below = read_controls(s, m, w) != 0;
	w->below = w->below || check_length(w, sock_bytes(m->msg_iov, m->msg_iovlen)) != 0;
}

/* Finds the port by which a datagram to the address leaves, and remembers this last result in the socket. Returns 0. */
static int find_way(struct sock *s, const struct ipc_addr *to, struct sock_way *w)
{
	struct ipc_addr from;

	w->to = *to;
	if (memcmp(s->last_ip, to->ip, sizeof(s->last_ip)) != 0) {
		memcpy(s->last_ip, to->ip, sizeof(s->last_ip));
		s->last_dev = !s->wild                  ? sock_port_of(&s->local)
			      : sock_reaches(to, &from) ? sock_port_of(&from)
							: UINT32_MAX;
	}
	w->dev = s->last_dev;
	w->below = w->dev == UINT32_MAX;
	return 0;
}

static int way_of(struct sock *s, const struct msghdr *m, struct sock_way *w)
{
	struct ipc_addr to;
	int err;

	*w = (struct sock_way){ .tos = s->tos, .ttl = s->ttl, .segment = s->segment, .whole = s->whole };
	if (sock_kernels()) {
		way_by_kernels(s, m, w);
		return 0;
	}
	if (m->msg_name == NULL || m->msg_namelen == 0) {
		if (!s->has_peer)
			return EDESTADDRREQ;
		to = s->remote;
	} else if (!sock_addr_in(m->msg_name, m->msg_namelen, &to)) {
		return m->msg_namelen < sizeof(struct sockaddr_in) ? EINVAL : EAFNOSUPPORT;
	} else if (to.port == 0) {
		return EINVAL;
	}
	sock_lock(&s->tx); /* all threads share last_ip and last_dev */
	err = find_way(s, &to, w);
	sock_unlock(&s->tx);
	if (err == 0 && !w->below && m->msg_control != NULL)
		err = read_controls(s, m, w);
	return err;
}

static void ring_in(const struct sock *s, uint32_t pos, const void *p, uint32_t len)
{
	uint8_t *ring = (uint8_t *)s->gram + IPC_GRAM_TX_OFF;
	uint32_t place = pos & MASK, first = rn_min_u32(len, IPC_GRAM_RING - place);

	memcpy(ring + place, p, first);
	memcpy(ring, (const uint8_t *)p + first, len - first);
}

/* Copies the bytes [skip, skip + len) of the program's buffers into the send ring at pos. */
static void gather(const struct sock *s, uint32_t pos, const struct msghdr *m, size_t skip, uint32_t len)
{
	for (size_t i = 0; i < m->msg_iovlen && len > 0; i++) {
		size_t cut = skip < m->msg_iov[i].iov_len ? skip : m->msg_iov[i].iov_len;
		size_t left = m->msg_iov[i].iov_len - cut;
		uint32_t n = left < len ? (uint32_t)left : len;
		ring_in(s, pos, (const uint8_t *)m->msg_iov[i].iov_base + cut, n);
		skip -= cut;
		pos += n;
		len -= n;
	}
}

/* Puts all datagrams of one send into the ring, or none. False: there is no room. */
static bool gram_put(struct sock *s, const struct msghdr *m, const struct sock_way *w, uint32_t total)
{
	uint32_t step = w->segment != 0 ? w->segment : total, need = 0, pos = s->gram->tx_tail;
	struct ipc_gram_rec rec = {
		.port = w->to.port, .dev = (uint16_t)w->dev, .tos = w->tos, .ttl = w->ttl, .wire = s->wire
	};

	for (uint32_t at = 0; at < total || at == 0; at += rn_max_u32(step, 1))
		need += ipc_gram_need(rn_min_u32(step, total - at));
	if (gram_room(s) < need)
		return false;
	memcpy(rec.ip, w->to.ip, sizeof(rec.ip));
	memcpy(rec.local, w->local, sizeof(rec.local));
	for (uint32_t at = 0; at < total || at == 0; at += rn_max_u32(step, 1)) {
		rec.len = rn_min_u32(step, total - at);
		ring_in(s, pos, &rec, sizeof(rec));
		gather(s, pos + (uint32_t)sizeof(rec), m, at, rec.len);
		pos += ipc_gram_need(rec.len);
	}
	__atomic_store_n(&s->gram->tx_tail, pos, __ATOMIC_RELEASE);
	return true;
}

static int send_ours(struct sock *s, int fd, const struct msghdr *m, int flags, const struct sock_way *w)
{
	size_t total = sock_bytes(m->msg_iov, m->msg_iovlen);
	int err = check_length(w, total);
	uint64_t end = 0;

	while (err == 0) {
		sock_turn_begin(&s->tx, &s->gram->tx_turn);
		bool done = gram_put(s, m, w, (uint32_t)total);
		bool there = done || gram_settle_out(s, fd);
		sock_turn_end(&s->tx, &s->gram->tx_turn);
		if (done) {
			sock_bell(s);
			return 0;
		}
		if (end == 0)
			end = sock_end_in(s->snd_ms);
		if (!there)
			err = ENETDOWN;
		else if (gram_broken(s))
			err = EIO;
		else
			err = sock_does_not_block(fd, flags) ? EAGAIN : sleep_for(s, fd, POLLOUT, end);
	}
	return err;
}

/* Sends all pieces; the last one, of n bytes, is taken back if the call must not wait for room. 0 or an errno. */
static int send_pieces(struct sock *s, int fd, size_t n, int flags)
{
	struct sock_more *p = sock_more_take(s);
	if (p == NULL)
		return 0; /* another thread has sent them */
	struct iovec v = { p->bytes, p->len };
	const struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
	const int err = send_ours(s, fd, &m, flags, &p->w);
	sock_more_back(s, p, err == EAGAIN ? (uint32_t)n : UINT32_MAX);
	return err;
}

void sock_gram_uncork(struct sock *s)
{
	if (sock_more_has(s))
		(void)send_pieces(s, sock_number(s), 0, MSG_DONTWAIT);
}

static int send_piece(struct sock *s, int fd, const struct msghdr *m, int flags, const struct sock_way *w)
{
	const int err = sock_more_keep(s, m, w);

	if (err != 0 || s->corked || (flags & MSG_MORE) != 0)
		return err;
	return send_pieces(s, fd, sock_bytes(m->msg_iov, m->msg_iovlen), flags);
}

static ssize_t send_below(struct sock *s, int fd, const struct msghdr *m, int flags)
{
	sock_gram_below(s);
	return sock_libc.sendmsg(s->below, m, flags | (sock_does_not_block(fd, flags) ? MSG_DONTWAIT : 0));
}

ssize_t sock_gram_send(struct sock *s, int fd, const struct msghdr *m, int flags)
{
	struct sock_way w;
	const bool kept = sock_more_has(s), piece = kept || s->corked || (flags & MSG_MORE) != 0;
	int err = (flags & MSG_OOB) != 0 ? EOPNOTSUPP : way_of(s, m, &w);

	if (err == 0 && !kept && w.to.port == 0)
		return send_below(s, fd, m, flags); /* rnicrun --embedded: the kernel refuses it before all else */
	if (kept && err != EOPNOTSUPP) {            /* the address is the first piece's */
		err = 0;
		w.below = false;
	}
	if (err == 0)
		err = sock_gram_error(s);
	if (err == 0 && gram_shut(s, IPC_GRAM_SHUT_OUT))
		err = EPIPE;
	if (err == 0 && (w.below || (w.first && !piece)))
		return send_below(s, fd, m, flags);
	if (err == 0)
		err = piece ? send_piece(s, fd, m, flags, &w) : send_ours(s, fd, m, flags, &w);
	if (err == 0)
		return (ssize_t)sock_bytes(m->msg_iov, m->msg_iovlen);
	errno = err; /* without SIGPIPE, which only streams raise */
	return -1;
}
