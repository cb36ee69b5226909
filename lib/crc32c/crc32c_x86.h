/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Inside lib/crc32c: the steps that the x86 implementations share. They work on the register, that is the sum without
 * the initial and final inversion. `d` is where the bytes are copied to if `cp` is true. Callers pass a constant `cp`,
 * so that one source makes both the sum and the summing copy.
 */
#ifndef CRC32C_X86_H
#define CRC32C_X86_H

#include <immintrin.h>
#include <stdbool.h>

#include "crc32c/crc32c_impl.h"

#define CRC32C_SSE42        __attribute__((target("sse4.2,pclmul")))
#define CRC32C_SSE42_INLINE static inline __attribute__((always_inline, target("sse4.2,pclmul")))

/* Loads once: what is summed is what is copied. */
CRC32C_SSE42_INLINE uint64_t crc32c_take64(const uint8_t *s, uint8_t *d, bool cp)
{
	uint64_t v = crc32c_load64(s);

	if (cp)
		crc32c_store64(d, v);
	return v;
}

/* One chain, word by word, then the remaining bytes: for input too short for anything better. */
CRC32C_SSE42_INLINE uint32_t crc32c_chain(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	uint64_t r = reg;
	size_t i = 0;

	for (; i + 8 <= n; i += 8)
		r = _mm_crc32_u64(r, crc32c_take64(s + i, d + i, cp));
	if ((n & 4) != 0) {
		uint32_t v;
		memcpy(&v, s + i, sizeof(v));
		if (cp)
			memcpy(d + i, &v, sizeof(v));
		r = _mm_crc32_u32((uint32_t)r, v);
		i += 4;
	}
	for (; i < n; i++) {
		uint8_t v = s[i];
		if (cp)
			d[i] = v;
		r = _mm_crc32_u8((uint32_t)r, v);
	}
	return (uint32_t)r;
}

/* The word whose sum is `reg` moved up by `words` words. */
CRC32C_SSE42_INLINE uint64_t crc32c_moved(uint64_t reg, size_t words)
{
	__m128i a = _mm_cvtsi64_si128((long long)reg);
	__m128i k = _mm_cvtsi32_si128((int)crc32c_shift[words]);

	return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(a, k, 0x00));
}

/*
 * Three chains side by side: the instruction takes 3 cycles but one can start in each. Every round cuts what is left,
 * up to 6000 bytes, into three equal parts, and adds the first two to the last word of the third.
 */
CRC32C_SSE42_INLINE uint32_t crc32c_three_way(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	while (n >= 192) {
		size_t words = n / 24 < 250 ? n / 24 : 250;
		size_t len = 8 * words, i;
		uint64_t a = reg, b = 0, c = 0;

		for (i = 0; i < len - 8; i += 8) {
			a = _mm_crc32_u64(a, crc32c_take64(s + i, d + i, cp));
			b = _mm_crc32_u64(b, crc32c_take64(s + len + i, d + len + i, cp));
			c = _mm_crc32_u64(c, crc32c_take64(s + 2 * len + i, d + 2 * len + i, cp));
		}
		a = _mm_crc32_u64(a, crc32c_take64(s + i, d + i, cp));
		b = _mm_crc32_u64(b, crc32c_take64(s + len + i, d + len + i, cp));
		c = _mm_crc32_u64(c, crc32c_take64(s + 2 * len + i, d + 2 * len + i, cp) ^ crc32c_moved(a, 2 * words) ^
					     crc32c_moved(b, words));
		reg = (uint32_t)c;
		s += 3 * len;
		if (cp)
			d += 3 * len;
		n -= 3 * len;
	}
	return crc32c_chain(reg, s, d, n, cp);
}

/* A 128-bit word moved up: k holds the pair of crc32c_shift[] for the distance. */
CRC32C_SSE42_INLINE __m128i crc32c_fold128(__m128i a, __m128i k)
{
	return _mm_xor_si128(_mm_clmulepi64_si128(a, k, 0x00), _mm_clmulepi64_si128(a, k, 0x11));
}

/* The pair for a distance of `words` words, as crc32c_fold128() takes it. */
CRC32C_SSE42_INLINE __m128i crc32c_pair(size_t words)
{
	return _mm_set_epi64x(crc32c_shift[words], crc32c_shift[words + 1]);
}

/* The register of a 128-bit word. */
CRC32C_SSE42_INLINE uint64_t crc32c_reduce128(__m128i a)
{
	uint64_t r = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(a));

	return _mm_crc32_u64(r, (uint64_t)_mm_extract_epi64(a, 1));
}

#endif
