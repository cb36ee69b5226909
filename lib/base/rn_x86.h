/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which instruction sets an x86 processor has, and which of them the operating system lets programs use. For x86 only.
 */
#ifndef RN_X86_H
#define RN_X86_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

/* What the operating system saves at a context switch: XCR0, Intel SDM volume 1 section 13.3. */
#define RN_XCR0_AVX    0x06u /* SSE and AVX state */
#define RN_XCR0_AVX512 0xE6u /* SSE and AVX state, opmask and the upper halves */

struct rn_x86 {
	uint32_t f1_ecx;         /* CPUID function 1 */
	uint32_t f7_ebx, f7_ecx; /* function 7 */
	uint32_t xcr0;           /* 0: not available */
};

static inline struct rn_x86 rn_x86_look(void)
{
	struct rn_x86 x = { 0 };
	uint32_t a, b, d, hi;

	if (!__get_cpuid(1, &a, &b, &x.f1_ecx, &d))
		return x;
	if ((x.f1_ecx & bit_OSXSAVE) != 0)
		__asm__("xgetbv" : "=a"(x.xcr0), "=d"(hi) : "c"(0));
	(void)__get_cpuid_count(7, 0, &a, &x.f7_ebx, &x.f7_ecx, &d);
	return x;
}

static inline bool rn_x86_saves(const struct rn_x86 *x, uint32_t state) { return (x->xcr0 & state) == state; }

#endif
