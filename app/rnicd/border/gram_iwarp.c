/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending from datagram sockets over the wire iwarp: questions, and segments. */
#include <string.h>

#include "border/grams.h"
#include "border/policy.h"
#include "crc32c/crc32c.h"
#include "iwarp/ddp.h"
#include "qp/qp.h"

_Static_assert(UDPS_SEGS_MAX <= PKT_FRAG_EACH, "a datagram's segments are held as fragments are");

static void gram_ask(struct grams *c, const struct udps_peer *p)
{
	const struct udps_msg m = {
		.to = p->key.port,
		.from = p->key.from,
		.unit = ud_unit(rnicd.port[p->key.dev]),
		.nonce = p->nonce,
		.status = UDPS_ASKS,
		.slots = p->wants != 0,
	};
	uint8_t buf[UDPS_LEN];
	struct pkt_addr to;

	memcpy(to.b, p->key.ip, sizeof(to.b));
	udps_build(buf, &m);
	rnicd.port[p->key.dev]->stats[c->worker].gram_asked++;
	c->plane->say(c, p->key.dev, &to, buf, sizeof(buf));
}

struct udps_peer *gram_iwarp_peer(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec, uint32_t dev)
{
	const struct rnicd_port *port = rnicd.port[dev];
	struct udps_key k = { .dev = dev, .port = rec->port, .from = g->lport };
	struct pkt_addr to;
	bool ask;

	memcpy(k.ip, rec->ip, sizeof(k.ip));
	memcpy(to.b, rec->ip, sizeof(to.b));
	if (ud_unit(port) == 0 || pkt_addr_is_group(&to) || !pkt_addr_is_ip4(&to) || !pkt_addr_is_ip4(&port->cfg->ip))
		return NULL;
	struct udps_peer *p = udps_way(c->peers, &k, g->user->tenant, *c->now, &ask);
	if (rn_unlikely(ask)) {
		if (!gram_holds(c, g))
			return NULL;
		gram_ask(c, p);
	}
	if (p == NULL || p->state != UDPS_SPEAKS)
		return NULL;
	return rec->len <= rn_min_u32(p->unit, ud_unit(port)) * UDPS_SEGS_MAX ? p : NULL;
}

/* Writes the DDP header of the segment at `at`, and in front of it struct udpl_record if there is one. */
static uint32_t build_ddp(const struct gram_cut *c, uint32_t at, bool last, uint8_t *to)
{
	const struct udpl_record r = { .id = c->msn, .offset = at };
	struct ddp_hdr d = ddp_untagged(RDMAP_SEND, last, 0, c->msn, at);

	if (c->h.kind != UDPL_RECORD)
		return ddp_build(to, &d);
	d = ddp_tagged(RDMAP_WRITE, last, c->stag, c->to + at);
	udpl_record_build(to, &r);
	return UDPL_RECORD_LEN + ddp_build(to + UDPL_RECORD_LEN, &d);
}

static uint32_t unit_to(const struct udps_peer *to) { return rn_min_u32(to->unit, ud_unit(rnicd.port[to->key.dev])); }

uint32_t gram_segments(const struct ipc_gram_rec *rec, const struct udps_peer *to)
{
	const uint32_t unit = unit_to(to);

	return rn_max_u32((rec->len + unit - 1) / unit, 1);
}

struct gram_cut gram_cut_begin(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec,
			       struct udps_peer *to)
{
	struct rnicd_port_stats *st = &rnicd.port[to->key.dev]->stats[c->worker];
	const uint32_t n = gram_segments(rec, to);
	struct gram_cut cut = { .h = { .kind = UDPL_SEND,
				       .dst_qpn = udps_number(rec->port),
				       .src_qpn = udps_number(g->lport),
				       .qkey = to->qkey },
				.unit = unit_to(to),
				.len = rec->len,
				.msn = ++c->msn };

	if (n > 1) {
		cut.h.kind = rec->len >= UDPS_SLOT_MIN && udps_slot(to, *c->now) ? UDPL_RECORD : UDPL_SEGMENT;
		cut.h.unit = cut.unit;
		cut.h.total = rec->len;
		cut.stag = to->stag;
		cut.to = (uint64_t)to->slot * IPC_GRAM_SLOT;
	}
	st->gram_tx++;
	st->gram_iwarp_tx++;
	st->gram_slots_tx += cut.h.kind == UDPL_RECORD;
	c->stats->ud_out += n;
	return cut;
}

uint32_t gram_cut_build(const struct gram *g, const struct gram_cut *c, uint32_t i, uint8_t *to)
{
	const uint32_t at = i * c->unit, bytes = rn_min_u32(c->unit, c->len - at);
	const bool last = c->h.kind == UDPL_SEND || at + bytes == c->h.total;
	struct rn_iov iov[2];

	udpl_build(to, &c->h);
	uint32_t len = UDPL_HDR_LEN + build_ddp(c, at, last, to + UDPL_HDR_LEN);
	uint32_t sum = crc32c(0, to, len);
	const uint32_t n = gram_tx_bytes(g, at, bytes, iov);
	for (uint32_t k = 0; k < n; k++) {
		sum = crc32c_copy(sum, to + len, iov[k].base, iov[k].len);
		len += (uint32_t)iov[k].len;
	}
	udpl_crc_put(to, len, sum);
	return len + UDPL_CRC_LEN;
}
