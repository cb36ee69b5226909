/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the next segment. Order: reset, SYN, ACKs that report holes, retransmissions, new data, probes, bare ACKs. */
#include "tcpl_int.h"
#include "tcp_lite/tcpl_room.h"

/* Moves the announced right edge when that is worth a segment (RFC 9293, 3.8.6.2.2), never left. */
static uint16_t window_out(struct tcpl_conn *c)
{
	uint32_t edge = c->rcv_nxt + c->rcv_space;
	int32_t grow = rn_seq_diff(edge, c->rcv_adv);
	uint32_t max = UINT32_C(65535) << c->rcv_wscale;

	if (grow > 0 && (uint32_t)grow >= rn_min_u32(c->mss, c->rcv_space / 2))
		c->rcv_adv = rn_seq_min(edge, c->rcv_nxt + max);
	if (rn_unlikely(c->rcv_space == TCPL_SHUT))
		return 0;
	return (uint16_t)rn_min_u32((c->rcv_adv - c->rcv_nxt) >> c->rcv_wscale, 65535);
}

/* Header of every segment of a synchronised connection; whatever carries an ACK settles the pending one. */
static void header(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o, uint32_t seq, uint8_t flags)
{
	o->seq = seq;
	o->ack = c->rcv_nxt;
	o->len = 0;
	o->chunk = 0;
	o->off = 0;
	o->wnd = window_out(c);
	o->flags = flags;
	o->rexmit = false;
	o->optlen = c->flags & F_TS ? tcpl_opt_ts(tcpl_tsval(c, now), c->ts_recent, o->opt) : 0;
	c->rcv_acked = c->rcv_nxt;
	c->t_ack = RN_NEVER;
	c->flags &= ~(uint32_t)F_ACK_NOW;
	c->stats.segs_out++;
}

/* A reset with an ACK ends a synchronised connection, so it has a timestamp (RFC 7323, 3.2). */
static bool out_rst(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	bool ack = (c->flags & F_RST_ACK) != 0;

	*o = (struct tcpl_out){ .seq = c->rst_seq, .flags = TCPL_RST };
	if (ack) {
		o->flags |= TCPL_ACK;
		o->ack = c->rcv_nxt;
		o->optlen = c->flags & F_TS ? tcpl_opt_ts(tcpl_tsval(c, now), c->ts_recent, o->opt) : 0;
	}
	c->flags &= ~(uint32_t)(F_RST_NOW | F_RST_REPLY | F_RST_ACK);
	c->stats.segs_out++;
	return true;
}

static bool out_syn(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	const struct tcpl_cfg *cfg = c->cfg;
	bool passive = c->state == TCPL_S_SYN_RCVD;
	uint32_t offer = c->flags;

	if (!passive)
		offer = (cfg->use_wscale ? F_WSCALE : 0) | (cfg->use_sack ? F_SACK : 0) | (cfg->use_ts ? F_TS : 0) |
			(cfg->exid != 0 && c->backoff < TCPL_EXID_SYNS ? F_EXID : 0);
	*o = (struct tcpl_out){
		.seq = c->iss,
		.ack = passive ? c->rcv_nxt : 0,
		.wnd = (uint16_t)rn_min_u32(c->rcv_space, 65535),
		.flags = passive ? TCPL_SYN | TCPL_ACK : TCPL_SYN,
		.rexmit = c->backoff > 0,
	};
	o->optlen = tcpl_opt_syn(cfg, offer, passive, tcpl_tsval(c, now), passive ? c->ts_recent : 0, o->opt);
	c->flags &= ~(uint32_t)(F_SYN_NOW | F_ACK_NOW);
	c->stats.segs_out++;
	c->stats.rexmits += o->rexmit;
	if (c->rtx_mode != TCPL_RTX_SYN) {
		c->rtx_mode = TCPL_RTX_SYN;
		c->rto_base = now;
		c->t_rtx = now + tcpl_backed_off(c);
	}
	return true;
}

static bool out_ack(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	header(c, now, o, c->snd_nxt, TCPL_ACK);
	c->owed -= c->owed != 0;
	if (c->flags & F_SACK)
		o->optlen += tcpl_opt_sack(c, o->opt + o->optlen, o->optlen);
	c->dsack.end = c->dsack.seq;
	return true;
}

static bool cwnd_allows(const struct tcpl_conn *c, uint32_t len)
{
	uint32_t pipe = tcpl_pipe(c);

	return pipe == 0 || (uint64_t)pipe + len <= c->cwnd;
}

