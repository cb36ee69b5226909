/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reliable datagrams on a worker: joins the carrier (dgram/rd.h) to the flows (udp/udpr.h) and the flows to frames. A
 * queue pair's worker follows from its QPN (rd_owner), so that other devices know which flow leads to it: each pair of
 * workers has one each way. Worker thread.
 */
#ifndef RNICD_RD_H
#define RNICD_RD_H

#include <rte_mbuf.h>

#include "border/cmd.h"
#include "border/look.h"
#include "border/rd_view.h"
#include "border/rnicd.h"

struct rnicd_worker;

/* Whether a datagram on the device's datagram-port is one of udpr.h. */
static inline bool rd_port_wants(const uint8_t *p, uint32_t len)
{
	return len >= 2 && p[1] >= UDPR_HELLO && p[1] <= UDPR_KIND_LAST;
}

/* A queue pair of r is on this worker: packets for the device are taken from now on. */
void rd_port_join(struct rnicd_worker *w, struct rd_port *r);

/* A client has posted to a shared receive queue for which messages wait. */
void rd_port_recvs(struct rnicd_worker *w);

/* A datagram for which rd_port_wants() was true, in one piece. Takes m. */
void rd_port_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);

/* Runs timers, and sends packets that may be sent now. Returns the amount of work. */
uint32_t rd_port_turn(struct rnicd_worker *w);

/* When there is work again if no packet comes; RN_NEVER: nothing is under way. */
uint64_t rd_port_due(const struct rnicd_worker *w);

/* Adds what its devices have counted; l->rd and l->rd_drops are 0. */
void rd_port_look(const struct rnicd_worker *w, struct look_worker *l);

/* The flows of its devices. */
void rd_port_flows(const struct rnicd_worker *w, const struct cmd_look_flows *l);

#endif
