/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and listeners: the kernel's sockets, opened, accepted, ended. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sockets/ks.h"

#define BACKLOG_DEFAULT 128u
#define HALF_OPEN       4u  /* times the backlog: connections without a Request; more are closed at once */
#define CONNS_AT_ONCE   16u /* accepted in one turn from one listener */

static struct sockaddr_in sockaddr_of(const struct pkt_addr *ip, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };

	memcpy(&sin.sin_addr, ip->b + 12, sizeof(sin.sin_addr));
	return sin;
}

static struct pkt_addr addr_of(const struct sockaddr_in *sin)
{
	struct pkt_addr a = { .b = { [10] = 0xff, [11] = 0xff } };

	memcpy(a.b + 12, &sin->sin_addr, sizeof(sin->sin_addr));
	return a;
}

void ks_watch(struct ks_src *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (events == s->events || s->fd < 0)
		return;
	epoll_ctl(ks.ep, s->events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, s->fd, &e);
	s->events = events;
}

/* ---- connections ---- */

static struct ks_conn *conn_new(const struct conn_addr *a, int fd)
{
	struct ks_conn *c = ks.idle;

	if (ks.n_conns == ks.rc.cfg.blocks)
		return NULL;
	if (c != NULL)
		ks.idle = c->next;
	else
		c = aligned_alloc(RN_CACHE_LINE, (sizeof(*c) + RN_CACHE_LINE - 1) & ~(size_t)(RN_CACHE_LINE - 1));
	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->src = (struct ks_src){ .kind = KS_CONN, .fd = fd };
	c->addr = *a;
	rn_list_push_back(&ks.conns, &c->link);
	ks.n_conns++;
	return c;
}

static void conn_free(struct ks_conn *c)
{
	uint32_t i = 0, n = 0;

	ks_conn_requested(c);
	for (; i < KS_HOT; i++)
		if (ks.hot[i] != c)
			ks.hot[n++] = ks.hot[i];
	while (n < KS_HOT)
		ks.hot[n++] = NULL;
	rn_wheel_disarm(&ks.wheel, &c->timer);
	if (c->src.fd >= 0)
		close(c->src.fd);
	c->src.fd = -1;
	free(c->rest);
	free(c->kept);
	c->rest = NULL;
	c->kept = NULL;
	rn_list_remove(&ks.conns, &c->link);
	ks.n_conns--;
	c->next = ks.idle;
	ks.idle = c;
}

void ks_conn_requested(struct ks_conn *c)
{
	if (c->half != NULL)
		c->half->half_open--;
	c->half = NULL;
}

void ks_conn_died(struct ks_conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	c->next = ks.dead;
	ks.dead = c;
}

void ks_bury(void)
{
	while (ks.dead != NULL) {
		struct ks_conn *c = ks.dead;
		ks.dead = c->next;
		conn_free(c);
	}
}

static void options(int fd, const struct conn_addr *a, uint32_t flags)
{
	const struct rnicd_port_cfg *cfg = rnicd.port[a->port]->cfg;
	const uint64_t keep = (flags & RC_KEEP_RECV) != 0 ? cfg->qp_keepalive_ns : cfg->keepalive_ns;
	int one = 1, idle = (int)(keep / RN_NS_PER_S);

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (idle == 0)
		return;
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one));
}

static void tos_set(int fd, uint8_t tos)
{
	int value = tos;

	setsockopt(fd, IPPROTO_IP, IP_TOS, &value, sizeof(value));
}

void ks_conn_tos(const struct ks_conn *c, uint8_t tos) { tos_set(c->src.fd, tos); }

/* A socket bound to the connection's own end; -1 and errno. */
static int socket_for(const struct conn_addr *a)
{
	const struct sockaddr_in local = sockaddr_of(&a->local, a->lport);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (const struct sockaddr *)&local, sizeof(local)) != 0) {
		int err = errno;
		close(fd);
		errno = err;
		fd = -1;
	}
	return fd;
}

/* The kernel begins in the connection's first turn. */
enum conn_verdict ks_conn_open(const struct conn_addr *a, struct rc_params *p, struct rc **out, enum qp_verdict *qp)
{
	struct ks_conn *c;
	int fd;

	if (!pkt_addr_is_ip4(&a->remote))
		return CONN_NO_ROUTE;
	fd = socket_for(a);
	if (fd < 0)
		return errno == EADDRINUSE || errno == EACCES ? CONN_IN_USE : CONN_FULL;
	c = conn_new(a, fd);
	if (c == NULL) {
		close(fd);
		return CONN_FULL;
	}
	options(fd, a, p->flags);
	tos_set(fd, a->tos);
	c->state = KS_NEW;
	*qp = rc_connect(&ks.rc, &c->rc, p);
	if (*qp != QP_OK) {
		conn_free(c);
		return CONN_QP;
	}
	rc_ready_put(&ks.rc, &c->rc);
	*out = &c->rc;
	return CONN_OK;
}

