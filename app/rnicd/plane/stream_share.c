/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What each user has of a worker's streams: turns, and frames that wait until a hole is filled. A user has the number
 * of its queue pairs (qp_attr.tenant). Streams that no program has accepted yet have the number 0.
 */
#include "plane/stream.h"
#include "plane/worker_int.h"

static uint8_t share_of(const struct stream *s) { return s->user != NULL ? s->user->tenant : 0; }

/* ---- turns ---- */

static uint64_t ready_bit(uint8_t number) { return UINT64_C(1) << number; }

void stream_ready(struct rnicd_worker *w, struct stream *s)
{
	if (rn_link_linked(&s->ready) || stream_is_over(s))
		return;
	s->ready_as = share_of(s);
	w->streams.ready_any |= ready_bit(s->ready_as);
	rn_list_push_back(&w->streams.ready[s->ready_as], &s->ready);
}

void stream_unready(struct rnicd_worker *w, struct stream *s)
{
	struct rn_list *of = &w->streams.ready[s->ready_as];

	if (!rn_link_linked(&s->ready))
		return;
	rn_list_remove(of, &s->ready);
	if (rn_list_empty(of))
		w->streams.ready_any &= ~ready_bit(s->ready_as);
}

struct stream *stream_ready_pop(struct rnicd_worker *w)
{
	struct stream_ctx *x = &w->streams;

	if (x->ready_any == 0)
		return NULL;
	const uint8_t number = rn_bit_from(x->ready_any, x->ready_turn);
	struct stream *s = rn_list_first(&x->ready[number], struct stream, ready);
	stream_unready(w, s);
	x->ready_turn = (uint8_t)((number + 1u) % QP_TENANTS);
	return s;
}

/* ---- frames behind holes ---- */

/* As long as the stream has any, they count where the first of them was counted. */
static uint8_t held_as(const struct stream *s) { return s->n_held > 0 ? s->held_as : share_of(s); }

/*
 * Queue pairs' connections keep such frames, too, up to hold_pkts: streams have half as many. One user's streams have
 * three quarters of these.
 */
bool stream_may_hold(const struct rnicd_worker *w, const struct stream *s)
{
	const uint32_t all = rn_max_u32(w->tcp.cfg.hold_pkts / 2, 1), share = all - all / 4;

	return w->streams.held < share || (w->streams.held < all && w->streams.held_of[held_as(s)] < share);
}

void stream_hold(struct rnicd_worker *w, struct stream *s)
{
	s->held_as = held_as(s);
	s->n_held++;
	w->streams.held++;
	w->streams.held_of[s->held_as]++;
}

void stream_unhold(struct rnicd_worker *w, struct stream *s)
{
	s->n_held--;
	w->streams.held--;
	w->streams.held_of[s->held_as]--;
}
