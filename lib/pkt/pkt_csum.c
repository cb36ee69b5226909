/* SPDX-License-Identifier: BSD-3-Clause */
#include "pkt/pkt.h"

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;
	memcpy(&v, p, sizeof(v));
	return v;
}

/* The last 0..7 bytes as a word in memory order: what is missing counts as zero (RFC 1071, section 4.1). */
static inline uint64_t load_tail(const uint8_t *p, uint32_t len)
{
	uint64_t v = 0;
	memcpy(&v, p, len);
	return v;
}

/*
 * Four accumulators, so that the carries do not wait for each other. A carry out of 64 bits is worth 1 in ones'
 * complement, and 2^16 divides 2^64, so folding 64-bit words gives the sum of their 16-bit halves.
 */
uint64_t pkt_sum(const void *data, uint32_t len)
{
	const uint8_t *p = data;
	uint64_t a = 0, b = 0, c = 0, d = 0;

	while (len >= 32) {
		a = pkt_sum_add(a, load64(p));
		b = pkt_sum_add(b, load64(p + 8));
		c = pkt_sum_add(c, load64(p + 16));
		d = pkt_sum_add(d, load64(p + 24));
		p += 32;
		len -= 32;
	}
	while (len >= 8) {
		a = pkt_sum_add(a, load64(p));
		p += 8;
		len -= 8;
	}
	b = pkt_sum_add(b, load_tail(p, len));
	return pkt_sum_add(pkt_sum_add(a, b), pkt_sum_add(c, d));
}

uint64_t pkt_sum_copy(void *dst, const void *src, uint32_t len)
{
	const uint8_t *p = src;
	uint8_t *q = dst;
	uint64_t a = 0, b = 0, c = 0, d = 0;

	while (len >= 32) {
		uint64_t w[4];
		memcpy(w, p, sizeof(w));
		memcpy(q, w, sizeof(w));
		a = pkt_sum_add(a, w[0]);
		b = pkt_sum_add(b, w[1]);
		c = pkt_sum_add(c, w[2]);
		d = pkt_sum_add(d, w[3]);
		p += 32;
		q += 32;
		len -= 32;
	}
	while (len >= 8) {
		uint64_t w = load64(p);
		memcpy(q, &w, sizeof(w));
		a = pkt_sum_add(a, w);
		p += 8;
		q += 8;
		len -= 8;
	}
	uint64_t w = load_tail(p, len);
	memcpy(q, &w, len);
	b = pkt_sum_add(b, w);
	return pkt_sum_add(pkt_sum_add(a, b), pkt_sum_add(c, d));
}

uint64_t pkt_sum_iov(const struct rn_iov *iov, uint32_t n)
{
	uint64_t sum = 0;
	uint32_t off = 0; /* only its parity matters */

	for (uint32_t i = 0; i < n; i++) {
		uint64_t s = pkt_sum(iov[i].base, iov[i].len);
		sum = pkt_sum_add(sum, off & 1 ? pkt_sum_odd(s) : s);
		off += iov[i].len;
	}
	return sum;
}
