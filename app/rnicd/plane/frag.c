/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/frag.h"

#include <rte_malloc.h>

#include "border/policy.h"
#include "pkt/pkt_frag.h"
#include "plane/frame.h"
#include "plane/worker_int.h"

#define POOL_SHARE 8u /* part of a port's buffers that fragments may hold: one in 8 */

_Static_assert(PKT_FRAG_EACH <= FRAME_MAX_SEGS, "what is put together is received as one frame");
_Static_assert(2 * PKT_FRAG_FAR <= 65536u / RNICD_MAX_WORKERS, "frag_next_id() repeats later");
_Static_assert(RTE_PKTMBUF_HEADROOM >= PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP4_LEN, "headers in front of each fragment");

bool frag_start(struct rnicd_worker *w)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		struct rnicd_port *port = rnicd.port[i];
		if (frag_owner(port) != w->index)
			continue;
		w->frag[i] = rte_zmalloc_socket("frag", sizeof(*w->frag[i]), RN_CACHE_LINE, w->socket);
		if (w->frag[i] == NULL)
			return false;
		pkt_frag_init(w->frag[i], port->pool->size / POOL_SHARE, PKT_FRAG_FAR, rnicd.secret,
			      &port->stats[w->index].frag);
	}
	for (uint32_t i = 0; i < FRAG_IDS; i++)
		w->frag_id[i] = (uint16_t)flow_mix(rnicd.secret[1] + i);
	return true;
}

void frag_free_dead(struct pkt_frag_table *t)
{
	void *m;

	while ((m = pkt_frag_dead(t)) != NULL)
		rte_pktmbuf_free(m);
}

void frag_stop(struct rnicd_worker *w)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		if (w->frag[i] == NULL)
			continue;
		pkt_frag_clear(w->frag[i]);
		frag_free_dead(w->frag[i]);
		rte_free(w->frag[i]);
		w->frag[i] = NULL;
	}
}

/* ---- received ---- */

struct rte_mbuf *frag_joined(struct pkt_frag_table *t)
{
	struct rte_mbuf *head = pkt_frag_whole(t), *last = head, *m;

	while ((m = pkt_frag_whole(t)) != NULL) {
		last->next = m;
		last = m;
		head->nb_segs++;
		head->pkt_len += m->data_len;
	}
	/* the device's verdict on the first fragment's checksum does not hold for the datagram */
	head->ol_flags &= ~(RTE_MBUF_F_RX_L4_CKSUM_MASK | RTE_MBUF_F_TX_L4_MASK);
	return head;
}

/*
 * Trims a fragment: removes padding behind it, and its headers if it is not the first. Notes where its IP header is,
 * since not all fragments of a datagram need have a tag.
 */
static void frag_strip(struct rte_mbuf *m, const struct pkt *p, const struct pkt_frag *f)
{
	m->l2_len = p->l3_off;
	m->data_len = (uint16_t)(p->l4_off + p->l4_len);
	if (f->off != 0)
		rte_pktmbuf_adj(m, p->l4_off);
	m->pkt_len = m->data_len;
}

struct rte_mbuf *frag_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	struct pkt_frag_table *t = w->frag[port->index];
	struct rte_mbuf *whole = NULL;
	struct pkt_frag f;

	if (!pkt_frag_read(rte_pktmbuf_mtod(m, const uint8_t *), p, &f) || f.proto != PKT_PROTO_UDP) {
		st->rx_bad[PKT_FRAGMENT]++;
		rte_pktmbuf_free(m);
		return NULL;
	}
	if (rn_unlikely(m->nb_segs > 1)) {
		struct rte_mbuf *linear = frame_copy(port->pool, m);
		rte_pktmbuf_free(m);
		if (linear == NULL) {
			st->no_buffer++;
			return NULL;
		}
		m = linear;
	}
	frag_strip(m, p, &f);
	switch (pkt_frag_in(t, &f, m, w->now)) {
	case PKT_FRAG_HELD: break;
	case PKT_FRAG_DROPPED: rte_pktmbuf_free(m); break;
	case PKT_FRAG_WHOLE:
		whole = frag_joined(t);
		pkt_frag_join(t, rte_pktmbuf_mtod_offset(whole, uint8_t *, whole->l2_len));
		break;
	}
	frag_free_dead(t);
	return whole;
}

