/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/mpa_rx.h"

#include <string.h>

#include "base/rn_be.h"
#include "crc32c/crc32c.h"

void mpa_rx_init(struct mpa_rx *rx, uint32_t step, bool crc)
{
	*rx = (struct mpa_rx){ .step = (uint16_t)step, .crc = crc };
}

/* ---- cursor over the input ---- */

/* Moves to an octet, over empty slices; false when there is none. */
static bool in_settle(struct mpa_rx_in *in)
{
	while (in->idx < in->n && in->off >= in->iov[in->idx].len) {
		in->idx++;
		in->off = 0;
	}
	return in->idx < in->n;
}

/* Takes n octets, slice by slice; the caller has checked that they are there. */
static struct rn_iov in_piece(struct mpa_rx_in *in, uint32_t n)
{
	in_settle(in);
	const struct rn_iov *s = &in->iov[in->idx];
	struct rn_iov out = { .base = s->base + in->off, .len = rn_min_u32(n, s->len - in->off) };

	in->off += out.len;
	return out;
}

static void in_copy(struct mpa_rx_in *in, uint8_t *dst, uint32_t n)
{
	while (n > 0) {
		struct rn_iov piece = in_piece(in, n);

		memcpy(dst, piece.base, piece.len);
		dst += piece.len;
		n -= piece.len;
	}
}

static bool in_holds(const struct mpa_rx_in *in, uint32_t n)
{
	uint32_t off = in->off;

	for (uint32_t i = in->idx; i < in->n; i++) {
		uint32_t len = in->iov[i].len - off;

		if (len >= n)
			return true;
		n -= len;
		off = 0;
	}
	return n == 0;
}

/* ---- rules for both paths ---- */

/* Octets from stream offset pos to the next marker; 0 when a marker begins there. */
static uint32_t to_marker(const struct mpa_rx *rx, uint32_t pos)
{
	return rx->step != 0 ? (0u - pos) & (rx->step - 1u) : UINT32_MAX;
}

/*
 * RFC 5044 section 4.3: FPDUPTR is the distance from the length field to the marker, its low two bits read as zero;
 * 16 bits wide, which an FPDU of the largest size outgrows by its last marker.
 */
static bool marker_good(const struct mpa_rx *rx, const uint8_t *mark, uint32_t mark_pos)
{
	uint16_t ptr = rn_load_be16(mark + 2) & 0xfffc;

	if (mark_pos == rx->start)
		return ptr == 0;
	uint32_t len_pos = rx->start + mpa_lead(rx->start, rx->step);
	return ptr == (uint16_t)(mark_pos - len_pos);
}

static bool len_good(uint32_t ulpdu_len) { return ulpdu_len >= DDP_MIN_HDR_LEN || ulpdu_len == 0; }

static void fpdu_begins_next(struct mpa_rx *rx, uint32_t pos)
{
	rx->pos = rx->start = pos;
	rx->nlen = 0;
	rx->have = 0;
	rx->sum = 0;
}

static enum mpa_rx_verdict finish_view(struct mpa_rx *rx, struct mpa_view *v, uint32_t ulpdu_len, uint32_t end)
{
	v->ulpdu_len = ulpdu_len;
	v->pos = rx->start;
	v->raw_len = end - rx->start;
	v->crc_on = rx->crc;
	fpdu_begins_next(rx, end);
	return rn_likely(ulpdu_len > 0) ? MPA_RX_FPDU : MPA_RX_EMPTY;
}

/* ---- fast path: the whole FPDU is in the input ---- */

enum slice_verdict { SLICE_OK, SLICE_BAD_MARKER, SLICE_TOO_MANY };

/* Walks one FPDU and notes where its ULPDU lies. *in moves only past what is walked. */
static enum slice_verdict slice_fpdu(const struct mpa_rx *rx, struct mpa_rx_in *in, uint32_t ulpdu_len,
				     struct mpa_view *v)
{
	const uint32_t part[] = { MPA_LEN_FIELD, ulpdu_len, mpa_pad(ulpdu_len), MPA_CRC_LEN };
	uint8_t small[MPA_CRC_LEN];
	uint32_t pos = rx->pos;

