/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The receiver: which bytes of a segment are new, delivered or held, and what ACKs report about them. Whatever came
 * first wins: a later copy of the same sequence numbers is trimmed, never compared, never preferred.
 */
#include "tcpl_int.h"
#include "tcp_lite/tcpl_room.h"

#include <string.h>

/* A duplicate to be reported (RFC 2883); those of one burst that touch are reported as one. */
void tcpl_dsack(struct tcpl_conn *c, uint32_t seq, uint32_t end)
{
	bool waits = c->dsack.seq != c->dsack.end;

	if (waits && c->dsack.end == seq)
		c->dsack.end = end;
	else if (waits && c->dsack.seq == end)
		c->dsack.seq = seq;
	else
		c->dsack = (struct tcpl_block){ seq, end };
}

static uint32_t hold_end(const struct tcpl_hold *h) { return h->seq + h->len; }

/* RFC 5961, 7: challenge ACKs of a connection in a second; the counter starts anew with each epoch. */
void tcpl_challenge(struct tcpl_conn *c, uint64_t now)
{
	uint32_t epoch = tcpl_epoch(now);

	if (epoch != c->challenge_epoch) {
		c->challenge_epoch = epoch;
		c->challenges = 0;
	}
	if (c->challenges >= c->cfg->challenge_max)
		return;
	c->challenges++;
	c->stats.challenges++;
	c->flags |= F_ACK_NOW;
}

/*
 * In-order data: at once for two full segments (RFC 9293, 3.8.6.3) or a PSH that the owner wants answered, else within
 * cfg.delack_ns. tcpl_out is called once for a burst, so "at once" is still one ACK for all of it.
 */
void tcpl_ack_policy(struct tcpl_conn *c, uint64_t now, uint8_t flags)
{
	if (c->rcv_nxt - c->rcv_acked >= 2u * c->mss || ((flags & TCPL_PSH) && c->cfg->ack_psh))
		c->flags |= F_ACK_NOW;
	else if (c->t_ack == RN_NEVER)
		c->t_ack = now + c->cfg->delack_ns;
}

/* The run of contiguous held ranges around entry i becomes the first block (RFC 2018, 4). */
static void block_update(struct tcpl_conn *c, uint32_t i)
{
	const struct tcpl_hold *h = c->mem.hold;
	uint32_t lo = i, hi = i, n = 1;
	struct tcpl_block b[RN_ARRAY_LEN(c->block)];

	while (lo > c->h_ready && hold_end(&h[lo - 1]) == h[lo].seq)
		lo--;
	while (hi + 1 < c->h_tail && h[hi + 1].seq == hold_end(&h[hi]))
		hi++;
	b[0] = (struct tcpl_block){ h[lo].seq, hold_end(&h[hi]) };
	for (uint32_t k = 0; k < c->n_blocks && n < RN_ARRAY_LEN(b); k++)
		if (rn_seq_lt(c->block[k].seq, b[0].seq) || rn_seq_gt(c->block[k].end, b[0].end))
			b[n++] = c->block[k];
	memcpy(c->block, b, n * sizeof(b[0]));
	c->n_blocks = n;
}

static void blocks_below(struct tcpl_conn *c)
{
	uint32_t n = 0;

	for (uint32_t k = 0; k < c->n_blocks; k++)
		if (rn_seq_gt(c->block[k].end, c->rcv_nxt))
			c->block[n++] = c->block[k];
	c->n_blocks = n;
}

static bool hold_room(struct tcpl_conn *c)
{
	if (c->h_tail < c->mem.hold_n)
		return true;
	if (c->h_head == 0)
		return false;
	memmove(c->mem.hold, c->mem.hold + c->h_head, (c->h_tail - c->h_head) * sizeof(c->mem.hold[0]));
	c->h_tail -= c->h_head;
	c->h_ready -= c->h_head;
	c->h_head = 0;
	return true;
}

enum hold_result { HOLD_KEPT, HOLD_DUP, HOLD_FULL };

/*
 * Keeps the first part of p that is not held yet; what lies behind another held range is left to a retransmission.
 * p is cut to what was kept.
 */
static enum hold_result hold_insert(struct tcpl_conn *c, struct tcpl_slice *p)
{
	struct tcpl_hold *h = c->mem.hold;
	uint32_t i = c->h_tail;

