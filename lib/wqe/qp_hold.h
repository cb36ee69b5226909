/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bytes of a peer's Writes that are held back (rnicrun --sanitize). The worker puts received bytes here. The client
 * reads the records of these bytes, may guard the memory that they belong to, and rings the doorbell. Then the worker
 * places the bytes, in any order that the specification allows. An operation that is ordered behind the Writes places
 * all bytes that are left.
 *
 * Trust: this is the client's memory. The worker keeps its own account of what is held; by a change here the client
 * only changes bytes of its own memory.
 */
#ifndef QP_HOLD_H
#define QP_HOLD_H

#include <stdint.h>

#include "base/rn_base.h"

#define QP_HOLD_CELLS 64u
#define QP_HOLD_CELL  256u /* bytes */

struct qp_hold_rec {
	uint64_t to; /* tagged offset in the memory region of stag */
	uint32_t stag, len;
};

struct qp_hold_shm {
	/* worker -> client: records written so far, record n in rec[n % QP_HOLD_CELLS]; bytes that are held */
	uint32_t put RN_ALIGNED(RN_CACHE_LINE);
	uint32_t held;
	uint32_t allowed; /* records below this number may be used without a completion: an Atomic has followed them */
	uint32_t shown RN_ALIGNED(RN_CACHE_LINE); /* client -> worker: records below this may be placed, in any order */
	struct qp_hold_rec rec[QP_HOLD_CELLS];
	uint8_t cell[QP_HOLD_CELLS][QP_HOLD_CELL];
};

#endif
