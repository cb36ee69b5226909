/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slices of bytes, and lists of them. A slice does not own its bytes: where a list is handed over, a comment names the
 * owner.
 */
#ifndef RN_IOV_H
#define RN_IOV_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/rn_copy.h"

struct rn_iov {
	uint8_t *base;
	uint32_t len; /* bytes */
};

static inline uint64_t rn_iov_len(const struct rn_iov *iov, uint32_t n)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < n; i++)
		sum += iov[i].len;
	return sum;
}

/*
 * Cuts [off, off + len) out of iov[0..n) into out[0..max). Returns the number of slices written; 0 for len 0, and
 * UINT32_MAX when the range does not lie inside the list or needs more than max slices.
 */
static inline uint32_t rn_iov_cut(const struct rn_iov *iov, uint32_t n, uint64_t off, uint64_t len, struct rn_iov *out,
				  uint32_t max)
{
	uint32_t k = 0;
	for (uint32_t i = 0; i < n && len > 0; i++) {
		if (off >= iov[i].len) {
			off -= iov[i].len;
			continue;
		}
		if (k == max)
			return UINT32_MAX;
		uint32_t take = (uint32_t)rn_min_u64(iov[i].len - off, len);
		out[k++] = (struct rn_iov){ .base = iov[i].base + off, .len = take };
		len -= take;
		off = 0;
	}
	return len == 0 ? k : UINT32_MAX;
}

/* Copies up to len bytes out of the list; returns the bytes copied. */
static inline RN_HOT uint32_t rn_iov_gather(const struct rn_iov *iov, uint32_t n, void *dst, uint32_t len)
{
	uint32_t done = 0;

	if (rn_likely(n == 1)) {
		done = rn_min_u32(iov[0].len, len);
		rn_copy(dst, iov[0].base, done);
		return done;
	}
	for (uint32_t i = 0; i < n && done < len; i++) {
		uint32_t take = rn_min_u32(iov[i].len, len - done);
		rn_copy((uint8_t *)dst + done, iov[i].base, take);
		done += take;
	}
	return done;
}

#endif
