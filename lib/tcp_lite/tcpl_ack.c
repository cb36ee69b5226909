/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an ACK says: the window, what arrived (cumulatively and by SACK), how long it took, and what cwnd makes of it.
 */
#include "tcpl_int.h"

struct acked {
	uint32_t bytes;    /* cumulatively acknowledged by this ACK */
	uint32_t sacked;   /* newly SACKed bytes */
	uint32_t recs;
	uint64_t rtt;      /* of the earliest sent, never retransmitted; RN_NEVER: none */
	bool dsack;
	struct tcpl_newest newest; /* only with F_MODEL */
};

/*
 * RFC 6298, 2; alpha 1/8, beta 1/4. The minimum stands for the variance, not for the whole: on a path of steady RTT a
 * delayed ACK would else look like a loss.
 */
void tcpl_rtt_sample(struct tcpl_conn *c, uint64_t rtt)
{
	if (c->srtt == 0) {
		c->srtt = rtt;
		c->rttvar = rtt / 2;
	} else {
		uint64_t d = rtt > c->srtt ? rtt - c->srtt : c->srtt - rtt;
		c->rttvar += (d >> 2) - (c->rttvar >> 2);
		c->srtt += (rtt >> 3) - (c->srtt >> 3);
	}
	c->srtt = rn_max_u64(c->srtt, 1);
	c->min_rtt = rn_min_u64(c->min_rtt, rtt);
	c->rto = c->srtt + rn_max_u64(4 * c->rttvar, c->cfg->min_rto_ns);
	c->rto = rn_min_u64(c->rto, c->cfg->max_rto_ns);
}

/* RFC 9293, 3.10.7.4: newer segments decide; of equally old ones the larger window. */
void tcpl_window_in(struct tcpl_conn *c, const struct tcpl_seg *s, struct tcpl_ev *ev)
{
	uint32_t wnd = (uint32_t)s->wnd << c->snd_wscale;

	if (!rn_seq_gt(s->ack, c->snd_una) && !rn_seq_gt(s->seq, c->snd_wl1) &&
	    !(s->seq == c->snd_wl1 && s->ack == c->snd_una && wnd > c->snd_wnd))
		return;
	if (s->ack + wnd - c->snd_una > c->snd_wnd)
		ev->bits |= TCPL_EV_SPACE;
	c->snd_wl1 = s->seq;
	c->snd_wnd = wnd;
	c->max_wnd = rn_max_u32(c->max_wnd, wnd);
}

/* The first bytes of r are acknowledged: what would be sent again starts behind them. */
static void trim_rec(struct tcpl_conn *c, struct tcpl_txrec *r, uint32_t ack, struct acked *a)
{
	uint32_t n = ack - r->seq;

	r->seq = ack;
	a->newest.bytes += r->flags & R_SACKED ? 0 : n;
	if (!(r->flags & (R_SACKED | R_LOST)))
		c->pipe -= n;
	while (n > 0 && r->chunk != c->q_tail) {
		uint32_t left = tcpl_chunk(c, r->chunk)->len - r->off;
		if (n < left) {
			r->off += n;
			return;
		}
		n -= left;
		r->off = 0;
		r->chunk++;
	}
}

static void clean_acked(struct tcpl_conn *c, uint64_t now, uint32_t ack, const struct tcpl_opts *o, struct acked *a)
{
	c->snd_una = ack;
	while (c->r_head != c->r_tail) {
		struct tcpl_txrec *r = tcpl_rec(c, c->r_head);

		if (rn_seq_gt(r->end, ack)) {
			if (rn_seq_lt(r->seq, ack))
				trim_rec(c, r, ack, a);
			break;
		}
		if (rn_unlikely(r->flags & R_SACKED)) {
			c->n_sacked--;
		} else {
			if (rn_unlikely(r->flags & R_LOST))
				c->n_lost--;
			else
				c->pipe -= r->end - r->seq;
			tcpl_rack_seen(c, now, r, o);
			if (rn_unlikely(c->flags & F_MODEL))
				tcpl_rate_seen(c, now, c->r_head, &a->newest);
			if (r->rexmits == 0) {
				a->rtt = a->rtt == RN_NEVER ? now - r->sent : a->rtt;
				c->min_rtt = rn_min_u64(c->min_rtt, now - r->sent);
			}
		}
		a->recs++;
		c->r_head++;
	}
	if (rn_seq_lt(c->r_lost, c->r_head))
		c->r_lost = c->r_head;
}

