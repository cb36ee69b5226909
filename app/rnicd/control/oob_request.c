/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests on qp-port: each is joined with its QP, or held until the QP is in RTR. Their senders are not trusted. */
#include <stdlib.h>
#include <string.h>

#include "control/oob.h"

#include "base/rn_be.h"

#define HELD_MAX 256u              /* requests that the daemon holds; beyond that the oldest one is refused */
#define HELD_NS  (8 * RN_NS_PER_S) /* less than the peer waits for the Reply */
#define BACKLOG  128u

static const uint8_t magic[4] = { 'R', 'N', 'Q', 'P' };
#define VERSION     1
#define VERSION_XRC 2

void oob_hello_build(uint8_t priv[OOB_PRIV_LEN], enum oob_kind kind, const struct oob_hello *h)
{
	memset(priv, 0, OOB_PRIV_LEN);
	memcpy(priv, magic, sizeof(magic));
	priv[4] = h->xrc != IPC_XRC_NONE ? VERSION_XRC : VERSION;
	priv[5] = (uint8_t)kind;
	priv[6] = h->xrc;
	rn_store_be32(priv + 8, h->src_qpn);
	rn_store_be32(priv + 12, h->dst_qpn);
	rn_store_be64(priv + 16, h->cookie);
}

bool oob_hello_parse(const uint8_t *priv, uint32_t len, enum oob_kind kind, struct oob_hello *h)
{
	if (len < OOB_PRIV_LEN || memcmp(priv, magic, sizeof(magic)) != 0 || priv[5] != kind)
		return false;
	h->xrc = priv[4] == VERSION_XRC ? priv[6] : IPC_XRC_NONE;
	if (priv[4] == VERSION_XRC ? h->xrc == IPC_XRC_NONE || h->xrc > IPC_XRC_TARGET : priv[4] != VERSION)
		return false;
	h->src_qpn = rn_load_be32(priv + 8);
	h->dst_qpn = rn_load_be32(priv + 12);
	h->cookie = rn_load_be64(priv + 16);
	return true;
}

/* ---- held requests ---- */

struct oob_held {
	struct cm_conn *k;
	struct oob_hello hello;
	struct rn_link link; /* in `held` */
	struct loop_timer timer;
};

static struct rn_list held; /* struct oob_held, the oldest first */
static uint32_t n_held;

static void let_go(struct oob_held *h)
{
	loop_timer_disarm(&h->timer);
	rn_list_remove(&held, &h->link);
	h->k->held = NULL;
	n_held--;
	free(h);
}

static void oob_request_refuse(struct oob_held *h)
{
	struct cm_conn *k = h->k;

	let_go(h);
	cm_conn_end(k->worker, k->conn, k->owner.key);
}

static void expired(struct loop_timer *t)
{
	oob_totals.expired++;
	oob_request_refuse(rn_container_of(t, struct oob_held, timer));
}

static bool same_peer(const struct oob_held *h, uint32_t dev, const uint8_t ip[16], const struct oob_hello *w)
{
	return h->k->dev == dev && h->hello.src_qpn == w->src_qpn && h->hello.dst_qpn == w->dst_qpn &&
	       memcmp(h->k->remote.ip, ip, 16) == 0;
}

static struct oob_held *oob_request_find(uint32_t dev, const uint8_t ip[16], const struct oob_hello *w)
{
	rn_list_each(struct oob_held, h, &held, link) {
		if (same_peer(h, dev, ip, w))
			return h;
	}
	return NULL;
}

static bool hold(struct cm_conn *k, const struct oob_hello *hello)
{
	struct oob_held *h = calloc(1, sizeof(*h));
	struct oob_held *old = oob_request_find(k->dev, k->remote.ip, hello);

	if (h == NULL)
		return false;
	if (old != NULL) {
		oob_request_refuse(old); /* the peer has given up the older request */
	} else if (n_held == HELD_MAX) {
		oob_totals.displaced++;
		oob_request_refuse(rn_list_first(&held, struct oob_held, link));
	}
	h->k = k;
	h->hello = *hello;
	rn_list_push_back(&held, &h->link);
	n_held++;
	k->held = h;
	h->timer.due = expired;
	loop_timer_arm(&h->timer, rnicd_now() + HELD_NS);
	oob_totals.held++;
	return true;
}

