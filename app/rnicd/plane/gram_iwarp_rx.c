/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving for datagram sockets over the wire iwarp. The sender is a peer's rnicd: no other program sends from the
 * numbers of sockets. The Q_Key is a hash of the sender's address and our port, so no table is needed to check it.
 */
#include "base/rn_sip.h"
#include "border/policy.h"
#include "dgram/dgram_msg.h"
#include "iwarp/ddp.h"
#include "plane/worker_int.h"

#define QKEYS UINT64_C(0x6772616d) /* sets these hashes apart from others with the same key */

static struct qp_stats *sock_stats(struct rnicd_worker *w) { return &w->tcp.rc.qp.stats; }

/* The Q_Key with which `from` may send to lport of this device. Another one after each start of rnicd. */
static uint32_t qkey_of(const struct rnicd_port *port, const struct pkt_addr *from, uint16_t lport)
{
	const struct udps_key name = { .dev = port->index, .port = lport };
	struct udps_key k = name;

	memcpy(k.ip, from->b, sizeof(k.ip));
	return (uint32_t)rn_sip_hash(&rnicd.secret[2], &k, sizeof(k), QKEYS);
}

/* Answers the packet's sender, within the rate limit for strangers, and never with more octets than were received. */
static void say(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt *p, const struct udps_msg *m)
{
	uint8_t buf[UDPS_LEN];

	if (p->payload_len < UDPS_LEN || !conn_answer_allowed(w, port))
		return;
	port->stats[w->index].gram_answered++;
	udps_build(buf, m);
	ud_send(w, port, &p->src, buf, sizeof(buf));
}

/* Tells the sender why a datagram was dropped. */
static void say_unasked(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt *p, const struct udpl_hdr *h,
			enum udps_status why)
{
	const struct udps_msg m = {
		.to = udps_port(h->src_qpn), .from = udps_port(h->dst_qpn), .qkey = h->qkey, .status = (uint8_t)why
	};

	say(w, port, p, &m);
}

/* The packet with the ports of its two sockets in place of the UDP ports. */
static struct pkt as_plain(const struct pkt *p, const struct udpl_hdr *h)
{
	struct pkt q = *p;

	q.sport = udps_port(h->src_qpn);
	q.dport = udps_port(h->dst_qpn);
	return q;
}

static void sock_answer(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt *p, const struct udpl_hdr *h,
			const struct udps_msg *asked)
{
	const struct pkt q = as_plain(p, h);
	struct udps_msg m = { .to = asked->from, .from = asked->to, .nonce = asked->nonce, .status = UDPS_NOBODY };

	struct gram *g = gram_find(w, port->index, &q);
	if (g != NULL) {
		m.status = UDPS_TAKES;
		m.unit = ud_unit(port);
		m.qkey = qkey_of(port, &p->src, asked->to);
		m.stag = asked->slots != 0 ? gram_lend(w, g, port->index, &q) : 0;
		m.slots = m.stag != 0 ? IPC_GRAM_SLOTS : 0;
	}
	say(w, port, p, &m);
}

static void sock_hear(struct rnicd_worker *w, const struct rnicd_port *port, const struct pkt *p,
		      const struct udps_msg *m)
{
	struct udps_key k = { .dev = port->index, .port = m->from, .from = m->to };

	memcpy(k.ip, p->src.b, sizeof(k.ip));
	if (udps_hear(w->grams.peers, &k, m, w->now)) {
		const struct pkt_refused r = { .src = p->dst, .dst = p->src, .sport = m->to, .dport = m->from };
		gram_refused(w, &r);
	}
}

static void sock_message(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p,
			 const struct udpl_hdr *h)
{
	const uint8_t *body = rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off + UDPL_HDR_LEN);
	struct udps_msg said;

	if (!udps_parse(h, body, &said))
		sock_stats(w)->ud_bad++;
	else if (h->kind == UDPL_SOCK_ASK)
		sock_answer(w, port, p, h, &said);
	else
		sock_hear(w, port, p, &said);
}

/* ---- datagrams ---- */

static void seg_counts(struct rnicd_worker *w)
{
	struct pkt_frag_counts *c = &w->grams.seg_counts;

	sock_stats(w)->ud_incomplete += c->late + c->evicted;
	sock_stats(w)->ud_bad += c->bad;
	sock_stats(w)->ud_again += c->again;
	*c = (struct pkt_frag_counts){ 0 };
}

void gram_timers(struct rnicd_worker *w)
{
	if (rn_likely(w->now < pkt_frag_due(w->grams.segs)))
		return;
	pkt_frag_expire(w->grams.segs, w->now);
	frag_free_dead(w->grams.segs);
	seg_counts(w);
}

uint64_t gram_due(const struct rnicd_worker *w) { return pkt_frag_due(w->grams.segs); }

/*
 * Whether the segment is a datagram or a part of one (RFC 5041, 4.2; RFC 5040, 4.3): a Send of one segment, or one of
 * the segments of a Send or a Write-Record. at: the segment's offset in the datagram.
 */
static bool is_datagram(const struct udpl_hdr *h, const struct ddp_hdr *d, uint32_t at)
{
	if (d->opcode != (h->kind == UDPL_RECORD ? RDMAP_WRITE : RDMAP_SEND) || (h->flags & UDPL_F_IMM) != 0)
		return false;
	if (h->kind == UDPL_SEND)
		return d->last && at == 0;
	return (h->kind == UDPL_SEGMENT || h->kind == UDPL_RECORD) && h->total <= UDPS_LONGEST &&
	       h->total <= h->unit * UDPS_SEGS_MAX && dgram_seg_fits(h->unit, h->total, at, d->payload_len) &&
	       d->last == (at + d->payload_len == h->total);
}