static void grow_cwnd(struct tcpl_conn *c, uint64_t now, uint32_t bytes, uint32_t prior_pipe)
{
	/* A window that was not in use proves nothing (RFC 7661 in short). */
	bool used = c->cwnd < c->ssthresh ? 2 * (uint64_t)prior_pipe >= c->cwnd
					  : (uint64_t)prior_pipe + 4u * c->mss >= c->cwnd;

	if (!used)
		return;
	c->cfg->cc->acked(c, now, bytes);
	c->cwnd = rn_min_u32(c->cwnd, c->cfg->cwnd_max);
}

/* The ACK moved snd_una: timers, RTT and events that both paths share. */
static void progress(struct tcpl_conn *c, uint64_t now, const struct acked *a, struct tcpl_ev *ev)
{
	if (a->rtt != RN_NEVER)
		tcpl_rtt_sample(c, a->rtt);
	c->backoff = 0;
	c->probes = 0;
	c->rto_base = c->tlp_base = now;
	ev->bits |= TCPL_EV_ACKED | TCPL_EV_SPACE;
}

void tcpl_ack_fast(struct tcpl_conn *c, uint64_t now, uint32_t ack, struct tcpl_ev *ev)
{
	struct acked a = { .bytes = ack - c->snd_una, .rtt = RN_NEVER };
	uint32_t pipe = c->pipe;

	clean_acked(c, now, ack, NULL, &a);
	progress(c, now, &a, ev);
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_acked(c, now, pipe, 0, &a.newest);
	else
		grow_cwnd(c, now, a.bytes, pipe);
	tcpl_rearm(c, now);
}

/* First record whose end lies behind seq. */
static uint32_t find_rec(const struct tcpl_conn *c, uint32_t seq)
{
	uint32_t lo = 0, hi = c->r_tail - c->r_head;

	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;
		if (rn_seq_gt(tcpl_rec(c, c->r_head + mid)->end, seq))
			hi = mid;
		else
			lo = mid + 1;
	}
	return c->r_head + lo;
}

/* Only records that a block covers completely count; a peer that SACKs parts gets the whole again. */
static void sack_block(struct tcpl_conn *c, uint64_t now, struct tcpl_block b, const struct tcpl_opts *o,
		       struct acked *a)
{
	for (uint32_t i = find_rec(c, b.seq); i != c->r_tail; i++) {
		struct tcpl_txrec *r = tcpl_rec(c, i);

		if (rn_seq_gt(r->end, b.end))
			break;
		if (rn_seq_lt(r->seq, b.seq) || (r->flags & R_SACKED))
			continue;
		if (r->flags & R_LOST)
			c->n_lost--;
		else
			c->pipe -= r->end - r->seq;
		r->flags = (r->flags & ~(uint32_t)R_LOST) | R_SACKED;
		c->n_sacked++;
		a->sacked += r->end - r->seq;
		if (r->rexmits == 0 && a->rtt == RN_NEVER)
			a->rtt = now - r->sent;
		tcpl_rack_seen(c, now, r, o);
		if (rn_unlikely(c->flags & F_MODEL))
			tcpl_rate_seen(c, now, i, &a->newest);
	}
}

static void sack_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_opts *o, uint32_t ack, struct acked *a)
{
	for (uint32_t i = 0; i < o->n_sack; i++) {
		struct tcpl_block b = o->sack[i];

		if (!rn_seq_lt(b.seq, b.end) || rn_seq_gt(b.end, c->snd_nxt))
			continue;
		/* RFC 2883, 4: a first block below the ACK, or inside the second, reports a duplicate */
		if (i == 0 && (rn_seq_le(b.end, ack) || (o->n_sack > 1 && rn_seq_ge(b.seq, o->sack[1].seq) &&
							 rn_seq_le(b.end, o->sack[1].end)))) {
			a->dsack = true;
			continue;
		}
		if (rn_seq_ge(b.seq, c->snd_una))
			sack_block(c, now, b, o, a);
	}
}

/* RFC 8985, 7.4: did the tail loss probe repair a loss? Then it counts as one. */
static void tlp_in(struct tcpl_conn *c, uint64_t now, uint32_t ack, bool dsack, bool dup)
{
	if (!(c->flags & F_TLP_ON) || rn_seq_lt(ack, c->tlp_end))
		return;
	if ((c->flags & F_TLP_REXMIT) && !dsack && !dup) {
		if (ack == c->tlp_end)
			return;
		if (c->recovery == TCPL_R_OPEN)
			c->cwnd = c->ssthresh = c->cfg->cc->ssthresh(c, now);
	}
	c->flags &= ~(uint32_t)(F_TLP_ON | F_TLP_REXMIT);
}

