/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/arp.h"

#include <rte_malloc.h>

#include "plane/flow.h"

static const uint8_t broadcast[PKT_MAC_LEN] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
static const uint8_t nobody[PKT_MAC_LEN];

/* A frame that waits for its neighbour. Places are counted from 1, and 0 is none. */
struct parked {
	struct rte_mbuf *m;
	uint16_t next; /* of the same neighbour, or of the free places */
};

struct arp_table {
	struct rnicd_port *port;
	struct rnicd_port_stats *st;
	uint64_t next; /* not later than the earliest due of the asking entries */
	uint32_t n_asking;
	uint32_t cursor;    /* arp_timer goes on from here */
	uint32_t n_pending; /* buffers of all frames that wait */
	uint32_t used;      /* places of `parked` that have been in use */
	uint16_t unused;    /* first of those that are free again */
	struct parked parked[ARP_PENDING_ALL + ARP_ENTRIES * ARP_PENDING_MIN];
	struct arp_entry entry[ARP_ENTRIES];
};

struct arp_table *arp_create(struct rnicd_port *port, struct rnicd_port_stats *st, int socket)
{
	struct arp_table *t = rte_zmalloc_socket("arp", sizeof(*t), RN_CACHE_LINE, socket);

	if (t != NULL) {
		t->port = port;
		t->st = st;
		t->next = RN_NEVER;
	}
	return t;
}

struct rte_mbuf *arp_unpark(struct arp_table *t, struct arp_entry *e)
{
	const uint16_t at = e->first;

	if (at == 0)
		return NULL;
	struct parked *p = &t->parked[at - 1];
	struct rte_mbuf *m = p->m;
	e->first = p->next;
	e->n_pending -= m->nb_segs;
	t->n_pending -= m->nb_segs;
	p->next = t->unused;
	t->unused = at;
	memcpy(rte_pktmbuf_mtod(m, uint8_t *), e->mac, PKT_MAC_LEN);
	return m;
}

static bool has_room(const struct arp_table *t, const struct arp_entry *e, uint32_t n)
{
	return e->n_pending + n <= ARP_PENDING_MIN ||
	       (e->n_pending + n <= ARP_PENDING_MAX && t->n_pending + n <= ARP_PENDING_ALL);
}

static void park(struct arp_table *t, struct arp_entry *e, struct rte_mbuf *m)
{
	const uint16_t at = t->unused != 0 ? t->unused : (uint16_t)++t->used;
	struct parked *p = &t->parked[at - 1];

	if (at == t->unused)
		t->unused = p->next;
	*p = (struct parked){ .m = m };
	if (e->first == 0)
		e->first = at;
	else
		t->parked[e->last - 1].next = at;
	e->last = at;
	e->n_pending += m->nb_segs;
	t->n_pending += m->nb_segs;
}

static void drop_pending(struct arp_table *t, struct arp_entry *e)
{
	struct rte_mbuf *m;

	while ((m = arp_unpark(t, e)) != NULL) {
		t->st->tx_drops++;
		rte_pktmbuf_free(m);
	}
}

void arp_destroy(struct arp_table *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < ARP_ENTRIES; i++)
		drop_pending(t, &t->entry[i]);
	rte_free(t);
}

static void set_state(struct arp_table *t, struct arp_entry *e, enum arp_state to, uint64_t due)
{
	bool asking = to == ARP_S_WAIT || to == ARP_S_PROBE;

	if (asking != e->asking)
		t->n_asking += asking ? 1 : UINT32_MAX;
	e->asking = asking;
	e->state = to;
	e->due = due;
	if (asking)
		t->next = rn_min_u64(t->next, due);
}

static struct rte_mbuf *build(struct arp_table *t, uint16_t op, const uint8_t *dst_mac, const struct pkt_addr *target)
{
	struct rnicd_port *port = t->port;
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	if (m == NULL) {
		t->st->no_buffer++;
		return NULL;
	}
	struct pkt_l2 l2 = { .vlan = port->cfg->vlan };
	struct pkt_arp a = { .op = op, .sender = port->cfg->ip, .target = *target };
	memcpy(l2.dst, dst_mac, PKT_MAC_LEN);
	memcpy(l2.src, port->mac, PKT_MAC_LEN);
	memcpy(a.sender_mac, port->mac, PKT_MAC_LEN);
	memcpy(a.target_mac, op == PKT_ARP_REPLY ? dst_mac : nobody, PKT_MAC_LEN);
	uint32_t len = pkt_arp_build(rte_pktmbuf_mtod(m, uint8_t *), &l2, &a);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	t->st->arp_tx++;
	return m;
}

