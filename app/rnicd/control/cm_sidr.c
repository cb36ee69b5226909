/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The port space of datagrams (RDMA_PS_UDP). No connection is made: the asking side gets the QPN and the Q_Key of the
 * queue pair that serves a port (service resolution, SIDR: udpl_sidr.h). An id that asks repeats its request until the
 * reply has come. An id that has answered repeats its reply whenever the request comes again, until the id is
 * destroyed. Control thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "control/cm.h"
#include "udp/udpl_sidr.h"

#define PAUSE_NS (100 * RN_NS_PER_MS) /* before the first repetition; each pause is twice the one before */
#define TRIES    7u                   /* 13 s in all */

struct cm_sidr {
	struct udpl_sidr says; /* the request or the reply that the id sends */
	uint8_t priv[UDPL_SIDR_PRIV_MAX];
	bool answered;  /* answering side: the reply has been sent, and is in `says` */
	uint32_t tries; /* asking side: requests sent so far */
};

#define LISTS 256u
static struct rn_list listeners[LISTS]; /* struct cm_id, by `wait`; in the list of the port's last bits */

/* ---- messages ---- */

struct out {
	struct cmd cmd;
	uint8_t p[UDPL_SIDR_MAX];
};

static void cm_sidr_sent(struct cmd *cmd) { free(rn_container_of(cmd, struct out, cmd)); }

static void cm_sidr_say(uint32_t dev, const struct ipc_addr *to, enum udpl_kind kind, const struct udpl_sidr *s)
{
	struct out *o = calloc(1, sizeof(*o));

	if (o == NULL)
		return; /* no memory: the same as a datagram lost on the network */
	o->cmd = (struct cmd){ .type = CMD_SEND_DATAGRAM, .done = cm_sidr_sent, .send = { .port = dev, .p = o->p } };
	memcpy(o->cmd.send.to.b, to->ip, sizeof(o->cmd.send.to.b));
	o->cmd.send.len = udpl_sidr_build(o->p, kind, s);
	cmd_send(&o->cmd, ud_owner(dev, UDPL_QPN_CM));
}

static bool cm_sidr_tell(struct cm_id *id, enum cm_event_type type, int status, const struct udpl_sidr *s)
{
	struct ipc_cm_event ev = { .type = type,
				   .status = status,
				   .id = id->handle,
				   .dev = id->dev,
				   .listen_id = type == CM_EV_CONNECT_REQUEST ? id->listener_handle : 0,
				   .local = id->local,
				   .remote = id->remote };

	cm_addr_scope(&ev.local, id->dev);
	cm_addr_scope(&ev.remote, id->dev);
	if (s != NULL) {
		ev.qpn = s->qpn;
		ev.qkey = s->qkey;
		ev.param.priv_len = (uint16_t)s->priv_len;
		memcpy(ev.param.priv, s->priv, s->priv_len);
	}
	return ev_push_copy(id->chan, &id->untold, &ev, sizeof(ev));
}

/* The message that the id sends, with the client's private data. NULL: the client was answered with an error. */
static struct cm_sidr *words(struct client *c, struct cm_id *id, const uint8_t *priv, uint32_t len)
{
	if (len > UDPL_SIDR_PRIV_MAX) {
		client_error(c, EINVAL, "private data of %u bytes: at most %u are possible", len, UDPL_SIDR_PRIV_MAX);
		return NULL;
	}
	if (id->sidr == NULL)
		id->sidr = user_alloc(id->c->user, sizeof(*id->sidr));
	if (id->sidr == NULL) {
		client_error(c, ENOMEM, "no memory");
		return NULL;
	}
	memcpy(id->sidr->priv, priv, len);
	id->sidr->says.priv = id->sidr->priv;
	id->sidr->says.priv_len = len;
	return id->sidr;
}

/* ---- the asking side ---- */

/* The id gets no QPN: sends UNREACHABLE to the client. */
static void over(struct cm_id *id, int status)
{
	owner_del(&id->owner);
	loop_timer_disarm(&id->timer);
	cm_set_state(id, CM_OVER);
	cm_sidr_tell(id, CM_EV_UNREACHABLE, status, NULL);
}

