/* SPDX-License-Identifier: BSD-3-Clause */
/* Armv8: the CRC32C instructions in three chains, joined by PMULL; the method is that of crc32c_x86.h. */
#include "crc32c/crc32c_impl.h"

#ifdef __aarch64__
#include <arm_acle.h>
#include <arm_neon.h>
#include <stdbool.h>

/* clang's arm_acle.h hides the CRC functions unless the whole file is compiled for them. */
#ifdef __clang__
#define ARM      __attribute__((target("crc,aes")))
#define crc_word __builtin_arm_crc32cd
#define crc_byte __builtin_arm_crc32cb
#else
#define ARM      __attribute__((target("+crc+crypto")))
#define crc_word __crc32cd
#define crc_byte __crc32cb
#endif

ARM static inline uint64_t take64(const uint8_t *s, uint8_t *d, bool cp)
{
	uint64_t v = crc32c_load64(s);

	if (cp)
		crc32c_store64(d, v);
	return v;
}

ARM static inline uint64_t moved(uint32_t reg, size_t words) { return (uint64_t)vmull_p64(reg, crc32c_shift[words]); }

ARM static inline uint32_t run(uint32_t reg, const uint8_t *s, uint8_t *d, size_t n, bool cp)
{
	size_t i;

	while (n >= 192) {
		size_t words = n / 24 < 250 ? n / 24 : 250;
		size_t len = 8 * words;
		uint32_t b = 0, c = 0;

		for (i = 0; i < len - 8; i += 8) {
			reg = crc_word(reg, take64(s + i, d + i, cp));
			b = crc_word(b, take64(s + len + i, d + len + i, cp));
			c = crc_word(c, take64(s + 2 * len + i, d + 2 * len + i, cp));
		}
		reg = crc_word(reg, take64(s + i, d + i, cp));
		b = crc_word(b, take64(s + len + i, d + len + i, cp));
		reg = crc_word(c,
			       take64(s + 2 * len + i, d + 2 * len + i, cp) ^ moved(reg, 2 * words) ^ moved(b, words));
		s += 3 * len;
		if (cp)
			d += 3 * len;
		n -= 3 * len;
	}
	for (i = 0; i + 8 <= n; i += 8)
		reg = crc_word(reg, take64(s + i, d + i, cp));
	for (; i < n; i++) {
		uint8_t v = s[i];
		if (cp)
			d[i] = v;
		reg = crc_byte(reg, v);
	}
	return reg;
}

ARM uint32_t crc32c_arm_sum(uint32_t crc, const void *p, size_t n) { return ~run(~crc, p, (uint8_t *)p, n, false); }

ARM uint32_t crc32c_arm_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return ~run(~crc, src, dst, n, true);
}
#endif
