/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several processes of one user share an address, and with it the TCP port where queue pairs without connection manager
 * find each other (qp-port). Each process listens at this port (SO_REUSEPORT), and the kernel gives a connection to any
 * of them. The upper 8 bits of a QPN are the index of the queue pair's process. A process that gets a connection for
 * another process passes the connection's descriptor on before it reads from it. Datagrams are passed whole. A process
 * that serves a port of RDMA_PS_UDP has a socket with a name for this port, where it gets the requests; likewise for
 * the port of UDP sockets of programs that it serves.
 *
 * A process gets its index by binding a socket to an abstract name in the network namespace: the first index that is
 * free. Messages of other users are ignored. A process that finds no free index has neither qp-port nor datagrams: any
 * user can take all names of another user, and then leaves that user the connections of rdma_cm.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "border/oob_wire.h"
#include "iwarp/mpa_neg.h"
#include "sockets/ks_relay.h"

#define INDEXES    253u /* QPNs with greater indexes are those of UDP ports, sockets and groups (udpl.h) */
#define GUESTS_MAX 256u /* connections without an MPA Request at most: a further one closes the oldest */
#define PASSED_MAX 64u  /* messages of other processes that one turn takes, at most */

/* Header of a message between processes. */
struct passing {
	struct pkt_addr from, to; /* to: the device's address; from: the sender of a datagram */
	uint8_t gram;             /* 1: a datagram follows; 0: the message carries a connection's descriptor */
	uint8_t tos, hop_limit;   /* of a datagram */
	uint32_t scope;           /* index of the interface that a link-local address `to` belongs to */
};

/* Kinds of ports that processes serve; the name of each is a part of the names of its sockets. */
static const char OF_CM[] = "", OF_SOCKS[] = "udp";

/* A port that this process serves. */
struct service {
	struct ks_src src;
	struct rn_link link;
	const char *kind;
	struct pkt_addr ip;
	uint16_t port;
	uint32_t users; /* UDP sockets with the port */
};

/* A guest: a connection at qp-port whose MPA Request, which names a queue pair, has not come yet. */
struct guest {
	struct ks_src src;
	struct rn_link link;
	uint32_t port;
	uint16_t lport;
};

static struct rn_list guests; /* the oldest first */
static struct rn_list ended;  /* guests that have ended in this turn */
static struct rn_list services;
static uint32_t n_guests;
static uint32_t own;
static struct ks_src passage = { .kind = KS_PASSAGE, .fd = -1 };

static socklen_t passage_name(uint32_t index, struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rnic-embedded-%u-%u", (unsigned)geteuid(), index);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Makes a socket on which this process receives what other processes pass; -1 and errno. */
static int passage_open(const struct sockaddr_un *un, socklen_t len)
{
	const int one = 1;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) == 0 &&
	    bind(fd, (const struct sockaddr *)un, len) == 0)
		return fd;
	int err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* No index is free: the devices have nothing for which this process would need one. */
static void pass_nothing(void)
{
	bool had = false;

	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		struct rnicd_port_cfg *cfg = &rnicd.cfg.port[i];
		had |= cfg->qp_port != 0 || cfg->ud_port != 0;
		cfg->qp_port = cfg->ud_port = 0;
	}
	if (had)
		rnicd_log(RNICD_LOG_ERROR,
			  "this process has no datagrams and no connections without rdma_cm: the user's other embedded "
			  "processes, or another user, have all %u names @rnic-embedded-%u-N (ss -xlp shows them)",
			  INDEXES, (unsigned)geteuid());
}

bool ks_pass_start(char *err, uint32_t err_len)
{
	struct sockaddr_un un;

	do {
		passage.fd = passage_open(&un, passage_name(own, &un));
	} while (passage.fd < 0 && errno == EADDRINUSE && ++own < INDEXES);
	if (passage.fd < 0 && own < INDEXES) {
		snprintf(err, err_len, "no file descriptors: %s", strerror(errno));
		return false;
	}
	if (own == INDEXES) {
		pass_nothing();
		return true;
	}
	rnicd.process = (uint8_t)own;
	rnicd.qpn_first = own << KS_INDEX_SHIFT | 2;
	rnicd.qpn_last = own << KS_INDEX_SHIFT | 0xfffe;
	ks_watch(&passage, EPOLLIN);
	return true;
}

