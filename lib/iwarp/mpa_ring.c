/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/mpa_ring.h"

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

/* A field may lie across the ring's end. */
static void ring_get(const struct mpa_ring *r, uint32_t at, uint8_t *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		to[i] = r->bytes[(at + i) & r->mask];
}

static void ring_set(const struct mpa_ring *r, uint32_t at, const uint8_t *from, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		r->bytes[(at + i) & r->mask] = from[i];
}

/* Octets of the next FPDU on the stream, markers included; 0: the FPDU is not whole before tail. */
static uint32_t whole_fpdu(const struct mpa_ring *r, uint32_t tail)
{
	uint32_t pos = r->at - r->base, there = tail - r->at;
	uint32_t lead = mpa_lead(pos, r->step);
	uint8_t field[MPA_LEN_FIELD];

	if (there < lead + MPA_LEN_FIELD)
		return 0;
	ring_get(r, r->at + lead, field, sizeof(field));
	uint32_t len = mpa_fpdu_len(rn_load_be16(field));
	len += MPA_MARKER_LEN * mpa_markers_in(pos, len, r->step);
	return there < len ? 0 : len;
}

static uint32_t ring_sum(const struct mpa_ring *r, uint32_t len)
{
	uint32_t place = r->at & r->mask, first = rn_min_u32(len, r->mask + 1 - place);

	return crc32c(crc32c(0, r->bytes + place, first), r->bytes, len - first);
}

enum mpa_ring_verdict mpa_ring_seal(struct mpa_ring *r, uint32_t tail)
{
	uint32_t len = whole_fpdu(r, tail), sum;

	if (len == 0)
		return MPA_RING_MORE;
	sum = ring_sum(r, len - MPA_CRC_LEN);
	ring_set(r, r->at + len - MPA_CRC_LEN, (const uint8_t *)&sum, MPA_CRC_LEN);
	r->at += len;
	return MPA_RING_FPDU;
}

enum mpa_ring_verdict mpa_ring_check(struct mpa_ring *r, uint32_t tail)
{
	uint32_t len = whole_fpdu(r, tail), field;

	if (len == 0)
		return MPA_RING_MORE;
	ring_get(r, r->at + len - MPA_CRC_LEN, (uint8_t *)&field, MPA_CRC_LEN);
	if (field != ring_sum(r, len - MPA_CRC_LEN))
		return MPA_RING_BAD_CRC;
	r->at += len;
	return MPA_RING_FPDU;
}
