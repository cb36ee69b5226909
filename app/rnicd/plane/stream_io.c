/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves the bytes of streams between the program's rings, tcp_lite and frames. Indices that the program writes are
 * copied, and the copies are checked and used. If a program breaks the rules of the rings, its connection is reset.
 */
#include <netinet/tcp.h>

#include "base/rn_seq.h"
#include "plane/frame.h"
#include "plane/stream.h"
#include "plane/stream_iwarp.h"
#include "plane/port_host.h"
#include "plane/worker_int.h"
#include "tcp_lite/tcpl_room.h"

#define MASK       (IPC_STREAM_RING - 1)
#define CHUNK_MAX  65536u
#define OUT_ROOM   (IPC_STREAM_RING / 4) /* a program that waits for room is told when this many bytes are free */
#define SHARE      32u                   /* segments that one stream may send before the next stream's turn */
#define TURN_SHARE 64u                   /* segments and streams without any that a worker's turn handles, about */

static uint8_t *tx_bytes(const struct stream *s) { return (uint8_t *)s->mem + IPC_STREAM_TX_OFF; }
static uint8_t *rx_bytes(const struct stream *s) { return (uint8_t *)s->mem + IPC_STREAM_RX_OFF; }

struct rnicd_port_stats *stream_stats(const struct rnicd_worker *w, const struct stream *s)
{
	return &rnicd.port[s->addr.port]->stats[w->index];
}

/* ---- received ---- */

static void ring_put(const struct stream *s, uint32_t at, const uint8_t *p, uint32_t len)
{
	uint32_t place = at & MASK, first = rn_min_u32(len, IPC_STREAM_RING - place);

	memcpy(rx_bytes(s) + place, p, first);
	memcpy(rx_bytes(s), p + first, len - first);
}

/* Copies the bytes of a slice to their place in the ring. */
static void place(const struct stream *s, const struct tcpl_slice *sl, const struct rte_mbuf *m, uint32_t payload_off)
{
	struct rn_iov iov[FRAME_MAX_SEGS];
	uint32_t n = frame_iov(m, payload_off + sl->off, sl->len, iov, FRAME_MAX_SEGS);
	uint32_t at = sl->seq - s->rx_seq0;

	/* n is UINT32_MAX for a frame in more pieces than FRAME_MAX_SEGS; no such frame is received */
	for (uint32_t i = 0; i < n && n != UINT32_MAX; i++) {
		ring_put(s, at, iov[i].base, (uint32_t)iov[i].len);
		at += (uint32_t)iov[i].len;
	}
}

/* Whether frames that arrive ahead of a hole are kept until the hole is filled (out-of-order = buffer). */
static bool buffers(const struct stream *s) { return s->qc.tcp.cfg->ahead == TCPL_AHEAD_HOLD; }

/*
 * Called for a slice that arrived ahead of a hole when the hole is filled. Copies its bytes to the ring if its frame
 * was kept; else the bytes are in the ring already.
 */
static void place_held(struct rnicd_worker *w, struct stream *s, const struct tcpl_slice *sl)
{
	struct rn_iov iov[WORKER_MAX_IOV];

	if (rn_likely(!buffers(s)))
		return;
	const struct rc_tcp_pkt *pkt = (const struct rc_tcp_pkt *)(uintptr_t)sl->ref;
	uint32_t n = rn_iov_cut(pkt->iov, pkt->n, sl->off, sl->len, iov, WORKER_MAX_IOV), at = sl->seq - s->rx_seq0;
	for (uint32_t i = 0; i < n && n != UINT32_MAX && s->mem != NULL; i++) {
		ring_put(s, at, iov[i].base, (uint32_t)iov[i].len);
		at += (uint32_t)iov[i].len;
	}
	w->tcp.rc.qp.stats.copied_rx += sl->len;
	rte_pktmbuf_free(mbuf_of_ref(sl->ref));
	stream_unhold(w, s);
}

/* Notes that the bytes up to the end of the slice have been received without a hole. */
static void stream_deliver(struct stream *s, const struct tcpl_slice *sl)
{
	s->pos.rx_tail = sl->seq + sl->len - s->rx_seq0;
}

