/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A path that takes less than both ends' MSS. Routers say so by ICMP (RFC 1191, RFC 8201), which anyone can forge: it
 * is checked (RFC 5927). Where they say nothing the path is a black hole for full segments, found as RFC 4821 has it:
 * repeated timeouts of a large segment, and a small one that passes. What is lost then is sent again in pieces.
 */
#include "tcpl_int.h"

#define MSS_LEAST  512u /* MTU 552 of IPv4: no ICMP brings a connection below */
#define HOLE_TRIES 2u   /* timeouts of a full segment before smaller ones are tried */
#define PROOF      4u   /* full segments: once that many bytes are acknowledged, they pass */

/*
 * MTU 1500 and RFC 8200's least, 1280, less the headers of IPv6 and TCP; then what each host of IPv4 takes (RFC 9293,
 * 3.7.1: MTU 576 less 40). Smaller segments are silent for other reasons.
 */
static const uint16_t step[] = { 1440, 1220, 536 };

static uint32_t options(const struct tcpl_conn *c) { return c->flags & F_TS ? TCPL_TS_OPTLEN : 0; }

static uint32_t len_of(const struct tcpl_txrec *r) { return r->end - r->seq - !!(r->flags & R_FIN); }

uint32_t tcpl_path_mss(const struct tcpl_conn *c) { return c->mtu == TCPL_MTU_LOW ? c->mss + options(c) : 0; }

/* Segments in flight that are larger than `mss` have not arrived, and will not. */
static void believe(struct tcpl_conn *c, uint32_t mss)
{
	c->mtu = TCPL_MTU_LOW;
	c->mss = (uint16_t)mss;
	c->mss_hint = 0;
	c->flags &= ~(uint32_t)F_MTU_END;
	for (uint32_t i = c->r_head; i != c->r_tail; i++)
		if (len_of(tcpl_rec(c, i)) > mss)
			tcpl_mark_lost(c, i);
}

bool tcpl_too_big(struct tcpl_conn *c, uint64_t now, uint32_t seq, uint32_t mss)
{
	uint32_t i = c->r_head;

	if (c->state < TCPL_S_ESTABLISHED || rn_seq_lt(seq, c->snd_una) || rn_seq_ge(seq, c->snd_nxt))
		return false;
	while (i != c->r_tail && rn_seq_le(tcpl_rec(c, i)->end, seq))
		i++;
	mss = rn_max_u32(mss, MSS_LEAST) - options(c);
	if (i == c->r_tail || mss >= c->mss || len_of(tcpl_rec(c, i)) <= mss || (tcpl_rec(c, i)->flags & R_SACKED))
		return false;
	if (c->mss_acked > mss) { /* such segments have passed: a forger says it, or the path has changed */
		c->mss_hint = (uint16_t)mss;
		return false;
	}
	believe(c, mss);
	tcpl_rearm(c, now);
	return c->n_lost > 0;
}

void tcpl_mtu_timeout(struct tcpl_conn *c)
{
	uint32_t len = len_of(tcpl_rec(c, c->r_head)), mss = 0;

	if (c->mss_hint != 0 && len > c->mss_hint) {
		believe(c, c->mss_hint);
		return;
	}
	if (c->tries < HOLE_TRIES || c->tries % 2 != 0 || len > c->snd_wnd)
		return;
	if (c->mtu == TCPL_MTU_AGAIN) {
		if (len <= c->mss_low)
			return;
		mss = c->mss_low;
	}
	for (uint32_t i = 0; mss == 0 && i < RN_ARRAY_LEN(step); i++)
		if (step[i] - options(c) < rn_min_u32(c->mss, len))
			mss = step[i] - options(c);
	if (mss == 0)
		return;
	c->mss = (uint16_t)mss;
	c->flags &= ~(uint32_t)(F_PIECE | F_MTU_END);
	c->mtu = c->mtu == TCPL_MTU_AGAIN || c->mtu == TCPL_MTU_LOW ? TCPL_MTU_LOW : TCPL_MTU_TRIED;
}

void tcpl_mtu_progress(struct tcpl_conn *c)
{
	c->mss_hint = 0;
	switch ((enum tcpl_mtu)c->mtu) {
	case TCPL_MTU_FULL:
	case TCPL_MTU_LOW: return;
	case TCPL_MTU_TRIED:
		c->mtu = TCPL_MTU_AGAIN;
		c->backoff = 0; /* the timeouts were due to the size, it seems */
		c->mss_low = c->mss;
		c->mss = c->mss_full;
		c->mtu_end = c->snd_nxt + PROOF * c->mss;
		c->flags |= F_MTU_END;
		return;
	case TCPL_MTU_AGAIN:
		if (rn_seq_lt(c->snd_una, c->mtu_end))
			return;
		c->flags &= ~(uint32_t)F_MTU_END;
		c->mtu = TCPL_MTU_FULL;
		return;
	}
}
