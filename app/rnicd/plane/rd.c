/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: sends packets of flows as frames, and passes data and results between flows and pairs. */
#include "plane/rd.h"

#include <rte_random.h>

#include "base/rn_seq.h"
#include "border/flow_owner.h"
#include "crc32c/crc32c.h"
#include "plane/rd_fold.h"
#include "plane/rd_peer.h"
#include "plane/worker_int.h"

#define ACK_DELAY    (50 * RN_NS_PER_US)
#define RD_SPORTS    0xc000u /* UDP source ports of flows lie above this one: RFC 6335's dynamic ports */
#define TURN_SHARE   WORKER_BURST
#define PAIR_SHARE   8u                 /* packets that one pair may send before the next pair's turn */
#define TURN_LOOKS   256u               /* pairs and queues that rd_look() looks at in a turn, and timers of peers */
#define TURN_BLOCKED 16u                /* so many pairs that find no free packet end a turn's search */
#define LONG_AGO     (10 * RN_NS_PER_S) /* longer than any packet is on the way */

#define PATIENCE (5 * RN_NS_PER_S)

/* ---- frames ---- */

/* Each flow has a source port of its own: an adapter's RSS and a network with several paths tell flows apart by it. */
static uint16_t flow_sport(const struct rnicd_port *port, const struct udpr_hdr *h)
{
	const uint32_t pair = h->src_worker % RD_NUMBERS * RD_NUMBERS + h->dst_worker % RD_NUMBERS;

	return pair == 0 ? port->cfg->ud_port : (uint16_t)(RD_SPORTS + pair);
}

static void send_packet(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *to,
			const struct udpr_hdr *h, const struct rd_packet *body)
{
	const struct ud_dest dest = { .addr = to, .sport = flow_sport(port, h), .dport = port->cfg->ud_port };
	struct rte_mbuf *m = rte_pktmbuf_alloc(port->pool);

	if (m == NULL) { /* as if the network had lost the packet */
		port->stats[w->index].no_buffer++;
		return;
	}
	uint8_t *b = rte_pktmbuf_mtod_offset(m, uint8_t *, ud_headers_len(port));
	uint32_t len = udpr_build(b, h), sum = crc32c(0, b, len);
	if (body != NULL) {
		sum = crc32c_copy(sum, b + len, body->b, body->len);
		len += body->len;
	}
	udpl_crc_put(b, len, sum);
	ud_launch_to(w, port, m, &dest, len + UDPL_CRC_LEN);
}

/* Gives a packet, which the caller has filled, to the flow to the peer. Opens the flow if it is closed. */
static void flow_give(struct rd_port *r, struct rd_peer *p, struct rd_packet *packet, uint64_t now)
{
	uint32_t flow;

	rd_peer_touch(r, p);
	if (rn_likely(udpr_tx_send(&p->tx, (uintptr_t)packet, now)))
		return;
	/* The flow is closed, as it was not used for long, or never. */
	do
		flow = (uint32_t)rte_rand();
	while (flow == 0);
	p->tx.src_worker = r->number;
	p->tx.dst_worker = p->number;
	udpr_tx_open(&p->tx, &r->flow_cfg, p->ring->pkt, RD_RING, flow);
	if (!udpr_tx_send(&p->tx, (uintptr_t)packet, now))
		rd_packet_back(r, p, packet);
}

/* The number of the worker of the peer's device to which a packet goes. numbers: how many workers this device has. */
static uint32_t number_of(const struct rd_packet *packet, uint32_t numbers)
{
	struct rd_hdr h;

	return rd_parse(packet->b, packet->len, &h) ? rd_number(h.dst_qpn, numbers) : 0;
}

/* Whether all packets in the flow are for the worker that the flow leads to. */
static bool all_are_for(const struct rd_peer *p)
{
	for (uint32_t n = p->tx.una; n != p->tx.end; n++)
		if (number_of(rd_packet_of(udpr_tx_pkt(&p->tx, n)->user), p->numbers) != p->number)
			return false;
	return true;
}

/*
 * The peer's device has told how many workers it has. Until then all packets for the device were given to the flow to
 * its first worker, and this flow has sent none of them yet. Packets for other workers now move to their own flows.
 */
