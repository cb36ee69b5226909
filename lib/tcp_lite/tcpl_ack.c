/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an ACK says: the window, what arrived (cumulatively and by SACK), how long it took, and what cwnd makes of it.
 */
#include "tcpl_int.h"

struct acked {
	uint32_t bytes;  /* cumulatively acknowledged by this ACK */
	uint32_t known;  /* of these: SACKed before */
	uint32_t sacked; /* newly SACKed bytes */
	uint32_t recs;
	uint64_t rtt;     /* of the earliest sent, never retransmitted; RN_NEVER: none */
	uint32_t rtt_end; /* end of the segment that rtt is from */
	bool dsack;
	struct tcpl_block dup;     /* what the DSACK reports */
	struct tcpl_newest newest; /* only with F_MODEL */
};

/* Begins to count what an ACK of `bytes` bytes says. The times in `newest` have a meaning only with newest.any. */
static inline void acked_begin(struct acked *a, uint32_t bytes)
{
	a->bytes = bytes;
	a->known = a->sacked = a->recs = a->rtt_end = 0;
	a->rtt = RN_NEVER;
	a->dsack = false;
	a->dup = (struct tcpl_block){ 0, 0 };
	a->newest.any = a->newest.limited = false;
	a->newest.bytes = a->newest.prior = 0;
}

/*
 * RFC 6298, 2; alpha 1/8, beta 1/4. min_rto_ns bounds the variance term, not the whole RTO: on a path of steady RTT a
 * delayed ACK would else look like a loss. A sample ends the backoff (section 5).
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
	c->rtt = rtt;
	c->min_rtt = rn_min_u64(c->min_rtt, rtt);
	c->rto = rn_max_u64(c->srtt, tcpl_slowest(c)) + rn_max_u64(4 * c->rttvar, c->cfg->min_rto_ns);
	c->rto = rn_min_u64(c->rto, c->cfg->max_rto_ns);
	c->backoff = 0;
}

/*
 * RFC 9293, 3.10.7.4: newer segments decide. Of equally old ones the larger window: an ACK that was overtaken may have
 * the same numbers. But a peer without memory drops what is in its window and says so by a window of 0 (RFC 7323, 2.4).
 * If such an ACK was overtaken, a window probe finds out.
 */
void tcpl_window_in(struct tcpl_conn *c, const struct tcpl_seg *s, struct tcpl_ev *ev)
{
	uint32_t wnd = (uint32_t)s->wnd << c->snd_wscale;

	if (!rn_seq_gt(s->ack, c->snd_una) && !rn_seq_gt(s->seq, c->snd_wl1) &&
	    !(s->seq == c->snd_wl1 && s->ack == c->snd_una && (wnd > c->snd_wnd || wnd == 0)))
		return;
	if (s->ack + wnd - c->snd_una > c->snd_wnd)
		ev->bits |= TCPL_EV_SPACE;
	c->snd_wl1 = s->seq;
	c->snd_wnd = wnd;
	c->max_wnd = rn_max_u32(c->max_wnd, wnd);
}

