/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Several processes of one user share an address, and with it the port where queue pairs without connection manager
 * find each other (qp-port): each process listens there (SO_REUSEPORT), and the kernel gives a connection to any of
 * them. The upper 8 bits of a queue pair's number are the index of its process. A process that gets a connection for
 * another one passes its descriptor on, before it has read anything from it.
 *
 * A process gets its index by binding a socket to an abstract name in the network namespace: the first index that is
 * free. Messages of other users are ignored.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "border/oob_wire.h"
#include "iwarp/mpa_neg.h"
#include "sockets/ks.h"

#define INDEXES     255u /* QPNs of a further one would be those of groups */
#define INDEX_SHIFT 16u
#define GUESTS_MAX  256u /* of a process; then the oldest makes room */
#define PASSED_MAX  64u  /* messages taken in one turn */

/* The message that a descriptor comes with. */
struct passing {
	struct pkt_addr to; /* the device's address */
};

/* A connection at qp-port that has not named its queue pair yet. */
struct guest {
	struct ks_src src;
	struct rn_link link;
	uint32_t port;
	uint16_t lport;
};

static struct rn_list guests; /* the oldest first */
static uint32_t n_guests;
static uint32_t own;
static struct ks_src passage = { .kind = KS_PASSAGE, .fd = -1 };

static socklen_t passage_name(uint32_t index, struct sockaddr_un *un)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	int n = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rnic-embedded-%u-%u", (unsigned)geteuid(), index);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

bool ks_pass_start(char *err, uint32_t err_len)
{
	struct sockaddr_un un;
	int one = 1;

	passage.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (passage.fd < 0 || setsockopt(passage.fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) != 0) {
		snprintf(err, err_len, "no file descriptors: %s", strerror(errno));
		return false;
	}
	while (own < INDEXES && bind(passage.fd, (const struct sockaddr *)&un, passage_name(own, &un)) != 0)
		own++;
	if (own == INDEXES) {
		snprintf(err, err_len, "%u processes of this user run embedded already: end some", INDEXES);
		return false;
	}
	rnicd.qpn_first = own << INDEX_SHIFT | 2;
	rnicd.qpn_last = own << INDEX_SHIFT | 0xfffe;
	ks_watch(&passage, EPOLLIN);
	return true;
}

/* ---- sending ---- */

/* False: that process is not there, or does not take it. */
static bool pass(uint32_t index, struct passing *head, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} ctl = { .buf = { 0 } };
	struct iovec iov = { head, sizeof(*head) };
	struct sockaddr_un un;
	struct msghdr mh = {
		.msg_name = &un, .msg_namelen = passage_name(index, &un), .msg_iov = &iov, .msg_iovlen = 1
	};

	mh.msg_control = ctl.buf;
	mh.msg_controllen = sizeof(ctl.buf);
	struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	return sendmsg(passage.fd, &mh, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* ---- connections that have not named their queue pair ---- */

static void guest_end(struct guest *g, bool closes)
{
	ks_watch(&g->src, 0);
	if (closes)
		close(g->src.fd);
	rn_list_remove(&guests, &g->link);
	n_guests--;
	free(g);
}

void ks_guest(int fd, const struct ks_listener *l)
{
	struct guest *g = calloc(1, sizeof(*g));

	if (g == NULL) {
		close(fd);
		return;
	}
	if (n_guests == GUESTS_MAX)
		guest_end(rn_list_first(&guests, struct guest, link), true);
	g->src = (struct ks_src){ .kind = KS_GUEST, .fd = fd };
	g->port = l->port;
	g->lport = l->lport;
	rn_list_push_back(&guests, &g->link);
	n_guests++;
	ks_watch(&g->src, EPOLLIN | EPOLLET); /* its bytes stay where they are */
}

enum whom { WHOM_UNKNOWN, WHOM_US, WHOM_OTHER };

/* What cannot be read is ours to answer. */
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
	if (v != MPA_NEG_OK || !oob_wanted(f.pd, f.pd_len, &qpn) || qpn >> INDEX_SHIFT == own)
		return WHOM_US;
	*index = qpn >> INDEX_SHIFT;
	return WHOM_OTHER;
}

void ks_guest_in(struct ks_src *s)
{
	struct guest *g = rn_container_of(s, struct guest, src);
	struct passing head = { .to = rnicd.port[g->port]->cfg->ip };
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

/* The descriptor that came along, or -1; of a message that is not from this user nothing is kept. */
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
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
		}
	}
	return fd;
}

static void conn_taken(const struct passing *head, int fd)
{
	for (uint32_t d = 0; d < rnicd.n_ports; d++) {
		struct ks_listener *l = ks_listener(d, rnicd.port[d]->cfg->qp_port);
		if (l != NULL && pkt_addr_eq(&rnicd.port[d]->cfg->ip, &head->to)) {
			ks_passive((struct ks_src){ .kind = KS_CONN, .fd = fd }, l);
			return;
		}
	}
	close(fd);
}

void ks_passed_in(void)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} ctl;
	struct passing head;
	struct iovec iov = { &head, sizeof(head) };
	bool trusted;

	for (uint32_t i = 0; i < PASSED_MAX && ks_space(); i++) {
		struct msghdr mh = {
			.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
		};
		ssize_t n = recvmsg(passage.fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0)
			return;
		int fd = taken(&mh, &trusted);
		if (trusted && n == (ssize_t)sizeof(head) && fd >= 0)
			conn_taken(&head, fd);
		else if (fd >= 0)
			close(fd);
	}
}

void ks_pass_close(void)
{
	rn_list_each(struct guest, g, &guests, link)
		close(g->src.fd);
	close(passage.fd);
}
