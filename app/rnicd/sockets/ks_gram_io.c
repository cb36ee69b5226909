/* SPDX-License-Identifier: BSD-3-Clause */
/* Plain datagrams of datagram sockets: the kernel's sockets, and the kernel's routes. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "sockets/ks_gram.h"

#define SOCKS_AT_ONCE 32u /* sockets that one step reads, each with one system call */
#define WATCHED       (EPOLLIN | EPOLLET)
#define ROUTES        256u
#define ROUTE_NS      RN_NS_PER_S /* how long a route is known; the host's may change */

/* The set is edge-triggered: a program that has set IP_RECVERR leaves the kernel's socket in error. */
static struct ks_src below_set = { .kind = KS_GRAMS, .fd = -1 };
static struct rn_list hearing; /* sockets that may have input */

bool ks_gram_io_start(void)
{
	below_set.fd = epoll_create1(EPOLL_CLOEXEC);
	ks_watch(&below_set, EPOLLIN);
	return below_set.fd >= 0;
}

void ks_gram_io_close(void)
{
	if (below_set.fd >= 0)
		close(below_set.fd);
}

static void watch_below(struct ks_below *b, int op, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = b };

	epoll_ctl(below_set.fd, op, b->handed.src.fd, &e);
}

void ks_gram_io_open(struct ks_below *b)
{
	const int fd = b->handed.src.fd, one = 1;

	setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	if (b->v6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof(one));
	watch_below(b, EPOLL_CTL_ADD, WATCHED);
}

/* The program still has the kernel's socket, so closing the descriptor does not take it out of the set. */
void ks_gram_io_end(struct ks_below *b)
{
	watch_below(b, EPOLL_CTL_DEL, 0);
	rn_list_remove(&hearing, &b->hearing);
	close(b->handed.src.fd);
	free(b);
}

bool ks_gram_holds(const struct gram *g)
{
	union ks_sockaddr at = { .sa = { .sa_family = AF_UNSPEC } };
	socklen_t len = sizeof(at);
	uint16_t port = 0;

	if (getsockname(ks_below_of(g)->handed.src.fd, &at.sa, &len) == 0)
		(void)ks_sockaddr_ip(&at, &port);
	return port == g->lport;
}

/* ---- receiving ---- */

struct burst_in {
	struct mmsghdr m[KS_UD_BURST];
	struct iovec iov[KS_UD_BURST];
	union ks_sockaddr from[KS_UD_BURST];
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(struct in6_pktinfo)) +
			  2 * CMSG_SPACE(sizeof(int))];
	} ctl[KS_UD_BURST];
};

/* KS_UD_BURST buffers; NULL: no memory. */
static uint8_t (*buffers_in(void))[KS_UD_ROOM]
{
	static uint8_t(*in)[KS_UD_ROOM];

	if (in == NULL)
		in = malloc(KS_UD_BURST * sizeof(*in));
	return in;
}

/* What the kernel tells of the packet that carried the datagram. */
static void in_controls(struct msghdr *mh, struct ipc_gram_rec *rec)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		struct in6_pktinfo six;
		struct in_pktinfo four;
		int ttl;

		if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
			memcpy(&six, CMSG_DATA(c), sizeof(six));
			rec->dev = (uint16_t)six.ipi6_ifindex;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
			memcpy(&four, CMSG_DATA(c), sizeof(four));
			rec->dev = (uint16_t)four.ipi_ifindex;
			memcpy(rec->local, &four.ipi_addr, sizeof(rec->local));
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) {
			memcpy(&ttl, CMSG_DATA(c), sizeof(ttl));
			rec->ttl = (uint8_t)ttl;
		} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
			rec->tos = *CMSG_DATA(c);
		}
	}
}

static void in_plain(struct grams *c, struct gram *g, struct mmsghdr *m, const union ks_sockaddr *from)
{
	struct ipc_gram_rec rec = { .len = m->msg_len, .wire = IPC_GRAM_PLAIN };
	const struct pkt_addr ip = ks_sockaddr_ip(from, &rec.port);
	const struct rn_iov iov = { .base = m->msg_hdr.msg_iov->iov_base, .len = m->msg_len };

	memcpy(rec.ip, ip.b, sizeof(rec.ip));
	in_controls(&m->msg_hdr, &rec);
	if (from->sa.sa_family == AF_INET6 && !pkt_addr_is_ip4(&ip))
		memcpy(rec.local, &from->v6.sin6_scope_id, sizeof(rec.local));
	(void)gram_deliver(c, g, 0, &rec, &iov, 1);
}

