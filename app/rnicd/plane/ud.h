/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs on a worker: which one owns them, and their frames. All of a device share one UDP port
 * (datagram-port), both as source and as destination. A QP belongs to the worker that its QPN and device say, so
 * any worker knows where a datagram is to go. Worker thread, but for ud_owner.
 */
#ifndef RNICD_UD_H
#define RNICD_UD_H

#include <rte_mbuf.h>

#include "plane/flow.h"
#include "qp/qp_ud.h"
#include "plane/worker.h"

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

/* A UDP packet for the port's own address, or a group that ud_group_find knows. from_wire: of worker_rx.c. Takes m. */
void ud_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
	      bool from_wire);

/* The QP is about to go: what has been posted is sent before, as far as there is room. An adapter has long done so. */
void ud_finish(struct rnicd_worker *w, struct ud_qp *u);

/* Transmits for QPs that are ready; returns the number of datagrams. */
uint32_t ud_transmit(struct rnicd_worker *w);

/* ---- groups (ud_group.c) ---- */

/* A QP in a group. */
struct ud_member {
	struct ud_qp *u;
	bool deaf; /* does not receive what it has sent itself */
	struct ud_member *next;
};

/*
 * A group of a device in which there are QPs, as one worker has it. The control thread's memory (group.h); every worker
 * has one, as long as any worker has a member.
 */
struct ud_group {
	uint32_t port;
	struct pkt_addr addr;
	uint32_t workers; /* bit mask of those with members */
	struct ud_member *members; /* on this worker */
	struct ud_group *next;
};

/* The group has members on these workers from now on; 0: on none, the worker forgets it. */
void ud_group_set(struct rnicd_worker *w, struct ud_group *g, uint32_t workers);
void ud_group_add(struct ud_group *g, struct ud_member *m);
void ud_group_del(struct ud_group *g, struct ud_member *m);
/* NULL: no QP is in it. */
struct ud_group *ud_group_find(const struct rnicd_worker *w, uint32_t port, const struct pkt_addr *addr);

/* A datagram to a group, parsed. The worker that has it from the wire gives the others with members a copy. Takes m. */
void ud_group_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		    const struct udpl_hdr *h, bool from_wire);
/* A frame that leaves for a group comes back to the device's own QPs in it. */
void ud_group_loop(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m,
		   const struct pkt_addr *to);

/* What the control thread says of groups: a whole frame. */
void ud_group_report(struct rnicd_worker *w, struct rnicd_port *port, const uint8_t *frame, uint32_t len);

/* One QP's part of a datagram whose checksum is good. */
void ud_deliver(struct rnicd_worker *w, struct qp *qp, const struct rte_mbuf *m, const struct pkt *p,
		const struct udpl_hdr *h);

/* A datagram that the control thread has made. */
void ud_send(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *to, const uint8_t *p, uint32_t len);

#endif
