/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receiving for datagram sockets over the wire iwarp. The sender is a peer's rnicd: no other program sends from the
 * numbers of sockets. The Q_Key is a hash of the sender's address and our port, so no table is needed to check it.
 */
#include <string.h>

#include "base/rn_sip.h"
#include "border/grams.h"
#include "border/policy.h"
#include "dgram/dgram_msg.h"
#include "iwarp/ddp.h"
#include "qp/qp.h"

#define QKEYS UINT64_C(0x6772616d) /* sets these hashes apart from others with the same key */

/* The Q_Key with which `from` may send to lport of this device. Another one after each start of rnicd. */
static uint32_t qkey_of(uint32_t dev, const struct pkt_addr *from, uint16_t lport)
{
	const struct udps_key name = { .dev = dev, .port = lport };
	struct udps_key k = name;

	memcpy(k.ip, from->b, sizeof(k.ip));
	return (uint32_t)rn_sip_hash(&rnicd.secret[2], &k, sizeof(k), QKEYS);
}

/* Answers the packet's sender, within the rate limit for strangers, and never with more octets than were received. */
static void say(struct grams *c, const struct gram_came *in, const struct udps_msg *m)
{
	uint8_t buf[UDPS_LEN];

	if (in->p->payload_len < UDPS_LEN || !c->plane->may_answer(c, in->dev))
		return;
	rnicd.port[in->dev]->stats[c->worker].gram_answered++;
	udps_build(buf, m);
	c->plane->say(c, in->dev, &in->p->src, buf, sizeof(buf));
}

/* Tells the sender why a datagram was dropped. */
static void say_unasked(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h, enum udps_status why)
{
	const struct udps_msg m = {
		.to = udps_port(h->src_qpn), .from = udps_port(h->dst_qpn), .qkey = h->qkey, .status = (uint8_t)why
	};

	say(c, in, &m);
}

/* The packet with the ports of its two sockets in place of the UDP ports. */
static struct pkt as_plain(const struct pkt *p, const struct udpl_hdr *h)
{
	struct pkt q = *p;

	q.sport = udps_port(h->src_qpn);
	q.dport = udps_port(h->dst_qpn);
	return q;
}

/* ---- questions and answers ---- */

static bool is_message(const struct udpl_hdr *h) { return h->kind == UDPL_SOCK_ASK || h->kind == UDPL_SOCK_ANSWER; }

/*
 * Which of the kernel's sockets with SO_REUSEPORT gets a datagram, only the kernel knows: they receive plain ones. A
 * socket with a peer gets all datagrams of this peer.
 */
static bool kernel_chooses(const struct grams *c, const struct gram *g)
{
	return c->plane->route != NULL && g->balance && g->peer.port == 0;
}

/* g NULL: no socket has the port. */
static void sock_answer(struct grams *c, const struct gram_came *in, const struct udps_msg *asked, struct gram *g)
{
	struct udps_msg m = { .to = asked->from, .from = asked->to, .nonce = asked->nonce, .status = UDPS_NOBODY };
	struct pkt q = *in->p;

	if (g != NULL && !kernel_chooses(c, g) && gram_holds(c, g)) {
		q.sport = asked->from;
		q.dport = asked->to;
		m.status = UDPS_TAKES;
		m.unit = ud_unit(rnicd.port[in->dev]);
		m.qkey = qkey_of(in->dev, &in->p->src, asked->to);
		m.stag = asked->slots != 0 ? gram_lend(c, g, in->dev, &q) : 0;
		m.slots = m.stag != 0 ? IPC_GRAM_SLOTS : 0;
	}
	say(c, in, &m);
}

static void sock_hear(struct grams *c, const struct gram_came *in, const struct udps_msg *m)
{
	struct udps_key k = { .dev = in->dev, .port = m->from, .from = m->to };

	memcpy(k.ip, in->p->src.b, sizeof(k.ip));
	if (udps_hear(c->peers, &k, m, *c->now)) {
		const struct pkt_refused r = { .src = in->p->dst, .dst = in->p->src, .sport = m->to, .dport = m->from };
		gram_refused(c, &r);
	}
}

/* here: this process has the port's sockets. */
static void sock_message(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h, bool here)
{
	const struct pkt q = as_plain(in->p, h);
	struct udps_msg said;

	if (!udps_parse(h, in->bytes + UDPL_HDR_LEN, &said))
		c->stats->ud_bad++;
	else if (h->kind == UDPL_SOCK_ASK)
		sock_answer(c, in, &said, here ? gram_find(c, in->dev, &q) : NULL);
	else
		sock_hear(c, in, &said); /* the asking socket may be closed; the next one of its port uses the answer */
}

/* ---- segments of incomplete datagrams ---- */

static void seg_counts(struct grams *c)
{
	struct pkt_frag_counts *n = &c->seg_counts;

	c->stats->ud_incomplete += n->late + n->evicted;
	c->stats->ud_bad += n->bad;
	c->stats->ud_again += n->again;
	*n = (struct pkt_frag_counts){ 0 };
}

