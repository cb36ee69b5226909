/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The deframer over any octets. The first octet chooses markers and CRC, two octets the offset in Full Operation, the
 * rest is the stream. Fed whole, in odd pieces and octet by octet the stream gives the same FPDUs and the same end.
 * Views lie inside the input. An FPDU that mpa_find finds in a segment lies in that segment with all its octets.
 */
#include <stdlib.h>
#include <string.h>

#include "iwarp/mpa_rx.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_FPDUS 4096
#define MAX_INPUT 20000

struct seen {
	uint32_t n;
	enum mpa_rx_verdict end;
	struct {
		uint32_t pos, raw_len, ulpdu_len, hash;
		bool crc;
	} fpdu[MAX_FPDUS];
};

static uint8_t stage[MPA_STAGE_SIZE];

static uint32_t step_of(uint8_t flags) { return flags & 1 ? 512u << (flags >> 3 & 3) : 0; }

static void check(bool ok)
{
	if (!ok)
		abort();
}

static uint32_t hash_of(const struct mpa_view *v)
{
	uint32_t h = 2166136261u;

	for (uint32_t i = 0; i < v->n; i++)
		for (uint32_t k = 0; k < v->ulpdu[i].len; k++)
			h = (h ^ v->ulpdu[i].base[k]) * 16777619u;
	return h;
}

static void note(struct seen *s, const struct mpa_view *v)
{
	struct ddp_hdr h;
	uint8_t scratch[DDP_MAX_HDR_LEN];
	uint32_t head = rn_min_u32(v->ulpdu_len, DDP_MAX_HDR_LEN);

	check(s->n < MAX_FPDUS && rn_iov_len(v->ulpdu, v->n) == v->ulpdu_len);
	s->fpdu[s->n].pos = v->pos;
	s->fpdu[s->n].raw_len = v->raw_len;
	s->fpdu[s->n].ulpdu_len = v->ulpdu_len;
	s->fpdu[s->n].hash = hash_of(v);
	s->fpdu[s->n++].crc = mpa_rx_crc(v);
	if (v->ulpdu_len > 0 && ddp_parse(mpa_view_head(v, scratch, head), v->ulpdu_len, &h) == DDP_OK)
		check(h.hdr_len + h.payload_len == v->ulpdu_len);
}

/* Feeds one piece from memory of exactly its length. False: the stream has ended. */
static bool feed(struct mpa_rx *rx, const uint8_t *p, uint32_t n, struct seen *s)
{
	struct rn_iov iov = { .base = malloc(n ? n : 1), .len = n };
	struct mpa_rx_in in;
	struct mpa_view v;

	memcpy(iov.base, p, n);
	mpa_rx_input(&in, &iov, 1);
	do {
		s->end = mpa_rx_next(rx, &in, &v);
		if (s->end == MPA_RX_NEED_STAGE)
			check(mpa_rx_give_stage(rx, stage, mpa_rx_stage_need(rx)));
		else if (s->end == MPA_RX_FPDU || s->end == MPA_RX_EMPTY)
			note(s, &v);
	} while (s->end == MPA_RX_NEED_STAGE || s->end == MPA_RX_FPDU || s->end == MPA_RX_EMPTY);
	if (mpa_rx_idle(rx))
		mpa_rx_take_stage(rx);
	free(iov.base);
	return s->end == MPA_RX_MORE;
}

static void run(const uint8_t *data, uint32_t n, uint32_t step, struct seen *s)
{
	uint8_t flags = data[0];
	uint32_t base = ((uint32_t)data[1] << 8 | data[2]) << 2;
	struct mpa_rx rx;

	mpa_rx_init(&rx, step_of(flags), flags & 2);
	rx.pos = rx.start = flags & 4 ? 0u - base : base;
	s->n = 0;
	s->end = MPA_RX_MORE;
	for (uint32_t at = 3; at < n;) {
		uint32_t take = rn_min_u32(step, n - at);

		if (!feed(&rx, data + at, take, s))
			return;
		at += take;
	}
}

static void find(const uint8_t *data, uint32_t n, uint32_t from, uint32_t len)
{
	uint32_t base = (((uint32_t)data[1] << 8 | data[2]) << 2) + from;
	struct rn_iov iov = { .base = malloc(len ? len : 1), .len = len };
	struct mpa_find f;
	struct mpa_view v;
	struct mpa_rx rx;

	check(3 + from + len <= n);
	memcpy(iov.base, data + 3 + from, len);
	mpa_rx_init(&rx, step_of(data[0]), data[0] & 2);
	mpa_find_init(&f, &rx, base, &iov, 1);
	check(mpa_fitting(&rx, base, &iov, 1, 0) < 1u << MPA_SPACINGS);
	while (mpa_find_next(&f, &v)) {
		check(!v.staged && mpa_rx_crc(&v));
		check(rn_in_range(v.pos - base, v.raw_len, len));
		for (uint32_t i = 0; i < v.n; i++)
			check(rn_in_range((uint64_t)(v.ulpdu[i].base - iov.base), v.ulpdu[i].len, len));
	}
	check(!mpa_find_next(&f, &v));
	free(iov.base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct seen whole, pieces;
	uint32_t n = (uint32_t)size;

	if (size < 3 || size > MAX_INPUT)
		return 0;
	run(data, n, n, &whole);
	for (uint32_t step = 1; step < 1500; step = step * 5 + 2) {
		run(data, n, step, &pieces);
		check(pieces.n == whole.n && pieces.end == whole.end);
		check(memcmp(pieces.fpdu, whole.fpdu, whole.n * sizeof(whole.fpdu[0])) == 0);
	}
	for (uint32_t from = 0; from < n - 3; from += (n + 7) / 8)
		find(data, n, from, n - 3 - from);
	return 0;
}
