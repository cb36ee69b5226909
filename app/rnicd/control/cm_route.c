/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve_addr finds the device for a destination; resolve_route waits until the neighbour has answered ARP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/cm.h"
#include "control/dev.h"

#define TIMEOUT_MIN_MS 100u
#define TIMEOUT_MAX_MS 60000u

static struct rn_list waiting; /* struct cm_id in CM_ROUTE_WAIT, by `wait` */

/* ---- resolve_addr ---- */

static uint32_t choose(const struct cm_id *id, const struct ipc_cm_resolve *r)
{
	if (id->dev != CM_NO_DEV)
		return id->dev;
	if (r->has_src != 0 && !cm_addr_is_any(&r->src))
		return cm_addr_dev(&r->src);
	uint32_t dev = dev_by_scope(&r->dst);
	if (dev == UINT32_MAX)
		dev = dev_by_route(r->dst.ip);
	return dev != UINT32_MAX && (id->families & cm_family_of(dev)) == 0 ? UINT32_MAX : dev;
}

/*
 * Binds the id to this device, with the port that it has or else with `port` (0: none). The four fields change
 * together, since cm_id_free() releases what they say. False: the port is in use, and the id is unchanged.
 */
static bool settle(struct cm_id *id, uint32_t dev, uint16_t port)
{
	if (id->has_port) {
		if (id->dev == CM_NO_DEV)
			cm_port_narrow(dev, id->families, id->local.port);
	} else if (port != 0 && !cm_port_take(dev, cm_family_of(dev), port)) {
		return false;
	} else {
		id->has_port = port != 0;
		id->local.port = port;
	}
	id->dev = dev;
	id->families = cm_family_of(dev);
	return true;
}

void cm_resolve_addr(struct client *c)
{
	struct ipc_cm_resolve r = c->req.cm_resolve;
	struct cm_id *id = cm_find(c, r.id);

	if (id == NULL)
		return;
	cm_addr_own(&r.dst);
	cm_addr_own(&r.src);
	if (id->state != CM_IDLE && id->state != CM_BOUND) {
		cm_wrong_state(c, id, "resolve_addr");
		return;
	}
	if (cm_addr_is_any(&r.dst)) {
		client_error(c, EINVAL, "resolve_addr needs a destination address");
		return;
	}
	uint32_t dev = choose(id, &r);
	const char *no = cm_port_refusal(c, dev == UINT32_MAX ? CM_NO_DEV : dev, r.has_src != 0 ? r.src.port : 0);
	if (no != NULL) {
		client_error(c, EACCES, "port %u: %s", r.src.port, no);
		return;
	}
	bool reached = dev != UINT32_MAX && dev_reaches(dev, r.dst.ip);
	if (reached && !settle(id, dev, r.has_src != 0 ? r.src.port : 0)) {
		client_error(c, EADDRINUSE, "port %u is in use", r.src.port);
		return;
	}
	id->remote = r.dst;
	client_ok(c);
	if (!reached) {
		/* The same errors as the kernel's: no device has that source address, or there is no route from it. The
		 * id is unchanged. */
		cm_event(id, CM_EV_ADDR_ERROR, dev == UINT32_MAX ? -ENODEV : -ENETUNREACH, NULL);
		return;
	}
	memcpy(id->local.ip, rnicd.port[dev]->cfg->ip.b, sizeof(id->local.ip));
	cm_set_state(id, CM_ADDR_KNOWN);
	cm_event(id, CM_EV_ADDR_RESOLVED, 0, NULL);
}

/* ---- resolve_route ---- */

void cm_route_forget(struct cm_id *id)
{
	if (id->state != CM_ROUTE_WAIT)
		return;
	rn_list_remove(&waiting, &id->wait);
	loop_timer_disarm(&id->timer);
}

static void cm_route_end(struct cm_id *id, int status)
{
	cm_route_forget(id);
	cm_set_state(id, status == 0 ? CM_ROUTE_KNOWN : CM_ADDR_KNOWN);
	cm_event(id, status == 0 ? CM_EV_ROUTE_RESOLVED : CM_EV_ROUTE_ERROR, status, NULL);
}

static void cm_route_timed_out(struct loop_timer *t)
{
	cm_route_end(rn_container_of(t, struct cm_id, timer), -ETIMEDOUT);
}

static bool waits_for(const struct cm_id *id, uint32_t dev, const struct pkt_addr *a)
{
	return id->dev == dev && memcmp(id->remote.ip, a->b, 16) == 0;
}

static void cm_route_tell(uint32_t dev, const struct pkt_addr *dst, int status)
{
	rn_list_each(struct cm_id, id, &waiting, wait) {
		if (waits_for(id, dev, dst))
			cm_route_end(id, status);
	}
}

/* The neighbour may be a gateway: continues all ids on that device that wait for an address behind it. */
void cm_neigh(const struct event_neigh *ev)
{
	const struct rnicd_port_cfg *p = rnicd.port[ev->port]->cfg;

	cm_route_tell(ev->port, &ev->addr, ev->status);
	if (!p->gateway_set || !pkt_addr_eq(&p->gateway, &ev->addr))
		return;
	rn_list_each(struct cm_id, id, &waiting, wait) {
		struct pkt_addr dst;
		memcpy(dst.b, id->remote.ip, 16);
		if (id->dev == ev->port && !pkt_addr_same_net(&p->ip, &dst, p->prefix_len))
			cm_route_end(id, ev->status);
	}
}

static void cm_route_asked(struct cmd *cmd)
{
	const struct cmd_neigh *a = &cmd->neigh;

	switch (a->verdict) {
	case NEIGH_READY: cm_route_tell(a->port, &a->dst, 0); break;
	case NEIGH_WAIT: break; /* EVENT_NEIGH or the time-out */
	case NEIGH_NO_ROUTE: cm_route_tell(a->port, &a->dst, -ENETUNREACH); break;
	case NEIGH_FULL: cm_route_tell(a->port, &a->dst, -ENOBUFS); break;
	}
	free(cmd);
}

void cm_resolve_route(struct client *c)
{
	const struct ipc_cm_resolve *r = &c->req.cm_resolve;
	struct cm_id *id = cm_find(c, r->id);

	if (id == NULL)
		return;
	if (id->state != CM_ADDR_KNOWN) {
		cm_wrong_state(c, id, "resolve_route");
		return;
	}
	struct cmd *a = calloc(1, sizeof(*a));
	if (a == NULL) {
		client_error(c, ENOMEM, "no memory");
		return;
	}
	*a = (struct cmd){ .type = CMD_NEIGH, .done = cm_route_asked, .neigh.port = id->dev };
	memcpy(a->neigh.dst.b, id->remote.ip, 16);
	cm_set_state(id, CM_ROUTE_WAIT);
	id->timer.due = cm_route_timed_out;
	uint32_t ms = rn_min_u32(rn_max_u32(r->timeout_ms, TIMEOUT_MIN_MS), TIMEOUT_MAX_MS);
	loop_timer_arm(&id->timer, rnicd_now() + ms * RN_NS_PER_MS);
	rn_list_push_front(&waiting, &id->wait);
	client_ok(c);
	cmd_send(a, 0); /* worker 0 asks for the client; every worker learns the neighbour from the answer */
}