/* The first bytes of r are acknowledged: a retransmission starts after them. */
static void trim_rec(struct tcpl_conn *c, struct tcpl_txrec *r, uint32_t ack, struct acked *a)
{
	uint32_t n = ack - r->seq;

	r->seq = ack;
	c->stats.cuts++;
	if (r->flags & R_SACKED)
		a->known += n;
	else
		a->newest.bytes += n;
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

/*
 * As clean_acked(), for the records up to the first that was sent twice. While nothing is lost or SACKed, these records
 * follow each other in the list of those in flight, too; the first left first, and the last has the shortest round trip.
 */
static void clean_run(struct tcpl_conn *c, uint64_t now, uint32_t ack, struct acked *a)
{
	const struct tcpl_txrec *first = tcpl_rec(c, c->r_head), *last = NULL;
	uint32_t mss = c->mss_acked, i;

	if ((c->flags & F_MODEL) || c->mem.track != NULL || c->n_lost != 0 || c->n_sacked != 0 ||
	    (c->track.slow != 0 && rn_seq_le(first->end, c->track.fack)))
		return;
	for (i = c->r_head; i != c->r_tail; i++) {
		const struct tcpl_txrec *r = tcpl_rec(c, i);

		if (rn_seq_gt(r->end, ack) || r->rexmits != 0)
			break;
		mss = rn_max_u32(mss, r->end - r->seq);
		last = r;
	}
	if (last == NULL)
		return;
	c->pipe -= last->end - first->seq;
	c->track.first = last->next;
	if (last->next == TCPL_NO_SLOT)
		c->track.last = TCPL_NO_SLOT;
	tcpl_rack_seen(c, now, last, NULL);
	a->rtt = now - first->sent;
	a->rtt_end = first->end;
	c->min_rtt = rn_min_u64(c->min_rtt, now - last->sent);
	c->mss_acked = (uint16_t)mss;
	a->recs += i - c->r_head;
	c->r_head = i;
}

/* Takes the records off that the ACK covers; a->rtt is still RN_NEVER. */
static void clean_acked(struct tcpl_conn *c, uint64_t now, uint32_t ack, const struct tcpl_opts *o, struct acked *a)
{
	c->snd_una = ack;
	clean_run(c, now, ack, a);
	while (c->r_head != c->r_tail) {
		struct tcpl_txrec *r = tcpl_rec(c, c->r_head);

		if (rn_seq_gt(r->end, ack)) {
			if (rn_seq_lt(r->seq, ack))
				trim_rec(c, r, ack, a);
			break;
		}
		if (rn_unlikely(r->flags & R_SACKED)) {
			c->n_sacked--;
			a->known += r->end - r->seq;
		} else {
			if (rn_unlikely(r->flags & R_LOST)) {
				c->n_lost--;
			} else {
				c->pipe -= r->end - r->seq;
				tcpl_flight_del(c, c->r_head);
			}
			tcpl_rack_seen(c, now, r, o);
			if (rn_unlikely(c->flags & F_MODEL))
				tcpl_rate_seen(c, now, c->r_head, &a->newest);
			if (r->rexmits == 0) {
				if (a->rtt == RN_NEVER) {
					a->rtt = now - r->sent;
					a->rtt_end = r->end;
				}
				c->min_rtt = rn_min_u64(c->min_rtt, now - r->sent);
				/* a record that was sent again may have gone in pieces */
				c->mss_acked = (uint16_t)rn_max_u32(c->mss_acked, r->end - r->seq);
			}
		}
		a->recs++;
		c->r_head++;
	}
	if (rn_seq_lt(c->r_lost, c->r_head))
		c->r_lost = c->r_head;
}

/* Counts round trips, and in flight_max the most bytes in flight until all of them have arrived. */
static void round_in(struct tcpl_conn *c)
{
	if (rn_seq_ge(c->snd_una, c->round_end)) {
		c->round_end = c->snd_nxt;
		c->rounds += c->r_head != c->r_tail; /* else the next round trip begins with the next flight */
	}
	if (rn_seq_ge(c->snd_una, c->flight_end)) {
		c->flight_end = c->snd_nxt;
		c->flight_max = c->pipe;
	}
}

/*
 * A window that was not in use proves nothing (RFC 7661 in short). What counts is the most in flight in a round trip:
 * an owner's burst is acknowledged piece by piece.
 */
static void grow_cwnd(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	bool used = c->cwnd < c->ssthresh ? 2 * (uint64_t)c->flight_max > c->cwnd
					  : (uint64_t)c->flight_max + 4u * c->mss >= c->cwnd;

	if (!used)
		return;
	c->cfg->cc->acked(c, now, bytes);
	c->cwnd = rn_min_u32(c->cwnd, c->cfg->cwnd_max);
}

/*
 * An ACK after a timeout, without a sample: its echoed timestamp tells which sending it answers (RFC 7323, 4). A round
 * trip within RTO says that the segment was lost, and the backoff ends. A longer one says that RTO is too short; it
 * becomes a sample, which is bounded since the echo is the peer's word.
 */
static void judge_rto(struct tcpl_conn *c, uint64_t now, const struct tcpl_opts *o)
{
	uint64_t rtt = tcpl_ticks_ns(tcpl_tsval(c, now) - o->tsecr);

	if (rtt <= c->rto)
		c->backoff = 0;
	else
		tcpl_rtt_sample(c, rn_min_u64(rtt, tcpl_backed_off(c)));
}

/*
 * The ACK moved snd_una: timers, RTT and events that both paths share. Without timestamps the backoff outlasts the
 * first ACK after a timeout if the ACK brings no sample (RFC 6298, 5): where RTO is shorter than the path's RTT, each
 * segment is sent again before its ACK comes, and only a longer RTO leads to a sample. A second such ACK in a row
 * speaks of a flight, whose recovery goes on without backoff.
 */
static void progress(struct tcpl_conn *c, uint64_t now, const struct acked *a, const struct tcpl_opts *o,
		     struct tcpl_ev *ev)
{
	if (a->rtt != RN_NEVER)
		tcpl_rtt_sample(c, a->rtt);
	else if (c->tries == 0)
		c->backoff = 0;
	else if ((c->flags & F_TS) && o != NULL && o->has_ts)
		judge_rto(c, now, o);
	c->tries = c->probes = 0;
	c->rto_base = c->tlp_base = now;
	if (rn_unlikely(c->mtu != TCPL_MTU_FULL || c->mss_hint != 0))
		tcpl_mtu_progress(c);
	ev->bits |= TCPL_EV_ACKED | TCPL_EV_SPACE;
}

void tcpl_ack_fast(struct tcpl_conn *c, uint64_t now, uint32_t ack, struct tcpl_ev *ev)
{
	struct acked a;
	uint32_t pipe = c->pipe;

	acked_begin(&a, ack - c->snd_una);
	clean_acked(c, now, ack, NULL, &a);
	progress(c, now, &a, NULL, ev);
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_acked(c, now, pipe, 0, &a.newest);
	else
		grow_cwnd(c, now, a.bytes);
	round_in(c);
	if (rn_unlikely(c->flags & F_PACED))
		tcpl_pace_follow(c);
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

static void sack_rec(struct tcpl_conn *c, uint64_t now, uint32_t idx, const struct tcpl_opts *o, struct acked *a)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx);

	if (r->flags & R_LOST) {
		c->n_lost--;
	} else {
		c->pipe -= r->end - r->seq;
		tcpl_flight_del(c, idx);
	}
	r->flags = (uint8_t)((r->flags & ~R_LOST) | R_SACKED);
	c->n_sacked++;
	a->sacked += r->end - r->seq;
	if (r->rexmits == 0 && a->rtt == RN_NEVER) {
		a->rtt = now - r->sent;
		a->rtt_end = r->end;
	}
	tcpl_rack_seen(c, now, r, o);
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_seen(c, now, idx, &a->newest);
}

