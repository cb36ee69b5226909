/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/mpa_tx.h"

#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

#define TAIL_ROOM 8 /* pad and CRC, rounded up so that they are cleared by one store */

_Static_assert(MPA_TX_INLINE >= MPA_LEN_FIELD + MPA_TX_HDR_MAX + TAIL_ROOM + MPA_TX_MARKERS * MPA_MARKER_LEN,
	       "inl holds length, header, tail and markers");

enum mpa_tx_verdict mpa_tx_frame(struct mpa_fpdu *f, uint32_t hdr_len, const struct rn_iov *payload, uint32_t n,
				 uint32_t payload_len)
{
	if (hdr_len > MPA_TX_HDR_MAX)
		return MPA_TX_HDR_TOO_LONG;
	if (payload_len > MPA_ULPDU_MAX - hdr_len)
		return MPA_TX_TOO_LONG;
	uint32_t ulpdu_len = hdr_len + payload_len;
	uint32_t head = MPA_LEN_FIELD + hdr_len;
	uint32_t tail = mpa_pad(ulpdu_len) + MPA_CRC_LEN;
	uint32_t slices = 0;

	rn_store_be16(f->inl, (uint16_t)ulpdu_len);
	memset(f->inl + head, 0, TAIL_ROOM);
	f->ulpdu_len = (uint16_t)ulpdu_len;
	f->len = MPA_LEN_FIELD + ulpdu_len + tail;
	f->crc_at = (uint16_t)(head + tail - MPA_CRC_LEN);
	f->used = (uint16_t)(head + tail);
	if (payload_len == 0) { /* header and tail are neighbours: one slice */
		if (f->max_iov < 1)
			return MPA_TX_NO_IOV;
		f->iov[0] = (struct rn_iov){ .base = f->inl, .len = head + tail };
		f->n_iov = 1;
		return MPA_TX_OK;
	}
	if (f->max_iov < 3)
		return MPA_TX_NO_IOV;
	if (rn_likely(n > 0 && payload[0].len >= payload_len)) {
		f->iov[1] = (struct rn_iov){ .base = payload[0].base, .len = payload_len };
		slices = 1;
	} else {
		slices = rn_iov_cut(payload, n, 0, payload_len, f->iov + 1, f->max_iov - 2u);
		if (slices == UINT32_MAX)
			return rn_iov_len(payload, n) < payload_len ? MPA_TX_BAD_PAYLOAD : MPA_TX_NO_IOV;
	}
	f->iov[0] = (struct rn_iov){ .base = f->inl, .len = head };
	f->iov[slices + 1] = (struct rn_iov){ .base = f->inl + head, .len = tail };
	f->n_iov = (uint16_t)(slices + 2);
	return MPA_TX_OK;
}

enum mpa_tx_verdict mpa_tx_mark(struct mpa_fpdu *f, uint32_t stream_off)
{
	uint32_t first = (0u - stream_off) & (MPA_MARKER_STEP - 1);
	uint32_t markers = mpa_markers_in(stream_off, f->len);

	if (markers == 0)
		return MPA_TX_OK;
	if (markers > MPA_TX_MARKERS)
		return MPA_TX_TOO_LONG;
	if (f->n_iov + 2 * markers > f->max_iov)
		return MPA_TX_NO_IOV;
	/* The slices move to the array's end and are written again from its beginning, split where a marker falls. */
	uint32_t from = (uint32_t)f->max_iov - f->n_iov, to = 0;
	memmove(f->iov + from, f->iov, f->n_iov * sizeof(f->iov[0]));

	uint32_t len_at = first == 0 ? MPA_MARKER_LEN : 0; /* stream octets before the length field */
	uint32_t at = 0, next = first;
	for (; from < f->max_iov; from++) {
		struct rn_iov cur = f->iov[from];

		while (cur.len > next - at) {
			uint32_t before = next - at;
			uint8_t *mark = f->inl + f->used;

			if (before > 0)
				f->iov[to++] = (struct rn_iov){ .base = cur.base, .len = before };
			cur.base += before;
			cur.len -= before;
			rn_store_be32(mark, next == 0 ? 0 : next - len_at);
			f->iov[to++] = (struct rn_iov){ .base = mark, .len = MPA_MARKER_LEN };
			f->used += MPA_MARKER_LEN;
			at = next + MPA_MARKER_LEN;
			next += MPA_MARKER_STEP;
		}
		f->iov[to++] = cur;
		at += cur.len;
	}
	f->n_iov = (uint16_t)to;
	f->len += markers * MPA_MARKER_LEN;
	return MPA_TX_OK;
}

static void put_crc(struct mpa_fpdu *f, uint32_t sum)
{
	memcpy(f->inl + f->crc_at, &sum, MPA_CRC_LEN); /* least significant octet first: RFC 5044 section 4.4 */
}

void mpa_tx_crc(struct mpa_fpdu *f)
{
	uint32_t sum = 0;
	uint32_t last = f->n_iov - 1u;

	for (uint32_t i = 0; i < last; i++)
		sum = crc32c(sum, f->iov[i].base, f->iov[i].len);
	/* The CRC field is the end of the last slice, never split: it stands on a 4-octet boundary as markers do. */
	put_crc(f, crc32c(sum, f->iov[last].base, f->iov[last].len - MPA_CRC_LEN));
}

/* Slices that markers have made are short: one sum over the copy is faster than one over each. */
static uint32_t copy_then_sum(const struct mpa_fpdu *f, bool crc, uint8_t *dst)
{
	uint8_t *p = dst;

	for (uint32_t i = 0; i < f->n_iov; i++) {
		memcpy(p, f->iov[i].base, f->iov[i].len);
		p += f->iov[i].len;
	}
	return crc ? crc32c(0, dst, f->len - MPA_CRC_LEN) : 0;
}

void mpa_tx_copy(struct mpa_fpdu *f, bool crc, uint8_t *dst)
{
	uint32_t sum;

	if (rn_likely(crc && f->n_iov == 3)) {
		uint8_t *body = dst + f->iov[0].len;
		uint32_t pad = f->iov[2].len - MPA_CRC_LEN;

		sum = crc32c_copy(0, dst, f->iov[0].base, f->iov[0].len);
		sum = crc32c_copy(sum, body, f->iov[1].base, f->iov[1].len);
		sum = crc32c_copy(sum, body + f->iov[1].len, f->iov[2].base, pad);
	} else {
		sum = copy_then_sum(f, crc, dst);
	}
	if (!crc)
		return;
	put_crc(f, sum);
	memcpy(dst + f->len - MPA_CRC_LEN, &sum, MPA_CRC_LEN);
}
