/* SPDX-License-Identifier: BSD-3-Clause */
#include "border/policy.h"
#include "crc32c/crc32c.h"
#include "plane/frame.h"
#include "plane/worker_int.h"

#define SHARE      32u          /* datagrams that one QP may send before the next one's turn */
#define TURN_SHARE WORKER_BURST /* datagrams that leave in a turn, and messages whose time is over */

bool ud_add(struct ud_table *t, struct ud_qp *u, uint32_t port)
{
	if (t->used == t->max)
		return false;
	u->port = port;
	u->hash = ud_hash(rnicd.secret, port, u->qp.qpn);
	struct ud_qp **at = &t->slot[u->hash & t->mask];
	u->next = *at;
	*at = u;
	t->used++;
	return true;
}

void ud_del(struct ud_table *t, struct ud_qp *u)
{
	struct ud_qp **at = &t->slot[u->hash & t->mask];

	while (*at != NULL && *at != u)
		at = &(*at)->next;
	if (*at == NULL)
		return;
	*at = u->next;
	t->used--;
}

/* ---- receiving ---- */

/* IPv4's time to live or IPv6's hop limit. */
static uint8_t hop_limit(const uint8_t *frame, const struct pkt *p)
{
	return frame[p->l3_off + (p->ip_version == 4 ? 8 : 7)];
}

/* The payload in one piece, copied and summed in one pass. False: its CRC is wrong. */
static bool ud_gather(const struct rnicd_worker *w, const struct rte_mbuf *m, const struct pkt *p)
{
	uint8_t *to = w->ud_whole, *crc = to + p->payload_len - UDPL_CRC_LEN, good[UDPL_CRC_LEN];
	struct rn_iov iov[FRAME_MAX_SEGS];
	const uint32_t n = frame_iov(m, p->payload_off, p->payload_len - UDPL_CRC_LEN, iov, FRAME_MAX_SEGS);
	uint32_t sum = 0;

	if (n == UINT32_MAX)
		return false;
	for (uint32_t i = 0; i < n; to += iov[i++].len)
		sum = crc32c_copy(sum, to, iov[i].base, iov[i].len);
	udpl_crc_put(good, 0, sum);
	const void *is = rte_pktmbuf_read(m, (uint32_t)(p->payload_off + p->payload_len - UDPL_CRC_LEN), UDPL_CRC_LEN,
					  crc);
	return is != NULL && memcmp(is, good, UDPL_CRC_LEN) == 0;
}

void ud_deliver(struct rnicd_worker *w, struct qp *qp, const struct rte_mbuf *m, const struct pkt *p,
		const struct udpl_hdr *h, bool summed)
{
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	struct dgram_rx rx = { .p = frame + p->payload_off,
			       .len = p->payload_len,
			       .summed = summed,
			       .h = h,
			       .tos = p->ip_tos,
			       .hop_limit = hop_limit(frame, p) };

	if (rn_unlikely(m->nb_segs > 1)) {
		if (!ud_gather(w, m, p)) {
			w->tcp.rc.qp.stats.ud_crc++;
			return;
		}
		rx.p = w->ud_whole;
		rx.summed = true;
	}
	memcpy(rx.src, p->src.b, sizeof(rx.src));
	memcpy(rx.dst, p->dst.b, sizeof(rx.dst));
	w->ud_wanted++;
	dgram_in(&w->dgram, qp, &rx);
}

