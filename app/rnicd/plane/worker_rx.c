/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receive side of a worker: bursts from ports, from other workers and from loopback; each frame is parsed, checked
 * and passed to its connection, socket or queue pair. Reading a port: worker_read.c.
 */
#include <rte_prefetch.h>

#include "plane/capture.h"
#include "plane/frame.h"
#include "pkt/pkt_igmp.h"
#include "plane/port.h"
#include "plane/worker_int.h"

/* A frame of a burst. m is NULL when the frame has been consumed. */
struct rx {
	struct rte_mbuf *m;
	struct flow_key key;
	uint32_t hash;
	struct flow *flow; /* NULL: none when the burst began */
	bool follows;      /* the TCP segment before it in the burst is of the same flow */
	bool group; /* the frame was sent to a group's MAC: TCP ignores its segment (RFC 1122, section 4.2.3.10) */
	struct pkt p;
};

/* The beginning of the last datagram of a burst that was for its port, and what was read from its headers. */
struct datagram {
	const struct rnicd_port *port; /* NULL: the burst had no datagram yet */
	uint8_t head[PKT_TRAIN_LEN];
	struct pkt p;
};

static void drop(struct rx *r)
{
	rte_pktmbuf_free(r->m);
	r->m = NULL;
}

/* Whether the checksum is known to be good without computing it. */
static inline bool csum_known(const struct rnicd_port *port, const struct rte_mbuf *m)
{
	/* Deferred: the frame came over a wire or loop inside this process, and has not changed since it was built. */
	return frame_csum_deferred(m) || (port->caps.rx_csum && !port->cfg->verify_csum &&
					  (m->ol_flags & RTE_MBUF_F_RX_L4_CKSUM_MASK) == RTE_MBUF_F_RX_L4_CKSUM_GOOD);
}

static bool csum_computed(const struct rte_mbuf *m, const struct pkt *p)
{
	struct rn_iov iov[FRAME_MAX_SEGS];
	uint32_t n = frame_iov(m, p->l4_off, p->l4_len, iov, FRAME_MAX_SEGS);

	return n != UINT32_MAX && pkt_l4_csum_ok(p, iov, n);
}

bool worker_csum_good(const struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p)
{
	return csum_known(port, m) || csum_computed(m, p);
}

static void arp_frame(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r, bool from_wire)
{
	struct arp_todo todo = { .n_out = 0 };

	arp_input(w->arp[port->index], r->m, &r->p, from_wire, w->now, &todo);
	worker_arp_todo(w, port, &todo);
	for (uint32_t i = 0; from_wire && i < rnicd.n_workers; i++) {
		if (i == w->index)
			continue;
		struct rte_mbuf *copy = frame_copy(port->pool, r->m);
		if (copy != NULL)
			worker_move(w, port, copy, i);
		else
			port->stats[w->index].no_buffer++;
	}
	drop(r);
}

static void echo_frame(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r)
{
	struct rnicd_port_stats *st = &port->stats[w->index];

	if (!worker_csum_good(port, r->m, &r->p)) {
		st->rx_bad_csum++;
		drop(r);
		return;
	}
	st->icmp_echo++;
	pkt_icmp_echo_reply(rte_pktmbuf_mtod(r->m, uint8_t *), &r->p);
	/* The reply swaps source and destination, but a group's MAC must not become the source. */
	memcpy(rte_pktmbuf_mtod_offset(r->m, uint8_t *, PKT_MAC_LEN), port->mac, PKT_MAC_LEN);
	port_tx_push(&w->tx[port->index], r->m);
	r->m = NULL;
}

/* Whether this worker must not handle a frame: it is passed to its owner, or dropped because of a bad checksum. */
static bool not_mine(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r, uint32_t owner)
{
	if (owner != w->index) {
		worker_move(w, port, r->m, owner);
		r->m = NULL;
		return true;
	}
	/* a frame to a group's MAC and a unicast IP address is for no host (RFC 1122, section 3.3.6) */
	if (worker_csum_good(port, r->m, &r->p) && (rte_pktmbuf_mtod(r->m, const uint8_t *)[0] & 1) == 0)
		return false;
	port->stats[w->index].rx_bad_csum++;
	drop(r);
	return true;
}

/* True: the ICMP message was "port unreachable" about a datagram from this port's address, and has been handled. */
static bool no_such_port(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r)
{
	struct pkt_refused about;

	if (!pkt_icmp_refused(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len, &r->p, &about) ||
	    !pkt_addr_eq(&about.src, &port->cfg->ip))
		return false;
	if (!not_mine(w, port, r, gram_owner(about.sport))) {
		gram_refused(&w->grams, &about);
		drop(r);
	}
	return true;
}