	v->n = 0;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(part); i++) {
		for (uint32_t left = part[i]; left > 0;) {
			uint32_t gap = to_marker(rx, pos);

			if (gap == 0) {
				in_copy(in, small, MPA_MARKER_LEN);
				if (!marker_good(rx, small, pos))
					return SLICE_BAD_MARKER;
				pos += MPA_MARKER_LEN;
				continue;
			}
			uint32_t n = rn_min_u32(left, gap);
			if (i == 1) {
				if (v->n == MPA_VIEW_IOV)
					return SLICE_TOO_MANY;
				v->ulpdu[v->n] = in_piece(in, n);
				n = v->ulpdu[v->n++].len;
			} else {
				in_copy(in, small, n); /* whole: markers and small parts are 4-aligned */
			}
			left -= n;
			pos += n;
		}
	}
	memcpy(&v->crc_field, small, MPA_CRC_LEN);
	return SLICE_OK;
}

/* As slice_fpdu(), for raw octets that lie at p in one piece, as nearly always. */
static enum slice_verdict slice_flat(const struct mpa_rx *rx, const uint8_t *p, uint32_t ulpdu_len, struct mpa_view *v)
{
	uint32_t at = 0, next = to_marker(rx, rx->pos), left = ulpdu_len;
	uint32_t skip = MPA_LEN_FIELD; /* octets to skip before the next slice of ULPDU */

	for (v->n = 0;; left -= v->ulpdu[v->n++].len) {
		if (at == next) {
			if (!marker_good(rx, p + at, rx->pos + at))
				return SLICE_BAD_MARKER;
			at += MPA_MARKER_LEN;
			next += rx->step;
		}
		if (left == 0)
			break;
		if (v->n == MPA_VIEW_IOV)
			return SLICE_TOO_MANY;
		at += skip;
		skip = 0;
		v->ulpdu[v->n] = (struct rn_iov){ .base = (uint8_t *)(uintptr_t)(p + at),
						  .len = rn_min_u32(left, next - at) };
		at += v->ulpdu[v->n].len;
	}
	/* a pad ends where a marker may begin; the CRC is whole */
	at += skip + mpa_pad(ulpdu_len);
	if (mpa_pad(ulpdu_len) > 0 && at == next) {
		if (!marker_good(rx, p + at, rx->pos + at))
			return SLICE_BAD_MARKER;
		at += MPA_MARKER_LEN;
	}
	memcpy(&v->crc_field, p + at, MPA_CRC_LEN);
	return SLICE_OK;
}

/* MPA_RX_MORE: this path cannot take the FPDU; the input is unchanged. */
static enum mpa_rx_verdict fast_sliced(struct mpa_rx *rx, struct mpa_rx_in *in, struct mpa_view *v)
{
	uint32_t lead = to_marker(rx, rx->pos) == 0 ? MPA_MARKER_LEN : 0;
	uint8_t copy[MPA_MARKER_LEN + MPA_LEN_FIELD];
	struct mpa_rx_in at = *in;
	uint32_t flat = 0; /* contiguous octets from the cursor on */
	const uint8_t *head = copy;

	if (in_settle(&at))
		flat = at.iov[at.idx].len - at.off;
	if (rn_likely(flat >= lead + MPA_LEN_FIELD)) {
		head = at.iov[at.idx].base + at.off;
	} else {
		if (!in_holds(&at, lead + MPA_LEN_FIELD))
			return MPA_RX_MORE;
		in_copy(&at, copy, lead + MPA_LEN_FIELD);
		at = *in;
	}
	if (lead > 0 && !marker_good(rx, head, rx->pos))
		return MPA_RX_BAD_MARKER;
	uint32_t ulpdu_len = rn_load_be16(head + lead);
	if (!len_good(ulpdu_len))
		return MPA_RX_TOO_SHORT;
	uint32_t raw = mpa_fpdu_len(ulpdu_len);
	raw += MPA_MARKER_LEN * mpa_markers_in(rx->pos, raw, rx->step);
	enum slice_verdict sv;
	if (rn_likely(flat >= raw)) {
		sv = slice_flat(rx, head, ulpdu_len, v);
		at.off += raw;
	} else if (in_holds(&at, raw)) {
		sv = slice_fpdu(rx, &at, ulpdu_len, v);
	} else {
		return MPA_RX_MORE;
	}
	switch (sv) {
	case SLICE_BAD_MARKER: return MPA_RX_BAD_MARKER;
	case SLICE_TOO_MANY: return MPA_RX_MORE;
	case SLICE_OK: break;
	}
	v->staged = false;
	v->raw = *in;
	*in = at;
	return finish_view(rx, v, ulpdu_len, rx->pos + raw);
}