/* Frees the frames that were received ahead of a hole which is never filled, as TCP has ended. */
static void drop_held(struct rnicd_worker *w, struct stream *s)
{
	struct tcpl_slice sl;
	uint64_t ref;

	while (tcpl_rx_next(&s->qc.tcp, &sl))
		place_held(w, s, &sl);
	while (tcpl_rx_drop(&s->qc.tcp, &ref)) {
		if (!buffers(s))
			continue;
		rte_pktmbuf_free(mbuf_of_ref(ref));
		stream_unhold(w, s);
	}
}

void stream_let_go_held(struct rnicd_worker *w, struct stream *s)
{
	if (rn_likely(!buffers(s)))
		return;
	tcpl_abort(&s->qc.tcp);
	drop_held(w, s);
}

static void stream_drain(struct rnicd_worker *w, struct stream *s)
{
	uint64_t ref;

	drop_held(w, s);
	while (tcpl_acked(&s->qc.tcp, &ref) || tcpl_tx_drop(&s->qc.tcp, &ref)) {
		/* The refs are positions in the stream: nothing must be freed. */
	}
}

/*
 * Whether the peer has sent a FIN, and the program has not: Linux reports a reset that comes then as EPIPE (tcp_reset).
 * The state is read from the program's memory: if the program has changed it, only the program gets the wrong errno.
 */
static bool was_half_closed(const struct stream *s)
{
	return !s->fin && s->mem != NULL && (s->mem->state & IPC_STREAM_PEER_FIN) != 0;
}

int stream_reset_error(const struct stream *s) { return was_half_closed(s) ? EPIPE : ECONNRESET; }

static int end_error(const struct stream *s, const struct tcpl_ev *ev)
{
	if (ev->bits & TCPL_EV_TIMEOUT)
		return ETIMEDOUT;
	if (ev->bits & TCPL_EV_RESET)
		return !s->connected ? ECONNREFUSED : stream_reset_error(s);
	return 0;
}

bool stream_has_no_way(struct rnicd_worker *w, struct stream *s)
{
	if (s->connected || s->listener != NULL || !way_failed(&s->way))
		return false;
	stream_drain(w, s);
	stream_over(w, s, EHOSTUNREACH);
	return true;
}

/* Whether the program has shut down both directions, so that no one reads received bytes (RFC 1122, 4.2.2.13). */
static bool is_deaf(const struct stream *s)
{
	return s->fin && s->mem != NULL && (__atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED) & IPC_STREAM_DEAF) != 0;
}

bool stream_unheard(const struct stream *s) { return s->state == STREAM_LEFT || is_deaf(s); }

void stream_settle(struct rnicd_worker *w)
{
	struct stream *s = w->streams.due;

	w->streams.due = NULL;
	if (rn_likely(s == NULL) || s->mem == NULL)
		return;
	__atomic_store_n(&s->mem->tx_head, s->pos.tx_head, __ATOMIC_RELEASE);
	stream_show(w, s, false);
	stream_answer(w, s);
}

/*
 * The program shall be told of received bytes, and of bytes that are acknowledged: once for all segments of a burst, as
 * the fence in stream_answer() costs as much as a segment's copy.
 */
static void tell_later(struct rnicd_worker *w, struct stream *s)
{
	if (w->streams.due != s)
		stream_settle(w);
	w->streams.due = s;
}

static void take_data(struct rnicd_worker *w, struct stream *s, const struct tcpl_ev *ev, const struct rte_mbuf *m,
		      uint32_t payload_off)
{
	struct tcpl_slice sl;
	uint64_t ref;

	if (stream_unheard(s) && (ev->bits & TCPL_EV_DATA)) {
		tcpl_abort(&s->qc.tcp); /* no program will read the bytes (RFC 9293, 3.10.4; RFC 2525, 2.17) */
		return;
	}
	if (ev->bits & TCPL_EV_DATA) {
		if (s->mem != NULL)
			place(s, &ev->slice, m, payload_off);
		w->tcp.rc.qp.stats.copied_rx += ev->slice.len;
		stream_deliver(s, &ev->slice);
	}
	if (rn_unlikely(ev->held) && buffers(s)) {
		w->tcp.rc.qp.stats.ooo_held++;
	} else if (rn_unlikely(ev->held)) {
		w->tcp.rc.qp.stats.ooo_placed++;
		if (s->mem != NULL)
			place(s, &ev->ooo, m, payload_off);
		w->tcp.rc.qp.stats.copied_rx += ev->ooo.len;
		(void)tcpl_ooo_placed(&s->qc.tcp, ev->ooo.seq, &ref);
	}
	while (tcpl_rx_next(&s->qc.tcp, &sl)) {
		place_held(w, s, &sl);
		stream_deliver(s, &sl);
	}
	tell_later(w, s);
}

