/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RACK (RFC 8985, 6): a segment is lost when one sent sufficiently later has arrived; this finds lost retransmissions
 * as well. With several paths, only segments of the same path are compared.
 */
#include "tcpl_int.h"

static bool sent_after(uint64_t t1, uint32_t seq1, uint64_t t2, uint32_t seq2)
{
	return t1 > t2 || (t1 == t2 && rn_seq_gt(seq1, seq2));
}

/* r has arrived (6.2, steps 1 to 3). o may be NULL when r was sent once. */
void tcpl_rack_seen(struct tcpl_conn *c, uint64_t now, const struct tcpl_txrec *r, const struct tcpl_opts *o)
{
	struct tcpl_track *t = tcpl_track(c, tcpl_path_of(r));
	uint64_t rtt = now - r->sent;

	if (rn_unlikely(t->slow == 0) || rn_seq_gt(r->end, t->fack))
		t->fack = r->end;
	else if (r->rexmits == 0 && rn_seq_lt(r->end, t->fack))
		c->flags |= F_REORDERING;
	if (r->rexmits > 0) {
		/* Does the ACK report the retransmission, or the original after all? */
		if (rtt < c->min_rtt)
			return;
		if ((c->flags & F_TS) && o && o->has_ts && rn_seq_lt(o->tsecr, tcpl_tsval(c, r->sent)))
			return;
	}
	t->rtt = rtt;
	t->slow = rn_max_u64(rn_max_u64(rtt, 1), t->slow - (t->slow >> 6));
	if (sent_after(r->sent, r->end, t->sent, t->end)) {
		t->sent = r->sent;
		t->end = r->end;
	}
	if (rn_unlikely(c->lame != 0))
		tcpl_arrived(c, tcpl_path_of(r), r->sent);
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
 * 6.2, step 5. Records in flight are looked at in the order of transmission: the search ends at the first record that
 * left after the latest arrived segment, or whose time has not come; a timer is set for the latter.
 */
static void detect_all(struct tcpl_conn *c, uint64_t now, uint64_t wait)
{
	const struct tcpl_track *t = &c->track;

	while (t->first != TCPL_NO_SLOT) {
		const struct tcpl_txrec *r = &c->mem.rec[t->first];

		if (!sent_after(t->sent, t->end, r->sent, r->end))
			return;
		if (r->sent + wait > now) {
			c->reo_at = r->sent + wait;
			return;
		}
		tcpl_mark_lost(c, tcpl_idx(c, t->first));
	}
}

/*
 * With several paths only the first hole is judged: the hole is lost when a segment sent later by the same path has
 * arrived. Every ACK tells of the first hole. Other holes may lie beyond the few SACK blocks of an ACK, since many
 * segments of a fast path may lie between the holes of a slow one. Each hole is the first one in its turn.
 */
static void detect_first(struct tcpl_conn *c, uint64_t now, uint64_t wnd)
{
	if (c->r_head == c->r_tail || (tcpl_rec(c, c->r_head)->flags & (R_SACKED | R_LOST)))
		return;
	const struct tcpl_txrec *r = tcpl_rec(c, c->r_head);
	const struct tcpl_track *t = tcpl_track(c, tcpl_path_of(r));

	if (!sent_after(t->sent, t->end, r->sent, r->end))
		return;
	if (r->sent + t->rtt + wnd > now)
		c->reo_at = r->sent + t->rtt + wnd;
	else
		tcpl_mark_lost(c, c->r_head);
}

void tcpl_rack_detect(struct tcpl_conn *c, uint64_t now)
{
	const uint64_t wnd = reo_wnd(c);

	c->reo_at = 0;
	if (rn_likely(c->mem.track == NULL))
		detect_all(c, now, c->track.rtt + wnd);
	else
		detect_first(c, now, wnd);
}
