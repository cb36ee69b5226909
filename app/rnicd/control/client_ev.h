/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Event queues toward a client: a ring in its memory and an EFD_SEMAPHORE eventfd of its own making, one token for each
 * event. What does not fit stays here, in order, and is tried again; how much may stay is bounded by the caller's own
 * objects (an event lies in memory that its object or the caller allocated). Control thread only.
 *
 * The eventfd is the client's: it may be blocking and full. It is asked for POLLOUT before each write; a client that
 * wins the race between the two costs the control thread one tick of its alarm and then itself.
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
	bool heap;           /* freed once delivered or thrown away */
	uint32_t len;        /* bytes of data */
	const void *data;
};

struct client_chan {
	struct client *c;
	uint32_t handle;
	uint32_t kind;      /* enum ipc_channel_kind */
	uint32_t dev;       /* ASYNC */
	struct owner token; /* ASYNC: of its context */
	int fd;
	uint32_t slot_size;
	uint32_t users; /* CQs or CM ids that report here */
	struct span span;
	struct spsc_prod ring;
	struct rn_list events; /* struct ev_node, waiting, the oldest first */
	uint32_t waiting;
	uint64_t delivered, lost;
	struct rn_link blocked; /* in the list of channels with events waiting */
};

#define EV_WAITING_MAX 16384u /* copies that may wait for one client; more are lost and counted */

/* Throws away what waits; the channel is forgotten. Does not close the fd. */
void ev_chan_fini(struct client_chan *ch);

/*
 * Delivers a copy of data now or later. False: too much waits for this client already, the event is lost and counted.
 */
bool ev_push_copy(struct client_chan *ch, const void *data, uint32_t len);
/* The same with the caller's node; nothing when it is still waiting. data must stay until then. */
void ev_push_node(struct client_chan *ch, struct ev_node *n);
/* Takes a node back that may be waiting. */
void ev_cancel(struct client_chan *ch, struct ev_node *n);
/* Takes back the copies that match. */
void ev_cancel_if(struct client_chan *ch, bool (*match)(const void *data, const void *arg), const void *arg);

/* Moves what waits on `from` and matches to `to`, in order. */
void ev_migrate(struct client_chan *from, struct client_chan *to, bool (*match)(const void *data, const void *arg),
		const void *arg);

#endif