/* A message for the connection manager, which is the control thread. */
static void to_cm(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m, const struct pkt *p,
		  const struct udpl_hdr *h)
{
	const uint8_t *payload = rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off);
	struct event *ev;

	if (h->body_len > sizeof(ev->sidr.body) || h->dst_qpn != UDPL_QPN_CM) {
		w->tcp.rc.qp.stats.ud_bad++;
		return;
	}
	if (!udpl_crc_good(payload, p->payload_len)) {
		w->tcp.rc.qp.stats.ud_crc++;
		return;
	}
	ev = event_room(w->index, EVENT_DROPPABLE);
	if (ev == NULL) { /* the peer asks again */
		port->stats[w->index].rx_no_room++;
		return;
	}
	ev->type = EVENT_SIDR;
	ev->sidr.port = port->index;
	ev->sidr.kind = h->kind;
	ev->sidr.from = (struct ipc_addr){ .port = 0 };
	memcpy(ev->sidr.from.ip, p->src.b, sizeof(ev->sidr.from.ip));
	ev->sidr.len = h->body_len;
	memcpy(ev->sidr.body, payload + UDPL_HDR_LEN, h->body_len);
	event_put(w->index);
}

/* Whether the UDP ports are those of the destination QPN, and of the source QPN if that has a port of its own. */
static bool ports_good(const struct rnicd_port *port, const struct pkt *p, const struct udpl_hdr *h)
{
	return p->dport == udpl_port(h->dst_qpn, port->cfg->ud_port) && p->sport == udpl_port(h->src_qpn, p->sport);
}

void ud_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p, bool from_wire)
{
	struct rnicd_port_stats *st = &port->stats[w->index];
	const bool common = rn_likely(p->dport == port->cfg->ud_port);
	struct udpl_hdr h;

	if (port->cfg->ud_port == 0 || (!common && pkt_addr_is_group(&p->dst))) {
		st->rx_other++;
		goto out;
	}
	const bool longer = rn_unlikely(m->pkt_len > p->l3_off + port->mtu); /* reassembled from fragments */
	if (rn_unlikely(m->nb_segs > 1 && !longer)) {
		struct rte_mbuf *whole = frame_copy(port->pool, m);
		rte_pktmbuf_free(m);
		if (whole == NULL) {
			st->no_buffer++;
			return;
		}
		m = whole;
	}
	/* the options in the IP header may have left the first fragment no room for the message's header */
	if (rn_unlikely(longer) && m->data_len < p->payload_off + UDPL_HDR_LEN) {
		w->tcp.rc.qp.stats.ud_bad++;
		goto out;
	}
	if (common && rd_port_wants(rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off), p->payload_len) &&
	    !longer) {
		rd_port_input(w, port, m, p);
		return;
	}
	if (udpl_parse(rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off), p->payload_len, &h) != UDPL_OK ||
	    !ports_good(port, p, &h)) {
		w->tcp.rc.qp.stats.ud_bad++;
		goto out;
	}
	/* datagrams for groups, sockets and the connection manager always fit a packet */
	if (rn_unlikely(longer) && (pkt_addr_is_group(&p->dst) || udpl_is_sock(h.dst_qpn) || udpl_for_cm(h.kind))) {
		w->tcp.rc.qp.stats.ud_bad++;
		goto out;
	}
	if (rn_unlikely(pkt_addr_is_group(&p->dst))) {
		ud_group_input(w, port, m, p, &h, from_wire);
		return;
	}
	if (rn_unlikely(udpl_is_sock(h.dst_qpn))) {
		gram_iwarp_input(w, port, m, p, &h);
		return;
	}
	const uint32_t hash = ud_hash(rnicd.secret, port->index, h.dst_qpn);
	const uint32_t owner = flow_owner(hash, rnicd.n_workers);
	if (rn_unlikely(owner != w->index)) {
		worker_move(w, port, m, owner);
		return;
	}
	/* a frame to a group's MAC and a unicast IP address is for no host (RFC 1122, section 3.3.6) */
	if (rn_unlikely(!worker_csum_good(port, m, p) || (rte_pktmbuf_mtod(m, uint8_t *)[0] & 1) != 0)) {
		st->rx_bad_csum++;
		goto out;
	}
	if (rn_unlikely(!worker_space(w))) {
		st->rx_no_room++;
		goto out;
	}
	if (rn_unlikely(udpl_for_cm(h.kind))) {
		if (conn_answer_allowed(w, port))
			to_cm(w, port, m, p, &h);
		goto out;
	}
	struct ud_qp *u = ud_find(&w->uds, port->index, h.dst_qpn, hash);
	if (u != NULL && rn_likely(qp_get_type(&u->qp) == QP_UD))
		ud_deliver(w, &u->qp, m, p, &h, false);
	else
		w->tcp.rc.qp.stats.ud_no_qp++;