static uint32_t run_of(const struct tcpl_txrec *r) { return r->run > 1 ? r->run : 1; }

/*
 * Only records that a block covers completely count; a peer that SACKs parts gets the whole again. What is known is
 * jumped over: each record that was passed learns how far its run of SACKed ones reaches (as the paths of a union-find
 * become short), so a block that grows by one costs the search for its begin and one record.
 */
static void sack_block(struct tcpl_conn *c, uint64_t now, struct tcpl_block b, const struct tcpl_opts *o,
		       struct acked *a)
{
	uint32_t from = find_rec(c, b.seq), i, k, step;

	if (from != c->r_tail && rn_seq_lt(tcpl_rec(c, from)->seq, b.seq)) {
		c->stats.cuts++;
		from++;
	}
	for (i = from; i != c->r_tail && rn_seq_le(tcpl_rec(c, i)->end, b.end);) {
		if (tcpl_rec(c, i)->flags & R_SACKED) {
			i += run_of(tcpl_rec(c, i));
		} else {
			sack_rec(c, now, i, o, a);
			i++;
		}
	}
	if (i != c->r_tail && rn_seq_lt(tcpl_rec(c, i)->seq, b.end))
		c->stats.cuts++;
	for (k = from; k != i; k += step) {
		step = run_of(tcpl_rec(c, k));
		tcpl_rec(c, k)->run = (uint16_t)(i - k);
	}
}

