/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable datagrams of a device at a worker: its flows to workers of other devices, and its pairs of queue pairs.
 * The control thread allocates the memory with the first such queue pair and never frees it. From then on only the
 * worker that rd_owner() names writes to it.
 */
#ifndef RD_VIEW_H
#define RD_VIEW_H

#include "base/rn_wheel.h"
#include "border/rnicd.h"
#include "border/ud_view.h"
#include "dgram/rd.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

#define RD_PEERS      32768u    /* workers of other devices with which a worker has flows, at most; a power of two */
#define RD_CHAINS     8192u     /* of each hash table of peers; a power of two */
#define RD_AWAKE      256u      /* so many peers are not folded, however long they rest */
#define RD_PAIRS      32768u    /* pairs of queue pairs that a device has at one worker, at most */
#define RD_WORKS      4096u     /* how many of these pairs may have something under way */
#define RD_WIDES      256u      /* how many of these pairs may have more than RD_WIN segments on the way */
#define RD_PROMISES   32768u    /* segments that may be promised to all peers, beyond RD_WIN for each pair */
#define RD_BUCKETS    8192u     /* of each hash table of pairs; a power of two */
#define RD_RING       256u      /* packets on the way to a peer, at most: every receiver takes so many (UDPR_WINDOW) */
#define RD_RING_WIDE  UDPR_WIDE /* packets on the way to a peer that takes more, at most */
#define RD_RINGS      4096u     /* how many peers may have packets on the way to them; half of them for one tenant */
#define RD_RINGS_WIDE 64u       /* how many of these may have more than RD_RING packets on the way */
#define RD_BITS       256u      /* how many peers may have more than RD_RING packets on the way to this worker */
#define RD_PACKETS    32768u    /* packets on the way to all peers, at most; half of them for one tenant */
#define RD_ANSWERS    1024u     /* how many of these are answers to what peers have sent, at most */
#define RD_BACKLOG    64u       /* packets that wait in a flow, at most: more would delay the packets of other pairs */
#define RD_NUMBERS    RNICD_MAX_WORKERS /* workers of a device with which there are flows, at most */
#define RD_NOBODY     QP_TENANTS        /* in place of a tenant: of answers to what peers have sent */

/*
 * Each pair needs one peer, so a tenant that uses its whole share of the pairs takes at most this share of the peers.
 */
_Static_assert(RD_PEERS >= RD_PAIRS, "one tenant's pairs cannot take all peers");
_Static_assert(RD_ANSWERS <= RD_RINGS / 2 && RD_ANSWERS <= RD_PACKETS / 2, "answers leave room for own requests");
_Static_assert(RD_PAIRS <= RD_PAIRS_MAX, "the carrier can number the pairs");

/* The length of the longest packet, and the least MTU that such a packet fits over IPv4 and IPv6. */
#define RD_FRAME   (UDPR_HDR_LEN + UDPR_COOKIE_LEN + RD_PACKET_MAX + UDPL_CRC_LEN)
#define RD_MTU_MIN (40u + PKT_UDP_LEN + RD_FRAME)
_Static_assert(RD_MTU_MIN <= 1500, "a packet fits Ethernet's frame");

struct rd_packet {
	struct rn_slink link; /* in the pool */
	uint32_t len;
	uint8_t tenant; /* of the pair that has sent the packet, or RD_NOBODY */
	uint8_t b[RD_PACKET_MAX];
};

/* The packets on the way to a peer; udpr_pkt.user is the address of a struct rd_packet. */
struct rd_ring {
	struct rn_slink link;        /* in the pool */
	uint16_t of[QP_TENANTS + 1]; /* how many packets the flow has of each tenant and of RD_NOBODY */
	struct udpr_pkt pkt[RD_RING];
};
_Static_assert(RD_RING_WIDE <= UINT16_MAX, "struct rd_ring has room for the numbers of packets");

struct rd_ring_wide {
	struct rn_slink link; /* in the pool */
	struct udpr_pkt pkt[RD_RING_WIDE];
};

/* Which numbers of a wide window have come: udpr_rx.wide. */
struct rd_bits {
	struct rn_slink link; /* in the pool */
	uint64_t bits[UDPR_WIDE / 64];
};

/* What the flows to and from a peer have carried since the peer was made, or was last folded. */
struct rd_flow_stats {
	uint64_t packets_out, again; /* packets sent; retransmissions */
	uint64_t packets_in, twice;  /* packets taken; packets dropped because they had come before */
	uint64_t lost;               /* how often the flow to the peer was lost */
};

/*
 * Counters of a device at one worker: packets that were dropped or sent again, packets and work requests for which a
 * table was full, flows that were lost, and peers that were forgotten.
 */
struct rd_drops {
	uint64_t no_peer; /* first packets and work requests that found no free peer */
	uint64_t unknown; /* DATA that belong to no flow, and have no cookie that opens one */
	uint64_t strange; /* COOKIE, ACK and UNKNOWN that belong to no flow of the device, or are impossible */
	uint64_t twice;   /* DATA that had come before */
	uint64_t far;     /* DATA with a number outside the window */
	uint64_t no_room; /* answers dropped for want of room: the peer asks again */
	uint64_t idle;    /* peers whose flows carried nothing for rd-idle */
	uint64_t again;   /* DATA sent again */
	uint64_t lost;    /* flows to peers that were lost */
};

