/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/client_ev.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/client.h"

#define RETRY_NS (2 * RN_NS_PER_MS)

static struct client_chan *blocked; /* channels with events waiting */
static struct loop_timer retry;

enum sent { SENT, NO_ROOM, BROKEN };

/* The event first, then its token: who reads a token finds the event. */
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
	/* Short of the kernel failing, only a client that filled its eventfd meanwhile makes this fail. */
	return write(ch->fd, &one, sizeof(one)) == (ssize_t)sizeof(one) ? SENT : BROKEN;
}

static void done(struct client_chan *ch, struct ev_node *n)
{
	ch->waiting--;
	n->queued = false;
	if (n->heap) {
		ch->c->waiting--;
		free(n);
	}
}

static void unblock(struct client_chan *ch)
{
	struct client_chan **p = &blocked;

	while (*p != NULL && *p != ch)
		p = &(*p)->next_blocked;
	if (*p == ch)
		*p = ch->next_blocked;
	ch->blocked = false;
}

/* False: the client broke its queue. */
static bool flush(struct client_chan *ch)
{
	while (ch->first != NULL) {
		struct ev_node *n = ch->first;
		enum sent s = deliver(ch, n->data, n->len);
		if (s == BROKEN)
			return false;
		if (s == NO_ROOM)
			return true;
		ch->first = n->next;
		if (ch->first == NULL)
			ch->last = &ch->first;
		done(ch, n);
	}
	unblock(ch);
	return true;
}

static void try_again(struct loop_timer *t)
{
	struct client_chan *ch, *next;

	for (ch = blocked; ch != NULL; ch = next) {
		next = ch->next_blocked;
		if (!flush(ch)) {
			unblock(ch);
			client_drop(ch->c, "it broke an event queue");
			break; /* the list may have changed */
		}
	}
	if (blocked != NULL)
		loop_timer_arm(t, rnicd_now() + RETRY_NS);
}

static void wait_for_room(struct client_chan *ch, struct ev_node *n)
{
	n->next = NULL;
	n->queued = true;
	*ch->last = n;
	ch->last = &n->next;
	ch->waiting++;
	if (ch->blocked)
		return;
	ch->blocked = true;
	ch->next_blocked = blocked;
	blocked = ch;
	retry.due = try_again;
	if (!rn_timer_armed(&retry.t))
		loop_timer_arm(&retry, rnicd_now() + RETRY_NS);
}

/* True: delivered, or the client is being dropped. */
static bool at_once(struct client_chan *ch, const void *data, uint32_t len)
{
	if (ch->first != NULL)
		return false;
	switch (deliver(ch, data, len)) {
	case SENT:
		return true;
	case NO_ROOM:
		return false;
	case BROKEN:
		client_drop(ch->c, "it broke an event queue");
		return true;
	}
	return true;
}

void ev_chan_init(struct client_chan *ch)
{
	ch->first = NULL;
	ch->last = &ch->first;
}

void ev_chan_fini(struct client_chan *ch)
{
	while (ch->first != NULL) {
		struct ev_node *n = ch->first;
		ch->first = n->next;
		done(ch, n);
	}
	ch->last = &ch->first;
	if (ch->blocked)
		unblock(ch);
}

void ev_push_node(struct client_chan *ch, struct ev_node *n)
{
	if (ch->c->state == CLIENT_DYING || n->queued || at_once(ch, n->data, n->len))
		return;
	wait_for_room(ch, n);
}

bool ev_push_copy(struct client_chan *ch, const void *data, uint32_t len)
{
	if (ch->c->state == CLIENT_DYING || at_once(ch, data, len))
		return true;
	struct ev_node *n = ch->c->waiting < EV_WAITING_MAX ? malloc(sizeof(*n) + len) : NULL;
	if (n == NULL) {
		ch->lost++;
		return false;
	}
	ch->c->waiting++;
	memcpy(n + 1, data, len);
	*n = (struct ev_node){ .heap = true, .len = len, .data = n + 1 };
	wait_for_room(ch, n);
	return true;
}

static void unlink_after(struct client_chan *ch, struct ev_node **p)
{
	struct ev_node *n = *p;

	*p = n->next;
	if (ch->last == &n->next)
		ch->last = p;
}

void ev_cancel(struct client_chan *ch, struct ev_node *n)
{
	for (struct ev_node **p = &ch->first; *p != NULL; p = &(*p)->next) {
		if (*p == n) {
			unlink_after(ch, p);
			done(ch, n);
			return;
		}
	}
}

void ev_cancel_if(struct client_chan *ch, bool (*match)(const void *data, const void *arg), const void *arg)
{
	for (struct ev_node **p = &ch->first; *p != NULL;) {
		struct ev_node *n = *p;
		if (!n->heap || !match(n->data, arg)) {
			p = &n->next;
			continue;
		}
		unlink_after(ch, p);
		done(ch, n);
	}
}

void ev_migrate(struct client_chan *from, struct client_chan *to, bool (*match)(const void *data, const void *arg),
		const void *arg)
{
	for (struct ev_node **p = &from->first; *p != NULL;) {
		struct ev_node *n = *p;
		if (!match(n->data, arg)) {
			p = &n->next;
			continue;
		}
		unlink_after(from, p);
		from->waiting--;
		wait_for_room(to, n);
	}
}