/* Lower blocks first: a block that a lost ACK would have reported must not look like reordering. */
static void sort_blocks(struct tcpl_block *b, uint32_t n)
{
	for (uint32_t i = 1; i < n; i++)
		for (uint32_t k = i; k > 0 && rn_seq_lt(b[k].seq, b[k - 1].seq); k--) {
			struct tcpl_block t = b[k];
			b[k] = b[k - 1];
			b[k - 1] = t;
		}
}

static void sack_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_opts *o, uint32_t ack, struct acked *a)
{
	struct tcpl_block b[RN_ARRAY_LEN(o->sack)];
	uint32_t n = 0;

	for (uint32_t i = 0; i < o->n_sack; i++) {
		b[n] = o->sack[i];
		if (!rn_seq_lt(b[n].seq, b[n].end) || rn_seq_gt(b[n].end, c->snd_nxt))
			continue;
		/* RFC 2883, 4: a first block below the ACK, or inside the second, reports a duplicate */
		if (i == 0 && (rn_seq_le(b[n].end, ack) || (o->n_sack > 1 && rn_seq_ge(b[n].seq, o->sack[1].seq) &&
							    rn_seq_le(b[n].end, o->sack[1].end)))) {
			a->dsack = true;
			a->dup = b[n];
			continue;
		}
		/* an ACK that was overtaken: blocks below SND.UNA are known */
		if (rn_seq_lt(ack, c->snd_una))
			b[n].seq = rn_seq_max(b[n].seq, c->snd_una);
		if (rn_seq_ge(b[n].seq, c->snd_una) && rn_seq_lt(b[n].seq, b[n].end))
			n++;
	}
	sort_blocks(b, n);
	for (uint32_t i = 0; i < n; i++)
		sack_block(c, now, b[i], o, a);
}

/* RFC 8985, 7.4: did the tail loss probe repair a loss? Then it counts as one. */
static void tlp_in(struct tcpl_conn *c, uint64_t now, uint32_t ack, bool dsack, bool dup)
{
	if (!(c->flags & F_TLP_ON) || rn_seq_lt(ack, c->tlp_end))
		return;
	if ((c->flags & F_TLP_REXMIT) && !dsack && !dup) {
		if (ack == c->tlp_end)
			return;
		if (c->recovery == TCPL_R_OPEN) {
			c->cwnd = c->ssthresh = c->cfg->cc->ssthresh(c, now);
			c->flags &= ~(uint32_t)F_UNDO;
		}
	}
	c->flags &= ~(uint32_t)(F_TLP_ON | F_TLP_REXMIT);
}

/*
 * RFC 8985, 6.2, step 4: each round trip with a DSACK widens the reordering window by a quarter of the minimum RTT. The
 * duplicate that a tail loss probe makes says nothing of reordering.
 */
static void reo_dsack(struct tcpl_conn *c, struct tcpl_block dup)
{
	const uint32_t probe = F_TLP_ON | F_TLP_REXMIT;

	if ((c->flags & F_REO_ROUND) || ((c->flags & probe) == probe && dup.end == c->tlp_end))
		return;
	c->reo_round = c->snd_nxt;
	c->flags |= F_REO_ROUND;
	c->reo_persist = 16;
	if (c->reo_mult < 255)
		c->reo_mult++;
}

/*
 * RFC 6582: without SACK, three duplicates or a partial ACK say that the first record is lost. Returns the bytes that
 * the ACK reports delivered (RFC 9937, 6.2): a duplicate reports one segment, and an ACK that moves SND.UNA reports the
 * bytes that duplicates have not.
 */
