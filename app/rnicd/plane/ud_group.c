/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast: the groups of a worker, and the datagrams to them. */
#include "plane/frame.h"
#include "plane/worker_int.h"

/* ---- the worker's groups ---- */

static uint32_t bucket(uint32_t port, const struct pkt_addr *a)
{
	return (a->b[15] ^ a->b[14] ^ a->b[13] ^ port) % UD_GROUP_HASH;
}

struct ud_group *ud_group_find(const struct rnicd_worker *w, uint32_t port, const struct pkt_addr *addr)
{
	struct ud_group *g = w->groups[bucket(port, addr)];

	while (g != NULL && (g->port != port || !pkt_addr_eq(&g->addr, addr)))
		g = g->next;
	return g;
}

void ud_group_set(struct rnicd_worker *w, struct ud_group *g, uint32_t workers, uint32_t qps)
{
	struct ud_group **at = &w->groups[bucket(g->port, &g->addr)];

	if (g->workers == 0 && workers != 0) {
		g->next = *at;
		*at = g;
	} else if (g->workers != 0 && workers == 0) {
		while (*at != g)
			at = &(*at)->next;
		*at = g->next;
	}
	g->workers = workers;
	g->qps = qps;
}

void ud_group_add(struct ud_group *g, struct ud_member *m)
{
	m->next = g->members;
	g->members = m;
}

void ud_group_del(struct ud_group *g, struct ud_member *m)
{
	struct ud_member **at = &g->members;

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
}

/* ---- receiving ---- */

static void to_others(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m, uint32_t workers)
{
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		if (i == w->index || (workers & 1u << i) == 0)
			continue;
		struct rte_mbuf *copy = frame_copy(port->pool, m);
		if (copy == NULL)
			port->stats[w->index].no_buffer++;
		else
			worker_move(w, port, copy, i);
	}
}

void ud_group_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		    const struct udpl_hdr *h, bool from_wire)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	const struct ud_group *g = ud_group_find(w, port->index, &p->dst);
	const bool own = pkt_addr_eq(&p->src, &port->cfg->ip);

	if (udpl_for_cm(h->kind) || h->dst_qpn != UDPL_QPN_GROUP) {
		w->tcp.rc.qp.stats.ud_bad++;
	} else if (g == NULL) { /* the group's last member has just left */
		w->tcp.rc.qp.stats.ud_no_qp++;
	} else if (from_wire && own) { /* the network has sent back a frame of this port */
		st->rx_not_ours++;
	} else if (!worker_csum_good(port, m, p)) {
		st->rx_bad_csum++;
	} else if (!udpl_crc_good(rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off), p->payload_len)) {
		w->tcp.rc.qp.stats.ud_crc++;
	} else {
		if (from_wire)
			to_others(w, port, m, g->workers);
		const struct ud_member *i = g->members;
		for (; i != NULL && worker_space(w); i = i->next) {
			if (!own || !i->deaf || i->u->qp.qpn != h->src_qpn)
				ud_deliver(w, &i->u->qp, m, p, h, true);
		}
		st->rx_no_room += i != NULL; /* some members do not get the datagram */
	}
	rte_pktmbuf_free(m);
}

/* This worker receives a copy of the frame in its next turn. */
static void to_own(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m)
{
	struct rte_mbuf *copy = w->loop_tail - w->loop_head < WORKER_LOOP ? frame_copy(port->pool, m) : NULL;

	if (copy == NULL) {
		port->stats[w->index].no_buffer++;
		return;
	}
	copy->port = port->index;
	w->loop[w->loop_tail++ % WORKER_LOOP] = copy;
}

uint32_t ud_group_loop(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m,
		       const struct pkt_addr *to)
{
	const struct ud_group *g = ud_group_find(w, port->index, to);

	if (g == NULL)
		return 0;
	to_others(w, port, m, g->workers);
	if (g->members != NULL)
		to_own(w, port, m);
	return g->qps;
}

void ud_group_report(struct rnicd_worker *w, struct rnicd_port *port, const uint8_t *frame, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);

	if (m == NULL) {
		port->stats[w->index].no_buffer++;
		return;
	}
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	port->stats[w->index].igmp_tx++;
	port_tx_push(&w->tx[port->index], m);
}
