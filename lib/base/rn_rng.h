/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Seeded pseudo-random numbers (SplitMix64: a counter and a mixer; period 2^64, every seed good). For simulation,
 * impairment and jitter: the same seed gives the same run. Not for anything an attacker must not guess; such keys
 * come from the caller. One thread per generator.
 */
#ifndef RN_RNG_H
#define RN_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rn_rng {
	uint64_t state;
};

static inline void rn_rng_seed(struct rn_rng *r, uint64_t seed) { r->state = seed; }

static inline uint64_t rn_rng_u64(struct rn_rng *r)
{
	uint64_t z = (r->state += UINT64_C(0x9E3779B97F4A7C15));

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return z ^ (z >> 31);
}

static inline uint32_t rn_rng_u32(struct rn_rng *r) { return (uint32_t)(rn_rng_u64(r) >> 32); }

/* A number in [0, n), n > 0, without a division: the bias is below n / 2^32. */
static inline uint32_t rn_rng_below(struct rn_rng *r, uint32_t n)
{
	return (uint32_t)(((uint64_t)rn_rng_u32(r) * n) >> 32);
}

/* True with probability ppm / 1,000,000. */
static inline bool rn_rng_chance(struct rn_rng *r, uint32_t ppm) { return rn_rng_below(r, 1000000) < ppm; }

#endif