static void udp_frame(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r, bool from_wire)
{
	if (r->p.dport == port->cfg->ud_port || pkt_addr_is_group(&r->p.dst) || port_has_qp(port, r->p.dport)) {
		ud_input(w, port, r->m, &r->p, from_wire);
		r->m = NULL;
	} else if (!not_mine(w, port, r, gram_owner(r->p.dport))) {
		gram_input(w, port, r->m, &r->p);
		drop(r);
	}
}

/* Handles an ICMP message that a segment was too large for a router, or that a host has no such UDP port. */
static void icmp_frame(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	struct pkt_too_big b;

	if (no_such_port(w, port, r))
		return;
	if (!pkt_icmp_too_big(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len, &r->p, &b)) {
		st->rx_other++;
		drop(r);
		return;
	}
	struct flow_key key = {
		.local = b.src, .remote = b.dst, .lport = b.sport, .rport = b.dport, .port = port->index
	};
	uint32_t hash = flow_hash(rnicd.secret, &key), owner = flow_owner_of(port, &key, hash);

	if (owner != w->index) {
		worker_move(w, port, r->m, owner);
		r->m = NULL;
		return;
	}
	struct flow *f = flow_find(&w->flows, &key, hash);
	if (!worker_csum_good(port, r->m, &r->p))
		st->rx_bad_csum++;
	else if (f == NULL)
		st->rx_other++;
	else if (f->kind == FLOW_STREAM)
		stream_too_big(w, f, &b);
	else
		conn_too_big(w, f, &b);
	drop(r);
}

/*
 * Handles a router's query which groups are wanted. The control thread answers for the port; other workers do nothing.
 */
static void igmp_frame(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	struct pkt_igmp_query q;

	switch (pkt_igmp_parse(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len, &r->p, &q)) {
	case PKT_IGMP_QUERY: {
		st->igmp_rx++;
		if (!conn_answer_allowed(w, port))
			break;
		struct event *ev = event_room(w->index, EVENT_DROPPABLE);
		if (ev == NULL) { /* the router repeats its query */
			st->rx_no_room++;
			break;
		}
		ev->type = EVENT_QUERY;
		ev->query = (struct event_query){ .port = port->index,
						  .version = q.version,
						  .all = q.all,
						  .within_ms = q.within_ms,
						  .group = q.group };
		event_put(w->index);
		break;
	}
	case PKT_IGMP_OTHER: st->rx_other++; break;
	case PKT_IGMP_BAD: st->igmp_bad++; break;
	}
	drop(r);
}

/* Removes Ethernet padding after the IP packet: an echo must not be longer than IP's length says. */
static void trim(struct rte_mbuf *m, const struct pkt *p)
{
	uint32_t end = (uint32_t)p->l4_off + p->l4_len;

	if (p->ip_version != 0 && m->nb_segs == 1 && end < m->pkt_len) {
		m->data_len = (uint16_t)end;
		m->pkt_len = end;
	}
}

void worker_move(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, uint32_t owner)
{
	struct rnicd_port_stats *st = &port->stats[w->index];

	bool by_a_path = port->n_paths != 0 && m->port < rnicd_lines() && rnicd.port[m->port]->of == port;

	if (rn_likely(!by_a_path))
		m->port = port->index;
	if (rte_ring_mp_enqueue(worker_at[owner]->sh.rx_moved, m) == 0) {
		st->rx_moved++;
		bell_ring(owner);
		return;
	}
	st->rx_moved_drops++;
	rte_pktmbuf_free(m);
}

/* Whether a frame to a group's MAC is for this port: a datagram to a group that a QP has joined, or an IGMP message. */
static bool group_is_ours(const struct rnicd_worker *w, const struct rnicd_port *port, const struct rx *r)
{
	uint8_t mac[PKT_MAC_LEN];

	if (!pkt_addr_is_group(&r->p.dst))
		return false;
	pkt_group_mac(mac, &r->p.dst);
	if (memcmp(rte_pktmbuf_mtod(r->m, const uint8_t *), mac, PKT_MAC_LEN) != 0)
		return false;
	return r->p.kind == PKT_KIND_IGMP ||
	       (r->p.kind == PKT_KIND_UDP && ud_group_find(w, port->index, &r->p.dst) != NULL);
}

/*
 * Whether the frame is for this port, by VLAN, MAC and IP address. A packet whose source is a group is nobody's: RFC
 * 1122, 3.2.1.3.
 */