static void numbers_in(struct rd_port *r, struct rd_peer *p, uint32_t numbers, uint64_t now)
{
	uint64_t back[RD_RING];
	uint32_t n = 0;
	bool lost = false;

	rd_peer_set_numbers(r, &p->addr, rn_min_u32(rn_max_u32(numbers, 1), RD_NUMBERS));
	if (p->ring == NULL || all_are_for(p))
		return;
	while (udpr_tx_back(&p->tx, &back[n]))
		n++;
	for (uint32_t i = 0; i < n; i++) {
		struct rd_packet *packet = rd_packet_of(back[i]);
		struct rd_peer *to = rd_peer_get(r, &p->addr, number_of(packet, p->numbers), now);
		const uint8_t tenant = packet->tenant;

		rd_packet_back(r, p, packet);
		if (to != NULL && rd_any_room(r, to)) /* takes the packet that was given back last */
			flow_give(r, to, rd_packet_take(r, to, tenant), now);
		else
			lost = true;
	}
	if (lost)
		rd_lost(&r->d, p->addr.b);
}

/* ---- receiving ---- */

/* Whether the flow takes the packet. A packet that is not taken is counted. */
static bool data_taken(struct rd_port *r, struct rd_peer *p, const struct udpr_hdr *h, uint64_t now)
{
	const enum udpr_verdict v = udpr_rx_data(&p->rx, h, now);

	p->stats.packets_in += v == UDPR_OK;
	p->stats.twice += v == UDPR_TWICE;
	r->drops.twice += v == UDPR_TWICE;
	r->drops.far += v == UDPR_FAR;
	return v == UDPR_OK;
}

/* Passes the contents of a DATA packet of an open flow to its queue pair. */
static void body_in(struct rnicd_worker *w, struct rd_port *r, struct rd_peer *p, const uint8_t *b,
		    const struct udpr_hdr *h)
{
	uint8_t answer[RD_ANSWER_MAX];
	struct rd_hdr rh;

	if (!rd_parse(b + h->body, h->body_len, &rh)) {
		r->d.stats.bad += data_taken(r, p, h, w->now);
		return;
	}
	struct ud_qp *u = ud_find(&w->uds, r->port, rh.dst_qpn, ud_hash(rnicd.secret, r->port, rh.dst_qpn));
	struct qp *qp = u != NULL ? &u->qp : NULL;
	const struct rd_rx rx = { .p = b + h->body, .len = h->body_len, .h = &rh, .addr = p->addr.b };
	if (!data_taken(r, p, h, w->now))
		return;
	w->ud_wanted++;
	const uint32_t len = rd_in(&r->d, qp, &rx, answer);
	if (len == 0)
		return;
	if (!rd_answer_room(r, p)) {
		r->drops.no_room++;
		return;
	}
	struct rd_packet *packet = rd_packet_take(r, p, RD_NOBODY);
	packet->len = len;
	memcpy(packet->b, answer, len);
	flow_give(r, p, packet, w->now);
}

static void data_in(struct rnicd_worker *w, struct rd_port *r, const struct pkt_addr *from, const uint8_t *b,
		    const struct udpr_hdr *h)
{
	struct rd_peer *p = rd_peer_find(r, from, h->src_worker);
	struct udpr_rx fresh;
	struct udpr_hdr out;

	if (rn_unlikely(p == NULL))
		rd_fold_rx(r, from, h->src_worker, w->now, &fresh);
	if (udpr_rx_open(p != NULL ? &p->rx : &fresh, rnicd.secret, from->b, sizeof(from->b), h, w->now) != UDPR_OK) {
		r->drops.unknown++;
		if (conn_answer_allowed(w, rnicd.port[r->port])) {
			udpr_unknown(h, &out);
			send_packet(w, rnicd.port[r->port], from, &out, NULL);
		}
		return;
	}
	if (rn_unlikely(p == NULL)) {
		p = rd_peer_take(r, from, h->src_worker, w->now);
		if (p == NULL)
			return;
		p->rx = fresh;
	}
	rd_peer_touch(r, p);
	if (rn_unlikely(w->late))
		udpr_rx_late(&p->rx);
	body_in(w, r, p, b, h);
}

/*
 * Whether the packet that the answer echoes may have been sent before this worker last stood still. The packet's time
 * stamp is that of its turn, and the worker may have stood still in this turn before the packet left.
 */
