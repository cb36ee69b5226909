/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rate at which a path delivers (draft-cheng-iccrg-delivery-rate-estimation), and sending at a pace. Only for
 * connections whose congestion control asks for it.
 *
 * A segment remembers how much had been delivered when it left. When it arrives, what was delivered since then, over
 * the longer of the times that sending and acknowledging it took, is a rate: neither a burst of ours nor a burst of
 * ACKs makes it larger than the path's.
 */
#include "tcpl_int.h"

#define QUANTUM_SHIFT 13u         /* of the pace: what leaves in 1/8192 s, 122 us */
#define QUANTUM_MAX   (64u << 10) /* bytes */
#define CREDIT        4u          /* quanta that a sender which comes late may make up for at once */

void tcpl_rate_start(struct tcpl_conn *c)
{
	c->dlv = (struct tcpl_delivery){ .at = c->last_in, .began = c->last_in };
	c->pace_at = c->pace_cost = 0;
	c->flags |= F_MODEL;
}

static struct tcpl_sent *sent_of(const struct tcpl_conn *c, uint32_t idx)
{
	return &c->mem.sent[idx & (c->mem.rec_n - 1)];
}

static uint32_t ago(uint64_t now, uint64_t at) { return (uint32_t)rn_min_u64(now - at, UINT32_MAX); }

/* ---- pace ---- */

uint32_t tcpl_pace_quantum(const struct tcpl_conn *c)
{
	uint64_t n = c->pace_cost == 0 ? 0 : ((RN_NS_PER_S << TCPL_PACE_SHIFT) / c->pace_cost) >> QUANTUM_SHIFT;

	return (uint32_t)rn_max_u64(rn_min_u64(n, QUANTUM_MAX), 2u * c->mss);
}

/* rate: bytes/s */
void tcpl_pace_set(struct tcpl_conn *c, uint64_t rate)
{
	c->pace_cost = (RN_NS_PER_S << TCPL_PACE_SHIFT) / rn_max_u64(rate, 1000);
	c->pace_burst = ((uint64_t)tcpl_pace_quantum(c) * c->pace_cost) >> TCPL_PACE_SHIFT;
}

/*
 * The pace is a window per round trip, and more, so that cwnd, not the pace, is the limit: twice that while slow start
 * doubles cwnd, a fifth more afterwards.
 */
void tcpl_pace_follow(struct tcpl_conn *c)
{
	uint64_t part = c->cwnd < c->ssthresh / 2 ? 20 : 12;

	if (c->srtt != 0)
		tcpl_pace_set(c, c->cwnd * part / 10 * RN_NS_PER_S / c->srtt);
}

/*
 * A quantum may leave before its time, so that not each segment sets a timer. A sender that comes late may make up for
 * CREDIT quanta.
 */
static void pace_sent(struct tcpl_conn *c, uint64_t now, uint32_t len)
{
	uint64_t from = rn_max_u64(c->pace_at, now - rn_min_u64(now, CREDIT * c->pace_burst));

	c->pace_at = from + ((len * c->pace_cost) >> TCPL_PACE_SHIFT);
	if (c->pace_at > now + c->pace_burst)
		c->flags |= F_PACE_WAIT;
}

/* ---- rate ---- */

/* Segment idx is about to leave (again). */
void tcpl_rate_sent(struct tcpl_conn *c, uint64_t now, uint32_t idx, uint32_t len)
{
	struct tcpl_delivery *d = &c->dlv;

	if (c->r_head == c->r_tail) {
		d->at = d->began = now;
		d->restart |= d->limited;
	}
	if (c->flags & F_MODEL)
		*sent_of(c, idx) = (struct tcpl_sent){ d->bytes, ago(now, d->at), ago(now, d->began), d->limited };
	if (c->pace_cost != 0)
		pace_sent(c, now, len);
}

/* Segment idx has arrived. */
void tcpl_rate_seen(struct tcpl_conn *c, uint64_t now, uint32_t idx, struct tcpl_newest *n)
{
	const struct tcpl_txrec *r = tcpl_rec(c, idx);
	const struct tcpl_sent *s = sent_of(c, idx);

	n->bytes += r->end - r->seq;
	if (n->any && (r->sent < n->sent || (r->sent == n->sent && rn_seq_lt(s->delivered, n->prior))))
		return;
	*n = (struct tcpl_newest){ true,
				   s->limited != 0,
				   n->bytes,
				   s->delivered,
				   r->sent - s->acked_ago,
				   r->sent - s->began_ago,
				   r->sent,
				   r->rexmits == 0 ? now - r->sent : RN_NEVER };
}

/* Called after an ACK. flight: bytes in the network before the ACK; lost: bytes that the ACK showed to be lost. */
void tcpl_rate_acked(struct tcpl_conn *c, uint64_t now, uint32_t flight, uint32_t lost, const struct tcpl_newest *n)
{
	struct tcpl_delivery *d = &c->dlv;
	struct tcpl_rate r = { .bytes = n->bytes,
			       .lost = lost,
			       .flight = flight,
			       .prior = n->prior,
			       .any = n->any,
			       .limited = n->limited,
			       .rtt = n->any ? n->rtt : RN_NEVER };

	if ((n->bytes | lost) == 0)
		return;
	if (n->bytes > 0) {
		d->bytes += n->bytes;
		d->at = now;
	}
	if (d->limited && rn_seq_gt(d->bytes, d->limited_to))
		d->limited = false;
	if (n->any) {
		uint64_t took = rn_max_u64(n->sent - n->began, now - n->prior_at);
		d->began = n->sent;
		/*
		 * shorter than a round trip is no rate: one ACK tells of many bytes once a retransmission has filled a
		 * hole
		 */
		if (took >= c->min_rtt && took > 0)
			r.rate = (d->bytes - n->prior) * RN_NS_PER_S / took;
	}
	c->cfg->cc->measured(c, now, &r);
	d->restart = d->restart && n->bytes == 0;
}

/*
 * No more segments leave now. If that is because the owner has no more data, measured rates are the owner's, not the
 * path's, until what is in flight has arrived.
 */
void tcpl_rate_idle(struct tcpl_conn *c)
{
	uint32_t inflight = c->snd_nxt - c->snd_una;
	bool stopped = (c->flags & F_PACE_WAIT) || c->n_lost > 0 || tcpl_unsent(c) >= c->mss ||
		       c->pipe + c->mss > c->cwnd || inflight + c->mss > c->snd_wnd ||
		       c->r_tail - c->r_head == c->mem.rec_n || tcpl_room(c) * 8 < c->mem.chunk_n;

	if (stopped)
		return;
	c->dlv.limited = true;
	c->dlv.limited_to = c->dlv.bytes + c->pipe;
}
