/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Resolves the neighbour for an address handle; the client is answered when the neighbour has answered ARP. Only few
 * datagrams may wait for an unknown neighbour, and all others to it are lost. So the call that makes the handle waits
 * instead, as with the kernel's RoCE devices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/client.h"

#define PATIENCE_NS (10 * RN_NS_PER_S) /* longer than ARP tries; needed only if EVENT_NEIGH was lost */

struct reach {
	struct cmd cmd;
	struct client *c;
	uint32_t dev;
	struct pkt_addr dst, hop;
	bool back, told; /* back: the worker has answered the command. told: EVENT_NEIGH or the time-out has come */
	int err;         /* the result that came with told: 0 or a positive errno */
	struct loop_timer timer;
	struct rn_link link; /* in `waiting` */
};

static struct rn_list waiting; /* struct reach */

static void client_reach_answer(struct client *c, int err)
{
	if (!client_back(c))
		return;
	if (err == 0)
		client_ok(c);
	else
		client_error(c, err, "address handle: %s",
			     err == ENETUNREACH ? "the address is not on the device's network and there is no gateway"
			     : err == EHOSTUNREACH ? "nobody answers at the address"
						   : "too many neighbours are being asked at once");
}

static void client_reach_end(struct reach *r, int err)
{
	struct client *c = r->c;

	rn_list_remove(&waiting, &r->link);
	loop_timer_disarm(&r->timer);
	free(r);
	client_reach_answer(c, err);
}

/* The result is known: answers the client, at once or when the worker has answered the command. */
static void client_reach_tell(struct reach *r, int err)
{
	r->told = true;
	r->err = err;
	if (r->back)
		client_reach_end(r, err);
}

static void client_reach_timed_out(struct loop_timer *t)
{
	client_reach_tell(rn_container_of(t, struct reach, timer), EHOSTUNREACH);
}

void client_reach_neigh(const struct event_neigh *ev)
{
	rn_list_each(struct reach, r, &waiting, link) {
		if (r->dev == ev->port && pkt_addr_eq(&r->hop, &ev->addr))
			client_reach_tell(r, -ev->status);
	}
}

static void client_reach_asked(struct cmd *cmd)
{
	struct reach *r = rn_container_of(cmd, struct reach, cmd);

	r->back = true;
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
	*r = (struct reach){ .c = c,
			     .dev = q->dev,
			     .cmd = { .type = CMD_NEIGH, .done = client_reach_asked },
			     .timer.due = client_reach_timed_out };
	memcpy(r->dst.b, q->ip, sizeof(r->dst.b));
	r->hop = pkt_addr_same_net(&r->dst, &p->ip, p->prefix_len) || !p->gateway_set ? r->dst : p->gateway;
	rn_list_push_front(&waiting, &r->link);
	r->cmd.neigh = (struct cmd_neigh){ .port = r->dev, .dst = r->dst };
	client_hold(c);
	loop_timer_arm(&r->timer, rnicd_now() + PATIENCE_NS);
	cmd_send(&r->cmd, 0); /* worker 0 asks; every worker learns the neighbour from the answer */
}
