/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections and listeners: opens, accepts and closes their sockets. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "sockets/ks.h"

#define BACKLOG_DEFAULT 128u
#define CONNS_AT_ONCE   16u                /* connections that a listener accepts in one turn, at most */
#define REFUSALS        7u                 /* after so many refusals, which takes 0.6 s, the next refusal is reported */
#define REFUSED_NS      (5 * RN_NS_PER_MS) /* pause after the first refusal; each further pause is twice as long */

/* ---- half-open connections ---- */

/*
 * Anybody may open connections and send no MPA Request, and no user's share counts them. So all of them together take
 * at most half of the room that the other connections leave. Beyond that the oldest one makes room: an honest peer
 * sends its Request at once, so its connection is half open for a short time only.
 */

void ks_conn_half_open(struct ks_conn *c)
{
	rn_list_push_back(&ks.half_open, &c->half);
	ks.n_half_open++;
}

/* Aborts the oldest half-open connection, if there are too many. Its room is free at the end of the turn. */
static void make_room(void)
{
	struct ks_conn *c;

	if (ks.n_half_open < rn_min_u32(ks.rc.cfg.blocks - ks.n_conns, ks.rc.setups_left))
		return;
	while ((c = rn_list_first(&ks.half_open, struct ks_conn, half)) != NULL) {
		ks_conn_requested(c);
		if (rc_get_state(&c->rc) != RC_WAIT_REQ)
			continue; /* its Request has come in this turn, or it ends already */
		rnicd.port[c->addr.port]->stats[0].syn_evicted++;
		rc_abort(&ks.rc, &c->rc);
		return;
	}
}

/* ---- connections ---- */

struct ks_conn *ks_conn_new(const struct conn_addr *a, struct ks_src src)
{
	struct ks_conn *c = ks.idle;

	make_room();
	if (ks.n_conns == ks.rc.cfg.blocks)
		return NULL;
	if (c != NULL)
		ks.idle = c->next;
	else
		c = aligned_alloc(RN_CACHE_LINE, (sizeof(*c) + RN_CACHE_LINE - 1) & ~(size_t)(RN_CACHE_LINE - 1));
	if (c == NULL)
		return NULL;
	memset(c, 0, sizeof(*c));
	c->src = src;
	c->addr = *a;
	rn_list_push_back(&ks.conns, &c->link);
	ks.n_conns++;
	return c;
}

void ks_conn_free(struct ks_conn *c)
{
	uint32_t i = 0, n = 0;

	ks_conn_requested(c);
	for (; i < KS_HOT; i++)
		if (ks.hot[i] != c)
			ks.hot[n++] = ks.hot[i];
	while (n < KS_HOT)
		ks.hot[n++] = NULL;
	rn_wheel_disarm(&ks.wheel, &c->timer);
	ks.net->close(&c->src);
	free(c->rest);
	free(c->kept);
	c->rest = NULL;
	c->kept = NULL;
	rn_list_remove(&ks.conns, &c->link);
	ks.n_conns--;
	c->next = ks.idle;
	ks.idle = c;
}

void ks_bury(void)
{
	while (ks.dead != NULL) {
		struct ks_conn *c = ks.dead;
		ks.dead = c->next;
		ks_conn_free(c);
	}
}

static void keep_alive(const struct ks_conn *c, uint32_t flags)
{
	const struct rnicd_port_cfg *cfg = rnicd.port[c->addr.port]->cfg;

	if (ks.net->keepalive != NULL)
		ks.net->keepalive(&c->src, (flags & RC_KEEP_RECV) != 0 ? cfg->qp_keepalive_ns : cfg->keepalive_ns);
}

void ks_conn_tos(const struct ks_conn *c, uint8_t tos)
{
	if (ks.net->tos != NULL)
		ks.net->tos(&c->src, tos);
}

/* Why the local end could not be had, by errno. */
static enum conn_verdict not_bound(void)
{
	return errno == EADDRINUSE ? CONN_IN_USE : errno == EACCES ? CONN_DENIED : CONN_FULL;
}

/* The connection's first turn begins to connect: ks_connect(). */
enum conn_verdict ks_conn_open(const struct conn_addr *a, struct rc_params *p, struct rc **out, enum qp_verdict *qp)
{
	struct ks_src src = { .kind = KS_CONN, .fd = -1 };
	struct ks_conn *c;

	if (pkt_addr_is_ip4(&a->remote) != pkt_addr_is_ip4(&a->local))
		return CONN_NO_ROUTE;
	if (!ks_held(&src, a->port, a->lport) && !ks.net->open(&src, a))
		return not_bound();
	c = ks_conn_new(a, src);
	if (c == NULL) {
		ks.net->close(&src);
		return CONN_FULL;
	}
	keep_alive(c, p->flags);
	ks_conn_tos(c, a->tos);
	c->state = KS_NEW;
	*qp = rc_connect(&ks.rc, &c->rc, p);
	if (*qp != QP_OK) {
		ks_conn_free(c);
		return CONN_QP;
	}
	rc_ready_put(&ks.rc, &c->rc);
	*out = &c->rc;
	return CONN_OK;
}

