/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SipHash-2-4 (Aumasson and Bernstein, INDOCRYPT 2012): a keyed hash that is cheap on short input. Without the key
 * nobody can predict a hash, so hashes serve as cookies. Pure, safe from any thread.
 */
#ifndef RN_SIP_H
#define RN_SIP_H

#include <stdint.h>
#include <string.h>

struct rn_sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rn_sip_rotl(uint64_t x, int b) { return x << b | x >> (64 - b); }

static inline void rn_sip_rounds(struct rn_sip *s, int n)
{
	while (n-- > 0) {
		s->v0 += s->v1;
		s->v2 += s->v3;
		s->v1 = rn_sip_rotl(s->v1, 13) ^ s->v0;
		s->v3 = rn_sip_rotl(s->v3, 16) ^ s->v2;
		s->v0 = rn_sip_rotl(s->v0, 32);
		s->v2 += s->v1;
		s->v0 += s->v3;
		s->v1 = rn_sip_rotl(s->v1, 17) ^ s->v2;
		s->v3 = rn_sip_rotl(s->v3, 21) ^ s->v0;
		s->v2 = rn_sip_rotl(s->v2, 32);
	}
}

static inline void rn_sip_word(struct rn_sip *s, uint64_t m)
{
	s->v3 ^= m;
	rn_sip_rounds(s, 2);
	s->v0 ^= m;
}

/* The hash of `len` octets of data, followed by the number `extra`. */
static inline uint64_t rn_sip_hash(const uint64_t key[2], const void *data, uint32_t len, uint64_t extra)
{
	struct rn_sip s = { key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
			    key[1] ^ 0x7465646279746573 };
	const uint8_t *p = data;
	uint64_t m;

	for (uint32_t n = len; n >= 8; n -= 8, p += 8) {
		memcpy(&m, p, 8);
		rn_sip_word(&s, m);
	}
	m = 0;
	memcpy(&m, p, len & 7);
	rn_sip_word(&s, m | (uint64_t)len << 56);
	rn_sip_word(&s, extra);
	s.v2 ^= 0xff;
	rn_sip_rounds(&s, 4);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#endif
