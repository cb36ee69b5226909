/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds whole FPDUs in a segment ahead of the stream: RFC 5044 section 6 and appendix B (out-of-order receipt). */
#include "iwarp/mpa_rx.h"

#include "base/rn_be.h"

void mpa_find_init(struct mpa_find *f, const struct mpa_rx *rx, uint32_t pos, const struct rn_iov *iov, uint32_t n)
{
	mpa_rx_init(&f->rx, rx->step, rx->crc);
	f->rx.pos = f->rx.start = pos;
	mpa_rx_input(&f->in, iov, n);
	f->state = MPA_FIND_START;
}

/* The next FPDU at the cursor, if it is whole and its CRC is good. */
static bool next_here(struct mpa_find *f, struct mpa_view *v)
{
	for (;;) {
		enum mpa_rx_verdict r = mpa_rx_next(&f->rx, &f->in, v);

		if ((r != MPA_RX_FPDU && r != MPA_RX_EMPTY) || !mpa_rx_crc(v))
			return false;
		if (r == MPA_RX_FPDU)
			return true;
	}
}

/* Puts the cursor on the octet at distance off from the segment's first. */
static void seek(struct mpa_find *f, uint32_t pos, uint32_t off)
{
	f->rx.pos = f->rx.start = pos + off;
	f->in.idx = 0;
	while (f->in.idx < f->in.n && off >= f->in.iov[f->in.idx].len)
		off -= f->in.iov[f->in.idx++].len;
	f->in.off = off;
}

/*
 * The distance from the segment's first octet to the first octet of the FPDU that the marker at distance `at` points
 * to; false when that lies before the segment or cannot be.
 */
static bool fpdu_of_marker(const uint8_t *mark, uint32_t pos, uint32_t at, uint32_t step, uint32_t *off)
{
	uint32_t ptr = rn_load_be16(mark + 2) & 0xfffc;

	if (ptr == 0) {
		*off = at;
		return true;
	}
	if (ptr > at)
		return false;
	uint32_t len_at = at - ptr;
	uint32_t lead = mpa_lead(pos + len_at - MPA_MARKER_LEN, step);
	if (len_at < lead)
		return false;
	*off = len_at - lead;
	return true;
}

static bool sync_by_marker(struct mpa_find *f, uint32_t pos)
{
	uint64_t len = rn_iov_len(f->in.iov, f->in.n);

	uint32_t step = f->rx.step;

	for (uint32_t at = (0u - pos) & (step - 1); rn_in_range(at, MPA_MARKER_LEN, len); at += step) {
		uint8_t mark[MPA_MARKER_LEN];
		uint32_t off;

		seek(f, pos, at);
		for (uint32_t i = 0; i < MPA_MARKER_LEN; i++, f->in.off++) {
			while (f->in.off >= f->in.iov[f->in.idx].len) {
				f->in.idx++;
				f->in.off = 0;
			}
			mark[i] = f->in.iov[f->in.idx].base[f->in.off];
		}
		if (fpdu_of_marker(mark, pos, at, step, &off)) {
			seek(f, pos, off);
			return true;
		}
	}
	return false;
}

static bool first_fpdu(struct mpa_find *f, struct mpa_view *v)
{
	uint32_t pos = f->rx.pos;

	if (f->rx.step != 0)
		return sync_by_marker(f, pos) && next_here(f, v);
	/* An aligned sender begins the segment with an FPDU; the CRC tells whether this is one. */
	return f->rx.crc && next_here(f, v);
}

bool mpa_find_next(struct mpa_find *f, struct mpa_view *v)
{
	bool found = false;

	switch (f->state) {
	case MPA_FIND_START: found = first_fpdu(f, v); break;
	case MPA_FIND_SYNCED: found = next_here(f, v); break;
	case MPA_FIND_DONE: break;
	}
	f->state = found ? MPA_FIND_SYNCED : MPA_FIND_DONE;
	return found;
}