/* TCP's state as Linux numbers it. With the wire iwarp a message ends a direction, and TCP's own FIN comes later. */
static uint32_t state_of(const struct stream *s)
{
	static const uint8_t number[TCPL_S_COUNT] = {
		[TCPL_S_CLOSED] = TCP_CLOSE,          [TCPL_S_SYN_SENT] = TCP_SYN_SENT,
		[TCPL_S_SYN_RCVD] = TCP_SYN_RECV,     [TCPL_S_ESTABLISHED] = TCP_ESTABLISHED,
		[TCPL_S_FIN_WAIT_1] = TCP_FIN_WAIT1,  [TCPL_S_FIN_WAIT_2] = TCP_FIN_WAIT2,
		[TCPL_S_CLOSE_WAIT] = TCP_CLOSE_WAIT, [TCPL_S_CLOSING] = TCP_CLOSING,
		[TCPL_S_LAST_ACK] = TCP_LAST_ACK,     [TCPL_S_TIME_WAIT] = TCP_TIME_WAIT,
	};
	const enum tcpl_state tcp = tcpl_get_state(&s->qc.tcp);

	if (tcp != TCPL_S_ESTABLISHED || s->iwarp == NULL)
		return number[tcp];
	if (s->iwarp->in_told)
		return s->fin ? TCP_LAST_ACK : TCP_CLOSE_WAIT;
	return s->fin ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;
}

void stream_say_state(const struct stream *s)
{
	if (s->mem != NULL)
		__atomic_store_n(&s->mem->tcp, state_of(s), __ATOMIC_RELAXED);
}

void stream_flag(const struct stream *s, uint32_t bit)
{
	stream_say_state(s);
	if (s->mem != NULL)
		__atomic_store_n(&s->mem->state, s->mem->state | bit, __ATOMIC_RELEASE);
}

void stream_ended(const struct stream *s, int error)
{
	if (s->mem == NULL || (s->mem->state & IPC_STREAM_ENDED) != 0)
		return;
	s->mem->error = error;
	stream_flag(s, IPC_STREAM_ENDED); /* release: a program that sees the end sees the errno, too */
}

void stream_peer_fin(struct rnicd_worker *w, struct stream *s)
{
	stream_settle(w);
	if (s->mem != NULL)
		stream_show(w, s, true);
	stream_flag(s, IPC_STREAM_PEER_FIN);
	stream_tell(w, s, STREAM_PEER_FIN);
}

/* Called when a connection that this end has begun is established. */
static void connected(struct rnicd_worker *w, struct stream *s)
{
	stream_tell(w, s, STREAM_CONNECTED);
	if (rn_unlikely(tcpl_exid_agreed(&s->qc.tcp)) && !stream_iwarp_begin(w, s)) {
		if (s->iwarp != NULL)
			stream_iwarp_free(w, s);
		tcpl_abort(&s->qc.tcp); /* no memory for the queue pair, and the peer waits for an MPA Request */
	}
}

void stream_take(struct rnicd_worker *w, struct stream *s, const struct tcpl_ev *ev, const struct rte_mbuf *m,
		 uint32_t payload_off)
{
	if (ev->bits & TCPL_EV_CONNECTED) {
		s->rx_seq0 = s->qc.tcp.irs + 1;
		s->tx_seq0 = s->qc.tcp.iss + 1;
		s->connected = true;
		if (s->mem != NULL)
			s->mem->mss = tcpl_emss(&s->qc.tcp);
		if (s->listener != NULL) {
			stream_arrived(w, s);
		} else {
			connected(w, s);
		}
		stream_flag(s, IPC_STREAM_CONNECTED);
		if (rn_unlikely(s->iwarp != NULL)) /* the segment was a SYN-ACK and carries no data */
			return;
	}
	if (ev->bits & TCPL_EV_ACKED)
		stream_acked(w, s);
	if ((ev->bits & TCPL_EV_DATA) || ev->held)
		take_data(w, s, ev, m, payload_off);
	if (ev->bits & TCPL_EV_PEER_FIN)
		stream_peer_fin(w, s);
	if (ev->bits & (TCPL_EV_RESET | TCPL_EV_TIMEOUT | TCPL_EV_CLOSED)) {
		stream_drain(w, s);
		stream_over(w, s, end_error(s, ev));
		return;
	}
	stream_ready(w, s);
}

