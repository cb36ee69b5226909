/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports the engine's effects to the control thread, and sets the events that epoll watches. */
#include <string.h>
#include <sys/epoll.h>

#include "border/event.h"
#include "sockets/ks.h"

struct ks ks = { .lock = PTHREAD_MUTEX_INITIALIZER, .ep = -1 };

static struct ipc_addr endpoint(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

/*
 * Writes what an effect says of its connection. A listener's connection gets a number of its own with its first effect.
 */
static void tell_conn(const struct qp_fx *fx, struct event_fx *o)
{
	struct rc *c = fx->conn;
	const struct conn_addr *a = &ks_conn_of(c)->addr;

	if (c->passive && (c->flags & RC_AWAITED) == 0 && (c->owner & EVENT_OWNER_PASSIVE) == 0) {
		o->listener = c->owner;
		c->owner = EVENT_OWNER_PASSIVE | ++ks.passive;
	}
	o->owner = c->owner;
	o->conn = c;
	o->port = a->port;
	o->local = endpoint(&a->local, a->lport);
	o->remote = endpoint(&a->remote, a->rport);
	if (fx->type == QP_FX_CLOSED)
		c->owner = 0; /* a command that is still under way finds another number, and does nothing */
	if (fx->priv_len > 0 && fx->priv_len <= IPC_PRIV_MAX) {
		memcpy(o->priv, fx->priv, fx->priv_len);
		o->priv_len = fx->priv_len;
	}
}

static void tell(const struct qp_fx *fx, struct event *ev)
{
	ev->type = EVENT_FX;
	ev->fx = (struct event_fx){ .type = fx->type,
				    .code = fx->code,
				    .ird = fx->ird,
				    .ord = fx->ord,
				    .vendor_err = fx->vendor_err,
				    .spacings = fx->spacings,
				    .owner = fx->owner };
	if (fx->type <= QP_FX_CLOSED)
		tell_conn(fx, &ev->fx);
	event_put(0);
}

/*
 * True: the effect is about a stream socket's connection, and is noted there, or about its queue pair, and nobody needs
 * it: the connection has an effect of its own.
 */
static bool of_stream(const struct qp_fx *fx)
{
	if (rn_likely(!ks.serves))
		return false;
	if (fx->type <= QP_FX_CLOSED && ks_conn_of(fx->conn)->sk != NULL)
		ks.streams->effect(ks_conn_of(fx->conn)->sk, fx);
	return true;
}

/* Reports all effects. False: the queue has no room for the rest, which is reported in a later turn. */
static bool tell_all(void)
{
	struct event *ev;

	while (ks.fx_told < ks.rc.qp.n_fx) {
		const struct qp_fx *fx = &ks.rc.qp.fx[ks.fx_told];
		if (of_stream(fx)) {
			ks.fx_told++;
			continue;
		}
		ev = event_room(0, EVENT_LOSSLESS);
		if (ev == NULL)
			return false;
		tell(fx, ev);
		ks.fx_told++;
	}
	ks.fx_told = 0;
	return true;
}

/* Flushes, and carries out the effects. False: the control thread's queue is full. */
static bool ks_flush_once(void)
{
	struct rc_ctx *ctx = &ks.rc;

	rc_flush(ctx);
	if (!tell_all())
		return false;
	for (uint32_t i = 0; i < ctx->qp.n_fx; i++) {
		const struct qp_fx *fx = &ctx->qp.fx[i];
		if (fx->type == QP_FX_CONNECT_REQUEST)
			ks_conn_requested(ks_conn_of(fx->conn));
		else if (fx->type == QP_FX_CLOSED && !ks.serves) /* a stream's connection ends with the stream */
			ks_conn_died(ks_conn_of(fx->conn));
	}
	rc_drained(ctx);
	return true;
}

bool ks_effects(void)
{
	bool room;

	do
		room = ks_flush_once();
	while (room && qp_flush_left(&ks.rc.qp)); /* commands end CQs, so none may be left on the list then */
	return room;
}

void ks_conn_requested(struct ks_conn *c)
{
	if (!rn_link_linked(&c->half))
		return;
	rn_list_remove(&ks.half_open, &c->half);
	ks.n_half_open--;
}

void ks_conn_died(struct ks_conn *c)
{
	if (c->dead)
		return;
	c->dead = true;
	c->next = ks.dead;
	ks.dead = c;
}

void ks_watch(struct ks_src *s, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (events == s->events || s->fd < 0)
		return;
	epoll_ctl(ks.ep, s->events == 0 ? EPOLL_CTL_ADD : events == 0 ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, s->fd, &e);
	s->events = events;
}
