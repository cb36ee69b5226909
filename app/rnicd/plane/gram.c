/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram sockets: memory, commands, and what frames bring. */
#include <rte_malloc.h>

#include "plane/frame.h"
#include "plane/worker_int.h"

bool gram_start(struct rnicd_worker *w)
{
	struct grams *c = &w->grams;

	c->plane = &gram_frames;
	c->now = &w->now;
	c->stats = &w->tcp.rc.qp.stats;
	c->worker = w->index;
	c->peers = rte_zmalloc_socket("gram peers", sizeof(*c->peers), RN_CACHE_LINE, w->socket);
	c->segs = rte_zmalloc_socket("gram segments", sizeof(*c->segs), RN_CACHE_LINE, w->socket);
	if (c->peers == NULL || c->segs == NULL)
		return false;
	grams_begin(c);
	return true;
}

void gram_stop(struct rnicd_worker *w)
{
	struct grams *c = &w->grams;

	if (c->segs != NULL && c->segs->counts != NULL) {
		pkt_frag_clear(c->segs);
		frag_free_dead(c->segs);
	}
	rte_free(c->segs);
	rte_free(c->peers);
	c->segs = NULL;
	c->peers = NULL;
}

void gram_timers(struct rnicd_worker *w)
{
	if (gram_expire(&w->grams))
		frag_free_dead(w->grams.segs);
}

void command_gram(struct rnicd_worker *w, struct cmd *c)
{
	struct gram *g = c->gram.gram;

	switch ((int)c->type) {
	case CMD_GRAM_OPEN: gram_open(&w->grams, g); break;
	case CMD_GRAM_PEER: g->peer = c->gram.peer; break;
	case CMD_GRAM_CLOSE: c->gram.waits = !gram_close(&w->grams, g, c->gram.give_up); break;
	default: break;
	}
}

/* ---- received frames ---- */

static uint8_t ttl_of(const struct rte_mbuf *m, const struct pkt *p)
{
	return rte_pktmbuf_mtod(m, const uint8_t *)[p->l3_off + 8];
}

/* Delivers rec->len octets of m from `off` on. */
static void deliver_frame(struct rnicd_worker *w, struct gram *g, const struct ipc_gram_rec *rec,
			  const struct rte_mbuf *m, uint32_t off)
{
	struct rn_iov iov[FRAME_MAX_SEGS];
	const uint32_t n = frame_iov(m, off, rec->len, iov, FRAME_MAX_SEGS);

	if (rn_likely(n != UINT32_MAX))
		(void)gram_deliver(&w->grams, g, rec->dev, rec, iov, n);
	else
		rnicd.port[rec->dev]->stats[w->index].gram_full++;
}

/* No socket has the port: answers with ICMP, within the rate limit for strangers. */
static void gram_refuse(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct pkt_l2 l2 = { .vlan = port->cfg->vlan };
	struct rte_mbuf *out;

	if (!conn_answer_allowed(w, port))
		return;
	out = rte_pktmbuf_alloc(port->pool);
	if (out == NULL) {
		port->stats[w->index].no_buffer++;
		return;
	}
	memcpy(l2.dst, frame + PKT_MAC_LEN, PKT_MAC_LEN);
	memcpy(l2.src, port->mac, PKT_MAC_LEN);
	uint32_t len = pkt_icmp_port_build(rte_pktmbuf_mtod(out, uint8_t *), &l2, frame, m->data_len, p);
	if (len == 0) {
		rte_pktmbuf_free(out);
		return;
	}
	out->data_len = (uint16_t)len;
	out->pkt_len = len;
	port->stats[w->index].gram_refused++;
	if (pkt_addr_eq(&p->src, &port->cfg->ip))
		conn_loop(w, port, out);
	else
		port_tx_push(&w->tx[port->index], out);
}

void gram_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p)
{
	struct gram *g = p->ip_version == 4 ? gram_find(&w->grams, port->index, p) : NULL;

	if (rn_likely(g != NULL)) {
		const struct ipc_gram_rec rec = gram_record(port->index, p, ttl_of(m, p));
		w->ud_wanted++;
		deliver_frame(w, g, &rec, m, p->payload_off);
	} else {
		port->stats[w->index].rx_other++;
		gram_refuse(w, port, m, p);
	}
}

/* ---- the wire iwarp ---- */

/* Keeps a segment until its datagram is whole; takes m. */
static void gather(struct rnicd_worker *w, const struct gram_part *part, struct rte_mbuf *m)
{
	struct rte_mbuf *whole = NULL;

	m->data_off = (uint16_t)(part->bytes - (const uint8_t *)m->buf_addr);
	m->data_len = (uint16_t)part->f.len;
	m->pkt_len = part->f.len;
	switch (gram_gather(&w->grams, part, m)) {
	case PKT_FRAG_HELD: break;
	case PKT_FRAG_DROPPED: rte_pktmbuf_free(m); break;
	case PKT_FRAG_WHOLE: whole = frag_joined(w->grams.segs); break;
	}
	frag_free_dead(w->grams.segs);
	if (whole == NULL)
		return;
	if (gram_whole_good(&w->grams, part))
		deliver_frame(w, part->g, &part->rec, whole, 0);
	rte_pktmbuf_free(whole);
}

void gram_iwarp_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		      const struct udpl_hdr *h)
{
	const uint32_t owner = gram_owner(udps_port(h->dst_qpn));
	const struct gram_came in = { .dev = port->index,
				      .p = p,
				      .bytes = rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off),
				      .ttl = ttl_of(m, p) };
	struct gram_part part;

	if (owner != w->index) {
		worker_move(w, port, m, owner);
		return;
	}
	/* a frame to a group's MAC and a unicast IP address is for no host (RFC 1122, section 3.3.6) */
	if (!worker_csum_good(port, m, p) || (rte_pktmbuf_mtod(m, const uint8_t *)[0] & 1) != 0) {
		port->stats[w->index].rx_bad_csum++;
		rte_pktmbuf_free(m);
		return;
	}
	const enum gram_took took = gram_iwarp_take(&w->grams, &in, h, &part);
	w->ud_wanted += took != GRAM_DROPPED;
	if (took == GRAM_PART)
		gather(w, &part, m);
	else
		rte_pktmbuf_free(m);
}