	while (i > c->h_ready && rn_seq_gt(h[i - 1].seq, p->seq))
		i--;
	for (uint32_t k = i > c->h_ready ? i - 1 : i; k < c->h_tail && rn_seq_le(h[k].seq, p->seq); k++) {
		uint32_t end = hold_end(&h[k]);
		if (rn_seq_ge(p->seq, end))
			continue;
		if (end - p->seq >= p->len)
			return HOLD_DUP;
		p->off += end - p->seq;
		p->len -= end - p->seq;
		p->seq = end;
		i = k + 1;
	}
	if (i < c->h_tail && rn_seq_gt(p->seq + p->len, h[i].seq))
		p->len = h[i].seq - p->seq;
	uint32_t shift = i - c->h_head;
	if (!hold_room(c))
		return HOLD_FULL;
	i = c->h_head + shift;
	memmove(&h[i + 1], &h[i], (c->h_tail - i) * sizeof(h[0]));
	h[i] = (struct tcpl_hold){ .ref = p->ref, .seq = p->seq, .len = p->len, .off = p->off };
	c->h_tail++;
	block_update(c, i);
	return HOLD_KEPT;
}

/* Moves rcv_nxt over held ranges that are contiguous now. */
static void hold_advance(struct tcpl_conn *c)
{
	const struct tcpl_hold *h = c->mem.hold;

	while (c->h_ready < c->h_tail && h[c->h_ready].seq == c->rcv_nxt) {
		c->rcv_nxt = hold_end(&h[c->h_ready]);
		c->stats.bytes_in += h[c->h_ready].len;
		c->h_ready++;
	}
	blocks_below(c);
}

static void keep(struct tcpl_conn *c, struct tcpl_slice *p, struct tcpl_ev *ev, enum tcpl_verdict *v)
{
	uint32_t seq = p->seq, len = p->len;

	switch (hold_insert(c, p)) {
	case HOLD_KEPT:
		c->stats.ooo++;
		ev->held = true;
		ev->ooo = *p;
		return;
	case HOLD_DUP:
		c->stats.dups++;
		tcpl_dsack(c, seq, seq + len);
		return;
	case HOLD_FULL:
		c->stats.ooo_drops++;
		*v = ev->bits & TCPL_EV_DATA ? TCPL_OK : TCPL_DROP_FULL;
		return;
	}
}

/* p starts at rcv_nxt. */
static void in_order(struct tcpl_conn *c, struct tcpl_slice *p, struct tcpl_ev *ev, enum tcpl_verdict *v)
{
	if (c->h_ready != c->h_head) { /* the owner has not taken what is ready: this one queues up behind it */
		keep(c, p, ev, v);
		hold_advance(c);
		return;
	}
	ev->bits |= TCPL_EV_DATA;
	ev->slice = *p;
	if (c->h_ready < c->h_tail)
		ev->slice.len = rn_min_u32(p->len, c->mem.hold[c->h_ready].seq - p->seq);
	c->rcv_nxt += ev->slice.len;
	c->stats.bytes_in += ev->slice.len;
	if (ev->slice.len < p->len) {
		p->off += ev->slice.len;
		p->len -= ev->slice.len;
		p->seq += ev->slice.len;
		keep(c, p, ev, v);
	}
	hold_advance(c);
}

/*
 * Learns where the peer's stream ends; whatever lies beyond is not part of it. The first FIN stands. A FIN below held
 * bytes is believed only if it is next in order; the held bytes are dropped when the connection ends.
 */
static void see_fin(struct tcpl_conn *c, const struct tcpl_seg *s)
{
	uint32_t at = s->seq + s->len;

	if (!(s->flags & TCPL_FIN) || (c->flags & F_FIN_SEEN) || rn_seq_lt(at, c->rcv_nxt) || rn_seq_gt(at, c->rcv_adv))
		return;
	if (c->h_tail > c->h_ready && rn_seq_gt(hold_end(&c->mem.hold[c->h_tail - 1]), at)) {
		if (at != c->rcv_nxt)
			return;
		c->n_blocks = 0;
	}
	c->fin_seq = at;
	c->flags |= F_FIN_SEEN;
}