static inline bool is_ours(const struct rnicd_worker *w, const struct rnicd_port *port, const struct rx *r)
{
	/* A frame with a priority tag (VLAN 0) belongs to no VLAN: IEEE 802.1Q, 6.9. */
	uint16_t vid = r->p.vlan == PKT_NO_VLAN ? 0 : PKT_VID(r->p.vlan);
	uint16_t ours = port->cfg->vlan == PKT_NO_VLAN ? 0 : PKT_VID(port->cfg->vlan);

	return port_mac_is_ours(port, rte_pktmbuf_mtod(r->m, const uint8_t *)) && vid == ours &&
	       (r->p.ip_version == 0 || (!pkt_addr_is_any_group(&r->p.src) &&
					 (pkt_addr_eq(&r->p.dst, &port->cfg->ip) || group_is_ours(w, port, r))));
}

/*
 * Reassembles a datagram from fragments. True: it is complete, and *r has it. False: fragments are missing, or *r was
 * dropped.
 */
static RN_COLD bool parse_fragment(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r,
				   struct rnicd_port_stats *st)
{
	if (!is_ours(w, port, r)) {
		st->rx_not_ours++;
		drop(r);
		return false;
	}
	if (frag_owner(port) != w->index) {
		worker_move(w, port, r->m, frag_owner(port));
		r->m = NULL;
		return false;
	}
	r->m = frag_input(w, port, r->m, &r->p);
	if (r->m == NULL)
		return false;
	enum pkt_verdict v = pkt_parse(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len, r->m->pkt_len, &r->p);
	if (v == PKT_OK)
		return true;
	st->rx_bad[v]++;
	drop(r);
	return false;
}

/* Reads the headers. False: the frame must not be handled further; it was dropped, passed on, or is a fragment. */
static bool parse(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r, struct rnicd_port_stats *st)
{
	enum pkt_verdict v = pkt_parse(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len, r->m->pkt_len, &r->p);

	if (rn_unlikely(v == PKT_SPLIT)) {
		struct rte_mbuf *whole = frame_copy(port->pool, r->m);
		drop(r);
		if (whole == NULL) {
			st->no_buffer++;
			return false;
		}
		r->m = whole;
		v = pkt_parse(rte_pktmbuf_mtod(whole, const uint8_t *), whole->data_len, whole->pkt_len, &r->p);
	}
	if (rn_unlikely(v != PKT_OK)) {
		if (v == PKT_FRAGMENT)
			return parse_fragment(w, port, r, st);
		st->rx_bad[v]++;
		drop(r);
		return false;
	}
	if (rn_unlikely(!is_ours(w, port, r))) {
		st->rx_not_ours++;
		drop(r);
		return false;
	}
	return true;
}

/*
 * Makes the key and the hash of a segment's flow. Segments of one flow come in trains, so the segment before (NULL:
 * none) most often has the same hash.
 */
static void identify(struct rnicd_worker *w, const struct rnicd_port *port, struct rx *r, const struct rx *before)
{
	r->key = (struct flow_key){
		.local = r->p.dst, .remote = r->p.src, .lport = r->p.dport, .rport = r->p.sport, .port = port->index
	};
	r->group = (rte_pktmbuf_mtod(r->m, const uint8_t *)[0] & 1) != 0;
	r->follows = before != NULL && flow_key_eq(&before->key, &r->key);
	if (r->follows) {
		r->hash = before->hash;
		return;
	}
	r->hash = flow_hash(rnicd.secret, &r->key);
	flow_prefetch(&w->flows, r->hash);
}

/*
 * Whether the frame is the next TCP segment of the train that `before` belongs to. If so, all is known that was found
 * out for the segment before: that it is for this port, its key and its hash.
 */
static inline bool of_train(const struct rnicd_port *port, struct rx *r, const struct rx *before)
{
	if (before == NULL || before->key.port != port->index ||
	    !pkt_parse_next(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len, r->m->pkt_len,
			    rte_pktmbuf_mtod(before->m, const uint8_t *), &before->p, &r->p))
		return false;
	r->key = before->key;
	r->hash = before->hash;
	r->group = before->group;
	r->follows = true;
	return true;
}

/*
 * Whether the frame is a datagram with the addresses and ports of the one before. If so, it is for this port as well,
 * and its headers have been read.
 */
static inline bool is_next_datagram(const struct rnicd_port *port, struct rx *r, const struct datagram *before)
{
	return before->port == port && pkt_parse_next(rte_pktmbuf_mtod(r->m, const uint8_t *), r->m->data_len,
						      r->m->pkt_len, before->head, &before->p, &r->p);
}

