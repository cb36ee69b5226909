/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event queues ("channels") toward a client. A channel is a ring in the client's memory and an EFD_SEMAPHORE eventfd
 * that the client has made; the eventfd counts one token for each event. Events that do not fit wait here, in order,
 * and are tried again. A waiting event is either a node inside one of the client's objects or a copy; EV_WAITING_MAX
 * bounds the copies. Each object has a list of the waiting copies about it, the oldest first: the end of an object
 * passes no events of others. Control thread only.
 *
 * The client has made the eventfd: it may be full, and a write to it may block. So POLLOUT is checked before each
 * write. If the client fills the eventfd between check and write, the control thread blocks until SIGALRM interrupts
 * the write (ALARM_S in main.c), and then drops the client.
 */
#ifndef CLIENT_EV_H
#define CLIENT_EV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "ipc/ipc_shm.h"
#include "control/owner.h"
#include "ring/spsc.h"
#include "control/spans.h"

struct client;

/* An event that waits for room. */
struct ev_node {
	struct rn_link link;      /* in its channel's list */
	struct rn_link of_object; /* in `object` */
	struct client_chan *chan;
	struct rn_list *object; /* the waiting events about the same object; NULL: no object has such a list */
	bool heap;              /* a copy: freed when delivered or withdrawn */
	uint32_t len;           /* bytes of data */
	const void *data;
};

struct client_chan {
	struct client *c;
	uint32_t handle;
	uint32_t kind;      /* enum ipc_channel_kind */
	uint32_t dev;       /* ASYNC */
	struct owner token; /* ASYNC: the token of the context (client_token.c) */
	int fd;
	uint32_t slot_size;
	uint32_t users; /* CQs or CM ids that report here */
	struct span span;
	struct spsc_prod ring;
	struct rn_list events; /* struct ev_node, waiting, the oldest first */
	uint32_t waiting;
	uint64_t delivered, lost;
	struct rn_link blocked; /* in the list of channels with waiting events */
};

#define EV_WAITING_MAX 16384u /* copies of events that may wait for one client; further ones are dropped and counted */

/* Discards waiting events and forgets the channel. Does not close the fd. */
void ev_chan_fini(struct client_chan *ch);

/*
 * Delivers a copy of data now or later. object: the list of waiting events of the object that it is about, or NULL.
 * False: too many events wait for this client already; the event is dropped and counted.
 */
bool ev_push_copy(struct client_chan *ch, struct rn_list *object, const void *data, uint32_t len);
/* The same with the caller's node; does nothing if the node is still waiting. data must stay valid until the event is
 * delivered. */
void ev_push_node(struct client_chan *ch, struct ev_node *n);
/* Withdraws the node's event, if it is waiting. */
void ev_cancel(struct ev_node *n);
/* Withdraws all waiting events of an object, which is about to end. */
void ev_cancel_all(struct rn_list *object);
/* Moves all waiting events of an object to this channel, in order. */
void ev_migrate(struct rn_list *object, struct client_chan *to);
/* The object's oldest waiting event; NULL: none waits. */
static inline const void *ev_first(const struct rn_list *object)
{
	return rn_list_empty(object) ? NULL : rn_list_first(object, struct ev_node, of_object)->data;
}

#endif