/* ---- sending ---- */

/* Passes a connection to the process with this index. False: there is no such process, or it takes no more. */
static bool pass(uint32_t index, struct passing *head, int fd)
{
	struct ks_letter l = { .part = { { head, sizeof(*head) } }, .parts = 1, .fd = fd };

	l.to_len = passage_name(index, &l.to);
	const enum ks_passed v = ks_relay(passage.fd, &l);
	return v == KS_PASSED || v == KS_PASS_KEPT;
}

static struct passing head_of(const struct ks_gram *g)
{
	return (struct passing){ .from = g->from,
				 .to = g->to,
				 .gram = 1,
				 .tos = g->tos,
				 .hop_limit = g->hop_limit,
				 .scope = rnicd.port[g->port]->if_index };
}

/* A letter with a datagram. The caller adds the address. */
static struct ks_letter letter_of(struct passing *head, const struct ks_gram *g)
{
	return (struct ks_letter){ .part = { { head, sizeof(*head) }, { (void *)(uintptr_t)g->p, g->len } },
				   .parts = 2,
				   .fd = -1 };
}

/* Makes the letter that carries a datagram to the process with this index. False: no process can have the index. */
static bool letter_to(uint32_t index, const struct ks_gram *g, struct passing *head, struct ks_letter *l)
{
	*head = head_of(g);
	*l = letter_of(head, g);
	if (index >= INDEXES)
		return false;
	l->to_len = passage_name(index, &l->to);
	return true;
}

enum ks_passed ks_pass_gram(uint32_t index, const struct ks_gram *g)
{
	struct passing head;
	struct ks_letter l;

	return letter_to(index, g, &head, &l) ? ks_letter_send(passage.fd, &l) : KS_PASS_NOBODY;
}

enum ks_passed ks_pass_on(uint32_t index, const struct ks_gram *g)
{
	struct passing head;
	struct ks_letter l;

	return letter_to(index, g, &head, &l) ? ks_relay(passage.fd, &l) : KS_PASS_NOBODY;
}

/* ---- ports of RDMA_PS_UDP, and of UDP sockets ---- */

static socklen_t service_name(const char *kind, const struct pkt_addr *ip, uint16_t port, struct sockaddr_un *un)
{
	char text[2 * sizeof(ip->b) + 1];

	for (uint32_t i = 0, from = pkt_addr_is_ip4(ip) ? 12 : 0; i + from < sizeof(ip->b); i++)
		snprintf(text + 2 * i, 3, "%02x", ip->b[from + i]);
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rnic-embedded-%u-%s-%s%u", (unsigned)geteuid(),
			 text, kind, port);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static enum ks_passed pass_to_service(const char *kind, uint16_t port, const struct ks_gram *g)
{
	const struct pkt_addr any = pkt_addr_is_ip4(&g->to) ? pkt_addr_ip4(0) : (struct pkt_addr){ .b = { 0 } };
	struct passing head = head_of(g);
	struct ks_letter l = letter_of(&head, g);

	l.to_len = service_name(kind, &g->to, port, &l.to);
	const enum ks_passed v = ks_relay(passage.fd, &l);
	if (v != KS_PASS_NOBODY)
		return v;
	l.to_len = service_name(kind, &any, port, &l.to);
	return ks_relay(passage.fd, &l);
}

enum ks_passed ks_pass_request(uint16_t port, const struct ks_gram *g) { return pass_to_service(OF_CM, port, g); }

enum ks_passed ks_pass_to_sock(uint16_t port, const struct ks_gram *g) { return pass_to_service(OF_SOCKS, port, g); }

/* NULL: another process serves the port, or there is no memory or descriptor. */
static struct service *service_new(const char *kind, const struct pkt_addr *ip, uint16_t port)
{
	struct service *s = calloc(1, sizeof(*s));
	struct sockaddr_un un;

	if (s == NULL)
		return NULL;
	*s = (struct service){ .kind = kind, .ip = *ip, .port = port, .users = 1 };
	s->src = (struct ks_src){ .kind = KS_PASSAGE, .fd = passage_open(&un, service_name(kind, ip, port, &un)) };
	if (s->src.fd >= 0)
		return s;
	free(s);
	return NULL;
}

static void service_begin(struct service *s)
{
	rn_list_push_front(&services, &s->link);
	ks_watch(&s->src, EPOLLIN);
}