struct cm_conn *oob_held_take(struct oob *o)
{
	const struct oob_hello w = { .src_qpn = o->peer_qpn, .dst_qpn = o->q->qpn };
	struct oob_held *h = oob_request_find(o->q->pd->dev, o->peer, &w);
	struct cm_conn *k = h != NULL ? h->k : NULL;

	if (h != NULL) {
		o->cookie = h->hello.cookie;
		let_go(h);
	}
	return k;
}

void oob_conn_gone(struct cm_conn *k)
{
	if (k->held != NULL)
		let_go(k->held);
	if (k->oob != NULL)
		k->oob->k = NULL;
	if (k->share != NULL)
		oob_share_give(k->share);
}

/* ---- requests ---- */

static struct owner listener;

static struct cm_conn *conn_of(const struct event_fx *fx, struct user *u)
{
	struct cm_conn *k = cm_conn_make(NULL, fx->owner);

	if (k == NULL)
		return NULL;
	if (!cm_conn_on(k, u, fx->worker, USER_REQUESTS)) {
		cm_conn_free(k);
		return NULL;
	}
	k->conn = fx->conn;
	k->dev = fx->port;
	k->local = fx->local;
	k->remote = fx->remote;
	return k;
}

/* Joins the request with its QP, or holds it. False: no QP expects the request, or no memory. */
static bool oob_request_place(const struct event_fx *fx, const struct oob_hello *h)
{
	struct client_qp *q = client_qp_of(h->dst_qpn);
	struct oob *o = q != NULL ? q->oob : NULL;

	if (q == NULL || client_qp_is_ending(q) || q->pd->dev != fx->port || q->c->state != CLIENT_READY)
		return false;
	if (h->xrc != oob_counterpart(q->xrc) || (o == NULL && qp_get_state(q->qp) > QP_S_INIT))
		return false;
	if (o != NULL && (o->state != OOB_SEEKING || o->active || o->peer_qpn != h->src_qpn ||
			  memcmp(o->peer, fx->remote.ip, sizeof(o->peer)) != 0))
		return false;
	struct cm_conn *k = conn_of(fx, q->c->user);
	if (k == NULL)
		return false;
	if (o != NULL) {
		o->cookie = h->cookie;
		oob_join(o, k);
		return true;
	}
	if (hold(k, h))
		return true;
	cm_conn_free(k);
	return false;
}

bool oob_request(const struct event_fx *fx)
{
	struct oob_hello h;

	if (owner_get(OWNER_OOB, fx->listener) == NULL)
		return false;
	if (rnicd.port[fx->port]->cfg->qp_peers == RNICD_PEERS_DAEMONS && fx->remote.port >= CM_PORT_FREE)
		oob_totals.strangers++;
	else if (!oob_hello_parse(fx->priv, fx->priv_len, OOB_REQUEST, &h))
		oob_totals.bad++;
	else if (oob_request_place(fx, &h))
		return true;
	else
		oob_totals.unwanted++;
	cm_conn_end(fx->worker, fx->conn, fx->owner);
	return true;
}

/* ---- listening ---- */

static struct cmd listen_cmd[RNICD_MAX_PORTS];

static void oob_request_listening(struct cmd *c)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++)
		if (c->listen.verdict[i] != CONN_OK)
			rnicd_log(RNICD_LOG_ERROR, "no room for the listener of qp-port"); /* the table was empty */
}

void oob_start(void)
{
	owner_put(&listener, OWNER_OOB, owner_new());
	for (uint32_t d = 0; d < rnicd.n_ports; d++) {
		const uint16_t port = rnicd.port[d]->cfg->qp_port;
		if (port == 0)
			continue;
		(void)cm_port_take(NULL, d, CM_IP4 | CM_IP6, port);
		listen_cmd[d] = (struct cmd){ .type = CMD_LISTEN,
					      .done = oob_request_listening,
					      .listen = { .first = d,
							  .last = d + 1,
							  .lport = port,
							  .backlog = BACKLOG,
							  .flags = RC_KEEP_RECV,
							  .rev = 2,
							  .owner = listener.key } };
		cmd_send_all(&listen_cmd[d]);
	}
}
