/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves the neighbour for an address handle; the client is answered when the neighbour has answered ARP. Only few
 * datagrams may wait for an unknown neighbour, and all others to it are lost. So the call that makes the handle waits
 * instead, as with the kernel's RoCE devices. A silent neighbour takes seconds: meanwhile other requests of the client
 * are served.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_sip.h"
#include "control/client.h"

#define PATIENCE_NS (10 * RN_NS_PER_S) /* longer than ARP tries; needed only if EVENT_NEIGH was lost */
#define PUT_OFF_MAX 16u /* requests of a client that wait while others are served; one more holds up the client */
#define LISTS       256u
#define TELL_EACH   256u /* requests that are answered in one turn */

struct reach {
	struct cmd cmd;
	struct client *c;
	uint32_t seq; /* the number of the request */
	uint32_t dev;
	struct pkt_addr hop;
	bool put_off;    /* other requests of the client are served meanwhile */
	bool back, told; /* back: the worker has answered the command. told: EVENT_NEIGH or the time-out has come */
	int err;         /* the result that came with told: 0 or a positive errno */
	struct loop_timer timer;
	struct rn_link link; /* in its list of `waiting`; told: in `told_ones` */
	struct rn_link mine; /* in c->reaches */
};

static struct rn_list waiting[LISTS]; /* struct reach, by hash of the device and next hop */
static struct rn_list told_ones;      /* struct reach that are to be answered */
static struct loop_timer go_on;

static struct rn_list *client_reach_list(uint32_t dev, const struct pkt_addr *hop)
{
	return &waiting[rn_sip_hash(rnicd.secret, hop->b, sizeof(hop->b), dev) % LISTS];
}

static void client_reach_forget(struct reach *r)
{
	struct client *c = r->c;

	rn_list_remove(r->told ? &told_ones : client_reach_list(r->dev, &r->hop), &r->link);
	rn_list_remove(&c->reaches, &r->mine);
	c->put_off -= r->put_off ? 1 : 0;
	loop_timer_disarm(&r->timer);
	free(r);
}

static void client_reach_end(struct reach *r, int err)
{
	const struct client_late late = { .type = IPC_REACH, .seq = r->seq, .put_off = r->put_off };
	struct client *c = r->c;

	client_reach_forget(r);
	if (!client_back(c))
		return;
	client_answer_late(c, &late, err,
			   err == 0              ? ""
			   : err == ENETUNREACH  ? "address handle: the address is not on the device's network and "
						   "there is no gateway"
			   : err == EHOSTUNREACH ? "address handle: nobody answers at the address"
						 : "address handle: too many neighbours are being asked at once");
}

/* Answers requests whose result is known and whose command the worker has answered: some now, the others by and by. */
static void client_reach_tell_some(struct loop_timer *t)
{
	struct reach *r;

	for (uint32_t n = 0; n < TELL_EACH && (r = rn_list_first(&told_ones, struct reach, link)) != NULL; n++) {
		if (r->back)
			client_reach_end(r, r->err);
		else
			rn_list_remove(&told_ones, &r->link); /* client_reach_asked() ends it */
	}
	if (rn_list_empty(&told_ones))
		return;
	t->due = client_reach_tell_some;
	loop_timer_arm(t, rnicd_now());
}

/* The result is known. */
static void client_reach_tell(struct reach *r, int err)
{
	rn_list_remove(client_reach_list(r->dev, &r->hop), &r->link);
	loop_timer_disarm(&r->timer);
	r->told = true;
	r->err = err;
	rn_list_push_back(&told_ones, &r->link);
}

static void client_reach_timed_out(struct loop_timer *t)
{
	client_reach_tell(rn_container_of(t, struct reach, timer), EHOSTUNREACH);
	if (!rn_timer_armed(&go_on.t))
		client_reach_tell_some(&go_on);
}

void client_reach_neigh(const struct event_neigh *ev)
{
	rn_list_each(struct reach, r, client_reach_list(ev->port, &ev->addr), link) {
		if (r->dev == ev->port && pkt_addr_eq(&r->hop, &ev->addr))
			client_reach_tell(r, -ev->status);
	}
	if (!rn_timer_armed(&go_on.t))
		client_reach_tell_some(&go_on);
}

static void client_reach_asked(struct cmd *cmd)
{
	struct reach *r = rn_container_of(cmd, struct reach, cmd);

	r->back = true;
	if (r->c->state == CLIENT_DYING) {
		client_reach_end(r, 0);
		return;
	}
	switch (cmd->neigh.verdict) {
	case NEIGH_READY: client_reach_end(r, 0); break;
	case NEIGH_WAIT: /* EVENT_NEIGH, which may have come before this answer, or the time-out brings the result */
		if (r->told)
			client_reach_end(r, r->err);
		break;
	case NEIGH_NO_ROUTE: client_reach_end(r, ENETUNREACH); break;
	case NEIGH_FULL: client_reach_end(r, ENOBUFS); break;
	}
}

void client_reaches_leave(struct client *c)
{
	rn_list_each(struct reach, r, &c->reaches, mine) {
		if (r->back)
			client_reach_end(r, 0);
	}
}

void client_reach(struct client *c)
{
	const struct ipc_reach *q = &c->req.reach;

	if (q->dev >= rnicd.n_ports) {
		client_error(c, EINVAL, "there is no device %u", q->dev);
		return;
	}
	struct reach *r = calloc(1, sizeof(*r));
	if (r == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	const struct rnicd_port_cfg *p = rnicd.port[q->dev]->cfg;
	struct pkt_addr dst;
	memcpy(dst.b, q->ip, sizeof(dst.b));
	*r = (struct reach){
		.c = c,
		.seq = c->req.seq,
		.dev = q->dev,
		.hop = pkt_addr_same_net(&dst, &p->ip, p->prefix_len) || !p->gateway_set ? dst : p->gateway,
		.cmd = { .type = CMD_NEIGH, .done = client_reach_asked, .neigh = { .port = q->dev, .dst = dst } },
		.timer.due = client_reach_timed_out
	};
	rn_list_push_back(client_reach_list(r->dev, &r->hop), &r->link);
	rn_list_push_back(&c->reaches, &r->mine);
	client_hold(c);
	loop_timer_arm(&r->timer, rnicd_now() + PATIENCE_NS);
	r->put_off = c->put_off < PUT_OFF_MAX;
	if (r->put_off) {
		c->put_off++;
		client_put_off(c);
	}
	cmd_send(&r->cmd, 0); /* worker 0 asks; every worker learns the neighbour from the answer */
}
