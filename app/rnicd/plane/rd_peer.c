/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/rd_peer.h"

#include <string.h>

#include "plane/rd_fold.h"

/* A peer that has sent nothing for this long may be replaced: no cookie of the forgotten flow is valid any more. */
#define PEER_REST_NS UDPR_IDLE_MIN
#define PEER_LOOKS   8u  /* how many peers are checked to find an idle one */
#define BACKLOG_PART 8u  /* packets that wait in a flow beyond its window: the window divided by this */
#define BACKLOG_MIN  4u  /* ... but at least this many */
#define RESERVE      64u /* packets and rings that are left for answers */

/* ---- peers ---- */

static struct rd_peer **chain_of(struct rd_port *r, const struct pkt_addr *addr)
{
	return &r->chain[rd_chain_of(addr)];
}

struct rd_peer *rd_peer_first(struct rd_port *r, const struct pkt_addr *addr) { return *chain_of(r, addr); }

struct rd_peer *rd_peer_find(struct rd_port *r, const struct pkt_addr *addr, uint32_t number)
{
	struct rd_peer *p = *chain_of(r, addr);

	while (p != NULL && (p->number != number || !pkt_addr_eq(&p->addr, addr)))
		p = p->next;
	return p;
}

bool rd_peer_known(struct rd_port *r, const struct pkt_addr *addr)
{
	const struct rd_peer *p = *chain_of(r, addr);

	while (p != NULL && !pkt_addr_eq(&p->addr, addr))
		p = p->next;
	return p != NULL || rd_fold_known(r, addr);
}

uint32_t rd_peer_numbers(struct rd_port *r, const struct pkt_addr *addr)
{
	const struct rd_peer *p = *chain_of(r, addr);

	while (p != NULL && (p->numbers == 0 || !pkt_addr_eq(&p->addr, addr)))
		p = p->next;
	return p != NULL ? p->numbers : rd_fold_numbers(r, addr);
}

void rd_peer_set_numbers(struct rd_port *r, const struct pkt_addr *addr, uint32_t numbers)
{
	for (struct rd_peer *p = *chain_of(r, addr); p != NULL; p = p->next) {
		if (!pkt_addr_eq(&p->addr, addr) || p->numbers == numbers)
			continue;
		p->numbers = (uint16_t)numbers;
		while (rd_unpark(&r->d, &p->full)) /* the pair may belong to another of the device's workers */
			;
	}
	rd_fold_set_numbers(r, addr, numbers);
}

void rd_peer_touch(struct rd_port *r, struct rd_peer *p)
{
	if (p->touched)
		return;
	p->touched = true;
	rn_slist_push_back(&r->touched, &p->link);
}

static bool peer_rests(const struct rd_peer *p, uint64_t now)
{
	return p->used && !p->touched && !udpr_tx_busy(&p->tx) && rn_slist_empty(&p->full) &&
	       (!p->rx.open || now - p->rx.heard > PEER_REST_NS);
}

void rd_peer_drop(struct rd_port *r, struct rd_peer *p)
{
	struct rd_peer **at = chain_of(r, &p->addr);

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	rn_wheel_disarm(&r->wheel, &p->timer);
	if (p->bits != NULL) {
		memset(p->bits->bits, 0, sizeof(p->bits->bits));
		rn_pool_push_front(&r->bits, &p->bits->link);
		p->bits = NULL;
	}
	p->used = false;
	r->n_peers--;
	rn_pool_push_back(&r->free, &p->link);
}

/* Whether there is a place for one more peer; a peer at rest is forgotten for it, if a look at few peers finds one. */
static bool find_place(struct rd_port *r, uint64_t now)
{
	if (r->n_peers == RD_PEERS)
		rd_fold_replace(r, PEER_REST_NS, now);
	for (uint32_t i = 0; i < PEER_LOOKS && r->n_peers == RD_PEERS; i++) {
		struct rd_peer *old = &r->peer[r->hand++ % rd_peers_ever(r)];
		if (peer_rests(old, now))
			rd_peer_drop(r, old);
	}
	return r->n_peers < RD_PEERS;
}

/*
 * Folds a peer if memory that was never in use would be used next, and a look at few peers finds one at rest. So the
 * memory of the daemon grows with the number of peers that are in use at the same time.
 */
static void fold_one(struct rd_port *r, uint64_t now)
{
	const uint32_t ever = rd_peers_ever(r);

	for (uint32_t i = 0; i < PEER_LOOKS && ever >= RD_AWAKE && rn_slist_empty(&r->free.back); i++) {
		struct rd_peer *p = &r->peer[r->hand++ % ever];
		if (p->used && !p->touched && p->bits == NULL && rd_fold_make(r, p, now))
			rd_peer_drop(r, p);
	}
}

struct rd_peer *rd_peer_take(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now)
{
	struct rd_fold *f = rd_fold_find(r, addr, number);

	if (f == NULL && !find_place(r, now)) {
		r->drops.no_peer++;
		return NULL;
	}
	fold_one(r, now);
	struct rd_peer *p = rn_pool_pop(&r->free, struct rd_peer, link);
	p->addr = *addr;
	p->number = (uint16_t)number;
	p->numbers = (uint16_t)rd_peer_numbers(r, addr);
	p->used = true;
	p->touched = false;
	memset(&p->tx, 0, sizeof(p->tx));
	memset(&p->rx, 0, sizeof(p->rx));
	memset(&p->stats, 0, sizeof(p->stats));
	if (f != NULL)
		rd_fold_open(r, f, now, p);
	r->n_peers++;
	struct rd_peer **at = chain_of(r, addr);
	p->next = *at;
	*at = p;
	return p;
}

