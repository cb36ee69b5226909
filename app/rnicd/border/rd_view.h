/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable datagrams of a device at a worker: its flows to workers of other devices, and its pairs of queue pairs.
 * The control thread makes the memory with the first such queue pair, and keeps it; the worker that rd_owner() names
 * alone writes it from then on.
 */
#ifndef RD_VIEW_H
#define RD_VIEW_H

#include "base/rn_wheel.h"
#include "border/rnicd.h"
#include "border/ud_view.h"
#include "dgram/rd.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

#define RD_PEERS   512u /* workers of other devices with which a worker has flows, at most; a power of two */
#define RD_PAIRS   512u /* pairs of queue pairs of a device's worker */
#define RD_RING    256u /* packets on the way to a peer: all that a receiver takes (UDPR_WINDOW) */
#define RD_NUMBERS RNICD_MAX_WORKERS /* numbers that a peer's workers may have: a device takes no more places */

/* Each pair has one peer, so a tenant that uses its whole share of the pairs takes at most the same share of the
 * peers. */
_Static_assert(RD_PEERS >= RD_PAIRS, "one tenant's pairs cannot take all peers");
_Static_assert((RD_PAIRS & (RD_PAIRS - 1)) == 0, "their buckets are masked");

/* The least MTU that holds any packet over IPv4 or IPv6. */
#define RD_FRAME   (UDPR_HDR_LEN + UDPR_COOKIE_LEN + RD_PACKET_MAX + UDPL_CRC_LEN)
#define RD_MTU_MIN (40u + PKT_UDP_LEN + RD_FRAME)
_Static_assert(RD_MTU_MIN <= 1500, "a packet fits Ethernet's frame");

struct rd_packet {
	uint32_t len;
	uint8_t b[RD_PACKET_MAX];
};

/* What the flows to and from another device have carried, since it has its place. */
struct rd_flow_stats {
	uint64_t packets_out, again; /* sent for the first time; repetitions */
	uint64_t packets_in, twice;  /* taken; dropped, as they had come before */
	uint64_t lost;               /* flows to it that were lost */
};

/* Of a device: packets that were dropped, packets and work requests for which a table was full, and flows forgotten. */
struct rd_drops {
	uint64_t no_peer; /* first packets and work requests that found no free peer */
	uint64_t unknown; /* DATA of no flow, whose cookie opens none */
	uint64_t strange; /* COOKIE, ACK and UNKNOWN that belong to no flow of the device, or cannot be */
	uint64_t twice;   /* DATA that had come before */
	uint64_t far;     /* DATA with a number outside the window */
	uint64_t no_room; /* DATA that found no room: its sender sends it again */
	uint64_t idle;    /* peers whose flows carried nothing for rd-idle */
};

/* A worker of another device: a flow each way, which all queue pairs of both workers share. */
struct rd_peer {
	struct pkt_addr addr;
	uint16_t number;       /* the worker's */
	uint16_t numbers;      /* how many the device has, as its last COOKIE said; 0: not known */
	bool used;             /* in a chain of rd_port */
	bool touched;          /* in the list of rd_port.touched */
	struct rd_peer *next;  /* in its chain */
	struct rn_slink link;  /* free, or touched */
	struct rn_timer timer; /* when a timer of the flows is due */
	struct udpr_tx tx;
	struct udpr_rx rx;
	struct rd_flow_stats stats;
	uint32_t n_spare;
	uint8_t spare[RD_RING]; /* indices of unused packets; the last one is used next */
	/* touched only as far as packets have been on the way at the same time */
	struct udpr_pkt ring[RD_RING];
	struct rd_packet packet[RD_RING];
};

struct rd_port {
	uint32_t port;   /* index of the device */
	uint16_t number; /* of the worker, in packets */
	struct rd_ctx d;
	struct rn_wheel wheel;
	struct rn_pool free;     /* struct rd_peer, by link */
	struct rn_slist touched; /* likewise */
	uint32_t hand;           /* where the next look for a resting peer begins */
	struct rd_drops drops;
	struct rd_peer *chain[RD_PEERS];
	struct rd_peer peer[RD_PEERS];
	struct rd_pair pair[RD_PAIRS];
	struct rn_list bucket[RD_PAIRS];
	struct rd_hold hold[RD_PAIRS * RD_WIN]; /* enough for all pairs at their limit, so that no pair delays
						 * another */
	struct rd_chain aside[RD_PAIRS * RD_WIN];
};

/* A queue pair of reliable datagrams. */
struct rd_qp {
	struct ud_qp u;
	struct rd_port *of;
	struct rd_side side;
};

static inline struct rd_qp *rd_qp_of(struct qp *qp) { return rn_container_of(ud_of(qp), struct rd_qp, u); }
static inline struct rd_port *rd_port_of(struct qp *qp) { return rd_qp_of(qp)->of; }

#endif
