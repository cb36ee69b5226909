/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs on a worker: which one owns them, and their frames. All of a device share one UDP port
 * (datagram-port), both as source and as destination. A QP belongs to the worker that its QPN and device say, so
 * any worker knows where a datagram is to go. Worker thread, but for ud_owner.
 */
#ifndef RNICD_UD_H
#define RNICD_UD_H

#include <rte_mbuf.h>

#include "flow.h"
#include "qp/qp_ud.h"
#include "worker.h"

struct ud_qp {
	struct qp qp; /* first: the control thread frees it as such */
	struct flow flow;
};

/* Any thread. */
uint32_t ud_owner(uint32_t port, uint32_t qpn);

/* The largest message that a device sends in a datagram, one of verbs' MTUs; 0: it has no datagrams. */
uint32_t ud_mtu(const struct rnicd_port *port);

/* From now on datagrams find it. False: the worker's table is full (cfg.flows). */
bool ud_add(struct rnicd_worker *w, struct ud_qp *u, uint32_t port);
void ud_del(struct rnicd_worker *w, struct ud_qp *u);

/* A UDP packet for the port's own address. Takes m. */
void ud_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p);

/* Transmits for QPs that are ready; returns the number of datagrams. */
uint32_t ud_transmit(struct rnicd_worker *w);

/* A datagram that the control thread has made. */
void ud_send(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *to, const uint8_t *p, uint32_t len);

#endif
