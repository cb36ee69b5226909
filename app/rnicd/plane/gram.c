/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of datagram sockets. */
#include "plane/worker_int.h"

void gram_ring(struct rnicd_worker *w, struct gram *g)
{
	if (g->broken)
		return;
	gram_answer(w, g);
	if (!rn_link_linked(&g->ready))
		rn_list_push_back(&w->grams.ready, &g->ready);
}

static void gram_open(struct rnicd_worker *w, struct gram *g)
{
	struct gram **at = &w->grams.slot[gram_slot(g->lport)];

	g->next = *at;
	*at = g;
	g->user->gram[g->bit] = g;
	stream_user_uses(g->user, g->bit);
}

static void gram_close(struct rnicd_worker *w, struct cmd_gram *c)
{
	struct gram *g = c->gram, **at = &w->grams.slot[gram_slot(g->lport)];
	uint32_t count = 0;

	/* datagrams that the program sent before it ended still leave */
	c->waits = !c->give_up && !g->broken && !gram_send(w, g, WORKER_BURST, &count);
	if (c->waits)
		return;
	while (*at != NULL && *at != g)
		at = &(*at)->next;
	if (*at != NULL)
		*at = g->next;
	g->user->gram[g->bit] = NULL;
	rn_list_remove(&w->grams.ready, &g->ready);
	rn_list_remove(&w->grams.telling, &g->telling);
}

void command_gram(struct rnicd_worker *w, struct cmd *c)
{
	switch ((int)c->type) {
	case CMD_GRAM_OPEN: gram_open(w, c->gram.gram); break;
	case CMD_GRAM_PEER: c->gram.gram->peer = c->gram.peer; break;
	case CMD_GRAM_CLOSE: gram_close(w, &c->gram); break;
	default: break;
	}
}