static bool from_before(const struct rnicd_worker *w, const struct udpr_hdr *h)
{
	return w->now - w->stood < LONG_AGO && rn_seq_le(h->stamp, (uint32_t)(w->stood / RN_NS_PER_US));
}

static void answer_in(struct rnicd_worker *w, struct rd_port *r, const struct pkt_addr *from, struct udpr_hdr *h)
{
	struct rd_peer *p = rd_peer_find(r, from, h->src_worker);

	h->flags |= w->late || from_before(w, h) ? UDPR_F_LATE : 0;
	if (p == NULL || udpr_tx_in(&p->tx, h, w->now) != UDPR_OK) {
		r->drops.strange++;
		return;
	}
	w->ud_wanted++;
	rd_peer_touch(r, p);
	if (h->kind == UDPR_COOKIE)
		numbers_in(r, p, h->number, w->now);
}

/* Answers a HELLO. Any worker may do so, even one without queue pairs: the COOKIE tells how many workers there are. */
static void hello_in(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *from,
		     const struct udpr_hdr *h)
{
	struct rd_port *r = w->rd[port->index];
	struct udpr_hdr out;

	if (!conn_hello_allowed(w, port, r != NULL && rd_peer_known(r, from)))
		return;
	udpr_cookie_make(rnicd.secret, from->b, sizeof(from->b), h, w->now, &out);
	out.number = rd_numbers() > 1 ? rd_numbers() : 0;
	send_packet(w, port, from, &out, NULL);
}

/* A packet whose checksum is good. */
static void packet_in(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *from, const uint8_t *b,
		      uint32_t len)
{
	struct rd_port *r = w->rd[port->index];
	struct udpr_hdr h;

	if (r == NULL && rd_numbers() == 1) {
		w->tcp.rc.qp.stats.ud_no_qp++;
	} else if (udpr_parse(b, len, &h) != UDPR_OK || h.src_worker >= RD_NUMBERS ||
		   (h.kind != UDPR_HELLO && h.dst_worker >= rd_numbers())) {
		w->tcp.rc.qp.stats.ud_bad++;
	} else if (!udpl_crc_good(b, len)) {
		w->tcp.rc.qp.stats.ud_crc++;
	} else if (h.kind == UDPR_HELLO) {
		hello_in(w, port, from, &h);
	} else if (r == NULL) {
		w->tcp.rc.qp.stats.ud_no_qp++;
	} else if (h.kind == UDPR_DATA) {
		data_in(w, r, from, b, &h);
	} else {
		answer_in(w, r, from, &h);
	}
}

void rd_port_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p)
{
	const uint8_t *b = rte_pktmbuf_mtod_offset(m, const uint8_t *, p->payload_off);
	/* A packet that is too short to have a worker's number is dropped by worker 0. */
	const uint32_t number = p->payload_len < UDPR_HDR_LEN ? 0 : udpr_dst_worker(b) % rd_numbers();
	struct rnicd_port_stats *st = &port->stats[w->index];

	if (rd_owner(port->index, number) != w->index) {
		worker_move(w, port, m, rd_owner(port->index, number));
		return;
	}
	if (!worker_csum_good(port, m, p) || (rte_pktmbuf_mtod(m, uint8_t *)[0] & 1) != 0 || pkt_addr_is_group(&p->dst))
		st->rx_bad_csum++;
	else if (worker_space(w))
		packet_in(w, port, &p->src, b, p->payload_len);
	else
		st->rx_no_room++;
	rte_pktmbuf_free(m);
}

/* ---- a turn ---- */

/* Whether a flow to the device has been opened and is not lost. */
static bool any_lives(struct rd_port *r, const struct pkt_addr *addr)
{
	for (const struct rd_peer *p = rd_peer_first(r, addr); p != NULL; p = p->next)
		if (pkt_addr_eq(&p->addr, addr) && (p->tx.state == UDPR_OPENING || p->tx.state == UDPR_OPEN))
			return true;
	return false;
}

/* Lets as many of the pairs that wait at the peer go on as the flow to the peer has room for packets. */
static void pairs_go_on(struct rd_port *r, struct rd_peer *p)
{
	for (uint32_t room = rd_flow_room(p); room > 0 && rd_unpark(&r->d, &p->full); room--)
		;
}

