/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Loss: which records must be sent again, what a loss costs and how the cost is spread (RFC 6675, 5681, 6298, 9937);
 * and the way back when the loss was none (RFC 4015, 3708, 5682).
 */
#include "tcpl_int.h"

static void set_lost(struct tcpl_conn *c, uint32_t idx)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx);

	if (r->rexmits > 0)
		c->stats.lost_rexmits++;
	if (c->n_lost++ == 0 || rn_seq_lt(idx, c->r_lost))
		c->r_lost = idx;
	r->flags |= R_LOST;
	c->dlv.lost += r->end - r->seq;
}

void tcpl_mark_lost(struct tcpl_conn *c, uint32_t idx)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx);

	if (r->flags & (R_LOST | R_SACKED))
		return;
	tcpl_flight_del(c, idx);
	c->pipe -= r->end - r->seq;
	set_lost(c, idx);
}

static void save_undo(struct tcpl_conn *c)
{
	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	c->undo_una = c->snd_una;
	c->undo_rexmits = 0;
	c->flags = (c->flags & ~(uint32_t)F_UNDO_TS) | F_UNDO;
}

/* Whether cwnd in recovery follows RFC 9937: only without a model of the path. */
static bool use_prr(const struct tcpl_conn *c) { return !(c->flags & F_MODEL); }

void tcpl_enter_recovery(struct tcpl_conn *c, uint64_t now, uint32_t flight)
{
	save_undo(c);
	c->ssthresh = c->cfg->cc->ssthresh(c, now);
	c->recover = c->snd_nxt;
	c->recovery = TCPL_R_RECOVERY;
	c->stats.recoveries++;
	c->prr_flight = rn_max_u32(flight, c->mss);
	c->prr_delivered = c->prr_out = 0;
	if (use_prr(c)) {
		c->cwnd = tcpl_pipe(c) + c->mss; /* one retransmission goes at once, whatever cwnd was */
	} else {
		c->cwnd = c->ssthresh;
		c->flags |= F_FORCE;
	}
}

/* RFC 9937, 6.2: between the old and the new window bytes leave in proportion to the bytes delivered. */
void tcpl_prr(struct tcpl_conn *c, uint32_t delivered, bool safe)
{
	uint32_t pipe = tcpl_pipe(c);
	int64_t count;

	if (delivered == 0 || !use_prr(c))
		return;
	c->prr_delivered += delivered;
	if (pipe > c->ssthresh) {
		uint64_t share = (uint64_t)c->prr_delivered * c->ssthresh + c->prr_flight - 1;
		count = (int64_t)(share / c->prr_flight) - c->prr_out;
	} else {
		count = (int64_t)c->prr_delivered - c->prr_out;
		count = count > delivered ? count : delivered;
		count += safe ? c->mss : 0;
		count = count < c->ssthresh - pipe ? count : c->ssthresh - pipe;
	}
	if (c->prr_out == 0 && count < c->mss)
		count = c->mss;
	c->cwnd = rn_max_u32(pipe + (uint32_t)(count > 0 ? count : 0), c->mss);
}

/* The retransmission timer went off (RFC 6298, 5.4 to 5.7; RFC 5681, 3.1; RFC 8985, 6.3). */
void tcpl_enter_loss(struct tcpl_conn *c, uint64_t now)
{
	/* A first record that was SACKed and is still not acknowledged: the peer has thrown it away (RFC 2018, 8). */
	bool reneged = (tcpl_rec(c, c->r_head)->flags & R_SACKED) != 0;

	c->stats.rtos++;
	/* one reduction for a window of data: a fast recovery that ends here has made it */
	c->frto = c->recovery == TCPL_R_OPEN && !reneged ? TCPL_FRTO_FIRST : TCPL_FRTO_OFF;
	if (c->recovery == TCPL_R_OPEN) {
		save_undo(c);
		c->ssthresh = c->cfg->cc->ssthresh(c, now);
	} else {
		c->flags &= ~(uint32_t)F_TLP_REXMIT; /* the probe is counted in undo_rexmits */
	}
	for (uint32_t i = c->r_head; i != c->r_tail; i++) {
		struct tcpl_txrec *r = tcpl_rec(c, i);
		if (reneged && (r->flags & R_SACKED)) {
			r->flags &= (uint8_t)~R_SACKED;
			r->run = 0;
			c->n_sacked--;
			set_lost(c, i);
		}
		tcpl_mark_lost(c, i);
	}
	c->cwnd = c->mss;
	c->recover = c->snd_nxt;
	c->recovery = TCPL_R_LOSS;
	c->dup_acks = 0;
	c->reo_at = 0;
	/* F_PACE_WAIT: the retransmission goes now, since the timer has waited already */
	c->flags &= ~(uint32_t)(F_TLP_ON | F_TLP_NOW | F_PACE_WAIT | F_RECOVER | F_PIECE);
}

/*
 * RFC 5682, 2.1 and 3.1. FIRST: the ACK that moves SND.UNA may speak of the retransmission or of the original; new data
 * are sent, and the next ACK tells. Without new data that the peer's window has room for, or when that ACK is a
 * duplicate, the loss counts as real.
 */
