/* SPDX-License-Identifier: BSD-3-Clause */
/* Reliable datagrams: lists of pairs, linked by their places in the table. */
#include "dgram/rd_int.h"

static struct rd_link *link_of(struct rd_pair *p, enum rd_in in)
{
	return in == RD_IN_RESTS ? &p->rest.link : &p->in[in];
}

/* The place that leads on from p, and the one that leads back; p NULL: to the list's first pair, and to its last. */
static uint16_t *next_of(struct rd_list *l, enum rd_in in, struct rd_pair *p)
{
	return p != NULL ? &link_of(p, in)->next : &l->first;
}

static uint16_t *prev_of(struct rd_list *l, enum rd_in in, struct rd_pair *p)
{
	return p != NULL ? &link_of(p, in)->prev : &l->last;
}

/* Puts the pair, which is in no list of this kind, before the pair `before` of this list; NULL: at the end. */
static void enlist(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *before, struct rd_pair *p)
{
	uint16_t *prev = prev_of(l, in, before), *next = next_of(l, in, rd_at(d, *prev));

	*link_of(p, in) = (struct rd_link){ .next = *next, .prev = *prev };
	*next = *prev = (uint16_t)(p - d->pair + 1);
}

void rd_enlist_first(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *p)
{
	enlist(d, l, in, rd_at(d, l->first), p);
}

void rd_enlist_last(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *p)
{
	enlist(d, l, in, NULL, p);
}

void rd_delist(struct rd_ctx *d, struct rd_list *l, enum rd_in in, struct rd_pair *p)
{
	const struct rd_link x = *link_of(p, in);

	*next_of(l, in, rd_at(d, x.prev)) = x.next;
	*prev_of(l, in, rd_at(d, x.next)) = x.prev;
}