/*
 * Frees packets whose fate is known. If the flow is lost, all pairs with the peer's device end. False: no room for
 * effects.
 */
static bool flow_fates(struct rnicd_worker *w, struct rd_port *r, struct rd_peer *p)
{
	const bool lost = p->tx.state == UDPR_LOST;
	uint64_t packet;
	bool ok;

	if (lost && !worker_space(w))
		return false;
	while (udpr_tx_done(&p->tx, &packet, &ok))
		rd_packet_back(r, p, rd_packet_of(packet));
	rd_peer_windows(r, p);
	if (lost) {
		p->stats.lost++;
		r->drops.lost++;
		if (!any_lives(r, &p->addr)) /* the device may have restarted with another number of workers */
			rd_peer_set_numbers(r, &p->addr, 0);
		p->tx = (struct udpr_tx){ .last_sent = p->tx.last_sent };
		rd_lost(&r->d, p->addr.b);
	}
	pairs_go_on(r, p);
	return true;
}

static void flows_look(struct rnicd_worker *w, struct rd_port *r)
{
	struct rn_timer *t;

	for (uint32_t n = 0; n < TURN_LOOKS && (t = rn_wheel_pop(&r->wheel, w->now)) != NULL; n++)
		rd_peer_touch(r, rn_container_of(t, struct rd_peer, timer));
	rn_slist_each(struct rd_peer, p, &r->touched, link) {
		udpr_tx_tick(&p->tx, w->now);
		if (!flow_fates(w, r, p))
			return;
	}
}

enum gives {
	GIVES_ALL,   /* the pair has no more packets now */
	GIVES_SHARE, /* the pair has sent PAIR_SHARE packets: other pairs are next */
	GIVES_PART,  /* the turn has no more room, or the device's pools have none for the pair's tenant */
	GIVES_FULL   /* the flow has no more room: the pair waits in rd_peer.full */
};

/* Gives the pair's next packet to its flow, which has room. False: there is none. */
static bool pair_gives_one(struct rd_port *r, struct rd_peer *p, struct rd_pair *x, uint64_t now)
{
	if (!rd_more(&r->d, x))
		return false;
	struct rd_packet *packet = rd_packet_take(r, p, x->tenant);

	packet->len = rd_out(&r->d, x, packet->b);
	if (rn_unlikely(packet->len == 0)) {
		rd_packet_back(r, p, packet);
		return false;
	}
	flow_give(r, p, packet, now);
	return true;
}

/* Gives a pair's packets to its flow, as many as the flow takes, PAIR_SHARE at most. *n counts them. */
static enum gives pair_give(struct rnicd_worker *w, struct rd_port *r, struct rd_pair *x, uint32_t *n)
{
	struct pkt_addr to;
	struct rd_peer *p;
	const uint8_t tenant = x->tenant;
	uint32_t numbers, given = 0;

	memcpy(to.b, x->addr, sizeof(to.b));
	numbers = rd_peer_numbers(r, &to); /* if not known: the first worker's COOKIE tells, and numbers_in() goes on */
	p = rd_peer_get(r, &to, numbers != 0 ? rd_number(x->peer_qpn, numbers) : 0, w->now);
	if (p == NULL) {
		rd_lost(&r->d, to.b);
		return GIVES_ALL;
	}
	while (worker_space(w) && rd_packet_room(r, p, tenant)) {
		if (given++ == PAIR_SHARE)
			return GIVES_SHARE;
		if (!pair_gives_one(r, p, x, w->now)) {
			(void)rd_unpark(&r->d, &p->full); /* another pair uses the room that this pair does not need */
			return GIVES_ALL;
		}
		(*n)++;
	}
	if (rd_flow_room(p) > 0)
		return GIVES_PART;
	rd_park(x, &p->full);
	return GIVES_FULL;
}

