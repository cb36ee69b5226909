/* SPDX-License-Identifier: BSD-3-Clause */
#include "pkt/pkt_frag.h"

#include "base/rn_sip.h"
#include "pkt/pkt_wire.h"

#define NONE    UINT16_MAX
#define OCTETS  65535u /* octets of a datagram at most, header included */
#define MF      0x2000u
#define OFFSET  0x1fffu
#define ECN     3u
#define ECN_NOT 0u
#define ECN_CE  3u

/* ---- pieces ---- */

static struct pkt_frag_piece *piece(struct pkt_frag_table *t, uint16_t i) { return &t->piece[i]; }

/* Takes the first piece off a chain and frees its place. Returns the piece's reference. */
static void *chain_pop(struct pkt_frag_table *t, uint16_t *chain)
{
	uint16_t i = *chain;

	if (i == NONE)
		return NULL;
	*chain = piece(t, i)->next;
	piece(t, i)->next = t->free_piece;
	t->free_piece = i;
	return piece(t, i)->ref;
}

void *pkt_frag_whole(struct pkt_frag_table *t) { return chain_pop(t, &t->whole); }

void *pkt_frag_dead(struct pkt_frag_table *t) { return chain_pop(t, &t->dead); }

/* Moves all pieces of the datagram to the front of a chain, in their order. */
static void release(struct pkt_frag_table *t, struct pkt_frag_gram *g, uint16_t *chain)
{
	if (g->n == 0)
		return;
	piece(t, g->last)->next = *chain;
	*chain = g->first;
	t->source_pieces[g->source] = (uint16_t)(t->source_pieces[g->source] - g->n);
	t->pieces -= g->n;
	g->first = g->last = NONE;
	g->n = 0;
	g->have = 0;
}

/* ---- datagrams ---- */

static bool same(const struct pkt_frag_gram *g, const struct pkt_frag *f)
{
	return g->src == f->src && g->dst == f->dst && g->id == f->id && g->proto == f->proto;
}

static struct pkt_frag_gram *find(struct pkt_frag_table *t, const struct pkt_frag *f, uint8_t bucket)
{
	for (uint16_t i = t->head[bucket]; i != NONE; i = t->gram[i].chain)
		if (same(&t->gram[i], f))
			return &t->gram[i];
	return NULL;
}

static void forget(struct pkt_frag_table *t, struct pkt_frag_gram *g)
{
	uint16_t *at = &t->head[g->bucket], self = (uint16_t)(g - t->gram);

	release(t, g, &t->dead);
	while (*at != self)
		at = &t->gram[*at].chain;
	*at = g->chain;
	t->source_grams[g->source]--;
	rn_list_remove(&t->open, &g->age);
	rn_list_push_front(&t->free, &g->age);
}

static void spoil(struct pkt_frag_table *t, struct pkt_frag_gram *g)
{
	t->counts->bad += g->n;
	release(t, g, &t->dead);
	g->spoilt = true;
}

/* Gives up the oldest datagram of a source, to make room. PKT_FRAG_SOURCES: the oldest of all. */
static void evict(struct pkt_frag_table *t, uint32_t source)
{
	rn_list_each(struct pkt_frag_gram, g, &t->open, age) {
		if (source != PKT_FRAG_SOURCES && g->source != source)
			continue;
		t->counts->evicted += !g->spoilt;
		forget(t, g);
		return;
	}
}

static struct pkt_frag_gram *begin(struct pkt_frag_table *t, const struct pkt_frag *f, uint8_t bucket, uint64_t now)
{
	const uint16_t source = (uint16_t)(rn_sip_hash(t->key, &f->src, sizeof(f->src), 0) % PKT_FRAG_SOURCES);

	if (t->source_grams[source] >= PKT_FRAG_GRAMS / 2)
		evict(t, source);
	else if (rn_list_empty(&t->free))
		evict(t, PKT_FRAG_SOURCES);
	struct pkt_frag_gram *g = rn_list_pop(&t->free, struct pkt_frag_gram, age);
	*g = (struct pkt_frag_gram){ .src = f->src,
				     .dst = f->dst,
				     .id = f->id,
				     .proto = f->proto,
				     .source = source,
				     .bucket = bucket,
				     .chain = t->head[bucket],
				     .first = NONE,
				     .last = NONE,
				     .at = now };
	t->head[bucket] = (uint16_t)(g - t->gram);
	t->source_grams[source]++;
	g->begun = ++t->source_begun[source];
	rn_list_push_back(&t->open, &g->age);
	return g;
}

/* The datagram that the fragment belongs to, which begins with it if none has its name. */
static struct pkt_frag_gram *gram_of(struct pkt_frag_table *t, const struct pkt_frag *f, uint8_t bucket, uint64_t now)
{
	struct pkt_frag_gram *g = find(t, f, bucket);

