/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of streams of the wire iwarp: the program's bytes become messages (esock/esk.h), received messages go to
 * the program's ring, and the connection's segments are made into frames and taken from frames.
 */
#include "plane/stream_iwarp.h"

#include "base/rn_seq.h"
#include "plane/frame.h"
#include "plane/port_host.h"
#include "plane/worker_int.h"

#define MASK       (IPC_STREAM_RING - 1)
#define DATA_MAX   65536u /* bytes of the largest message, even if the peer takes larger ones */
#define WRITE_MIN  8192u  /* bytes; for fewer, a copy costs less than a second message (measured by ping-pong) */
#define WRITE_MAX  32768u /* bytes of a Write: the program at the other end reads one while the next is on the way */
#define SHARE      32u    /* segments that one stream may send before the next stream's turn */
#define TURN_SHARE 64u
/* Offset of the program's ring of bytes to send in the stream's memory region. */
#define TX_AT (sizeof(struct stream_iwarp) + IPC_STREAM_TX_OFF)

/* ---- messages out ---- */

/* Lists n bytes of the tx ring from place `at` on as SGEs; returns the number of SGEs. */
static uint8_t iw_refer(const struct stream_iwarp *i, struct qp_sge *sge, uint32_t at, uint32_t n)
{
	const uint32_t first = rn_min_u32(n, IPC_STREAM_RING - at);

	if (n == 0)
		return 0;
	sge[0] = (struct qp_sge){ .addr = TX_AT + at, .len = first, .lkey = i->stag };
	if (rn_likely(first == n))
		return 1;
	sge[1] = (struct qp_sge){ .addr = TX_AT, .len = n - first, .lkey = i->stag };
	return 2;
}

/* Posts a work request; the send queue must have room. Its completion frees the program's bytes before tx_put. */
static void iw_put(struct stream *s, const struct qp_wqe *with, const struct qp_sge *sge, uint8_t n)
{
	union {
		struct qp_wqe w;
		uint8_t bytes[IWARP_WR_SIZE];
	} u = { .bytes = { 0 } };

	u.w = *with;
	u.w.wr_id = s->tx_put;
	u.w.num_sge = n;
	u.w.slots = (uint8_t)qp_wqe_slots(n * (uint32_t)sizeof(sge[0]));
	memcpy(u.bytes + QP_WQE_FIXED, sge, n * sizeof(sge[0]));
	spsc_prod_copy(&s->iwarp->post_send, 0, u.bytes, u.w.slots * (size_t)QP_SLOT_SIZE);
	spsc_prod_publish(&s->iwarp->post_send, u.w.slots);
}

/*
 * Posts a message for n of the program's bytes: a DATA carries them; a WRITTEN says that the Write before it had them.
 */
static void iw_post(struct rnicd_worker *w, struct stream *s, enum esk_kind kind, uint32_t n)
{
	struct stream_iwarp *i = s->iwarp;
	const uint32_t at = s->tx_put & MASK, head = i->n_sent++ % IWARP_SQ;
	const struct qp_wqe send = { .op = QP_WR_SEND };
	struct qp_wqe write = { .op = QP_WR_WRITE, .rkey = i->peer.stag, .raddr = i->esk.sent };
	const bool grants = i->esk.room_owed != 0;
	struct qp_sge sge[3];

	s->tx_put += n;
	if (kind == ESK_WRITTEN)
		iw_put(s, &write, sge, iw_refer(i, sge, at, n));
	sge[0] = (struct qp_sge){ .addr = offsetof(struct stream_iwarp, head) + (uint64_t)head * ESK_WINDOW_HEAD,
				  .len = esk_window_out(&i->esk, kind, n, i->head[head]),
				  .lkey = i->stag };
	iw_put(s, &send, sge, (uint8_t)(1 + (kind == ESK_DATA ? iw_refer(i, sge + 1, at, n) : 0)));
	if (grants)
		stream_iwarp_lend(w, s);
	rc_doorbell(&stream_iwarp_ctx(w)->rc, &i->qp);
}

/* True: the send queue has room for a message of any kind. */
static bool iw_room(struct stream_iwarp *i) { return i->open && spsc_prod_free(&i->post_send, 2) >= 2; }

/*
 * Posts a message of at most n bytes to a peer with a window. Few bytes, or what fits a TCP segment and a slot, go by a
 * DATA, which the other end copies to its ring. More bytes go by a Write, which needs a second message (WRITTEN).
 * False: no room.
 */