static void ask(struct arp_table *t, struct arp_entry *e, struct arp_todo *todo)
{
	/* the first probes of a known neighbour go to it alone (RFC 1122, section 2.3.2.1) */
	bool known = e->state == ARP_S_PROBE && e->tries < ARP_TRIES / 2;
	struct rte_mbuf *m = build(t, PKT_ARP_REQUEST, known ? e->mac : broadcast, &e->ip);

	if (m != NULL)
		todo->out[todo->n_out++] = m;
	e->tries++;
}

static struct arp_entry *bucket_of(struct arp_table *t, const struct pkt_addr *ip)
{
	uint64_t lo, hi;
	memcpy(&hi, ip->b, sizeof(hi));
	memcpy(&lo, ip->b + 8, sizeof(lo));
	return &t->entry[flow_mix(flow_mix(hi ^ rnicd.secret[0]) + lo) % (ARP_ENTRIES / ARP_WAYS) * ARP_WAYS];
}

static struct arp_entry *find(struct arp_table *t, const struct pkt_addr *ip)
{
	struct arp_entry *b = bucket_of(t, ip);

	for (uint32_t i = 0; i < ARP_WAYS; i++) {
		if (b[i].state != ARP_S_FREE && pkt_addr_eq(&b[i].ip, ip))
			return &b[i];
	}
	return NULL;
}

/*
 * Chooses a free entry; else, of the entries that no connection holds and no program waits for, the least recently used
 * one. asked: this host wants to reach the address. Then an entry without an answer makes room, even if a program waits
 * for it, when such entries are half of the places: programs that ask for absent hosts leave room for present ones.
 */
static struct arp_entry *choose(struct arp_entry *b, bool asked)
{
	struct arp_entry *best = NULL, *mute = NULL;
	uint32_t n_mute = 0;

	for (uint32_t i = 0; i < ARP_WAYS; i++) {
		if (b[i].users != 0)
			continue;
		if (b[i].state == ARP_S_FREE)
			return &b[i];
		if (!b[i].notify && (best == NULL || b[i].last_use < best->last_use))
			best = &b[i];
		if (arp_usable(&b[i]))
			continue;
		n_mute++;
		if (mute == NULL || b[i].last_use < mute->last_use)
			mute = &b[i];
	}
	return asked && (best == NULL || n_mute >= ARP_WAYS / 2) ? mute : best;
}

/* todo: who waits for the entry that makes room is told. NULL: no such entry is taken. */
static struct arp_entry *arp_take(struct arp_table *t, const struct pkt_addr *ip, uint64_t now, struct arp_todo *todo)
{
	struct arp_entry *best = choose(bucket_of(t, ip), todo != NULL);

	if (best == NULL)
		return NULL;
	if (best->notify) {
		todo->evicted = best->ip;
		todo->evicts = true;
	}
	drop_pending(t, best);
	uint32_t gen = best->gen;
	if (best->asking)
		t->n_asking--;
	*best = (struct arp_entry){ .ip = *ip, .gen = gen + 1, .last_use = now };
	return best;
}

struct arp_entry *arp_get(struct arp_table *t, const struct pkt_addr *ip, uint64_t now, struct arp_todo *todo)
{
	struct arp_entry *e = find(t, ip);

	if (e == NULL) {
		e = arp_take(t, ip, now, todo);
		if (e == NULL)
			return NULL;
	}
	e->last_use = now;
	switch (e->state) {
	case ARP_S_FREE:
	case ARP_S_FAILED:
		if (e->state == ARP_S_FAILED && now < e->due)
			break;
		e->tries = 0;
		set_state(t, e, ARP_S_WAIT, now + ARP_RETRY_NS);
		ask(t, e, todo);
		break;
	case ARP_S_READY:
		if (now < e->due)
			break;
		e->tries = 0;
		set_state(t, e, ARP_S_PROBE, now + ARP_RETRY_NS);
		ask(t, e, todo);
		break;
	case ARP_S_WAIT:
	case ARP_S_PROBE: break;
	}
	return e;
}

