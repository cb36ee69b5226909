/* SPDX-License-Identifier: BSD-3-Clause */
/* From ready connections to the ports' transmit queues. */
#include "plane/capture.h"
#include "plane/worker_int.h"

#define SHARE        32u /* segments that one connection may send before the next one's turn */
#define ANSWER_SHARE 2u  /* segments of a connection that answers: most often one, and a second look finds none */
/* Segments and looks of a turn, answers not counted: no more than a turn receives. */
#define TURN_SHARE WORKER_BURST
_Static_assert(PORT_TX_WIRE <= WORKER_BURST, "one turn receives what the one before it has sent");

static bool loop_put(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m)
{
	if (w->loop_tail - w->loop_head == WORKER_LOOP) {
		w->tx[port->index].st->tx_drops++;
		rte_pktmbuf_free(m);
		return false;
	}
	m->port = port->index;
	w->loop[w->loop_tail++ % WORKER_LOOP] = m;
	return true;
}

void conn_again(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m) { (void)loop_put(w, port, m); }

void conn_loop(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m)
{
	struct capture *cap = port_capture(port);

	if (!loop_put(w, port, m))
		return;
	if (cap != NULL && !capture_frame(cap, m, CAPTURE_OUT))
		w->tx[port->index].st->capture_drops++;
}

/*
 * Sends at most `share` segments. True: the connection has nothing more to send now. Segments go to the port only after
 * all are built: the port's memory accesses in between would break the processor's prefetch streams through the
 * payload.
 */
static bool send_segments(struct rnicd_worker *w, struct conn *c, uint32_t share, uint32_t *count)
{
	uint32_t n = rn_min_u32(way_room(w, &c->way), share), made = 0;
	struct rnicd_port_stats *st = c->way.tx->st;
	struct txseg_buffers buffers = { .n = 0 };
	struct rte_mbuf *m[SHARE];
	struct tcpl_out o;
	bool done = false;

	way_refresh(w, &c->way, &c->addr.remote);
	for (uint32_t i = 0; i < n && worker_space(w); i++) {
		way_aim(&c->way, &c->qc.tcp, w->now);
		done = !rc_tcp_out(&w->tcp, &c->qc, &o);
		if (done)
			break;
		(*count)++;
		st->tx_data += o.len > 0;
		st->tx_again += o.rexmit;
		m[made] = txseg_build(w, c, &o, &buffers);
		if (rn_likely(m[made] != NULL))
			(void)way_mark(&c->way, m[made++], &o);
		else
			st->no_buffer++; /* TCP treats the segment as lost */
	}
	txseg_end(&buffers);
	for (uint32_t i = 0; i < made; i++)
		way_send(w, &c->way, m[i]);
	return done;
}

/* Prefetches the part of the next connection that the engine does not know of. */
static void fetch_next(const struct rnicd_worker *w)
{
	const struct rc_tcp *first = rc_tcp_ready_first(&w->tcp);
	const struct conn *next = first != NULL ? conn_of(&first->rc) : NULL;

	if (next != NULL) {
		for (uint32_t at = offsetof(struct conn, timer); at < offsetof(struct conn, addr); at += RN_CACHE_LINE)
			__builtin_prefetch((const uint8_t *)next + at);
	}
}

/*
 * Connections that owe an answer to received data send first; their other data take turns with those of all
 * connections.
 */
static uint32_t conn_tx_answer(struct rnicd_worker *w)
{
	struct rc_tcp *qc;
	uint32_t count = 0;

	while ((qc = rc_tcp_answer_pop(&w->tcp)) != NULL) {
		struct conn *c = conn_of(&qc->rc);
		if (!send_segments(w, c, ANSWER_SHARE, &count) && !c->dead)
			rc_ready_put(&w->tcp.rc, &qc->rc);
		conn_arm(w, c);
	}
	return count;
}

uint32_t conn_transmit(struct rnicd_worker *w)
{
	/* connections that have more to send than their port's room or their share allowed */
	struct rn_list parked = { NULL, NULL };
	struct conn *c;
	struct rc_tcp *qc;
	uint32_t answers, count = 0;

	if (!rc_any_ready(&w->tcp.rc))
		return 0;
	answers = conn_tx_answer(w);
	/*
	 * Looks count too: a look at a connection whose port has no room, or that only binds memory windows, uses up a
	 * segment's part of the turn.
	 */
	for (uint32_t looks = 0; count + looks < TURN_SHARE && (qc = rc_tcp_ready_pop(&w->tcp)) != NULL;) {
		const uint64_t locals = w->tcp.rc.qp.stats.locals;
		uint32_t before = count;
		c = conn_of(&qc->rc);
		fetch_next(w);
		const bool done = send_segments(w, c, SHARE, &count);
		looks += count == before && (!done || w->tcp.rc.qp.stats.locals != locals);
		/* A connection that made itself ready during its own turn may come up twice (rc_rnr.c). */
		if (!done && !rn_link_linked(&c->link))
			rn_list_push_back(&parked, &c->link);
		conn_arm(w, c);
	}
	while ((c = rn_list_pop(&parked, struct conn, link)) != NULL)
		if (!c->dead)
			rc_ready_put(&w->tcp.rc, &c->qc.rc);
	return answers + count;
}

static uint32_t headers(const struct conn *c)
{
	return (pkt_addr_is_ip4(&c->addr.remote) ? PKT_IP4_LEN : PKT_IP6_LEN) + PKT_TCP_LEN;
}

/* Tells the log when the path's MTU has changed. */
static void tell_path(struct rnicd_worker *w, struct conn *c)
{
	uint32_t mss = tcpl_path_mss(&c->qc.tcp);

	if (rn_likely(mss == c->path_mss))
		return;
	struct event *ev = event_room(w->index, EVENT_DROPPABLE);
	if (ev == NULL) /* no room for the event: told at the next timer */
		return;
	ev->type = EVENT_PATH;
	ev->path = (struct event_path){ .port = c->way.port->index, .mtu = mss + headers(c), .remote = c->addr.remote };
	event_put(w->index);
	c->path_mss = (uint16_t)mss;
}

void conn_too_big(struct rnicd_worker *w, struct flow *f, const struct pkt_too_big *b)
{
	struct conn *c = rn_container_of(f, struct conn, flow);

	if (b->mtu <= headers(c))
		return;
	rc_tcp_too_big(&w->tcp, &c->qc, b->seq, b->mtu - headers(c));
	tell_path(w, c);
	conn_arm(w, c);
}

uint32_t conn_timers(struct rnicd_worker *w)
{
	struct rn_timer *t;
	uint32_t n = 0;

	while (n < WORKER_TIMERS && worker_space(w) && (t = rn_wheel_pop(&w->wheel, w->now)) != NULL) {
		struct conn *c = rn_container_of(t, struct conn, timer);
		rc_tcp_timer(&w->tcp, &c->qc);
		tell_path(w, c);
		conn_arm(w, c);
		n++;
	}
	return n;
}
