/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small things done to a frame in mbufs. A frame's L4 checksum is deferred while RTE_MBUF_F_TX_L4_MASK is set in its
 * ol_flags: the field holds the pseudo header's sum only (PKT_CSUM_PSEUDO). That is allowed towards ports with
 * caps.tx_csum and on wires that never leave the process.
 */
#ifndef RNICD_FRAME_H
#define RNICD_FRAME_H

#include <rte_mbuf.h>

#include "pkt/pkt.h"

#define FRAME_MAX_SEGS 40u

/* The bytes [off, off + len) of a frame as slices; returns their number, UINT32_MAX when max is too few. */
uint32_t frame_iov(const struct rte_mbuf *m, uint32_t off, uint32_t len, struct rn_iov *iov, uint32_t max);

static inline bool frame_csum_deferred(const struct rte_mbuf *m) { return (m->ol_flags & RTE_MBUF_F_TX_L4_MASK) != 0; }

/* Sums what was deferred. The header must be in the first segment, which must be the caller's alone. */
void frame_csum_finish(struct rte_mbuf *m);

/* A whole copy in one segment, or NULL. Metadata but for deferral and port are not kept. */
struct rte_mbuf *frame_copy(struct rte_mempool *pool, const struct rte_mbuf *m);

#endif