/* The kernel's socket has failed: as on Linux only a connected one tells so. */
static void below_failed(struct grams *c, struct gram *g, int err)
{
	if (g->peer.port != 0 && !g->broken)
		gram_fail(c, g, err);
}

/* Reads one socket. True: it may have more. */
static bool hear_one(struct grams *c, struct ks_below *b)
{
	static struct burst_in in;
	uint8_t(*room)[KS_UD_ROOM] = buffers_in();

	if (room == NULL)
		return false;
	for (uint32_t i = 0; i < KS_UD_BURST; i++) {
		in.iov[i] = (struct iovec){ .iov_base = room[i], .iov_len = KS_UD_ROOM };
		in.m[i].msg_hdr = (struct msghdr){ .msg_name = &in.from[i],
						   .msg_namelen = sizeof(in.from[i]),
						   .msg_iov = &in.iov[i],
						   .msg_iovlen = 1,
						   .msg_control = &in.ctl[i],
						   .msg_controllen = sizeof(in.ctl[i]) };
	}
	const int n = recvmmsg(b->handed.src.fd, in.m, KS_UD_BURST, MSG_DONTWAIT, NULL);
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		below_failed(c, b->gram, errno);
	for (int i = 0; i < n; i++)
		if (in.m[i].msg_hdr.msg_namelen != 0)
			in_plain(c, b->gram, &in.m[i], &in.from[i]);
	return n == (int)KS_UD_BURST || (n < 0 && errno != EAGAIN);
}

static void hear_later(struct ks_below *b)
{
	if (!rn_link_linked(&b->hearing))
		rn_list_push_back(&hearing, &b->hearing);
}

uint32_t ks_gram_hear(struct grams *c)
{
	struct epoll_event e[SOCKS_AT_ONCE];
	struct rn_list again = { 0 };
	struct ks_below *b;
	uint32_t n = 0;

	const int ready = epoll_wait(below_set.fd, e, SOCKS_AT_ONCE, 0);
	for (int i = 0; i < ready; i++) {
		b = e[i].data.ptr;
		if (b->gram->stuck && (e[i].events & EPOLLOUT) != 0) {
			b->gram->stuck = false;
			watch_below(b, EPOLL_CTL_MOD, WATCHED);
			gram_ring(c, b->gram);
		}
		if ((e[i].events & (EPOLLIN | EPOLLERR)) != 0)
			hear_later(b);
	}
	for (; n < SOCKS_AT_ONCE && (b = rn_list_pop(&hearing, struct ks_below, hearing)) != NULL; n++)
		if (hear_one(c, b))
			rn_list_push_back(&again, &b->hearing);
	while ((b = rn_list_pop(&again, struct ks_below, hearing)) != NULL)
		rn_list_push_back(&hearing, &b->hearing);
	return n;
}

bool ks_gram_heard_all(void) { return rn_list_empty(&hearing); }

/* ---- sending ---- */

struct controls_out {
	size_t len;
	union {
		struct cmsghdr align;
		uint8_t b[CMSG_SPACE(sizeof(struct in_pktinfo)) + 2 * CMSG_SPACE(sizeof(int))];
	} u;
};

static void put_out(struct controls_out *o, int type, const void *value, size_t len)
{
	struct cmsghdr *c = (struct cmsghdr *)(void *)(o->u.b + o->len);

	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(len), .cmsg_level = IPPROTO_IP, .cmsg_type = type };
	memcpy(CMSG_DATA(c), value, len);
	o->len += CMSG_SPACE(len);
}

/* Type of service, time to live and source address of a datagram to an IPv4 address. */
static void out_controls(const struct ipc_gram_rec *rec, struct controls_out *o)
{
	const int tos = rec->tos, ttl = rec->ttl;
	struct in_pktinfo from = { .ipi_ifindex = 0 };

	put_out(o, IP_TOS, &tos, sizeof(tos));
	if (ttl != 0)
		put_out(o, IP_TTL, &ttl, sizeof(ttl));
	memcpy(&from.ipi_spec_dst, rec->local, sizeof(from.ipi_spec_dst));
	if (from.ipi_spec_dst.s_addr != 0)
		put_out(o, IP_PKTINFO, &from, sizeof(from));
}

