/* SPDX-License-Identifier: BSD-3-Clause */
/* Folding with VPCLMULQDQ, on 512-bit words (AVX-512) or 256-bit words (AVX2). */
#include "crc32c/crc32c_impl.h"

#ifdef __x86_64__
#include "crc32c/crc32c_x86.h"

#define AVX512 __attribute__((target("sse4.2,pclmul,avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq")))
#define AVX512_INLINE \
	static inline __attribute__((always_inline, \
				     target("sse4.2,pclmul,avx512f,avx512bw,avx512vl,avx512vbmi,vpclmulqdq")))
#define AVX2        __attribute__((target("sse4.2,pclmul,avx2,vpclmulqdq")))
#define AVX2_INLINE static inline __attribute__((always_inline, target("sse4.2,pclmul,avx2,vpclmulqdq")))

/* a moved up by k's distance, plus b. */
AVX512_INLINE __m512i fold512(__m512i a, __m512i k, __m512i b)
{
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, k, 0x00), _mm512_clmulepi64_epi128(a, k, 0x11), b,
					 0x96);
}

AVX512_INLINE __m512i pair512(size_t words) { return _mm512_broadcast_i32x4(crc32c_pair(words)); }

AVX512_INLINE __m512i take512(const uint8_t *s, uint8_t *d, bool cp)
{
	__m512i v = _mm512_loadu_si512(s);

	if (cp)
		_mm512_storeu_si512(d, v);
	return v;
}

/*
 * The first 4 to 64 bytes at the end of a block of 64: zeros in front of a polynomial change nothing, so the uneven
 * part is dealt with first and nothing is left at the end. The register is added to the first four bytes.
 */
AVX512_INLINE __m512i head512(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	static const uint8_t count[64] = {
		0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
		22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
		44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
	};
	size_t gap = 64 - n;
	__mmask64 m = ~UINT64_C(0) << gap;
	__m512i at = _mm512_sub_epi8(_mm512_loadu_si512(count), _mm512_set1_epi8((char)gap));
	__m512i v = _mm512_maskz_loadu_epi8(m, (const void *)((uintptr_t)s - gap));

	if (cp)
		_mm512_mask_storeu_epi8((void *)((uintptr_t)d - gap), m, v);
	return _mm512_xor_si512(v, _mm512_permutexvar_epi8(at, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)reg))));
}

/* The register of a 512-bit word. */
AVX512_INLINE uint32_t reduce512(__m512i a)
{
	const __m512i k = _mm512_set_epi64(0, 0, crc32c_shift[2], crc32c_shift[3], crc32c_shift[4], crc32c_shift[5],
					   crc32c_shift[6], crc32c_shift[7]);
	/* The last 128 bits stay where they are. */
	__m512i x = fold512(a, k, _mm512_maskz_mov_epi64(0xC0, a));
	__m256i y = _mm256_xor_si256(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64(x, 1));
	__m128i z = _mm_xor_si128(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1));

	return (uint32_t)crc32c_reduce128(z);
}

/* Adds up four words of 512 bits that lie one behind the other. */
AVX512_INLINE uint32_t join512(const __m512i a[4])
{
	__m512i x = fold512(a[0], pair512(8), a[1]), y = fold512(a[2], pair512(8), a[3]);

	return reduce512(fold512(x, pair512(16), y));
}

AVX512_INLINE uint32_t run512(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	const __m512i far = pair512(32);
	__m512i a[4] = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512() };
	size_t head, odd;

	if (n < 128)
		return crc32c_chain(reg, s, d, n, cp);
	head = n % 64;
	if (head > 0 && head < 4) {
		reg = crc32c_chain(reg, s, d, head, cp);
		s += head;
		if (cp)
			d += head;
		n -= head;
		head = 0;
	}
	if (head == 0)
		head = 64;
	a[3] = head512(reg, s, d, head, cp);
	s += head;
	if (cp)
		d += head;
	n -= head;
	/* Blocks beyond a multiple of four join the head, so that the loop below ends with the last byte. */
	for (odd = n / 64 % 4; odd > 0; odd--) {
		a[0] = a[1];
		a[1] = a[2];
		a[2] = a[3];
		a[3] = take512(s, d, cp);
		s += 64;
		if (cp)
			d += 64;
		n -= 64;
	}
	for (; n > 0; n -= 256) {
		for (int j = 0; j < 4; j++)
			a[j] = fold512(a[j], far, take512(s + 64 * j, d + 64 * j, cp));
		s += 256;
		if (cp)
			d += 256;
	}
	return join512(a);
}

AVX512 uint32_t crc32c_vpclmul512_sum(uint32_t crc, const void *p, size_t n)
{
	return ~run512(~crc, p, (uint8_t *)p, n, false);
}

AVX512 uint32_t crc32c_vpclmul512_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return ~run512(~crc, src, dst, n, true);
}

/* The state of crc32c_copy_words(). */
struct walk512 {
	const uint8_t *s;
	uint8_t *d;
	struct crc32c_words w;
};