/*
 * As stream_slices(), in case the frame must be kept. If the segment is ahead of a hole and the limit of kept frames,
 * or of kept large buffers, is reached, its bytes are dropped, and only its ACK is used.
 */
static struct rte_mbuf *may_keep(struct rnicd_worker *w, const struct stream *s, struct rte_mbuf *m,
				 const struct pkt *p, struct tcpl_seg *seg)
{
	struct rte_mbuf *kept = stream_slices(s, m, p);

	if (kept == NULL)
		return NULL;
	seg->ref = (uint64_t)(uintptr_t)&mbuf_priv(kept)->pkt;
	if (rn_seq_gt(seg->seq, s->qc.tcp.rcv_nxt) && (!stream_may_hold(w, s) || port_host_scarce(m))) {
		w->tcp.rc.qp.stats.hold_drops++;
		tcpl_strip(seg);
	}
	return kept;
}

void stream_segment(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p)
{
	struct tcpl_ev ev = { 0 };
	struct tcpl_seg seg = way_segment(p);
	struct rte_mbuf *kept = NULL;

	seg.ref = (uint64_t)(uintptr_t)m;
	if (rn_unlikely(buffers(s)) && seg.len != 0) {
		kept = may_keep(w, s, m, p, &seg);
		if (kept == NULL) {
			s->way.tx->st->no_buffer++; /* TCP treats the segment as lost */
			return;
		}
	}
	enum tcpl_verdict v = tcpl_in(&s->qc.tcp, w->now, &seg, &ev);
	if (rn_unlikely(kept != NULL && ev.held))
		stream_hold(w, s);
	stream_slices_end(m, kept, kept != NULL && ev.held);
	stream_take(w, s, &ev, m, p->payload_off);
	if (rn_unlikely(v == TCPL_DROP_AHEAD))
		w->tcp.rc.qp.stats.ooo_drops++;
	if (rn_unlikely(tcpl_get_state(&s->qc.tcp) == TCPL_S_TIME_WAIT) && !rn_link_linked(&s->time_wait) &&
	    !stream_is_over(s))
		stream_time_wait(w, s);
	if (v == TCPL_NEW_SYN) {
		if (!stream_is_over(s))
			stream_over(w, s, 0);
		(void)stream_stranger(w, m, p, s->addr.port);
	}
}

void stream_answer(struct rnicd_worker *w, struct stream *s)
{
	if (s->mem == NULL)
		return;
	/* pairs with the program's fence: the program writes `want`, then looks at the ring once more */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	uint32_t want = __atomic_load_n(&s->mem->want, __ATOMIC_RELAXED), say = 0;
	uint32_t head = __atomic_load_n(&s->mem->rx_head, __ATOMIC_RELAXED);

	if ((want & IPC_STREAM_WANT_IN) && head != s->rx_shown)
		say |= IPC_STREAM_WANT_IN;
	bool room = IPC_STREAM_RING - (s->mem->tx_tail - s->pos.tx_head) >= OUT_ROOM;

	/* a program that has shut down writing may write, which tells it so: a thread that waits for room wakes */
	if ((want & IPC_STREAM_WANT_OUT) && s->connected &&
	    (room || (__atomic_load_n(&s->mem->fin, __ATOMIC_RELAXED) & IPC_STREAM_FIN) != 0))
		say |= IPC_STREAM_WANT_OUT;
	if (rn_likely(say == 0))
		return;
	__atomic_fetch_and(&s->mem->want, ~say, __ATOMIC_RELAXED);
	stream_tell(w, s,
		    ((say & IPC_STREAM_WANT_IN) ? STREAM_IN : 0) | ((say & IPC_STREAM_WANT_OUT) ? STREAM_OUT : 0));
}

