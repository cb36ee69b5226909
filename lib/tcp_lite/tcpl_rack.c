/* SPDX-License-Identifier: BSD-3-Clause */
/* RACK (RFC 8985, 6): a segment is lost when one sent sufficiently later has arrived; this finds lost retransmissions
 * as well. */
#include "tcpl_int.h"

static bool sent_after(uint64_t t1, uint32_t seq1, uint64_t t2, uint32_t seq2)
{
	return t1 > t2 || (t1 == t2 && rn_seq_gt(seq1, seq2));
}

/* r has arrived (6.2, steps 1 to 3). o may be NULL when r was sent once. */
void tcpl_rack_seen(struct tcpl_conn *c, uint64_t now, const struct tcpl_txrec *r, const struct tcpl_opts *o)
{
	uint64_t rtt = now - r->sent;

	if (rn_seq_gt(r->end, c->rack_fack))
		c->rack_fack = r->end;
	else if (r->rexmits == 0 && rn_seq_lt(r->end, c->rack_fack))
		c->flags |= F_REORDERING;
	if (r->rexmits > 0) {
		/* Does the ACK report the retransmission, or the original after all? */
		if (rtt < c->min_rtt)
			return;
		if ((c->flags & F_TS) && o && o->has_ts && rn_seq_lt(o->tsecr, tcpl_tsval(c, r->sent)))
			return;
	}
	c->rack_rtt = rtt;
	if (sent_after(r->sent, r->end, c->rack_sent, c->rack_end)) {
		c->rack_sent = r->sent;
		c->rack_end = r->end;
	}
}

/* 6.2, step 4 */
static uint64_t reo_wnd(const struct tcpl_conn *c)
{
	if (!(c->flags & F_REORDERING) && (c->recovery != TCPL_R_OPEN || c->n_sacked >= 3))
		return 0;
	if (c->min_rtt == RN_NEVER)
		return 0;
	return rn_min_u64(c->reo_mult * (c->min_rtt >> 2), c->srtt);
}

/*
 * 6.2, step 5. Records in flight are looked at in the order of transmission: the first that is not older than what has
 * arrived ends the search, and so does the first whose time has not come. When that one is due a timer comes back.
 */
void tcpl_rack_detect(struct tcpl_conn *c, uint64_t now)
{
	uint64_t wait = c->rack_rtt + reo_wnd(c);

	c->reo_at = 0;
	while (c->fl_first != TCPL_NO_SLOT) {
		const struct tcpl_txrec *r = &c->mem.rec[c->fl_first];

		if (!sent_after(c->rack_sent, c->rack_end, r->sent, r->end))
			return;
		if (r->sent + wait > now) {
			c->reo_at = r->sent + wait;
			return;
		}
		tcpl_mark_lost(c, tcpl_idx(c, c->fl_first));
	}
}
