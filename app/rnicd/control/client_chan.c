/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels, and the effects of workers that become events on a channel. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "control/client.h"
#include "control/why.h"

#define CHANNELS_MAX   4096u
#define RING_SLOTS_MAX 65536u

/* Values of ibv_event_type for CQs and ports; enum qp_event has those for QPs. */
enum { EVENT_CQ_ERR = 0, EVENT_PORT_ACTIVE = 9, EVENT_PORT_ERR = 10 };

static enum spsc_verdict attach(struct client *c, struct client_chan *ch, const struct ipc_create_channel *r)
{
	struct spsc_place at = {
		.region = c->region[IPC_REGION_QUEUES].base,
		.region_size = c->region[IPC_REGION_QUEUES].size,
		.off = r->ring_off,
		.nslots = r->ring_slots,
		.slot_size = ch->slot_size,
	};

	enum spsc_verdict v = spsc_prod_attach(&ch->ring, &at);
	if (v != SPSC_OK)
		return v;
	ch->span = (struct span){ .off = r->ring_off, .len = spsc_size(r->ring_slots, ch->slot_size) };
	return spans_take(&c->spans, &ch->span) == SPAN_OK ? SPSC_OK : SPSC_BAD_RANGE;
}

void client_create_channel(struct client *c, struct fds_given *g, uint32_t n)
{
	const struct ipc_create_channel r = c->req.create_channel;
	struct client_chan *ch = NULL;
	const char *no = NULL;
	int err = EINVAL;

	(void)n;
	if (r.kind > IPC_CHANNEL_ORDERS)
		no = "there is no such kind of channel";
	else if (r.kind == IPC_CHANNEL_ASYNC && r.dev >= rnicd.n_ports)
		no = "there is no such device";
	else if (r.kind == IPC_CHANNEL_ORDERS && client_orders(c) != NULL)
		no = "there is a channel for orders already";
	else if (r.ring_slots > RING_SLOTS_MAX)
		no = "the ring is too long";
	else if (g[0].kind != FDS_EVENTFD)
		no = "the descriptor is not an eventfd";
	else if (c->chan.live >= CHANNELS_MAX)
		no = "there are too many channels", err = EMFILE;
	else if ((ch = calloc(1, sizeof(*ch))) == NULL)
		no = "no memory", err = ENOMEM;
	else if (!user_take(c->user, USER_FDS, 0, 1)) {
		free(ch);
		client_error(c, ENFILE,
			     "event channel: this user has as many descriptors of rnicd as a user may: raise rnicd's "
			     "limit (ulimit -n) or user-share");
		return;
	}
	if (no == NULL) {
		ch->slot_size = r.kind >= IPC_CHANNEL_CM ? IPC_EVENT_SLOT_CM : IPC_EVENT_SLOT_SMALL;
		if (attach(c, ch, &r) != SPSC_OK)
			no = "the ring lies outside the queue region, or is misaligned";
		else if ((ch->handle = client_table_add(c, &c->chan, ch)) == 0)
			no = "no memory", err = ENOMEM;
	}
	if (no != NULL) {
		if (ch != NULL) {
			spans_give(&c->spans, &ch->span);
			user_give(c->user, USER_FDS, 0, 1);
		}
		free(ch);
		client_error(c, err, "event channel: %s", no);
		return;
	}
	ch->c = c;
	ch->kind = r.kind;
	ch->dev = r.dev;
	ch->fd = g[0].fd;
	g[0].fd = -1;
	client_ok_handle(c, ch->handle);
}

bool client_chan_find(const struct client *c, uint32_t handle, uint32_t kind, uint32_t dev, struct client_chan **ch)
{
	*ch = NULL;
	if (handle == 0)
		return true;
	struct client_chan *found = table_get(&c->chan, handle);
	if (found == NULL || found->kind != kind || (kind == IPC_CHANNEL_ASYNC && found->dev != dev))
		return false;
	*ch = found;
	return true;
}

void client_chan_free(struct client_chan *ch)
{
	ev_chan_fini(ch);
	owner_del(&ch->token);
	table_del(&ch->c->chan, ch->handle);
	spans_give(&ch->c->spans, &ch->span);
	close(ch->fd);
	user_give(ch->c->user, USER_FDS, 0, 1);
	free(ch);
}

void client_destroy_channel(struct client *c)
{
	struct client_chan *ch = table_get(&c->chan, c->req.handle.handle);

	if (ch == NULL) {
		client_error(c, EINVAL, "there is no event channel %u", c->req.handle.handle);
	} else if (ch->users > 0) {
		/* A program may close a device and leave its objects until the program ends: no error message for
		 * that. */
		struct ipc_msg m = { .status = EBUSY };
		if (ch->kind == IPC_CHANNEL_ASYNC)
			client_answer(c, &m, IPC_MSG_HDR);
		else
			client_error(c, EBUSY, "the event channel is in use by %u objects", ch->users);
	} else {
		client_chan_free(ch);
		client_ok(c);
	}
}

/* ---- effects ---- */

static void async_event(struct client_chan *ch, struct rn_list *object, uint32_t type, uint64_t cookie)
{
	struct ipc_async_event ev = { .type = type, .cookie = cookie };

	if (ch != NULL)
		ev_push_copy(ch, object, &ev, sizeof(ev));
}

void client_async_leave(struct client_chan *ch, struct rn_list *untold)
{
	ev_cancel_all(untold);
	if (ch != NULL)
		ch->users--;
}

void client_port_event(uint32_t dev, bool up)
{
	const uint64_t port_num = 1;

	rn_list_each(struct client, c, &clients.all, link) {
		struct client_chan *ch;
		for (uint32_t h = 0; (ch = table_next(&c->chan, &h)) != NULL;)
			if (ch->kind == IPC_CHANNEL_ASYNC && ch->dev == dev)
				async_event(ch, NULL, up ? EVENT_PORT_ACTIVE : EVENT_PORT_ERR, port_num);
	}
}

static void cq_fx(struct client_cq *q, uint8_t type)
{
	if (type == QP_FX_CQ_NOTIFY) {
		client_totals.cq_events++;
		if (q->chan != NULL)
			ev_push_node(q->chan, &q->ev);
	} else if (!q->told) {
		q->told = true;
		why_cq(q->c->id, (int)q->c->pid, q->cqe);
		async_event(q->async, &q->untold, EVENT_CQ_ERR, q->cookie);
	}
}

void client_fx(const struct event_fx *fx)
{
	enum owner_kind kind = fx->type == QP_FX_QP_EVENT    ? OWNER_QP
			       : fx->type == QP_FX_SRQ_EVENT ? OWNER_SRQ
							     : OWNER_CQ;
	struct owner *o = owner_get(kind, fx->owner);

	if (o == NULL)
		return; /* destroyed meanwhile */
	if (kind == OWNER_QP) {
		struct client_qp *q = rn_container_of(o, struct client_qp, owner);
		async_event(q->async, &q->untold, fx->code, q->cookie);
		rn_list_each(struct client_target, t, &q->opens, link)
			async_event(t->async, &t->untold, fx->code, t->cookie);
	} else if (kind == OWNER_SRQ) {
		struct client_srq *s = rn_container_of(o, struct client_srq, owner);
		async_event(s->async, &s->untold, fx->code, s->cookie);
	} else {
		cq_fx(rn_container_of(o, struct client_cq, owner), fx->type);
	}
}