static uint32_t pairs_give(struct rnicd_worker *w, struct rd_port *r)
{
	uint32_t n = 0, blocked = 0;
	struct rd_pair *x;

	while (n < TURN_SHARE && blocked < TURN_BLOCKED && worker_space(w) && (x = rd_pop(&r->d)) != NULL) {
		const uint64_t before = n, locals = r->d.qp->stats.locals;
		const enum gives g = pair_give(w, r, x, &n);
		if (g == GIVES_PART || g == GIVES_SHARE)
			rd_put(&r->d, x);
		blocked += g == GIVES_PART;
		n += n == before && r->d.qp->stats.locals != locals; /* work that sends nothing counts as a packet */
	}
	return n;
}

/* Sends the ACK that is due, then packets, which may use up the device's room. False: the device takes no more. */
static bool flow_send(struct rnicd_worker *w, struct rd_port *r, struct rd_peer *p, uint32_t *n)
{
	const struct rnicd_port *port = rnicd.port[r->port];
	struct udpr_hdr h;
	uint64_t packet;

	if (udpr_rx_due(&p->rx, ACK_DELAY) <= w->now && ud_room(w, port)) {
		udpr_rx_ack(&p->rx, w->now, &h);
		send_packet(w, rnicd.port[r->port], &p->addr, &h, NULL);
		(*n)++;
	}
	while (ud_room(w, port) && udpr_tx_next(&p->tx, w->now, &h, &packet)) {
		const bool data = h.kind == UDPR_DATA, again = data && udpr_tx_pkt(&p->tx, h.number)->again;

		send_packet(w, rnicd.port[r->port], &p->addr, &h, data ? rd_packet_of(packet) : NULL);
		p->stats.again += again;
		r->drops.again += again;
		p->stats.packets_out += data && !again;
		(*n)++;
	}
	return ud_room(w, port);
}

/*
 * When the peer is forgotten if its flows carry nothing more. The next packet to the peer makes it and opens a flow
 * anew.
 */
static uint64_t idle_due(const struct rd_peer *p)
{
	return rnicd.cfg.rd_idle_ns != 0 ? udpr_rest_due(&p->tx, &p->rx, rnicd.cfg.rd_idle_ns) : RN_NEVER;
}

static uint32_t flows_send(struct rnicd_worker *w, struct rd_port *r)
{
	struct rd_peer *p;
	uint32_t n = 0;

	while ((p = rn_slist_pop(&r->touched, struct rd_peer, link)) != NULL) {
		p->touched = false;
		const bool more = flow_send(w, r, p, &n);
		pairs_go_on(r, p);
		uint64_t due = rn_min_u64(udpr_tx_timer(&p->tx, w->now), udpr_rx_due(&p->rx, ACK_DELAY));

		if (!more || p->tx.state == UDPR_LOST || (due == RN_NEVER && !rn_slist_empty(&p->full)))
			due = w->now;
		if (due == RN_NEVER && (due = idle_due(p)) <= w->now) {
			r->drops.idle++;
			rd_peer_drop(r, p);
		} else if (due != RN_NEVER) {
			rn_wheel_arm(&r->wheel, &p->timer, rn_max_u64(due, w->now));
		} else {
			rn_wheel_disarm(&r->wheel, &p->timer);
		}
	}
	return n;
}

static bool has_rd(const struct rnicd_worker *w) { return rn_unlikely(w->rd_any); }

void rd_port_recvs(struct rnicd_worker *w)
{
	for (uint32_t i = 0; has_rd(w) && i < rnicd.n_ports; i++)
		if (w->rd[i] != NULL)
			rd_recvs(&w->rd[i]->d);
}

uint32_t rd_port_turn(struct rnicd_worker *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; has_rd(w) && i < rnicd.n_ports; i++) {
		struct rd_port *r = w->rd[i];

		if (r == NULL)
			continue;
		flows_look(w, r);
		if (r->sweep_at <= w->now)
			rd_fold_sweep(r, w->now);
		if (rd_timer(&r->d) <= w->now && worker_space(w))
			rd_tick(&r->d);
		for (uint32_t k = 0; k < TURN_LOOKS && worker_space(w) && rd_look(&r->d); k++)
			n++;
		n += pairs_give(w, r);
		n += flows_send(w, r);
	}
	return n;
}

uint64_t rd_port_due(const struct rnicd_worker *w)
{
	uint64_t due = RN_NEVER;

	for (uint32_t i = 0; has_rd(w) && i < rnicd.n_ports; i++)
		if (w->rd[i] != NULL)
			due = rn_min_u64(rn_min_u64(due, w->rd[i]->sweep_at),
					 rn_min_u64(rn_wheel_next(&w->rd[i]->wheel), rd_timer(&w->rd[i]->d)));
	return due;
}

