/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC32C (Castagnoli), as RFC 5044 section 4.4 (MPA), RFC 7143 (iSCSI) and SCTP use it: reflected, initial value and
 * final XOR all ones. The result is a number; on the wire the least-significant byte comes first, which is left to the
 * caller.
 *
 * All functions continue a sum: start with 0, feed pieces in order, the result is that of the whole. They may be called
 * from any thread. Before main() runs, the best implementation for the processor is chosen; earlier calls use the
 * portable one.
 */
#ifndef CRC32C_H
#define CRC32C_H

#include <stddef.h>
#include <stdint.h>

#include "base/rn_iov.h"

/* Sum of n bytes. */
uint32_t crc32c(uint32_t crc, const void *p, size_t n);

/* Sum of a list of slices, in order. */
uint32_t crc32c_iov(uint32_t crc, const struct rn_iov *iov, uint32_t n);

/*
 * Copies n bytes and sums them in the same pass: every byte is read once, and what is summed is what was written, even
 * if the source changes meanwhile. The ranges must not overlap.
 */
uint32_t crc32c_copy(uint32_t crc, void *dst, const void *src, size_t n);

/* Words to insert between the bytes of a copy, as MPA's markers lie in the stream (RFC 5044 section 4.3). */
struct crc32c_words {
	const uint32_t *next; /* the words, as they lie in memory; at least as many as the copy will insert */
	size_t at;            /* bytes to be written before the next word */
	size_t step;          /* from the start of one word to the start of the next: a multiple of 64 above 64 */
};

/*
 * crc32c_copy() with inserted words, which are copied and summed too: n bytes of the source, and 4 for each word. A
 * word due after the last byte is left to the next call. *w moves on.
 */
uint32_t crc32c_copy_words(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w);

/* CRC of A followed by B, from the CRC of each and the length of B in bytes. Takes some hundred nanoseconds. */
uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b);

/*
 * One implementation, for tests and benchmarks. The functions follow crc32c(), crc32c_copy() and crc32c_copy_words().
 */
struct crc32c_impl {
	const char *name;
	uint32_t (*sum)(uint32_t crc, const void *p, size_t n);
	uint32_t (*copy)(uint32_t crc, void *dst, const void *src, size_t n);
	uint32_t (*words)(uint32_t crc, void *dst, const void *src, size_t n, struct crc32c_words *w);
};

/* The implementations that run on this processor, best first; the first is in use. The last one's name is NULL. */
extern struct crc32c_impl crc32c_impls[];

#endif
