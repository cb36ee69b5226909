/* SPDX-License-Identifier: BSD-3-Clause */
/* Neighbours: finds the next hop of an address, carries out what ARP asks for, and reports to the control thread. */
#include <errno.h>

#include "plane/worker_int.h"

/* False: no room. The neighbour's next event, or the control side's own time-out, takes the place of this event. */
static bool neigh_tell(struct rnicd_worker *w, uint32_t port, const struct pkt_addr *ip, int status)
{
	struct event *ev = event_room(w->index, EVENT_DROPPABLE);

	if (ev == NULL)
		return false;
	ev->type = EVENT_NEIGH;
	ev->neigh = (struct event_neigh){ .port = port, .addr = *ip, .status = status };
	event_put(w->index);
	return true;
}

void worker_arp_todo(struct rnicd_worker *w, struct rnicd_port *port, const struct arp_todo *todo)
{
	for (uint32_t i = 0; i < todo->n_out; i++)
		frag_push(w, port, todo->out[i]);
	for (struct rte_mbuf *m; todo->ready != NULL && (m = arp_unpark(w->arp[port->index], todo->ready)) != NULL;)
		frag_push(w, port, m);
	if (todo->evicts)
		(void)neigh_tell(w, port->index, &todo->evicted, -EHOSTUNREACH);
	struct arp_entry *e = todo->told;
	if (e != NULL && neigh_tell(w, port->index, &e->ip, arp_usable(e) ? 0 : -EHOSTUNREACH))
		e->notify = false;
}

void neigh_timers(struct rnicd_worker *w)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		for (;;) {
			struct arp_todo todo = { .n_out = 0 };
			if (!arp_timer(w->arp[i], w->now, &todo))
				break;
			worker_arp_todo(w, rnicd.port[i], &todo);
		}
	}
}

const struct pkt_addr *conn_next_hop(const struct rnicd_port *port, const struct pkt_addr *ip)
{
	if (pkt_addr_is_ip4(ip) != pkt_addr_is_ip4(&port->cfg->ip))
		return NULL;
	if (pkt_addr_same_net(ip, &port->cfg->ip, port->cfg->prefix_len))
		return ip;
	return port->cfg->gateway_set ? &port->cfg->gateway : NULL;
}

struct arp_entry *neigh_get(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *hop)
{
	struct arp_todo todo = { .n_out = 0 };
	struct arp_entry *e = arp_get(w->arp[port->index], hop, w->now, &todo);

	worker_arp_todo(w, port, &todo);
	return e;
}

enum neigh_verdict neigh_resolve(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *ip)
{
	if (pkt_addr_eq(ip, &port->cfg->ip))
		return NEIGH_READY;
	const struct pkt_addr *hop = conn_next_hop(port, ip);
	if (hop == NULL || !pkt_addr_is_ip4(hop))
		return NEIGH_NO_ROUTE;
	struct arp_entry *e = neigh_get(w, port, hop);
	if (e == NULL)
		return NEIGH_FULL;
	if (arp_usable(e))
		return NEIGH_READY;
	e->notify = true;
	if (e->state == ARP_S_FAILED) {
		const struct arp_todo todo = { .told = e };
		worker_arp_todo(w, port, &todo);
	}
	return NEIGH_WAIT;
}
