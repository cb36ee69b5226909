/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Turns the message engine's effects into events for the control thread, by value and in batches; then frees the
 * engine's packets. Runs once a turn, and when the engine's list of effects is full.
 */
#include "plane/worker_int.h"

static struct ipc_addr endpoint(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

static bool about_conn(uint8_t type) { return type <= QP_FX_CLOSED; }

/* A connection of a listener gets a number of its own with its first effect. */
static void tell_conn(struct rnicd_worker *w, const struct qp_fx *fx, struct event_fx *o)
{
	struct rc *c = fx->conn;
	const struct conn_addr *a = conn_addr(c);

	if (c->passive && (c->owner & EVENT_OWNER_PASSIVE) == 0) {
		o->listener = c->owner;
		c->owner = EVENT_OWNER_PASSIVE | (uint64_t)w->index << 48 | ++w->passive;
	}
	o->owner = c->owner;
	o->conn = c;
	o->port = a->port;
	o->local = endpoint(&a->local, a->lport);
	o->remote = endpoint(&a->remote, a->rport);
	if (fx->type == QP_FX_CLOSED)
		c->owner = 0; /* commands still under way for this connection do nothing */
	if (fx->priv_len > 0 && fx->priv_len <= IPC_PRIV_MAX) {
		memcpy(o->priv, fx->priv, fx->priv_len);
		o->priv_len = fx->priv_len;
	}
}

static void tell(struct rnicd_worker *w, const struct qp_fx *fx, struct event *ev)
{
	ev->type = EVENT_FX;
	ev->fx = (struct event_fx){ .type = fx->type,
				    .code = fx->code,
				    .ird = fx->ird,
				    .ord = fx->ord,
				    .vendor_err = fx->vendor_err,
				    .spacings = fx->spacings,
				    .worker = w->index,
				    .owner = fx->owner };
	if (about_conn(fx->type))
		tell_conn(w, fx, &ev->fx);
	event_put(w->index);
}

/* False: the queue has no room for the rest, which comes in a later turn. */
static bool tell_all(struct rnicd_worker *w)
{
	struct event *ev;

	while (w->fx_told < w->tcp.rc.qp.n_fx) {
		ev = event_room(w->index, EVENT_LOSSLESS);
		if (ev == NULL)
			return false;
		tell(w, &w->tcp.rc.qp.fx[w->fx_told++], ev);
	}
	w->fx_told = 0;
	return true;
}

/* Flushes, and carries out the effects. False: the control thread's queue is full. */
static bool flush_once(struct rnicd_worker *w)
{
	struct rc_tcp_ctx *ctx = &w->tcp;

	ctx->rc.qp.notify_room = event_notify_room(w->index);
	rc_flush(&ctx->rc);
	if (!tell_all(w))
		return false;
	for (uint32_t i = 0; i < ctx->rc.qp.n_fx; i++) {
		const struct qp_fx *fx = &ctx->rc.qp.fx[i];
		if (fx->type == QP_FX_CONNECT_REQUEST)
			conn_requested(w, fx->conn);
		else if (fx->type == QP_FX_CLOSED)
			conn_died(w, fx->conn);
	}
	for (uint32_t i = 0; i < ctx->n_refs; i++)
		rte_pktmbuf_free(mbuf_of_ref(ctx->refs[i]));
	rc_tcp_drained(ctx);
	return true;
}

bool worker_effects(struct rnicd_worker *w)
{
	bool room;

	do
		room = flush_once(w);
	while (room && qp_flush_left(&w->tcp.rc.qp));
	return room;
}