void rd_port_join(struct rnicd_worker *w, struct rd_port *r)
{
	if (w->rd[r->port] != NULL)
		return;
	r->d.qp = &w->tcp.rc.qp;
	r->d.stood = &w->tcp.turns.lost;
	r->flow_cfg = (struct udpr_cfg){
		.target = 100 * RN_NS_PER_US, .patience = PATIENCE, .ack_delay = ACK_DELAY, .stood = &w->tcp.turns.lost
	};
	rn_wheel_init(&r->wheel, w->now);
	w->rd[r->port] = r;
	w->rd_any = true;
}

void rd_port_look(const struct rnicd_worker *w, struct look_worker *l)
{
	for (uint32_t i = 0; has_rd(w) && i < rnicd.n_ports; i++) {
		if (w->rd[i] == NULL)
			continue;
		const struct rd_stats *st = &w->rd[i]->d.stats;
		l->rd.segs_in += st->segs_in;
		l->rd.segs_out += st->segs_out;
		l->rd.packs_out += st->packs_out;
		l->rd.held += st->held;
		l->rd.refused += st->refused;
		l->rd.no_pair += st->no_pair;
		l->rd.no_work += st->no_work;
		l->rd.evicted += st->evicted;
		l->rd.bad += st->bad;
		l->rd.rnr_ends += st->rnr_ends;
		l->rd_peers += w->rd[i]->n_peers;
		l->rd_folds += w->rd[i]->n_folds;
		l->rd_pairs += rd_pairs(&w->rd[i]->d);
		const struct rd_drops *drops = &w->rd[i]->drops;
		l->rd_drops.no_peer += drops->no_peer;
		l->rd_drops.unknown += drops->unknown;
		l->rd_drops.strange += drops->strange;
		l->rd_drops.twice += drops->twice;
		l->rd_drops.far += drops->far;
		l->rd_drops.no_room += drops->no_room;
		l->rd_drops.idle += drops->idle;
		l->rd_drops.again += drops->again;
		l->rd_drops.lost += drops->lost;
	}
}

static struct look_flow folded_flow(const struct rd_port *r, const struct rd_fold *f)
{
	return (struct look_flow){
		.peer = f->addr,
		.worker = r->number,
		.peer_worker = f->number,
		.state = UDPR_CLOSED,
		.from = f->rx.flow != 0,
	};
}

/* The flows of one device, as far as there is room in the list. */
static uint32_t look_flows(const struct rd_port *r, struct look_flow *f)
{
	const uint32_t ever = rd_peers_ever(r);
	uint32_t n = 0;

	for (uint32_t k = 0; k < ever && n < rn_min_u32(r->n_peers, LOOK_FLOWS); k++) {
		const struct rd_peer *p = &r->peer[k];

		if (!p->used)
			continue;
		f[n++] = (struct look_flow){
			.peer = p->addr,
			.worker = r->number,
			.peer_worker = p->number,
			.state = (enum udpr_state)p->tx.state,
			.from = p->rx.open,
			.in_flight = p->tx.flight.n,
			.waiting = p->tx.end - p->tx.nxt + p->tx.gone.n,
			.cwnd = p->tx.cwnd >> 16,
			.srtt = p->tx.srtt,
			.min_rtt = p->tx.min_rtt,
			.rttvar = p->tx.rttvar,
			.stats = p->stats,
		};
	}
	for (uint32_t k = 0; k < r->folds_ever && n < LOOK_FLOWS; k++)
		if (r->fold[k].number != RD_FOLD_FREE)
			f[n++] = folded_flow(r, &r->fold[k]);
	return n;
}

void rd_port_flows(const struct rnicd_worker *w, const struct cmd_look_flows *l)
{
	for (uint32_t i = 0; has_rd(w) && i < rnicd.n_ports; i++) {
		const uint32_t part = w->index * rnicd.n_ports + i;

		if (w->rd[i] != NULL)
			l->n[part] = look_flows(w->rd[i], &l->f[(size_t)part * LOOK_FLOWS]);
	}
}