	if (g != NULL && rn_unlikely(t->far != 0 && t->source_begun[g->source] - g->begun >= t->far)) {
		t->counts->late += !g->spoilt;
		forget(t, g); /* another datagram had this identification */
		g = NULL;
	}
	return g != NULL ? g : begin(t, f, bucket, now);
}

/* ---- fragments ---- */

/* The rules that concern a fragment alone. */
static bool is_sound(const struct pkt_frag *f)
{
	if (f->len == 0 || f->off % 8 != 0 || f->hdr_len + f->off + f->len > OCTETS)
		return false;
	if (f->off == 0 && f->more && f->len < ((PKT_IP4_MTU_MIN - f->hdr_len) & ~7u))
		return false;
	return !f->more || f->len % 8 == 0;
}

/*
 * *behind: the piece that the fragment follows; NONE: it is the first. False: it overlaps a piece, or (*again) repeats
 * one.
 */
static bool place_of(struct pkt_frag_table *t, const struct pkt_frag_gram *g, const struct pkt_frag *f,
		     uint16_t *behind, bool *again)
{
	uint16_t at = g->first;

	*behind = NONE;
	*again = false;
	/* most fragments come in order */
	if (g->n != 0 && f->off >= (uint32_t)piece(t, g->last)->off + piece(t, g->last)->len) {
		*behind = g->last;
		return true;
	}
	while (at != NONE && piece(t, at)->off + (uint32_t)piece(t, at)->len <= f->off) {
		*behind = at;
		at = piece(t, at)->next;
	}
	if (at == NONE || f->off + f->len <= piece(t, at)->off)
		return true;
	*again = piece(t, at)->off == f->off && piece(t, at)->len == f->len && f->more == (g->total != f->off + f->len);
	return false;
}

/* Whether the end that a fragment tells or implies is the datagram's. */
static bool ends_agree(const struct pkt_frag_table *t, const struct pkt_frag_gram *g, const struct pkt_frag *f)
{
	const uint32_t end = f->off + f->len;

	if (g->total != 0)
		return f->more ? end < g->total : end == g->total;
	if (f->more || g->n == 0)
		return true;
	return (uint32_t)t->piece[g->last].off + t->piece[g->last].len <= f->off;
}

static void put(struct pkt_frag_table *t, struct pkt_frag_gram *g, const struct pkt_frag *f, void *ref, uint16_t behind)
{
	uint16_t i = t->free_piece;

	t->free_piece = piece(t, i)->next;
	t->pieces++;
	*piece(t, i) = (struct pkt_frag_piece){ .ref = ref, .off = (uint16_t)f->off, .len = (uint16_t)f->len };
	piece(t, i)->next = behind == NONE ? g->first : piece(t, behind)->next;
	*(behind == NONE ? &g->first : &piece(t, behind)->next) = i;
	if (g->last == behind)
		g->last = i;
	t->source_pieces[g->source]++;
	g->n++;
	g->have += f->len;
	g->ecn = (uint8_t)(g->ecn | 1u << f->ecn);
	if (f->off == 0)
		g->hdr_len = f->hdr_len;
	if (!f->more)
		g->total = f->off + f->len;
}

/* RFC 3168, section 5.3: fragments with Not-ECT and with CE are never of one packet. */
static bool marks_agree(const struct pkt_frag_gram *g)
{
	return (g->ecn & 1u << ECN_CE) == 0 || (g->ecn & 1u << ECN_NOT) == 0;
}

static enum pkt_frag_verdict finish(struct pkt_frag_table *t, struct pkt_frag_gram *g)
{
	if (g->have != g->total)
		return PKT_FRAG_HELD;
	if (g->hdr_len + g->total > OCTETS || !marks_agree(g)) {
		spoil(t, g);
		return PKT_FRAG_HELD; /* the table has taken the reference; it is in `dead` now */
	}
	t->whole_len = g->total;
	t->whole_ecn = g->ecn;
	release(t, g, &t->whole);
	forget(t, g);
	t->counts->whole++;
	return PKT_FRAG_WHOLE;
}

/*
 * Makes room for one more piece of `keep`, which itself has less than half of the table (PKT_FRAG_EACH): another
 * datagram can go.
 */
static void make_room(struct pkt_frag_table *t, const struct pkt_frag_gram *keep)
{
	const bool own = t->source_pieces[keep->source] >= t->pieces_max / 2;

	if (rn_likely(!own && t->pieces < t->pieces_max))
		return;
	rn_list_each(struct pkt_frag_gram, g, &t->open, age) {
		if (g == keep || g->n == 0 || (own && g->source != keep->source))
			continue;
		t->counts->evicted++;
		forget(t, g);
		return;
	}
}

