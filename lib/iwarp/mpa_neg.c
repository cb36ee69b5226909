/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/mpa_neg.h"

#include <string.h>

#include "base/rn_be.h"

#define FLAGS_AT  MPA_KEY_LEN
#define REV_AT    (MPA_KEY_LEN + 1)
#define PD_LEN_AT (MPA_KEY_LEN + 2)

static const char key_request[MPA_KEY_LEN + 1] = "MPA ID Req Frame";
static const char key_reply[MPA_KEY_LEN + 1] = "MPA ID Rep Frame";

const char *mpa_neg_text(enum mpa_neg_verdict v)
{
	switch (v) {
	case MPA_NEG_OK: return "agreed";
	case MPA_NEG_MORE: return "frame not complete";
	case MPA_NEG_BAD_KEY: return "not the expected MPA frame";
	case MPA_NEG_REV_0: return "MPA revision 0 is not supported";
	case MPA_NEG_REV_UNKNOWN: return "MPA revision unknown";
	case MPA_NEG_PD_TOO_LONG: return "private data too long";
	case MPA_NEG_PD_SHORT: return "enhanced frame without its IRD and ORD words";
	case MPA_NEG_REJECTED: return "rejected by the peer";
	case MPA_NEG_NO_RTR: return "no RTR kind in common";
	case MPA_NEG_IRD_SHORT: return "peer's ORD is above our IRD";
	case MPA_NEG_NO_MARKERS: return "peer wants markers, which are refused here";
	case MPA_NEG_NO_CRC: return "peer declines CRC, which is demanded here";
	}
	return "unknown";
}

bool mpa_neg_err(enum mpa_neg_verdict v, struct iw_err *e)
{
	if (v != MPA_NEG_NO_RTR && v != MPA_NEG_IRD_SHORT)
		return false;
	*e = iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, v == MPA_NEG_NO_RTR ? IW_MPA_RTR : IW_MPA_IRD, false);
	return true;
}

void mpa_neg_rx_init(struct mpa_neg_rx *rx, bool want_reply)
{
	rx->want_reply = want_reply;
	rx->have = 0;
}

static enum mpa_neg_verdict check_header(const struct mpa_neg_rx *rx)
{
	if (rx->buf[REV_AT] == 0)
		return MPA_NEG_REV_0;
	if (rx->buf[REV_AT] > 2)
		return MPA_NEG_REV_UNKNOWN;
	if (rn_load_be16(rx->buf + PD_LEN_AT) > MPA_PD_MAX)
		return MPA_NEG_PD_TOO_LONG;
	return MPA_NEG_OK;
}

/* RFC 6581 section 9.1: A B IRD(14), C D ORD(14). */
static void read_enhanced(const uint8_t *p, struct mpa_frame *f)
{
	uint16_t w0 = rn_load_be16(p), w1 = rn_load_be16(p + 2);

	f->enhanced = true;
	f->p2p = (w0 & 0x8000) != 0;
	f->rtr = (uint8_t)((w0 & 0x4000 ? MPA_RTR_SEND : 0) | (w1 & 0x8000 ? MPA_RTR_WRITE : 0) |
			   (w1 & 0x4000 ? MPA_RTR_READ : 0));
	f->ird = w0 & MPA_DEPTH_NONE;
	f->ord = w1 & MPA_DEPTH_NONE;
}

static enum mpa_neg_verdict read_frame(const struct mpa_neg_rx *rx, struct mpa_frame *f)
{
	*f = (struct mpa_frame){ .reply = rx->want_reply,
				 .flags = rx->buf[FLAGS_AT],
				 .rev = rx->buf[REV_AT],
				 .pd_len = rn_load_be16(rx->buf + PD_LEN_AT),
				 .pd = rx->buf + MPA_HDR_LEN };
	/* S has no meaning in revision 1 (RFC 5044 calls it reserved: not to be checked). */
	if (f->rev < 2 || !(f->flags & MPA_F_ENHANCED))
		return MPA_NEG_OK;
	if (f->pd_len < MPA_ENH_LEN) /* siw's reject may lack the words; its meaning is clear without them */
		return f->reply && (f->flags & MPA_F_REJECT) ? MPA_NEG_OK : MPA_NEG_PD_SHORT;
	read_enhanced(f->pd, f);
	f->pd += MPA_ENH_LEN;
	f->pd_len -= MPA_ENH_LEN;
	return MPA_NEG_OK;
}

enum mpa_neg_verdict mpa_neg_feed(struct mpa_neg_rx *rx, const uint8_t *p, uint32_t n, uint32_t *used,
				  struct mpa_frame *f)
{
	*used = 0;
	if (rx->have < MPA_HDR_LEN) {
		uint32_t take = rn_min_u32(n, MPA_HDR_LEN - rx->have);
		uint32_t key = rn_min_u32(rx->have + take, MPA_KEY_LEN);

		memcpy(rx->buf + rx->have, p, take);
		rx->have = (uint16_t)(rx->have + take);
		*used = take;
		if (memcmp(rx->buf, rx->want_reply ? key_reply : key_request, key) != 0)
			return MPA_NEG_BAD_KEY;
		if (rx->have < MPA_HDR_LEN)
			return MPA_NEG_MORE;
	}
	enum mpa_neg_verdict v = check_header(rx);
	if (v != MPA_NEG_OK)
		return v;
	uint32_t total = MPA_HDR_LEN + (uint32_t)rn_load_be16(rx->buf + PD_LEN_AT);
	uint32_t take = rn_min_u32(n - *used, total - rx->have);
	memcpy(rx->buf + rx->have, p + *used, take);
	rx->have = (uint16_t)(rx->have + take);
	*used += take;
	return rx->have < total ? MPA_NEG_MORE : read_frame(rx, f);
}

uint32_t mpa_neg_build(const struct mpa_frame *f, uint8_t *buf)
{
	uint32_t at = MPA_HDR_LEN;

	memcpy(buf, f->reply ? key_reply : key_request, MPA_KEY_LEN);
	buf[FLAGS_AT] = f->flags;
	buf[REV_AT] = f->rev;
	if (f->enhanced) {
		rn_store_be16(buf + at, (uint16_t)((f->p2p ? 0x8000 : 0) | (f->rtr & MPA_RTR_SEND ? 0x4000 : 0) |
						   (f->ird & MPA_DEPTH_NONE)));
		rn_store_be16(buf + at + 2,
			      (uint16_t)((f->rtr & MPA_RTR_WRITE ? 0x8000 : 0) | (f->rtr & MPA_RTR_READ ? 0x4000 : 0) |
					 (f->ord & MPA_DEPTH_NONE)));
		at += MPA_ENH_LEN;
	}
	if (f->pd_len > MPA_FRAME_MAX - at)
		return 0;
	if (f->pd_len > 0)
		memcpy(buf + at, f->pd, f->pd_len);
	at += f->pd_len;
	rn_store_be16(buf + PD_LEN_AT, (uint16_t)(at - MPA_HDR_LEN));
	return at;
}