static uint32_t newreno_in(struct tcpl_conn *c, const struct acked *a, bool dup)
{
	if (a->bytes > 0) {
		uint32_t gone = rn_min_u32(a->recs > 1 ? a->recs - 1 : 0, c->dup_acks);
		uint64_t known = (uint64_t)gone * c->mss;
		c->dup_acks = c->recovery == TCPL_R_RECOVERY ? c->dup_acks - gone : 0;
		if (c->recovery == TCPL_R_RECOVERY && rn_seq_lt(c->snd_una, c->recover) && c->r_head != c->r_tail &&
		    tcpl_rec(c, c->r_head)->rexmits == 0) {
			tcpl_mark_lost(c, c->r_head);
			c->flags |= F_FORCE;
		}
		return a->bytes > known ? a->bytes - (uint32_t)known : 0;
	}
	if (!dup || c->recovery == TCPL_R_LOSS)
		return 0;
	if (++c->dup_acks == 3 && c->recovery == TCPL_R_OPEN && !(c->flags & F_RECOVER))
		tcpl_mark_lost(c, c->r_head);
	return c->mss;
}

/*
 * RFC 5681, 3.2, with a peer that has agreed to SACK: three duplicate ACKs without a block say that the peer holds
 * nothing of what is in flight, not even the segments that caused these ACKs. So all of it is sent again.
 */
static void blockless_in(struct tcpl_conn *c, bool dup)
{
	if (!dup || c->n_sacked != 0) {
		c->dup_acks = 0;
		return;
	}
	if (++c->dup_acks == 3 && c->recovery == TCPL_R_OPEN && !(c->flags & F_RECOVER))
		for (uint32_t i = c->r_head; i != c->r_tail; i++)
			tcpl_mark_lost(c, i);
}

/*
 * Sequence numbers that were remembered because they lay ahead of SND.UNA are forgotten once it has reached them: two
 * GiB later the comparison would say that they lie ahead again. Called for each ACK that moves SND.UNA while such a
 * number is set.
 */
static void forget_passed(struct tcpl_conn *c)
{
	if ((c->flags & F_REO_ROUND) && rn_seq_ge(c->snd_una, c->reo_round))
		c->flags &= ~(uint32_t)F_REO_ROUND;
	if ((c->flags & F_PIECE) && rn_seq_ge(c->snd_una, c->piece))
		c->flags &= ~(uint32_t)F_PIECE;
	if ((c->flags & F_RECOVER) && rn_seq_ge(c->snd_una, c->recover))
		c->flags &= ~(uint32_t)F_RECOVER;
	if ((c->flags & F_UNDO) && c->recovery == TCPL_R_OPEN && rn_seq_gt(c->snd_una, c->undo_end))
		c->flags &= ~(uint32_t)F_UNDO;
}

/* Handles SACK blocks, and marks records that are found lost. */
static void detect(struct tcpl_conn *c, uint64_t now, const struct tcpl_opts *o, uint32_t ack, struct acked *a)
{
	if (o->n_sack > 0) {
		c->stats.sacks_in++;
		sack_in(c, now, o, ack, a);
	}
	if (a->bytes == 0 && a->rtt != RN_NEVER)
		tcpl_rtt_sample(c, a->rtt);
	if (a->dsack)
		reo_dsack(c, a->dup);
	if (a->sacked > 0 || ((a->bytes | c->n_sacked) && (c->n_sacked | (c->recovery != TCPL_R_OPEN))))
		tcpl_rack_detect(c, now);
	else if (a->bytes > 0)
		c->reo_at = 0;
}

/*
 * Was the loss real? RFC 3522: an ACK after a retransmission that echoes an earlier timestamp speaks of the original.
 */
static void judge(struct tcpl_conn *c, const struct tcpl_opts *o, const struct acked *a, bool dup)
{
	if (a->bytes > 0 && (c->flags & F_UNDO_TS)) {
		if ((c->flags & F_TS) && o->has_ts && rn_seq_lt(o->tsecr, c->undo_ts))
			tcpl_undo(c);
		c->flags &= ~(uint32_t)F_UNDO_TS;
	}
	if (a->dsack)
		tcpl_undo_dsack(c, a->dup);
	if (c->frto != TCPL_FRTO_OFF && rn_seq_lt(c->snd_una, c->recover)) {
		bool original = a->rtt != RN_NEVER && rn_seq_le(a->rtt_end, c->recover);
		tcpl_frto_in(c, (struct tcpl_frto_ack){ a->bytes > 0, original,
							!original && (a->sacked > 0 || (dup && a->bytes == 0)) });
	}
}