static void service_end(struct service *s)
{
	ks_watch(&s->src, 0);
	close(s->src.fd);
	rn_list_remove(&services, &s->link);
	free(s);
}

static struct service *service_of(const char *kind, const struct pkt_addr *ip, uint16_t port)
{
	rn_list_each(struct service, s, &services, link)
		if (s->kind == kind && s->port == port && pkt_addr_eq(&s->ip, ip))
			return s;
	return NULL;
}

bool ks_pass_serve(const struct pkt_addr *ip, uint16_t port)
{
	struct service *s = service_new(OF_CM, ip, port);

	if (s == NULL)
		return false;
	pthread_mutex_lock(&ks.lock);
	service_begin(s);
	pthread_mutex_unlock(&ks.lock);
	return true;
}

void ks_pass_serve_end(const struct pkt_addr *ip, uint16_t port)
{
	pthread_mutex_lock(&ks.lock);
	struct service *s = service_of(OF_CM, ip, port);
	if (s != NULL)
		service_end(s);
	pthread_mutex_unlock(&ks.lock);
}

bool ks_pass_sock(const struct pkt_addr *ip, uint16_t port)
{
	struct service *s = service_of(OF_SOCKS, ip, port);

	if (s != NULL) {
		s->users++;
		return true;
	}
	s = service_new(OF_SOCKS, ip, port);
	if (s != NULL)
		service_begin(s);
	return s != NULL;
}

/* Datagrams that other processes have passed before are still answered: no socket has the port. */
void ks_pass_sock_end(const struct pkt_addr *ip, uint16_t port)
{
	struct service *s = service_of(OF_SOCKS, ip, port);

	if (s == NULL || --s->users > 0)
		return;
	ks_passed_in(&s->src);
	service_end(s);
}

/* ---- guests ---- */

/* The guest's memory stays until the end of the turn: an event of its socket may be among those being handled. */
static void guest_end(struct guest *g, bool closes)
{
	ks_watch(&g->src, 0);
	if (closes)
		close(g->src.fd);
	rn_list_remove(&guests, &g->link);
	rn_list_push_back(&ended, &g->link);
	n_guests--;
}

void ks_guests_free(void)
{
	struct guest *g;

	while ((g = rn_list_pop(&ended, struct guest, link)) != NULL)
		free(g);
}

void ks_guest(int fd, const struct ks_listener *l)
{
	struct guest *g = calloc(1, sizeof(*g));

	if (g == NULL) {
		rnicd.port[l->port]->stats[0].rx_unanswered++;
		close(fd);
		return;
	}
	if (n_guests == GUESTS_MAX) {
		struct guest *oldest = rn_list_first(&guests, struct guest, link);
		rnicd.port[oldest->port]->stats[0].syn_evicted++;
		guest_end(oldest, true);
	}
	g->src = (struct ks_src){ .kind = KS_GUEST, .fd = fd };
	g->port = l->port;
	g->lport = l->lport;
	rn_list_push_back(&guests, &g->link);
	n_guests++;
	ks_watch(&g->src, EPOLLIN | EPOLLET); /* edge-triggered, as the Request is peeked at and stays in the socket */
}

enum whom { WHOM_UNKNOWN, WHOM_US, WHOM_OTHER };

/*
 * For which process a guest's Request is; *index: of another process. WHOM_UNKNOWN: the Request has not come whole. A
 * Request that cannot be parsed is answered by this process.
 */
static enum whom wanted(int fd, uint32_t *index)
{
	uint8_t bytes[MPA_FRAME_MAX];
	struct mpa_neg_rx rx;
	struct mpa_frame f;
	uint32_t used, qpn;
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);

	if (n < 0 && errno == EAGAIN)
		return WHOM_UNKNOWN;
	if (n <= 0)
		return WHOM_US;
	mpa_neg_rx_init(&rx, false);
	enum mpa_neg_verdict v = mpa_neg_feed(&rx, bytes, (uint32_t)n, &used, &f);
	if (v == MPA_NEG_MORE)
		return WHOM_UNKNOWN;
	if (v != MPA_NEG_OK || !oob_wanted(f.pd, f.pd_len, &qpn) || qpn >> KS_INDEX_SHIFT == own)
		return WHOM_US;
	*index = qpn >> KS_INDEX_SHIFT;
	return WHOM_OTHER;
}

