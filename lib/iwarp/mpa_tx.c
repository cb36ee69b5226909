/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/mpa_tx.h"

#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

#define TAIL_ROOM 8 /* pad and CRC, rounded up so that they are cleared by one store */

_Static_assert(MPA_TX_INLINE >= MPA_LEN_FIELD + MPA_TX_HDR_MAX + TAIL_ROOM + 3 + MPA_TX_MARKERS * MPA_MARKER_LEN,
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

/* Where the markers lie: 4-aligned. */
static uint32_t *marker_words(struct mpa_fpdu *f)
{
	return (uint32_t *)(void *)(f->inl + ((f->crc_at + MPA_CRC_LEN + 3u) & ~3u));
}

enum mpa_tx_verdict mpa_tx_mark(struct mpa_fpdu *f, uint32_t stream_off, uint32_t step)
{
	uint32_t markers = mpa_markers_in(stream_off, f->len, step);

	if (markers == 0)
		return MPA_TX_OK;
	if (markers > MPA_TX_MARKERS)
		return MPA_TX_TOO_LONG;
	if (f->n_iov + 2 * markers > f->max_iov)
		return MPA_TX_NO_IOV;
	f->first = (uint16_t)((0u - stream_off) & (step - 1));
	f->step = (uint16_t)step;
	f->markers = (uint16_t)markers;
	f->len += markers * MPA_MARKER_LEN;
	uint32_t *word = marker_words(f);
	uint32_t ptr = f->first == 0 ? step - MPA_MARKER_LEN : f->first;
	for (uint32_t i = 0; i < markers; i++) {
		if (i == 0 && f->first == 0) { /* right before the length field */
			word[i] = 0;
			continue;
		}
		rn_store_be32((uint8_t *)&word[i], ptr);
		ptr += step;
	}
	return MPA_TX_OK;
}

uint32_t mpa_tx_slices(struct mpa_fpdu *f)
{
	if (rn_likely(f->markers == 0))
		return f->n_iov;
	/* Moves the slices to the array's end and writes them again from its beginning, split where a marker falls. */
	uint32_t from = (uint32_t)f->max_iov - f->n_iov, to = 0;
	memmove(f->iov + from, f->iov, f->n_iov * sizeof(f->iov[0]));

	uint8_t *mark = (uint8_t *)marker_words(f);
	uint32_t next = f->first; /* octets before the next marker */
	for (; from < f->max_iov; from++) {
		struct rn_iov cur = f->iov[from];

		while (cur.len > next) {
			if (next > 0)
				f->iov[to++] = (struct rn_iov){ .base = cur.base, .len = next };
			f->iov[to++] = (struct rn_iov){ .base = mark, .len = MPA_MARKER_LEN };
			cur.base += next;
			cur.len -= next;
			mark += MPA_MARKER_LEN;
			next = f->step - MPA_MARKER_LEN;
		}
		f->iov[to++] = cur;
		next -= cur.len;
	}
	f->n_iov = (uint16_t)to;
	f->markers = 0;
	return to;
}

static void put_crc(struct mpa_fpdu *f, uint32_t sum)
{
	memcpy(f->inl + f->crc_at, &sum, MPA_CRC_LEN); /* least significant octet first: RFC 5044 section 4.4 */
}

/* Copies all but the CRC field, with the noted markers in between; returns the sum. */
static uint32_t copy_marked(struct mpa_fpdu *f, uint8_t *dst)
{
	const uint32_t *word = marker_words(f);
	struct crc32c_words w = { .next = word, .at = f->first, .step = f->step };
	uint32_t sum = 0, done = 0;

	for (uint32_t i = 0; i < f->n_iov; i++) {
		uint32_t n = f->iov[i].len - (i + 1 == f->n_iov ? MPA_CRC_LEN : 0);

		uint8_t *to = dst + done + MPA_MARKER_LEN * (w.next - word);
		if (n < w.at) { /* no marker falls in: mostly so for header and tail */
			sum = crc32c_copy(sum, to, f->iov[i].base, n);
			w.at -= n;
		} else {
			sum = crc32c_copy_words(sum, to, f->iov[i].base, n, &w);
		}
		done += n;
	}
	if (w.at == 0) /* the last marker stands before the CRC field */
		sum = crc32c_copy(sum, dst + f->len - MPA_CRC_LEN - MPA_MARKER_LEN, w.next, MPA_MARKER_LEN);
	return sum;
}

static uint32_t copy_plain(const struct mpa_fpdu *f, uint8_t *dst)
{
	uint32_t sum = 0, last = f->n_iov - 1u;

	for (uint32_t i = 0; i < last; i++) {
		sum = crc32c_copy(sum, dst, f->iov[i].base, f->iov[i].len);
		dst += f->iov[i].len;
	}
	/* most FPDUs have no pad: the last slice is the CRC field alone */
	const uint32_t pad = f->iov[last].len - MPA_CRC_LEN;
	return pad == 0 ? sum : crc32c_copy(sum, dst, f->iov[last].base, pad);
}

RN_STRAIGHT void mpa_tx_copy(struct mpa_fpdu *f, bool crc, uint8_t *dst)
{
	if (!crc) {
		rn_iov_gather(f->iov, mpa_tx_slices(f), dst, f->len);
		return;
	}
	uint32_t sum = rn_unlikely(f->markers > 0) ? copy_marked(f, dst) : copy_plain(f, dst);
	put_crc(f, sum);
	memcpy(dst + f->len - MPA_CRC_LEN, &sum, MPA_CRC_LEN);
}