void tcpl_rx_data(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, struct tcpl_ev *ev, enum tcpl_verdict *v)
{
	struct tcpl_slice p = { s->ref, 0, s->len, s->seq };
	uint32_t before = c->rcv_nxt;
	bool gap = c->h_ready < c->h_tail;

	if (rn_unlikely(c->cfg->ahead == TCPL_AHEAD_DROP) && rn_seq_gt(s->seq, c->rcv_nxt)) {
		c->stats.ooo_drops++;
		c->owed++;
		*v = TCPL_DROP_AHEAD;
		return;
	}
	see_fin(c, s);
	if (p.len > 0 && rn_seq_lt(p.seq, c->rcv_nxt)) {
		uint32_t cut = rn_min_u32(c->rcv_nxt - p.seq, p.len);
		tcpl_dsack(c, p.seq, p.seq + cut);
		c->stats.dups++;
		p.off += cut;
		p.seq += cut;
		p.len -= cut;
		c->flags |= F_ACK_NOW;
	}
	uint32_t limit = c->flags & F_FIN_SEEN ? rn_seq_min(c->fin_seq, c->rcv_adv) : c->rcv_adv;
	if (p.len > 0 && rn_seq_gt(p.seq + p.len, limit)) {
		p.len = rn_seq_lt(p.seq, limit) ? limit - p.seq : 0;
		c->flags |= F_ACK_NOW;
	}
	if (p.len > 0 && p.seq == c->rcv_nxt)
		in_order(c, &p, ev, v);
	else if (p.len > 0)
		keep(c, &p, ev, v);

	bool fin = (c->flags & (F_FIN_SEEN | F_FIN_RCVD)) == F_FIN_SEEN && c->rcv_nxt == c->fin_seq;
	if (fin) {
		c->rcv_nxt++;
		c->rcv_adv = rn_seq_max(c->rcv_adv, c->rcv_nxt);
		c->flags |= F_FIN_RCVD;
		ev->bits |= TCPL_EV_PEER_FIN;
	}
	if (c->rcv_nxt != before)
		c->owed = 0; /* an owed ACK would no longer be a duplicate */
	if (gap || fin || c->h_ready < c->h_tail || (s->flags & TCPL_FIN))
		c->flags |= F_ACK_NOW;
	else if (c->rcv_nxt != before)
		tcpl_ack_policy(c, now, s->flags);
}

bool tcpl_rx_next(struct tcpl_conn *c, struct tcpl_slice *out)
{
	if (c->h_head == c->h_ready)
		return false;
	const struct tcpl_hold *h = &c->mem.hold[c->h_head++];
	*out = (struct tcpl_slice){ h->ref, h->off, h->len, h->seq };
	if (c->h_head == c->h_tail)
		c->h_head = c->h_ready = c->h_tail = 0;
	return true;
}

/* Joins entry i + 1 to i when both are placed and touch. */
static void merge_placed(struct tcpl_conn *c, uint32_t i)
{
	struct tcpl_hold *h = c->mem.hold;

	if (i < c->h_ready || i + 1 >= c->h_tail || h[i].ref != 0 || h[i + 1].ref != 0 ||
	    hold_end(&h[i]) != h[i + 1].seq)
		return;
	h[i].len += h[i + 1].len;
	c->h_tail--;
	memmove(&h[i + 1], &h[i + 2], (c->h_tail - (i + 1)) * sizeof(h[0]));
}

bool tcpl_ooo_placed(struct tcpl_conn *c, uint32_t seq, uint64_t *ref)
{
	struct tcpl_hold *h = c->mem.hold;

	for (uint32_t i = c->h_tail; i > c->h_ready; i--) {
		if (h[i - 1].seq != seq)
			continue;
		if (h[i - 1].ref == 0)
			return false;
		*ref = h[i - 1].ref;
		h[i - 1].ref = 0;
		merge_placed(c, i - 1);
		if (i - 1 > c->h_ready)
			merge_placed(c, i - 2);
		return true;
	}
	return false;
}

bool tcpl_rx_drop(struct tcpl_conn *c, uint64_t *ref)
{
	if (c->state != TCPL_S_CLOSED)
		return false;
	while (c->h_head < c->h_tail) {
		*ref = c->mem.hold[c->h_head++].ref;
		c->h_ready = rn_max_u32(c->h_ready, c->h_head);
		if (*ref != 0)
			return true;
	}
	c->n_blocks = 0;
	return false;
}

void tcpl_refuse(struct tcpl_conn *c)
{
	c->rcv_space = TCPL_SHUT;
	c->flags |= F_ACK_NOW;
}

void tcpl_set_rcv_space(struct tcpl_conn *c, uint32_t bytes)
{
	const bool opens = c->rcv_space == TCPL_SHUT && c->rcv_adv != c->rcv_nxt;

	c->rcv_space = rn_min_u32(bytes, UINT32_C(1) << 30);
	if (c->state < TCPL_S_ESTABLISHED || (c->flags & F_FIN_RCVD))
		return;
	/* A window update is worth a segment when it is two segments or half the buffer (RFC 9293, 3.8.6.2.2). */
	int32_t grow = rn_seq_diff(c->rcv_nxt + c->rcv_space, c->rcv_adv);
	if (opens || (grow > 0 && (uint32_t)grow >= rn_min_u32(2u * c->mss, rn_max_u32(c->rcv_space / 2, 1)) &&
		      c->rcv_adv - c->rcv_nxt < c->rcv_space / 2))
		c->flags |= F_ACK_NOW;
}

void tcpl_ack_now(struct tcpl_conn *c)
{
	if (c->rcv_nxt != c->rcv_acked)
		c->flags |= F_ACK_NOW;
}
