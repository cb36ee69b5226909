/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a stream: connected by a program or accepted for a listener, adopted by a program, closed by the program,
 * ended by TCP.
 */
#include "plane/frame.h"
#include "plane/stream.h"
#include "plane/stream_iwarp.h"

#include "plane/worker_int.h"

/*
 * A shorter retransmission timeout would be spurious with a kernel that delays its ACKs by 40 ms (tcpl.h). Between two
 * rnicds TCP's loss probe repairs a lost segment at the end of a burst long before this timeout.
 */
#define MIN_RTO_NS  (50 * RN_NS_PER_MS)
#define PEER_DELACK (40 * RN_NS_PER_MS)
/* Linux gives up a connection of a closed socket about so long after the last progress, with its usual settings. */
#define LEFT_NS (200 * RN_NS_PER_S)
/* half-open connections that a listener may have beyond its backlog: a SYN alone may have a forged source address */
#define BACKLOG_MORE 64u
#define HALF_MOST    256u /* a larger backlog counts as this: a flood of SYNs leaves room for other listeners */
#define HALF_SHARE   4u   /* half-open connections of all listeners: one place in HALF_SHARE of those for streams */

/*
 * STREAM_TCP_WAITS: connections of a listener that no program has accepted yet. Their receive window is zero: the peer
 * may connect and end its stream, but its bytes wait at the peer. With the wire iwarp the peer waits for credits
 * instead.
 */
enum stream_tcp { STREAM_TCP_PLAIN, STREAM_TCP_WAITS, STREAM_TCP_IWARP, STREAM_TCPS };
/* Constant after start. */
static struct tcpl_cfg tcp_cfg[RNICD_MAX_PORTS][STREAM_TCPS];

static void stream_set_state(struct stream *s, enum stream_state to) { s->state = to; }

void stream_tcp_init(uint32_t port, const struct tcpl_cfg *of_port)
{
	struct tcpl_cfg *cfg = tcp_cfg[port];

	*cfg = *of_port;
	cfg->rcv_space = IPC_STREAM_RING;
	cfg->min_rto_ns = rn_max_u64(cfg->min_rto_ns, MIN_RTO_NS);
	cfg->peer_delack_ns = PEER_DELACK;
	cfg->left_ns = LEFT_NS;
	if (cfg->cc == &tcpl_bbr) /* BBR keeps delivery rates in memory that streams do not have */
		cfg->cc = &tcpl_cubic;
	cfg[STREAM_TCP_WAITS] = cfg[STREAM_TCP_IWARP] = cfg[STREAM_TCP_PLAIN];
	cfg[STREAM_TCP_WAITS].rcv_space = 0;
	cfg[STREAM_TCP_IWARP].exid = STREAM_EXID;
}

/* ---- lists and events ---- */

void stream_tell(struct rnicd_worker *w, struct stream *s, uint32_t bits)
{
	s->tell |= bits;
	if (!rn_link_linked(&s->telling))
		rn_list_push_back(&w->streams.telling, &s->telling);
}

static struct ipc_addr stream_endpoint(const struct pkt_addr *ip, uint16_t port)
{
	struct ipc_addr a = { .port = port };

	memcpy(a.ip, ip->b, sizeof(a.ip));
	return a;
}

/* Takes the stream off its listener's count of unaccepted connections: a program has accepted it, or none will. */
static void claim(struct stream *s)
{
	if (s->unclaimed)
		s->listener->n_unclaimed--;
	s->unclaimed = false;
}

/* Takes a connected stream off its listener's list. */
static void disown(struct stream *s)
{
	if (s->listener == NULL)
		return;
	claim(s);
	rn_list_remove(&s->listener->arrived, &s->half);
	s->listener = NULL;
}

static void stream_free(struct rnicd_worker *w, struct stream *s)
{
	disown(s);
	stream_set_state(s, STREAM_FREE);
	s->key = 0;
	s->next = w->streams.free;
	w->streams.free = s;
}