void frag_timers(struct rnicd_worker *w)
{
	for (uint32_t i = 0; i < rnicd.n_ports; i++) {
		if (w->frag[i] == NULL || w->now < pkt_frag_due(w->frag[i]))
			continue;
		pkt_frag_expire(w->frag[i], w->now);
		frag_free_dead(w->frag[i]);
	}
}

uint64_t frag_due(const struct rnicd_worker *w)
{
	uint64_t due = RN_NEVER;

	for (uint32_t i = 0; i < rnicd.n_ports; i++)
		if (w->frag[i] != NULL)
			due = rn_min_u64(due, pkt_frag_due(w->frag[i]));
	return due;
}

/* ---- sent ---- */

uint32_t frag_buffers(const struct rnicd_port *port, uint32_t len)
{
	const uint32_t step = pkt_frag_step(port->mtu);

	return len + PKT_IP4_LEN <= port->mtu ? 1 : (len + step - 1) / step;
}

struct rte_mbuf *frag_chain(const struct rnicd_port *port, uint32_t n)
{
	struct rte_mbuf *m[PKT_FRAG_EACH];

	if (n > PKT_FRAG_EACH || rte_pktmbuf_alloc_bulk(port->pool, m, n) != 0)
		return NULL;
	for (uint32_t i = 1; i < n; i++)
		m[i - 1]->next = m[i];
	m[0]->nb_segs = (uint16_t)n;
	return m[0];
}

/*
 * The identification of the next datagram: not used again for the same source, destination and protocol while its
 * fragments may be on the way (RFC 6864, section 4.1), as far as 65,536 numbers go. Each worker has numbers of its own.
 */
static uint16_t frag_next_id(struct rnicd_worker *w, const struct rnicd_port *port, const uint8_t *ip)
{
	const uint64_t to = (uint64_t)rn_load_be32(ip + 16) << 8 | port->index;
	uint16_t *at = &w->frag_id[flow_mix(to ^ rnicd.secret[0]) % FRAG_IDS];

	*at = (uint16_t)((*at + 1u) % (65536u / rnicd.cfg.n_workers));
	return (uint16_t)(*at * rnicd.cfg.n_workers + w->index);
}

uint32_t frag_cut(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, struct rte_mbuf **out)
{
	uint8_t hdr[PKT_ETH_LEN + PKT_VLAN_LEN + PKT_IP4_LEN];
	const uint16_t l2 = (uint16_t)port_l2_len(port), len = (uint16_t)(l2 + PKT_IP4_LEN);
	uint32_t off = 0, n = 0;

	frame_finish(m); /* the checksum covers the whole datagram */
	m->ol_flags &= ~(RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6);
	memcpy(hdr, rte_pktmbuf_mtod(m, const uint8_t *), len);
	const uint16_t id = frag_next_id(w, port, hdr + l2);
	for (struct rte_mbuf *next; m != NULL; m = next) {
		next = m->next;
		if (off != 0)
			memcpy(rte_pktmbuf_prepend(m, len), hdr, len);
		const uint32_t bytes = (uint32_t)m->data_len - len;
		m->next = NULL;
		m->nb_segs = 1;
		m->pkt_len = m->data_len;
		m->tx_offload = 0;
		pkt_frag_cut(rte_pktmbuf_mtod_offset(m, uint8_t *, l2), id, off, bytes, next != NULL);
		off += bytes;
		out[n++] = m;
	}
	port->stats[w->index].frag_tx += n;
	return n;
}

void frag_push(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m)
{
	struct rte_mbuf *out[PKT_FRAG_EACH];

	if (rn_likely(m->pkt_len <= port_l2_len(port) + port->mtu)) {
		port_tx_push(&w->tx[port->index], m);
		return;
	}
	uint32_t n = frag_cut(w, port, m, out);
	for (uint32_t i = 0; i < n; i++)
		port_tx_push(&w->tx[port->index], out[i]);
}
