/* SPDX-License-Identifier: BSD-3-Clause */
/* Notifications to programs of datagram sockets, and events to the control thread. */
#include "border/event.h"
#include "border/grams.h"

static void gram_tell(struct grams *c, struct gram *g, uint32_t bits)
{
	g->tell |= bits;
	if (!rn_link_linked(&g->telling))
		rn_list_push_back(&c->telling, &g->telling);
}

void gram_answer(struct grams *c, struct gram *g)
{
	uint32_t say = 0;

	/* pairs with the program's fence: the program writes what it waits for, then checks the rings once more */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	uint32_t want = __atomic_load_n(&g->mem->want, __ATOMIC_RELAXED);
	if ((want & IPC_STREAM_WANT_IN) && (__atomic_load_n(&g->mem->rx_head, __ATOMIC_RELAXED) != g->rx_tail ||
					    g->broken || __atomic_load_n(&g->mem->error, __ATOMIC_RELAXED) != 0))
		say |= IPC_STREAM_WANT_IN;
	if ((want & IPC_STREAM_WANT_OUT) &&
	    (g->broken || __atomic_load_n(&g->mem->tx_tail, __ATOMIC_RELAXED) - g->tx_head <= IPC_GRAM_RING / 2))
		say |= IPC_STREAM_WANT_OUT;
	if (rn_likely(say == 0))
		return;
	__atomic_fetch_and(&g->mem->want, ~say, __ATOMIC_RELAXED);
	gram_tell(c, g, ((say & IPC_STREAM_WANT_IN) ? STREAM_IN : 0) | ((say & IPC_STREAM_WANT_OUT) ? STREAM_OUT : 0));
}

void gram_events(struct grams *c)
{
	while (!rn_list_empty(&c->telling)) {
		struct event *ev = event_room(c->worker, EVENT_LOSSLESS);
		if (ev == NULL)
			return; /* the control thread's queue is full: tried again in a later turn */
		struct gram *g = rn_list_pop(&c->telling, struct gram, telling);
		ev->type = EVENT_STREAM;
		ev->stream = (struct event_stream){ .bits = g->tell, .key = g->key };
		event_put(c->worker);
		g->tell = 0;
	}
}

void gram_broken(struct grams *c, struct gram *g)
{
	g->broken = true;
	__atomic_store_n(&g->mem->state, IPC_GRAM_BROKEN, __ATOMIC_RELEASE);
	gram_answer(c, g);
}

bool gram_holds(struct grams *c, struct gram *g)
{
	if (c->plane->holds == NULL || c->plane->holds(g))
		return true;
	gram_broken(c, g);
	return false;
}
