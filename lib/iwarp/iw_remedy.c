/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/iw_remedy.h"

#include <stddef.h>

struct remedy {
	uint8_t layer, etype, code;
	const char *text;
};

static const struct remedy remedies[] = {
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALID,
	  "The STag (rkey) names no memory at the peer that was asked: compare the rkey that the program "
	  "exchanged, and look whether the peer has deregistered the region." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_BASE_BOUNDS,
	  "The Read or Atomic reaches outside the region: compare remote address and length with those that "
	  "were registered." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_ACCESS,
	  "The region does not allow this operation: register it with IBV_ACCESS_REMOTE_READ or "
	  "IBV_ACCESS_REMOTE_ATOMIC." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_STREAM,
	  "The region belongs to another protection domain than the peer's queue pair: use one PD for both." },
	{ IW_LAYER_RDMAP, IW_RDMAP_PROTECTION, IW_RP_STAG_INVALIDATE,
	  "A Send with Invalidate named an STag that cannot be invalidated: only memory windows of type 2 "
	  "can." },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_INVALID,
	  "The STag (rkey) of an RDMA Write names no memory at the peer: compare the rkey that the program "
	  "exchanged, and look whether the peer has deregistered the region." },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_BASE_BOUNDS,
	  "The RDMA Write reaches outside the region: compare remote address and length with those that were "
	  "registered." },
	{ IW_LAYER_DDP, IW_DDP_TAGGED, IW_DT_STAG_STREAM,
	  "The region belongs to another protection domain than the peer's queue pair, or does not allow "
	  "remote writes: use one PD for both and register with IBV_ACCESS_REMOTE_WRITE." },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_NO_BUFFER,
	  "A Send arrived and no receive was posted: post receives before the peer sends (RFC 5040 ends the "
	  "connection), or set rnr = wait on the port, where the message waits for one." },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_TOO_LONG,
	  "A Send is longer than the receive that it met: post larger receive buffers." },
	{ IW_LAYER_DDP, IW_DDP_UNTAGGED, IW_DU_QN,
	  "An XRC message named a shared receive queue that is not in the target's domain: compare the number of "
	  "ibv_get_srq_num() that the program exchanged, and look whether that queue's process has ended." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CRC,
	  "An FPDU arrived damaged: something between the two hosts changes bytes, or `corrupt` is set on "
	  "the port." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_MARKER,
	  "An FPDU does not lie in the stream as MPA has it: compare `markers` and `marker-spacing` of both ends." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_CLOSED,
	  "The TCP connection ended in the middle: the peer was killed, or the network lost it." },
	{ IW_LAYER_LLP, IW_LLP_MPA, IW_MPA_IRD,
	  "The peer answers fewer Reads at once than were asked for: lower initiator_depth, or raise the "
	  "peer's responder_resources." },
};

#define REMEDIES (sizeof(remedies) / sizeof(remedies[0]))

const char *iw_err_remedy(struct iw_err e)
{
	for (size_t i = 0; i < REMEDIES; i++)
		if (remedies[i].layer == e.layer && remedies[i].etype == e.etype && remedies[i].code == e.code)
			return remedies[i].text;
	return NULL;
}

bool iw_remedy_at(uint32_t i, struct iw_err *e)
{
	if (i >= REMEDIES)
		return false;
	*e = (struct iw_err){ .layer = remedies[i].layer, .etype = remedies[i].etype, .code = remedies[i].code };
	return true;
}