/*
 * An FPDU in the slices of a sender that sends by reference: headers, payload, and pad with CRC, one slice each. Or
 * false.
 */
static bool three_slices(struct mpa_rx_in *in, uint32_t head, uint32_t ulpdu_len, struct mpa_view *v)
{
	const struct rn_iov *s = &in->iov[in->idx];
	uint32_t pad = mpa_pad(ulpdu_len);

	if (in->n - in->idx < 3 || head + s[1].len != MPA_LEN_FIELD + ulpdu_len || s[2].len != pad + MPA_CRC_LEN)
		return false;
	v->raw = *in;
	v->n = 2;
	v->ulpdu[0] = (struct rn_iov){ .base = s[0].base + in->off + MPA_LEN_FIELD, .len = head - MPA_LEN_FIELD };
	v->ulpdu[1] = s[1];
	memcpy(&v->crc_field, s[2].base + pad, MPA_CRC_LEN);
	in->idx += 3;
	in->off = 0;
	return true;
}

static inline enum mpa_rx_verdict fast(struct mpa_rx *rx, struct mpa_rx_in *in, struct mpa_view *v)
{
	if (rx->step != 0 || in->idx >= in->n || in->iov[in->idx].len - in->off <= MPA_LEN_FIELD)
		return fast_sliced(rx, in, v);
	uint8_t *p = in->iov[in->idx].base + in->off;
	uint32_t ulpdu_len = rn_load_be16(p), here = in->iov[in->idx].len - in->off;
	uint32_t raw = mpa_fpdu_len(ulpdu_len);
	if (rn_unlikely(!len_good(ulpdu_len)))
		return fast_sliced(rx, in, v);
	if (here < raw) {
		if (!three_slices(in, here, ulpdu_len, v))
			return fast_sliced(rx, in, v);
		v->staged = false;
		return finish_view(rx, v, ulpdu_len, rx->pos + raw);
	}
	v->staged = false;
	v->raw = *in;
	v->n = ulpdu_len > 0;
	v->ulpdu[0] = (struct rn_iov){ .base = p + MPA_LEN_FIELD, .len = ulpdu_len };
	memcpy(&v->crc_field, p + raw - MPA_CRC_LEN, MPA_CRC_LEN);
	in->off += raw;
	return finish_view(rx, v, ulpdu_len, rx->pos + raw);
}

/* ---- slow path: the FPDU comes in pieces ---- */

static uint32_t staged_total(const struct mpa_rx *rx)
{
	return mpa_fpdu_len(rn_load_be16(rx->len_field)) - MPA_LEN_FIELD;
}

static void sum_on(struct mpa_rx *rx, const uint8_t *p, uint32_t n)
{
	if (rx->crc)
		rx->sum = crc32c(rx->sum, p, n);
}

/* Takes one piece of the marker at or around rx->pos. */
static enum mpa_rx_verdict slow_marker(struct mpa_rx *rx, struct mpa_rx_in *in, uint32_t seen)
{
	struct rn_iov piece = in_piece(in, MPA_MARKER_LEN - seen);

	memcpy(rx->mark + seen, piece.base, piece.len);
	sum_on(rx, piece.base, piece.len);
	rx->pos += piece.len;
	if (seen + piece.len == MPA_MARKER_LEN && !marker_good(rx, rx->mark, rx->pos - MPA_MARKER_LEN))
		return MPA_RX_BAD_MARKER;
	return MPA_RX_MORE;
}

static enum mpa_rx_verdict slow_len(struct mpa_rx *rx, struct mpa_rx_in *in)
{
	struct rn_iov piece = in_piece(in, MPA_LEN_FIELD - rx->nlen);

	memcpy(rx->len_field + rx->nlen, piece.base, piece.len);
	sum_on(rx, piece.base, piece.len);
	rx->nlen = (uint8_t)(rx->nlen + piece.len);
	rx->pos += piece.len;
	if (rx->nlen == MPA_LEN_FIELD && !len_good(rn_load_be16(rx->len_field)))
		return MPA_RX_TOO_SHORT;
	return MPA_RX_MORE;
}

