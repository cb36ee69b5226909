/* SPDX-License-Identifier: BSD-3-Clause */
/* A segment arrives: one handler per state (RFC 9293, 3.10.7), with the predicted path before them. */
#include "tcpl_int.h"

#include "base/rn_be.h"

/* 24 days as tcpl_epoch counts */
#define TS_RECENT_EPOCHS ((uint32_t)(24u * 86400u * RN_NS_PER_S >> TCPL_EPOCH_SHIFT))

typedef enum tcpl_verdict (*handler)(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				     const struct tcpl_opts *o, struct tcpl_ev *ev);

/* RFC 7323, 5.3; a TS.Recent older than 24 days says nothing (5.5): then every timestamp is newer. */
static bool ts_older(const struct tcpl_conn *c, uint64_t now, uint32_t tsval)
{
	return rn_seq_lt(tsval, c->ts_recent) && tcpl_epoch(now) - c->ts_recent_age < TS_RECENT_EPOCHS;
}

static void update_ts_recent(struct tcpl_conn *c, uint64_t now, uint32_t seq, uint32_t tsval)
{
	if (rn_seq_gt(seq, c->rcv_acked) || ts_older(c, now, tsval)) /* RFC 7323, 4.3 (2) */
		return;
	c->ts_recent = tsval;
	c->ts_recent_age = tcpl_epoch(now);
}

/* Answers an unacceptable segment with an ACK: at once if it has payload or FIN, else within the rate limit. */
static void answer_unacceptable(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s)
{
	if (s->len > 0 && rn_seq_le(s->seq + s->len, c->rcv_nxt)) {
		tcpl_dsack(c, s->seq, s->seq + s->len);
		c->stats.dups++;
	}
	if (s->len > 0 || (s->flags & TCPL_FIN))
		c->flags |= F_ACK_NOW;
	else
		tcpl_challenge(c, now);
}

/*
 * RFC 9293, 3.10.7.4, first: some part must lie in the window. A bare ACK may stand exactly at the right edge (its
 * sender has used the whole window), or at what we had last acknowledged (data have overtaken it on the way); and data
 * at RCV.NXT with a closed window still bring their ACK along.
 */
static bool in_window(const struct tcpl_conn *c, const struct tcpl_seg *s)
{
	uint32_t len = s->len + !!(s->flags & TCPL_FIN) + !!(s->flags & TCPL_SYN);

	if (rn_seq_gt(s->seq, c->rcv_adv))
		return false;
	return len == 0 ? rn_seq_ge(s->seq, c->rcv_acked) : rn_seq_gt(s->seq + len, c->rcv_nxt);
}

static enum tcpl_verdict reset_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, struct tcpl_ev *ev)
{
	if (s->seq != c->rcv_nxt) {
		/* RFC 5961, 3.2: inside the window but not exact: challenge; outside: silence */
		if (rn_seq_ge(s->seq, c->rcv_nxt) && rn_seq_le(s->seq, c->rcv_adv))
			tcpl_challenge(c, now);
		return TCPL_DROP_RST;
	}
	/* With both FINs out and all data acknowledged a reset is only an early end (RFC 9293, 3.10.7.4, second). */
	bool over = (c->flags & F_FIN_RCVD) && (c->flags & F_FIN_SENT) && c->snd_una + 1 == c->snd_nxt;
	tcpl_finish(c);
	ev->bits |= over ? TCPL_EV_CLOSED : TCPL_EV_RESET;
	return TCPL_OK;
}

