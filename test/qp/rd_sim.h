/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulation: two devices with two queue pairs of reliable datagrams each (dgram/rd.h), one flow of udpr.h each way,
 * and a network that loses, repeats, delays and reorders. Time is the test's. Each completion is checked as it comes:
 * it comes once, with the right bytes, and in order if its queue pair is ordered.
 */
#ifndef RD_SIM_H
#define RD_SIM_H

#include "dgram/rd.h"
#include "rig.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

#define RD_QKEY  0x1234u
#define PATIENCE (1 * RN_NS_PER_S) /* the flow's patience */
#define RING_FEW 16u               /* a node has more on the way than its flow takes: pairs wait for room */
#define RING     256u              /* packets of a flow, unless rd_sim_ring says RING_FEW */
#define WIRE     2048u
#define FRAME    (UDPR_HDR_LEN + UDPR_COOKIE_LEN + RD_PACKET_MAX + UDPL_CRC_LEN)
#define PAIRS    8u
#define WIDES    5u   /* pairs of a node with more than RD_WIN segments on the way, about */
#define PROMISES 300u /* segments that a node can promise beyond RD_WIN for each pair */
#define QPS      2u
#define OPS      48u   /* work requests of each node in a run, at most */
#define OP_MAX   8192u /* bytes of the longest work request */

/* Offsets in a node's memory. */
#define AT_SRC   0u         /* for each own work request: the bytes to send, or the sink of a Read */
#define AT_RECV  (1u << 20) /* for each receive */
#define AT_DST   (2u << 20) /* for each Write of the peer */
#define AT_CONST (3u << 20) /* source of the peer's Reads */
#define AT_WORD  (7u << 19) /* target of the peer's Atomics */

struct rd_frame {
	uint64_t at;
	uint32_t to, len;
	uint8_t b[FRAME];
};

struct rd_node {
	struct rig_node *n;
	struct rd_ctx d;
	struct rd_pair pair[PAIRS];
	struct rd_list bucket[4]; /* two for each table, so pairs share buckets: hashes collide */
	struct rd_work work[PAIRS];
	struct rd_hold hold[PAIRS * RD_WIN + PROMISES];
	struct rd_wide wide[WIDES];
	struct rd_chain chain[PAIRS * RD_WIN];
	struct rd_side side[RIG_QPS];
	struct rn_slist full; /* pairs that wait for room in the flow */
	struct udpr_tx tx;
	struct udpr_rx rx;
	struct udpr_pkt ring[RING];
	struct {
		uint32_t len;
		uint8_t b[RD_PACKET_MAX];
	} buf[RING];
	uint32_t spare[RING], n_spare;
	uint64_t key[2];
	struct {
		uint8_t op, from, to;
		uint32_t len;
		bool given, over, came;
		uint8_t status;
	} ops[OPS];
	uint32_t given, recvs;
	uint32_t drained;   /* how often a queue pair was told QP_EVENT_SQ_DRAINED */
	struct qp_srq *srq; /* the shared receive queue of the node's queue pairs, if they share one */
	struct spsc_prod srq_ring;
	uint32_t overtaken;      /* completions that came before those of older work requests of the same queue pair */
	uint32_t last[QPS][QPS]; /* number of the last Send delivered, plus 1, by source and destination; 0: none */
};

extern struct sim {
	struct rig *r;
	struct rn_rng rng;
	uint64_t now, seed, blackout;
	struct rd_node node[2];
	struct rd_frame wire[WIRE];
	uint32_t on_wire, loss, twice, late, lost, folds;
	bool faults;
	bool old;  /* one of the nodes knows nothing of promises and of packets with several segments */
	bool hole; /* the network drops packet hole_at of node 0, each time */
	uint32_t hole_at;
} sim;

/* Bit q set: queue pairs q of both nodes are unordered. To be set before rd_sim_up(). */
extern uint32_t rd_sim_loose;
/* True: a queue pair ends with its first failure. To be set before rd_sim_up(). */
extern bool rd_sim_strict;
/* True: the queue pairs of a node share one receive queue. To be set before rd_sim_up(). */
extern bool rd_sim_shared;

/* True: a node folds its flows at random times when nothing is on the way. To be set before rd_sim_up(). */
extern bool rd_sim_folds;
/* Length of the flows' rings, RING_FEW or RING. To be set before rd_sim_up(). */
extern uint32_t rd_sim_ring;
/* How many pairs of node 0 may have something under way; 0: all. To be set before rd_sim_up(). */
extern uint32_t rd_sim_works;

/* A work request: the fields in which tests differ. */
struct rd_wr {
	uint8_t op, from, to;
	uint32_t len, qkey;
	uint8_t flags; /* beside QP_WF_SIGNALED */
	bool wrong;    /* with a wrong remote STag */
	bool broken;   /* with a wrong local STag */
};

/* Runs the simulation for this time, ns. */
void rd_run(uint64_t ns);
/* pairs: number of places in each device's table of pairs. */
void rd_sim_up(uint64_t seed, uint32_t pairs);
void rd_sim_down(void);
/* Makes queue pair i of the node, for a test that needs more than QPS. It sends no Sends. */
void rd_sim_qp(struct rd_node *n, uint32_t i);
/* Posts a receive of OP_MAX bytes for QP q of node i, or into the node's shared queue. */
void rd_post_recv(uint32_t i, uint32_t q);
/* Posts a work request of node i for the other node. Returns its number. */
uint32_t rd_post(uint32_t i, const struct rd_wr *w);
/* The status of a work request that must have completed. */
uint8_t rd_status(uint32_t i, uint32_t id);
/* Fails if a work request has not completed. */
void rd_all_over(void);

#endif