void ks_guest_in(struct ks_src *s)
{
	struct guest *g = rn_container_of(s, struct guest, src);
	struct passing head = { .to = rnicd.port[g->port]->cfg->ip, .scope = rnicd.port[g->port]->if_index };
	struct ks_listener *l = ks_listener(g->port, g->lport);
	uint32_t index;
	int fd = g->src.fd;
	enum whom whom = wanted(fd, &index);

	if (whom == WHOM_UNKNOWN)
		return;
	bool passed = whom == WHOM_OTHER && pass(index, &head, fd);
	guest_end(g, passed || l == NULL);
	if (!passed && l != NULL)
		ks_passive((struct ks_src){ .kind = KS_CONN, .fd = fd }, l);
}

/* ---- receiving ---- */

/* The first descriptor of the control message, or -1. The kernel has room for a second one, which is closed. */
static int first_of(const struct cmsghdr *c)
{
	int first = -1, fd;

	for (size_t at = CMSG_LEN(0); at + sizeof(fd) <= c->cmsg_len; at += sizeof(fd)) {
		memcpy(&fd, (const uint8_t *)c + at, sizeof(fd));
		if (first < 0)
			first = fd;
		else
			close(fd);
	}
	return first;
}

/* The descriptor that a message carries, or -1. *trusted: the message is from a process of this user. */
static int taken(struct msghdr *mh, bool *trusted)
{
	int fd = -1;

	*trusted = false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_CREDENTIALS) {
			struct ucred u;
			memcpy(&u, CMSG_DATA(c), sizeof(u));
			*trusted = u.uid == geteuid();
		} else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
			fd = first_of(c);
		}
	}
	return fd;
}

/* Takes a connection that another process has passed. */
static void conn_taken(const struct passing *head, int fd)
{
	for (uint32_t d = 0; d < rnicd.n_ports; d++) {
		struct ks_listener *l = ks_listener(d, rnicd.port[d]->cfg->qp_port);
		if (l != NULL && ks_has_addr(d, &head->to, head->scope)) {
			ks_passive((struct ks_src){ .kind = KS_CONN, .fd = fd }, l);
			return;
		}
	}
	rnicd.port[0]->stats[0].rx_no_flow++; /* no device here has the address any more */
	close(fd);
}

/* Takes a datagram that another process has passed. */
static void gram_taken(const struct passing *head, const uint8_t *p, uint32_t len)
{
	struct ks_gram g = { .p = p,
			     .len = len,
			     .from = head->from,
			     .to = head->to,
			     .tos = head->tos,
			     .hop_limit = head->hop_limit,
			     .passed = true };

	for (; g.port < rnicd.n_ports; g.port++) {
		if (ks_has_addr(g.port, &head->to, head->scope)) {
			ks_ud_take(&g);
			return;
		}
	}
	ks.rc.qp.stats.ud_no_qp++; /* no device here has the address any more */
}

void ks_passed_in(const struct ks_src *s)
{
	static uint8_t body[KS_UD_ROOM];
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} ctl;
	struct passing head;
	struct iovec iov[2] = { { &head, sizeof(head) }, { body, sizeof(body) } };
	bool trusted;

	for (uint32_t i = 0; i < PASSED_MAX && ks_space(); i++) {
		struct msghdr mh = {
			.msg_iov = iov, .msg_iovlen = 2, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
		};
		ssize_t n = recvmsg(s->fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0)
			return;
		int fd = taken(&mh, &trusted);
		ks.socks->burst();
		const bool good = trusted && n >= (ssize_t)sizeof(head) && (mh.msg_flags & MSG_TRUNC) == 0;
		if (good && head.gram != 0)
			gram_taken(&head, body, (uint32_t)(n - (ssize_t)sizeof(head)));
		else if (good && fd >= 0)
			conn_taken(&head, fd);
		else if (!good)
			ks.rc.qp.stats.ud_bad++; /* another user's, or not whole */
		if (fd >= 0 && (!good || head.gram != 0))
			close(fd);
	}
}

void ks_pass_close(void)
{
	rn_list_each(struct guest, g, &guests, link)
		close(g->src.fd);
	rn_list_each(struct service, s, &services, link)
		close(s->src.fd);
	close(passage.fd);
	ks_relay_close();
}
