/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/rdmap_wire.h"

#include <string.h>

#include "base/rn_be.h"

#define TERM_CTRL_LEN      4 /* layer and type, code, HdrCt, reserved */
#define TERM_SEGLEN_LEN    2
#define HDRCT_RFC_MASK     (IW_HDRCT_LEN | IW_HDRCT_DDP | IW_HDRCT_RDMAP)
#define HDRCT_SWAPPED_MASK 0x07 /* M 0x01, D 0x02, R 0x04 */

void rdmap_read_req_build(uint8_t *dst, const struct rdmap_read_req *r)
{
	rn_store_be32(dst, r->sink_stag);
	rn_store_be64(dst + 4, r->sink_to);
	rn_store_be32(dst + 12, r->len);
	rn_store_be32(dst + 16, r->src_stag);
	rn_store_be64(dst + 20, r->src_to);
}

void rdmap_read_req_parse(const uint8_t *p, struct rdmap_read_req *r)
{
	r->sink_stag = rn_load_be32(p);
	r->sink_to = rn_load_be64(p + 4);
	r->len = rn_load_be32(p + 12);
	r->src_stag = rn_load_be32(p + 16);
	r->src_to = rn_load_be64(p + 20);
}

#define AOPCODE_MASK 0x0f /* of the first word's last octet; the 28 bits before it are reserved */

void rdmap_atomic_req_build(uint8_t *dst, const struct rdmap_atomic_req *r)
{
	rn_store_be32(dst, r->op);
	rn_store_be32(dst + 4, r->id);
	rn_store_be32(dst + 8, r->stag);
	rn_store_be64(dst + 12, r->to);
	rn_store_be64(dst + 20, r->data);
	rn_store_be64(dst + 28, r->mask);
	rn_store_be64(dst + 36, r->compare);
	rn_store_be64(dst + 44, r->compare_mask);
}

void rdmap_atomic_req_parse(const uint8_t *p, struct rdmap_atomic_req *r)
{
	r->op = p[3] & AOPCODE_MASK;
	r->id = rn_load_be32(p + 4);
	r->stag = rn_load_be32(p + 8);
	r->to = rn_load_be64(p + 12);
	r->data = rn_load_be64(p + 20);
	r->mask = rn_load_be64(p + 28);
	r->compare = rn_load_be64(p + 36);
	r->compare_mask = rn_load_be64(p + 44);
}

void rdmap_atomic_resp_build(uint8_t *dst, const struct rdmap_atomic_resp *r)
{
	rn_store_be32(dst, r->id);
	rn_store_be64(dst + 4, r->value);
}

void rdmap_atomic_resp_parse(const uint8_t *p, struct rdmap_atomic_resp *r)
{
	r->id = rn_load_be32(p);
	r->value = rn_load_be64(p + 4);
}

uint64_t rdmap_atomic_result(const struct rdmap_atomic_req *r, uint64_t old)
{
	if (r->op == RDMAP_CMP_SWAP)
		return (old ^ r->compare) & r->compare_mask ? old : (old & ~r->mask) | (r->data & r->mask);
	/* Adds all fields at once: without their highest bits, which then take the carry but pass none on. */
	return ((old & ~r->mask) + (r->data & ~r->mask)) ^ ((old ^ r->data) & r->mask);
}

static struct iw_err read_rfc(const uint8_t *p)
{
	return (struct iw_err){
		.layer = p[0] >> 4, .etype = p[0] & 0x0f, .code = p[1], .hdrct = p[2] & HDRCT_RFC_MASK
	};
}

/* siw declares these bits as C bit-fields, least significant first: nibbles change place, M D R are mirrored. */
static struct iw_err read_swapped(const uint8_t *p)
{
	return (struct iw_err){ .layer = p[0] & 0x0f,
				.etype = p[0] >> 4,
				.code = p[1],
				.hdrct = (uint8_t)((p[2] & 0x01 ? IW_HDRCT_LEN : 0) | (p[2] & 0x02 ? IW_HDRCT_DDP : 0) |
						   (p[2] & 0x04 ? IW_HDRCT_RDMAP : 0)) };
}

/*
 * The HdrCt octet decides, if it can: M D R stand at its opposite ends. With no header copied, the form wins in which
 * an RFC names the error; if both do, the RFC's own form wins.
 */
