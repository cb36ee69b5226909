/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable datagrams on a worker: joins the carrier (dgram/rd.h) to the flows (udp/udpr.h) and the flows to frames. The
 * QPN of a queue pair decides which worker the queue pair is on (rd_owner), so that other devices know which flow leads
 * to it. Two workers of different devices have one flow in each direction. Worker thread.
 */
#ifndef RNICD_RD_H
#define RNICD_RD_H

#include <rte_mbuf.h>

#include "border/cmd.h"
#include "border/look.h"
#include "border/rd_view.h"
#include "border/rnicd.h"

struct rnicd_worker;

/* Whether a datagram that arrived at the device's datagram-port belongs to a flow (udpr.h). */
static inline bool rd_port_wants(const uint8_t *p, uint32_t len)
{
	return len >= 2 && p[1] >= UDPR_HELLO && p[1] <= UDPR_KIND_LAST;
}

/* Called when the worker gets the first queue pair of device r: packets for the device are taken from now on. */
void rd_port_join(struct rnicd_worker *w, struct rd_port *r);

/* A client has posted to a shared receive queue for which messages wait. */
void rd_port_recvs(struct rnicd_worker *w);

/* Handles a datagram in one piece, for which rd_port_wants() was true. Frees m, or passes it to another worker. */
void rd_port_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);

/* Runs timers, and sends packets that may be sent now. Returns the amount of work. */
uint32_t rd_port_turn(struct rnicd_worker *w);

/* When rd_port_turn() has work again if no packet comes; RN_NEVER: nothing is under way. */
uint64_t rd_port_due(const struct rnicd_worker *w);

/* Adds to *l what the worker's devices have counted. The caller has zeroed l->rd and l->rd_drops. */
void rd_port_look(const struct rnicd_worker *w, struct look_worker *l);

/* Lists the flows of the worker's devices. */
void rd_port_flows(const struct rnicd_worker *w, const struct cmd_look_flows *l);

#endif
