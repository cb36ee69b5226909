/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * 32-bit serial number arithmetic (RFC 1982): TCP sequence numbers, MSNs, ring indices. Valid while the two numbers
 * are less than 2^31 apart. Never compare peer sequence numbers with a bare '<'.
 */
#ifndef RN_SEQ_H
#define RN_SEQ_H

#include <stdbool.h>
#include <stdint.h>

static inline int32_t rn_seq_diff(uint32_t a, uint32_t b) { return (int32_t)(a - b); }
static inline bool rn_seq_lt(uint32_t a, uint32_t b) { return rn_seq_diff(a, b) < 0; }
static inline bool rn_seq_le(uint32_t a, uint32_t b) { return rn_seq_diff(a, b) <= 0; }
static inline bool rn_seq_gt(uint32_t a, uint32_t b) { return rn_seq_diff(a, b) > 0; }
static inline bool rn_seq_ge(uint32_t a, uint32_t b) { return rn_seq_diff(a, b) >= 0; }
static inline uint32_t rn_seq_max(uint32_t a, uint32_t b) { return rn_seq_gt(a, b) ? a : b; }
static inline uint32_t rn_seq_min(uint32_t a, uint32_t b) { return rn_seq_lt(a, b) ? a : b; }

/* True when lo <= s < hi in serial order. */
static inline bool rn_seq_between(uint32_t s, uint32_t lo, uint32_t hi) { return s - lo < hi - lo; }

#endif