static bool iw_feed_window(struct rnicd_worker *w, struct stream *s, uint32_t n)
{
	struct stream_iwarp *i = s->iwarp;
	const uint32_t whole = rn_min_u32(tcpl_emss(&s->qc.tcp), esk_window_data(&i->esk));
	const uint32_t few = rn_max_u32(WRITE_MIN, whole);

	n = rn_min_u32(n, esk_window_room(&i->esk));
	if (n == 0)
		return false;
	if (n > few)
		iw_post(w, s, ESK_WRITTEN, rn_min_u32(n, WRITE_MAX));
	else
		iw_post(w, s, ESK_DATA, rn_min_u32(n, esk_window_data(&i->esk)));
	return true;
}

/* Posts a message of at most n bytes to a peer without a window. False: the peer has given no credits for it. */
static bool iw_feed_slots(struct rnicd_worker *w, struct stream *s, uint32_t n)
{
	const uint32_t most = esk_room(&s->iwarp->esk);

	if (most == 0)
		return false;
	iw_post(w, s, ESK_DATA, rn_min_u32(rn_min_u32(n, most), DATA_MAX));
	return true;
}

void stream_iwarp_feed(struct rnicd_worker *w, struct stream *s, uint32_t tail)
{
	const bool windows = s->iwarp->esk.windows;

	while (s->tx_put != tail && iw_room(s->iwarp) &&
	       (windows ? iw_feed_window : iw_feed_slots)(w, s, tail - s->tx_put))
		;
}

/*
 * Closes the connection, called by the end that has sent its END first. The other end waits for this close, as in TCP's
 * passive close.
 */
static void iw_close(struct rnicd_worker *w, struct stream *s)
{
	s->iwarp->open = false;
	rc_disconnect(&stream_iwarp_ctx(w)->rc, &s->qc.rc);
}

bool stream_iwarp_end(struct rnicd_worker *w, struct stream *s)
{
	if (!iw_room(s->iwarp) || !esk_may_end(&s->iwarp->esk))
		return false;
	iw_post(w, s, ESK_END, 0);
	return true;
}

void stream_iwarp_greet(struct rnicd_worker *w, struct stream *s) { iw_post(w, s, ESK_CREDIT, 0); }

/*
 * Posts a CREDIT if the peer is owed much: half of the slots that do not wait for room in the program's ring, or much
 * of the window.
 */
static void iw_credit(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp *i = s->iwarp;
	const uint32_t enough = rn_max_u32((IWARP_SLOTS - i->spares) / 2, 2);

	if (i->esk.windows)
		i->esk.room_owed = IPC_STREAM_RING - (s->rx_tail - s->rx_head) - i->esk.in_room;
	if (((i->esk.owed >= enough && i->esk.credits >= 1) || esk_room_due(&i->esk)) && iw_room(i))
		iw_post(w, s, ESK_CREDIT, 0);
}

/* ---- messages in ---- */

static void iw_slot_post(struct stream_iwarp *i, uint32_t slot)
{
	struct qp_rwqe r = { .wr_id = slot, .num_sge = 1, .slots = 1 };

	r.sge[0] = (struct qp_sge){ .addr = offsetof(struct stream_iwarp, slot) + (uint64_t)slot * IWARP_SLOT,
				    .len = IWARP_SLOT,
				    .lkey = i->stag };
	spsc_prod_copy(&i->post_recv, 0, &r, sizeof(r));
	spsc_prod_publish(&i->post_recv, 1);
}

void stream_iwarp_slots(struct stream_iwarp *i)
{
	for (uint32_t slot = 0; slot < IWARP_SLOTS; slot++)
		iw_slot_post(i, slot);
}

static void iw_slot_again(struct stream_iwarp *i, uint32_t slot)
{
	if (qp_get_state(&i->qp) == QP_S_ERR)
		return;
	(void)spsc_prod_free(&i->post_recv, 1);
	iw_slot_post(i, slot);
	esk_posted(&i->esk);
}

/*
 * Posts slots again, but only so many that the program's ring has room for the contents of all posted slots. So a
 * received message can always be copied to the ring at once.
 */
static void iw_spares(struct stream *s)
{
	struct stream_iwarp *i = s->iwarp;
	const uint32_t room = IPC_STREAM_RING - (s->rx_tail - s->rx_head);

	while (i->spares > 0 && (IWARP_SLOTS - i->spares + 1) * IWARP_SLOT <= room)
		iw_slot_again(i, i->spare[--i->spares]);
}

/* A message that breaks the rules ends the connection with a Terminate. */
static void iw_violated(struct rnicd_worker *w, struct stream *s)
{
	s->iwarp->open = false;
	s->iwarp->fails = true;
	s->iwarp->error = ECONNRESET;
	(void)rc_modify(&stream_iwarp_ctx(w)->rc, &s->iwarp->qp, QP_S_ERR);
}

