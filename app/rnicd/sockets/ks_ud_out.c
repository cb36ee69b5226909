/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sends datagrams. They are first made in buffers; then one system call sends those in a row that go to the network by
 * the same device. While a datagram cannot be sent, no more are made.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "sockets/ks_ud.h"
#include "udp/udps.h"

#define SHARE      32u                  /* packets, about, that one QP may send before the next QP's turn */
#define TURN_SHARE 128u                 /* packets that all QPs may send in a turn, about */
#define STUCK_NS   (200 * RN_NS_PER_MS) /* a process that takes no datagrams for this long is not waited for any more */
#define AGAIN_NS   (50 * RN_NS_PER_US)  /* pause before a datagram is again passed to a process that had no room */
#define OUT_MAX    UDPS_SEGS_MAX        /* datagrams that have been made; queue pairs stop at KS_UD_BURST */
#define NETWORK    UINT32_MAX           /* leaving.index: the datagram goes by UDP, not to a process of this host */

/* A datagram that has been made and not sent yet. */
struct leaving {
	uint32_t port;
	uint32_t len;
	uint32_t index; /* index of the process that it is for, or NETWORK */
	uint8_t hop_limit, tos;
	bool marked;           /* hop_limit and tos are those of a socket; hop_limit 0: the host's default */
	uint16_t sport, dport; /* UDP ports, if by UDP */
	struct pkt_addr to;
};

static struct {
	uint8_t (*buf)[KS_UD_ROOM]; /* OUT_MAX buffers, allocated when the first datagram is made */
	struct leaving leaving[OUT_MAX];
	uint32_t n, at;   /* the elements [at, n) of `leaving` have not been sent */
	bool blocked;     /* the socket for leaving[at] takes no more; epoll reports when it does */
	uint64_t stuck;   /* since when the process for leaving[at] has had no room; 0: it has room */
	uint64_t slow[4]; /* a bit for each index of a process that is not waited for: a relay keeps its datagrams */
} out;

/* Finds the device of this host that has an address to which device `port` sends. False: none has it. */
static bool own_device(uint32_t port, const struct pkt_addr *a, uint32_t *dev)
{
	for (*dev = 0; *dev < rnicd.n_ports; ++*dev)
		if (ks_has_addr(*dev, a, rnicd.port[port]->if_index))
			return true;
	return false;
}

/* dev: index of the device that receives it. */
static struct ks_gram gram_of(uint32_t i, uint32_t dev)
{
	const struct leaving *l = &out.leaving[i];

	return (struct ks_gram){ .p = out.buf[i],
				 .len = l->len,
				 .port = dev,
				 .from = rnicd.port[l->port]->cfg->ip,
				 .to = l->to,
				 .hop_limit = 64,
				 .passed = true };
}

/* ---- to a process of this host ---- */

static bool is_slow(uint32_t index) { return (out.slow[index / 64] >> (index % 64) & 1) != 0; }

/* Passes leaving[at] to its process. False: the process has no room, and it is waited for. */
static bool to_process(struct leaving *l)
{
	const uint64_t bit = UINT64_C(1) << (l->index % 64);
	const struct ks_gram g = gram_of(out.at, l->port);

	switch (is_slow(l->index) ? ks_pass_on(l->index, &g) : ks_pass_gram(l->index, &g)) {
	case KS_PASSED:
		out.slow[l->index / 64] &= ~bit;
		out.at++;
		break;
	case KS_PASS_KEPT: out.at++; break;
	case KS_PASS_NOBODY: l->index = NETWORK; break; /* a process of another user may have the QPN: send by UDP */
	case KS_PASS_FULL:
		if (is_slow(l->index)) {
			rnicd.port[l->port]->stats[0].rx_moved_drops++;
			out.at++;
			break;
		}
		if (out.stuck == 0)
			out.stuck = ks.now;
		if (ks.now - out.stuck < STUCK_NS)
			return false;
		out.slow[l->index / 64] |= bit; /* from now on its datagrams are kept */
		break;
	}
	out.stuck = 0;
	return true;
}

/* ---- to the network ---- */

struct burst {
	struct mmsghdr m[OUT_MAX];
	struct iovec iov[OUT_MAX];
	union ks_sockaddr to[OUT_MAX];
	union {
		struct cmsghdr align;
		uint8_t b[2 * CMSG_SPACE(sizeof(int))];
	} ctl[OUT_MAX];
};