void arp_retry(struct arp_entry *e)
{
	if (e->state == ARP_S_FAILED)
		e->due = 0;
}

bool arp_park(struct arp_table *t, struct arp_entry *e, struct rte_mbuf *m)
{
	if (arp_usable(e)) {
		memcpy(rte_pktmbuf_mtod(m, uint8_t *), e->mac, PKT_MAC_LEN);
		return false;
	}
	if (e->state == ARP_S_WAIT && has_room(t, e, m->nb_segs)) {
		park(t, e, m);
		return true;
	}
	t->st->tx_drops++;
	rte_pktmbuf_free(m);
	return true;
}

static void heard(struct arp_table *t, struct arp_entry *e, const uint8_t *mac, uint64_t now, struct arp_todo *todo)
{
	if (!arp_usable(e) || memcmp(e->mac, mac, PKT_MAC_LEN) != 0) {
		memcpy(e->mac, mac, PKT_MAC_LEN);
		e->gen++;
	}
	set_state(t, e, ARP_S_READY, now + ARP_FRESH_NS);
	todo->ready = e;
	if (e->notify)
		todo->told = e;
}

void arp_input(struct arp_table *t, const struct rte_mbuf *m, const struct pkt *p, bool reply, uint64_t now,
	       struct arp_todo *todo)
{
	const struct rnicd_port_cfg *cfg = t->port->cfg;
	struct pkt_arp a;

	t->st->arp_rx++;
	if (pkt_arp_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, p, &a) != PKT_OK ||
	    (a.op != PKT_ARP_REQUEST && a.op != PKT_ARP_REPLY))
		return;
	/* a multicast address as sender, or this port's own address from another host, is not learnt */
	bool sound = (a.sender_mac[0] & 1) == 0 && memcmp(a.sender_mac, nobody, PKT_MAC_LEN) != 0 &&
		     !pkt_addr_eq(&a.sender, &cfg->ip) && pkt_addr_same_net(&a.sender, &cfg->ip, cfg->prefix_len);
	bool for_us = pkt_addr_eq(&a.target, &cfg->ip);
	if (sound) {
		/* RFC 826: update what is known; make an entry only when we are the target */
		struct arp_entry *e = find(t, &a.sender);
		if (e == NULL && for_us)
			e = arp_take(t, &a.sender, now, NULL);
		if (e != NULL)
			heard(t, e, a.sender_mac, now, todo);
	}
	if (reply && for_us && a.op == PKT_ARP_REQUEST && (a.sender_mac[0] & 1) == 0) {
		struct rte_mbuf *out = build(t, PKT_ARP_REPLY, a.sender_mac, &a.sender);
		if (out != NULL)
			todo->out[todo->n_out++] = out;
	}
}

bool arp_timer(struct arp_table *t, uint64_t now, struct arp_todo *todo)
{
	if (t->n_asking == 0 || now < t->next) {
		t->cursor = 0;
		return false;
	}
	for (; t->cursor < ARP_ENTRIES; t->cursor++) {
		struct arp_entry *e = &t->entry[t->cursor];
		if (!e->asking || now < e->due)
			continue;
		if (e->tries < ARP_TRIES) {
			e->due = now + (ARP_RETRY_NS << e->tries);
			ask(t, e, todo);
		} else {
			t->st->arp_failed++;
			set_state(t, e, ARP_S_FAILED, now + ARP_FAILED_NS);
			drop_pending(t, e);
			if (e->notify)
				todo->told = e;
		}
		return true;
	}
	t->cursor = 0;
	t->next = RN_NEVER;
	for (uint32_t i = 0; i < ARP_ENTRIES; i++) {
		if (t->entry[i].asking)
			t->next = rn_min_u64(t->next, t->entry[i].due);
	}
	return false;
}

uint64_t arp_next(const struct arp_table *t) { return t->n_asking == 0 ? RN_NEVER : t->next; }

struct rte_mbuf *arp_gratuitous(struct arp_table *t) { return build(t, PKT_ARP_REQUEST, broadcast, &t->port->cfg->ip); }
