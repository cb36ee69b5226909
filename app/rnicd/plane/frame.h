/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small things done to a frame in mbufs. A frame's L4 checksum is deferred while RTE_MBUF_F_TX_L4_MASK is set in its
 * ol_flags: the field holds the pseudo header's sum only (PKT_CSUM_PSEUDO). That is allowed towards ports with
 * caps.tx_csum and on wires that never leave the process.
 *
 * On such a wire the CRCs of FPDUs may be deferred too: the TCP payload is one FPDU, or several whole ones without
 * markers. An FPDU that is sent by reference lies in memory that its owner may change at any time, so only the CRC of a
 * copy is reliable. Code that captures such a frame, changes it or sends it out of the process copies it and finishes
 * the copy; a connection of this process takes it without a CRC check.
 */
#ifndef RNICD_FRAME_H
#define RNICD_FRAME_H

#include <rte_mbuf.h>

#include "pkt/pkt.h"

#define FRAME_MAX_SEGS 128u

/* The bytes [off, off + len) of a frame as slices; returns their number, UINT32_MAX when max is too few. */
uint32_t frame_iov(const struct rte_mbuf *m, uint32_t off, uint32_t len, struct rn_iov *iov, uint32_t max);

static inline bool frame_csum_deferred(const struct rte_mbuf *m) { return (m->ol_flags & RTE_MBUF_F_TX_L4_MASK) != 0; }

/* Bits of ol_flags for deferred CRCs: one FPDU's, or those of several; constant after frame_init. */
extern uint64_t frame_crc_flag, frame_crcs_flag;

/* After EAL's start. False: DPDK has no flag left. */
RN_NODISCARD bool frame_init(void);

static inline bool frame_crc_deferred(const struct rte_mbuf *m)
{
	return (m->ol_flags & (frame_crc_flag | frame_crcs_flag)) != 0;
}

/* Notes in m that the CRCs of its FPDUs are not filled in; 0: no CRC is deferred. */
static inline void frame_defer_crc(struct rte_mbuf *m, uint32_t fpdus)
{
	if (fpdus != 0)
		m->ol_flags |= fpdus == 1 ? frame_crc_flag : frame_crcs_flag;
}

/*
 * Computes deferred checksums and CRCs. The header must be in the first segment, of which the caller must be the only
 * owner. If a CRC is deferred, the whole frame must be in that segment.
 */
void frame_finish(struct rte_mbuf *m);

/* A whole copy in one segment, or NULL. Of the metadata, deferral and port are kept. */
struct rte_mbuf *frame_copy(struct rte_mempool *pool, const struct rte_mbuf *m);

#endif