/* False: the event queue is full. */
static bool stream_event(const struct rnicd_worker *w, struct stream *s)
{
	struct event *ev = event_room(w->index, EVENT_LOSSLESS);

	if (ev == NULL)
		return false;
	ev->type = EVENT_STREAM;
	ev->stream = (struct event_stream){ .bits = s->tell,
					    .key = s->key,
					    .stream = s,
					    .listener = s->listener != NULL ? s->listener->key : 0,
					    .port = s->addr.port,
					    .local = stream_endpoint(&s->addr.local, s->addr.lport),
					    .remote = stream_endpoint(&s->addr.remote, s->addr.rport) };
	event_put(w->index);
	return true;
}

void stream_events(struct rnicd_worker *w)
{
	struct stream *s;

	while ((s = rn_list_first(&w->streams.telling, struct stream, telling)) != NULL) {
		if (s->key != 0 && !stream_event(w, s))
			return; /* tell in a later turn */
		rn_list_remove(&w->streams.telling, &s->telling);
		s->tell = 0;
		if (s->state == STREAM_OVER)
			stream_free(w, s);
	}
}

/* ---- begin and end ---- */

/* syn: as for way_find(). */
static struct stream *make(struct rnicd_worker *w, const struct conn_addr *a, const struct rte_mbuf *syn,
			   enum stream_tcp kind, enum conn_verdict *v)
{
	struct stream_ctx *x = &w->streams;
	struct stream *s = x->free != NULL ? x->free : x->used < x->n ? &x->at[x->used] : NULL;

	*v = CONN_FULL;
	if (s == NULL)
		return NULL;
	*v = way_find(w, a, syn, &s->way);
	if (*v != CONN_OK)
		return NULL;
	s->flow = (struct flow){ .key = flow_key_of(a), .kind = FLOW_STREAM };
	s->flow.hash = flow_hash(rnicd.secret, &s->flow.key);
	switch (flow_add(&w->flows, &s->flow)) {
	case FLOW_OK: break;
	case FLOW_EXISTS: *v = CONN_IN_USE; break;
	case FLOW_FULL: *v = CONN_FULL; break;
	}
	if (*v != CONN_OK) {
		way_leave(&s->way);
		return NULL;
	}
	if (s == x->free)
		x->free = s->next;
	else
		x->used++;
	struct tcpl_mem mem = { .chunk = s->chunk,
				.rec = s->rec,
				.hold = s->hold,
				.chunk_n = STREAM_CHUNKS,
				.rec_n = STREAM_RECS,
				.hold_n = STREAM_HOLDS,
				.track = tcp_cfg[a->port][kind].tracks ? s->track : NULL };
	tcpl_init(&s->qc.tcp, &tcp_cfg[a->port][kind], &mem);
	tcpl_set_turns(&s->qc.tcp, &w->tcp.turns);
	s->addr = *a;
	s->tell = 0;
	s->mem = NULL;
	s->user = NULL;
	s->listener = NULL;
	s->iwarp = NULL;
	s->fin = s->connected = s->unclaimed = false;
	s->pos = (struct iws_pos){ 0 };
	s->rx_shown = 0;
	s->tx_sums = s->rx_sums = STREAM_SUMS_NOT;
	return s;
}

static uint32_t iss_of(const struct rnicd_worker *w, const struct stream *s)
{
	return tcpl_isn(&rnicd.secret[2], &s->flow.key, sizeof(s->flow.key), w->now);
}

/* Takes a half-open stream off the lists of these: it is connected, or it ends. Returns the listener. */
static struct stream_listener *half_end(struct rnicd_worker *w, struct stream *s)
{
	struct stream_listener *l = s->listener;

	rn_list_remove(&l->half, &s->half);
	l->n_half--;
	rn_list_remove(&w->streams.half, &s->half_any);
	w->streams.n_half--;
	s->listener = NULL;
	return l;
}

void stream_arrived(struct rnicd_worker *w, struct stream *s)
{
	s->listener = half_end(w, s);
	rn_list_push_back(&s->listener->arrived, &s->half);
	s->listener->n_unclaimed++;
	s->unclaimed = true;
	conn_proved(&w->streams.strangers_at);
	way_proved(w, &s->way, &s->addr.remote);
	stream_tell(w, s, STREAM_ARRIVED);
}

/* Makes the worker touch neither the program's memory nor its doorbell from now on. */
static void let_go(struct stream *s)
{
	if (s->user != NULL && s->user->at[s->bit] == s)
		s->user->at[s->bit] = NULL;
	s->user = NULL;
	s->mem = NULL;
}

