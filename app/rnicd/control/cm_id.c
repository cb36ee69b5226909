/* SPDX-License-Identifier: BSD-3-Clause */
/* Ids: creation, binding, events toward the client, destruction. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "border/expect.h"
#include "border/handed.h"
#include "control/cm.h"
#include "control/dev.h"

#define IDS_MAX 65536u

const char *cm_state_name(enum cm_state s)
{
	static const char *const name[] = { "idle",      "bound",     "addr-known", "route-wait", "route-known",
					    "listening", "awaiting",  "connecting", "responded",  "requested",
					    "accepting", "connected", "over" };

	return name[s];
}

void cm_set_state(struct cm_id *id, enum cm_state to) { id->state = to; }

void cm_wrong_state(struct client *c, const struct cm_id *id, const char *what)
{
	client_error(c, EINVAL, "%s is not possible: the id is in state %s", what, cm_state_name(id->state));
}

struct cm_id *cm_find(struct client *c, uint32_t handle)
{
	struct cm_id *id = table_get(&c->cm, handle);

	if (id == NULL || id->gone) {
		client_error(c, EINVAL, "there is no connection manager id %u", handle);
		return NULL;
	}
	return id;
}

struct cm_id *cm_id_new(struct client *c, struct client_chan *chan)
{
	struct cm_id *id = c->cm.live < IDS_MAX ? user_alloc(c->user, sizeof(*id)) : NULL;

	if (id == NULL)
		return NULL;
	id->handle = client_table_add(c, &c->cm, id);
	if (id->handle == 0) {
		user_free(c->user, id);
		return NULL;
	}
	id->c = c;
	id->chan = chan;
	id->dev = CM_NO_DEV;
	id->families = CM_IP4 | CM_IP6;
	chan->users++;
	return id;
}

void cm_id_free(struct cm_id *id)
{
	cm_route_forget(id);
	cm_sidr_forget(id);
	if (id->hold.on)
		loop_timer_disarm(&id->hold.timer);
	if (id->handed != NULL)
		rnicd.taker->drop(id->handed);
	cm_joins_end(id);
	ev_cancel_all(&id->untold);
	if (id->has_port)
		cm_port_give(id->c->user, id->dev, cm_port_space(id, id->families), id->local.port);
	cm_request_leave(id);
	rn_list_each(struct cm_id, r, &id->came, sibling)
		cm_request_leave(r);
	owner_del(&id->owner);
	id->chan->users--;
	table_del(&id->c->cm, id->handle);
	user_free(id->c->user, id);
}

bool cm_event(struct cm_id *id, enum cm_event_type type, int status, const struct event_fx *fx)
{
	struct ipc_cm_event ev = {
		.type = type,
		.status = status,
		.id = id->handle,
		.listen_id = type == CM_EV_CONNECT_REQUEST ? id->listener_handle : 0,
		.dev = id->dev,
		.local = id->local,
		.remote = id->remote,
	};

	cm_addr_scope(&ev.local, id->dev);
	cm_addr_scope(&ev.remote, id->dev);
	if (fx != NULL) {
		/* An effect has this side's depths, an event the peer's; so IRD and ORD are swapped. */
		ev.param.ird = fx->ord;
		ev.param.ord = fx->ird;
		ev.param.priv_len = fx->priv_len;
		memcpy(ev.param.priv, fx->priv, fx->priv_len);
	}
	return ev_push_copy(id->chan, &id->untold, &ev, sizeof(ev));
}

struct cm_id *cm_id_for(struct client *c, uint32_t channel, uint32_t datagram)
{
	struct client_chan *ch = table_get(&c->chan, channel);

	if (ch == NULL || ch->kind != IPC_CHANNEL_CM) {
		client_error(c, EINVAL, "there is no event channel %u for connection manager events", channel);
		return NULL;
	}
	struct cm_id *id = cm_id_new(c, ch);
	if (id == NULL) {
		client_error(c, ENOMEM,
			     c->cm.live >= IDS_MAX
				     ? "a client may have %u connection manager ids: destroy some"
				     : "no memory for another connection manager id: %u are in use, and this "
				       "user may have no more objects (object-memory, user-share)",
			     c->cm.live);
		return NULL;
	}
	id->udp = datagram != 0;
	return id;
}

void cm_create_id(struct client *c)
{
	const struct cm_id *id = cm_id_for(c, c->req.cm_create_id.channel, c->req.cm_create_id.datagram);

	if (id != NULL)
		client_ok_handle(c, id->handle);
}

/* ---- bind ---- */

/*
 * For the next seconds workers do not refuse connections to the port (expect.h). Some programs tell their peer the port
 * as soon as they have bound it, and listen later (qperf -cm1). On InfiniBand this works because the peer's address
 * resolution takes longer.
 */
static void expect(const struct cm_id *id)
{
	uint32_t first = id->dev == CM_NO_DEV ? 0 : id->dev, last = id->dev == CM_NO_DEV ? rnicd.n_ports : id->dev + 1;

	for (uint32_t d = first; d < last; d++)
		expect_put(d, id->local.port, rnicd_now());
}

static const char *cm_id_show(const struct ipc_addr *a, char *buf, size_t len)
{
	struct pkt_addr p;

	memcpy(p.b, a->ip, 16);
	if (pkt_addr_is_ip4(&p))
		inet_ntop(AF_INET, a->ip + 12, buf, (socklen_t)len);
	else
		inet_ntop(AF_INET6, a->ip, buf, (socklen_t)len);
	return buf;
}