/* As time_wait_begin() of conn.c: streams in TIME_WAIT must leave room for new ones. */
void stream_time_wait(struct rnicd_worker *w, struct stream *s)
{
	struct stream_ctx *x = &w->streams;

	stream_settle(w);
	if (s->iwarp == NULL) /* TIME_WAIT: both directions have ended */
		stream_ended(s, 0);
	rn_list_push_back(&x->time_wait, &s->time_wait);
	x->time_waits++;
	while (x->time_waits > worker_time_waits(x->n)) {
		struct stream *oldest = rn_list_first(&x->time_wait, struct stream, time_wait);
		oldest->way.tx->st->time_wait_overflow++;
		if (oldest->iwarp == NULL) {
			stream_over(w, oldest, 0);
			continue;
		}
		rn_list_remove(&x->time_wait, &oldest->time_wait);
		x->time_waits--;
		rc_abort(&stream_iwarp_ctx(w)->rc, &oldest->qc.rc);
	}
}

void stream_too_big(struct rnicd_worker *w, struct flow *f, const struct pkt_too_big *b)
{
	struct stream *s = rn_container_of(f, struct stream, flow);
	uint32_t headers = (pkt_addr_is_ip4(&s->addr.remote) ? PKT_IP4_LEN : PKT_IP6_LEN) + PKT_TCP_LEN;

	if (s->iwarp != NULL && b->mtu > headers)
		rc_tcp_too_big(stream_iwarp_ctx(w), &s->qc, b->seq, b->mtu - headers);
	else if (b->mtu > headers && tcpl_too_big(&s->qc.tcp, w->now, b->seq, b->mtu - headers))
		stream_ready(w, s);
}

/* ---- sent ---- */

void stream_acked(struct rnicd_worker *w, struct stream *s)
{
	uint64_t ref;

	while (tcpl_acked(&s->qc.tcp, &ref))
		s->pos.tx_head = (uint32_t)ref;
	tell_later(w, s);
}

/*
 * Hands TCP the bytes before position `tail` that TCP may send now; whole segments only, if the window allows one.
 */
static void feed(struct stream *s, uint32_t tail)
{
	struct tcpl_conn *c = &s->qc.tcp;

	while (s->pos.tx_put != tail && tcpl_room(c) > 0) {
		uint32_t n = tail - s->pos.tx_put, may = tcpl_budget(c), full = tcpl_emss(c);
		if (n > may)
			n = may >= full ? may - may % full : 0;
		if (n == 0 && tcpl_idle(c)) /* the peer's window is zero: TCP probes it with one segment */
			n = rn_min_u32(tail - s->pos.tx_put, full);
		if (n == 0)
			return;
		n = rn_min_u32(n, CHUNK_MAX);
		if (!tcpl_send(c, n, s->pos.tx_put + n))
			return;
		s->pos.tx_put += n;
	}
}

/*
 * Hands TCP (or the wire iwarp) the bytes before tail. last: no bytes follow after tail. False: the program has broken
 * the rules of the rings.
 */
static bool stream_put(struct rnicd_worker *w, struct stream *s, uint32_t tail, bool last)
{
	uint32_t before = s->pos.tx_put, may;

	do {
		if (rn_unlikely(!stream_fpdus_out(w, s, tail, last, &may)))
			return false;
		if (rn_likely(s->iwarp == NULL))
			feed(s, may);
		else
			stream_iwarp_feed(w, s, may);
		if (s->pos.tx_put == before)
			return true;
		before = s->pos.tx_put;
	} while (s->pos.tx_put == may && may != tail);
	return true;
}

static void broken(struct rnicd_worker *w, struct stream *s)
{
	stream_abort(w, s);
	stream_ready(w, s);
}