static struct iw_err read_control(const uint8_t *p, enum rdmap_term_form *form)
{
	struct iw_err rfc = read_rfc(p), swapped = read_swapped(p);

	if (p[2] & HDRCT_RFC_MASK) {
		*form = RDMAP_TERM_RFC;
		return rfc;
	}
	if (p[2] & HDRCT_SWAPPED_MASK) {
		*form = RDMAP_TERM_SWAPPED;
		return swapped;
	}
	if (iw_err_known(rfc)) {
		*form = iw_err_known(swapped) ? RDMAP_TERM_EITHER : RDMAP_TERM_RFC;
		return rfc;
	}
	*form = iw_err_known(swapped) ? RDMAP_TERM_SWAPPED : RDMAP_TERM_RFC;
	return *form == RDMAP_TERM_SWAPPED ? swapped : rfc;
}

static enum rdmap_term_verdict read_headers(const uint8_t *p, uint32_t len, struct rdmap_term *t)
{
	if (len < TERM_SEGLEN_LEN)
		return RDMAP_TERM_CUT;
	t->segment_len = rn_load_be16(p);
	p += TERM_SEGLEN_LEN;
	len -= TERM_SEGLEN_LEN;
	if (!(t->err.hdrct & IW_HDRCT_DDP))
		return RDMAP_TERM_OK;
	if (len < DDP_MIN_HDR_LEN)
		return RDMAP_TERM_CUT;
	uint8_t ddp_len = p[0] & DDP_F_TAGGED ? DDP_TAGGED_HDR_LEN : DDP_UNTAGGED_HDR_LEN;
	if (len < ddp_len)
		return RDMAP_TERM_CUT;
	memcpy(t->ddp, p, ddp_len);
	t->ddp_len = ddp_len;
	p += ddp_len;
	len -= ddp_len;
	if (!(t->err.hdrct & IW_HDRCT_RDMAP))
		return RDMAP_TERM_OK;
	if (len < RDMAP_READ_REQ_LEN)
		return RDMAP_TERM_CUT;
	rdmap_read_req_parse(p, &t->read_req);
	t->has_read_req = true;
	return RDMAP_TERM_OK;
}

enum rdmap_term_verdict rdmap_term_parse(const uint8_t *p, uint32_t len, struct rdmap_term *t)
{
	*t = (struct rdmap_term){ 0 };
	if (len < TERM_CTRL_LEN)
		return RDMAP_TERM_SHORT;
	t->err = read_control(p, &t->form);
	if (t->err.hdrct && read_headers(p + TERM_CTRL_LEN, len - TERM_CTRL_LEN, t) != RDMAP_TERM_OK)
		return RDMAP_TERM_CUT;
	return iw_err_known(t->err) ? RDMAP_TERM_OK : RDMAP_TERM_UNKNOWN;
}

uint32_t rdmap_term_build(uint8_t *dst, struct iw_err e, const uint8_t *seg, uint32_t seg_len)
{
	uint32_t at = TERM_CTRL_LEN;
	uint32_t ddp_len = 0;

	if (seg != NULL && seg_len >= DDP_MIN_HDR_LEN)
		ddp_len = seg[0] & DDP_F_TAGGED ? DDP_TAGGED_HDR_LEN : DDP_UNTAGGED_HDR_LEN;
	if (ddp_len == 0 || seg_len < ddp_len)
		e.hdrct = 0;
	else if (seg_len < ddp_len + RDMAP_READ_REQ_LEN)
		e.hdrct &= (uint8_t)~IW_HDRCT_RDMAP;
	dst[0] = (uint8_t)(e.layer << 4 | (e.etype & 0x0f));
	dst[1] = e.code;
	dst[2] = e.hdrct;
	dst[3] = 0;
	if (e.hdrct == 0)
		return at;
	rn_store_be16(dst + at, (uint16_t)rn_min_u32(seg_len, UINT16_MAX));
	at += TERM_SEGLEN_LEN;
	if (!(e.hdrct & IW_HDRCT_DDP))
		return at;
	if (e.hdrct & IW_HDRCT_RDMAP)
		ddp_len += RDMAP_READ_REQ_LEN;
	memcpy(dst + at, seg, ddp_len);
	return at + ddp_len;
}
