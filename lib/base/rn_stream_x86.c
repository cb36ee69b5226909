/* SPDX-License-Identifier: BSD-3-Clause */
#include <immintrin.h>
#include <string.h>

#include "base/rn_base.h"
#include "base/rn_stream.h"
#include "base/rn_x86.h"

#define TARGET(isa) __attribute__((target(isa)))

/* A copy of less than two cache lines. */
static inline void few(uint8_t *d, const uint8_t *s, uint32_t len)
{
	__asm__("" : "+r"(len)); /* a compiler that knows the range would emit a `rep`, which starts slowly */
	memcpy(d, s, len);
}

/*
 * Copies the parts of dst at both ends that are no whole cache line. *n: whole lines between. Returns the offset of the
 * first.
 */
static inline uint32_t ends(uint8_t *d, const uint8_t *s, uint32_t len, uint32_t *n)
{
	uint32_t head = (uint32_t)(-(uintptr_t)d & (RN_CACHE_LINE - 1));

	*n = 0;
	if (len < head + RN_CACHE_LINE) {
		few(d, s, len);
		return 0;
	}
	*n = (len - head) / RN_CACHE_LINE;
	uint32_t done = head + *n * RN_CACHE_LINE;
	few(d, s, head);
	few(d + done, s + done, len - done);
	return head;
}

static void stream128(void *dst, const void *src, uint32_t len)
{
	uint32_t n, at = ends(dst, src, len, &n);
	const uint8_t *s = (const uint8_t *)src + at;
	uint8_t *d = (uint8_t *)dst + at;

	for (; n > 0; n--, d += RN_CACHE_LINE, s += RN_CACHE_LINE)
		for (uint32_t i = 0; i < RN_CACHE_LINE; i += 16)
			_mm_stream_si128((__m128i *)(void *)(d + i),
					 _mm_loadu_si128((const __m128i *)(const void *)(s + i)));
}

TARGET("avx2") static void stream256(void *dst, const void *src, uint32_t len)
{
	uint32_t n, at = ends(dst, src, len, &n);
	const uint8_t *s = (const uint8_t *)src + at;
	uint8_t *d = (uint8_t *)dst + at;

	for (; n > 0; n--, d += RN_CACHE_LINE, s += RN_CACHE_LINE)
		for (uint32_t i = 0; i < RN_CACHE_LINE; i += 32)
			_mm256_stream_si256((__m256i *)(void *)(d + i),
					    _mm256_lddqu_si256((const __m256i *)(const void *)(s + i)));
}

/* One store writes a whole cache line, so the processor need not combine several. */
TARGET("avx512f") static void stream512(void *dst, const void *src, uint32_t len)
{
	uint32_t n, at = ends(dst, src, len, &n);
	const uint8_t *s = (const uint8_t *)src + at;
	uint8_t *d = (uint8_t *)dst + at;

	for (; n > 0; n--, d += RN_CACHE_LINE, s += RN_CACHE_LINE)
		_mm512_stream_si512((__m512i *)(void *)d, _mm512_loadu_si512(s));
}

rn_stream_fn rn_stream_choose(uint32_t most, uint32_t *width)
{
	const struct rn_x86 x = rn_x86_look();

	if (most >= 64 && rn_x86_saves(&x, RN_XCR0_AVX512) && (x.f7_ebx & bit_AVX512F) != 0) {
		*width = 64;
		return stream512;
	}
	if (most >= 32 && rn_x86_saves(&x, RN_XCR0_AVX) && (x.f7_ebx & bit_AVX2) != 0) {
		*width = 32;
		return stream256;
	}
	*width = 16;
	return stream128;
}