/* The record's peer, as a socket of this family has it. */
static socklen_t out_address(const struct ipc_gram_rec *rec, bool v6, union ks_sockaddr *to)
{
	if (!v6) {
		to->v4 = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(rec->port) };
		memcpy(&to->v4.sin_addr, rec->ip + 12, sizeof(to->v4.sin_addr));
		return sizeof(to->v4);
	}
	to->v6 = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = htons(rec->port) };
	memcpy(&to->v6.sin6_addr, rec->ip, sizeof(to->v6.sin6_addr));
	if (!IN6_IS_ADDR_V4MAPPED(&to->v6.sin6_addr))
		memcpy(&to->v6.sin6_scope_id, rec->local, sizeof(to->v6.sin6_scope_id));
	return sizeof(to->v6);
}

uint32_t ks_gram_plain(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec)
{
	struct ks_below *b = ks_below_of(g);
	const int fd = b->handed.src.fd;
	struct controls_out o = { .len = 0 };
	union ks_sockaddr to;
	struct pkt_addr ip;
	struct rn_iov part[2];
	struct iovec iov[2];
	struct msghdr mh = { .msg_name = &to, .msg_iov = iov, .msg_iovlen = gram_tx_bytes(g, 0, rec->len, part) };

	for (uint32_t i = 0; i < mh.msg_iovlen; i++)
		iov[i] = (struct iovec){ .iov_base = part[i].base, .iov_len = part[i].len };
	memcpy(ip.b, rec->ip, sizeof(ip.b));
	mh.msg_namelen = out_address(rec, b->v6, &to);
	if (pkt_addr_is_ip4(&ip))
		out_controls(rec, &o);
	mh.msg_control = o.len != 0 ? &o.u : NULL;
	mh.msg_controllen = o.len;
	/* the first call may tell of an earlier datagram, and then has not sent this one */
	for (uint32_t tries = 0; tries < 2; tries++) {
		if (sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) {
			rnicd.port[0]->stats[0].gram_tx++;
			return 1;
		}
		if (errno == EAGAIN) {
			g->stuck = true;
			watch_below(b, EPOLL_CTL_MOD, WATCHED | EPOLLOUT);
			return 0;
		}
		below_failed(c, g, errno);
	}
	rnicd.port[0]->stats[0].tx_drops++;
	return 1;
}

/* ---- routes ---- */

/* The device with the address from which the host sends to this one. */
static uint32_t look_up(uint32_t ip4)
{
	static int probe = -1;
	const struct sockaddr none = { .sa_family = AF_UNSPEC };
	union ks_sockaddr at = { .v4 = { .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = { htonl(ip4) } } };
	socklen_t len = sizeof(at.v4);
	uint16_t port;

	if (probe < 0)
		probe = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (probe < 0 || connect(probe, &at.sa, len) != 0)
		return GRAM_NO_DEV;
	const bool known = getsockname(probe, &at.sa, &len) == 0;
	(void)connect(probe, &none, sizeof(none)); /* else the next route would be one from this address */
	const struct pkt_addr ip = ks_sockaddr_ip(&at, &port);
	const uint32_t dev = known ? ks_dev_of(&ip) : UINT32_MAX;
	return dev != UINT32_MAX ? dev : GRAM_NO_DEV;
}

static uint32_t routed_to(uint32_t ip4)
{
	static struct route {
		uint32_t ip4, dev;
		uint64_t until;
	} routes[ROUTES];
	struct route *r = &routes[flow_mix(ip4 ^ rnicd.secret[1]) % ROUTES];

	if (r->ip4 != ip4 || ks.now >= r->until)
		*r = (struct route){ .ip4 = ip4, .dev = look_up(ip4), .until = ks.now + ROUTE_NS };
	return r->dev;
}

uint32_t ks_gram_route(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec)
{
	static const uint8_t none[sizeof(rec->local)];
	struct pkt_addr to, from = pkt_addr_ip4(0);
	uint32_t dev = g->dev;

	(void)c;
	memcpy(to.b, rec->ip, sizeof(to.b));
	if (!pkt_addr_is_ip4(&to))
		return GRAM_NO_DEV;
	if (memcmp(rec->local, none, sizeof(none)) != 0) {
		memcpy(from.b + 12, rec->local, sizeof(rec->local));
		dev = ks_dev_of(&from);
		if (dev == UINT32_MAX || (g->dev != GRAM_ANY_DEV && g->dev != dev))
			return GRAM_NO_DEV;
	}
	return dev == GRAM_ANY_DEV ? routed_to(pkt_addr_to_ip4(&to)) : dev;
}