static void ask(struct loop_timer *t)
{
	struct cm_id *id = rn_container_of(t, struct cm_id, timer);
	struct cm_sidr *s = id->sidr;

	if (s->tries == TRIES) {
		over(id, -ETIMEDOUT);
		return;
	}
	cm_sidr_say(id->dev, &id->remote, UDPL_SIDR_REQ, &s->says);
	loop_timer_arm(&id->timer, rnicd_now() + (PAUSE_NS << s->tries));
	s->tries++;
}

void cm_sidr_connect(struct client *c, struct cm_id *id)
{
	const struct ipc_conn_param *p = &c->req.cm_connect.param;

	if (!cm_has_route(id)) {
		cm_wrong_state(c, id, "connect");
		return;
	}
	struct cm_sidr *s = words(c, id, p->priv, p->priv_len);
	if (s == NULL)
		return;
	if (id->local.port == 0)
		id->local.port = cm_port_next(id->dev, cm_port_space(id, cm_family_of(id->dev)));
	if (id->local.port == 0) {
		client_error(c, EADDRNOTAVAIL, CM_NO_PORT);
		return;
	}
	s->says.port = id->remote.port;
	s->says.src_port = id->local.port;
	/* The id is random, so that only a peer that has seen the request can answer it. */
	if (getrandom(&s->says.id, sizeof(s->says.id), 0) != (ssize_t)sizeof(s->says.id))
		s->says.id = owner_new();
	/* The last 8 bits are the number of this process: embedded devices pass the reply to the process by it. */
	s->says.id = s->says.id << 8 | rnicd.process;
	owner_put(&id->owner, OWNER_SIDR, s->says.id);
	cm_set_state(id, CM_CONNECTING);
	client_ok(c);
	id->timer.due = ask;
	ask(&id->timer);
}

static void on_reply(const struct event_sidr *ev, const struct udpl_sidr *s)
{
	struct owner *o = owner_get(OWNER_SIDR, s->id);
	struct cm_id *id = o != NULL ? rn_container_of(o, struct cm_id, owner) : NULL;

	if (id == NULL || id->state != CM_CONNECTING || id->dev != ev->port || s->port != id->remote.port ||
	    memcmp(ev->from.ip, id->remote.ip, sizeof(id->remote.ip)) != 0)
		return;
	if (s->status != UDPL_SIDR_VALID) {
		over(id, s->status);
		return;
	}
	owner_del(&id->owner);
	loop_timer_disarm(&id->timer);
	cm_set_state(id, CM_CONNECTED);
	cm_sidr_tell(id, CM_EV_ESTABLISHED, 0, s);
}

/* ---- the answering side ---- */

void cm_sidr_listen(struct client *c, struct cm_id *id)
{
	if (!cm_listen_count(c, id))
		return;
	rn_list_push_front(&listeners[id->local.port % LISTS], &id->wait);
	cm_set_state(id, CM_LISTENING);
	client_ok(c);
}

void cm_sidr_listen_end(struct cm_id *id)
{
	rn_list_remove(&listeners[id->local.port % LISTS], &id->wait);
	cm_listen_uncount(id);
}

static struct cm_id *listener_of(uint32_t dev, uint16_t port)
{
	rn_list_each(struct cm_id, l, &listeners[port % LISTS], wait) {
		if (l->local.port == port && (l->dev == dev || l->dev == CM_NO_DEV) &&
		    (l->families & cm_family_of(dev)) != 0)
			return l;
	}
	return NULL;
}

/* The owner number of a request: a hash of the peer's address, the device and the request's id, since requests of
 * different peers may have the same id. */
static uint64_t key_of(const struct event_sidr *ev, uint64_t id)
{
	struct pkt_addr from;

	memcpy(from.b, ev->from.ip, sizeof(from.b));
	return flow_mix(flow_endpoint(rnicd.secret, &from, (uint16_t)ev->port) ^ id);
}

static struct cm_id *request_new(struct cm_id *l, const struct event_sidr *ev, const struct udpl_sidr *s)
{
	struct cm_id *id = l->c->state == CLIENT_READY && l->requests < l->backlog ? cm_id_new(l->c, l->chan) : NULL;