bool gram_expire(struct grams *c)
{
	if (rn_likely(*c->now < pkt_frag_due(c->segs)))
		return false;
	pkt_frag_expire(c->segs, *c->now);
	seg_counts(c);
	return true;
}

enum pkt_frag_verdict gram_gather(struct grams *c, const struct gram_part *part, void *ref)
{
	const enum pkt_frag_verdict v = pkt_frag_in(c->segs, &part->f, ref, *c->now);

	seg_counts(c);
	return v;
}

bool gram_whole_good(struct grams *c, const struct gram_part *part)
{
	const bool good = c->segs->whole_len == part->rec.len;

	c->stats->ud_bad += !good; /* the segments disagreed about the total length */
	return good;
}

/* ---- datagrams ---- */

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
	*seg = (struct gram_seg){ .bytes = body + ahead + d->hdr_len,
				  .unit = h->unit,
				  .total = h->total,
				  .id = r.id,
				  .offset = r.offset,
				  .stag = d->stag,
				  .to = d->to };
	return is_datagram(h, d, ahead != 0 ? r.offset : d->mo);
}

/*
 * The segment's place in its datagram, as pkt_frag has it. Only the sender's rnicd could mix segments of two datagrams,
 * and it may send any octets anyway.
 */
static struct pkt_frag place_of(uint32_t dev, const struct pkt *q, const struct ddp_hdr *d)
{
	return (struct pkt_frag){ .src = pkt_addr_to_ip4(&q->src),
				  .dst = d->msn,
				  .id = q->sport,
				  .proto = (uint8_t)dev,
				  .hdr_len = PKT_IP4_LEN,
				  .more = !d->last,
				  .off = d->mo,
				  .len = d->payload_len };
}

static enum gram_took sock_datagram(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h,
				    struct gram_part *part)
{
	struct pkt q = as_plain(in->p, h);
	struct gram_seg seg;
	struct ddp_hdr d;

	if (q.sport == 0 || !read_ddp(in->bytes + UDPL_HDR_LEN, h, &d, &seg)) {
		c->stats->ud_bad++;
		return GRAM_DROPPED;
	}
	if (h->qkey != qkey_of(in->dev, &in->p->src, q.dport)) {
		c->stats->ud_qkey++;
		say_unasked(c, in, h, UDPS_STALE);
		return GRAM_DROPPED;
	}
	struct gram *g = gram_find(c, in->dev, &q);
	if (g == NULL) {
		c->stats->ud_no_qp++;
		say_unasked(c, in, h, UDPS_NOBODY);
		return GRAM_DROPPED;
	}
	c->stats->ud_in++;
	q.payload_len = d.payload_len;
	const bool kernels = c->plane->route != NULL;
	struct ipc_gram_rec rec = gram_record(kernels ? rnicd.port[in->dev]->if_index : in->dev, &q, in->ttl);
	rec.wire = IPC_GRAM_IWARP;
	if (h->kind == UDPL_RECORD) {
		seg.q = &q;
		gram_place(c, g, in->dev, &rec, &seg);
	} else if (h->kind == UDPL_SEGMENT) {
		rec.len = h->total;
		*part = (struct gram_part){
			.g = g, .dev = in->dev, .rec = rec, .f = place_of(in->dev, &q, &d), .bytes = seg.bytes
		};
		return GRAM_PART;
	} else {
		const struct rn_iov iov = { .base = (void *)(uintptr_t)seg.bytes, .len = rec.len };
		(void)gram_deliver(c, g, in->dev, &rec, &iov, 1);
	}
	return GRAM_TAKEN;
}

/* Counts a message or datagram that breaks a rule of the header or the CRC. */
static bool is_sound(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h)
{
	if (in->p->ip_version != 4 || !udpl_is_sock(h->src_qpn))
		c->stats->ud_bad++;
	else if (!udpl_crc_good(in->bytes, in->p->payload_len))
		c->stats->ud_crc++;
	else
		return true;
	return false;
}

enum gram_took gram_iwarp_take(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h,
			       struct gram_part *part)
{
	if (!is_sound(c, in, h))
		return GRAM_DROPPED;
	if (!is_message(h))
		return sock_datagram(c, in, h, part);
	sock_message(c, in, h, true);
	return GRAM_DROPPED;
}

void gram_iwarp_nobody(struct grams *c, const struct gram_came *in, const struct udpl_hdr *h)
{
	struct gram_seg seg;
	struct ddp_hdr d;

	if (!is_sound(c, in, h))
		return;
	if (is_message(h)) {
		sock_message(c, in, h, false);
	} else if (udps_port(h->src_qpn) == 0 || !read_ddp(in->bytes + UDPL_HDR_LEN, h, &d, &seg)) {
		c->stats->ud_bad++;
	} else {
		c->stats->ud_no_qp++;
		say_unasked(c, in, h, UDPS_NOBODY);
	}
}
