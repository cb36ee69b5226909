/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_pattern.h"

#include <endian.h>
#include <string.h>

/* A 64-bit finaliser: every bit of the input reaches every bit of the output. */
static inline uint64_t mix(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	x ^= x >> 29;
	x *= UINT64_C(0xbf58476d1ce4e5b9);
	x ^= x >> 32;
	return x;
}

static inline uint64_t word(uint64_t seed, uint64_t index)
{
	return htole64(mix(seed + index * UINT64_C(0xd1342543de82ef95)));
}

uint64_t tp_pattern_seed(uint64_t run_seed, uint32_t qp, uint64_t seq)
{
	return mix(mix(run_seed ^ ((uint64_t)qp << 40)) + seq);
}

void tp_pattern_fill(void *dst, size_t len, uint64_t seed, uint64_t pos)
{
	uint8_t *p = dst;

	while (len > 0) {
		size_t skip = pos & 7, n = 8 - skip < len ? 8 - skip : len;
		uint64_t w = word(seed, pos >> 3);

		memcpy(p, (uint8_t *)&w + skip, n);
		p += n;
		pos += n;
		len -= n;
	}
}

size_t tp_pattern_check(const void *buf, size_t len, uint64_t seed, uint64_t pos)
{
	const uint8_t *p = buf;
	size_t i = 0;

	while (i < len) {
		size_t skip = pos & 7, n = 8 - skip < len - i ? 8 - skip : len - i;
		uint64_t w = word(seed, pos >> 3);

		if (memcmp(p + i, (uint8_t *)&w + skip, n) != 0) {
			while (p[i] == ((uint8_t *)&w)[skip]) {
				i++;
				skip++;
			}
			return i;
		}
		i += n;
		pos += n;
	}
	return TP_PATTERN_GOOD;
}