out:
	rte_pktmbuf_free(m);
}

uint32_t ud_timers(struct rnicd_worker *w)
{
	uint32_t n = 0;

	if (rn_unlikely(w->tcp.turns.behind)) /* the next segment of a message may be among the frames not read yet */
		return 0;
	/* many records may be due at once, and again after each timeout: a record whose CQ is full stays open */
	while (n < TURN_SHARE && worker_space(w) && dgram_timer(&w->dgram))
		n++;
	return n;
}

void ud_records(const struct rnicd_worker *w, const struct cmd_look_records *l)
{
	struct look_record *out = &l->r[w->index * LOOK_RECORDS];
	uint32_t n = 0;

	rn_list_each(const struct dgram_msg, m, &w->dgram.open, link) {
		uint32_t qpn;
		const struct qp *qp = dgram_msg_qp(m, &qpn);

		if (n == LOOK_RECORDS)
			break;
		out[n++] = (struct look_record){ .port = rn_container_of(qp, const struct ud_qp, qp)->port,
						 .qpn = qpn,
						 .record = m->record,
						 .of = m->key,
						 .valid = m->valid,
						 .total = m->total,
						 .waited = w->now - m->at };
	}
	l->n[w->index] = n;
}

/* ---- sending ---- */

uint32_t ud_headers_len(const struct rnicd_port *port) { return port_l2_len(port) + port_ip_len(port) + PKT_UDP_LEN; }

/* Makes the way to the destination. False: no route, or no free ARP entry. */
static bool make_way(struct rnicd_worker *w, struct rnicd_port *port, struct ud_way *way, const struct ud_dest *to)
{
	struct pkt_flow f = { .src = port->cfg->ip,
			      .dst = *to->addr,
			      .sport = to->sport,
			      .dport = to->dport,
			      .tos = to->tos,
			      .ttl = to->ttl };

	*way = (struct ud_way){ .group = pkt_addr_is_group(to->addr),
				.tos = to->tos,
				.ttl = to->ttl,
				.sport = to->sport,
				.dport = to->dport,
				.dst = *to->addr };
	f.l2.vlan = port->cfg->vlan;
	memcpy(f.l2.src, port->mac, PKT_MAC_LEN);
	if (way->group) {
		pkt_group_mac(f.l2.dst, to->addr);
		way->made = pkt_addr_is_ip4(&port->cfg->ip);
	} else if (pkt_addr_eq(to->addr, &port->cfg->ip)) {
		memcpy(f.l2.dst, port->mac, PKT_MAC_LEN);
		way->made = true;
	} else {
		const struct pkt_addr *hop = conn_next_hop(port, to->addr);
		if (hop == NULL || !pkt_addr_is_ip4(hop))
			return false;
		way->neigh = neigh_get(w, port, hop);
		if (way->neigh == NULL)
			return false;
		way->neigh_gen = way->neigh->gen;
		memcpy(f.l2.dst, way->neigh->mac, PKT_MAC_LEN);
		way->made = true;
	}
	pkt_udp_template_init(&way->tmpl, &f);
	return way->made;
}

/* Whether the way is still as it was made; keeps the neighbour's entry in use. */
static inline bool way_good(const struct rnicd_worker *w, const struct ud_way *way)
{
	struct arp_entry *e = way->neigh;

	if (e == NULL)
		return true;
	if (!arp_fresh(e, w->now) || e->gen != way->neigh_gen)
		return false;
	e->last_use = w->now;
	return true;
}

