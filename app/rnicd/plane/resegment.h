/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An emulated middlebox that cuts and joins TCP segments: Ethernet frames in, Ethernet frames out, with the same bytes
 * at the same sequence numbers and with right lengths and checksums (RFC 9293, section 3.1). FPDUs then no longer begin
 * where segments do (RFC 5044, appendix A.5). Segments with other flags than ACK and PSH, segments without payload, and
 * frames that are not TCP pass as they are. Order is kept: at most one segment is held back, for RESEGMENT_HOLD_NS, and
 * leaves before any other frame. No frame leaves that is longer than the longest that has come.
 *
 * Worker thread only; frames are copied, as they may point into a client's memory.
 */
#ifndef RNICD_RESEGMENT_H
#define RNICD_RESEGMENT_H

#include <rte_mbuf.h>

#include "base/rn_rng.h"
#include "border/rnicd.h"

#define RESEGMENT_OUT     6u /* frames that one frame lets go at most */
#define RESEGMENT_HOLD_NS (100 * RN_NS_PER_US)

struct resegment {
	enum rnicd_resegment how;
	uint32_t longest; /* bytes of a frame */
	struct rn_rng rng;
	struct rte_mempool *copies;
	struct rte_mbuf *held; /* NULL: none. A whole segment in one buffer */
	uint64_t deadline;     /* of the held one */
};

void resegment_init(struct resegment *r, enum rnicd_resegment how, uint64_t seed, struct rte_mempool *copies);
void resegment_end(struct resegment *r); /* frees the held segment */

/* Takes a frame; returns the number of those that leave now, in order. These frames are the caller's. */
uint32_t resegment_in(struct resegment *r, struct rte_mbuf *m, uint64_t now, struct rte_mbuf *out[RESEGMENT_OUT],
		      struct rnicd_port_stats *st);
/* The held segment when its time is over, else NULL. */
struct rte_mbuf *resegment_due(struct resegment *r, uint64_t now);
static inline uint64_t resegment_next(const struct resegment *r) { return r->held != NULL ? r->deadline : RN_NEVER; }

#endif
