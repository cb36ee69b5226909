/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside lib/crc32c. Polynomials are reflected: bit 31 - j of a 32-bit word is the coefficient of x^j; for the carry-
 * less multiplications bit i of a 64-bit word is x^(63 - i), and the 127-bit product of two such words, read as a
 * 128-bit word, is their product times x.
 */
#ifndef CRC32C_IMPL_H
#define CRC32C_IMPL_H

#include <string.h>

#include "crc32c/crc32c.h"

/* ---- private to lib/crc32c ---- */

/* slice[k][b]: byte b followed by k zero bytes. */
extern const uint32_t crc32c_slice[8][256];

/*
 * shift[i] = x^(64 i - 33) mod P, i >= 1. The carry-less product of a 32-bit remainder c with shift[i] is a 64-bit
 * word whose sum (crc32 instruction on a zero register) is c moved up by i words of 8 bytes. The pair
 * (shift[i + 1], shift[i]) moves a 128-bit word up by 8 i bytes: low half times the first, high half times the second.
 */
#define CRC32C_NSHIFT 512
extern const uint32_t crc32c_shift[CRC32C_NSHIFT];

/* x8_pow2[k] = x^(8 * 2^k) mod P: 2^k zero bytes. */
extern const uint32_t crc32c_x8_pow2[64];

/* Copies piece by piece, then sums the whole with the chosen implementation. */
uint32_t crc32c_plain_words(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w);

uint32_t crc32c_table_sum(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_table_copy(uint32_t crc, void *dst, const void *src, size_t n);
uint32_t crc32c_sse42_sum(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_sse42_copy(uint32_t crc, void *dst, const void *src, size_t n);
uint32_t crc32c_clmul_sum(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_clmul_copy(uint32_t crc, void *dst, const void *src, size_t n);
uint32_t crc32c_vpclmul256_sum(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_vpclmul256_copy(uint32_t crc, void *dst, const void *src, size_t n);
uint32_t crc32c_vpclmul512_sum(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_vpclmul512_copy(uint32_t crc, void *dst, const void *src, size_t n);
uint32_t crc32c_vpclmul512_words(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w);
uint32_t crc32c_arm_sum(uint32_t crc, const void *p, size_t n);
uint32_t crc32c_arm_copy(uint32_t crc, void *dst, const void *src, size_t n);

static inline uint64_t crc32c_load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

static inline void crc32c_store64(uint8_t *p, uint64_t v) { memcpy(p, &v, sizeof(v)); }

#endif