/* Where a record goes on behind its first `skip` bytes. */
static void piece(struct tcpl_conn *c, const struct tcpl_txrec *r, uint32_t skip, struct tcpl_out *o)
{
	o->chunk = r->chunk;
	o->off = r->off;
	while (skip > 0) {
		uint32_t left = tcpl_chunk(c, o->chunk)->len - o->off;
		if (skip < left) {
			o->off += skip;
			return;
		}
		skip -= left;
		o->off = 0;
		o->chunk++;
	}
}

/* The record is in flight once more, whole. */
static void resent(struct tcpl_conn *c, uint64_t now, uint32_t idx)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx);

	if (r->flags & R_LOST) {
		c->n_lost--;
		c->pipe += r->end - r->seq;
		r->flags &= (uint8_t)~R_LOST;
	} else {
		tcpl_flight_del(c, idx);
	}
	r->flags = (uint8_t)((r->flags & ~(uint32_t)R_PATH) | tcpl_path_now(c) << R_PATH_SHIFT);
	tcpl_flight_add(c, idx);
	if (r->rexmits < UINT8_MAX)
		r->rexmits++;
	r->sent = now;
	if (rn_unlikely(c->flags & (F_MODEL | F_PACED)))
		tcpl_rate_sent(c, now, idx, r->end - r->seq);
	if ((c->flags & F_UNDO) && c->recovery != TCPL_R_OPEN && c->undo_rexmits++ == 0) {
		c->undo_ts = tcpl_tsval(c, now);
		c->flags |= F_UNDO_TS;
		if (c->flags & F_TLP_REXMIT) /* the probe before it may be reported as a duplicate, too */
			c->undo_rexmits++;
		if (!(c->flags & F_TLP_ON))
			c->flags &= ~(uint32_t)F_TLP_REXMIT;
	}
}

/*
 * How much of a lost record may be sent from `from` on while no chunk may be begun with a part of it: the rest of a
 * chunk that was begun before, or a whole chunk. 0: nothing.
 */
static RN_COLD uint32_t uncut_len(struct tcpl_conn *c, const struct tcpl_txrec *r, uint32_t from, uint32_t end)
{
	struct tcpl_out o;

	piece(c, r, from - r->seq, &o);
	uint32_t left = tcpl_chunk(c, o.chunk)->len - o.off;
	bool begun = o.off > 0 || left > end - from;
	if (left <= c->mss)
		return left;
	return begun ? c->mss : 0;
}

/* A lost record that is larger than the path takes by now goes in pieces; it is lost until the last of them is sent. */
static bool resend(struct tcpl_conn *c, uint64_t now, uint32_t idx, struct tcpl_out *o)
{
	const struct tcpl_txrec *r = tcpl_rec(c, idx);
	bool fin = (r->flags & R_FIN) != 0;
	uint32_t from = r->seq, end = r->end - fin, len;

	if (rn_unlikely(c->flags & F_PIECE) && rn_seq_gt(c->piece, from) && rn_seq_lt(c->piece, end))
		from = c->piece;
	len = rn_min_u32(end - from, c->mss);
	if (rn_unlikely(c->uncut) && end - from > c->mss && (len = uncut_len(c, r, from, end)) == 0)
		return false;
	header(c, now, o, from, TCPL_ACK);
	o->len = len;
	piece(c, r, from - r->seq, o);
	o->rexmit = true;
	if (idx == c->r_head)
		c->rto_base = now;
	c->prr_out += o->len;
	c->stats.rexmits++;
	c->flags |= F_SENT;
	c->flags &= ~(uint32_t)F_PIECE;
	if (rn_unlikely(from + o->len != end)) {
		c->piece = from + o->len;
		c->flags |= F_PIECE;
		return true;
	}
	if (o->len > 0 && end == c->q_end)
		o->flags |= TCPL_PSH;
	if (fin)
		o->flags |= TCPL_FIN;
	resent(c, now, idx);
	return true;
}

static bool out_lost(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	while (!(tcpl_rec(c, c->r_lost)->flags & R_LOST))
		c->r_lost++;
	const struct tcpl_txrec *r = tcpl_rec(c, c->r_lost);
	if ((!(c->flags & F_FORCE) && !cwnd_allows(c, rn_min_u32(r->end - r->seq, c->mss))) || tcpl_pace_waits(c, now))
		return false;
	c->flags &= ~(uint32_t)F_FORCE;
	return resend(c, now, c->r_lost, o);
}

