/* SPDX-License-Identifier: BSD-3-Clause */
/* resolve_addr finds the device for a destination; resolve_route waits until the neighbour has answered ARP. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/rn_sip.h"
#include "control/cm.h"
#include "control/dev.h"

#define TIMEOUT_MIN_MS 100u
#define TIMEOUT_MAX_MS 60000u
#define LATELY         64u
#define LATELY_NS      RN_NS_PER_S

#define LISTS     256u
#define TELL_EACH 256u /* ids that are told of their neighbour in one turn */

static struct rn_list waiting[LISTS]; /* struct cm_id in CM_ROUTE_WAIT, by `wait`; by hash of the device and next hop */
static struct rn_list answered;       /* the same, of ids whose neighbour has answered, or been given up */
static struct loop_timer go_on;

/* ---- destinations whose neighbour was resolved in the last LATELY_NS ---- */

static struct lately {
	struct pkt_addr dst;
	uint32_t dev;
	uint64_t until; /* ns */
} lately[LATELY];       /* by hash of the destination; a new one overwrites the one with the same hash */

static struct lately *lately_of(uint32_t dev, const uint8_t ip[16])
{
	uint32_t last;

	memcpy(&last, ip + 12, sizeof(last));
	return &lately[((last + dev) * UINT32_C(2654435761) >> 16) % LATELY];
}

static bool lately_is(const struct lately *l, uint32_t dev, const uint8_t ip[16])
{
	return l->dev == dev && memcmp(l->dst.b, ip, sizeof(l->dst.b)) == 0;
}

static void lately_put(uint32_t dev, const struct pkt_addr *dst, int status)
{
	struct lately *l = lately_of(dev, dst->b);

	if (status == 0)
		*l = (struct lately){ .dst = *dst, .dev = dev, .until = rnicd_now() + LATELY_NS };
	else if (lately_is(l, dev, dst->b))
		l->until = 0;
}

static bool lately_known(uint32_t dev, const uint8_t ip[16])
{
	const struct lately *l = lately_of(dev, ip);

	return lately_is(l, dev, ip) && rnicd_now() < l->until;
}

/* ---- resolve_addr ---- */

/* The device for the destination; UINT32_MAX: none. */
static uint32_t choose(const struct cm_id *id, const struct ipc_cm_resolve *r)
{
	if (id->dev != CM_NO_DEV)
		return id->dev;
	uint32_t dev;
	if (r->has_src != 0 && !cm_addr_is_any(&r->src))
		dev = cm_addr_dev(&r->src);
	else if ((dev = dev_by_scope(&r->dst)) == UINT32_MAX)
		dev = dev_by_route(r->dst.ip);
	/* the id has its port in these families only */
	return dev != UINT32_MAX && (id->families & cm_family_of(dev)) == 0 ? UINT32_MAX : dev;
}

/*
 * Binds the id to this device, with the port that the id has, or else with `port` (0: none). dev, families, has_port
 * and local.port change together, since cm_id_free() releases the port by them. False: errno as of cm_port_take(), and
 * the id is unchanged.
 */
static bool settle(struct cm_id *id, uint32_t dev, uint16_t port)
{
	errno = EADDRINUSE;
	if ((id->families & cm_family_of(dev)) == 0)
		return false; /* choose() names no such device: the port in that family is not the id's */
	if (id->has_port) {
		if (id->dev == CM_NO_DEV)
			cm_port_narrow(id->c->user, dev, cm_port_space(id, id->families), id->local.port);
	} else if (port != 0 && !cm_port_take(id->c->user, dev, cm_port_space(id, cm_family_of(dev)), port)) {
		return false;
	} else {
		id->has_port = port != 0;
		id->local.port = port;
	}
	id->dev = dev;
	id->families = cm_family_of(dev);
	return true;
}

/*
 * Finds the id's device and addresses. *status: 0, or the negative errno of an event ADDR_ERROR; then the id keeps its
 * state and device. False: the client was answered with an error.
 */
static bool resolve_addr(struct client *c, struct cm_id *id, struct ipc_cm_resolve r, int *status)
{
	cm_addr_own(&r.dst);
	cm_addr_own(&r.src);
	if (id->state != CM_IDLE && id->state != CM_BOUND) {
		cm_wrong_state(c, id, "resolve_addr");
		return false;
	}
	if (cm_addr_is_any(&r.dst)) {
		client_error(c, EINVAL, "resolve_addr needs a destination address");
		return false;
	}
	uint32_t dev = choose(id, &r);
	const char *no = cm_port_refusal(c, dev == UINT32_MAX ? CM_NO_DEV : dev, r.has_src != 0 ? r.src.port : 0);
	if (no != NULL) {
		client_error(c, EACCES, "port %u: %s", r.src.port, no);
		return false;
	}
	bool reached = dev != UINT32_MAX && dev_reaches(dev, r.dst.ip);
	if (reached && !settle(id, dev, r.has_src != 0 ? r.src.port : 0)) {
		cm_port_error(c, r.src.port);
		return false;
	}
	id->remote = r.dst;
	/* The same errors as the kernel's: no device has that source address, or there is no route from it. */
	*status = reached ? 0 : dev == UINT32_MAX ? -ENODEV : -ENETUNREACH;
	if (!reached)
		return true;
	memcpy(id->local.ip, rnicd.port[dev]->cfg->ip.b, sizeof(id->local.ip));
	cm_set_state(id, CM_ADDR_KNOWN);
	return true;
}

