/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The smallest possible carrier: segments are handed over in memory, in any order and any number of times. It shows
 * what a carrier must do for the engine: number the segments, deliver each once and in order, and say when they have
 * arrived.
 */
#ifndef CARRIER_H
#define CARRIER_H

#include "base/rn_rng.h"
#include "qp/qp_engine.h"

#define CARRIER_WIN 64u   /* segments under way in one direction at most, a power of two */
#define CARRIER_SEG 1024u /* bytes of a segment at most */

struct carrier_slot { /* segment seq is in slot seq % CARRIER_WIN */
	uint32_t seq, len, wr;
	bool full;   /* sender: under way; receiver: here, and not yet in turn */
	bool placed; /* receiver: its bytes have been placed early */
	struct ddp_hdr h;
	uint8_t bytes[CARRIER_SEG];
};

struct carrier {
	struct qp_ctx *ctx;
	struct qp_msgs m;
	struct qp_work work;
	struct qp_wr wr[CARRIER_WIN];
	struct carrier_slot out[CARRIER_WIN], in[CARRIER_WIN];
	uint32_t sent, acked;    /* numbers of segments: made; delivered in order at the peer */
	uint32_t next;           /* number of the segment that is in turn here */
	uint32_t early, repeats; /* segments that were placed early; that came repeatedly */
	bool failed;             /* the engine has refused a segment: m.err */
};

/* Takes a QP in INIT, makes it use this carrier, and brings it to RTS. */
void carrier_up(struct carrier *c, struct qp_ctx *ctx, struct qp *qp, uint32_t depth);
/* Carries segments in both directions until nothing moves any more. */
void carrier_run(struct carrier *a, struct carrier *b, struct rn_rng *rng);

#endif
