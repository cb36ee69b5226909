/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/resegment.h"

#include "plane/frame.h"

/* Bytes in a header: RFC 791, 8200, 9293. */
#define IP4_LEN_AT   2u
#define IP4_SUM_AT   10u
#define IP4_ADDRS_AT 12u
#define IP6_LEN_AT   4u
#define IP6_ADDRS_AT 8u
#define TCP_SEQ_AT   4u
#define TCP_FLAGS_AT 13u
#define TCP_SUM_AT   16u

/* The frames that are sent because of one frame. */
struct leaving {
	struct rte_mbuf **out;
	uint32_t n;
};

/* A segment's payload, or a part of it. */
struct part {
	const struct rte_mbuf *m;
	struct pkt p;
	uint32_t off, len; /* of the payload */
};

void resegment_init(struct resegment *r, enum rnicd_resegment how, uint64_t seed, struct rte_mempool *copies)
{
	*r = (struct resegment){ .how = how, .copies = copies };
	rn_rng_seed(&r->rng, seed);
}

void resegment_end(struct resegment *r)
{
	if (r->held != NULL)
		rte_pktmbuf_free(r->held);
	r->held = NULL;
}

/* ---- one frame ---- */

/* A whole segment in one buffer. False: it is to pass as it is. */
static bool part_of(const struct rte_mbuf *m, struct part *s)
{
	s->m = m;
	s->off = 0;
	if (pkt_parse(rte_pktmbuf_mtod(m, const uint8_t *), m->data_len, m->pkt_len, &s->p) != PKT_OK)
		return false;
	s->len = s->p.payload_len;
	return s->p.kind == PKT_KIND_TCP && s->len > 0 && (s->p.tcp_flags & ~(PKT_TCP_ACK | PKT_TCP_PSH)) == 0;
}

static uint16_t ip4_sum(const uint8_t *ip, uint32_t len) { return (uint16_t)~pkt_sum_fold(pkt_sum(ip, len)); }

/* Lengths and checksums of a frame with an l4 part of this many bytes. */
static void set_lengths(uint8_t *frame, const struct pkt *p, uint32_t l4_len)
{
	uint8_t *ip = frame + p->l3_off, *tcp = frame + p->l4_off;
	uint32_t ip_len = p->l4_off - p->l3_off;
	const uint8_t pseudo[4] = { 0, PKT_PROTO_TCP, (uint8_t)(l4_len >> 8), (uint8_t)l4_len };
	uint64_t sum = pkt_sum(pseudo, sizeof(pseudo));

	if (p->ip_version == 4) {
		rn_store_be16(ip + IP4_LEN_AT, (uint16_t)(ip_len + l4_len));
		memset(ip + IP4_SUM_AT, 0, 2);
		uint16_t s = ip4_sum(ip, ip_len);
		memcpy(ip + IP4_SUM_AT, &s, sizeof(s));
		sum = pkt_sum_add(sum, pkt_sum(ip + IP4_ADDRS_AT, 8));
	} else {
		rn_store_be16(ip + IP6_LEN_AT, (uint16_t)(ip_len - PKT_IP6_LEN + l4_len));
		sum = pkt_sum_add(sum, pkt_sum(ip + IP6_ADDRS_AT, 32));
	}
	memset(tcp + TCP_SUM_AT, 0, 2);
	sum = pkt_sum_add(sum, pkt_sum(tcp, l4_len));
	uint16_t s = (uint16_t)~pkt_sum_fold(sum);
	memcpy(tcp + TCP_SUM_AT, &s, sizeof(s));
}

/*
 * Makes a segment of two parts, b behind a, with a's sequence number and otherwise b's header, whose ACK is newer. b
 * may be empty. NULL: no buffer.
 */
static struct rte_mbuf *segment_of(struct resegment *r, const struct part *a, const struct part *b,
				   struct rnicd_port_stats *st)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(r->copies);
	uint32_t hdr = b->p.payload_off, len = hdr + a->len + b->len;

	if (m == NULL || len > rte_pktmbuf_tailroom(m)) {
		st->no_buffer++;
		rte_pktmbuf_free(m);
		return NULL;
	}
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	const uint8_t *from_a = rte_pktmbuf_mtod_offset(a->m, const uint8_t *, a->p.payload_off + a->off);
	const uint8_t *from_b = rte_pktmbuf_mtod_offset(b->m, const uint8_t *, b->p.payload_off + b->off);
	memcpy(frame, rte_pktmbuf_mtod(b->m, const uint8_t *), hdr);
	memcpy(frame + hdr, from_a, a->len);
	memcpy(frame + hdr + a->len, from_b, b->len);
	rn_store_be32(frame + b->p.l4_off + TCP_SEQ_AT, a->p.tcp_seq + a->off);
	if (b->off + b->len != b->p.payload_len)
		frame[b->p.l4_off + TCP_FLAGS_AT] &= (uint8_t)~PKT_TCP_PSH; /* b's last byte comes later */
	set_lengths(frame, &b->p, len - b->p.l4_off);
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	return m;
}

