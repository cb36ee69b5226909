/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of streams of the wire iwarp: the program learns what its messages (iws/iws.h) have brought, and the
 * connection's segments are made into frames and taken from frames.
 */
#include "plane/stream_iwarp.h"

#include "base/rn_seq.h"
#include "plane/frame.h"
#include "plane/port_host.h"
#include "plane/worker_int.h"
#include "tcp_lite/tcpl_room.h"

#define SHARE      32u /* segments that one stream may send before the next stream's turn */
#define TURN_SHARE 64u

/* ---- messages ---- */

void stream_iwarp_feed(struct rnicd_worker *w, struct stream *s, uint32_t tail)
{
	iws_feed(&w->streams.iwarp->iws, s->iwarp, tail, tcpl_emss(&s->qc.tcp));
}

bool stream_iwarp_end(struct rnicd_worker *w, struct stream *s) { return iws_end(&w->streams.iwarp->iws, s->iwarp); }

void stream_iwarp_take(struct rnicd_worker *w, struct stream *s)
{
	const uint32_t found = iws_take(&w->streams.iwarp->iws, s->iwarp, stream_unheard(s));

	if (found & IWS_ACKED)
		__atomic_store_n(&s->mem->tx_head, s->pos.tx_head, __ATOMIC_RELEASE);
	if (found & (IWS_ACKED | IWS_MORE))
		stream_ready(w, s); /* the send queue has room again, or the peer has given credits */
	if (found & IWS_GOT)
		stream_show(w, s, false);
	if (found & IWS_FIN)
		stream_peer_fin(w, s);
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
		/* a segment ahead of a hole is kept, and so is one behind an FPDU that waits for a stage */
		const bool scarce = rn_unlikely(m->next != NULL) &&
				    (rn_seq_gt(seg.seq, s->qc.tcp.rcv_nxt) || s->qc.rc.rnr.state != RC_RNR_NONE) &&
				    port_host_scarce(m);
		kept = scarce ? NULL : stream_slices(s, m, p);
		if (kept == NULL)
			s->way.tx->st->no_buffer++;
		if (scarce) /* the ACK still counts */
			tcpl_strip(&seg);
		else if (kept == NULL) /* TCP treats the segment as lost */
			return;
		else
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

	way_refresh(w, &s->way, &s->addr.remote);
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
