/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/ddp.h"

#include "base/rn_be.h"

#define DDP_DV_MASK    0x03
#define RDMAP_RV_SHIFT 6
#define RDMAP_OP_MASK  0x0f

static enum ddp_verdict check_tagged(const struct ddp_hdr *h)
{
	if (h->payload_len > 0 && h->to > UINT64_MAX - (h->payload_len - 1))
		return DDP_TO_WRAP;
	return DDP_OK;
}

static enum ddp_verdict check_untagged(const struct ddp_hdr *h, const struct rdmap_op *op)
{
	if (h->qn != op->qn)
		return DDP_BAD_QN;
	if (h->payload_len > UINT32_MAX - h->mo)
		return DDP_BAD_MO;
	if (rn_likely(!op->single))
		return DDP_OK;
	if (h->mo != 0)
		return DDP_BAD_MO;
	return h->last ? DDP_OK : DDP_BAD_LENGTH;
}

enum ddp_verdict ddp_parse(const uint8_t *p, uint32_t ulpdu_len, struct ddp_hdr *h)
{
	*h = (struct ddp_hdr){ 0 };
	if (ulpdu_len < DDP_MIN_HDR_LEN)
		return DDP_TOO_SHORT;
	h->tagged = (p[0] & DDP_F_TAGGED) != 0;
	h->last = (p[0] & DDP_F_LAST) != 0;
	h->opcode = p[1] & RDMAP_OP_MASK;
	h->stag = rn_load_be32(p + 2);
	if (h->tagged) {
		h->hdr_len = DDP_TAGGED_HDR_LEN;
		h->to = rn_load_be64(p + 6);
	} else {
		if (ulpdu_len < DDP_UNTAGGED_HDR_LEN)
			return DDP_TOO_SHORT;
		h->hdr_len = DDP_UNTAGGED_HDR_LEN;
		h->qn = rn_load_be32(p + 6);
		h->msn = rn_load_be32(p + 10);
		h->mo = rn_load_be32(p + 14);
	}
	h->payload_len = ulpdu_len - h->hdr_len;

	/* DDP's own fields come first, then RDMAP's. Reserved bits are not looked at (RFC 5041 section 4.1). */
	if ((p[0] & DDP_DV_MASK) != DDP_VERSION)
		return DDP_BAD_VERSION;
	if (!h->tagged && h->qn >= DDP_NUM_QN)
		return DDP_BAD_QN;
	if (p[1] >> RDMAP_RV_SHIFT != RDMAP_VERSION)
		return DDP_BAD_RDMAP_VERSION;
	const struct rdmap_op *op = rdmap_op_of(h->opcode);
	if (op->name == NULL)
		return DDP_BAD_OPCODE;
	if (op->tagged != h->tagged)
		return DDP_BAD_TBIT;
	enum ddp_verdict v = h->tagged ? check_tagged(h) : check_untagged(h, op);
	if (v != DDP_OK)
		return v;
	if (h->payload_len < op->min_payload || (op->max_payload && h->payload_len > op->max_payload))
		return DDP_BAD_LENGTH;
	return DDP_OK;
}

struct iw_err ddp_verdict_err(enum ddp_verdict v, const struct ddp_hdr *h)
{
	bool rr = h->opcode == RDMAP_READ_REQ;

	switch (v) {
	case DDP_TOO_SHORT: /* the length field is impossible */
		return iw_err_of(IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_MARKER, false);
	case DDP_BAD_VERSION:
		return h->tagged ? iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_VERSION, rr)
				 : iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_VERSION, rr);
	case DDP_BAD_QN: return iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_QN, rr);
	case DDP_BAD_MO: return iw_err_of(IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MO, rr);
	case DDP_TO_WRAP: return iw_err_of(IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_TO_WRAP, rr);
	case DDP_BAD_RDMAP_VERSION: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_VERSION, rr);
	case DDP_BAD_OPCODE:
	case DDP_BAD_TBIT: return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, rr);
	case DDP_OK:
	case DDP_BAD_LENGTH: break;
	}
	return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, rr);
}

uint32_t ddp_build(uint8_t *dst, const struct ddp_hdr *h)
{
	dst[0] = (uint8_t)(DDP_VERSION | (h->tagged ? DDP_F_TAGGED : 0) | (h->last ? DDP_F_LAST : 0));
	dst[1] = (uint8_t)(RDMAP_VERSION << RDMAP_RV_SHIFT | (h->opcode & RDMAP_OP_MASK));
	rn_store_be32(dst + 2, h->stag);
	if (h->tagged) {
		rn_store_be64(dst + 6, h->to);
		return DDP_TAGGED_HDR_LEN;
	}
	rn_store_be32(dst + 6, h->qn);
	rn_store_be32(dst + 10, h->msn);
	rn_store_be32(dst + 14, h->mo);
	return DDP_UNTAGGED_HDR_LEN;
}

struct ddp_hdr ddp_tagged(enum rdmap_opcode op, bool last, uint32_t stag, uint64_t to)
{
	return (struct ddp_hdr){ .opcode = (uint8_t)op,
				 .tagged = true,
				 .last = last,
				 .hdr_len = DDP_TAGGED_HDR_LEN,
				 .stag = stag,
				 .to = to };
}

struct ddp_hdr ddp_untagged(enum rdmap_opcode op, bool last, uint32_t inv_stag, uint32_t msn, uint32_t mo)
{
	return (struct ddp_hdr){ .opcode = (uint8_t)op,
				 .last = last,
				 .hdr_len = DDP_UNTAGGED_HDR_LEN,
				 .stag = inv_stag,
				 .qn = rdmap_op_of((uint8_t)op)->qn,
				 .msn = msn,
				 .mo = mo };
}
