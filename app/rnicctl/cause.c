/* SPDX-License-Identifier: BSD-3-Clause */
#include "cause.h"

#include <stdio.h>

#include "iwarp/iw_term.h"

/* A Terminate error that a program can do something about. */
struct remedy {
	uint8_t layer, etype, code;
	const char *text;
};

static const struct remedy remedies[] = {
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID,
	  "The STag (rkey) names no memory at the peer that was asked: compare the rkey that the program exchanged, "
	  "and look\n"
	  "whether the peer has deregistered the region." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_BASE_BOUNDS,
	  "The Read or Atomic reaches outside the region: compare remote address and length with those that were "
	  "registered." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS,
	  "The region does not allow this operation: register it with IBV_ACCESS_REMOTE_READ or "
	  "IBV_ACCESS_REMOTE_ATOMIC." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_STREAM,
	  "The region belongs to another protection domain than the peer's queue pair: use one PD for both." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALIDATE,
	  "A Send with Invalidate named an STag that cannot be invalidated: only memory windows of type 2 can." },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID,
	  "The STag (rkey) of an RDMA Write names no memory at the peer: compare the rkey that the program exchanged, "
	  "and look\n"
	  "whether the peer has deregistered the region." },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS,
	  "The RDMA Write reaches outside the region: compare remote address and length with those that were "
	  "registered." },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_STREAM,
	  "The region belongs to another protection domain than the peer's queue pair, or does not allow remote "
	  "writes:\n"
	  "use one PD for both and register with IBV_ACCESS_REMOTE_WRITE." },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER,
	  "A Send arrived and no receive was posted: post receives before the peer sends (RFC 5040 ends the "
	  "connection), or set\n"
	  "personality = roce on the port, where the message waits as rnr_retry says." },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_TOO_LONG,
	  "A Send is longer than the receive that it met: post larger receive buffers." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CRC,
	  "An FPDU arrived damaged: something between the two hosts changes bytes, or `corrupt` is set on the port." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CLOSED,
	  "The TCP connection ended in the middle: the peer was killed, or the network lost it." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_IRD,
	  "The peer answers fewer Reads at once than were asked for: lower initiator_depth, or raise the peer's "
	  "responder_resources." },
};

int cause_explain(uint32_t vendor_err)
{
	const struct iw_err e = { .layer = (uint8_t)(vendor_err >> 16),
				  .etype = (uint8_t)(vendor_err >> 8),
				  .code = (uint8_t)vendor_err };

	if (vendor_err >> 24 != 0 || !iw_err_known(e)) {
		fprintf(stderr,
			"rnicctl: no RFC names the error 0x%x: vendor_err is layer << 16 | type << 8 | code of a "
			"Terminate\n",
			vendor_err);
		return 1;
	}
	printf("0x%05x  %s\n", vendor_err, iw_err_text(e));
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (remedies[i].layer == e.layer && remedies[i].etype == e.etype && remedies[i].code == e.code)
			puts(remedies[i].text);
	return 0;
}
