/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the spacing of a sender's markers, for which MPA has no field: tries the wrong FPDU with other spacings. */
#include "iwarp/mpa_rx.h"

const uint16_t mpa_spacings[MPA_SPACINGS] = { 512, 1024, 2048, 4096, 0 };

/* Skips the first `off` octets. */
static struct mpa_rx_in behind(const struct rn_iov *iov, uint32_t n, uint32_t off)
{
	struct mpa_rx_in in;

	mpa_rx_input(&in, iov, n);
	for (in.off = off; in.idx < n && in.off >= iov[in.idx].len; in.idx++)
		in.off -= iov[in.idx].len;
	return in;
}

uint32_t mpa_fitting(const struct mpa_rx *rx, uint32_t pos, const struct rn_iov *iov, uint32_t n, uint32_t off)
{
	uint64_t all = rn_iov_len(iov, n);
	uint32_t fit = 0;

	for (uint32_t i = 0; i < MPA_SPACINGS && off < all; i++) {
		struct mpa_rx_in in = behind(iov, n, off);
		struct mpa_rx other;
		struct mpa_view v;

		mpa_rx_init(&other, mpa_spacings[i], rx->crc);
		other.pos = other.start = pos;
		if (mpa_spacings[i] == rx->step || mpa_rx_next(&other, &in, &v) != MPA_RX_FPDU)
			continue;
		if (rx->crc ? mpa_rx_crc(&v) : off + v.raw_len == all)
			fit |= 1u << i;
	}
	return fit;
}