/* The way to the destination; NULL: no route, or no free ARP entry. */
static const struct ud_way *way_to(struct rnicd_worker *w, struct rnicd_port *port, const struct ud_dest *to)
{
	struct ud_way *way = &w->ud_way[port->index][to->addr->b[15] % UD_WAYS];

	if (rn_likely(way->made && pkt_addr_eq(&way->dst, to->addr) && way->sport == to->sport &&
		      way->dport == to->dport && way->tos == to->tos && way->ttl == to->ttl && way_good(w, way)))
		return way;
	return make_way(w, port, way, to) ? way : NULL;
}

/* Sends m to the device itself. A datagram longer than the MTU is cut only for a capture, which records frames. */
static void ud_loop(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m)
{
	struct rte_mbuf *out[PKT_FRAG_EACH];

	if (rn_likely(m->nb_segs == 1 || port_capture(port) == NULL)) {
		conn_loop(w, port, m);
		return;
	}
	uint32_t n = frag_cut(w, port, m, out);
	for (uint32_t i = 0; i < n; i++)
		conn_loop(w, port, out[i]);
}

uint32_t ud_launch_to(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct ud_dest *to,
		      uint32_t len)
{
	/* with several buffers the checksum is open until they are cut, or for good on the device's own loop */
	const bool offload = port->caps.tx_csum || m->nb_segs > 1;
	const struct ud_way *way = way_to(w, port, to);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t weight = m->nb_segs;

	if (rn_unlikely(way == NULL)) {
		w->tx[port->index].st->tx_drops++;
		rte_pktmbuf_free(m);
		return weight;
	}
	const uint32_t hdr = (uint32_t)way->tmpl.l2_len + way->tmpl.l3_len + PKT_UDP_LEN;
	pkt_udp_template_build(&way->tmpl, len, offload ? 0 : pkt_sum(frame + hdr, len),
			       offload ? PKT_CSUM_PSEUDO : PKT_CSUM_FULL, frame);
	m->pkt_len = hdr + len;
	if (rn_likely(m->nb_segs == 1))
		m->data_len = (uint16_t)(hdr + len);
	if (offload) {
		m->tx_offload = rte_mbuf_tx_offload(way->tmpl.l2_len, way->tmpl.l3_len, PKT_UDP_LEN, 0, 0, 0, 0);
		m->ol_flags |= RTE_MBUF_F_TX_UDP_CKSUM |
			       (way->tmpl.l3_len == PKT_IP4_LEN ? RTE_MBUF_F_TX_IPV4 : RTE_MBUF_F_TX_IPV6);
	}
	if (rn_likely(way->neigh != NULL)) {
		if (rn_likely(arp_usable(way->neigh)) || !arp_park(w->arp[port->index], way->neigh, m))
			frag_push(w, port, m);
	} else if (way->group) {
		/* a QP's datagram fits a packet; a socket's may be for another port */
		if (rn_likely(m->nb_segs == 1 && to->dport == port->cfg->ud_port))
			weight += ud_group_loop(w, port, m, to->addr);
		frag_push(w, port, m);
	} else {
		ud_loop(w, port, m);
	}
	return weight;
}

uint32_t ud_launch(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct dgram_to *to,
		   uint32_t len)
{
	struct ud_dest d = { .addr = (const struct pkt_addr *)to->addr,
			     .sport = udpl_port(to->src_qpn, port->cfg->ud_port),
			     .dport = udpl_port(to->dst_qpn, port->cfg->ud_port) };

	if (rn_unlikely(pkt_addr_is_group(d.addr)))
		d.ttl = (uint8_t)rn_max_u32(to->hop_limit, 1);
	return ud_launch_to(w, port, m, &d, len);
}

void ud_send(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *to, const uint8_t *p, uint32_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
	struct dgram_to dst = { .hop_limit = 0 };

	if (m == NULL) {
		port->stats[w->index].no_buffer++;
		return;
	}
	memcpy(dst.addr, to->b, sizeof(dst.addr));
	memcpy(rte_pktmbuf_mtod_offset(m, uint8_t *, ud_headers_len(port)), p, len);
	ud_launch(w, port, m, &dst, len);
}

