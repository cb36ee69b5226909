/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The transmit side of one port as one worker has it:
 *
 *	push → queue → shaper (line rate) → capture → impairment → driver
 *
 * A frame that the driver has no room for waits; the producer is told how much room there is (port_tx_room) and makes
 * no more segments than that. Worker thread only.
 */
#ifndef RNICD_PORT_TX_H
#define RNICD_PORT_TX_H

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "plane/impair.h"
#include "border/rnicd.h"
#include "plane/shape.h"

#define PORT_TX_QUEUE 512u
#define PORT_TX_BURST 64u
#define PORT_TX_WIRE  32u
/* when the driver has taken no frame for so long, all waiting frames are dropped */
#define PORT_TX_STUCK_NS RN_NS_PER_S

struct port_tx {
	struct rnicd_port *port;
	struct rnicd_port_stats *st;
	struct impair *impair; /* NULL: no impairment */
	struct shape shape;
	/* not NULL: worker number `queue` owns the port's queues, and frames go to that worker */
	struct rte_ring *through;
	uint16_t queue;
	uint32_t head, ready, tail; /* free running: [head, ready) are past the shaper, [ready, tail) wait for it */
	uint64_t asked;             /* time since which frames have waited for the shaper without a pause */
	uint64_t wake;              /* time at which port_tx_flush() has something to do next */
	/* n_paths not 0: frames go to the queues of path[], and no frame waits here (spread.h) */
	uint32_t n_paths, turn;
	struct port_tx *path[RNICD_PATHS];
	uint64_t moved; /* time at which the driver last took a frame, or the queue was empty */
	struct rte_mbuf *fifo[PORT_TX_QUEUE];
};

/* spread.c: for a port with several paths. path: that of the connection that asks; RNICD_PATHS: any */
uint32_t spread_room(const struct port_tx *t, uint32_t path);
uint32_t spread_free(const struct port_tx *t);
struct port_tx *port_tx_path(struct port_tx *t, const struct rte_mbuf *m);

/*
 * How many frames connections may push now. A wire inside the process is emptied by this worker's next turn, which
 * takes at most PORT_TX_WIRE frames. Frames beyond these would gain nothing, delay other connections' messages and
 * leave the cache: their bytes had better wait in TCP.
 */
static inline uint32_t port_tx_room(const struct port_tx *t)
{
	uint32_t waits = t->tail - t->head;

	if (rn_unlikely(t->n_paths != 0))
		return spread_room(t, RNICD_PATHS);
	if (t->port->wire == NULL || shape_on(&t->shape))
		return PORT_TX_QUEUE - waits;
	waits += rte_ring_count(t->port->peer->wire[t->queue]);
	return waits < PORT_TX_WIRE ? PORT_TX_WIRE - waits : 0;
}

/* How many more frames port_tx_push() can queue. */
static inline uint32_t port_tx_free(const struct port_tx *t)
{
	return rn_likely(t->n_paths == 0) ? PORT_TX_QUEUE - (t->tail - t->head) : spread_free(t);
}

/*
 * Takes a frame. What the port's driver cannot do (frames in several pieces, checksums) is done here. A full queue
 * drops and counts the frame.
 */
void port_tx_push(struct port_tx *t, struct rte_mbuf *m);

/* Moves frames on towards the driver; returns how many were moved. */
uint32_t port_tx_flush(struct port_tx *t, uint64_t now);

/* Frees all waiting frames. */
void port_tx_drop_all(struct port_tx *t);

static inline bool port_tx_idle(const struct port_tx *t) { return t->head == t->tail; }

#endif