	if (id == NULL)
		return NULL;
	id->sidr = user_alloc(id->c->user, sizeof(*id->sidr));
	if (id->sidr == NULL) {
		cm_id_free(id);
		return NULL;
	}
	id->udp = true;
	id->dev = ev->port;
	id->remote = ev->from;
	id->remote.port = s->src_port;
	memcpy(id->local.ip, rnicd.port[ev->port]->cfg->ip.b, sizeof(id->local.ip));
	id->local.port = s->port;
	id->sidr->says = (struct udpl_sidr){ .id = s->id, .port = s->port };
	cm_request_come(id, l);
	owner_put(&id->owner, OWNER_SIDR, key_of(ev, s->id));
	cm_set_state(id, CM_REQUESTED);
	return id;
}

static void cm_sidr_on_request(const struct event_sidr *ev, const struct udpl_sidr *s)
{
	const struct udpl_sidr nobody = { .id = s->id, .port = s->port, .status = UDPL_SIDR_NO_SERVICE };
	struct owner *o = owner_get(OWNER_SIDR, key_of(ev, s->id));
	struct cm_id *id = o != NULL ? rn_container_of(o, struct cm_id, owner) : NULL;

	if (id != NULL) { /* a repeated request: the reply was lost, or the program has not answered yet */
		if (id->sidr->answered)
			cm_sidr_say(id->dev, &id->remote, UDPL_SIDR_REP, &id->sidr->says);
		return;
	}
	struct cm_id *l = listener_of(ev->port, s->port);
	if (l == NULL) {
		cm_sidr_say(ev->port, &ev->from, UDPL_SIDR_REP, &nobody);
		return;
	}
	id = request_new(l, ev, s);
	/* If the backlog is full or the event is lost, the peer repeats the request. */
	if (id != NULL && !cm_sidr_tell(id, CM_EV_CONNECT_REQUEST, 0, s))
		cm_id_free(id);
}

static void cm_sidr_answer(struct cm_id *id, enum cm_state to)
{
	cm_request_leave(id);
	id->sidr->answered = true;
	cm_sidr_say(id->dev, &id->remote, UDPL_SIDR_REP, &id->sidr->says);
	cm_set_state(id, to);
	client_ok(id->c);
}

void cm_sidr_accept(struct client *c, struct cm_id *id)
{
	const struct ipc_cm_connect *r = &c->req.cm_connect;
	const struct client_qp *q = table_get(&c->qp, r->qp);

	if (id->state != CM_REQUESTED) {
		cm_wrong_state(c, id, "accept");
		return;
	}
	if (q == NULL || client_qp_is_ending(q) || !q->datagram || q->pd->dev != id->dev) {
		client_error(c, EINVAL, "there is no datagram queue pair %u of the device that was asked", r->qp);
		return;
	}
	struct cm_sidr *s = words(c, id, r->param.priv, r->param.priv_len);
	if (s == NULL)
		return;
	s->says.status = UDPL_SIDR_VALID;
	s->says.qpn = q->qpn;
	s->says.qkey = q->at.qkey;
	cm_sidr_answer(id, CM_CONNECTED);
}

void cm_sidr_reject(struct client *c, struct cm_id *id)
{
	const struct ipc_cm_reject *r = &c->req.cm_reject;

	if (id->state != CM_REQUESTED) {
		cm_wrong_state(c, id, "reject");
		return;
	}
	struct cm_sidr *s = words(c, id, r->priv, r->priv_len);
	if (s == NULL)
		return;
	s->says.status = UDPL_SIDR_REJECTED;
	cm_sidr_answer(id, CM_OVER);
}

void cm_sidr_forget(struct cm_id *id)
{
	if (id->sidr == NULL)
		return;
	loop_timer_disarm(&id->timer);
	user_free(id->c->user, id->sidr);
	id->sidr = NULL;
}

void cm_sidr_message(const struct event_sidr *ev)
{
	const enum udpl_kind kind = (enum udpl_kind)ev->kind;
	struct udpl_sidr s;

	if (!udpl_sidr_parse(ev->body, ev->len, kind, &s))
		return;
	if (kind == UDPL_SIDR_REQ)
		cm_sidr_on_request(ev, &s);
	else
		on_reply(ev, &s);
}
