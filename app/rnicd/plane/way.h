/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The route from a port to a peer: the next hop's ARP entry, and the headers in front of each segment. Worker thread.
 */
#ifndef RNICD_WAY_H
#define RNICD_WAY_H

#include <stdbool.h>
#include <stdint.h>

#include "border/cmd.h"
#include "plane/arp.h"
#include "plane/port_tx.h"

struct rnicd_worker;

#define WAY_DSCP 0xfcu

struct way {
	struct rnicd_port *port;
	struct port_tx *tx;
	struct arp_entry *neigh; /* NULL: the port's own address */
	uint32_t neigh_gen;      /* of the MAC in tmpl */
	struct pkt_tcp_template tmpl;
};

/* OK, NO_ROUTE, FULL. The neighbour is asked for where it is not known; way_leave() for each OK. */
RN_NODISCARD enum conn_verdict way_find(struct rnicd_worker *w, const struct conn_addr *a, struct way *way);
void way_leave(struct way *way);

/* Keeps the neighbour in use and its MAC in the headers up to date; before frames are made. */
void way_refresh(struct rnicd_worker *w, struct way *way);
/* Frames that may be sent now. */
uint32_t way_room(const struct rnicd_worker *w, const struct way *way);
/* True: the checksum is deferred, since the frame does not leave the process. */
static inline bool way_defers(const struct way *way) { return way->port->caps.tx_csum || way->neigh == NULL; }
/* Writes the headers to m and says what of the checksum is left to do; returns their length. */
uint32_t way_header(struct way *way, const struct pkt_tcp_seg *s, struct rte_mbuf *m);
/* Takes m. */
void way_send(struct rnicd_worker *w, struct way *way, struct rte_mbuf *m);

#endif
