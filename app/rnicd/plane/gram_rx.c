/* SPDX-License-Identifier: BSD-3-Clause */
/* Receiving for datagram sockets. */
#include <errno.h>

#include "plane/frame.h"
#include "plane/worker_int.h"

#define MASK (IPC_GRAM_RING - 1)

static struct gram *gram_bucket(const struct rnicd_worker *w, uint16_t lport)
{
	return w->grams.slot[gram_slot(lport)];
}

static bool from_peer(const struct gram *g, const struct pkt_addr *ip, uint16_t port)
{
	return g->peer.port == port && pkt_addr_eq(&g->peer.ip, ip);
}

/*
 * How well a socket fits a packet: a socket with this peer fits best, then one with this device's address. 0: not at
 * all.
 */
static uint32_t fits(const struct gram *g, uint32_t dev, const struct pkt *p)
{
	if (g->lport != p->dport || (g->dev != dev && g->dev != GRAM_ANY_DEV))
		return 0;
	if (g->peer.port != 0 && !from_peer(g, &p->src, p->sport))
		return 0;
	return 1u + (g->dev == dev) + 2u * (g->peer.port != 0);
}

/*
 * Of the n sockets that fit as well as `first` and share the packets of a port: chooses one by a hash of both
 * addresses.
 */
static struct gram *balanced(struct gram *first, uint32_t n, uint32_t dev, const struct pkt *p)
{
	const struct flow_key key = {
		.local = p->dst, .remote = p->src, .lport = p->dport, .rport = p->sport, .port = dev
	};
	const uint32_t most = fits(first, dev, p);
	struct gram *g = first;

	for (n = flow_hash(rnicd.secret, &key) % n; !g->balance || fits(g, dev, p) != most || n-- > 0;)
		g = g->next;
	return g;
}

/* Of several sockets with the port: the one that fits best, of equals the newest. */
struct gram *gram_find(struct rnicd_worker *w, uint32_t dev, const struct pkt *p)
{
	struct gram *best = NULL;
	uint32_t most = 0, same = 0;

	for (struct gram *g = gram_bucket(w, p->dport); g != NULL; g = g->next) {
		uint32_t f = fits(g, dev, p);
		if (f > most) {
			most = f;
			best = g;
			same = 0;
		}
		same += f == most && g->balance;
	}
	return rn_likely(same < 2 || !best->balance) ? best : balanced(best, same, dev, p);
}

static void gram_put(const struct gram *g, uint32_t at, const void *p, uint32_t len)
{
	uint8_t *ring = (uint8_t *)g->mem + IPC_GRAM_RX_OFF;
	uint32_t place = at & MASK, first = rn_min_u32(len, IPC_GRAM_RING - place);

	memcpy(ring + place, p, first);
	memcpy(ring, (const uint8_t *)p + first, len - first);
}

bool gram_read(struct rnicd_worker *w, struct gram *g)
{
	/* acquire: pairs with the program's release, which says that earlier records have been read */
	uint32_t head = __atomic_load_n(&g->mem->rx_head, __ATOMIC_ACQUIRE);

	if (rn_unlikely(head - g->rx_head > g->rx_tail - g->rx_head)) {
		gram_broken(w, g);
		return false;
	}
	g->rx_head = head;
	if (g->unread != 0)
		gram_slots_read(g);
	return true;
}

/* Whether a record of this length may be put. The program's index is copied and checked. */
static bool gram_room(struct rnicd_worker *w, struct gram *g, uint32_t need)
{
	uint32_t may = __atomic_load_n(&g->mem->rx_room, __ATOMIC_RELAXED);

	if (!gram_read(w, g))
		return false;
	uint32_t used = g->rx_tail - g->rx_head;
	if (may == 0 || may > IPC_GRAM_RING)
		may = IPC_GRAM_RING;
	/* as on Linux, the record that passes the limit is still taken */
	if (rn_likely(used < may && need <= IPC_GRAM_RING - used))
		return true;
	__atomic_store_n(&g->mem->dropped, g->mem->dropped + 1, __ATOMIC_RELAXED);
	return false;
}