/* The checks of every synchronised state, in the RFC's order. */
static enum tcpl_verdict front(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, const struct tcpl_opts *o,
			       struct tcpl_ev *ev)
{
	if (s->flags & TCPL_RST)
		return reset_in(c, now, s, ev);
	if (c->flags & F_TS) {
		if (!o->has_ts)
			return TCPL_DROP_PAWS; /* RFC 7323, 3.2 */
		if (ts_older(c, now, o->tsval)) {
			answer_unacceptable(c, now, s);
			return TCPL_DROP_PAWS;
		}
	}
	if (s->flags & TCPL_SYN) { /* RFC 5961, 4.2: whatever its sequence number */
		tcpl_challenge(c, now);
		return TCPL_DROP_SYN;
	}
	if (!in_window(c, s)) {
		answer_unacceptable(c, now, s);
		return TCPL_DROP_WINDOW;
	}
	if (!(s->flags & TCPL_ACK))
		return TCPL_DROP_STATE;
	/* RFC 5961, 5.2: SND.UNA - MAX.SND.WND <= SEG.ACK <= SND.NXT */
	if (rn_seq_gt(s->ack, c->snd_nxt) || rn_seq_lt(s->ack, c->snd_una - c->max_wnd)) {
		tcpl_challenge(c, now);
		return TCPL_DROP_ACK;
	}
	if (c->flags & F_TS)
		update_ts_recent(c, now, s->seq, o->tsval);
	return TCPL_OK;
}

/* front, then the ACK, then (if wanted) the payload. */
static enum tcpl_verdict synchronised(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				      const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	enum tcpl_verdict v = front(c, now, s, o, ev);

	if (v != TCPL_OK || c->state == TCPL_S_CLOSED)
		return v;
	tcpl_ack_in(c, now, s, o, ev);
	if (c->flags & F_FIN_RCVD) {
		if (s->len > 0) { /* beyond the peer's FIN: not part of the stream */
			c->flags |= F_ACK_NOW;
			return TCPL_DROP_STATE;
		}
	} else if (s->len > 0 || (s->flags & TCPL_FIN)) {
		tcpl_rx_data(c, now, s, ev, &v);
	}
	return v;
}

static enum tcpl_verdict in_closed(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				   const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	(void)c;
	(void)now;
	(void)s;
	(void)o;
	(void)ev;
	return TCPL_DROP_STATE;
}

static void reset_reply(struct tcpl_conn *c, uint32_t seq)
{
	c->rst_seq = seq;
	c->flags |= F_RST_REPLY;
}

/* RFC 9293, 3.10.7.3 */
static enum tcpl_verdict in_syn_sent(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				     const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	bool acks = (s->flags & TCPL_ACK) != 0;

	if (acks && s->ack != c->snd_nxt) {
		if (!(s->flags & TCPL_RST))
			reset_reply(c, s->ack);
		return TCPL_DROP_ACK;
	}
	if (s->flags & TCPL_RST) {
		if (!acks)
			return TCPL_DROP_RST;
		tcpl_finish(c);
		ev->bits |= TCPL_EV_RESET;
		return TCPL_OK;
	}
	if (!(s->flags & TCPL_SYN))
		return TCPL_DROP_STATE;
	c->irs = s->seq;
	tcpl_negotiate(c, now, o);
	c->snd_wnd = s->wnd;
	c->snd_wl1 = s->seq;
	c->max_wnd = s->wnd;
	if (!acks) { /* simultaneous open (3.5, figure 7) */
		c->flags |= F_SYN_NOW;
		tcpl_set_state(c, TCPL_S_SYN_RCVD);
		return TCPL_OK;
	}
	c->snd_una = s->ack;
	if (c->backoff == 0)
		tcpl_rtt_sample(c, now - c->rto_base);
	c->flags |= F_ACK_NOW;
	tcpl_established(c, now);
	ev->bits |= TCPL_EV_CONNECTED | TCPL_EV_SPACE;
	return TCPL_OK;
}

static enum tcpl_verdict in_established(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
					const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	enum tcpl_verdict v = synchronised(c, now, s, o, ev);

	if (ev->bits & TCPL_EV_PEER_FIN)
		tcpl_set_state(c, TCPL_S_CLOSE_WAIT);
	return v;
}

static void enter_time_wait(struct tcpl_conn *c, uint64_t now)
{
	tcpl_set_state(c, TCPL_S_TIME_WAIT);
	c->rtx_mode = TCPL_RTX_OFF;
	c->t_rtx = RN_NEVER;
	c->t_idle = now + c->cfg->time_wait_ns;
}

