/* SPDX-License-Identifier: BSD-3-Clause */
/* Slicing by 8: for processors without a CRC instruction, and as the reference that tests compare with. */
#include "crc32c/crc32c_impl.h"

static inline uint32_t word_sum(uint32_t crc, uint64_t v)
{
	v ^= crc;
	crc = 0;
	for (uint32_t k = 0; k < 8; k++)
		crc ^= crc32c_slice[7 - k][(v >> (8 * k)) & 0xFF];
	return crc;
}

static inline uint32_t byte_sum(uint32_t crc, uint8_t b) { return crc32c_slice[0][(crc ^ b) & 0xFF] ^ (crc >> 8); }

uint32_t crc32c_table_sum(uint32_t crc, const void *p, size_t n)
{
	const uint8_t *s = p;

	crc = ~crc;
	for (; n >= 8; n -= 8, s += 8)
		crc = word_sum(crc, crc32c_load64(s));
	for (; n > 0; n--, s++)
		crc = byte_sum(crc, *s);
	return ~crc;
}

uint32_t crc32c_table_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	const uint8_t *s = src;
	uint8_t *d = dst;

	crc = ~crc;
	for (; n >= 8; n -= 8, s += 8, d += 8) {
		uint64_t v = crc32c_load64(s);
		crc32c_store64(d, v);
		crc = word_sum(crc, v);
	}
	for (; n > 0; n--, s++, d++) {
		uint8_t v = *s;
		*d = v;
		crc = byte_sum(crc, v);
	}
	return ~crc;
}
