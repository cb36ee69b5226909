/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams: the devices' sockets, and received datagrams. */
#include "sockets/ks_ud.h"

#include <errno.h>
#include <linux/filter.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "border/event.h"
#include "border/flow_owner.h"
#include "udp/udpl_sidr.h"

#define SOCKET_BUF  (4 << 20) /* bytes; the kernel gives less if net.core.rmem_max is less */
#define BUCKETS     256u
#define LAST_BURSTS 64u

static struct {
	struct ks_src src[RNICD_MAX_PORTS];
	struct ud_qp *bucket[BUCKETS];
	uint8_t (*in)[KS_UD_ROOM]; /* KS_UD_BURST buffers, allocated when the first datagram comes */
} ud = { .src = { [0 ... RNICD_MAX_PORTS - 1] = { .kind = KS_UD, .fd = -1 } } };

/* ---- start and end ---- */

/*
 * Attaches a filter that chooses among the sockets with the same address and port by the upper 8 bits of the QPN. These
 * are the place of the process's socket as long as the processes have started in the order of their indexes and run on.
 */
static void steer(int fd)
{
	struct sock_filter f[] = { BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 5), BPF_STMT(BPF_RET | BPF_A, 0) };
	const struct sock_fprog prog = { .len = RN_ARRAY_LEN(f), .filter = f };

	setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &prog, sizeof(prog));
}

/* Makes the kernel report hop limit and TOS of received datagrams, and gives the socket a large buffer. */
static void tell_more(int fd)
{
	const int one = 1, size = SOCKET_BUF;

	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0) /* needs CAP_NET_ADMIN */
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, IPPROTO_IP, IP_RECVTTL, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &one, sizeof(one)); /* fails on an IPv4 socket, which is fine */
	setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &one, sizeof(one));
}

/* Datagrams to groups leave by the device's interface. */
static void choose_interface(int fd, const struct rnicd_port *p)
{
	struct ip_mreqn out = { 0 };
	const int index = (int)p->if_index;

	if (!pkt_addr_is_ip4(&p->cfg->ip)) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &index, sizeof(index));
		return;
	}
	memcpy(&out.imr_address, p->cfg->ip.b + 12, sizeof(out.imr_address));
	setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &out, sizeof(out));
}

int ks_ud_socket(const struct pkt_addr *ip, uint32_t port, uint16_t udp_port, int reuse)
{
	union ks_sockaddr at;
	const socklen_t len = ks_sockaddr(&at, port, ip, udp_port);
	const int one = 1;
	int fd = ks_socket(ip, SOCK_DGRAM);

	if (fd < 0)
		return -1;
	if (reuse != 0)
		setsockopt(fd, SOL_SOCKET, reuse, &one, sizeof(one));
	choose_interface(fd, rnicd.port[port]);
	tell_more(fd);
	if (bind(fd, &at.sa, len) == 0)
		return fd;
	int err = errno;
	close(fd);
	errno = err;
	return -1;
}

void ks_ud_start(void)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		struct rnicd_port_cfg *cfg = &rnicd.cfg.port[i];
		if (cfg->ud_port == 0)
			continue;
		ud.src[i].fd = ks_ud_socket(&cfg->ip, i, cfg->ud_port, SO_REUSEPORT);
		if (ud.src[i].fd < 0) {
			cfg->ud_port = 0; /* another user or program uses the port: the device has no datagrams */
			continue;
		}
		steer(ud.src[i].fd);
		ks_watch(&ud.src[i], EPOLLIN);
	}
}

void ks_ud_close(void)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (ud.src[i].fd >= 0)
			close(ud.src[i].fd);
	ks_ud_own_close_all();
	ks_group_close();
}

/* 0 or an errno. EADDRINUSE: another socket of the host has the port at the device's address. */
static int open_own(uint32_t port, uint16_t udp_port)
{
	int fd = ks_ud_socket(&rnicd.port[port]->cfg->ip, port, udp_port, 0);

	if (fd < 0)
		return errno;
	if (ks_ud_own_put(port, udp_port, fd))
		return 0;
	close(fd);
	return ENOMEM;
}

int ks_ud_add(struct ud_qp *u, uint32_t port)
{
	const int err = udpl_has_port(u->qp.qpn) ? open_own(port, (uint16_t)u->qp.qpn) : 0;

	if (err != 0)
		return err;
	u->port = port;
	u->hash = ud_hash(rnicd.secret, port, u->qp.qpn);
	struct ud_qp **at = &ud.bucket[u->hash % BUCKETS];
	u->next = *at;
	*at = u;
	ks.n_uds++;
	return 0;
}

static struct ud_qp *find(uint32_t port, uint32_t qpn)
{
	struct ud_qp *u = ud.bucket[ud_hash(rnicd.secret, port, qpn) % BUCKETS];

	while (u != NULL && (u->qp.qpn != qpn || u->port != port))
		u = u->next;
	return u;
}

