/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/way.h"

#include "plane/spread.h"

#include "plane/worker_int.h"

/*
 * Stands for the neighbour of a peer that has not answered yet: the MAC in the headers is good. Constant, as workers
 * share it.
 */
static const struct arp_entry unproved = { .state = ARP_S_READY, .due = RN_NEVER };
/* Stands for a neighbour for which there was no entry: frames are dropped. Constant as well. */
static const struct arp_entry unknown = { .state = ARP_S_FREE };

/*
 * An entry stays for the way once its neighbour has answered. Else connections to absent hosts could hold all entries.
 */
static void use_entry(struct way *way, struct arp_entry *e)
{
	way->neigh = e;
	way->neigh_gen = e->gen;
	pkt_tcp_template_set_dst_mac(&way->tmpl, e->mac);
	if (way->holds || !arp_usable(e))
		return;
	way->holds = true;
	e->users++;
}

enum conn_verdict way_find(struct rnicd_worker *w, const struct conn_addr *a, const struct rte_mbuf *syn,
			   struct way *way)
{
	struct rnicd_port *port = rnicd.port[a->port];
	const struct pkt_addr *hop = conn_next_hop(port, &a->remote);
	bool loop = pkt_addr_eq(&a->remote, &port->cfg->ip);

	if (hop == NULL || (!loop && !pkt_addr_is_ip4(hop)))
		return CONN_NO_ROUTE;
	struct pkt_flow f = {
		.l2.vlan = port->cfg->vlan, .src = a->local, .dst = a->remote, .sport = a->lport, .dport = a->rport
	};
	f.tos = a->tos & WAY_DSCP;
	memcpy(f.l2.src, port->mac, PKT_MAC_LEN);
	memcpy(f.l2.dst, port->mac, PKT_MAC_LEN);
	*way = (struct way){ .port = port, .tx = &w->tx[a->port] };
	if (!loop && syn != NULL) {
		way->neigh = (struct arp_entry *)(uintptr_t)&unproved; /* is never written */
		memcpy(f.l2.dst, rte_pktmbuf_mtod_offset(syn, const uint8_t *, PKT_MAC_LEN), PKT_MAC_LEN);
	}
	pkt_tcp_template_init(&way->tmpl, &f);
	if (loop || syn != NULL)
		return CONN_OK;
	struct arp_entry *e = neigh_get(w, port, hop);
	if (e == NULL)
		return CONN_FULL;
	use_entry(way, e);
	return CONN_OK;
}

void way_leave(struct way *way)
{
	if (way->holds)
		way->neigh->users--;
	way->holds = false;
	way->neigh = NULL;
}

void way_proved(struct rnicd_worker *w, struct way *way, const struct pkt_addr *remote)
{
	struct arp_entry *e;

	if (way->neigh != &unproved)
		return;
	e = neigh_get(w, way->port, conn_next_hop(way->port, remote));
	if (e == NULL)
		return; /* connections hold all entries: the MAC that the SYN came from stays in use */
	arp_retry(e);   /* the peer is alive: a neighbour that has failed is asked again at once */
	use_entry(way, e);
}

/* The neighbour was not heard of lately, has another MAC address, or has lost an entry that the way did not hold. */
static RN_COLD void way_renew(struct rnicd_worker *w, struct way *way, const struct pkt_addr *remote)
{
	struct arp_entry *e = neigh_get(w, way->port, conn_next_hop(way->port, remote));

	if (e != NULL) {
		use_entry(way, e);
	} else {
		way->neigh = (struct arp_entry *)(uintptr_t)&unknown; /* is never written */
		way->neigh_gen = unknown.gen;
	}
}

void way_refresh(struct rnicd_worker *w, struct way *way, const struct pkt_addr *remote)
{
	const struct arp_entry *e = way->neigh;

	if (e != NULL && rn_unlikely(!arp_fresh(e, w->now) || e->gen != way->neigh_gen))
		way_renew(w, way, remote);
}

