/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What of a peer's Writes is held back (rnicrun --sanitize): the worker puts received bytes here, the client looks
 * which they are, may guard the memory that they are for, and rings; then they are placed, in any order that the
 * specification allows. What is ordered behind them places all that is left.
 *
 * Trust: all of it is the client's memory. The worker knows by itself what it holds; what the client changes here are
 * bytes of its own memory.
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
	/* worker -> client: records written since ever, number n into rec[n % QP_HOLD_CELLS]; bytes that are held */
	uint32_t put RN_ALIGNED(RN_CACHE_LINE);
	uint32_t held;
	uint32_t allowed; /* records below this number may be used without a completion: an Atomic came behind them */
	uint32_t shown RN_ALIGNED(RN_CACHE_LINE); /* client -> worker: those below may be placed, in any order */
	struct qp_hold_rec rec[QP_HOLD_CELLS];
	uint8_t cell[QP_HOLD_CELLS][QP_HOLD_CELL];
};

#endif