void ks_connected(struct ks_conn *c)
{
	int err = 0;
	socklen_t len = sizeof(err);

	if (getsockopt(c->src.fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
		err = errno;
	if (err != 0) {
		ks_broken(c, true);
		return;
	}
	ks_opened(c);
	rc_opened(&ks.rc, &c->rc, c->pos);
	rc_ready_put(&ks.rc, &c->rc);
}

/* ---- listeners ---- */

struct ks_listener *ks_listener(uint32_t port, uint16_t lport)
{
	rn_list_each(struct ks_listener, l, &ks.listeners, link)
		if (l->port == port && l->lport == lport)
			return l;
	return NULL;
}

enum conn_verdict ks_listen(const struct ks_listener *from)
{
	const struct rnicd_port_cfg *cfg = rnicd.port[from->port]->cfg;
	const struct conn_addr at = { .port = from->port, .local = cfg->ip, .lport = from->lport };
	const struct sockaddr_in sin = sockaddr_of(&at.local, at.lport);
	struct ks_listener *l = calloc(1, sizeof(*l));
	int one = 1;

	if (l == NULL)
		return CONN_FULL;
	*l = *from;
	if (l->backlog == 0)
		l->backlog = BACKLOG_DEFAULT;
	l->src = (struct ks_src){ .kind = KS_LISTENER,
				  .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) };
	if (l->src.fd >= 0)
		setsockopt(l->src.fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (l->src.fd >= 0 && (l->flags & RC_KEEP_RECV) != 0) /* qp-port: of all processes of the user */
		setsockopt(l->src.fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one));
	tos_set(l->src.fd, l->tos); /* the kernel's connections inherit it */
	if (l->src.fd < 0 || bind(l->src.fd, (const struct sockaddr *)&sin, sizeof(sin)) != 0 ||
	    listen(l->src.fd, l->backlog) != 0) {
		enum conn_verdict v = errno == EADDRINUSE || errno == EACCES ? CONN_IN_USE : CONN_FULL;
		if (l->src.fd >= 0)
			close(l->src.fd);
		free(l);
		return v;
	}
	ks_watch(&l->src, EPOLLIN);
	rn_list_push_back(&ks.listeners, &l->link);
	return CONN_OK;
}

void ks_unlisten(uint32_t port, uint16_t lport)
{
	struct ks_listener *l = ks_listener(port, lport);

	if (l == NULL)
		return;
	rn_list_each(struct ks_conn, c, &ks.conns, link)
		if (c->half == l)
			c->half = NULL;
	ks_watch(&l->src, 0);
	close(l->src.fd);
	rn_list_remove(&ks.listeners, &l->link);
	free(l);
}

void ks_passive(int fd, struct ks_listener *l)
{
	struct sockaddr_in local, remote;
	socklen_t len = sizeof(local), rlen = sizeof(remote);
	struct rc_params p = { .owner = l->owner, .policy = l->policy, .flags = l->flags };
	struct ks_conn *c = NULL;

	if (getsockname(fd, (struct sockaddr *)&local, &len) == 0 &&
	    getpeername(fd, (struct sockaddr *)&remote, &rlen) == 0 &&
	    l->half_open < HALF_OPEN * (uint32_t)l->backlog) {
		const struct conn_addr a = { .port = l->port,
					     .local = addr_of(&local),
					     .remote = addr_of(&remote),
					     .lport = l->lport,
					     .rport = ntohs(remote.sin_port) };
		c = conn_new(&a, fd);
	}
	if (c == NULL) {
		close(fd);
		return;
	}
	options(fd, &c->addr, l->flags);
	if (rc_passive(&ks.rc, &c->rc, &p) != QP_OK) {
		conn_free(c);
		return;
	}
	ks_opened(c);
	rc_ready_put(&ks.rc, &c->rc);
	c->half = l;
	l->half_open++;
}

void ks_accept(struct ks_listener *l)
{
	for (uint32_t i = 0; i < CONNS_AT_ONCE && ks_space(); i++) {
		int fd = accept4(l->src.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		if ((l->flags & RC_KEEP_RECV) != 0)
			ks_guest(fd, l);
		else
			ks_passive(fd, l);
	}
}

void ks_close_all(void)
{
	rn_list_each(struct ks_conn, c, &ks.conns, link)
		if (c->src.fd >= 0)
			close(c->src.fd);
	rn_list_each(struct ks_listener, l, &ks.listeners, link)
		close(l->src.fd);
	ks_pass_close();
	close(ks.ep);
}