/*
 * Copies the next `lanes` times 4 bytes of the output and returns them at the end of a block of 64. They contain at
 * most one inserted word.
 */
AVX512_INLINE __m512i words512(struct walk512 *k, uint32_t lanes)
{
	uint32_t gap = 16 - lanes, len = 4 * lanes;
	uintptr_t s = (uintptr_t)k->s - 4 * gap, d = (uintptr_t)k->d - 4 * gap;
	__mmask16 use = (__mmask16)(0xFFFFu << gap);
	__m512i v;

	if (k->w.at >= len) {
		v = _mm512_maskz_loadu_epi32(use, (const void *)s);
		k->s += len;
		k->w.at -= len;
	} else {
		__mmask16 word = (__mmask16)(1u << (gap + k->w.at / 4));

		v = _mm512_maskz_loadu_epi32((__mmask16)(0x7FFFu >> gap), k->s);
		v = _mm512_mask_expand_epi32(_mm512_maskz_set1_epi32(word, (int)*k->w.next++), (__mmask16)(use & ~word),
					     v);
		k->s += len - 4;
		k->w.at += k->w.step - len;
	}
	_mm512_mask_storeu_epi32((void *)d, use, v);
	k->d += len;
	return v;
}

AVX512 uint32_t crc32c_vpclmul512_words(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w)
{
	const __m512i far = pair512(32);
	__m512i a[4] = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512() };
	size_t words = n > w->at ? 1 + (n - w->at - 1) / (w->step - 4) : 0;
	size_t all = n + 4 * words, tail = all % 4;
	struct walk512 k = { src, dst, *w };

	if (all < 128 || w->at % 4 != 0)
		return crc32c_plain_words(crc, dst, src, n, w);
	all -= tail;
	uint32_t lanes = all % 64 == 0 ? 16 : (uint32_t)(all % 64) / 4;
	a[3] = _mm512_xor_si512(words512(&k, lanes),
				_mm512_maskz_set1_epi32((__mmask16)(1u << (16 - lanes)), (int)~crc));
	all -= 4 * lanes;
	for (size_t odd = all / 64 % 4; odd > 0; odd--) {
		a[0] = a[1];
		a[1] = a[2];
		a[2] = a[3];
		a[3] = words512(&k, 16);
	}
	for (all /= 256; all > 0; all--)
		for (int j = 0; j < 4; j++)
			a[j] = fold512(a[j], far, words512(&k, 16));
	/* A word is never inserted among the last one to three bytes. */
	crc = ~crc32c_chain(join512(a), k.s, k.d, tail, true);
	k.w.at -= tail;
	*w = k.w;
	return crc;
}

AVX2_INLINE __m256i fold256(__m256i a, __m256i k, __m256i b)
{
	return _mm256_xor_si256(
		_mm256_xor_si256(_mm256_clmulepi64_epi128(a, k, 0x00), _mm256_clmulepi64_epi128(a, k, 0x11)), b);
}

AVX2_INLINE __m256i pair256(size_t words) { return _mm256_broadcastsi128_si256(crc32c_pair(words)); }

AVX2_INLINE __m256i take256(const uint8_t *s, uint8_t *d, bool cp)
{
	/* Not loadu: for a generic processor gcc splits that in halves and joins them through the stack. */
	__m256i v = _mm256_lddqu_si256((const __m256i *)(const void *)s);

	if (cp)
		_mm256_storeu_si256((__m256i *)(void *)d, v);
	return v;
}

AVX2_INLINE uint32_t run256(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	const __m256i far = pair256(16), near = pair256(4);
	__m256i a[4];
	__m128i z;
	size_t i;

	if (n < 256)
		return crc32c_three_way(reg, s, d, n, cp);
	for (int j = 0; j < 4; j++)
		a[j] = take256(s + 32 * j, d + 32 * j, cp);
	a[0] = _mm256_xor_si256(a[0], _mm256_zextsi128_si256(_mm_cvtsi32_si128((int)reg)));
	for (i = 128; i + 128 <= n; i += 128)
		for (int j = 0; j < 4; j++)
			a[j] = fold256(a[j], far, take256(s + i + 32 * j, d + i + 32 * j, cp));
	a[1] = fold256(a[0], near, a[1]);
	a[3] = fold256(a[2], near, a[3]);
	a[3] = fold256(a[1], pair256(8), a[3]);
	for (; i + 32 <= n; i += 32)
		a[3] = fold256(a[3], near, take256(s + i, d + i, cp));
	z = _mm_xor_si128(crc32c_fold128(_mm256_castsi256_si128(a[3]), crc32c_pair(2)),
			  _mm256_extracti128_si256(a[3], 1));
	return crc32c_chain((uint32_t)crc32c_reduce128(z), s + i, d + i, n - i, cp);
}

AVX2 uint32_t crc32c_vpclmul256_sum(uint32_t crc, const void *p, size_t n)
{
	return ~run256(~crc, p, (uint8_t *)p, n, false);
}

AVX2 uint32_t crc32c_vpclmul256_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return ~run256(~crc, src, dst, n, true);
}
#endif