static void iw_message(struct rnicd_worker *w, struct stream *s, uint32_t slot, uint32_t len)
{
	struct stream_iwarp *i = s->iwarp;
	enum esk_kind kind;

	if (i->fails)
		return;
	if (slot >= IWARP_SLOTS || len > IWARP_SLOT || esk_in(&i->esk, i->slot[slot], len, &kind) != ESK_OK) {
		iw_violated(w, s);
		return;
	}
	if (i->esk.bytes != 0 && stream_unheard(s)) {
		stream_iwarp_abort(w, s); /* no program will read the bytes (RFC 9293, 3.10.4; RFC 2525, 2.17) */
		return;
	}
	stream_ready(w, s); /* the message may have brought credits */
	if (kind == ESK_DATA)
		stream_put_in(w, s, i->slot[slot] + esk_head_len(&i->esk), i->esk.bytes);
	else if (kind == ESK_WRITTEN)
		s->rx_tail += i->esk.bytes;
	if (kind == ESK_DATA && !i->esk.windows) {
		i->spare[i->spares++] = (uint8_t)slot;
		return;
	}
	if (kind == ESK_END && i->esk.out_ended)
		iw_close(w, s);
	iw_slot_again(i, slot);
}

static void iw_send_done(struct stream *s, const struct qp_cqe *e)
{
	if (e->status == QP_WC_SUCCESS)
		s->tx_head = (uint32_t)e->wr_id;
	else if (e->status == QP_WC_RETRY_EXC_ERR)
		s->iwarp->error = ETIMEDOUT; /* the peer's TCP has not answered: qp_unanswered() */
}

static void iw_completions(struct rnicd_worker *w, struct stream *s)
{
	struct stream_iwarp *i = s->iwarp;
	struct qp_cqe e;

	while (spsc_cons_avail(&i->done, 1) != 0) {
		spsc_cons_copy(&i->done, 0, &e, sizeof(e));
		spsc_cons_release(&i->done, 1);
		if (e.op != QP_WC_RECV)
			iw_send_done(s, &e);
		else if (e.status == QP_WC_SUCCESS)
			iw_message(w, s, (uint32_t)e.wr_id, e.byte_len);
	}
}

void stream_iwarp_take(struct rnicd_worker *w, struct stream *s)
{
	const uint32_t head = s->tx_head, tail = s->rx_tail;

	iw_completions(w, s);
	if (s->rx_tail != tail && s->iwarp->esk.windows)
		stream_iwarp_lend(w, s); /* first: the peer must not change bytes that the program may read */
	if (s->tx_head != head) {
		__atomic_store_n(&s->mem->tx_head, s->tx_head, __ATOMIC_RELEASE);
		stream_ready(w, s); /* the send queue has room again */
	}
	if (s->rx_tail != tail)
		stream_show(w, s, false);
	iw_spares(s);
	iw_credit(w, s);
	if (s->iwarp->esk.in_ended && !s->iwarp->fails && !s->iwarp->in_told) {
		s->iwarp->in_told = true;
		stream_peer_fin(w, s);
	}
	stream_answer(w, s);
}

/* ---- segments ---- */

struct rte_mbuf *stream_slices(const struct stream *s, struct rte_mbuf *m, const struct pkt *p)
{
	struct mbuf_priv *priv = mbuf_priv(m);
	uint32_t n = frame_iov(m, p->payload_off, p->payload_len, priv->iov, WORKER_MAX_IOV);

	if (rn_unlikely(n == UINT32_MAX)) {
		m = frame_copy(s->way.port->pool, m);
		if (m == NULL)
			return NULL;
		priv = mbuf_priv(m);
		n = frame_iov(m, p->payload_off, p->payload_len, priv->iov, WORKER_MAX_IOV);
	}
	priv->pkt = (struct rc_tcp_pkt){ .iov = priv->iov, .n = n, .crc_due = frame_crc_deferred(m) };
	return m;
}