bool ud_room(const struct rnicd_worker *w, const struct rnicd_port *port)
{
	return port_tx_room(&w->tx[port->index]) > 0 && w->loop_tail - w->loop_head < WORKER_LOOP;
}

/*
 * Sends the next datagram of a queue pair whose segments may be longer than a packet, in one buffer for each fragment.
 * False: there is no room for it now.
 */
static bool send_long(struct rnicd_worker *w, struct rnicd_port *port, struct qp *qp, uint32_t *count)
{
	const uint32_t len = dgram_next(&w->dgram, qp), n = frag_buffers(port, len + PKT_UDP_LEN);
	uint32_t hdr = ud_headers_len(port), left = len, k = 0;
	struct rn_iov room[PKT_FRAG_EACH];
	struct dgram_to to;

	if (len == 0)
		return true;
	struct rte_mbuf *m = port_tx_free(&w->tx[port->index]) >= n ? frag_chain(port, n) : NULL;
	if (m == NULL)
		return false;
	for (struct rte_mbuf *b = m; b != NULL; b = b->next, hdr = 0) {
		const uint32_t step = n == 1 ? len : pkt_frag_step(port->mtu) - (hdr != 0 ? PKT_UDP_LEN : 0);

		room[k] = (struct rn_iov){ rte_pktmbuf_mtod_offset(b, uint8_t *, hdr), rn_min_u32(step, left) };
		b->data_len = (uint16_t)(hdr + room[k].len);
		left -= room[k++].len;
	}
	if (dgram_out_to(&w->dgram, qp, room, &to) != len) { /* the memory to be sent is no longer registered */
		rte_pktmbuf_free(m);
		return true;
	}
	*count += ud_launch(w, port, m, &to, len);
	return true;
}

static bool sends_long(const struct qp *qp)
{
	const struct dgram_msgs *g = dgram_msgs_of(qp);

	return g != NULL && g->unit != g->group_unit;
}

/* Sends about `share` frames at most. True when the QP has nothing more to send now. */
static bool send_some(struct rnicd_worker *w, struct qp *qp, uint32_t share, uint32_t *count)
{
	struct rnicd_port *port = rnicd.port[ud_of(qp)->port];
	const bool is_long = sends_long(qp);
	const uint32_t end = *count + share;
	struct dgram_to to;

	while (*count < end) {
		if (!dgram_waits(qp))
			return true;
		if (!worker_space(w) || !ud_room(w, port))
			return false;
		if (rn_unlikely(is_long)) {
			if (!send_long(w, port, qp, count))
				return false;
			continue;
		}
		struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);
		if (m == NULL)
			return false;
		uint32_t len = dgram_out(&w->dgram, qp, rte_pktmbuf_mtod_offset(m, uint8_t *, ud_headers_len(port)),
					 &to);
		if (rn_unlikely(len == 0)) {
			rte_pktmbuf_free(m);
			continue;
		}
		*count += ud_launch(w, port, m, &to, len);
	}
	return false;
}

void ud_finish(struct rnicd_worker *w, struct ud_qp *u)
{
	uint32_t count = 0;

	(void)send_some(w, &u->qp, SHARE, &count);
}

uint32_t ud_transmit(struct rnicd_worker *w)
{
	struct rn_slist parked = { NULL, NULL };
	uint32_t count = 0, looks = 0;
	struct qp *qp;

	/* A look at a queue pair whose device has no room uses up a datagram's part of the turn. */
	while (count + looks < TURN_SHARE && (qp = dgram_pop(&w->dgram)) != NULL) {
		const uint32_t before = count;
		if (send_some(w, qp, SHARE, &count))
			continue;
		looks += count == before;
		rn_slist_push_back(&parked, &qp->link);
	}
	const bool more = !rn_slist_empty(&w->dgram.ready); /* they may be of a device that has room */
	while ((qp = rn_slist_pop(&parked, struct qp, link)) != NULL)
		dgram_put(&w->dgram, qp);
	return count + more;
}