static void put_mark(struct cmsghdr *c, int level, int type, int value)
{
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(value)), .cmsg_level = level, .cmsg_type = type };
	memcpy(CMSG_DATA(c), &value, sizeof(value));
}

static void hops(struct msghdr *mh, void *ctl, const struct leaving *l)
{
	const bool v4 = pkt_addr_is_ip4(&l->to);

	mh->msg_control = ctl;
	mh->msg_controllen = CMSG_SPACE(sizeof(int));
	put_mark(CMSG_FIRSTHDR(mh), v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT,
		 (int)rn_max_u32(l->hop_limit, 1));
}

/* TOS, and TTL if it is not the host's default, of a socket's datagram. */
static void marks(struct msghdr *mh, void *ctl, const struct leaving *l)
{
	const size_t each = CMSG_SPACE(sizeof(int));

	mh->msg_control = ctl;
	mh->msg_controllen = l->hop_limit != 0 ? 2 * each : each;
	put_mark(ctl, IPPROTO_IP, IP_TOS, l->tos);
	if (l->hop_limit != 0)
		put_mark((struct cmsghdr *)(void *)((uint8_t *)ctl + each), IPPROTO_IP, IP_TTL, l->hop_limit);
}

static void address(struct burst *b, uint32_t i, const struct leaving *l, uint8_t *p)
{
	struct msghdr *mh = &b->m[i].msg_hdr;
	const socklen_t len = ks_sockaddr(&b->to[i], l->port, &l->to, l->dport);

	b->iov[i] = (struct iovec){ .iov_base = p, .iov_len = l->len };
	*mh = (struct msghdr){ .msg_name = &b->to[i], .msg_namelen = len, .msg_iov = &b->iov[i], .msg_iovlen = 1 };
	if (pkt_addr_is_any_group(&l->to))
		hops(mh, &b->ctl[i], l);
	else if (l->marked)
		marks(mh, &b->ctl[i], l);
}

static bool same_socket(const struct leaving *a, const struct leaving *b)
{
	return a->port == b->port && a->sport == b->sport;
}

/* Sends leaving[at] and those after it that go to the network by its socket. False: the socket takes no more now. */
static bool to_network(void)
{
	static struct burst b;
	const struct leaving *first = &out.leaving[out.at];
	struct ks_src *src = ks_ud_src(first->port, first->sport);
	uint32_t n = 0;

	for (uint32_t i = out.at; i < out.n; i++) {
		if (out.leaving[i].index != NETWORK || !same_socket(&out.leaving[i], first))
			break;
		address(&b, n++, &out.leaving[i], out.buf[i]);
	}
	int sent = src != NULL ? sendmmsg(src->fd, b.m, n, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
	if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
		out.blocked = true;
		ks_watch(src, EPOLLIN | EPOLLOUT);
		return false;
	}
	if (sent <= 0) {
		/* this datagram can never be sent: no route to its address, its queue pair is gone, or the like */
		rnicd.port[first->port]->stats[0].tx_drops++;
		sent = 1;
	}
	out.at += (uint32_t)sent;
	return true;
}

bool ks_ud_flush(void)
{
	while (out.at < out.n && !out.blocked) {
		struct leaving *l = &out.leaving[out.at];
		if (!(l->index == NETWORK ? to_network() : to_process(l)))
			return false;
	}
	if (out.at < out.n)
		return false;
	out.at = out.n = 0;
	return true;
}

void ks_ud_writable(uint32_t port, uint16_t udp_port)
{
	const struct leaving l = { .port = port, .sport = udp_port };

	if (out.blocked && same_socket(&out.leaving[out.at], &l))
		out.blocked = false;
	(void)ks_ud_flush();
}

/* False: no memory. */
static bool has_buffers(void)
{
	if (out.buf == NULL)
		out.buf = malloc(OUT_MAX * sizeof(*out.buf));
	return out.buf != NULL;
}

/* The buffer for a queue pair's next datagram; NULL: none is free now, or no memory. */
static uint8_t *next_buffer(void)
{
	return has_buffers() && (out.n < KS_UD_BURST || ks_ud_flush()) ? out.buf[out.n] : NULL;
}

/* ---- datagrams of sockets ---- */

bool ks_ud_room(uint32_t n) { return has_buffers() && (out.n + n <= rn_max_u32(n, KS_UD_BURST) || ks_ud_flush()); }

uint8_t *ks_ud_next(void) { return out.buf[out.n]; }