void tcpl_frto_in(struct tcpl_conn *c, struct tcpl_frto_ack a)
{
	if (c->frto == TCPL_FRTO_FIRST) {
		const bool may_send = c->r_tail - c->r_head != c->mem.rec_n && tcpl_plan(c, tcpl_usable(c), false) > 0;
		c->frto = a.advanced && may_send ? TCPL_FRTO_SECOND : TCPL_FRTO_OFF;
		if (c->frto == TCPL_FRTO_SECOND)
			c->cwnd = c->pipe + 2u * c->mss;
		return;
	}
	if (a.original) {
		tcpl_undo(c);
	} else if (a.contrary || a.advanced) {
		c->frto = TCPL_FRTO_OFF;
		c->cwnd = rn_min_u32(c->cwnd, 3u * c->mss);
	}
}

void tcpl_end_recovery(struct tcpl_conn *c)
{
	if (c->recovery == TCPL_R_RECOVERY)
		c->cwnd = rn_max_u32(c->ssthresh, c->mss);
	if (c->reo_persist > 0 && --c->reo_persist == 0)
		c->reo_mult = 1;
	c->recovery = TCPL_R_OPEN;
	c->frto = TCPL_FRTO_OFF;
	c->dup_acks = 0;
	c->flags &= ~(uint32_t)(F_UNDO_TS | F_FORCE);
	c->undo_end = c->snd_nxt;
	if (c->undo_rexmits == 0)
		c->flags &= ~(uint32_t)F_UNDO;
}

/* Puts idx into the list of records in flight by its time; searches from the end, where it mostly belongs. */
static void flight_insert(struct tcpl_conn *c, uint32_t idx)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx), *rec = c->mem.rec;
	struct tcpl_track *t = tcpl_track(c, tcpl_path_of(r));
	uint16_t slot = (uint16_t)tcpl_slot(c, idx), after = t->last;

	while (after != TCPL_NO_SLOT && rec[after].sent > r->sent)
		after = after == t->first ? TCPL_NO_SLOT : rec[after].prev;
	if (after == t->last) {
		tcpl_flight_add(c, idx);
		return;
	}
	r->prev = after;
	r->next = after == TCPL_NO_SLOT ? t->first : rec[after].next;
	rec[r->next].prev = slot;
	if (after == TCPL_NO_SLOT)
		t->first = slot;
	else
		rec[after].next = slot;
}

/*
 * Puts the records marked lost back into flight. Records sent once lie in the order of time, so the list is made of
 * them first.
 */
static void unmark_lost(struct tcpl_conn *c)
{
	for (uint32_t i = 0; i < tcpl_paths(c); i++)
		tcpl_track(c, i)->first = tcpl_track(c, i)->last = TCPL_NO_SLOT;
	for (uint32_t i = c->r_head; i != c->r_tail; i++) {
		struct tcpl_txrec *r = tcpl_rec(c, i);
		if (r->flags & R_LOST) {
			r->flags &= (uint8_t)~R_LOST;
			c->n_lost--;
			c->pipe += r->end - r->seq;
		}
		if (r->rexmits == 0 && !(r->flags & R_SACKED))
			tcpl_flight_add(c, i);
	}
	for (uint32_t i = c->r_head; i != c->r_tail; i++)
		if (tcpl_rec(c, i)->rexmits > 0 && !(tcpl_rec(c, i)->flags & R_SACKED))
			flight_insert(c, i);
}

void tcpl_undo(struct tcpl_conn *c)
{
	if (c->n_lost > 0)
		unmark_lost(c);
	c->cwnd = rn_max_u32(c->cwnd, c->undo_cwnd);
	c->ssthresh = rn_max_u32(c->ssthresh, c->undo_ssthresh);
	if (c->cfg->cc->undo != NULL)
		c->cfg->cc->undo(c);
	/* duplicates of what was sent again are still to come: they start no recovery (RFC 6582, 3.2) */
	if (c->recovery != TCPL_R_OPEN && rn_seq_lt(c->snd_una, c->recover))
		c->flags |= F_RECOVER;
	c->recovery = TCPL_R_OPEN;
	c->frto = TCPL_FRTO_OFF;
	c->dup_acks = 0;
	c->flags &= ~(uint32_t)(F_UNDO | F_UNDO_TS | F_FORCE);
	c->stats.spurious++;
}

void tcpl_undo_dsack(struct tcpl_conn *c, struct tcpl_block b)
{
	uint32_t n = (b.end - b.seq + c->mss - 1) / c->mss;

	if (!(c->flags & F_UNDO) || c->undo_rexmits == 0 || rn_seq_lt(b.seq, c->undo_una) ||
	    rn_seq_gt(b.end, c->recover))
		return;
	c->undo_rexmits -= rn_min_u32(n, c->undo_rexmits);
	if (c->undo_rexmits == 0)
		tcpl_undo(c);
}