void stream_look(struct rnicd_worker *w, struct stream *s)
{
	if (s->mem == NULL || !s->connected)
		return;
	/*
	 * acquire: pairs with the program's releases. fin is read before tx_tail, since the program writes tx_tail
	 * before fin.
	 */
	uint32_t fin = __atomic_load_n(&s->mem->fin, __ATOMIC_ACQUIRE);
	uint32_t tail = __atomic_load_n(&s->mem->tx_tail, __ATOMIC_ACQUIRE);
	uint32_t head = __atomic_load_n(&s->mem->rx_head, __ATOMIC_ACQUIRE);

	if (rn_unlikely((fin & IPC_STREAM_RESET) != 0 || tail - s->pos.tx_head > IPC_STREAM_RING ||
			tail - s->pos.tx_put > IPC_STREAM_RING ||
			head - s->pos.rx_head > s->rx_shown - s->pos.rx_head)) {
		broken(w, s);
		return;
	}
	if (rn_unlikely(s->iwarp != NULL) && (s->iwarp->spares != 0 || head != s->pos.rx_head))
		stream_iwarp_touch(w, s); /* received bytes may have room now */
	s->pos.rx_head = head;
	if (rn_likely(s->iwarp == NULL))
		tcpl_set_rcv_space(&s->qc.tcp, IPC_STREAM_RING - (s->pos.rx_tail - s->pos.rx_head));
	if (s->fin)
		return;
	bool last = (fin & IPC_STREAM_FIN) != 0 || s->state == STREAM_LEFT;
	if (rn_unlikely(!stream_put(w, s, tail, last))) {
		broken(w, s);
		return;
	}
	if (!last || s->pos.tx_put != tail)
		return;
	s->fin = s->iwarp == NULL || stream_iwarp_end(w, s);
	if (rn_likely(s->iwarp == NULL))
		tcpl_shutdown(&s->qc.tcp, w->now);
}

static struct rte_mbuf *stream_frame(struct rnicd_worker *w, struct stream *s, const struct tcpl_out *o)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(s->way.port->pool);

	if (rn_unlikely(m == NULL))
		return NULL;
	uint64_t sum = 0;
	uint32_t hdr = pkt_tcp_hdr_len(&s->way.tmpl, o->optlen);
	uint8_t *to = rte_pktmbuf_mtod_offset(m, uint8_t *, hdr);

	if (o->len != 0) {
		uint32_t at = (o->seq - s->tx_seq0) & MASK, first = rn_min_u32(o->len, IPC_STREAM_RING - at);
		memcpy(to, tx_bytes(s) + at, first);
		memcpy(to + first, tx_bytes(s), o->len - first);
		w->tcp.rc.qp.stats.copied_tx += o->len;
		if (!way_defers(&s->way)) {
			sum = pkt_sum(to, o->len);
			w->tcp.rc.qp.stats.summed_tx += o->len;
		}
	}
	way_header(&s->way, o, sum, m);
	m->data_len = (uint16_t)(hdr + o->len);
	m->pkt_len = hdr + o->len;
	return m;
}

/* Sends at most SHARE segments. True: the stream has nothing more to send now. */
static bool stream_send(struct rnicd_worker *w, struct stream *s, uint32_t *count)
{
	uint32_t n = rn_min_u32(way_room(w, &s->way), SHARE);
	struct tcpl_out o;

	way_refresh(w, &s->way, &s->addr.remote);
	for (uint32_t i = 0; i < n; i++) {
		way_aim(&s->way, &s->qc.tcp, w->now);
		if (!tcpl_out(&s->qc.tcp, w->now, &o))
			return true;
		(*count)++;
		s->way.tx->st->tx_data += o.len > 0;
		s->way.tx->st->tx_again += o.rexmit;
		struct rte_mbuf *m = stream_frame(w, s, &o);
		if (rn_unlikely(m == NULL))
			s->way.tx->st->no_buffer++; /* TCP treats the segment as lost */
		else
			way_send(w, &s->way, way_mark(&s->way, m, &o));
	}
	return false;
}

uint32_t stream_transmit(struct rnicd_worker *w)
{
	struct rn_list again = { 0 };
	struct stream *s;
	uint32_t count = 0, settled = stream_iwarp_settle(w);

	for (uint32_t looks = 0; count + looks < TURN_SHARE && (s = stream_ready_pop(w)) != NULL; looks++) {
		stream_look(w, s);
		if (rn_unlikely(s->iwarp != NULL))
			continue;
		bool done = stream_send(w, s, &count);
		stream_say_state(s);
		if (!done) {
			if (!rn_link_linked(&s->ready))
				rn_list_push_back(&again, &s->ready);
		} else if (tcpl_get_state(&s->qc.tcp) == TCPL_S_CLOSED) {
			stream_drain(w, s); /* the connection was aborted, and its reset has been sent */
			stream_over(w, s, ECONNRESET);
			continue;
		}
		rn_wheel_arm(&w->streams.wheel, &s->timer, tcpl_next_wake(&s->qc.tcp));
	}
	while ((s = rn_list_pop(&again, struct stream, ready)) != NULL)
		stream_ready(w, s);
	return settled + count + stream_iwarp_transmit(w);
}