struct ipc_gram_rec gram_record(const struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p)
{
	struct ipc_gram_rec rec = { .len = p->payload_len,
				    .port = p->sport,
				    .dev = port->index,
				    .tos = p->ip_tos,
				    .ttl = rte_pktmbuf_mtod(m, const uint8_t *)[p->l3_off + 8],
				    .wire = IPC_GRAM_PLAIN };

	memcpy(rec.ip, p->src.b, sizeof(rec.ip));
	return rec;
}

bool gram_deliver(struct rnicd_worker *w, struct rnicd_port *port, struct gram *g, const struct rte_mbuf *m,
		  uint32_t off, const struct ipc_gram_rec *rec)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	struct rn_iov iov[FRAME_MAX_SEGS];
	uint32_t n = frame_iov(m, off, rec->len, iov, FRAME_MAX_SEGS), at = g->rx_tail;

	if (g->broken || n == UINT32_MAX || !gram_room(w, g, ipc_gram_need(rec->len))) {
		st->gram_full++;
		return false;
	}
	gram_put(g, at, rec, sizeof(*rec));
	at += (uint32_t)sizeof(*rec);
	for (uint32_t i = 0; i < n; i++) {
		gram_put(g, at, iov[i].base, (uint32_t)iov[i].len);
		at += (uint32_t)iov[i].len;
	}
	g->rx_tail += ipc_gram_need(rec->len);
	__atomic_store_n(&g->mem->rx_tail, g->rx_tail, __ATOMIC_RELEASE);
	gram_say_wire(g, rec->wire);
	st->gram_rx++;
	gram_answer(w, g);
	return true;
}

bool gram_put_slot(struct rnicd_worker *w, struct gram *g, const struct ipc_gram_rec *rec)
{
	if (g->broken || !gram_room(w, g, sizeof(*rec)))
		return false;
	gram_put(g, g->rx_tail, rec, sizeof(*rec));
	g->rx_tail += (uint32_t)sizeof(*rec);
	__atomic_store_n(&g->mem->rx_tail, g->rx_tail, __ATOMIC_RELEASE);
	gram_say_wire(g, rec->wire);
	gram_answer(w, g);
	return true;
}

/* No socket has the port: answers with ICMP, within the rate limit for strangers. */
static void gram_refuse(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct pkt_l2 l2 = { .vlan = port->cfg->vlan };
	struct rte_mbuf *out;

	if (!conn_answer_allowed(w, port))
		return;
	out = rte_pktmbuf_alloc(port->pool);
	if (out == NULL) {
		port->stats[w->index].no_buffer++;
		return;
	}
	memcpy(l2.dst, frame + PKT_MAC_LEN, PKT_MAC_LEN);
	memcpy(l2.src, port->mac, PKT_MAC_LEN);
	uint32_t len = pkt_icmp_port_build(rte_pktmbuf_mtod(out, uint8_t *), &l2, frame, m->data_len, p);
	if (len == 0) {
		rte_pktmbuf_free(out);
		return;
	}
	out->data_len = (uint16_t)len;
	out->pkt_len = len;
	port->stats[w->index].gram_refused++;
	if (pkt_addr_eq(&p->src, &port->cfg->ip))
		conn_loop(w, port, out);
	else
		port_tx_push(&w->tx[port->index], out);
}

void gram_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p)
{
	struct gram *g = p->ip_version == 4 ? gram_find(w, port->index, p) : NULL;

	if (rn_likely(g != NULL)) {
		const struct ipc_gram_rec rec = gram_record(port, m, p);
		w->ud_wanted++;
		(void)gram_deliver(w, port, g, m, p->payload_off, &rec);
	} else {
		port->stats[w->index].rx_other++;
		gram_refuse(w, port, m, p);
	}
}

void gram_refused(struct rnicd_worker *w, const struct pkt_refused *r)
{
	/* a socket without a peer is told nothing, as on Linux: it could not know which datagram was refused */
	for (struct gram *g = gram_bucket(w, r->sport); g != NULL; g = g->next) {
		if (g->lport != r->sport || g->peer.port == 0 || !from_peer(g, &r->dst, r->dport) || g->broken)
			continue;
		__atomic_store_n(&g->mem->error, ECONNREFUSED, __ATOMIC_RELEASE);
		gram_answer(w, g);
	}
}