static struct rte_mbuf *segment_of_one(struct resegment *r, const struct part *s, struct rnicd_port_stats *st)
{
	struct part none = *s;

	none.off += none.len;
	none.len = 0;
	return segment_of(r, s, &none, st);
}

/* ---- the stream ---- */

static void segment_leaves(struct leaving *l, struct rte_mbuf *m)
{
	if (m != NULL)
		l->out[l->n++] = m;
}

static void segment_held_leaves(struct resegment *r, struct leaving *l)
{
	segment_leaves(l, r->held);
	r->held = NULL;
}

static void hold(struct resegment *r, struct rte_mbuf *m, uint64_t now, struct leaving *l)
{
	r->held = m;
	r->deadline = now + RESEGMENT_HOLD_NS;
	if (m != NULL && m->pkt_len >= r->longest)
		segment_held_leaves(r, l);
}

/* b goes on where a ends, in the same connection and with the same options. */
static bool goes_on(const struct part *a, const struct part *b)
{
	const struct pkt *p = &a->p, *q = &b->p;

	return p->sport == q->sport && p->dport == q->dport && pkt_addr_eq(&p->src, &q->src) &&
	       pkt_addr_eq(&p->dst, &q->dst) && p->vlan == q->vlan && p->ip_tos == q->ip_tos &&
	       p->payload_off == q->payload_off && p->tcp_opt_len == q->tcp_opt_len &&
	       memcmp(p->tcp_opt, q->tcp_opt, p->tcp_opt_len) == 0 &&
	       p->tcp_seq + a->off + a->len == q->tcp_seq + b->off;
}

/* Joins the part to the held segment, as far as it fits; the rest is held. */
static void join(struct resegment *r, struct part s, uint64_t now, struct leaving *l, struct rnicd_port_stats *st)
{
	struct rte_mbuf *had = r->held;
	struct part first;

	if (had == NULL || !part_of(had, &first) || !goes_on(&first, &s) || had->pkt_len >= r->longest) {
		segment_held_leaves(r, l);
		hold(r, segment_of_one(r, &s, st), now, l);
		return;
	}
	struct part fits = s;
	fits.len = rn_min_u32(s.len, r->longest - had->pkt_len);
	r->held = segment_of(r, &first, &fits, st);
	rte_pktmbuf_free(had);
	st->impair_joined++;
	s.off += fits.len;
	s.len -= fits.len;
	if (s.len > 0 || (r->held != NULL && r->held->pkt_len >= r->longest))
		segment_held_leaves(r, l);
	if (s.len > 0)
		hold(r, segment_of_one(r, &s, st), now, l);
}

/* Cuts s at a random place, which is not its end: s becomes what lies before it. */
static struct part cut(struct resegment *r, struct part *s, struct rnicd_port_stats *st)
{
	struct part rest = *s;
	uint32_t n = 1 + (uint32_t)((uint64_t)rn_rng_u32(&r->rng) * (s->len - 1) >> 32);

	rest.off += n;
	rest.len -= n;
	s->len = n;
	st->impair_split++;
	return rest;
}

static void resegment_one(struct resegment *r, struct part s, uint64_t now, struct leaving *l,
			  struct rnicd_port_stats *st)
{
	bool cuts = s.len > 1 && (r->how == RNICD_RESEGMENT_SPLIT ||
				  (r->how == RNICD_RESEGMENT_RANDOM && rn_rng_u32(&r->rng) < UINT32_MAX / 2));
	struct part rest = s;

	if (cuts)
		rest = cut(r, &s, st);
	if (r->how == RNICD_RESEGMENT_SPLIT) {
		segment_leaves(l, segment_of_one(r, &s, st));
		if (cuts)
			segment_leaves(l, segment_of_one(r, &rest, st));
		return;
	}
	join(r, s, now, l, st);
	if (cuts) {
		segment_held_leaves(r, l);
		join(r, rest, now, l, st);
	}
}

uint32_t resegment_in(struct resegment *r, struct rte_mbuf *m, uint64_t now, struct rte_mbuf *out[RESEGMENT_OUT],
		      struct rnicd_port_stats *st)
{
	struct leaving l = { .out = out };
	struct rte_mbuf *whole = frame_copy(r->copies, m);
	struct part s;

	r->longest = rn_max_u32(r->longest, m->pkt_len);
	if (whole != NULL)
		frame_finish(whole);
	else
		st->no_buffer++; /* no buffer: the frame passes unchanged */
	if (whole != NULL && part_of(whole, &s)) {
		resegment_one(r, s, now, &l, st);
		rte_pktmbuf_free(m);
	} else {
		segment_held_leaves(r, &l);
		segment_leaves(&l, m);
	}
	rte_pktmbuf_free(whole);
	return l.n;
}

struct rte_mbuf *resegment_due(struct resegment *r, uint64_t now)
{
	struct rte_mbuf *m = r->held;

	if (m == NULL || now < r->deadline)
		return NULL;
	r->held = NULL;
	return m;
}