enum conn_verdict ks_conn_take(struct handed *h, const struct conn_addr *a, struct rc_params *p, bool passive,
			       struct rc **out, enum qp_verdict *qp)
{
	struct ks_conn *c = ks_conn_new(a, h->src);

	if (c == NULL)
		return CONN_FULL;
	*qp = passive ? rc_passive(&ks.rc, &c->rc, p) : rc_connect(&ks.rc, &c->rc, p);
	if (*qp != QP_OK) {
		c->src.fd = -1; /* on failure the descriptor and the stream stay with h */
		c->src.sock = NULL;
		ks_conn_free(c);
		return CONN_QP;
	}
	free(h);
	ks.net->begin(&c->src);
	keep_alive(c, p->flags);
	ks_opened(c);
	if (!passive)
		rc_opened(&ks.rc, &c->rc, c->pos);
	rc_ready_put(&ks.rc, &c->rc);
	*out = &c->rc;
	return CONN_OK;
}

/*
 * Handles a connect that has failed. A program that has bound an id will listen soon: some programs tell their peer the
 * port before they listen (qperf -cm1). rnicd does not answer a SYN to such a port, so that the peer's TCP repeats the
 * SYN. The kernel refuses the SYN at once, so here the active end connects again. control/oob.c repeats connections
 * without connection manager.
 */
static void not_connected(struct ks_conn *c, int err)
{
	if (c->sk != NULL) {
		ks.streams->not_connected(c->sk, err);
		return;
	}
	if (err != ECONNREFUSED || (c->rc.flags & RC_KEEP_RECV) != 0 || c->refused == REFUSALS) {
		ks_failed(c, err);
		return;
	}
	ks_watch(&c->src, 0);
	ks.net->close(&c->src);
	c->state = KS_REFUSED;
	c->again = ks.now + (REFUSED_NS << c->refused++);
}

void ks_connect(struct ks_conn *c)
{
	const bool anew = c->state == KS_REFUSED;

	if (anew && !ks.net->open(&c->src, &c->addr)) {
		ks_broken(c, true);
		return;
	}
	if (anew) {
		keep_alive(c, c->rc.flags);
		ks_conn_tos(c, c->addr.tos);
	}
	c->state = KS_CONNECTING;
	if (ks.net->connect(&c->src, &c->addr))
		ks_interest(c);
	else
		not_connected(c, errno);
}

void ks_connected(struct ks_conn *c)
{
	int err = ks.net->connected(&c->src);

	if (err == EINPROGRESS)
		return;
	if (err != 0) {
		not_connected(c, err);
		return;
	}
	ks_opened(c);
	if (c->sk != NULL)
		ks.streams->connected(c->sk);
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
	struct ks_listener *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return CONN_FULL;
	*l = *from;
	if (l->backlog == 0)
		l->backlog = BACKLOG_DEFAULT;
	l->src = (struct ks_src){ .kind = KS_LISTENER, .fd = -1 };
	const struct ks_listening how = { .backlog = l->backlog,
					  .shared = (l->flags & RC_KEEP_RECV) != 0, /* qp-port */
					  .tos = l->tos };
	(void)ks_held(&l->src, l->port, l->lport);
	if (!ks.net->listen(&l->src, &at, &how)) {
		enum conn_verdict v = ks_addr_has_gone() ? CONN_NO_ROUTE : not_bound();
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
	ks_watch(&l->src, 0);
	ks.net->close(&l->src);
	rn_list_remove(&ks.listeners, &l->link);
	free(l);
}

/* The memory for connections, or for their set-up, is used up. */
static void closed_for_room(const struct ks_listener *l) { rnicd.port[l->port]->stats[0].rx_unanswered++; }

void ks_passive(struct ks_src src, struct ks_listener *l)
{
	struct conn_addr a = { .port = l->port };
	struct rc_params p = { .owner = l->owner, .policy = l->policy, .flags = l->flags };
	const bool there = ks.net->ends(&src, &a); /* else the peer has closed the connection already */
	struct ks_conn *c = there ? ks_conn_new(&a, src) : NULL;

	if (c == NULL) {
		if (there)
			closed_for_room(l);
		ks.net->close(&src);
		return;
	}
	keep_alive(c, l->flags);
	if (rc_passive(&ks.rc, &c->rc, &p) != QP_OK) {
		closed_for_room(l);
		ks_conn_free(c);
		return;
	}
	ks_opened(c);
	rc_ready_put(&ks.rc, &c->rc);
	ks_conn_half_open(c);
}

void ks_accept(struct ks_listener *l)
{
	for (uint32_t i = 0; i < CONNS_AT_ONCE && ks_space(); i++) {
		struct ks_src src = { .kind = KS_CONN, .fd = -1 };
		if (!ks.net->accept(&l->src, &src)) {
			if (errno == EMFILE || errno == ENFILE)
				closed_for_room(l);
			return;
		}
		if ((l->flags & RC_KEEP_RECV) != 0)
			ks_guest(src.fd, l);
		else
			ks_passive(src, l);
	}
}