void ks_ud_end(struct ud_qp *u, bool sends)
{
	struct ud_qp **at = &ud.bucket[u->hash % BUCKETS];

	if (sends)
		ks_ud_finish(&u->qp);
	while (*at != NULL && *at != u)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = u->next;
	ks.n_uds--;
	if (!udpl_has_port(u->qp.qpn))
		return;
	ks_ud_own_close(u->port, (uint16_t)u->qp.qpn);
	ks_ud_writable(u->port, (uint16_t)u->qp.qpn); /* what waited for room is dropped now */
}

struct ks_src *ks_ud_src(uint32_t port, uint16_t udp_port)
{
	if (rn_unlikely(udp_port != rnicd.port[port]->cfg->ud_port))
		return ks_ud_own_src(port, udp_port);
	return ud.src[port].fd >= 0 ? &ud.src[port] : NULL;
}

/* ---- receiving ---- */

void ks_ud_deliver(struct qp *qp, const struct ks_gram *g, const struct udpl_hdr *h, bool summed)
{
	struct dgram_rx rx = {
		.p = g->p, .len = g->len, .summed = summed, .h = h, .tos = g->tos, .hop_limit = g->hop_limit
	};

	memcpy(rx.src, g->from.b, sizeof(rx.src));
	memcpy(rx.dst, g->to.b, sizeof(rx.dst));
	dgram_in(&ks.dgram, qp, &rx);
}

/* The control thread is behind: the datagram is dropped. */
static void no_room(const struct ks_gram *g) { rnicd.port[g->port]->stats[0].rx_no_room++; }

static void tell_cm(const struct ks_gram *g, const struct udpl_hdr *h)
{
	struct event *ev = event_room(0, EVENT_DROPPABLE);

	if (ev == NULL) { /* the peer asks again */
		no_room(g);
		return;
	}
	ev->type = EVENT_SIDR;
	ev->sidr.port = g->port;
	ev->sidr.kind = h->kind;
	ev->sidr.from = (struct ipc_addr){ .port = 0 };
	memcpy(ev->sidr.from.ip, g->from.b, sizeof(ev->sidr.from.ip));
	ev->sidr.len = h->body_len;
	memcpy(ev->sidr.body, g->p + UDPL_HDR_LEN, h->body_len);
	event_put(0);
}

bool ks_ud_was_passed(const struct ks_gram *g, enum ks_passed v)
{
	rnicd.port[g->port]->stats[0].rx_moved_drops += v == KS_PASS_FULL;
	return v != KS_PASS_NOBODY;
}

/*
 * Handles a message of the connection manager. A request is passed to the process that serves its port, a reply to the
 * process whose index is in the low 8 bits of the request's id. A request whose port no process serves is answered
 * here.
 */
static void for_cm(const struct ks_gram *g, const struct udpl_hdr *h)
{
	struct udpl_sidr s;

	if (h->body_len > IPC_PRIV_MAX || h->dst_qpn != UDPL_QPN_CM ||
	    !udpl_sidr_parse(g->p + UDPL_HDR_LEN, h->body_len, (enum udpl_kind)h->kind, &s)) {
		ks.rc.qp.stats.ud_bad++;
		return;
	}
	if (!udpl_crc_good(g->p, g->len)) {
		ks.rc.qp.stats.ud_crc++;
		return;
	}
	const uint8_t index = (uint8_t)s.id;
	if (!g->passed && h->kind == UDPL_SIDR_REQ) {
		if (!ks_ud_was_passed(g, ks_pass_request(s.port, g)))
			tell_cm(g, h);
	} else if (!g->passed && index != rnicd.process) {
		if (!ks_ud_was_passed(g, ks_pass_on(index, g)))
			ks.rc.qp.stats.ud_no_qp++; /* the process that has asked is gone */
	} else {
		tell_cm(g, h);
	}
}

/* Whether the UDP ports are those of the destination QPN, and of the source QPN if that has a port of its own. */
static bool ports_good(const struct ks_gram *g, const struct udpl_hdr *h)
{
	return g->passed || (g->dport == udpl_port(h->dst_qpn, rnicd.port[g->port]->cfg->ud_port) &&
			     g->sport == udpl_port(h->src_qpn, g->sport));
}

