/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive rings of datagram sockets. */
#include <string.h>

#include "border/grams.h"

#define RX_MASK (IPC_GRAM_RING - 1)

static void gram_put(const struct gram *g, uint32_t at, const void *p, uint32_t len)
{
	uint8_t *ring = (uint8_t *)g->mem + IPC_GRAM_RX_OFF;
	uint32_t place = at & RX_MASK, first = rn_min_u32(len, IPC_GRAM_RING - place);

	memcpy(ring + place, p, first);
	memcpy(ring, (const uint8_t *)p + first, len - first);
}

bool gram_read(struct grams *c, struct gram *g)
{
	/* acquire: pairs with the program's release, which says that earlier records have been read */
	uint32_t head = __atomic_load_n(&g->mem->rx_head, __ATOMIC_ACQUIRE);

	if (rn_unlikely(head - g->rx_head > g->rx_tail - g->rx_head)) {
		gram_broken(c, g);
		return false;
	}
	g->rx_head = head;
	if (g->unread != 0)
		gram_slots_read(g);
	return true;
}

/* Whether a record of this length may be put. The program's index is copied and checked. */
static bool gram_room(struct grams *c, struct gram *g, uint32_t need)
{
	uint32_t may = __atomic_load_n(&g->mem->rx_room, __ATOMIC_RELAXED);

	if (!gram_read(c, g))
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

struct ipc_gram_rec gram_record(uint32_t dev, const struct pkt *p, uint8_t ttl)
{
	struct ipc_gram_rec rec = { .len = p->payload_len,
				    .port = p->sport,
				    .dev = (uint16_t)dev,
				    .tos = p->ip_tos,
				    .ttl = ttl,
				    .wire = IPC_GRAM_PLAIN };

	memcpy(rec.ip, p->src.b, sizeof(rec.ip));
	memcpy(rec.local, p->dst.b + 12, sizeof(rec.local));
	return rec;
}

/* The record is in the ring: shows it to the program. */
static void gram_shown(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec)
{
	struct rnicd_port_stats *st = &rnicd.port[dev]->stats[c->worker];

	__atomic_store_n(&g->mem->rx_tail, g->rx_tail, __ATOMIC_RELEASE);
	gram_say_wire(g, rec->wire);
	st->gram_rx++;
	st->gram_iwarp_rx += rec->wire == IPC_GRAM_IWARP;
	gram_answer(c, g);
}

bool gram_deliver(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec,
		  const struct rn_iov *iov, uint32_t n)
{
	uint32_t at = g->rx_tail;

	if (g->broken || !gram_room(c, g, ipc_gram_need(rec->len))) {
		rnicd.port[dev]->stats[c->worker].gram_full++;
		return false;
	}
	gram_put(g, at, rec, sizeof(*rec));
	at += (uint32_t)sizeof(*rec);
	for (uint32_t i = 0; i < n; i++) {
		gram_put(g, at, iov[i].base, (uint32_t)iov[i].len);
		at += (uint32_t)iov[i].len;
	}
	g->rx_tail += ipc_gram_need(rec->len);
	gram_shown(c, g, dev, rec);
	return true;
}

bool gram_put_slot(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec)
{
	if (g->broken || !gram_room(c, g, sizeof(*rec))) {
		rnicd.port[dev]->stats[c->worker].gram_full++;
		return false;
	}
	gram_put(g, g->rx_tail, rec, sizeof(*rec));
	g->rx_tail += (uint32_t)sizeof(*rec);
	gram_shown(c, g, dev, rec);
	return true;
}
