/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two units at once: PCLMULQDQ folds 64 bytes in four accumulators while the crc32 instruction takes 96 bytes in three
 * chains. The two need different execution ports, so together they are faster than either.
 */
#include "crc32c/crc32c_impl.h"

#ifdef __x86_64__
#include "crc32c/crc32c_x86.h"

#define FOLD_BYTES  64 /* per turn, in the front part that PCLMULQDQ folds */
#define CHAIN_WORDS 4  /* per turn and chain, in the three parts after that */
#define TURN_BYTES  (FOLD_BYTES + 3 * CHAIN_WORDS * 8)
#define MAX_TURNS   ((CRC32C_NSHIFT - 1) / (3 * CHAIN_WORDS))

CRC32C_SSE42_INLINE __m128i take128(const uint8_t *s, uint8_t *d, bool cp)
{
	__m128i v = _mm_loadu_si128((const __m128i *)(const void *)s);

	if (cp)
		_mm_storeu_si128((__m128i *)(void *)d, v);
	return v;
}

struct chains {
	uint64_t a, b, c;
};

/* `words` words of each of the three chains, which lie `len` bytes apart. */
CRC32C_SSE42_INLINE void chains_run(struct chains *r, const uint8_t *s, uint8_t *d, size_t len, size_t words, bool cp)
{
	for (size_t i = 0; i < 8 * words; i += 8) {
		r->a = _mm_crc32_u64(r->a, crc32c_take64(s + i, d + i, cp));
		r->b = _mm_crc32_u64(r->b, crc32c_take64(s + len + i, d + len + i, cp));
		r->c = _mm_crc32_u64(r->c, crc32c_take64(s + 2 * len + i, d + 2 * len + i, cp));
	}
}

/* turns * TURN_BYTES bytes */
CRC32C_SSE42_INLINE uint32_t turns_run(uint32_t reg, const uint8_t *s, uint8_t *d, size_t turns, bool cp)
{
	const __m128i k512 = crc32c_pair(8);
	const uint8_t *cs = s + turns * FOLD_BYTES;
	uint8_t *cd = d + turns * FOLD_BYTES;
	size_t words = turns * CHAIN_WORDS, len = 8 * words, step = 8 * CHAIN_WORDS;
	struct chains r = { 0, 0, 0 };
	__m128i x[4];
	uint64_t last;

	for (int j = 0; j < 4; j++)
		x[j] = take128(s + 16 * j, d + 16 * j, cp);
	x[0] = _mm_xor_si128(x[0], _mm_cvtsi32_si128((int)reg));
	for (size_t t = 1; t < turns; t++) {
		s += FOLD_BYTES;
		if (cp)
			d += FOLD_BYTES;
		for (int j = 0; j < 4; j++)
			x[j] = _mm_xor_si128(crc32c_fold128(x[j], k512), take128(s + 16 * j, d + 16 * j, cp));
		chains_run(&r, cs, cd, len, CHAIN_WORDS, cp);
		cs += step;
		if (cp)
			cd += step;
	}
	chains_run(&r, cs, cd, len, CHAIN_WORDS - 1, cp);
	cs += step - 8;
	if (cp)
		cd += step - 8;
	x[3] = _mm_xor_si128(_mm_xor_si128(x[3], crc32c_fold128(x[0], crc32c_pair(6))),
			     _mm_xor_si128(crc32c_fold128(x[1], crc32c_pair(4)), crc32c_fold128(x[2], crc32c_pair(2))));
	r.a = _mm_crc32_u64(r.a, crc32c_take64(cs, cd, cp));
	r.b = _mm_crc32_u64(r.b, crc32c_take64(cs + len, cd + len, cp));
	last = crc32c_take64(cs + 2 * len, cd + 2 * len, cp);
	last ^= crc32c_moved(crc32c_reduce128(x[3]), 3 * words);
	last ^= crc32c_moved(r.a, 2 * words) ^ crc32c_moved(r.b, words);
	return (uint32_t)_mm_crc32_u64(r.c, last);
}

CRC32C_SSE42_INLINE uint32_t run(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	while (n >= 2 * TURN_BYTES) {
		size_t turns = n / TURN_BYTES < MAX_TURNS ? n / TURN_BYTES : MAX_TURNS;

		reg = turns_run(reg, s, d, turns, cp);
		s += turns * TURN_BYTES;
		if (cp)
			d += turns * TURN_BYTES;
		n -= turns * TURN_BYTES;
	}
	return crc32c_three_way(reg, s, d, n, cp);
}

CRC32C_SSE42 uint32_t crc32c_clmul_sum(uint32_t crc, const void *p, size_t n)
{
	return ~run(~crc, p, (uint8_t *)p, n, false);
}

CRC32C_SSE42 uint32_t crc32c_clmul_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return ~run(~crc, src, dst, n, true);
}
#endif
