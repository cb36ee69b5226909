/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two devices with two queue pairs of reliable datagrams each (dgram/rd.h), a flow of udpr.h each way, and a network
 * that loses, repeats, delays and reorders. Time is the test's. Each completion is checked as it comes: once, with the
 * bytes that were meant, and in order where its queue pair is ordered.
 */
#ifndef RD_SIM_H
#define RD_SIM_H

#include "dgram/rd.h"
#include "rig.h"
#include "udp/udpl.h"
#include "udp/udpr.h"

#define RD_QKEY  0x1234u
#define PATIENCE (1 * RN_NS_PER_S) /* of a flow */
#define RING     64u
#define WIRE     2048u
#define FRAME    (UDPR_HDR_LEN + UDPR_COOKIE_LEN + RD_PACKET_MAX + UDPL_CRC_LEN)
#define PAIRS    8u
#define QPS      2u
#define OPS      48u   /* work requests of a node in a run */
#define OP_MAX   8192u /* bytes of one */

/* Where what lies in a node's memory. */
#define AT_SRC   0u         /* of each of its work requests: what it sends, or where a Read's bytes go */
#define AT_RECV  (1u << 20) /* of each receive */
#define AT_DST   (2u << 20) /* of each Write of the peer */
#define AT_CONST (3u << 20) /* what the peer reads */
#define AT_WORD  (7u << 19) /* what the peer adds to */

struct rd_frame {
	uint64_t at;
	uint32_t to, len;
	uint8_t b[FRAME];
};

struct rd_node {
	struct rig_node *n;
	struct rd_ctx d;
	struct rd_pair pair[PAIRS];
	struct rn_list bucket[2]; /* pairs share them */
	struct rd_hold hold[PAIRS * RD_WIN];
	struct rd_chain chain[PAIRS * RD_WIN];
	struct rd_side side[QPS];
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
	struct qp_srq *srq; /* of its queue pairs, when they share one */
	struct spsc_prod srq_ring;
	uint32_t overtaken;      /* completions before one of an older work request for the same queue pair */
	uint32_t last[QPS][QPS]; /* the last Send that came, of source and destination; 0: none */
};

extern struct sim {
	struct rig *r;
	struct rn_rng rng;
	uint64_t now, seed, blackout;
	struct rd_node node[2];
	struct rd_frame wire[WIRE];
	uint32_t on_wire, loss, twice, late, lost;
	bool faults;
	bool hole; /* the network lets packet hole_at of node 0 never through */
	uint32_t hole_at;
} sim;

/* Queue pair q of both nodes is unordered when bit q is set: for the next rd_sim_up(). */
extern uint32_t rd_sim_loose;
/* The queue pairs end with their first failure: for the next rd_sim_up(). */
extern bool rd_sim_strict;
/* The queue pairs of a node share one receive queue: for the next rd_sim_up(). */
extern bool rd_sim_shared;

/* The fields that differ from one to the next. */
struct rd_wr {
	uint8_t op, from, to;
	uint32_t len, qkey;
	bool wrong; /* its remote STag */
};

/* Lets this much time pass; ns. */
void rd_run(uint64_t ns);
/* pairs: the length of each device's table of pairs. */
void rd_sim_up(uint64_t seed, uint32_t pairs);
void rd_sim_down(void);
/* A receive of OP_MAX bytes for QP q of node i, or for all when they share the queue. */
void rd_post_recv(uint32_t i, uint32_t q);
/* A work request of node i for the other node. Returns its number. */
uint32_t rd_post(uint32_t i, const struct rd_wr *w);
/* Of a work request that must be over. */
uint8_t rd_status(uint32_t i, uint32_t id);
/* Fails when a work request has no completion. */
void rd_all_over(void);

#endif
