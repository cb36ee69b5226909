/* SPDX-License-Identifier: BSD-3-Clause */
/* Multicast: the groups of a worker, and the datagrams to them. */
#include "plane/frame.h"
#include "plane/worker_int.h"

#define LOAD 256u /* a turn begins no frame from a line when so many frames and members of groups have had theirs */

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

/* The frame that has waited longest; NULL: none waits. The group goes to the end of the list of those with frames. */
static struct rte_mbuf *late_pop(struct rnicd_worker *w, struct ud_group *g)
{
	struct mbuf_priv *first = rn_slist_pop(&g->late, struct mbuf_priv, late);

	rn_list_remove(&w->late_groups, &g->late_link);
	if (first == NULL)
		return NULL;
	w->late_free++;
	if (--g->n_late > 0)
		rn_list_push_back(&w->late_groups, &g->late_link);
	return mbuf_of_ref((uint64_t)(uintptr_t)&first->pkt);
}

static void late_drop(struct rnicd_worker *w, struct ud_group *g)
{
	struct rte_mbuf *m;

	while ((m = late_pop(w, g)) != NULL)
		rte_pktmbuf_free(m);
}

void ud_group_drain(struct rnicd_worker *w)
{
	struct ud_group *g;

	while ((g = rn_list_first(&w->late_groups, struct ud_group, late_link)) != NULL)
		late_drop(w, g);
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
		late_drop(w, g);
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

/* The members get the frame; returns how many. */
static uint32_t to_members(struct rnicd_worker *w, struct rnicd_port *port, const struct ud_group *g,
			   const struct rte_mbuf *m, const struct pkt *p, const struct udpl_hdr *h)
{
	const bool own = pkt_addr_eq(&p->src, &port->cfg->ip);
	const struct ud_member *i = g->members;
	uint32_t n = 0;

	for (; i != NULL && worker_space(w); i = i->next) {
		if (!own || !i->deaf || i->u->qp.qpn != h->src_qpn)
			ud_deliver(w, &i->u->qp, m, p, h, true);
		n++;
	}
	port->stats[w->index].rx_no_room += i != NULL; /* some members do not get the datagram */
	return n;
}

/*
 * Whether a frame from a line must wait for a later turn. Frames of a group stay in order. What the device itself has
 * sent counts in its sender's part of a turn (ud_launch_to).
 */
static bool is_late(const struct rnicd_worker *w, const struct ud_group *g)
{
	return g->members != NULL && (g->n_late > 0 || w->group_load >= LOAD);
}

/*
 * Keeps the frame for a later turn. A group has no more frames than there is room for others' (dynamic thresholds:
 * rd_peer.c), so a flood to few groups leaves room to the frames of the others. Takes m.
 */
static void late_put(struct rnicd_worker *w, struct rnicd_port *port, struct ud_group *g, struct rte_mbuf *m)
{
	if (g->n_late >= w->late_free) {
		port->stats[w->index].rx_no_room++;
		rte_pktmbuf_free(m);
		return;
	}
	w->late_free--;
	w->ud_wanted++;
	rn_slist_push_back(&g->late, &mbuf_priv(m)->late);
	if (g->n_late++ == 0)
		rn_list_push_back(&w->late_groups, &g->late_link);
}

uint32_t ud_group_turn(struct rnicd_worker *w)
{
	struct ud_group *g;
	struct udpl_hdr h;
	struct pkt p;
	uint32_t n = 0;

	w->group_load = 0;
	while (w->group_load < LOAD && (g = rn_list_first(&w->late_groups, struct ud_group, late_link)) != NULL) {
		struct rte_mbuf *m = late_pop(w, g);
		const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
		/* both were good when the frame came */
		if (pkt_parse(frame, m->data_len, m->pkt_len, &p) == PKT_OK &&
		    udpl_parse(frame + p.payload_off, p.payload_len, &h) == UDPL_OK)
			w->group_load += to_members(w, rnicd.port[g->port], g, m, &p, &h);
		w->group_load++;
		rte_pktmbuf_free(m);
		n++;
	}
	return n;
}

void ud_group_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		    const struct udpl_hdr *h, bool from_wire)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	struct ud_group *g = ud_group_find(w, port->index, &p->dst);
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
		if (!own && is_late(w, g)) {
			late_put(w, port, g, m);
			return;
		}
		const uint32_t n = to_members(w, port, g, m, p, h);
		w->group_load += own ? 0 : 1 + n;
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
