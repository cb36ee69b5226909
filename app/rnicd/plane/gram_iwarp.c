/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram sockets over the wire iwarp: what leaves, and the memory of both ways. */
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
	pkt_frag_init(c->segs, PKT_FRAG_PIECES, rnicd.secret, &c->seg_counts);
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
		.to = p->key.port, .from = p->key.from, .unit = gram_unit(port), .nonce = p->nonce, .status = UDPS_ASKS
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
	if (gram_unit(port) == 0 || pkt_addr_is_group(&to))
		return NULL;
	struct udps_peer *p = udps_way(w->grams.peers, &k, w->now, &ask);
	if (rn_unlikely(ask))
		gram_ask(w, port, p);
	if (p == NULL || p->state != UDPS_SPEAKS)
		return NULL;
	const uint32_t unit = rn_min_u32(p->unit, gram_unit(port));
	return rec->len <= unit * UDPS_SEGS_MAX ? p : NULL;
}

/* The segment at `at` of the next record; its octets behind the UDP header. */
static uint32_t build_segment(const struct gram *g, const struct ipc_gram_rec *rec, const struct udpl_hdr *h,
			      const struct ddp_hdr *d, uint8_t *to)
{
	const uint32_t bytes = h->kind == UDPL_SEND ? rec->len : rn_min_u32(h->unit, rec->len - d->mo);
	struct rn_iov iov[2];

	udpl_build(to, h);
	uint32_t len = UDPL_HDR_LEN + ddp_build(to + UDPL_HDR_LEN, d);
	uint32_t sum = crc32c(0, to, len);
	const uint32_t n = gram_tx_bytes(g, d->mo, bytes, iov);
	for (uint32_t i = 0; i < n; i++) {
		sum = crc32c_copy(sum, to + len, iov[i].base, iov[i].len);
		len += (uint32_t)iov[i].len;
	}
	udpl_crc_put(to, len, sum);
	return len + UDPL_CRC_LEN;
}

/* Whether so many frames may leave for the address now. */
static bool room_for(const struct rnicd_worker *w, const struct rnicd_port *port, const struct ipc_gram_rec *rec,
		     uint32_t n)
{
	if (memcmp(rec->ip, port->cfg->ip.b, sizeof(rec->ip)) == 0)
		return w->loop_tail - w->loop_head + n <= WORKER_LOOP;
	return ud_room(w, port) && port_tx_free(&w->tx[port->index]) >= n;
}

uint32_t gram_iwarp_send(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec,
			 const struct udps_peer *to)
{
	struct rnicd_port *port = rnicd.port[rec->dev];
	const uint32_t unit = rn_min_u32(to->unit, gram_unit(port));
	const uint32_t n = rn_max_u32((rec->len + unit - 1) / unit, 1);
	struct rte_mbuf *m[UDPS_SEGS_MAX];
	const struct udpl_hdr h = { .kind = n == 1 ? UDPL_SEND : UDPL_SEGMENT,
				    .dst_qpn = udps_number(rec->port),
				    .src_qpn = udps_number(g->lport),
				    .qkey = to->qkey,
				    .unit = n == 1 ? 0 : unit,
				    .total = n == 1 ? 0 : rec->len };

	if (!room_for(w, port, rec, n) || rte_pktmbuf_alloc_bulk(port->pool, m, n) != 0)
		return 0;
	w->grams.msn++;
	port->stats[w->index].gram_tx++;
	port->stats[w->index].gram_iwarp_tx++;
	w->tcp.rc.qp.stats.ud_out += n;
	for (uint32_t i = 0; i < n; i++) {
		struct pkt_flow f = {
			.sport = port->cfg->ud_port, .dport = port->cfg->ud_port, .tos = rec->tos, .ttl = rec->ttl
		};
		const struct ddp_hdr d = ddp_untagged(RDMAP_SEND, i + 1 == n, 0, w->grams.msn, i * unit);
		uint8_t *at = rte_pktmbuf_mtod_offset(m[i], uint8_t *, ud_headers_len(port));

		memcpy(f.dst.b, rec->ip, sizeof(f.dst.b));
		ud_launch_flow(w, port, m[i], &f, build_segment(g, rec, &h, &d, at));
	}
	return n;
}
