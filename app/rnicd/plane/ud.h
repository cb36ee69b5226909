/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram QPs on a worker, and their frames. The QPs of a device share one UDP port (datagram-port), both as source
 * and as destination; the number of a QP shows whether it has a port of its own (udpl_has_port()). A QP belongs to the
 * worker that ud_owner() names for its device and QPN, so any worker knows where a datagram is to go. Worker thread.
 */
#ifndef RNICD_UD_H
#define RNICD_UD_H

#include <rte_mbuf.h>

#include "border/cmd.h"
#include "border/rnicd.h"
#include "border/ud_view.h"
#include "dgram/dgram.h"
#include "pkt/pkt.h"

struct arp_entry;
struct rnicd_worker;

#define UD_WAYS 8u /* a power of two */

/* Where a datagram goes. The address belongs to the caller. tos, ttl: 0 stands for the device's own. */
struct ud_dest {
	const struct pkt_addr *addr;
	uint16_t sport, dport;
	uint8_t tos, ttl;
};

/*
 * The way of a device's last datagrams to a destination: their headers, made once, and the next hop. One of UD_WAYS
 * that a worker remembers for each device, by the last octet of the address.
 */
struct ud_way {
	bool made;
	bool group;
	uint8_t tos, ttl;
	uint16_t sport, dport;
	struct pkt_addr dst;
	struct arp_entry *neigh; /* of the hop as long as its gen is neigh_gen; NULL: group, or the device itself */
	uint32_t neigh_gen;
	struct pkt_udp_template tmpl;
};

/* The worker's table of datagram QPs: chains by ud_hash. Slots: a power of two. */
struct ud_table {
	struct ud_qp **slot; /* the caller's memory, zeroed */
	uint32_t mask;
	uint32_t used, max;
};

/* NULL: no QP of the device has this number here. */
static inline struct ud_qp *ud_find(const struct ud_table *t, uint32_t port, uint32_t qpn, uint32_t hash)
{
	struct ud_qp *u = t->slot[hash & t->mask];

	while (u != NULL && (u->qp.qpn != qpn || u->port != port))
		u = u->next;
	return u;
}

/* Adds the QP: datagrams reach it from now on. False: the worker's table is full (cfg.flows). */
bool ud_add(struct ud_table *t, struct ud_qp *u, uint32_t port);
void ud_del(struct ud_table *t, struct ud_qp *u);

/* A UDP packet for the port's own address, or a group that ud_group_find knows. from_wire: of worker_rx.c. Takes m. */
void ud_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p, bool from_wire);

/* Called before the QP is destroyed: sends what has been posted, as far as there is room, as a hardware adapter would
 * have done already. */
void ud_finish(struct rnicd_worker *w, struct ud_qp *u);

/* Ends messages whose segments did not come in time, as many as may be in one turn; returns how many were due. */
uint32_t ud_timers(struct rnicd_worker *w);

/* The messages that wait for segments. */
void ud_records(const struct rnicd_worker *w, const struct cmd_look_records *l);

/* Octets of a datagram's headers up to UDP's, which ud_launch() writes. */
uint32_t ud_headers_len(const struct rnicd_port *port);
/* Whether the device may send one more datagram now. */
bool ud_room(const struct rnicd_worker *w, const struct rnicd_port *port);
/*
 * Writes the headers in front of the `len` bytes in m, and sends m, which waits while the neighbour is asked. Takes m.
 * Returns the datagram's weight in its sender's part of a turn: its frames, and the device's QPs that are in its group.
 */
uint32_t ud_launch_to(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct ud_dest *to,
		      uint32_t len);
/* The same for a queue pair's datagram. */
uint32_t ud_launch(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct dgram_to *to,
		   uint32_t len);

/*
 * Transmits for QPs that are ready; returns the weight of the datagrams (ud_launch_to()), and 1 more if some QPs had no
 * turn.
 */
uint32_t ud_transmit(struct rnicd_worker *w);

/* ---- groups (ud_group.c) ---- */

/* The group has so many members, on these workers, from now on; 0: on none, the worker forgets it. */
void ud_group_set(struct rnicd_worker *w, struct ud_group *g, uint32_t workers, uint32_t qps);
void ud_group_add(struct ud_group *g, struct ud_member *m);
void ud_group_del(struct ud_group *g, struct ud_member *m);
/* NULL: no QP is in the group. */
struct ud_group *ud_group_find(const struct rnicd_worker *w, uint32_t port, const struct pkt_addr *addr);

/*
 * A datagram to a group, parsed. The worker that has it from the wire gives the others with members a copy. The members
 * on this worker get it now, or in a later turn: a turn has a bounded part for what comes from lines. Takes m.
 */
void ud_group_input(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf *m, const struct pkt *p,
		    const struct udpl_hdr *h, bool from_wire);
/* Begins a turn's part for what comes from lines, with the frames that wait for it; returns how many had their turn. */
uint32_t ud_group_turn(struct rnicd_worker *w);
/* Frees all frames that wait. */
void ud_group_drain(struct rnicd_worker *w);
/* A frame that leaves for a group comes back to the device's own QPs in it; returns their number. */
uint32_t ud_group_loop(struct rnicd_worker *w, struct rnicd_port *port, const struct rte_mbuf *m,
		       const struct pkt_addr *to);

/* Sends a whole frame that the control thread has made: a report about groups (IGMP). */
void ud_group_report(struct rnicd_worker *w, struct rnicd_port *port, const uint8_t *frame, uint32_t len);

/* One QP's part of a datagram whose checksum is good. summed: the CRC has been checked, and is good, too. */
void ud_deliver(struct rnicd_worker *w, struct qp *qp, const struct rte_mbuf *m, const struct pkt *p,
		const struct udpl_hdr *h, bool summed);

/* Sends the `len` bytes at p as a datagram. */
void ud_send(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *to, const uint8_t *p,
	     uint32_t len);

#endif