enum pkt_frag_verdict pkt_frag_in(struct pkt_frag_table *t, const struct pkt_frag *f, void *ref, uint64_t now)
{
	const uint32_t name[4] = { f->src, f->dst, f->id, f->proto };
	const uint8_t bucket = (uint8_t)(rn_sip_hash(t->key, name, sizeof(name), 0) % PKT_FRAG_HASH);
	uint16_t behind;
	bool again;

	t->counts->taken++;
	pkt_frag_expire(t, now);
	if (!is_sound(f)) {
		t->counts->bad++;
		return PKT_FRAG_DROPPED;
	}
	struct pkt_frag_gram *g = gram_of(t, f, bucket, now);
	if (g->spoilt) {
		t->counts->bad++;
		return PKT_FRAG_DROPPED;
	}
	bool fits = place_of(t, g, f, &behind, &again);
	if (again) {
		t->counts->again++;
		return PKT_FRAG_DROPPED;
	}
	if (!fits || !ends_agree(t, g, f) || g->n == PKT_FRAG_EACH) {
		spoil(t, g);
		t->counts->bad++;
		return PKT_FRAG_DROPPED;
	}
	make_room(t, g);
	if (rn_unlikely(t->free_piece == NONE)) {
		t->counts->evicted++; /* the caller has not fetched the dead references */
		return PKT_FRAG_DROPPED;
	}
	put(t, g, f, ref, behind);
	return finish(t, g);
}

uint64_t pkt_frag_expire(struct pkt_frag_table *t, uint64_t now)
{
	struct pkt_frag_gram *g;

	while ((g = rn_list_first(&t->open, struct pkt_frag_gram, age)) != NULL && now >= g->at + PKT_FRAG_NS) {
		t->counts->late += !g->spoilt;
		forget(t, g);
	}
	return pkt_frag_due(t);
}

void pkt_frag_clear(struct pkt_frag_table *t)
{
	rn_list_each(struct pkt_frag_gram, g, &t->open, age)
		forget(t, g);
}

void pkt_frag_init(struct pkt_frag_table *t, uint32_t pieces, uint32_t far, const uint64_t key[2],
		   struct pkt_frag_counts *counts)
{
	memset(t, 0, sizeof(*t));
	t->counts = counts;
	t->far = far;
	t->key[0] = key[0];
	t->key[1] = key[1];
	t->pieces_max = rn_max_u32(rn_min_u32(pieces, PKT_FRAG_PIECES), PKT_FRAG_PIECES_MIN);
	t->free_piece = t->dead = t->whole = NONE;
	for (uint32_t i = 0; i < PKT_FRAG_HASH; i++)
		t->head[i] = NONE;
	for (uint32_t i = 0; i < PKT_FRAG_GRAMS; i++)
		rn_list_push_back(&t->free, &t->gram[i].age);
	for (uint32_t i = t->pieces_max + 1; i-- > 0;) {
		t->piece[i].next = t->free_piece;
		t->free_piece = (uint16_t)i;
	}
}

/* ---- headers ---- */

bool pkt_frag_read(const uint8_t *frame, const struct pkt *p, struct pkt_frag *f)
{
	const struct pkt_ip4_wire *ip = (const void *)(frame + p->l3_off);

	if (p->ip_version != 4)
		return false;
	const uint16_t field = rn_be16_get(ip->frag);
	*f = (struct pkt_frag){ .src = pkt_addr_to_ip4(&p->src),
				.dst = pkt_addr_to_ip4(&p->dst),
				.id = rn_be16_get(ip->id),
				.proto = p->ip_proto,
				.ecn = p->ip_tos & ECN,
				.hdr_len = (uint8_t)(p->l4_off - p->l3_off),
				.more = (field & MF) != 0,
				.off = (field & OFFSET) * 8u,
				.len = p->l4_len };
	return true;
}

static void frag_sum(struct pkt_ip4_wire *ip)
{
	memset(ip->csum, 0, sizeof(ip->csum));
	pkt_csum_store(ip->csum, pkt_sum(ip, (ip->ver_ihl & 0x0fu) * 4u));
}

void pkt_frag_join(const struct pkt_frag_table *t, uint8_t *at)
{
	struct pkt_ip4_wire *ip = (void *)at;

	ip->total_len = rn_be16_of((uint16_t)((ip->ver_ihl & 0x0fu) * 4u + t->whole_len));
	ip->frag = rn_be16_of(0);
	if (t->whole_ecn & 1u << ECN_CE)
		ip->tos |= ECN_CE;
	frag_sum(ip);
}

void pkt_frag_cut(uint8_t *at, uint16_t id, uint32_t off, uint32_t len, bool more)
{
	struct pkt_ip4_wire *ip = (void *)at;

	ip->total_len = rn_be16_of((uint16_t)(PKT_IP4_LEN + len));
	ip->id = rn_be16_of(id);
	ip->frag = rn_be16_of((uint16_t)(off / 8 | (more ? MF : 0)));
	frag_sum(ip);
}