/* RFC 8985, 6.2, step 4: each round trip with a DSACK widens the reordering window by a quarter of the minimum RTT. */
static void reo_dsack(struct tcpl_conn *c)
{
	if (rn_seq_lt(c->snd_una, c->reo_round))
		return;
	c->reo_round = c->snd_nxt;
	c->reo_persist = 16;
	if (c->reo_mult < 255)
		c->reo_mult++;
}

/* RFC 6582: without SACK, three duplicates or a partial ACK say that the first record is lost. */
static void newreno_in(struct tcpl_conn *c, const struct acked *a, bool dup)
{
	if (a->bytes > 0) {
		uint32_t gone = a->recs > 1 ? a->recs - 1 : 0;
		c->dup_acks = c->recovery == TCPL_R_RECOVERY && c->dup_acks > gone ? c->dup_acks - gone : 0;
		if (c->recovery == TCPL_R_RECOVERY && rn_seq_lt(c->snd_una, c->recover) && c->r_head != c->r_tail &&
		    tcpl_rec(c, c->r_head)->rexmits == 0) {
			tcpl_mark_lost(c, c->r_head);
			c->flags |= F_FORCE;
		}
		return;
	}
	if (!dup || c->recovery == TCPL_R_LOSS)
		return;
	if (++c->dup_acks == 3 && c->recovery == TCPL_R_OPEN && rn_seq_ge(c->snd_una, c->recover))
		tcpl_mark_lost(c, c->r_head);
}

static void end_recovery(struct tcpl_conn *c)
{
	if (c->recovery == TCPL_R_RECOVERY)
		c->cwnd = rn_max_u32(c->ssthresh, c->mss);
	if (c->reo_persist > 0 && --c->reo_persist == 0)
		c->reo_mult = 1;
	c->recovery = TCPL_R_OPEN;
	c->dup_acks = 0;
	c->flags &= ~(uint32_t)(F_UNDO | F_UNDO_TS | F_FORCE);
}

void tcpl_ack_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, const struct tcpl_opts *o,
		 struct tcpl_ev *ev)
{
	struct acked a = { .rtt = RN_NEVER };
	uint32_t wnd = c->snd_wnd, pipe = tcpl_pipe(c), lost = c->dlv.lost;
	bool frozen = c->recovery == TCPL_R_RECOVERY;

	if (rn_seq_lt(s->ack, c->snd_una)) {
		c->stats.idle_acks += s->len == 0 && !(s->flags & TCPL_FIN);
		return; /* old, but its payload is good */
	}
	tcpl_window_in(c, s, ev);
	bool same = s->ack == c->snd_una && s->len == 0 && !(s->flags & TCPL_FIN) && (wnd == c->snd_wnd || o->n_sack > 0);
	bool dup = same && c->r_head != c->r_tail;
	a.bytes = s->ack - c->snd_una;
	if (a.bytes > 0) {
		clean_acked(c, now, s->ack, o, &a);
		progress(c, now, &a, ev);
	}
	if (c->flags & F_SACK) {
		if (o->n_sack > 0) {
			c->stats.sacks_in++;
			sack_in(c, now, o, s->ack, &a);
		}
		if (a.bytes == 0 && a.rtt != RN_NEVER)
			tcpl_rtt_sample(c, a.rtt);
		if (a.dsack)
			reo_dsack(c);
		if (a.sacked > 0 || ((a.bytes | c->n_sacked) && (c->n_sacked | (c->recovery != TCPL_R_OPEN))))
			tcpl_rack_detect(c, now);
		else if (a.bytes > 0)
			c->reo_at = 0;
	} else {
		newreno_in(c, &a, dup);
	}
	c->stats.dup_acks += dup;
	c->stats.idle_acks += same && !dup;
	tlp_in(c, now, s->ack, a.dsack, dup && o->n_sack == 0);

	/* RFC 3522: the first ACK after a retransmission that echoes an earlier timestamp speaks of the original */
	if (a.bytes > 0 && (c->flags & F_UNDO_TS)) {
		if ((c->flags & F_TS) && o->has_ts && rn_seq_lt(o->tsecr, c->undo_ts))
			tcpl_undo(c);
		c->flags &= ~(uint32_t)(F_UNDO | F_UNDO_TS);
	}
	if (c->recovery != TCPL_R_OPEN && rn_seq_ge(c->snd_una, c->recover))
		end_recovery(c);
	if (c->n_lost > 0 && c->recovery == TCPL_R_OPEN)
		tcpl_enter_recovery(c, now);
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_acked(c, now, pipe, c->dlv.lost - lost, &a.newest);
	else if (a.bytes > 0 && !frozen && c->recovery != TCPL_R_RECOVERY)
		grow_cwnd(c, now, a.bytes, pipe);
	if (a.sacked > 0)
		ev->bits |= TCPL_EV_SPACE;
}
