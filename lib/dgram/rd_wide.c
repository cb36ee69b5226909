/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: windows of more than RD_WIN segments, and the memory that is promised for them. */
#include "dgram/rd_int.h"

#define HURRY_NS    RN_NS_PER_MS                 /* time between calls of rd_tick_widened(), at least */
#define PROMISE_MAX ((RD_ROOM_MAX - 1) * RD_WIN) /* segments beyond RD_WIN */
_Static_assert(RD_ROOM_MAX *RD_WIN < RD_WIDE, "each segment on the way has a place of its own");

void rd_give_wides(struct rd_ctx *d, struct rd_wide *wide, uint32_t n, uint32_t n_holds)
{
	d->wides = rn_pool_of(wide, n, link);
	d->wides_free = d->n_wides = n;
	d->n_promises = n_holds;
	d->holds.n_unused += n_holds;
}

/* ---- memory ---- */

/*
 * A tenant's pairs have no more of these than are free, so other tenants find some (dynamic thresholds, as in Choudhury
 * and Hahne 1998).
 */
bool rd_widen(struct rd_ctx *d, struct rd_pair *p)
{
	struct rd_tenant *t = &d->tenant[p->tenant];
	struct rd_work *k = p->k;
	struct rd_wide *w;

	if (k->wide != NULL)
		return true;
	if (t->wides >= d->wides_free)
		return false;
	w = rn_pool_pop(&d->wides, struct rd_wide, link);
	d->wides_free--;
	t->wides++;
	for (uint32_t i = 0; i < RD_SPAN; i++) {
		w->held[(p->next + i) % RD_WIDE] = k->held[(p->next + i) % RD_SPAN];
		k->held[(p->next + i) % RD_SPAN] = NULL;
	}
	for (uint32_t n = k->acked; n != p->sent; n++)
		w->wr_of[n % RD_WIDE] = k->wr_of[n % RD_SPAN];
	k->wide = w;
	rn_list_push_back(&d->widened, &k->of_widened);
	return true;
}

void rd_narrow(struct rd_ctx *d, struct rd_pair *p)
{
	struct rd_work *k = p->k;

	rd_unpromise(d, p, k->promised);
	if (k->wide == NULL)
		return;
	rn_list_remove(&d->widened, &k->of_widened);
	rn_pool_push_front(&d->wides, &k->wide->link);
	k->wide = NULL;
	d->wides_free++;
	d->tenant[p->tenant].wides--;
}

/* ---- the peer's run ---- */

/* How many segments can still be promised to pairs of the tenant. Its share is that of the working memories. */
static uint32_t left(const struct rd_ctx *d, const struct rd_tenant *t)
{
	const uint64_t works = rn_min_u32(d->work_share, d->n_works);
	const uint32_t share = (uint32_t)(d->n_promises * works / d->n_works);

	return rn_min_u32(d->n_promises - d->promised, share - rn_min_u32(share, t->promised));
}

/* A pair is promised no more segments than can still be promised to other pairs afterwards. */
void rd_promise(struct rd_ctx *d, struct rd_pair *p)
{
	struct rd_tenant *t = &d->tenant[p->tenant];
	struct rd_work *k = p->k;

	if (p->peer_loose || (k->wide == NULL && !rd_widen(d, p)))
		return;
	const uint32_t fair = rn_min_u32(PROMISE_MAX, (left(d, t) + k->promised) / 2);
	if (fair <= k->promised)
		return;
	d->promised += fair - k->promised;
	t->promised += fair - k->promised;
	k->promised = fair;
	p->owes = true;
}

void rd_unpromise(struct rd_ctx *d, struct rd_pair *p, uint32_t n)
{
	p->k->promised -= n;
	d->promised -= n;
	d->tenant[p->tenant].promised -= n;
}

uint8_t rd_room(const struct rd_pair *p)
{
	/* Not 0 even if the promise is smaller than RD_WIN, so that the peer gives the promise back. */
	return p->k != NULL && p->k->promised > 0 ? (uint8_t)((RD_WIN + p->k->promised) / RD_WIN) : 0;
}

/*
 * h->qkey says how many segments the peer had sent. If we have taken more, the peer has begun to use the promise again,
 * and the promise stays.
 */
void rd_take_back(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h)
{
	if (p->rests || h->qkey != p->next || p->k->holds > 0)
		return;
	rd_unpromise(d, p, p->k->promised);
	rd_put(d, p); /* the pair may rest now */
}

/* ---- our run ---- */

void rd_promised(struct rd_ctx *d, struct rd_pair *p, const struct rd_hdr *h)
{
	struct rd_work *k = p->k;

	if (h->room == 0 || h->taken == k->void_at || p->loose)
		return;
	k->gives = true;
	rd_hurry(d);
	const uint32_t more = (h->room - 1u) * RD_WIN;
	if (k->wide == NULL || more <= k->more)
		return;
	k->more = more;
	rd_put(d, p);
}

bool rd_may_send(const struct rd_pair *p)
{
	const struct rd_work *k = p->k;
	const uint32_t span = p->sent - k->acked;

	if (!p->loose)
		return span < RD_WIN + k->more;
	return span < RD_SPAN && span - k->n_had < RD_WIN;
}

void rd_ask_room(struct rd_ctx *d, struct rd_pair *p, struct rd_hdr *h)
{
	struct rd_work *k = p->k;

	if (k == NULL)
		return;
	if (h->kind != RD_TAKEN) {
		k->back = false;
		if (!p->loose && p->sent - k->acked > RD_WIN / 2 && rd_widen(d, p))
			h->flags |= RD_F_MUCH;
		return;
	}
	if (!k->back || k->acked != p->sent)
		return;
	h->flags |= RD_F_BACK;
	h->qkey = k->void_at = p->sent;
	k->more = 0;
	k->gives = k->back = false;
}

bool rd_gives_back(const struct rd_ctx *d, struct rd_pair *p)
{
	const bool memory_wanted = d->again != 0;
	struct rd_work *k = p->k;

	k->back = k->gives && k->acked == p->sent &&
		  (memory_wanted || k->sure == p->sent || d->qp->now - k->used >= RD_PROBE_NS);
	return k->back;
}

void rd_hurry(struct rd_ctx *d)
{
	if (d->again != 0 && !rn_list_empty(&d->widened))
		d->hurry_at = rn_min_u64(d->hurry_at, d->hurried + HURRY_NS);
}

void rd_tick_widened(struct rd_ctx *d)
{
	if (d->hurry_at > d->qp->now)
		return;
	rn_list_each(struct rd_work, k, &d->widened, of_widened) {
		if (!rd_gives_back(d, k->pair))
			continue;
		k->pair->owes = true;
		rd_put(d, k->pair);
	}
	d->hurried = d->qp->now;
	d->hurry_at = RN_NEVER;
	rd_hurry(d);
}
