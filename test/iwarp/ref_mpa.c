/* SPDX-License-Identifier: BSD-3-Clause */
#include "ref_mpa.h"

#include <stdlib.h>

uint8_t ref_octet(uint8_t seed, uint32_t i) { return (uint8_t)((i * 31 + (i >> 8) * 7 + 1) ^ (uint32_t)(seed * 73)); }

uint32_t ref_rand(uint64_t *state)
{
	*state += 0x9e3779b97f4a7c15u;
	uint64_t z = *state;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (uint32_t)(z >> 32);
}

uint32_t ref_crc32c(const uint8_t *p, uint32_t n)
{
	uint32_t c = 0xffffffff;

	for (uint32_t i = 0; i < n; i++) {
		c ^= p[i];
		for (int k = 0; k < 8; k++)
			c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
	}
	return ~c;
}

uint32_t ref_step = 512;

void ref_init(struct ref_stream *s, uint32_t base, bool markers, bool crc)
{
	s->markers = markers;
	s->step = markers ? ref_step : 0;
	s->crc = crc;
	s->base = base;
	s->len = 0;
	s->n_fpdu = 0;
}

/* len_at: offset in buf of the length field of this FPDU; -1 when the field is still to come. */
static void put(struct ref_stream *s, uint8_t b, int64_t *len_at)
{
	if (s->len + 8 > REF_MAX)
		abort();
	if (s->markers && (s->base + s->len) % s->step == 0) {
		uint32_t ptr = *len_at < 0 ? 0 : (uint32_t)(s->len - *len_at);

		s->buf[s->len++] = 0;
		s->buf[s->len++] = 0;
		s->buf[s->len++] = (uint8_t)(ptr >> 8);
		s->buf[s->len++] = (uint8_t)ptr;
	}
	if (*len_at < 0)
		*len_at = s->len;
	s->buf[s->len++] = b;
}

static void put_all(struct ref_stream *s, const uint8_t *ulpdu, uint32_t n, uint8_t seed)
{
	uint32_t begin = s->len, crc;
	int64_t len_at = -1;

	put(s, (uint8_t)(n >> 8), &len_at);
	put(s, (uint8_t)n, &len_at);
	for (uint32_t i = 0; i < n; i++)
		put(s, ulpdu ? ulpdu[i] : ref_octet(seed, i), &len_at);
	for (uint32_t i = n + 2; i % 4 != 0; i++)
		put(s, 0, &len_at);
	/* A marker that is due before the CRC field is covered by the CRC. */
	if (s->markers && (s->base + s->len) % s->step == 0) {
		put(s, 0, &len_at);
		s->len--;
	}
	crc = s->crc ? ref_crc32c(s->buf + begin, s->len - begin) : 0;
	for (int i = 0; i < 4; i++)
		s->buf[s->len++] = (uint8_t)(crc >> 8 * i);
	s->first[s->n_fpdu] = begin;
	s->size[s->n_fpdu] = s->len - begin;
	s->ulpdu_len[s->n_fpdu] = (uint16_t)n;
	s->ulpdu_seed[s->n_fpdu++] = seed;
}

void ref_fpdu(struct ref_stream *s, uint32_t ulpdu_len, uint8_t seed) { put_all(s, 0, ulpdu_len, seed); }

void ref_fpdu_of(struct ref_stream *s, const uint8_t *ulpdu, uint32_t ulpdu_len) { put_all(s, ulpdu, ulpdu_len, 0); }