static void advance_queue(struct tcpl_conn *c, uint32_t len)
{
	while (len > 0) {
		uint32_t left = tcpl_chunk(c, c->q_sent)->len - c->q_off;
		if (len < left) {
			c->q_off += len;
			return;
		}
		len -= left;
		c->q_off = 0;
		c->q_sent++;
	}
}

/*
 * Nothing was sent for longer than a timeout: cwnd is out of date (RFC 5681, 4.1). cwnd is halved for each timeout that
 * has passed, down to the initial window, and slow start leads back to three quarters (RFC 2861, 3.1).
 * A sender that paces, or whose congestion control models the path, makes no burst and keeps its cwnd.
 */
static void restart(struct tcpl_conn *c, uint64_t now)
{
	uint32_t least = rn_min_u32(c->cwnd, (uint32_t)c->cfg->init_cwnd * c->mss);
	uint64_t idle = now - c->tlp_base;

	if (c->pace_cost != 0 || (c->flags & F_MODEL) || c->cwnd == least)
		return;
	c->ssthresh = rn_max_u32(c->ssthresh, c->cwnd / 4 * 3);
	for (; idle > c->rto && c->cwnd > least; idle -= c->rto)
		c->cwnd /= 2;
	c->cwnd = rn_max_u32(c->cwnd, least);
}

/* The record of a new segment of len sequence numbers. Nothing of the record is read back while its stores are new. */
static inline void put_record(struct tcpl_conn *c, uint64_t now, uint32_t len, bool fin)
{
	const uint32_t path = tcpl_path_now(c);
	const uint16_t slot = (uint16_t)tcpl_slot(c, c->r_tail);

	c->mem.rec[slot] = (struct tcpl_txrec){ .seq = c->snd_nxt,
						.end = c->snd_nxt + len,
						.chunk = c->q_sent,
						.off = c->q_off,
						.sent = now,
						.flags = (uint8_t)(path << R_PATH_SHIFT | (fin ? R_FIN : 0)),
						.next = TCPL_NO_SLOT,
						.prev = tcpl_flight_last(c, path, slot) };
}

/* force: a tail loss probe or a window probe, which do not ask cwnd; override: the latter may cut a chunk. */
static bool out_data(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o, bool force, bool override)
{
	uint32_t usable = tcpl_usable(c);
	uint32_t unsent = tcpl_unsent(c), len = 0;

	if (c->r_tail - c->r_head == c->mem.rec_n || (!force && tcpl_pace_waits(c, now)))
		return false;
	if (c->r_head == c->r_tail && rn_unlikely(now - c->tlp_base > c->rto))
		restart(c, now);
	if (unsent > 0) {
		len = tcpl_plan(c, usable, override);
		if (len == 0 || (!force && !cwnd_allows(c, len)))
			return false;
	}
	/*
	 * The FIN goes in a segment of its own. Linux tells a socket's owner of a FIN before the data in the same
	 * segment, and siw then calls a reject with private data a reset.
	 */
	bool fin = (c->flags & (F_FIN_QUEUED | F_FIN_SENT)) == F_FIN_QUEUED && unsent == 0 && usable > 0;
	if (len == 0 && !fin)
		return false;

	header(c, now, o, c->snd_nxt, TCPL_ACK);
	o->len = len;
	o->chunk = c->q_sent;
	o->off = c->q_off;
	if (len == unsent && len > 0)
		o->flags |= TCPL_PSH;
	put_record(c, now, len + fin, fin);
	c->prr_out += len;
	if (rn_unlikely(c->flags & (F_MODEL | F_PACED)))
		tcpl_rate_sent(c, now, c->r_tail, len);
	if (c->r_head == c->r_tail++)
		c->rto_base = now;
	c->pipe += len + fin;
	c->snd_nxt += len + fin;
	if (c->pipe > c->flight_max) {
		c->flight_max = c->pipe;
		c->flight_end = c->snd_nxt;
	}
	advance_queue(c, len);
	if (fin) {
		o->flags |= TCPL_FIN;
		c->flags |= F_FIN_SENT;
	}
	c->tlp_base = now;
	c->stats.bytes_out += len;
	c->flags |= F_SENT;
	return true;
}

