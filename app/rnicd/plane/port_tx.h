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

#define PORT_TX_QUEUE    512u
#define PORT_TX_BURST    64u
#define PORT_TX_WIRE     32u
#define PORT_TX_STUCK_NS RN_NS_PER_S /* a driver that takes nothing for that long: what waits is dropped */

struct port_tx {
	struct rnicd_port *port;
	struct rnicd_port_stats *st;
	struct impair *impair; /* NULL: none */
	struct shape shape;
	struct rte_ring
		*through; /* not NULL: another worker, number `queue`, owns the port's queues; frames go to it */
	uint16_t queue;
	uint32_t head, ready, tail; /* free running: [head, ready) are past the shaper, [ready, tail) wait for it */
	uint64_t asked;             /* since when frames have waited for the shaper without a pause */
	uint64_t wake;              /* when port_tx_flush has something to do next */
	uint32_t n_paths, turn;     /* not 0: frames go to the queues of these, and none waits here (spread.h) */
	struct port_tx *path[RNICD_PATHS];
	uint64_t moved; /* when the driver last took a frame, or the queue was empty */
	struct rte_mbuf *fifo[PORT_TX_QUEUE];
};

/* spread.c: of a port with several paths. path: of the connection that asks; RNICD_PATHS: any */
uint32_t spread_room(const struct port_tx *t, uint32_t path);
uint32_t spread_free(const struct port_tx *t);
struct port_tx *port_tx_path(struct port_tx *t, const struct rte_mbuf *m);

/*
 * Frames that connections may push now. A wire inside is emptied by this worker's next turn, PORT_TX_WIRE frames at
 * most: what waits there longer helps nobody, keeps others' messages waiting and leaves the cache. Bytes wait better in
 * TCP.
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

/* Frames that port_tx_push() has a place for. */
static inline uint32_t port_tx_free(const struct port_tx *t)
{
	return rn_likely(t->n_paths == 0) ? PORT_TX_QUEUE - (t->tail - t->head) : spread_free(t);
}

/*
 * Takes a frame; what the port cannot do with it (a chain, a deferred checksum) is done here. Dropped and counted when
 * the queue is full.
 */
void port_tx_push(struct port_tx *t, struct rte_mbuf *m);

/* Moves on what can move; returns the number of frames that did. */
uint32_t port_tx_flush(struct port_tx *t, uint64_t now);

/* Frees everything that waits. */
void port_tx_drop_all(struct port_tx *t);

static inline bool port_tx_idle(const struct port_tx *t) { return t->head == t->tail; }

#endif