void ks_ud_put(uint32_t port, const struct ipc_gram_rec *rec, uint32_t len)
{
	const uint16_t common = rnicd.port[port]->cfg->ud_port;
	struct leaving *l = &out.leaving[out.n++];

	*l = (struct leaving){ .port = port,
			       .len = len,
			       .index = NETWORK,
			       .hop_limit = rec->ttl,
			       .tos = rec->tos,
			       .marked = true,
			       .sport = common,
			       .dport = common };
	memcpy(l->to.b, rec->ip, sizeof(l->to.b));
}

/* ---- queue pairs ---- */

/* Index of the process of this host that has the receiving QP, and the QP's device; NETWORK: none has. */
static uint32_t receiver_of(uint32_t port, const struct pkt_addr *to, uint32_t qpn, uint32_t *dev)
{
	if (pkt_addr_is_any_group(to) || !own_device(port, to, dev))
		return NETWORK;
	if (rn_likely(!udpl_has_port(qpn)))
		return qpn >> KS_INDEX_SHIFT;
	return ks_ud_own_src(*dev, (uint16_t)qpn) != NULL ? rnicd.process : NETWORK;
}

/* Sends the datagram of len octets that has been made in the next buffer, or delivers it in this process. */
static void leave(uint32_t port, const struct dgram_to *dst, uint32_t len)
{
	const uint16_t common = rnicd.port[port]->cfg->ud_port;
	struct leaving *l = &out.leaving[out.n];
	uint32_t dev = port;

	*l = (struct leaving){ .port = port,
			       .len = len,
			       .hop_limit = dst->hop_limit,
			       .sport = udpl_port(dst->src_qpn, common),
			       .dport = udpl_port(dst->dst_qpn, common) };
	memcpy(l->to.b, dst->addr, sizeof(l->to.b));
	l->index = receiver_of(port, &l->to, dst->dst_qpn, &dev);
	if (l->index == rnicd.process) {
		const struct ks_gram g = gram_of(out.n, dev);
		ks_ud_take(&g);
		return;
	}
	out.n++;
}

/* Sends about SHARE packets of a QP. True: the QP has nothing more to send now. */
static bool send_some(struct qp *qp, uint32_t *count)
{
	const uint32_t port = ud_of(qp)->port, end = *count + SHARE;
	struct dgram_to dst;

	while (*count < end) {
		if (!dgram_waits(qp))
			return true;
		uint8_t *p = ks_space() ? next_buffer() : NULL;
		if (p == NULL)
			return false;
		uint32_t len = dgram_out(&ks.dgram, qp, p, &dst);
		if (len == 0)
			continue;
		*count += 1 + len / rnicd.port[port]->mtu;
		leave(port, &dst, len);
	}
	return false;
}

void ks_ud_finish(struct qp *qp)
{
	uint32_t count = 0;

	(void)send_some(qp, &count);
	(void)ks_ud_flush();
}

uint32_t ks_ud_transmit(void)
{
	const struct qp *again = NULL; /* the first QP that was put back with more to send: the round ends before it */
	uint32_t count = 0;

	if (!ks_ud_flush())
		return 0;
	while (count < TURN_SHARE && rn_slist_first(&ks.dgram.ready, struct qp, link) != again) {
		struct qp *qp = dgram_pop(&ks.dgram);
		if (send_some(qp, &count))
			continue;
		dgram_put(&ks.dgram, qp); /* at once: a datagram that arrives in this process may put the QP, too */
		again = again != NULL ? again : qp;
	}
	(void)ks_ud_flush();
	return count;
}

void ks_ud_send(uint32_t port, const struct pkt_addr *to, const uint8_t *p, uint32_t len)
{
	const uint16_t common = rnicd.port[port]->cfg->ud_port;
	const struct leaving l = { .port = port, .len = len, .dport = common, .to = *to };
	const struct ks_src *src = ks_ud_src(port, common);
	static struct burst b;

	address(&b, 0, &l, (uint8_t *)(uintptr_t)p);
	if (src == NULL || sendmsg(src->fd, &b.m[0].msg_hdr, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		rnicd.port[port]->stats[0].tx_drops++;
}

bool ks_ud_waits(void) { return out.n != out.at; }

bool ks_ud_more(void) { return out.n == out.at && !rn_slist_empty(&ks.dgram.ready); }

uint64_t ks_ud_due(void)
{
	const uint64_t again = out.at < out.n && !out.blocked ? ks.now + AGAIN_NS : RN_NEVER;

	return rn_min_u64(again, dgram_due(&ks.dgram));
}