void stream_abort(struct rnicd_worker *w, struct stream *s)
{
	if (rn_unlikely(s->iwarp != NULL))
		stream_iwarp_abort(w, s);
	else
		tcpl_abort(&s->qc.tcp);
}

void stream_over(struct rnicd_worker *w, struct stream *s, int error)
{
	stream_settle(w);
	stream_ended(s, error);
	if (s->listener != NULL && !s->connected) {
		half_end(w, s);
		s->key = 0; /* the control thread was never told of this stream */
	}
	claim(s);
	if (rn_link_linked(&s->time_wait)) {
		rn_list_remove(&w->streams.time_wait, &s->time_wait);
		w->streams.time_waits--;
	}
	if (rn_unlikely(s->iwarp != NULL))
		stream_iwarp_free(w, s);
	else
		stream_let_go_held(w, s);
	let_go(s);
	stream_set_state(s, STREAM_OVER);
	rn_wheel_disarm(&w->streams.wheel, &s->timer);
	stream_unready(w, s);
	flow_del(&w->flows, &s->flow);
	way_leave(&s->way);
	stream_tell(w, s, STREAM_CLOSED);
	if (s->key == 0) { /* to the front: it needs no room in the event queue, so it must not wait for room */
		rn_list_remove(&w->streams.telling, &s->telling);
		rn_list_push_front(&w->streams.telling, &s->telling);
	}
}

/* Gives the stream the program's memory and doorbell bit. */
static void own(struct stream *s, const struct cmd_stream *c)
{
	s->mem = c->mem;
	s->user = c->user;
	s->bit = c->bit;
	s->user->at[s->bit] = s;
	stream_user_uses(s->user, s->bit);
	stream_set_state(s, STREAM_OWNED);
}

static void open_stream(struct rnicd_worker *w, struct cmd_stream *c)
{
	const bool asks = c->iwarp && stream_iwarp_room(w, false);
	struct stream *s = make(w, &c->addr, NULL, asks ? STREAM_TCP_IWARP : STREAM_TCP_PLAIN, &c->verdict);

	c->stream = s;
	if (s == NULL)
		return;
	s->key = c->key;
	own(s, c);
	if (s->way.neigh != NULL)
		arp_retry(s->way.neigh); /* an earlier connection's failure must not end this one */
	tcpl_connect(&s->qc.tcp, w->now, iss_of(w, s));
	stream_say_state(s);
	stream_ready(w, s);
}

/* Whether the command's stream still exists. */
static bool here(const struct cmd_stream *c) { return c->stream->key == c->key && !stream_is_over(c->stream); }

static void adopt(struct rnicd_worker *w, struct cmd_stream *c)
{
	struct stream *s = c->stream;

	c->verdict = CONN_FULL;
	if (!here(c) || s->state != STREAM_WAITS)
		return;
	c->verdict = CONN_OK;
	disown(s);
	own(s, c);
	c->mem->mss = tcpl_emss(&s->qc.tcp);
	c->mem->state = IPC_STREAM_CONNECTED;
	stream_say_state(s);
	stream_ready(w, s);
	if (s->iwarp != NULL) {
		c->mem->state |= IPC_STREAM_IWARP;
		stream_iwarp_adopt(w, s);
		return;
	}
	c->mem->state |= tcpl_get_state(&s->qc.tcp) == TCPL_S_CLOSE_WAIT ? IPC_STREAM_PEER_FIN : 0;
	tcpl_set_rcv_space(&s->qc.tcp, IPC_STREAM_RING);
	tcpl_ack_now(&s->qc.tcp);
}

/*
 * CMD_STREAM_CLOSE: the last program has closed the socket. As in Linux, bytes that the program has not read are lost,
 * and a reset tells the peer so (RFC 2525, 2.17).
 */