/* Copies one piece of ULPDU, pad and CRC field into the stage. */
static enum mpa_rx_verdict slow_body(struct mpa_rx *rx, struct mpa_rx_in *in, struct mpa_view *v)
{
	uint32_t total = staged_total(rx);
	uint32_t summed = total - MPA_CRC_LEN;

	if (rx->stage_size < total)
		return MPA_RX_NEED_STAGE;
	uint32_t want = rn_min_u32(total - rx->have, to_marker(rx, rx->pos));
	if (rx->have < summed)
		want = rn_min_u32(want, summed - rx->have);
	struct rn_iov piece = in_piece(in, want);
	if (rx->have < summed && rx->crc)
		rx->sum = crc32c_copy(rx->sum, rx->stage + rx->have, piece.base, piece.len);
	else
		memcpy(rx->stage + rx->have, piece.base, piece.len);
	rx->have += piece.len;
	rx->pos += piece.len;
	if (rx->have < total)
		return MPA_RX_MORE;

	uint32_t ulpdu_len = rn_load_be16(rx->len_field);
	v->staged = true;
	v->crc_sum = rx->sum;
	memcpy(&v->crc_field, rx->stage + summed, MPA_CRC_LEN);
	v->n = ulpdu_len > 0;
	v->ulpdu[0] = (struct rn_iov){ .base = rx->stage, .len = ulpdu_len };
	return finish_view(rx, v, ulpdu_len, rx->pos);
}

static enum mpa_rx_verdict slow(struct mpa_rx *rx, struct mpa_rx_in *in, struct mpa_view *v)
{
	enum mpa_rx_verdict r = MPA_RX_MORE;

	while (r == MPA_RX_MORE && in_settle(in)) {
		uint32_t seen = rx->step != 0 ? rx->pos & (rx->step - 1u) : MPA_MARKER_LEN;

		if (seen < MPA_MARKER_LEN)
			r = slow_marker(rx, in, seen);
		else if (rx->nlen < MPA_LEN_FIELD)
			r = slow_len(rx, in);
		else
			r = slow_body(rx, in, v);
	}
	return r;
}

enum mpa_rx_verdict mpa_rx_next(struct mpa_rx *rx, struct mpa_rx_in *in, struct mpa_view *v)
{
	if (rn_likely(rx->pos == rx->start)) {
		enum mpa_rx_verdict r = fast(rx, in, v);

		if (rn_likely(r != MPA_RX_MORE))
			return r;
	}
	return slow(rx, in, v);
}

/* ---- stage, CRC, verdicts ---- */

uint32_t mpa_rx_stage_need(const struct mpa_rx *rx)
{
	return rx->nlen == MPA_LEN_FIELD ? staged_total(rx) : MPA_STAGE_SIZE;
}

bool mpa_rx_give_stage(struct mpa_rx *rx, uint8_t *mem, uint32_t size)
{
	if (rx->have > 0 || size < mpa_rx_stage_need(rx))
		return false;
	rx->stage = mem;
	rx->stage_size = size;
	return true;
}

bool mpa_rx_idle(const struct mpa_rx *rx) { return rx->have == 0; }

uint8_t *mpa_rx_take_stage(struct mpa_rx *rx)
{
	uint8_t *mem = rx->stage;

	if (!mpa_rx_idle(rx))
		return NULL;
	rx->stage = NULL;
	rx->stage_size = 0;
	return mem;
}

bool mpa_rx_crc(const struct mpa_view *v)
{
	if (!v->crc_on)
		return true;
	if (v->staged)
		return v->crc_sum == v->crc_field;
	struct mpa_rx_in in = v->raw;
	uint32_t sum = 0;
	for (uint32_t left = v->raw_len - MPA_CRC_LEN; left > 0;) {
		struct rn_iov piece = in_piece(&in, left);

		sum = crc32c(sum, piece.base, piece.len);
		left -= piece.len;
	}
	return sum == v->crc_field;
}

struct iw_err mpa_rx_err(enum mpa_rx_verdict v)
{
	switch (v) {
	case MPA_RX_BAD_MARKER:
	case MPA_RX_TOO_SHORT:
	case MPA_RX_EMPTY: return iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_MARKER, false);
	case MPA_RX_FPDU:
	case MPA_RX_MORE:
	case MPA_RX_NEED_STAGE: break;
	}
	return iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CATASTROPHIC, false);
}

void mpa_rx_unread(struct mpa_rx *rx, const struct mpa_view *v) { fpdu_begins_next(rx, v->pos); }
