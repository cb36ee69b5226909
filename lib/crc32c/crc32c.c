/* SPDX-License-Identifier: BSD-3-Clause */
#include "crc32c/crc32c_impl.h"

uint32_t crc32c_iov(uint32_t crc, const struct rn_iov *iov, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		crc = crc32c(crc, iov[i].base, iov[i].len);
	return crc;
}

uint32_t crc32c_plain_words(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w)
{
	const uint8_t *s = src;
	uint8_t *d = dst;

	while (n > 0) {
		if (w->at == 0) {
			memcpy(d, w->next++, sizeof(*w->next));
			d += sizeof(*w->next);
			w->at = w->step - sizeof(*w->next);
		}
		size_t take = n < w->at ? n : w->at;
		memcpy(d, s, take);
		s += take;
		d += take;
		n -= take;
		w->at -= take;
	}
	return crc32c(crc, dst, (size_t)(d - (uint8_t *)dst));
}

/* Product of two polynomials modulo P. */
static uint32_t times(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
		r ^= (b & bit) != 0 ? a : 0;
		a = (a >> 1) ^ ((a & 1) != 0 ? UINT32_C(0x82F63B78) : 0);
	}
	return r;
}

uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	/* The initial and final inversions of the two sums cancel: the result is A moved up by B's length, plus B. */
	for (uint32_t k = 0; len_b != 0; k++, len_b >>= 1)
		if ((len_b & 1) != 0)
			crc_a = times(crc_a, crc32c_x8_pow2[k]);
	return crc_a ^ crc_b;
}