static inline void note_datagram(const struct rnicd_port *port, const struct rx *r, struct datagram *d)
{
	d->port = port;
	d->p = r->p;
	memcpy(d->head, rte_pktmbuf_mtod(r->m, const uint8_t *), PKT_TRAIN_LEN);
}

/* Second pass: finds the flow of each TCP segment, and prefetches the first cache lines of its connection. */
static void look_up(struct rnicd_worker *w, struct rx *r, const struct rx *before)
{
	if (r->follows) {
		r->flow = before->flow;
		return;
	}
	r->flow = flow_find(&w->flows, &r->key, r->hash);
	if (r->flow != NULL)
		conn_prefetch(r->flow);
}

/*
 * First pass: handles all frames that need no flow; makes the key of each TCP segment's flow, and prefetches the line
 * of the flow table.
 */
static void classify(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r, const struct rx *before,
		     struct datagram *datagram, bool from_wire)
{
	struct rnicd_port_stats *st = &port->stats[w->index];

	struct capture *cap = port_capture(port);
	if (rn_unlikely(cap != NULL) && from_wire && !capture_frame(cap, r->m, CAPTURE_IN))
		st->capture_drops++;
	if (of_train(port, r, before))
		return;
	if (is_next_datagram(port, r, datagram)) {
		udp_frame(w, port, r, from_wire);
		return;
	}
	if (!parse(w, port, r, st))
		return;
	switch (r->p.kind) {
	case PKT_KIND_TCP: identify(w, port, r, before); break;
	case PKT_KIND_ARP: arp_frame(w, port, r, from_wire); break;
	case PKT_KIND_ICMP_ECHO:
		trim(r->m, &r->p);
		echo_frame(w, port, r);
		break;
	case PKT_KIND_UDP:
		note_datagram(port, r, datagram);
		udp_frame(w, port, r, from_wire);
		break;
	case PKT_KIND_IGMP: igmp_frame(w, port, r); break;
	case PKT_KIND_ICMP: icmp_frame(w, port, r); break;
	case PKT_KIND_OTHER:
	case PKT_KINDS:
		st->rx_other++;
		drop(r);
		break;
	}
}

/* As worker_csum_good(), for a TCP segment; counts the bytes that are summed. */
static bool segment_good(struct rnicd_worker *w, const struct rnicd_port *port, const struct rx *r)
{
	if (rn_likely(csum_known(port, r->m)))
		return true;
	w->tcp.rc.qp.stats.summed_rx += r->p.l4_len;
	return csum_computed(r->m, &r->p);
}

static inline bool stream_has_left(const struct flow *f)
{
	return f->kind == FLOW_STREAM && stream_is_over(rn_container_of(f, struct stream, flow));
}

/*
 * Third pass: hands a segment to its connection, stream or worker. True: the segment counts as wanted, since it was for
 * another worker, a stream, or a connection that exists. r->m: the frame that the caller must free, or NULL.
 */
static bool deliver(struct rnicd_worker *w, struct rnicd_port *port, struct rx *r)
{
	/* A flow in this worker's table is this worker's. The owner is computed only for other segments. */
	uint32_t owner = rn_likely(r->flow != NULL) ? w->index : flow_owner_of(port, &r->key, r->hash);

	if (rn_unlikely(owner != w->index)) {
		worker_move(w, port, r->m, owner);
		r->m = NULL;
		return true;
	}
	if (rn_unlikely(!segment_good(w, port, r) || r->group)) {
		port->stats[w->index].rx_bad_csum++;
		return false;
	}
	if (rn_unlikely(!worker_space(w))) {
		port->stats[w->index].rx_no_room++;
		return false;
	}
	/* an earlier segment of the burst may have opened the connection, or ended the stream */
	if (rn_unlikely(r->flow == NULL || stream_has_left(r->flow)))
		r->flow = flow_find(&w->flows, &r->key, r->hash);
	if (rn_unlikely(r->flow != NULL && r->flow->kind == FLOW_STREAM)) {
		stream_input(w, r->flow, r->m, &r->p);
		return true;
	}
	if (rn_unlikely(r->flow == NULL) && stream_stranger(w, r->m, &r->p, port->index))
		return false;
	r->m = conn_input(w, port, r->m, &r->p, r->flow);
	return r->flow != NULL;
}

/* The connection of a segment that begins a train of segments of one flow. NULL: none, or not known yet. */
static const struct rc_tcp *first_of(const struct rx *r)
{
	return r->m == NULL || r->follows || r->flow == NULL || r->flow->kind != FLOW_CONN
		       ? NULL
		       : &rn_container_of(r->flow, struct conn, flow)->qc;
}

