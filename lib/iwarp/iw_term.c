/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/iw_term.h"

#include "base/rn_base.h"

static const struct {
	uint8_t layer, etype, code;
	const char *text;
} texts[] = {
	{ IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, "RDMAP: local catastrophic error" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID, "RDMAP: invalid STag" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_BASE_BOUNDS, "RDMAP: base or bounds violation" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS, "RDMAP: access rights violation" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_STREAM, "RDMAP: STag not associated with the stream" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_TO_WRAP, "RDMAP: TO wrap" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALIDATE, "RDMAP: STag cannot be invalidated" },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_UNSPECIFIED, "RDMAP: unspecified protection error" },
	{ IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_VERSION, "RDMAP: invalid version" },
	{ IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_OPCODE, "RDMAP: unexpected opcode" },
	{ IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_STREAM, "RDMAP: catastrophic error of the stream" },
	{ IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_CATASTROPHIC_GLOBAL, "RDMAP: catastrophic error, global" },
	{ IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_STAG_INVALIDATE, "RDMAP: STag cannot be invalidated" },
	{ IW_LAYER_RDMAP, IW_RDMAP_OPERATION, IW_RO_UNSPECIFIED, "RDMAP: unspecified operation error" },
	{ IW_LAYER_DDP, IW_DDP_LOCAL, IW_LOCAL, "DDP: local catastrophic error" },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID, "DDP tagged: invalid STag" },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS, "DDP tagged: base or bounds violation" },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_STREAM, "DDP tagged: STag not associated with the stream" },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_TO_WRAP, "DDP tagged: TO wrap" },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_VERSION, "DDP tagged: invalid version" },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_QN, "DDP untagged: invalid QN" },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER, "DDP untagged: invalid MSN, no buffer available" },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MSN_RANGE, "DDP untagged: invalid MSN, range not valid" },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_MO, "DDP untagged: invalid MO" },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_TOO_LONG, "DDP untagged: message too long for its buffer" },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_VERSION, "DDP untagged: invalid version" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CLOSED, "MPA: TCP connection closed or lost" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CRC, "MPA: CRC error" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_MARKER, "MPA: marker and ULPDU_Length do not agree" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_FRAME, "MPA: invalid Request or Reply frame" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CATASTROPHIC, "MPA: local catastrophic error" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_IRD, "MPA: insufficient IRD resources" },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_RTR, "MPA: no matching RTR option" },
};

struct iw_err iw_err_of(enum iw_layer layer, enum iw_etype etype, enum iw_code code, bool read_request)
{
	struct iw_err e = { .layer = (uint8_t)layer, .etype = (uint8_t)etype, .code = (uint8_t)code };

	if (layer == IW_LAYER_DDP && etype != IW_DDP_LOCAL)
		e.hdrct = IW_HDRCT_LEN | IW_HDRCT_DDP;
	else if (layer == IW_LAYER_RDMAP && etype != IW_RDMAP_LOCAL)
		e.hdrct = (uint8_t)(IW_HDRCT_LEN | IW_HDRCT_DDP | (read_request ? IW_HDRCT_RDMAP : 0));
	return e;
}

static const char *find_text(struct iw_err e)
{
	for (uint32_t i = 0; i < RN_ARRAY_LEN(texts); i++)
		if (texts[i].layer == e.layer && texts[i].etype == e.etype && texts[i].code == e.code)
			return texts[i].text;
	return NULL;
}

bool iw_err_known(struct iw_err e) { return find_text(e) != NULL; }

const char *iw_err_text(struct iw_err e)
{
	const char *s = find_text(e);

	return s ? s : "unknown";
}
