/* SPDX-License-Identifier: BSD-3-Clause */
/* memcpy for payload, whose addresses a client and a peer choose. */
#ifndef RN_COPY_H
#define RN_COPY_H

#include <string.h>

#include "base/rn_base.h"

/*
 * glibc copies blocks of more than 2 KiB by `rep movsb`, which AMD's Zen 3 and 4 do some sixteen times slower when the
 * destination lies 1 to 16 bytes behind the source modulo 4096. Such blocks go in smaller ones, the last one first:
 * there no load comes right after a store that looks, by its low 12 bits, as if it were to the same place.
 */
static inline void rn_copy(void *dst, const void *src, uint32_t len)
{
	uint32_t step = 2048;

	__asm__("" : "+r"(step)); /* a compiler that knew the size would write a `rep` of its own */
	if (rn_unlikely(len > step && (((uintptr_t)dst - (uintptr_t)src - 1) & 4095) < 16)) {
		for (; len > step; len -= step)
			memcpy((uint8_t *)dst + len - step, (const uint8_t *)src + len - step, step);
	}
	if (!__builtin_constant_p(len))
		__asm__("" : "+r"(len)); /* gcc copies a length whose bound it knows by `rep`, which begins slowly */
	memcpy(dst, src, len);
}

#endif
