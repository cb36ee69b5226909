/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending from datagram sockets: from the programs' rings into frames. */
#include "border/policy.h"
#include "plane/worker_int.h"

#define MASK       (IPC_GRAM_RING - 1)
#define SHARE      32u /* datagrams of one socket before the next one's turn */
#define TURN_SHARE 64u

/* The longest datagram, octets: as IP's length field allows, or where nothing is fragmented (IPv6) the port's MTU. */
static uint32_t gram_longest(const struct rnicd_port *port)
{
	const uint32_t ip = port_ip_len(port);

	return (ip == PKT_IP4_LEN ? UINT16_MAX : port->mtu) - ip - PKT_UDP_LEN;
}

/* A copy of the next record's head. 0: there is none, UINT32_MAX: it breaks the rules, else the record's bytes. */
static uint32_t next_record(const struct gram *g, struct ipc_gram_rec *rec)
{
	const uint8_t *ring = (const uint8_t *)g->mem + IPC_GRAM_TX_OFF;
	/* acquire: pairs with the program's release; the records are in the ring */
	uint32_t there = __atomic_load_n(&g->mem->tx_tail, __ATOMIC_ACQUIRE) - g->tx_head;

	if (there == 0)
		return 0;
	if (rn_unlikely(there > IPC_GRAM_RING || there < sizeof(*rec)))
		return UINT32_MAX;
	memcpy(rec, ring + (g->tx_head & MASK), sizeof(*rec));
	if (rn_unlikely(rec->len > IPC_GRAM_RING || ipc_gram_need(rec->len) > there || rec->dev >= rnicd.n_ports ||
			rec->wire > IPC_GRAM_IWARP || (g->dev != GRAM_ANY_DEV && rec->dev != g->dev) ||
			rec->port == 0 || rec->len > gram_longest(rnicd.port[rec->dev])))
		return UINT32_MAX;
	return ipc_gram_need(rec->len);
}

/* Copies `len` octets of the next record's datagram from `at` on. */
static void copy_payload(const struct gram *g, uint8_t *to, uint32_t at, uint32_t len)
{
	struct rn_iov iov[2];

	gram_tx_bytes(g, at, len, iov);
	memcpy(to, iov[0].base, iov[0].len);
	memcpy(to + iov[0].len, iov[1].base, iov[1].len);
}

/*
 * Fills a chain with a datagram longer than the MTU: a fragment's bytes in each buffer, headers in the first one too.
 */
static RN_COLD void fill_chain(const struct gram *g, const struct rnicd_port *port, struct rte_mbuf *m, uint32_t len)
{
	uint32_t at = 0, room = pkt_frag_step(port->mtu) - PKT_UDP_LEN, hdr = ud_headers_len(port);

	for (; m != NULL; m = m->next) {
		uint32_t n = rn_min_u32(len - at, room);
		copy_payload(g, rte_pktmbuf_mtod_offset(m, uint8_t *, hdr), at, n);
		m->data_len = (uint16_t)(hdr + n);
		at += n;
		room = pkt_frag_step(port->mtu);
		hdr = 0;
	}
}

static uint32_t gram_launch(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec,
			    struct rte_mbuf *m)
{
	struct rnicd_port *port = rnicd.port[rec->dev];
	const struct ud_dest to = { .addr = (const struct pkt_addr *)rec->ip,
				    .sport = g->lport,
				    .dport = rec->port,
				    .tos = rec->tos,
				    .ttl = rec->ttl };

	if (rn_likely(m->nb_segs == 1))
		copy_payload(g, rte_pktmbuf_mtod_offset(m, uint8_t *, ud_headers_len(port)), 0, rec->len);
	else
		fill_chain(g, port, m, rec->len);
	port->stats[w->index].gram_tx++;
	return ud_launch_to(w, port, m, &to, rec->len);
}

/* Buffers for the next datagram, when it may leave now; NULL: later. */
static struct rte_mbuf *gram_buffers(const struct rnicd_worker *w, const struct rnicd_port *port, uint32_t n)
{
	if (!ud_room(w, port))
		return NULL;
	if (rn_likely(n == 1))
		return rte_pktmbuf_alloc(port->pool);
	return port_tx_free(&w->tx[port->index]) >= n ? frag_chain(port, n) : NULL;
}

/* Sends the next record as plain UDP; returns its weight (ud_launch_to()). 0: there is no room now. */
static uint32_t send_plain(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec)
{
	struct rnicd_port *port = rnicd.port[rec->dev];
	const uint32_t n = frag_buffers(port, rec->len + PKT_UDP_LEN);
	struct rte_mbuf *m = gram_buffers(w, port, n);

	return m != NULL ? gram_launch(w, g, rec, m) : 0;
}

static bool wants_iwarp(const struct ipc_gram_rec *rec)
{
	return rec->wire == IPC_GRAM_IWARP ||
	       (rec->wire == IPC_GRAM_AS_PORT && rnicd.port[rec->dev]->cfg->gram_wire == RNICD_WIRE_IWARP);
}

bool gram_send(struct rnicd_worker *w, struct gram *g, uint32_t share, uint32_t *count)
{
	uint32_t before = g->tx_head;
	bool done = false;

	for (uint32_t i = 0, n = 1; i < share && !done; i += n) {
		struct ipc_gram_rec rec;
		uint32_t need = next_record(g, &rec);
		if (rn_unlikely(need == UINT32_MAX)) {
			gram_broken(w, g);
			return true;
		}
		done = need == 0;
		if (done)
			break;
		struct udps_peer *peer = rn_unlikely(wants_iwarp(&rec)) ? gram_iwarp_peer(w, g, &rec) : NULL;
		n = rn_unlikely(peer != NULL) ? gram_iwarp_send(w, g, &rec, peer) : send_plain(w, g, &rec);
		if (n == 0)
			break;
		g->tx_head += need;
		*count += n;
		gram_say_wire(g, peer != NULL ? IPC_GRAM_IWARP : IPC_GRAM_PLAIN);
	}
	if (g->tx_head != before) {
		__atomic_store_n(&g->mem->tx_head, g->tx_head, __ATOMIC_RELEASE);
		gram_answer(w, g);
	}
	return done;
}

uint32_t gram_transmit(struct rnicd_worker *w)
{
	struct rn_list again = { 0 };
	struct gram *g;
	uint32_t count = 0;

	while (count < TURN_SHARE && (g = rn_list_pop(&w->grams.ready, struct gram, ready)) != NULL)
		if (!gram_send(w, g, SHARE, &count))
			rn_list_push_back(&again, &g->ready);
	while ((g = rn_list_pop(&again, struct gram, ready)) != NULL)
		rn_list_push_back(&w->grams.ready, &g->ready);
	return count;
}