/* RFC 8985, 7.3: new data when there is some, else the last segment again. */
static bool out_tlp(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	c->flags &= ~(uint32_t)F_TLP_NOW;
	if (c->r_head == c->r_tail)
		return false;
	c->stats.tlps++;
	if (!out_data(c, now, o, true, false)) {
		const struct tcpl_txrec *r = tcpl_rec(c, c->r_tail - 1);
		if ((r->flags & R_SACKED) || r->end - r->seq > c->mss) /* the timeout sends pieces */
			return false;
		resend(c, now, c->r_tail - 1, o);
		c->flags |= F_TLP_REXMIT;
	}
	c->flags |= F_TLP_ON;
	c->tlp_end = c->snd_nxt;
	c->rto_base = now;
	return true;
}

/*
 * A probe is an empty segment just below the window: the peer must answer it, and no chunk is split for its sake. When
 * the window is open, but too small for a chunk, the chunk is cut at last.
 */
static bool out_probe(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	bool win = (c->flags & F_WIN_PROBE) != 0;

	c->flags &= ~(uint32_t)(F_WIN_PROBE | F_KEEP_PROBE);
	if (win && out_data(c, now, o, true, true))
		return true;
	header(c, now, o, c->snd_una - 1, TCPL_ACK);
	if (win)
		c->stats.win_probes++;
	else
		c->stats.keep_probes++;
	return true;
}

static bool out_synchronised(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	/* SACK blocks go in an ACK of their own, so that data segments always have the same room. */
	if ((c->flags & F_ACK_NOW) && (c->flags & F_SACK) && (c->n_blocks > 0 || c->dsack.seq != c->dsack.end))
		return out_ack(c, now, o);
	/* retransmissions go before new data; they wait only while F-RTO probes for a spurious timeout */
	bool lost = c->n_lost > 0 && c->frto != TCPL_FRTO_SECOND;
	if (lost && out_lost(c, now, o))
		return true;
	if ((c->flags & F_TLP_NOW) && out_tlp(c, now, o))
		return true;
	if (!lost && tcpl_waits(c) && out_data(c, now, o, false, false))
		return true;
	if ((c->flags & (F_WIN_PROBE | F_KEEP_PROBE)) && out_probe(c, now, o))
		return true;
	return ((c->flags & F_ACK_NOW) || c->owed != 0) && out_ack(c, now, o);
}

bool tcpl_settled(const struct tcpl_conn *c)
{
	/* F_SENT: the timers are to be set anew. F_MODEL: tcpl_rate_idle() must know that the owner has no more. */
	const uint32_t work = F_FIN_QUEUED | F_ACK_NOW | F_SYN_NOW | F_RST_NOW | F_RST_REPLY | F_WIN_PROBE |
			      F_KEEP_PROBE | F_TLP_NOW | F_SENT | F_MODEL | F_PACE_WAIT;

	return c->state == TCPL_S_ESTABLISHED && (c->flags & work) == 0 && c->q_head == c->q_tail &&
	       c->r_head == c->r_tail && c->owed == 0;
}

bool tcpl_out(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o)
{
	if (rn_unlikely(c->flags & (F_RST_NOW | F_RST_REPLY)))
		return out_rst(c, now, o);
	switch (tcpl_get_state(c)) {
	case TCPL_S_CLOSED:
	case TCPL_S_COUNT: return false;
	case TCPL_S_SYN_SENT: return (c->flags & F_SYN_NOW) && out_syn(c, now, o);
	case TCPL_S_SYN_RCVD:
		if (c->flags & F_SYN_NOW)
			return out_syn(c, now, o);
		return (c->flags & F_ACK_NOW) && out_ack(c, now, o);
	case TCPL_S_TIME_WAIT: return (c->flags & F_ACK_NOW) && out_ack(c, now, o);
	case TCPL_S_ESTABLISHED:
	case TCPL_S_FIN_WAIT_1:
	case TCPL_S_FIN_WAIT_2:
	case TCPL_S_CLOSE_WAIT:
	case TCPL_S_CLOSING:
	case TCPL_S_LAST_ACK: break;
	}
	if (out_synchronised(c, now, o))
		return true;
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_idle(c);
	/* Whether or not a segment was sent: unsent or unacknowledged data needs a timer. */
	if ((c->flags & F_SENT) || (c->rtx_mode == TCPL_RTX_OFF && tcpl_waits(c))) {
		c->flags &= ~(uint32_t)F_SENT;
		tcpl_rearm(c, now);
	}
	return false;
}
