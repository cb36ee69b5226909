/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long datagrams of the wire iwarp as Write-Records: each segment is placed in a slot of the socket's memory as it
 * comes, and the ring's record that names the slot follows when all segments are there. One sender has the slots at a
 * time, and takes them in turn: a newer record in a slot ends an older one that is not whole.
 */
#include <string.h>

#include "base/rn_seq.h"
#include "base/rn_sip.h"
#include "border/grams.h"
#include "qp/qp.h"

#define STAGS   UINT64_C(0x736c6f74) /* sets these hashes apart from others with the same key */
#define LENT_NS (2 * UDPS_LENT_NS)

_Static_assert(UDPS_LONGEST <= IPC_GRAM_SLOT, "a slot takes every datagram");
_Static_assert(UDPS_SEGS_MAX <= 8 * sizeof(((struct gram_slot *)0)->map), "a bit for each segment");

static uint32_t stag_of(uint32_t dev, const struct pkt *q)
{
	struct udps_key k = { .dev = dev, .port = q->dport, .from = q->sport };

	memcpy(k.ip, q->src.b, sizeof(k.ip));
	return (uint32_t)rn_sip_hash(&rnicd.secret[2], &k, sizeof(k), STAGS) | 1;
}

static bool has_slots(const struct grams *c, const struct gram *g, const struct pkt *q)
{
	return *c->now < g->lent_until && g->lent.port == q->sport && pkt_addr_eq(&g->lent.ip, &q->src);
}

static void slot_drop(struct grams *c, struct gram_slot *s)
{
	c->stats->ud_incomplete += s->open;
	s->open = false;
}

uint32_t gram_lend(struct grams *c, struct gram *g, uint32_t dev, const struct pkt *q)
{
	const bool same = has_slots(c, g, q);

	if (!same && *c->now < g->lent_until)
		return 0;
	/* a restarted sender numbers its records from another number on */
	for (uint32_t i = 0; i < IPC_GRAM_SLOTS; i++) {
		struct gram_slot *s = &g->slot[i];
		if (!same || *c->now - s->at >= UDPS_FRESH_NS)
			slot_drop(c, s);
		s->known = s->open;
	}
	g->lent = (struct gram_peer){ .ip = q->src, .port = q->sport };
	g->lent_until = *c->now + LENT_NS;
	return stag_of(dev, q);
}

static uint32_t bit_of(const struct gram *g, const struct gram_slot *s) { return UINT32_C(1) << (s - g->slot); }

void gram_slots_read(struct gram *g)
{
	for (uint32_t i = 0; i < IPC_GRAM_SLOTS; i++)
		if (rn_seq_ge(g->rx_head, g->slot[i].end))
			g->unread &= ~bit_of(g, &g->slot[i]);
}

/* Whether the slot's bytes are still the program's to read. */
static bool is_unread(struct grams *c, struct gram *g, const struct gram_slot *s)
{
	if ((g->unread & bit_of(g, s)) != 0)
		(void)gram_read(c, g);
	return (g->unread & bit_of(g, s)) != 0 || g->broken;
}

/* Begins the record in the slot, and drops an older, incomplete one. False: the slot is not free. */
static bool slot_begin(struct grams *c, struct gram *g, struct gram_slot *s, const struct gram_seg *seg)
{
	if (is_unread(c, g, s))
		return false;
	slot_drop(c, s);
	*s = (struct gram_slot){
		.known = true, .open = true, .id = seg->id, .unit = seg->unit, .total = seg->total, .at = *c->now
	};
	return true;
}

/* The datagram is whole: puts its record into the ring, if there is room. */
static void slot_deliver(struct grams *c, struct gram *g, uint32_t dev, struct gram_slot *s, struct ipc_gram_rec rec)
{
	s->open = false;
	rec.len = s->total;
	rec.slot = (uint8_t)(s - g->slot + 1);
	if (!gram_put_slot(c, g, dev, &rec))
		return;
	g->unread |= bit_of(g, s);
	s->end = g->rx_tail;
	rnicd.port[dev]->stats[c->worker].gram_slots_rx++;
}

/* The slot that the segment is for, with its record begun. NULL: it is dropped and counted. */
static struct gram_slot *slot_for(struct grams *c, struct gram *g, uint32_t dev, const struct gram_seg *seg)
{
	const uint64_t i = seg->to / IPC_GRAM_SLOT;
	struct qp_stats *st = c->stats;

	if (seg->stag != stag_of(dev, seg->q) || !has_slots(c, g, seg->q) || i >= IPC_GRAM_SLOTS ||
	    seg->to != i * IPC_GRAM_SLOT + seg->offset) {
		st->ud_refused++;
		return NULL;
	}
	struct gram_slot *s = &g->slot[i];
	if (s->known && (rn_seq_lt(seg->id, s->id) || (seg->id == s->id && !s->open))) {
		st->ud_again++;
		return NULL;
	}
	if ((!s->known || seg->id != s->id) && !slot_begin(c, g, s, seg)) {
		/* the program reads too slowly: counted once for each record */
		rnicd.port[dev]->stats[c->worker].gram_full += seg->offset == 0;
		return NULL;
	}
	if (s->unit == seg->unit && s->total == seg->total)
		return s;
	st->ud_bad++;
	return NULL;
}

void gram_place(struct grams *c, struct gram *g, uint32_t dev, const struct ipc_gram_rec *rec,
		const struct gram_seg *seg)
{
	const uint32_t bit = seg->offset / seg->unit, len = seg->q->payload_len;
	struct gram_slot *s = slot_for(c, g, dev, seg);

	if (s == NULL)
		return;
	if ((s->map[bit / 64] >> bit % 64 & 1) != 0) {
		c->stats->ud_again++;
		return;
	}
	memcpy((uint8_t *)g->mem + IPC_GRAM_SLOT_OFF + seg->to, seg->bytes, len);
	s->map[bit / 64] |= UINT64_C(1) << bit % 64;
	s->valid += len;
	if (s->valid == s->total)
		slot_deliver(c, g, dev, s, *rec);
}
