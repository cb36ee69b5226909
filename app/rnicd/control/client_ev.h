/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event queues ("channels") toward a client. A channel is a ring in the client's memory and an EFD_SEMAPHORE eventfd
 * that the client has made; the eventfd counts one token for each event. Events that do not fit wait here, in order,
 * and are tried again. A waiting event is either a node inside one of the client's objects or a copy; EV_WAITING_MAX
 * bounds the copies. Control thread only.
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
	struct rn_link link; /* in its channel's list */
	bool heap;           /* a copy: freed when delivered or withdrawn */
	uint32_t len;        /* bytes of data */
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
 * Delivers a copy of data now or later. False: too many events wait for this client already; the event is dropped and
 * counted.
 */
bool ev_push_copy(struct client_chan *ch, const void *data, uint32_t len);
/* The same with the caller's node; does nothing if the node is still waiting. data must stay valid until the event is
 * delivered. */
void ev_push_node(struct client_chan *ch, struct ev_node *n);
/* Withdraws the node's event, if it is waiting. */
void ev_cancel(struct client_chan *ch, struct ev_node *n);
/* Withdraws the waiting copies for which match() is true. */
void ev_cancel_if(struct client_chan *ch, bool (*match)(const void *data, const void *arg), const void *arg);

/* Moves the waiting events of `from` for which match() is true to `to`, in order. */
void ev_migrate(struct client_chan *from, struct client_chan *to, bool (*match)(const void *data, const void *arg),
		const void *arg);

#endif