static enum tcpl_verdict in_fin_wait_1(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				       const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	enum tcpl_verdict v = synchronised(c, now, s, o, ev);
	bool acked = tcpl_fin_acked(c);

	if (c->state != TCPL_S_FIN_WAIT_1)
		return v;
	if (ev->bits & TCPL_EV_PEER_FIN) {
		if (acked)
			enter_time_wait(c, now);
		else
			tcpl_set_state(c, TCPL_S_CLOSING);
	} else if (acked) {
		tcpl_set_state(c, TCPL_S_FIN_WAIT_2);
		tcpl_rearm_idle(c, now);
	}
	return v;
}

static enum tcpl_verdict in_fin_wait_2(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				       const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	enum tcpl_verdict v = synchronised(c, now, s, o, ev);

	if (ev->bits & TCPL_EV_PEER_FIN)
		enter_time_wait(c, now);
	return v;
}

static enum tcpl_verdict in_close_wait(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				       const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	return synchronised(c, now, s, o, ev);
}

static enum tcpl_verdict in_closing(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				    const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	enum tcpl_verdict v = synchronised(c, now, s, o, ev);

	if (c->state == TCPL_S_CLOSING && tcpl_fin_acked(c))
		enter_time_wait(c, now);
	return v;
}

static enum tcpl_verdict in_last_ack(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				     const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	enum tcpl_verdict v = synchronised(c, now, s, o, ev);

	if (c->state == TCPL_S_LAST_ACK && tcpl_fin_acked(c)) {
		tcpl_finish(c);
		ev->bits |= TCPL_EV_CLOSED;
	}
	return v;
}

static enum tcpl_verdict in_time_wait(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				      const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	if (s->flags & TCPL_RST)
		return TCPL_DROP_RST; /* RFC 1337: a reset must not cut TIME_WAIT short */
	if ((s->flags & (TCPL_SYN | TCPL_ACK)) == TCPL_SYN) {
		/* RFC 6191, 2 */
		bool newer = (c->flags & F_TS) && o->has_ts && rn_seq_gt(o->tsval, c->ts_recent);
		if (newer || rn_seq_gt(s->seq, c->rcv_nxt)) {
			tcpl_finish(c);
			ev->bits |= TCPL_EV_CLOSED;
			return TCPL_NEW_SYN;
		}
	}
	enum tcpl_verdict v = synchronised(c, now, s, o, ev);
	if ((s->flags & TCPL_FIN) && s->seq + s->len + 1 == c->rcv_nxt)
		c->t_idle = now + c->cfg->time_wait_ns; /* our last ACK was lost: 2 MSL again */
	return v;
}

/*
 * A repeated SYN gets its SYN-ACK again; the SYN-ACK of a peer that opened at the same time counts as its ACK. An ACK
 * that is not ours is answered with a reset (RFC 9293, 3.10.7.4, fifth).
 */
static enum tcpl_verdict in_syn_rcvd(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s,
				     const struct tcpl_opts *o, struct tcpl_ev *ev)
{
	struct tcpl_seg bare = *s;

	if ((s->flags & (TCPL_SYN | TCPL_RST)) == TCPL_SYN && s->seq == c->irs) {
		if (!(s->flags & TCPL_ACK)) {
			c->flags |= F_SYN_NOW;
			return TCPL_DROP_SYN;
		}
		bare.flags &= (uint8_t)~TCPL_SYN;
		bare.seq++;
		bare.wnd = (uint16_t)(s->wnd >> c->snd_wscale);
		c->flags |= F_ACK_NOW;
	}
	if ((bare.flags & (TCPL_ACK | TCPL_RST | TCPL_SYN)) == TCPL_ACK && bare.ack != c->snd_nxt &&
	    in_window(c, &bare)) {
		reset_reply(c, bare.ack);
		return TCPL_DROP_ACK;
	}
	enum tcpl_verdict v = front(c, now, &bare, o, ev);
	if (v != TCPL_OK || c->state == TCPL_S_CLOSED)
		return v;
	c->snd_una = bare.ack;
	c->snd_wnd = (uint32_t)bare.wnd << c->snd_wscale;
	c->max_wnd = rn_max_u32(c->max_wnd, c->snd_wnd);
	c->snd_wl1 = bare.seq;
	if (c->backoff == 0)
		tcpl_rtt_sample(c, now - c->rto_base);
	tcpl_established(c, now);
	ev->bits |= TCPL_EV_CONNECTED | TCPL_EV_SPACE;
	if (c->state == TCPL_S_FIN_WAIT_1)
		return in_fin_wait_1(c, now, &bare, o, ev);
	return in_established(c, now, &bare, o, ev);
}

