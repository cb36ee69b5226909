/* SPDX-License-Identifier: BSD-3-Clause */
/* Before main(): asks the processor what it can do, and orders the implementations by speed. */
#include "crc32c/crc32c_impl.h"

#ifdef __x86_64__
#include "base/rn_x86.h"
#endif
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

/* Written only by the constructor, before there is a second thread. The list is valid at any moment. */
struct crc32c_impl crc32c_impls[8] = { { "table", crc32c_table_sum, crc32c_table_copy, crc32c_plain_words } };

static void __attribute__((unused)) put_first(const char *name, uint32_t (*sum)(uint32_t, const void *, size_t),
					      uint32_t (*copy)(uint32_t, void *, const void *, size_t))
{
	memmove(&crc32c_impls[1], &crc32c_impls[0], sizeof(crc32c_impls) - sizeof(crc32c_impls[0]));
	crc32c_impls[0] = (struct crc32c_impl){ name, sum, copy, crc32c_plain_words };
}

#ifdef __x86_64__
static void __attribute__((constructor)) crc32c_choose(void)
{
	const uint32_t avx512 = bit_AVX512F | bit_AVX512BW | bit_AVX512VL;
	const struct rn_x86 x = rn_x86_look();

	if ((x.f1_ecx & bit_SSE4_2) == 0 || (x.f1_ecx & bit_PCLMUL) == 0)
		return;
	put_first("sse42", crc32c_sse42_sum, crc32c_sse42_copy);
	put_first("clmul", crc32c_clmul_sum, crc32c_clmul_copy);
	if ((x.f7_ecx & bit_VPCLMULQDQ) == 0)
		return;
	if (rn_x86_saves(&x, RN_XCR0_AVX) && (x.f7_ebx & bit_AVX2) != 0)
		put_first("vpclmul256", crc32c_vpclmul256_sum, crc32c_vpclmul256_copy);
	if (rn_x86_saves(&x, RN_XCR0_AVX512) && (x.f7_ebx & avx512) == avx512 && (x.f7_ecx & bit_AVX512VBMI) != 0) {
		put_first("vpclmul512", crc32c_vpclmul512_sum, crc32c_vpclmul512_copy);
		crc32c_impls[0].words = crc32c_vpclmul512_words;
	}
}
#endif

#ifdef __aarch64__
static void __attribute__((constructor)) crc32c_choose(void)
{
	const unsigned long need = 1ul << 7 | 1ul << 4; /* HWCAP_CRC32, HWCAP_PMULL */

	if ((getauxval(AT_HWCAP) & need) == need)
		put_first("arm", crc32c_arm_sum, crc32c_arm_copy);
}
#endif

uint32_t crc32c(uint32_t crc, const void *p, size_t n) { return crc32c_impls[0].sum(crc, p, n); }

uint32_t crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return crc32c_impls[0].copy(crc, dst, src, n);
}

uint32_t crc32c_copy_words(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w)
{
	return crc32c_impls[0].words(crc, dst, src, n, w);
}