void stream_iwarp_input(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p)
{
	const enum tcpl_state was = tcpl_get_state(&s->qc.tcp);
	struct tcpl_seg seg = way_segment(p);
	struct rte_mbuf *kept = NULL;

	if (seg.len != 0) {
		const bool ahead = rn_unlikely(rn_seq_gt(seg.seq, s->qc.tcp.rcv_nxt));
		kept = ahead && port_host_scarce(m) ? NULL : stream_slices(s, m, p);
		if (kept == NULL) {
			s->way.tx->st->no_buffer++; /* TCP treats the segment as lost */
			return;
		}
		seg.ref = (uint64_t)(uintptr_t)&mbuf_priv(kept)->pkt;
	}
	stream_slices_end(m, kept, rc_tcp_segment(stream_iwarp_ctx(w), &s->qc, &seg));
	stream_iwarp_touch(w, s);
	const enum tcpl_state is = tcpl_get_state(&s->qc.tcp);
	if (rn_unlikely(is == TCPL_S_TIME_WAIT) && !rn_link_linked(&s->time_wait))
		stream_time_wait(w, s);
	if (rn_unlikely(is == TCPL_S_CLOSED) && (was == TCPL_S_TIME_WAIT || was == TCPL_S_CLOSED) &&
	    (seg.flags & (TCPL_SYN | TCPL_ACK | TCPL_RST)) == TCPL_SYN) {
		/* TCPL_NEW_SYN: a listener may answer in the next turn. In this one the SYN may come by once more. */
		rte_pktmbuf_refcnt_update(m, 1);
		conn_again(w, s->way.port, m);
	}
}

void stream_iwarp_timer(struct rnicd_worker *w, struct stream *s)
{
	rc_tcp_timer(stream_iwarp_ctx(w), &s->qc);
	stream_iwarp_touch(w, s);
}

static struct rte_mbuf *iw_frame(struct rnicd_worker *w, struct stream *s, const struct tcpl_out *o)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(s->way.port->pool);
	uint64_t sum = 0;

	if (rn_unlikely(m == NULL))
		return NULL;
	uint32_t hdr = pkt_tcp_hdr_len(&s->way.tmpl, o->optlen);
	uint8_t *payload = rte_pktmbuf_mtod_offset(m, uint8_t *, hdr);
	if (o->len != 0) {
		frame_defer_crc(m, rc_tcp_copy(stream_iwarp_ctx(w), &s->qc, o, payload, way_crc(&s->way)));
		if (!way_defers(&s->way)) {
			sum = pkt_sum(payload, o->len);
			w->tcp.rc.qp.stats.summed_tx += o->len;
		}
	}
	way_header(&s->way, o, sum, m);
	m->data_len = (uint16_t)(hdr + o->len);
	m->pkt_len = hdr + o->len;
	return m;
}

/* Sends at most SHARE segments. True: the stream has nothing more to send now. */
static bool iw_send(struct rnicd_worker *w, struct stream *s, uint32_t *count)
{
	const uint32_t n = rn_min_u32(way_room(w, &s->way), SHARE);
	struct rc_tcp_ctx *ctx = stream_iwarp_ctx(w);
	struct tcpl_out o;

	way_refresh(w, &s->way);
	for (uint32_t i = 0; i < n && !rc_tcp_full(ctx); i++) {
		way_aim(&s->way, &s->qc.tcp, w->now);
		if (!rc_tcp_out(ctx, &s->qc, &o))
			return true;
		(*count)++;
		s->way.tx->st->tx_data += o.len > 0;
		s->way.tx->st->tx_again += o.rexmit;
		struct rte_mbuf *m = iw_frame(w, s, &o);
		if (rn_unlikely(m == NULL))
			s->way.tx->st->no_buffer++; /* TCP treats the segment as lost */
		else
			way_send(w, &s->way, way_mark(&s->way, m, &o));
	}
	return false;
}

uint32_t stream_iwarp_transmit(struct rnicd_worker *w)
{
	struct rc_tcp_ctx *ctx = &w->streams.iwarp->tcp;
	struct rc_tcp *qc, *stuck = NULL; /* stuck: the first connection that found no room at its port */
	uint32_t count = 0;

	if (rn_likely(!w->streams.iwarp->on))
		return 0;
	for (uint32_t looks = 0; count + looks < TURN_SHARE && (qc = rc_tcp_ready_pop(ctx)) != NULL; looks++) {
		struct stream *s = rn_container_of(qc, struct stream, qc);
		const uint32_t before = count;
		const bool done = iw_send(w, s, &count);
		stream_say_state(s);
		rn_wheel_arm(&w->streams.wheel, &s->timer, rc_tcp_next_wake(&s->qc));
		if (!done)
			rc_ready_put(&ctx->rc, &qc->rc);
		if (!done && count == before) { /* the port has no room, and nothing has changed */
			if (qc == stuck)
				break;
			stuck = stuck != NULL ? stuck : qc;
		} else if (s->iwarp != NULL) {
			stream_iwarp_touch(w, s);
		}
	}
	count += stream_iwarp_settle(w);
	return count + !rn_list_empty(&ctx->rc.qp.flushing);
}