void cm_addr_own(struct ipc_addr *a)
{
	static const uint8_t v4[13] = { [10] = 0xff, [11] = 0xff, [12] = 127 }, v6[16] = { [15] = 1 };

	if ((memcmp(a->ip, v4, sizeof(v4)) == 0 || memcmp(a->ip, v6, sizeof(v6)) == 0) && rnicd.n_ports > 0 &&
	    dev_by_addr(a->ip) == UINT32_MAX)
		memcpy(a->ip, rnicd.port[0]->cfg->ip.b, sizeof(a->ip));
}

uint32_t cm_addr_dev(const struct ipc_addr *a)
{
	const uint32_t dev = dev_by_scope(a);

	if (dev == UINT32_MAX)
		return dev_by_addr(a->ip);
	return memcmp(rnicd.port[dev]->cfg->ip.b, a->ip, sizeof(a->ip)) == 0 ? dev : UINT32_MAX;
}

void cm_addr_scope(struct ipc_addr *a, uint32_t dev)
{
	if (dev < rnicd.n_ports && dev_is_local(a->ip))
		a->scope = rnicd.port[dev]->if_index;
}

/*
 * Answers that no device has the address. Programs that look for devices (libfabric) try each address of the host, so
 * for link-local addresses, which no port of rnicd can have, there is no message on their stderr.
 */
static void no_such_address(struct client *c, const struct ipc_addr *a)
{
	char text[INET6_ADDRSTRLEN];

	if (dev_is_local(a->ip))
		client_error(c, EADDRNOTAVAIL, "%s", "");
	else
		client_error(c, EADDRNOTAVAIL, "no RDMA device has the address %s", cm_id_show(a, text, sizeof(text)));
}

/* The wildcard address of IPv6 stands for IPv4 too, unless the id is for IPv6 only (AFONLY). */
static uint8_t families_of(const struct ipc_cm_bind *r, uint32_t dev)
{
	struct pkt_addr a;

	if (dev != CM_NO_DEV)
		return cm_family_of(dev);
	memcpy(a.b, r->addr.ip, sizeof(a.b));
	return pkt_addr_is_ip4(&a) ? CM_IP4 : r->own_family != 0 ? CM_IP6 : CM_IP4 | CM_IP6;
}

void cm_port_error(struct client *c, uint16_t port)
{
	if (errno == EDQUOT)
		client_error(c, ENOMEM,
			     "the user of this client has as many ports of a device as a user may: %u (user-share)",
			     (uint32_t)user_share(USER_TCP_PORTS));
	else if (errno != EADDRINUSE)
		client_error(c, errno, "a port cannot be reserved: %s", strerror(errno));
	else if (port == 0)
		client_error(c, EADDRINUSE, "no port is free");
	else
		client_error(c, EADDRINUSE, "port %u is in use", port);
}

void cm_bind(struct client *c)
{
	struct ipc_addr a = c->req.cm_bind.addr;
	struct cm_id *id = cm_find(c, c->req.cm_bind.id);
	uint32_t dev = CM_NO_DEV;

	if (id == NULL)
		return;
	if (id->state != CM_IDLE) {
		cm_wrong_state(c, id, "bind");
		return;
	}
	cm_addr_own(&a);
	if (!cm_addr_is_any(&a)) {
		dev = cm_addr_dev(&a);
		if (dev == UINT32_MAX) {
			no_such_address(c, &a);
			return;
		}
	}
	const char *no = cm_port_refusal(c, dev, a.port);
	if (no != NULL) {
		client_error(c, EACCES, "port %u: %s", a.port, no);
		return;
	}
	const uint8_t families = families_of(&c->req.cm_bind, dev);
	if (a.port == 0)
		a.port = cm_port_any(c->user, dev, cm_port_space(id, families));
	else if (!cm_port_take(c->user, dev, cm_port_space(id, families), a.port))
		a.port = 0;
	if (a.port == 0) {
		cm_port_error(c, c->req.cm_bind.addr.port);
		return;
	}
	id->dev = dev;
	id->families = families;
	id->local = a;
	id->has_port = true;
	cm_addr_scope(&a, dev);
	cm_set_state(id, CM_BOUND);
	if (!id->udp)
		expect(id);
	struct ipc_msg m = { .cm_bind_ok = { .addr = a, .dev = dev } };
	client_answer(c, &m, IPC_MSG_LEN(cm_bind_ok));
}

/* ---- another channel ---- */

static void move(struct cm_id *id, struct client_chan *to)
{
	id->chan->users--;
	id->chan = to;
	to->users++;
	ev_migrate(&id->untold, to);
	cm_joins_move(id);
}

/* Requests that the client does not know move along with the listener. Others that are OVER leave its list. */
static void move_requests(struct cm_id *l, struct client_chan *to)
{
	rn_list_each(struct cm_id, id, &l->came, sibling) {
		if (!cm_request_told(id))
			move(id, to);
		else if (!id->pending)
			cm_request_leave(id);
	}
}

void cm_migrate(struct client *c)
{
	struct cm_id *id = cm_find(c, c->req.cm_migrate.id);
	struct client_chan *to = table_get(&c->chan, c->req.cm_migrate.channel);

	if (id == NULL)
		return;
	if (to == NULL || to->kind != IPC_CHANNEL_CM) {
		client_error(c, EINVAL, "there is no event channel %u for connection manager events",
			     c->req.cm_migrate.channel);
		return;
	}
	if (to != id->chan) {
		move(id, to);
		move_requests(id, to);
	}
	client_ok(c);
}