void ks_ud_take(const struct ks_gram *g)
{
	struct qp_stats *st = &ks.rc.qp.stats;
	struct udpl_hdr h;

	if (udpl_parse(g->p, g->len, &h) != UDPL_OK || !ports_good(g, &h)) {
		st->ud_bad++;
		return;
	}
	if (!ks_space()) {
		no_room(g);
		return;
	}
	if (rn_unlikely(pkt_addr_is_any_group(&g->to))) {
		ks_group_take(g, &h);
		return;
	}
	if (rn_unlikely(udpl_for_cm(h.kind))) {
		for_cm(g, &h);
		return;
	}
	if (rn_unlikely(udpl_is_sock(h.dst_qpn))) {
		ks.socks->take(g, &h);
		return;
	}
	const uint32_t index = h.dst_qpn >> KS_INDEX_SHIFT;
	if (rn_unlikely(index != rnicd.process && !udpl_has_port(h.dst_qpn))) {
		if (g->passed || !ks_ud_was_passed(g, ks_pass_on(index, g)))
			st->ud_no_qp++;
		return;
	}
	struct ud_qp *u = find(g->port, h.dst_qpn);
	if (u != NULL)
		ks_ud_deliver(&u->qp, g, &h, false);
	else
		st->ud_no_qp++;
}

/* Arguments and results of recvmmsg(). */
struct burst {
	struct mmsghdr m[KS_UD_BURST];
	struct iovec iov[KS_UD_BURST];
	union ks_sockaddr from[KS_UD_BURST];
	union {
		struct cmsghdr align;
		uint8_t b[2 * CMSG_SPACE(sizeof(int))];
	} ctl[KS_UD_BURST];
};

/* Reads the hop limit and TOS of the packet that carried a datagram. */
static void in_packet(struct msghdr *mh, struct ks_gram *g)
{
	int ttl = 0, tclass = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		const bool v6 = c->cmsg_level == IPPROTO_IPV6;
		if (!v6 && c->cmsg_level != IPPROTO_IP)
			continue;
		if (c->cmsg_type == (v6 ? IPV6_HOPLIMIT : IP_TTL))
			memcpy(&ttl, CMSG_DATA(c), sizeof(ttl));
		else if (v6 && c->cmsg_type == IPV6_TCLASS)
			memcpy(&tclass, CMSG_DATA(c), sizeof(tclass));
		else if (!v6 && c->cmsg_type == IP_TOS)
			tclass = *CMSG_DATA(c);
	}
	g->hop_limit = (uint8_t)ttl;
	g->tos = (uint8_t)tclass;
}

uint32_t ks_ud_read(const struct ks_src *s, const struct ks_gram *like)
{
	static struct burst b;

	if (ud.in == NULL)
		ud.in = malloc(KS_UD_BURST * sizeof(*ud.in));
	if (ud.in == NULL)
		return 0;
	for (uint32_t i = 0; i < KS_UD_BURST; i++) {
		b.iov[i] = (struct iovec){ .iov_base = ud.in[i], .iov_len = KS_UD_ROOM };
		b.m[i].msg_hdr = (struct msghdr){ .msg_name = &b.from[i],
						  .msg_namelen = sizeof(b.from[i]),
						  .msg_iov = &b.iov[i],
						  .msg_iovlen = 1,
						  .msg_control = &b.ctl[i],
						  .msg_controllen = sizeof(b.ctl[i]) };
	}
	int n = recvmmsg(s->fd, b.m, KS_UD_BURST, MSG_DONTWAIT, NULL);
	ks.socks->burst();
	for (int i = 0; i < n; i++) {
		struct ks_gram g = *like;
		g.p = ud.in[i];
		g.len = b.m[i].msg_len;
		if (b.m[i].msg_hdr.msg_namelen == 0 || (b.m[i].msg_hdr.msg_flags & MSG_TRUNC) != 0) {
			ks.rc.qp.stats.ud_bad++;
			continue;
		}
		g.from = ks_sockaddr_ip(&b.from[i], &g.sport);
		in_packet(&b.m[i].msg_hdr, &g);
		ks_ud_take(&g);
	}
	return n > 0 ? (uint32_t)n : 0;
}

void ks_ud_last(void)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		const struct ks_gram like = { .port = i,
					      .to = rnicd.port[i]->cfg->ip,
					      .dport = rnicd.port[i]->cfg->ud_port };
		for (uint32_t n = 0; n < LAST_BURSTS && ud.src[i].fd >= 0; n++)
			if (ks_ud_read(&ud.src[i], &like) == 0)
				break;
	}
}

void ks_ud_event(struct ks_src *s, uint32_t events)
{
	struct ks_gram like = { .port = 0 };

	if (rn_unlikely(s->kind == KS_UD_OWN)) {
		like.dport = ks_ud_own_port(s, &like.port);
	} else {
		like.port = (uint32_t)(s - ud.src);
		like.dport = rnicd.port[like.port]->cfg->ud_port;
	}
	like.to = rnicd.port[like.port]->cfg->ip;
	if ((events & EPOLLOUT) != 0) {
		ks_watch(s, EPOLLIN);
		ks_ud_writable(like.port, like.dport);
	}
	if ((events & EPOLLIN) != 0)
		(void)ks_ud_read(s, &like);
}

uint32_t ks_ud_timers(void)
{
	uint32_t n = 0;

	while (ks_space() && dgram_timer(&ks.dgram))
		n++;
	return n;
}