/*
 * A worker of another device, with a flow in each direction. All queue pairs of both workers share the flows. The ring
 * and the packets come from the pools of struct rd_port. A struct rd_fold may take the place of a peer at rest.
 */
struct rd_peer {
	struct pkt_addr addr;
	uint16_t number;       /* number of the worker at its device */
	uint16_t numbers;      /* how many workers its device has, as the last COOKIE said; 0: not known */
	bool used;             /* in a chain of rd_port.chain */
	bool touched;          /* in the list rd_port.touched */
	struct rd_peer *next;  /* in its chain */
	struct rn_slink link;  /* in rd_port.free or rd_port.touched */
	struct rn_timer timer; /* when a timer of the flows is due */
	struct udpr_tx tx;
	struct udpr_rx rx;
	struct rd_flow_stats stats;
	struct rd_ring *ring;      /* NULL: no packets are on the way */
	struct rd_ring_wide *wide; /* where the flow's packets lie; NULL: in `ring` */
	struct rd_bits *bits;      /* NULL: the flow from the peer has the window UDPR_WINDOW */
	uint32_t packets;          /* how many of rd_port.packets the flow to the peer has */
	struct rn_slist full;      /* pairs that wait until the flow to the peer takes more packets (rd_park) */
};

/*
 * A peer at rest, folded: what is remembered of the struct rd_peer. Its next packet, in either direction, makes a
 * struct rd_peer again. The flow to the peer is forgotten, as no packet is on the way: the next packet opens another.
 */
struct rd_fold {
	struct pkt_addr addr;
	struct udpr_fold rx;
	uint32_t used;  /* when the last packet was sent or came; in units of 2^RD_USED_SHIFT ns */
	uint16_t next;  /* place of the next one in its chain, or in the list of free ones, plus 1; 0: none */
	uint8_t number; /* RD_FOLD_FREE: in no chain of rd_port.fold_chain */
	uint8_t numbers;
};
#define RD_USED_SHIFT 24
#define RD_FOLD_FREE  UINT8_MAX
_Static_assert(sizeof(struct rd_fold) <= 40, "a peer at rest has grown");
_Static_assert(RD_NUMBERS < RD_FOLD_FREE && RD_PEERS < UINT16_MAX, "struct rd_fold has room for them");

/* What the queue pairs of one tenant have of a device's pools, or what RD_NOBODY has. */
struct rd_use {
	uint32_t packets; /* of rd_port.packets */
	uint32_t rings;   /* rings with at least one of these packets */
};

/* A device's reliable datagrams at one worker. */
struct rd_port {
	uint32_t port;   /* index of the device */
	uint16_t number; /* the worker's number, as packets to other devices tell it */
	struct rd_ctx d;
	struct udpr_cfg flow_cfg; /* of all flows to peers */
	struct rn_wheel wheel;
	struct rn_pool free;     /* struct rd_peer, by link */
	struct rn_slist touched; /* struct rd_peer, by link: peers that rd_port_turn() must look at */
	struct rn_pool rings, rings_wide, bits, packets;
	uint32_t rings_free, packets_free;
	struct rd_use use[QP_TENANTS + 1];
	uint32_t hand;       /* where the next look for a resting peer begins */
	uint32_t fold_hand;  /* the same among folded ones */
	uint32_t sweep_hand; /* where the next look for folded peers that are to be forgotten begins */
	uint64_t sweep_at;   /* when that look is due; RN_NEVER: no peer is folded, or none is ever forgotten */
	uint32_t n_peers;    /* peers in use, folded ones included */
	uint32_t n_folds;    /* how many of these are folded */
	uint32_t folds_ever; /* places of `fold` that were ever in use */
	uint16_t fold_free;  /* the first free one of these, plus 1; 0: none */
	struct rd_drops drops;
	/* Memory of the pools and tables. An element that was never in use is never touched, so it takes no memory. */
	struct rd_peer *chain[RD_CHAINS];
	uint16_t fold_chain[RD_CHAINS]; /* the first place of each chain plus 1; 0: none */
	struct rd_fold fold[RD_PEERS];
	struct rd_peer peer[RD_PEERS];
	struct rd_pair pair[RD_PAIRS];
	struct rd_list bucket[2 * RD_BUCKETS];
	struct rd_work work[RD_WORKS];
	struct rd_hold hold[RD_WORKS * RD_WIN + RD_PROMISES];
	struct rd_wide wide[RD_WIDES];
	struct rd_chain aside[RD_WORKS * RD_WIN];
	struct rd_ring ring[RD_RINGS];
	struct rd_ring_wide ring_wide[RD_RINGS_WIDE];
	struct rd_bits of_bits[RD_BITS];
	struct rd_packet packet[RD_PACKETS];
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