/* An ACK below SND.UNA was overtaken. Its window is out of date, but its SACK blocks are news. */
static void old_ack(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, const struct tcpl_opts *o,
		    struct tcpl_ev *ev)
{
	struct acked a;
	uint32_t pipe = c->pipe, lost = c->dlv.lost;

	acked_begin(&a, 0);
	c->stats.idle_acks += s->len == 0 && !s->bare && !(s->flags & TCPL_FIN);
	if (!(c->flags & F_SACK) || o->n_sack == 0)
		return;
	detect(c, now, o, s->ack, &a);
	if (c->n_lost > 0 && c->recovery == TCPL_R_OPEN)
		tcpl_enter_recovery(c, now, pipe);
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_acked(c, now, pipe, c->dlv.lost - lost, &a.newest);
	else if (c->recovery == TCPL_R_RECOVERY)
		tcpl_prr(c, a.sacked, false);
	if (a.sacked > 0)
		ev->bits |= TCPL_EV_SPACE;
}

/* The peer answers, but its window has no room for the retransmission: the peer is alive (RFC 9293, 3.8.6.1). */
static void refused(struct tcpl_conn *c)
{
	if (c->r_head != c->r_tail && tcpl_rec(c, c->r_head)->end - c->snd_una > c->snd_wnd)
		c->tries = 0;
}

void tcpl_ack_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, const struct tcpl_opts *o,
		 struct tcpl_ev *ev)
{
	struct acked a;
	uint32_t wnd = c->snd_wnd, pipe = tcpl_pipe(c), lost = c->dlv.lost, delivered;
	bool frozen = c->recovery == TCPL_R_RECOVERY;

	if (rn_seq_lt(s->ack, c->snd_una)) {
		old_ack(c, now, s, o, ev);
		return; /* the payload of the segment is still good */
	}
	tcpl_window_in(c, s, ev);
	bool same = s->ack == c->snd_una && s->len == 0 && !s->bare && !(s->flags & TCPL_FIN) &&
		    (wnd == c->snd_wnd || o->n_sack > 0);
	bool dup = same && c->r_head != c->r_tail;
	acked_begin(&a, s->ack - c->snd_una);
	if (a.bytes > 0) {
		clean_acked(c, now, s->ack, o, &a);
		progress(c, now, &a, o, ev);
	}
	if (c->flags & F_SACK) {
		detect(c, now, o, s->ack, &a);
		if (rn_unlikely(o->n_sack == 0))
			blockless_in(c, dup);
		delivered = a.bytes - a.known + a.sacked;
	} else {
		delivered = newreno_in(c, &a, dup);
	}
	refused(c);
	c->stats.dup_acks += dup;
	c->stats.idle_acks += same && !dup;
	tlp_in(c, now, s->ack, a.dsack, dup && o->n_sack == 0);
	judge(c, o, &a, dup);
	if (c->recovery != TCPL_R_OPEN && rn_seq_ge(c->snd_una, c->recover))
		tcpl_end_recovery(c);
	if (a.bytes > 0 && (c->flags & F_AHEAD))
		forget_passed(c);
	if (c->n_lost > 0 && c->recovery == TCPL_R_OPEN)
		tcpl_enter_recovery(c, now, pipe);
	if (rn_unlikely(c->flags & F_MODEL))
		tcpl_rate_acked(c, now, pipe, c->dlv.lost - lost, &a.newest);
	else if (c->recovery == TCPL_R_RECOVERY)
		tcpl_prr(c, delivered, a.bytes > 0 && c->dlv.lost == lost);
	else if (a.bytes > 0 && !frozen && c->frto != TCPL_FRTO_SECOND)
		grow_cwnd(c, now, a.bytes);
	if (a.bytes > 0)
		round_in(c);
	if (rn_unlikely(c->flags & F_PACED))
		tcpl_pace_follow(c);
	if (a.sacked > 0)
		ev->bits |= TCPL_EV_SPACE;
}
