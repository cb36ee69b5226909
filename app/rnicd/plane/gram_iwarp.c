/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram sockets over the wire iwarp: sending, and the memory of both directions. */
#include <rte_malloc.h>

#include "border/policy.h"
#include "crc32c/crc32c.h"
#include "iwarp/ddp.h"
#include "plane/worker_int.h"

_Static_assert(UDPS_SEGS_MAX <= PKT_FRAG_EACH, "a datagram's segments are held as fragments are");

bool gram_start(struct rnicd_worker *w)
{
	struct gram_ctx *c = &w->grams;

	c->peers = rte_zmalloc_socket("gram peers", sizeof(*c->peers), RN_CACHE_LINE, w->socket);
	c->segs = rte_zmalloc_socket("gram segments", sizeof(*c->segs), RN_CACHE_LINE, w->socket);
	if (c->peers == NULL || c->segs == NULL)
		return false;
	udps_init(c->peers, rnicd.secret);
	pkt_frag_init(c->segs, PKT_FRAG_PIECES, 0, rnicd.secret, &c->seg_counts);
	/* a worker that is started anew does not begin with numbers that a peer has just seen */
	c->msn = (uint32_t)flow_mix(rnicd.secret[1] + w->index);
	return true;
}

void gram_stop(struct rnicd_worker *w)
{
	struct gram_ctx *c = &w->grams;

	if (c->segs != NULL && c->segs->counts != NULL) {
		pkt_frag_clear(c->segs);
		frag_free_dead(c->segs);
	}
	rte_free(c->segs);
	rte_free(c->peers);
	c->segs = NULL;
	c->peers = NULL;
}

static void gram_ask(struct rnicd_worker *w, struct rnicd_port *port, const struct udps_peer *p)
{
	const struct udps_msg m = {
		.to = p->key.port,
		.from = p->key.from,
		.unit = ud_unit(port),
		.nonce = p->nonce,
		.status = UDPS_ASKS,
		.slots = p->wants != 0,
	};
	uint8_t buf[UDPS_LEN];
	struct pkt_addr to;

	memcpy(to.b, p->key.ip, sizeof(to.b));
	udps_build(buf, &m);
	port->stats[w->index].gram_asked++;
	ud_send(w, port, &to, buf, sizeof(buf));
}

struct udps_peer *gram_iwarp_peer(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec)
{
	struct rnicd_port *port = rnicd.port[rec->dev];
	struct udps_key k = { .dev = rec->dev, .port = rec->port, .from = g->lport };
	struct pkt_addr to;
	bool ask;

	memcpy(k.ip, rec->ip, sizeof(k.ip));
	memcpy(to.b, rec->ip, sizeof(to.b));
	if (ud_unit(port) == 0 || pkt_addr_is_group(&to))
		return NULL;
	struct udps_peer *p = udps_way(w->grams.peers, &k, g->user->tenant, w->now, &ask);
	if (rn_unlikely(ask))
		gram_ask(w, port, p);
	if (p == NULL || p->state != UDPS_SPEAKS)
		return NULL;
	const uint32_t unit = rn_min_u32(p->unit, ud_unit(port));
	return rec->len <= unit * UDPS_SEGS_MAX ? p : NULL;
}

/* The fields common to all segments of a datagram. */
struct cut {
	struct udpl_hdr h;
	uint32_t msn, stag;
	uint64_t to; /* of the slot's first octet */
};

/* Writes the DDP header of the segment at `at`, and in front of it struct udpl_record if there is one. */
static uint32_t build_ddp(const struct cut *c, uint32_t at, bool last, uint8_t *to)
{
	const struct udpl_record r = { .id = c->msn, .offset = at };
	struct ddp_hdr d = ddp_untagged(RDMAP_SEND, last, 0, c->msn, at);

	if (c->h.kind != UDPL_RECORD)
		return ddp_build(to, &d);
	d = ddp_tagged(RDMAP_WRITE, last, c->stag, c->to + at);
	udpl_record_build(to, &r);
	return UDPL_RECORD_LEN + ddp_build(to + UDPL_RECORD_LEN, &d);
}

/* Builds the segment with `bytes` octets from `at` on of the next record; returns its length behind the UDP header. */
static uint32_t build_segment(const struct gram *g, const struct cut *c, uint32_t at, uint32_t bytes, uint8_t *to)
{
	const bool last = c->h.kind == UDPL_SEND || at + bytes == c->h.total;
	struct rn_iov iov[2];

	udpl_build(to, &c->h);
	uint32_t len = UDPL_HDR_LEN + build_ddp(c, at, last, to + UDPL_HDR_LEN);
	uint32_t sum = crc32c(0, to, len);
	const uint32_t n = gram_tx_bytes(g, at, bytes, iov);
	for (uint32_t i = 0; i < n; i++) {
		sum = crc32c_copy(sum, to + len, iov[i].base, iov[i].len);
		len += (uint32_t)iov[i].len;
	}
	udpl_crc_put(to, len, sum);
	return len + UDPL_CRC_LEN;
}

/* Whether n frames may leave for the record's address now. */
static bool room_for(const struct rnicd_worker *w, const struct rnicd_port *port, const struct ipc_gram_rec *rec,
		     uint32_t n)
{
	if (memcmp(rec->ip, port->cfg->ip.b, sizeof(rec->ip)) == 0)
		return w->loop_tail - w->loop_head + n <= WORKER_LOOP;
	return ud_room(w, port) && port_tx_free(&w->tx[port->index]) >= n;
}

uint32_t gram_iwarp_send(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec,
			 struct udps_peer *to)
{
	struct rnicd_port *port = rnicd.port[rec->dev];
	const uint32_t unit = rn_min_u32(to->unit, ud_unit(port)), n = rn_max_u32((rec->len + unit - 1) / unit, 1);
	const struct ud_dest dest = { .addr = (const struct pkt_addr *)rec->ip,
				      .sport = port->cfg->ud_port,
				      .dport = port->cfg->ud_port,
				      .tos = rec->tos,
				      .ttl = rec->ttl };
	struct rte_mbuf *m[UDPS_SEGS_MAX];
	struct cut c = { .h = { .kind = UDPL_SEND,
				.dst_qpn = udps_number(rec->port),
				.src_qpn = udps_number(g->lport),
				.qkey = to->qkey } };

	if (!room_for(w, port, rec, n) || rte_pktmbuf_alloc_bulk(port->pool, m, n) != 0)
		return 0;
	if (n > 1) {
		c.h.kind = rec->len >= UDPS_SLOT_MIN && udps_slot(to, w->now) ? UDPL_RECORD : UDPL_SEGMENT;
		c.h.unit = unit;
		c.h.total = rec->len;
		c.stag = to->stag;
		c.to = (uint64_t)to->slot * IPC_GRAM_SLOT;
	}
	c.msn = ++w->grams.msn;
	port->stats[w->index].gram_tx++;
	port->stats[w->index].gram_iwarp_tx++;
	port->stats[w->index].gram_slots_tx += c.h.kind == UDPL_RECORD;
	w->tcp.rc.qp.stats.ud_out += n;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = rte_pktmbuf_mtod_offset(m[i], uint8_t *, ud_headers_len(port));
		const uint32_t bytes = rn_min_u32(unit, rec->len - i * unit);

		ud_launch_to(w, port, m[i], &dest, build_segment(g, &c, i * unit, bytes, at));
	}
	return n;
}
