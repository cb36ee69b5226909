/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending from datagram sockets: the programs' rings, and the way of each datagram. */
#include <string.h>

#include "border/grams.h"
#include "border/policy.h"

#define TURN_SHARE 64u

/* The longest datagram, octets: as IP's length field allows, or where nothing is fragmented (IPv6) the port's MTU. */
static uint32_t gram_longest(const struct rnicd_port *port)
{
	const uint32_t ip = port_ip_len(port);

	return (ip == PKT_IP4_LEN ? UINT16_MAX : port->mtu) - ip - PKT_UDP_LEN;
}

/* Whether the socket may send such a datagram. */
static bool may_leave(const struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec)
{
	if (rn_unlikely(c->plane->route != NULL))
		return rec->len <= UDPS_LONGEST;
	return rec->dev < rnicd.n_ports && (g->dev == GRAM_ANY_DEV || rec->dev == g->dev) &&
	       rec->len <= gram_longest(rnicd.port[rec->dev]);
}

/* A copy of the next record's head. 0: there is none, UINT32_MAX: it breaks the rules, else the record's bytes. */
static uint32_t next_record(const struct grams *c, const struct gram *g, struct ipc_gram_rec *rec)
{
	const uint8_t *ring = (const uint8_t *)g->mem + IPC_GRAM_TX_OFF;
	/* acquire: pairs with the program's release; the records are in the ring */
	uint32_t there = __atomic_load_n(&g->mem->tx_tail, __ATOMIC_ACQUIRE) - g->tx_head;

	if (there == 0)
		return 0;
	if (rn_unlikely(there > IPC_GRAM_RING || there < sizeof(*rec)))
		return UINT32_MAX;
	memcpy(rec, ring + (g->tx_head & (IPC_GRAM_RING - 1)), sizeof(*rec));
	if (rn_unlikely(rec->len > IPC_GRAM_RING || ipc_gram_need(rec->len) > there || rec->wire > IPC_GRAM_IWARP ||
			rec->port == 0 || !may_leave(c, g, rec)))
		return UINT32_MAX;
	return ipc_gram_need(rec->len);
}

/* The peer to which the record goes by iWARP; NULL: it goes as plain UDP. */
static struct udps_peer *speaker(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec)
{
	uint32_t dev = rec->dev;

	if (rec->wire == IPC_GRAM_PLAIN)
		return NULL;
	if (rn_unlikely(c->plane->route != NULL) && (dev = c->plane->route(c, g, rec)) == GRAM_NO_DEV)
		return NULL;
	if (rec->wire == IPC_GRAM_AS_PORT && rn_likely(rnicd.port[dev]->cfg->gram_wire != RNICD_WIRE_IWARP))
		return NULL;
	return gram_iwarp_peer(c, g, rec, dev);
}

bool gram_send(struct grams *c, struct gram *g, uint32_t share, uint32_t *count)
{
	uint32_t before = g->tx_head;
	bool done = false;

	for (uint32_t i = 0, n = 1; i < share && !done; i += n) {
		struct ipc_gram_rec rec;
		uint32_t need = next_record(c, g, &rec);
		if (rn_unlikely(need == UINT32_MAX)) {
			gram_broken(c, g);
			return true;
		}
		done = need == 0;
		if (done)
			break;
		struct udps_peer *peer = speaker(c, g, &rec);
		if (rn_unlikely(g->broken))
			return true;
		n = rn_unlikely(peer != NULL) ? c->plane->iwarp(c, g, &rec, peer) : c->plane->plain(c, g, &rec);
		if (n == 0)
			break;
		g->tx_head += need;
		*count += n;
		gram_say_wire(g, peer != NULL ? IPC_GRAM_IWARP : IPC_GRAM_PLAIN);
	}
	if (g->tx_head != before) {
		__atomic_store_n(&g->mem->tx_head, g->tx_head, __ATOMIC_RELEASE);
		gram_answer(c, g);
	}
	return done;
}

uint32_t gram_transmit(struct grams *c)
{
	struct rn_list again = { 0 };
	struct gram *g;
	uint32_t count = 0;

	while (count < TURN_SHARE && (g = rn_list_pop(&c->ready, struct gram, ready)) != NULL)
		if (!gram_send(c, g, GRAM_SHARE, &count) && !g->stuck)
			rn_list_push_back(&again, &g->ready);
	while ((g = rn_list_pop(&again, struct gram, ready)) != NULL)
		rn_list_push_back(&c->ready, &g->ready);
	return count;
}
