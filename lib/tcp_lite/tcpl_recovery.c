/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss: which records must be sent again, and what it costs (RFC 6675, 5681, 6298); and the way back when the loss was
 * none (RFC 4015). */
#include "tcpl_int.h"

void tcpl_mark_lost(struct tcpl_conn *c, uint32_t idx)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx);

	if (r->flags & (R_LOST | R_SACKED))
		return;
	if (r->rexmits > 0)
		c->stats.lost_rexmits++;
	if (c->n_lost++ == 0 || rn_seq_lt(idx, c->r_lost))
		c->r_lost = idx;
	r->flags |= R_LOST;
	c->pipe -= r->end - r->seq;
	c->dlv.lost += r->end - r->seq;
}

static void save_undo(struct tcpl_conn *c)
{
	c->undo_cwnd = c->cwnd;
	c->undo_ssthresh = c->ssthresh;
	c->flags = (c->flags & ~(uint32_t)F_UNDO_TS) | F_UNDO;
}

void tcpl_enter_recovery(struct tcpl_conn *c, uint64_t now)
{
	save_undo(c);
	c->ssthresh = c->cfg->cc->ssthresh(c, now);
	c->cwnd = c->ssthresh;
	c->recover = c->snd_nxt;
	c->recovery = TCPL_R_RECOVERY;
	c->flags |= F_FORCE;
	c->stats.recoveries++;
}

/* The retransmission timer went off (RFC 6298, 5.4 to 5.7; RFC 5681, 3.1; RFC 8985, 6.3). */
void tcpl_enter_loss(struct tcpl_conn *c, uint64_t now)
{
	/* A first record that was SACKed and is still not acknowledged: the peer has thrown it away (RFC 2018, 8). */
	bool reneged = (tcpl_rec(c, c->r_head)->flags & R_SACKED) != 0;

	c->stats.rtos++;
	if (c->recovery != TCPL_R_LOSS) {
		save_undo(c);
		c->ssthresh = c->cfg->cc->ssthresh(c, now);
	}
	for (uint32_t i = c->r_head; i != c->r_tail; i++) {
		struct tcpl_txrec *r = tcpl_rec(c, i);
		if (reneged && (r->flags & R_SACKED)) {
			r->flags &= ~(uint32_t)R_SACKED;
			c->n_sacked--;
			c->pipe += r->end - r->seq;
		}
		tcpl_mark_lost(c, i);
	}
	c->cwnd = c->mss;
	c->recover = c->snd_nxt;
	c->recovery = TCPL_R_LOSS;
	c->dup_acks = 0;
	c->reo_at = 0;
	/* F_PACE_WAIT: the timer has had its patience, its segment goes now */
	c->flags &= ~(uint32_t)(F_TLP_ON | F_TLP_REXMIT | F_TLP_NOW | F_PACE_WAIT);
}

void tcpl_undo(struct tcpl_conn *c)
{
	for (uint32_t i = c->r_head; i != c->r_tail; i++) {
		struct tcpl_txrec *r = tcpl_rec(c, i);
		if (!(r->flags & R_LOST))
			continue;
		r->flags &= ~(uint32_t)R_LOST;
		c->n_lost--;
		c->pipe += r->end - r->seq;
	}
	c->cwnd = rn_max_u32(c->cwnd, c->undo_cwnd);
	c->ssthresh = rn_max_u32(c->ssthresh, c->undo_ssthresh);
	c->recovery = TCPL_R_OPEN;
	c->stats.spurious++;
}