/*
 * Handles a burst of n frames. from_wire: no other worker has seen the frames. Returns how many frames were wanted: for
 * connections, streams, datagram QPs and datagram sockets.
 */
static uint32_t burst(struct rnicd_worker *w, struct rte_mbuf **m, struct rnicd_port *const *port, uint32_t n,
		      bool from_wire)
{
	struct rx rx[WORKER_BURST];
	struct rte_mbuf *done[WORKER_BURST];
	uint32_t n_done = 0;
	const struct rx *before = NULL;
	struct datagram datagram;
	const uint32_t datagrams = w->ud_wanted;
	uint32_t wanted = 0;

	datagram.port = NULL;
	for (uint32_t i = 0; i < n; i++)
		rte_prefetch0(rte_pktmbuf_mtod(m[i], void *));
	for (uint32_t i = 0; i < n; i++) {
		rx[i].m = m[i];
		classify(w, port[i], &rx[i], before, &datagram, from_wire);
		if (rx[i].m != NULL)
			before = &rx[i];
	}
	before = NULL;
	qp_burst(&w->tcp.rc.qp, n);
	for (uint32_t i = 0; i < n; i++) {
		if (rx[i].m == NULL)
			continue;
		look_up(w, &rx[i], before);
		before = &rx[i];
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct rc_tcp *c = first_of(&rx[i]);
		if (c != NULL)
			rc_tcp_fetch(c);
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct rc_tcp *next = i + 1 < n ? first_of(&rx[i + 1]) : NULL;
		if (next != NULL)
			rc_tcp_fetch_queues(next);
		if (rx[i].m == NULL)
			continue;
		wanted += deliver(w, port[i], &rx[i]);
		if (rx[i].m != NULL)
			done[n_done++] = rx[i].m;
	}
	stream_settle(w);
	rte_pktmbuf_free_bulk(done, n_done);
	return wanted + (w->ud_wanted - datagrams);
}

static uint32_t from_port(struct rnicd_worker *w, struct rnicd_port *port)
{
	struct rte_mbuf *m[WORKER_BURST];
	struct rnicd_port *ports[WORKER_BURST];
	const uint32_t n = worker_read(w, port, m);

	for (uint32_t i = 0; i < n; i++)
		ports[i] = rn_likely(port->of == NULL) ? port : port->of;
	if (n != 0)
		worker_share(w, port, n, burst(w, m, ports, n, true));
	return n;
}

/* Handles frames from a ring or the loop, whose mbufs carry the index of their port. */
static void from_inside(struct rnicd_worker *w, struct rte_mbuf **m, uint32_t n)
{
	struct rnicd_port *ports[WORKER_BURST];

	for (uint32_t i = 0; i < n; i++)
		ports[i] = rnicd.port[m[i]->port]->of == NULL ? rnicd.port[m[i]->port] : rnicd.port[m[i]->port]->of;
	burst(w, m, ports, n, false);
}

static uint32_t from_rings(struct rnicd_worker *w)
{
	struct rte_mbuf *m[WORKER_BURST];
	uint32_t n = 0;

	if (rn_unlikely(rnicd.n_workers > 1)) {
		n = rte_ring_sc_dequeue_burst(w->sh.rx_moved, (void **)m, WORKER_BURST, NULL);
		w->more |= n == WORKER_BURST;
		if (n != 0)
			from_inside(w, m, n);
		uint32_t k = rte_ring_sc_dequeue_burst(w->sh.tx_moved, (void **)m, WORKER_BURST, NULL);
		for (uint32_t i = 0; i < k; i++)
			port_tx_push(&w->tx[m[i]->port], m[i]);
		n += k;
	}
	uint32_t k = 0;
	while (k < WORKER_BURST && w->loop_head != w->loop_tail)
		m[k++] = w->loop[w->loop_head++ % WORKER_LOOP];
	if (k != 0)
		from_inside(w, m, k);
	return n + k;
}

uint32_t worker_rx(struct rnicd_worker *w)
{
	uint32_t n = rn_likely(w->group_load == 0) ? 0 : ud_group_turn(w);

	w->more = false;
	for (uint32_t i = 0, lines = rnicd_lines(); i < lines; i++) {
		if (port_wire_is_empty(rnicd.port[i], w->index))
			w->share[i] = WORKER_BURST;
		else
			n += from_port(w, rnicd.port[i]);
	}
	n += from_rings(w);
	w->more |= w->loop_head != w->loop_tail;
	return n;
}