/*
 * Header prediction: established (or half-closed by us), nothing missing on either side, exactly the expected segment.
 * True when it was dealt with; then the payload, if any, is ev->slice.
 */
static bool predicted(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, struct tcpl_ev *ev)
{
	uint32_t acked = s->ack - c->snd_una;

	if ((c->state != TCPL_S_ESTABLISHED && c->state != TCPL_S_FIN_WAIT_2) || (s->flags & ~TCPL_PSH) != TCPL_ACK ||
	    s->seq != c->rcv_nxt || c->h_tail != 0 || c->recovery != TCPL_R_OPEN ||
	    (c->n_sacked | c->n_lost | c->dup_acks | c->owed) != 0 || (c->flags & (F_AHEAD | F_FIN_SEEN)) ||
	    acked > c->snd_nxt - c->snd_una || s->len > c->rcv_adv - c->rcv_nxt || (acked | s->len) == 0)
		return false;
	if (c->flags & F_TS) {
		if (s->optlen != TCPL_TS_OPTLEN || rn_load_be32(s->opt) != 0x0101080a)
			return false;
		uint32_t tsval = rn_load_be32(s->opt + 4);
		if (rn_seq_lt(tsval, c->ts_recent))
			return false;
		update_ts_recent(c, now, s->seq, tsval);
	} else if (s->optlen != 0) {
		return false;
	}
	c->stats.fast_in++;
	tcpl_window_in(c, s, ev);
	if (acked != 0)
		tcpl_ack_fast(c, now, s->ack, ev);
	if (s->len != 0) {
		ev->bits |= TCPL_EV_DATA;
		ev->slice = (struct tcpl_slice){ s->ref, 0, s->len, s->seq };
		c->rcv_nxt += s->len;
		c->stats.bytes_in += s->len;
		tcpl_ack_policy(c, now, s->flags);
	}
	return true;
}

enum tcpl_verdict tcpl_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, struct tcpl_ev *ev)
{
	static const handler by_state[TCPL_S_COUNT] = {
		[TCPL_S_CLOSED] = in_closed,         [TCPL_S_SYN_SENT] = in_syn_sent,
		[TCPL_S_SYN_RCVD] = in_syn_rcvd,     [TCPL_S_ESTABLISHED] = in_established,
		[TCPL_S_FIN_WAIT_1] = in_fin_wait_1, [TCPL_S_FIN_WAIT_2] = in_fin_wait_2,
		[TCPL_S_CLOSE_WAIT] = in_close_wait, [TCPL_S_CLOSING] = in_closing,
		[TCPL_S_LAST_ACK] = in_last_ack,     [TCPL_S_TIME_WAIT] = in_time_wait,
	};
	struct tcpl_opts o;
	enum tcpl_verdict v = TCPL_DROP_OPTION;

	ev->bits = 0;
	ev->held = false;
	c->stats.segs_in++;
	if (rn_likely(predicted(c, now, s, ev))) {
		c->last_in = now;
		c->probes = 0;
		return TCPL_OK;
	}
	if (tcpl_opt_parse(s->opt, s->optlen, &o))
		v = by_state[c->state](c, now, s, &o, ev);
	c->stats.drops[v]++;
	/* the ACK counts also when the payload is dropped */
	if (v == TCPL_OK || v == TCPL_DROP_FULL || v == TCPL_DROP_AHEAD) {
		c->last_in = now;
		c->probes = 0;
		tcpl_rearm(c, now);
	}
	return v;
}