uint32_t way_room(const struct rnicd_worker *w, const struct way *way)
{
	if (way->neigh != NULL)
		return rn_likely(way->tx->n_paths == 0) ? port_tx_room(way->tx) : spread_room(way->tx, way->path);
	uint32_t waits = w->loop_tail - w->loop_head;
	return waits < WORKER_BURST ? WORKER_BURST - waits : 0; /* the same limit as on a wire inside this process */
}

/* The path of all segments of a flow while that path lives. The peer computes the same one. */
static uint32_t home(const struct way *way)
{
	/* the end of the template: source address, destination address, and the TCP ports behind them */
	const uint8_t *at = way->tmpl.hdr + way->tmpl.l2_len + way->tmpl.l3_len - 8;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < 4; i++)
		sum = sum * 31 + (at[i] ^ at[4 + i]);
	for (uint32_t i = 8; i < 10; i++)
		sum = sum * 31 + (at[i] ^ at[2 + i]);
	return (sum ^ sum >> 16) % way->tx->n_paths;
}

void way_choose(struct way *way, struct tcpl_conn *tcp, uint64_t now)
{
	struct port_tx *t = way->tx;
	const uint32_t lame = tcpl_lame(tcp, now);
	const enum rnicd_spread how = (enum rnicd_spread)t->port->cfg->spread;

	for (uint32_t left = tcpl_left(tcp); rn_unlikely(left != 0); left &= left - 1)
		t->path[__builtin_ctz(left)]->st->path_left++;
	/*
	 * until the connection is established, no ACK tells of a lost segment, so each segment takes another path than
	 * the last one
	 */
	bool alone = tcpl_get_state(tcp) < TCPL_S_ESTABLISHED;
	if (!alone && (how == RNICD_SPREAD_FLOW || !tcpl_may_spread(tcp)))
		way->next = (uint8_t)spread_from(t, home(way), lame);
	else if (alone || how == RNICD_SPREAD_TURNS)
		way->next = (uint8_t)spread_from(t, way->path + 1u, lame);
	else
		way->next = (uint8_t)spread_least(t, way->path + 1u, lame);
	tcpl_use_path(tcp, way->next);
}

void way_note(struct way *way, const struct rte_mbuf *m)
{
	for (uint32_t i = 0; i < way->tx->n_paths; i++)
		if (way->tx->path[i]->port->index == m->port)
			way->came = (uint8_t)i;
}

uint32_t way_header(struct way *way, const struct tcpl_out *o, uint64_t payload_sum, struct rte_mbuf *m)
{
	const struct pkt_tcp_seg s = { .seq = o->seq,
				       .ack = o->ack,
				       .wnd = o->wnd,
				       .flags = o->flags,
				       .opt_len = o->optlen,
				       .opt = o->opt,
				       .payload_len = o->len,
				       .payload_sum = payload_sum };
	bool defers = way_defers(way);
	uint32_t len = pkt_tcp_build(&way->tmpl, &s, defers ? PKT_CSUM_PSEUDO : PKT_CSUM_FULL,
				     rte_pktmbuf_mtod(m, uint8_t *));

	if (defers) {
		m->tx_offload = rte_mbuf_tx_offload(way->tmpl.l2_len, way->tmpl.l3_len, PKT_TCP_LEN, 0, 0, 0, 0);
		m->ol_flags |= RTE_MBUF_F_TX_TCP_CKSUM |
			       (way->tmpl.l3_len == PKT_IP4_LEN ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
	}
	return len;
}

void way_send(struct rnicd_worker *w, struct way *way, struct rte_mbuf *m)
{
	if (rn_unlikely(way->neigh == NULL)) {
		conn_loop(w, way->port, m);
		return;
	}
	if (rn_unlikely(!arp_usable(way->neigh)) && arp_park(w->arp[way->port->index], way->neigh, m))
		return;
	port_tx_push(way->tx, m);
}
