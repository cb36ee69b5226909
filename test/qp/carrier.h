/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest carrier there is: segments are handed over in memory, in any order and any number of times. It shows
 * what a carrier has to do for the engine: number the segments, bring each once and in order, say when they have
 * arrived.
 */
#ifndef CARRIER_H
#define CARRIER_H

#include "base/rn_rng.h"
#include "qp/qp_engine.h"

#define CARRIER_WIN 64u   /* segments on the way in one direction, a power of two */
#define CARRIER_SEG 1024u /* bytes of a segment at most */

struct carrier_slot { /* of segment seq: seq % CARRIER_WIN */
	uint32_t seq, len, wr;
	bool full;   /* on the way, or here and not yet in turn */
	bool placed; /* at the receiver: its bytes have been placed ahead of its turn */
	struct ddp_hdr h;
	uint8_t bytes[CARRIER_SEG];
};

struct carrier {
	struct qp_ctx *ctx;
	struct qp_msgs m;
	struct qp_work work;
	struct qp_wr wr[CARRIER_WIN];
	struct carrier_slot out[CARRIER_WIN], in[CARRIER_WIN];
	uint32_t sent, acked;    /* segments made; of these, in turn at the peer */
	uint32_t next;           /* the segment whose turn it is here */
	uint32_t early, repeats; /* segments placed ahead of their turn; that came again */
	bool failed;             /* by the engine's verdict: m.err */
};

/* The QP, in INIT, becomes one of this carrier, in RTS. */
void carrier_up(struct carrier *c, struct qp_ctx *ctx, struct qp *qp, uint32_t depth);
/* Carries what can be carried between the two, until nothing moves any more. */
void carrier_run(struct carrier *a, struct carrier *b, struct rn_rng *rng);

#endif
