/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/client_ev.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/client.h"

#define RETRY_NS  (2 * RN_NS_PER_MS)
#define RETRY_MAX 256u /* channels that are looked at in one turn: each takes a system call */

static struct rn_list blocked; /* struct client_chan with events that wait for room; first the next to be looked at */
static struct loop_timer retry;

enum sent { SENT, NO_ROOM, BROKEN };

/* The event is written before its token, so that a reader of the token finds the event. */
static enum sent deliver(struct client_chan *ch, const void *data, uint32_t len)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLOUT };
	uint64_t one = 1;

	if (spsc_prod_free(&ch->ring, 1) < 1)
		return ch->ring.verdict == SPSC_CORRUPT ? BROKEN : NO_ROOM;
	if (poll(&p, 1, 0) != 1 || (p.revents & POLLOUT) == 0)
		return NO_ROOM;
	uint8_t *slot = spsc_prod_slot(&ch->ring, 0);
	memset(slot, 0, ch->slot_size);
	memcpy(slot, data, len);
	spsc_prod_publish(&ch->ring, 1);
	ch->delivered++;
	/* This fails only if the client has filled its eventfd meanwhile, or the kernel fails. */
	return write(ch->fd, &one, sizeof(one)) == (ssize_t)sizeof(one) ? SENT : BROKEN;
}

static void leave_chan(struct ev_node *n)
{
	rn_list_remove(&n->chan->events, &n->link);
	n->chan->waiting--;
}

/* Takes a waiting event off its lists: it was delivered or withdrawn. */
static void client_ev_done(struct ev_node *n)
{
	struct client *c = n->chan->c;

	leave_chan(n);
	if (n->object != NULL)
		rn_list_remove(n->object, &n->of_object);
	if (n->heap) {
		c->waiting--;
		user_free(c->user, n);
	}
}

static void unblock(struct client_chan *ch) { rn_list_remove(&blocked, &ch->blocked); }

/* Delivers waiting events as far as there is room. If some still wait, the channel goes to the end of the list. False:
 * the client has written impossible indices into its queue. */
static bool flush(struct client_chan *ch)
{
	unblock(ch);
	rn_list_each(struct ev_node, n, &ch->events, link) {
		enum sent s = deliver(ch, n->data, n->len);
		if (s == BROKEN)
			return false;
		if (s == NO_ROOM) {
			rn_list_push_back(&blocked, &ch->blocked);
			return true;
		}
		client_ev_done(n);
	}
	return true;
}

/* Looks at each channel once, but at RETRY_MAX at most: one user may have tens of thousands without room. */
static void try_again(struct loop_timer *t)
{
	const struct rn_link *last = blocked.last;

	for (uint32_t i = 0; i < RETRY_MAX && !rn_list_empty(&blocked); i++) {
		struct client_chan *ch = rn_container_of(blocked.first, struct client_chan, blocked);
		const bool end = &ch->blocked == last;
		if (!flush(ch)) {
			client_drop(ch->c, "it broke an event queue");
			break; /* the list may have changed */
		}
		if (end)
			break;
	}
	if (!rn_list_empty(&blocked))
		loop_timer_arm(t, rnicd_now() + RETRY_NS);
}

static void wait_for_room(struct client_chan *ch, struct ev_node *n)
{
	n->chan = ch;
	rn_list_push_back(&ch->events, &n->link);
	ch->waiting++;
	if (rn_link_linked(&ch->blocked))
		return;
	rn_list_push_back(&blocked, &ch->blocked);
	retry.due = try_again;
	if (!rn_timer_armed(&retry.t))
		loop_timer_arm(&retry, rnicd_now() + RETRY_NS);
}

/* True: delivered, or the client is being dropped. */
static bool at_once(struct client_chan *ch, const void *data, uint32_t len)
{
	if (!rn_list_empty(&ch->events))
		return false;
	switch (deliver(ch, data, len)) {
	case SENT: return true;
	case NO_ROOM: return false;
	case BROKEN: client_drop(ch->c, "it broke an event queue"); return true;
	}
	return true;
}

void ev_chan_fini(struct client_chan *ch)
{
	rn_list_each(struct ev_node, n, &ch->events, link)
		client_ev_done(n);
	unblock(ch);
}

void ev_push_node(struct client_chan *ch, struct ev_node *n)
{
	if (ch->c->state == CLIENT_DYING || rn_link_linked(&n->link) || at_once(ch, n->data, n->len))
		return;
	wait_for_room(ch, n);
}

bool ev_push_copy(struct client_chan *ch, struct rn_list *object, const void *data, uint32_t len)
{
	if (ch->c->state == CLIENT_DYING || at_once(ch, data, len))
		return true;
	struct ev_node *n = ch->c->waiting < EV_WAITING_MAX ? user_alloc(ch->c->user, sizeof(*n) + len) : NULL;
	if (n == NULL) {
		ch->lost++;
		return false;
	}
	ch->c->waiting++;
	memcpy(n + 1, data, len);
	*n = (struct ev_node){ .object = object, .heap = true, .len = len, .data = n + 1 };
	if (object != NULL)
		rn_list_push_back(object, &n->of_object);
	wait_for_room(ch, n);
	return true;
}

void ev_cancel(struct ev_node *n)
{
	if (rn_link_linked(&n->link))
		client_ev_done(n);
}

void ev_cancel_all(struct rn_list *object)
{
	rn_list_each(struct ev_node, n, object, of_object)
		client_ev_done(n);
}

void ev_migrate(struct rn_list *object, struct client_chan *to)
{
	rn_list_each(struct ev_node, n, object, of_object) {
		leave_chan(n);
		wait_for_room(to, n);
	}
}
