/* SPDX-License-Identifier: BSD-3-Clause */
/* What must hold between any two calls, whatever the peer does. Used by the simulation and by the fuzzer. */
#ifndef INVARIANTS_H
#define INVARIANTS_H

#include "tcp_lite/tcpl_int.h"

/* The flight list has exactly the records that are neither SACKed nor lost, in the order of transmission. */
static inline const char *broken_flight(const struct tcpl_conn *c)
{
	uint32_t n = 0, want = 0;
	uint64_t sent = 0;

	for (uint32_t i = c->r_head; i != c->r_tail; i++) {
		const struct tcpl_txrec *r = tcpl_rec(c, i);
		want += !(r->flags & (R_SACKED | R_LOST));
		for (uint32_t k = 0; (r->flags & R_SACKED) && k < r->run; k++)
			if (i + k - c->r_head >= c->r_tail - c->r_head || !(tcpl_rec(c, i + k)->flags & R_SACKED))
				return "a run of SACKed records with a hole";
	}
	for (uint32_t p = 0; p < tcpl_paths(c); p++) {
		const struct tcpl_track *t = p == 0 ? &c->track : &c->mem.track[p - 1];
		sent = 0;
		for (uint16_t s = t->first; s != TCPL_NO_SLOT; s = c->mem.rec[s].next) {
			const struct tcpl_txrec *r = &c->mem.rec[s];
			if (n++ == want || (r->flags & (R_SACKED | R_LOST)) || r->sent < sent || tcpl_path_of(r) != p)
				return "the list of records in flight";
			if (r->next == TCPL_NO_SLOT && s != t->last)
				return "the last record in flight";
			sent = r->sent;
		}
	}
	return n == want ? NULL : "records in flight that are not in their list";
}

static inline const char *broken_tx(const struct tcpl_conn *c)
{
	uint32_t pipe = 0, lost = 0, sacked = 0, at = c->snd_una;

	for (uint32_t i = c->r_head; i != c->r_tail; i++) {
		const struct tcpl_txrec *r = tcpl_rec(c, i);
		if (r->seq != at || !rn_seq_gt(r->end, r->seq))
			return "records are not contiguous";
		at = r->end;
		lost += (r->flags & R_LOST) != 0;
		sacked += (r->flags & R_SACKED) != 0;
		if (!(r->flags & (R_LOST | R_SACKED)))
			pipe += r->end - r->seq;
		if ((r->flags & R_LOST) && rn_seq_lt(i, c->r_lost))
			return "a lost record before the hint";
	}
	if (at != c->snd_nxt)
		return "records do not reach SND.NXT";
	if (pipe != c->pipe)
		return "pipe";
	if (lost != c->n_lost || sacked != c->n_sacked)
		return "counts of lost and SACKed records";
	if (c->r_tail - c->r_head > c->mem.rec_n || c->q_tail - c->q_head > c->mem.chunk_n)
		return "a ring is overfull";
	if ((c->r_head != c->r_tail || tcpl_waits(c)) && c->t_rtx == RN_NEVER && !(c->flags & F_WIN_PROBE))
		return "data wait and no timer stands for them";
	if (c->cwnd < TCPL_MSS_MIN - TCPL_TS_OPTLEN || c->cwnd > c->cfg->cwnd_max + 65536)
		return "cwnd";
	return broken_flight(c);
}

static inline const char *broken_rx(const struct tcpl_conn *c)
{
	const struct tcpl_hold *h = c->mem.hold;

	if (rn_seq_lt(c->rcv_adv, c->rcv_nxt))
		return "the window's edge is left of RCV.NXT";
	if (c->h_head > c->h_ready || c->h_ready > c->h_tail || c->h_tail > c->mem.hold_n)
		return "indices of the held table";
	for (uint32_t i = c->h_head; i < c->h_tail; i++) {
		if (h[i].len == 0 || (i + 1 < c->h_tail && rn_seq_gt(h[i].seq + h[i].len, h[i + 1].seq)))
			return "held ranges overlap";
		if (i >= c->h_ready && !(c->flags & F_FIN_RCVD) && rn_seq_le(h[i].seq, c->rcv_nxt))
			return "a held range that is due";
	}
	if (c->cfg->ahead == TCPL_AHEAD_DROP && (c->h_tail != 0 || c->n_blocks != 0 || c->stats.ooo != 0))
		return "a segment ahead of a hole is held, and should be dropped";
	if (c->n_blocks > RN_ARRAY_LEN(c->block) || (c->n_blocks > 0 && c->h_ready == c->h_tail))
		return "SACK blocks of nothing";
	return NULL;
}

/* To be called after a turn, when tcpl_out() has returned false. NULL: all invariants hold. */
static inline const char *tcpl_broken(const struct tcpl_conn *c)
{
	if (c->state < TCPL_S_ESTABLISHED)
		return NULL;
	const char *tx = broken_tx(c);
	return tx ? tx : broken_rx(c);
}

#endif
