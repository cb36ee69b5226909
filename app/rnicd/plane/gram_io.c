/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending from datagram sockets: from the programs' rings into frames. */
#include "border/policy.h"
#include "plane/worker_int.h"

static struct rnicd_worker *worker_of(struct grams *c) { return rn_container_of(c, struct rnicd_worker, grams); }

/* Copies `len` octets of the next record's datagram from `at` on. */
static void copy_payload(const struct gram *g, uint8_t *to, uint32_t at, uint32_t len)
{
	struct rn_iov iov[2];

	gram_tx_bytes(g, at, len, iov);
	memcpy(to, iov[0].base, iov[0].len);
	memcpy(to + iov[0].len, iov[1].base, iov[1].len);
}

/*
 * Fills a chain with a datagram longer than the MTU: a fragment's bytes in each buffer, headers in the first one too.
 */
static RN_COLD void fill_chain(const struct gram *g, const struct rnicd_port *port, struct rte_mbuf *m, uint32_t len)
{
	uint32_t at = 0, room = pkt_frag_step(port->mtu) - PKT_UDP_LEN, hdr = ud_headers_len(port);

	for (; m != NULL; m = m->next) {
		uint32_t n = rn_min_u32(len - at, room);
		copy_payload(g, rte_pktmbuf_mtod_offset(m, uint8_t *, hdr), at, n);
		m->data_len = (uint16_t)(hdr + n);
		at += n;
		room = pkt_frag_step(port->mtu);
		hdr = 0;
	}
}

static uint32_t gram_launch(struct rnicd_worker *w, const struct gram *g, const struct ipc_gram_rec *rec,
			    struct rte_mbuf *m)
{
	struct rnicd_port *port = rnicd.port[rec->dev];
	const struct ud_dest to = { .addr = (const struct pkt_addr *)rec->ip,
				    .sport = g->lport,
				    .dport = rec->port,
				    .tos = rec->tos,
				    .ttl = rec->ttl };

	if (rn_likely(m->nb_segs == 1))
		copy_payload(g, rte_pktmbuf_mtod_offset(m, uint8_t *, ud_headers_len(port)), 0, rec->len);
	else
		fill_chain(g, port, m, rec->len);
	port->stats[w->index].gram_tx++;
	return ud_launch_to(w, port, m, &to, rec->len);
}

/* Buffers for the next datagram, when it may leave now; NULL: later. */
static struct rte_mbuf *gram_buffers(const struct rnicd_worker *w, const struct rnicd_port *port, uint32_t n)
{
	if (!ud_room(w, port))
		return NULL;
	if (rn_likely(n == 1))
		return rte_pktmbuf_alloc(port->pool);
	return port_tx_free(&w->tx[port->index]) >= n ? frag_chain(port, n) : NULL;
}

static uint32_t send_plain(struct grams *c, struct gram *g, const struct ipc_gram_rec *rec)
{
	struct rnicd_worker *w = worker_of(c);
	struct rnicd_port *port = rnicd.port[rec->dev];
	const uint32_t n = frag_buffers(port, rec->len + PKT_UDP_LEN);
	struct rte_mbuf *m = gram_buffers(w, port, n);

	return m != NULL ? gram_launch(w, g, rec, m) : 0;
}

/* Whether n frames may leave for the record's address now. */
static bool room_for(const struct rnicd_worker *w, const struct rnicd_port *port, const struct ipc_gram_rec *rec,
		     uint32_t n)
{
	if (memcmp(rec->ip, port->cfg->ip.b, sizeof(rec->ip)) == 0)
		return w->loop_tail - w->loop_head + n <= WORKER_LOOP;
	return ud_room(w, port) && port_tx_free(&w->tx[port->index]) >= n;
}

static uint32_t send_iwarp(struct grams *c, const struct gram *g, const struct ipc_gram_rec *rec, struct udps_peer *to)
{
	struct rnicd_worker *w = worker_of(c);
	struct rnicd_port *port = rnicd.port[rec->dev];
	const uint32_t n = gram_segments(rec, to);
	const struct ud_dest dest = { .addr = (const struct pkt_addr *)rec->ip,
				      .sport = port->cfg->ud_port,
				      .dport = port->cfg->ud_port,
				      .tos = rec->tos,
				      .ttl = rec->ttl };
	struct rte_mbuf *m[UDPS_SEGS_MAX];

	if (!room_for(w, port, rec, n) || rte_pktmbuf_alloc_bulk(port->pool, m, n) != 0)
		return 0;
	const struct gram_cut cut = gram_cut_begin(c, g, rec, to);
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *at = rte_pktmbuf_mtod_offset(m[i], uint8_t *, ud_headers_len(port));

		ud_launch_to(w, port, m[i], &dest, gram_cut_build(g, &cut, i, at));
	}
	return n;
}

static void frames_say(struct grams *c, uint32_t dev, const struct pkt_addr *to, const uint8_t *p, uint32_t len)
{
	ud_send(worker_of(c), rnicd.port[dev], to, p, len);
}

static bool frames_may_answer(struct grams *c, uint32_t dev)
{
	return conn_answer_allowed(worker_of(c), rnicd.port[dev]);
}

const struct gram_plane gram_frames = {
	.say = frames_say, .may_answer = frames_may_answer, .plain = send_plain, .iwarp = send_iwarp
};
