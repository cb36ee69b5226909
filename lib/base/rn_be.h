/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Typed big-endian integers for wire formats. A rn_be32 cannot be mixed up with a host integer: it is a struct of
 * bytes with alignment 1, so a wire struct made of them has no padding and may lie at any address.
 */
#ifndef RN_BE_H
#define RN_BE_H

#include <stdint.h>
#include <string.h>

typedef struct {
	uint8_t b[2];
} rn_be16;
typedef struct {
	uint8_t b[4];
} rn_be32;
typedef struct {
	uint8_t b[8];
} rn_be64;

static inline uint16_t rn_load_be16(const void *p)
{
	uint16_t v;
	memcpy(&v, p, sizeof(v));
	return __builtin_bswap16(v);
}

static inline uint32_t rn_load_be32(const void *p)
{
	uint32_t v;
	memcpy(&v, p, sizeof(v));
	return __builtin_bswap32(v);
}

static inline uint64_t rn_load_be64(const void *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return __builtin_bswap64(v);
}

static inline void rn_store_be16(void *p, uint16_t v)
{
	v = __builtin_bswap16(v);
	memcpy(p, &v, sizeof(v));
}
static inline void rn_store_be32(void *p, uint32_t v)
{
	v = __builtin_bswap32(v);
	memcpy(p, &v, sizeof(v));
}
static inline void rn_store_be64(void *p, uint64_t v)
{
	v = __builtin_bswap64(v);
	memcpy(p, &v, sizeof(v));
}

static inline uint16_t rn_be16_get(rn_be16 v) { return rn_load_be16(v.b); }
static inline uint32_t rn_be32_get(rn_be32 v) { return rn_load_be32(v.b); }
static inline uint64_t rn_be64_get(rn_be64 v) { return rn_load_be64(v.b); }

static inline rn_be16 rn_be16_of(uint16_t v)
{
	rn_be16 r;
	rn_store_be16(r.b, v);
	return r;
}
static inline rn_be32 rn_be32_of(uint32_t v)
{
	rn_be32 r;
	rn_store_be32(r.b, v);
	return r;
}
static inline rn_be64 rn_be64_of(uint64_t v)
{
	rn_be64 r;
	rn_store_be64(r.b, v);
	return r;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "rn_be.h swaps: a big-endian host needs the other branch");

#endif