struct rd_peer *rd_peer_get(struct rd_port *r, const struct pkt_addr *addr, uint32_t number, uint64_t now)
{
	struct rd_peer *p = rd_peer_find(r, addr, number);

	return p != NULL ? p : rd_peer_take(r, addr, number, now);
}

/* ---- windows ---- */

static uint32_t ring_len(const struct rd_peer *p) { return p->wide != NULL ? RD_RING_WIDE : RD_RING; }

void rd_peer_windows(struct rd_port *r, struct rd_peer *p)
{
	struct udpr_tx *t = &p->tx;

	if (p->wide == NULL && p->ring != NULL && t->window > RD_RING && t->end - t->una > RD_RING / 2 &&
	    (p->wide = rn_pool_pop(&r->rings_wide, struct rd_ring_wide, link)) != NULL)
		udpr_tx_ring(t, p->wide->pkt, RD_RING_WIDE);
	if (p->bits == NULL && p->rx.much && (p->bits = rn_pool_pop(&r->bits, struct rd_bits, link)) != NULL) {
		udpr_rx_widen(&p->rx, p->bits->bits);
	} else if (p->bits != NULL && !p->rx.much && udpr_rx_narrow(&p->rx) != NULL) {
		rn_pool_push_front(&r->bits, &p->bits->link);
		p->bits = NULL;
	}
}

/* ---- packets ---- */

/*
 * How many packets may wait in the flow: those that the window allows now, and few more. A packet that waits long would
 * carry an old report of what its pair has taken. A flow that waits for the peer's COOKIE sends no packet: it has one.
 */
static uint32_t backlog(const struct udpr_tx *t)
{
	if (t->state == UDPR_CLOSED || t->state == UDPR_ASKING)
		return 1;
	const uint32_t window = t->cwnd >> 16, now = window - rn_min_u32(window, t->flight.n);

	return rn_min_u32(now + rn_max_u32(window / BACKLOG_PART, BACKLOG_MIN), RD_BACKLOG);
}

uint32_t rd_flow_room(const struct rd_peer *p)
{
	const uint32_t room = udpr_tx_room(&p->tx, ring_len(p)), waits = p->tx.end - p->tx.nxt + p->tx.gone.n;
	const uint32_t most = backlog(&p->tx);

	return waits < most && room > 0 ? rn_min_u32(room - 1, most - waits) : 0;
}

bool rd_any_room(const struct rd_port *r, const struct rd_peer *p)
{
	return udpr_tx_room(&p->tx, ring_len(p)) > 0 && r->packets_free > 0 && (p->ring != NULL || r->rings_free > 0);
}

/* How many packets the peer's flow has of a tenant or of RD_NOBODY. */
static uint32_t packets_of(const struct rd_peer *p, uint8_t tenant)
{
	return p->ring != NULL ? p->ring->of[tenant] : 0;
}

/*
 * A peer has no more packets than are free in the pool, and neither has a tenant; a tenant has packets in no more rings
 * than are free. So peers that stall, and tenants that send to such peers, get the less the less is free, and others go
 * on (dynamic thresholds: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2), 1998).
 */
bool rd_packet_room(const struct rd_port *r, const struct rd_peer *p, uint8_t tenant)
{
	const struct rd_use *u = &r->use[tenant];
	const uint32_t leave = p->ring != NULL ? 0 : RESERVE;

	if (rd_flow_room(p) == 0 || r->packets_free <= rn_max_u32(RESERVE, rn_max_u32(u->packets, p->packets)))
		return false;
	return packets_of(p, tenant) > 0 || r->rings_free > rn_max_u32(leave, u->rings);
}

bool rd_answer_room(const struct rd_port *r, const struct rd_peer *p)
{
	return rd_any_room(r, p) && packets_of(p, RD_NOBODY) < RD_ANSWERS - r->use[RD_NOBODY].packets;
}

struct rd_packet *rd_packet_take(struct rd_port *r, struct rd_peer *p, uint8_t tenant)
{
	struct rd_use *u = &r->use[tenant];

	if (p->ring == NULL) {
		p->ring = rn_pool_pop(&r->rings, struct rd_ring, link);
		r->rings_free--;
		udpr_tx_ring(&p->tx, p->ring->pkt, RD_RING); /* only sets the ring: the flow has no packets to move */
	}
	r->packets_free--;
	p->packets++;
	u->packets++;
	u->rings += p->ring->of[tenant]++ == 0;
	struct rd_packet *packet = rn_pool_pop(&r->packets, struct rd_packet, link);
	packet->tenant = tenant;
	return packet;
}

void rd_packet_back(struct rd_port *r, struct rd_peer *p, struct rd_packet *packet)
{
	struct rd_use *u = &r->use[packet->tenant];

	rn_pool_push_front(&r->packets, &packet->link);
	r->packets_free++;
	u->packets--;
	u->rings -= --p->ring->of[packet->tenant] == 0;
	if (--p->packets > 0)
		return;
	rn_pool_push_front(&r->rings, &p->ring->link);
	r->rings_free++;
	p->ring = NULL;
	if (p->wide != NULL)
		rn_pool_push_front(&r->rings_wide, &p->wide->link);
	p->wide = NULL;
}