static void leave(struct rnicd_worker *w, struct cmd_stream *c)
{
	struct stream *s = c->stream;

	if (!here(c))
		return;
	stream_look(w, s);
	const bool lingers_not = s->mem != NULL &&
				 (__atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED) & IPC_STREAM_ABORT) != 0;
	if (c->abort || lingers_not || s->state != STREAM_OWNED || !s->connected || s->pos.rx_head != s->pos.rx_tail)
		stream_abort(w, s);
	disown(s);
	stream_set_state(s, STREAM_LEFT);
	tcpl_leave(&s->qc.tcp, w->now);
	rn_wheel_arm(&w->streams.wheel, &s->timer, w->now); /* sets the timer anew: TCP's deadline is earlier */
	stream_ready(w, s);
}

/* ---- listeners ---- */

static void listen_end(struct rnicd_worker *w, const struct cmd_stream_listen *c)
{
	struct stream_listener *l = stream_listener_of(w, c);
	struct stream *s;

	if (l == NULL)
		return;
	while ((s = rn_list_first(&l->half, struct stream, half)) != NULL) {
		half_end(w, s);
		stream_abort(w, s);
		stream_set_state(s, STREAM_LEFT);
		stream_ready(w, s);
	}
	/* The control thread may not know of these yet. When it is told, the listener's number would be void. */
	while ((s = rn_list_first(&l->arrived, struct stream, half)) != NULL)
		disown(s);
	stream_listener_end(w, l);
}

/*
 * As in Linux: with a backlog of n, n + 1 connections may wait to be accepted. When so many wait, rnicd ignores SYNs
 * and the last ACKs of handshakes. Then the peer repeats its SYN, or rnicd its SYN-ACK. No connection is refused.
 */
static bool backlog_full(const struct stream_listener *l) { return l->n_unclaimed > l->backlog; }

/* Whether a segment of a half-open connection must be ignored, because the listener's backlog is full. */
static bool must_wait(const struct stream *s, uint8_t flags)
{
	return s->state == STREAM_WAITS && !s->connected && s->listener != NULL && (flags & TCPL_RST) == 0 &&
	       backlog_full(s->listener);
}

/*
 * The half-open connection that makes room for a new one; NULL: there is room. It is the listener's oldest when that
 * listener has too many, and the worker's oldest when many listeners together leave too few places to other streams
 * and to queue pairs. Under a flood of SYNs the oldest leaves an honest peer's new connection the longest time before
 * it is evicted itself.
 */
static struct stream *stream_in_the_way(const struct stream_ctx *x, const struct stream_listener *l)
{
	if (l->n_half >= rn_min_u32(l->backlog, HALF_MOST) + BACKLOG_MORE)
		return rn_list_first(&l->half, struct stream, half);
	return x->n_half >= x->n / HALF_SHARE ? rn_list_first(&x->half, struct stream, half_any) : NULL;
}

/* Ends a half-open connection. */
static void stream_evict(struct rnicd_worker *w, struct stream *s)
{
	struct tcpl_out o;

	if (s->iwarp != NULL) {
		half_end(w, s);
		s->key = 0; /* the control thread was never told of this stream */
		stream_iwarp_abort(w, s);
		return;
	}
	tcpl_abort(&s->qc.tcp);
	while (tcpl_out(&s->qc.tcp, w->now, &o)) {
		/* The reset is not sent, as the peer has never answered the SYN-ACK. */
	}
	stream_over(w, s, 0);
}

/* Begins a connection of the wire iwarp if the SYN asks for it and there is room. False: it has not begun. */
static bool syn_asks(struct rnicd_worker *w, struct stream *s, const struct tcpl_seg *syn)
{
	return tcpl_exid_asks(syn, STREAM_EXID) && stream_iwarp_room(w, true) &&
	       stream_iwarp_syn(w, s, syn, &tcp_cfg[s->addr.port][STREAM_TCP_IWARP], iss_of(w, s));
}

