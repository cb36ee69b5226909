/* SPDX-License-Identifier: BSD-3-Clause */
/* The crc32 instruction in three chains; PCLMULQDQ, which nearly every processor with SSE4.2 has, joins them. */
#include "crc32c/crc32c_impl.h"

#ifdef __x86_64__
#include "crc32c/crc32c_x86.h"

CRC32C_SSE42 uint32_t crc32c_sse42_sum(uint32_t crc, const void *p, size_t n)
{
	return ~crc32c_three_way(~crc, p, (uint8_t *)p, n, false);
}

CRC32C_SSE42 uint32_t crc32c_sse42_copy(uint32_t crc, void *dst, const void *src, size_t n)
{
	return ~crc32c_three_way(~crc, src, dst, n, true);
}
#endif