void cm_resolve_addr(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.cm_resolve.id);
	int status;

	if (id == NULL || !resolve_addr(c, id, c->req.cm_resolve, &status))
		return;
	client_ok(c);
	cm_event(id, status == 0 ? CM_EV_ADDR_RESOLVED : CM_EV_ADDR_ERROR, status, NULL);
}

void cm_open(struct client *c)
{
	const struct ipc_cm_open *r = &c->req.cm_open;
	struct cm_id *id = cm_id_for(c, r->channel, r->datagram);
	int status;

	if (id == NULL)
		return;
	if (!resolve_addr(c, id, r->to, &status)) {
		cm_id_free(id);
		return;
	}
	id->routed = status == 0 && lately_known(id->dev, id->remote.ip);
	struct ipc_msg m = { .cm_open_ok = { .handle = id->handle,
					     .status = status,
					     .dev = id->dev,
					     .routed = id->routed,
					     .local = id->local,
					     .remote = id->remote } };
	cm_addr_scope(&m.cm_open_ok.local, id->dev);
	cm_addr_scope(&m.cm_open_ok.remote, id->dev);
	client_answer(c, &m, IPC_MSG_LEN(cm_open_ok));
}

/* ---- resolve_route ---- */

/* The neighbour by which the device reaches the address: the owner of the address, or the gateway. */
static struct pkt_addr hop_to(uint32_t dev, const uint8_t ip[16])
{
	const struct rnicd_port_cfg *p = rnicd.port[dev]->cfg;
	struct pkt_addr a;

	memcpy(a.b, ip, sizeof(a.b));
	return p->gateway_set && !pkt_addr_same_net(&p->ip, &a, p->prefix_len) ? p->gateway : a;
}

static struct rn_list *waiting_for(uint32_t dev, const struct pkt_addr *hop)
{
	return &waiting[rn_sip_hash(rnicd.secret, hop->b, sizeof(hop->b), dev) % LISTS];
}

void cm_route_forget(struct cm_id *id)
{
	if (id->state != CM_ROUTE_WAIT)
		return;
	const struct pkt_addr hop = hop_to(id->dev, id->remote.ip);
	rn_list_remove(id->answered ? &answered : waiting_for(id->dev, &hop), &id->wait);
	id->answered = false;
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

static bool waits_for(const struct cm_id *id, uint32_t dev, const struct pkt_addr *hop)
{
	const struct pkt_addr a = hop_to(id->dev, id->remote.ip);

	return id->dev == dev && pkt_addr_eq(&a, hop);
}

static void tell_some(struct loop_timer *t)
{
	struct cm_id *id;

	for (uint32_t n = 0; n < TELL_EACH && (id = rn_list_first(&answered, struct cm_id, wait)) != NULL; n++)
		cm_route_end(id, id->route_err);
	if (rn_list_empty(&answered))
		return;
	t->due = tell_some;
	loop_timer_arm(t, rnicd_now());
}

/* Continues the ids that wait for the neighbour by which the device reaches dst: some now, the others by and by. */
static void cm_route_tell(uint32_t dev, const struct pkt_addr *dst, int status)
{
	const struct pkt_addr hop = hop_to(dev, dst->b);
	struct rn_list *l = waiting_for(dev, &hop);

	lately_put(dev, dst, status);
	rn_list_each(struct cm_id, id, l, wait) {
		if (!waits_for(id, dev, &hop))
			continue;
		rn_list_remove(l, &id->wait);
		loop_timer_disarm(&id->timer);
		id->answered = true;
		id->route_err = status;
		rn_list_push_back(&answered, &id->wait);
	}
	if (!rn_timer_armed(&go_on.t))
		tell_some(&go_on);
}

void cm_neigh(const struct event_neigh *ev) { cm_route_tell(ev->port, &ev->addr, ev->status); }

static void cm_route_asked(struct cmd *cmd)
{
	const struct cmd_neigh *a = &cmd->neigh;

	switch (a->verdict) {
	case NEIGH_READY: cm_route_tell(a->port, &a->dst, 0); break;
	case NEIGH_WAIT: break; /* EVENT_NEIGH or the time-out brings the result */
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
	const struct pkt_addr hop = hop_to(id->dev, id->remote.ip);
	rn_list_push_front(waiting_for(id->dev, &hop), &id->wait);
	client_ok(c);
	cmd_send(a, 0); /* worker 0 asks; every worker learns the neighbour from the answer */
}