bool stream_stranger(struct rnicd_worker *w, const struct rte_mbuf *m, const struct pkt *p, uint32_t port)
{
	struct conn_addr a = { .port = port, .local = p->dst, .remote = p->src, .lport = p->dport, .rport = p->sport };
	struct tcpl_seg seg = way_segment(p);
	enum conn_verdict v;

	if (rn_likely(w->streams.listens.used == 0) || (seg.flags & (TCPL_SYN | TCPL_ACK | TCPL_RST)) != TCPL_SYN)
		return false;
	struct stream_listener *l = stream_listener_first(w, &a);
	if (l == NULL)
		return false;
	if (!conn_allowed(w, rnicd.port[port], &w->streams.strangers_at))
		return true; /* an honest peer's TCP repeats its SYN */
	l = stream_listener_pick(l, &a);
	if (l == NULL || backlog_full(l)) {
		conn_proved(&w->streams.strangers_at); /* it takes no stream from the allowance */
		w->tx[port].st->rx_unanswered += l != NULL;
		return l != NULL; /* the peer's TCP repeats its SYN */
	}
	struct stream *s = stream_in_the_way(&w->streams, l);
	if (s != NULL)
		stream_evict(w, s);
	s = make(w, &a, m, STREAM_TCP_WAITS, &v);
	if (s == NULL)
		return true; /* no room: the peer's TCP repeats its SYN */
	s->key = EVENT_OWNER_PASSIVE | (uint64_t)w->index << 48 | ++w->streams.passive;
	if (!syn_asks(w, s, &seg) && tcpl_accept_syn(&s->qc.tcp, w->now, iss_of(w, s), &seg) != TCPL_OK) {
		s->key = 0;
		stream_over(w, s, 0);
		return true;
	}
	stream_set_state(s, STREAM_WAITS);
	s->listener = l;
	rn_list_push_back(&l->half, &s->half);
	l->n_half++;
	rn_list_push_back(&w->streams.half, &s->half_any);
	w->streams.n_half++;
	stream_ready(w, s);
	return true;
}

/* ---- the steps of a turn ---- */

/*
 * A frame from a connection of this process may have an empty CRC field (frame_crc_deferred). A program must get bytes
 * with the CRC, so the CRC is computed in a copy of the frame.
 */
void stream_input(struct rnicd_worker *w, struct flow *f, struct rte_mbuf *m, const struct pkt *p)
{
	struct stream *s = rn_container_of(f, struct stream, flow);
	struct rte_mbuf *whole;

	way_came(&s->way, m);
	if (rn_unlikely(must_wait(s, p->tcp_flags))) {
		s->way.tx->st->rx_unanswered++;
		return;
	}
	if (rn_unlikely(s->iwarp != NULL)) {
		stream_iwarp_input(w, s, m, p);
		return;
	}
	if (rn_likely(!frame_crc_deferred(m))) {
		stream_segment(w, s, m, p);
		return;
	}
	whole = frame_copy(s->way.port->pool, m);
	if (whole == NULL) {
		s->way.tx->st->no_buffer++; /* TCP treats the segment as lost */
		return;
	}
	frame_finish(whole);
	stream_segment(w, s, whole, p);
	rte_pktmbuf_free(whole);
}

void stream_ring(struct rnicd_worker *w, struct stream *s)
{
	stream_answer(w, s);
	stream_ready(w, s);
}

uint32_t stream_timers(struct rnicd_worker *w)
{
	struct rn_timer *t;
	uint32_t n = 0;

	for (; n < WORKER_TIMERS && (t = rn_wheel_pop(&w->streams.wheel, w->now)) != NULL; n++) {
		struct stream *s = rn_container_of(t, struct stream, timer);
		struct tcpl_ev ev = { 0 };
		if (rn_unlikely(s->iwarp != NULL)) {
			stream_iwarp_timer(w, s);
			continue;
		}
		if (stream_has_no_way(w, s))
			continue;
		tcpl_timer(&s->qc.tcp, w->now, &ev);
		stream_take(w, s, &ev, NULL, 0);
	}
	stream_settle(w);
	return n;
}

void command_stream(struct rnicd_worker *w, struct cmd *c)
{
	switch ((int)c->type) {
	case CMD_STREAM_JOIN:
		c->stream_join[w->index]->next = w->streams.users;
		w->streams.users = c->stream_join[w->index];
		break;
	case CMD_STREAM_LISTEN: stream_listener_set(w, &c->stream_listen); break;
	case CMD_STREAM_UNLISTEN: listen_end(w, &c->stream_listen); break;
	case CMD_STREAM_OPEN: open_stream(w, &c->stream); break;
	case CMD_STREAM_ADOPT: adopt(w, &c->stream); break;
	case CMD_STREAM_CLOSE: leave(w, &c->stream); break;
	default: break;
	}
}