/* Reads the DDP header, and struct udpl_record in front of it if there is one. False: a rule is broken. */
static bool read_ddp(const uint8_t *body, const struct udpl_hdr *h, struct ddp_hdr *d, struct gram_seg *seg)
{
	const uint32_t ahead = h->kind == UDPL_RECORD ? UDPL_RECORD_LEN : 0;
	struct udpl_record r = { .id = 0 };

	if (h->body_len < ahead || ddp_parse(body + ahead, h->body_len - ahead, d) != DDP_OK)
		return false;
	if (ahead != 0)
		udpl_record_parse(body, &r);
	*seg = (struct gram_seg){
		.unit = h->unit, .total = h->total, .id = r.id, .offset = r.offset, .stag = d->stag, .to = d->to
	};
	return is_datagram(h, d, ahead != 0 ? r.offset : d->mo);
}

/*
 * Keeps a segment until its datagram is whole; takes m. Returns the datagram, its octets without headers; NULL:
 * segments are still missing, or this one broke a rule. Only the sender's rnicd could mix segments of two datagrams,
 * and it may send any octets anyway.
 */
static struct rte_mbuf *gather(struct rnicd_worker *w, struct rte_mbuf *m, const struct pkt *q, const struct ddp_hdr *d)
{
	const struct pkt_frag f = { .src = pkt_addr_to_ip4(&q->src),
				    .dst = d->msn,
				    .id = q->sport,
				    .proto = (uint8_t)m->port,
				    .hdr_len = PKT_IP4_LEN,
				    .more = !d->last,
				    .off = d->mo,
				    .len = d->payload_len };
	struct rte_mbuf *whole = NULL;

	m->data_len = (uint16_t)(q->payload_off + q->payload_len);
	rte_pktmbuf_adj(m, (uint16_t)q->payload_off);
	m->pkt_len = m->data_len;
	switch (pkt_frag_in(w->grams.segs, &f, m, w->now)) {
	case PKT_FRAG_HELD: break;
	case PKT_FRAG_DROPPED: rte_pktmbuf_free(m); break;
	case PKT_FRAG_WHOLE: whole = frag_joined(w->grams.segs); break;
	}
	frag_free_dead(w->grams.segs);
	seg_counts(w);
	return whole;
}

/* Returns the frame to be freed; NULL: the frame is kept. */
static struct rte_mbuf *sock_datagram(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m,
				      const struct pkt *p, const struct udpl_hdr *h)
{
	struct pkt q = as_plain(p, h);
	struct gram_seg seg;
	struct ddp_hdr d;

	if (q.sport == 0 ||
	    !read_ddp(rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off + UDPL_HDR_LEN), h, &d, &seg)) {
		sock_stats(w)->ud_bad++;
		return m;
	}
	if (h->qkey != qkey_of(port, &p->src, q.dport)) {
		sock_stats(w)->ud_qkey++;
		say_unasked(w, port, p, h, UDPS_STALE);
		return m;
	}
	struct gram *g = gram_find(w, port->index, &q);
	if (g == NULL) {
		sock_stats(w)->ud_no_qp++;
		say_unasked(w, port, p, h, UDPS_NOBODY);
		return m;
	}
	w->ud_wanted++;
	sock_stats(w)->ud_in++;
	q.payload_off += UDPL_HDR_LEN + d.hdr_len + (h->kind == UDPL_RECORD ? UDPL_RECORD_LEN : 0);
	q.payload_len = d.payload_len;
	if (h->kind == UDPL_RECORD) {
		seg.q = &q;
		port->stats[w->index].gram_iwarp_rx += gram_place(w, port, g, m, &seg);
		return m;
	}
	struct ipc_gram_rec rec = gram_record(port, m, &q);
	rec.wire = IPC_GRAM_IWARP;
	if (h->kind == UDPL_SEGMENT) {
		rec.len = h->total;
		m->port = port->index;
		m = gather(w, m, &q, &d);
		if (m == NULL)
			return NULL;
		q.payload_off = 0;
		if (m->pkt_len != rec.len) { /* the segments disagreed about the total length */
			sock_stats(w)->ud_bad++;
			return m;
		}
	}
	if (gram_deliver(w, port, g, m, q.payload_off, &rec))
		port->stats[w->index].gram_iwarp_rx++;
	return m;
}

void gram_iwarp_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		      const struct udpl_hdr *h)
{
	const uint32_t owner = gram_owner(udps_port(h->dst_qpn));

	if (owner != w->index) {
		worker_move(w, port, m, owner);
		return;
	}
	/* a frame to a group's MAC and a unicast IP address is for no host (RFC 1122, section 3.3.6) */
	if (!worker_csum_good(port, m, p) || (rte_pktmbuf_mtod(m, const uint8_t *)[0] & 1) != 0)
		port->stats[w->index].rx_bad_csum++;
	else if (p->ip_version != 4 || !udpl_is_sock(h->src_qpn))
		sock_stats(w)->ud_bad++;
	else if (!udpl_crc_good(rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off), p->payload_len))
		sock_stats(w)->ud_crc++;
	else if (h->kind == UDPL_SOCK_ASK || h->kind == UDPL_SOCK_ANSWER)
		sock_message(w, port, m, p, h);
	else
		m = sock_datagram(w, port, m, p, h);
	if (m != NULL)
		rte_pktmbuf_free(m);
}
