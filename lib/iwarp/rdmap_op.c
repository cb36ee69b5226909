/* SPDX-License-Identifier: BSD-3-Clause */
#include "iwarp/rdmap_op.h"

#define TAGGED(text)          .name = text, .tagged = 1, .hdr_len = DDP_TAGGED_HDR_LEN
#define UNTAGGED(text, queue) .name = text, .qn = queue, .hdr_len = DDP_UNTAGGED_HDR_LEN

const struct rdmap_op rdmap_ops[RDMAP_NUM_OPCODES] = {
	[RDMAP_WRITE] = { TAGGED("RDMA Write") },
	[RDMAP_READ_REQ] = { UNTAGGED("RDMA Read Request", DDP_QN_READ_REQ), .single = 1,
			     .min_payload = RDMAP_READ_REQ_LEN, .max_payload = RDMAP_READ_REQ_LEN },
	[RDMAP_READ_RESP] = { TAGGED("RDMA Read Response") },
	[RDMAP_SEND] = { UNTAGGED("Send", DDP_QN_SEND), .takes_recv = 1 },
	[RDMAP_SEND_INV] = { UNTAGGED("Send with Invalidate", DDP_QN_SEND), .takes_recv = 1, .invalidates = 1 },
	[RDMAP_SEND_SE] = { UNTAGGED("Send with SE", DDP_QN_SEND), .takes_recv = 1, .solicited = 1 },
	[RDMAP_SEND_SE_INV] = { UNTAGGED("Send with SE and Invalidate", DDP_QN_SEND), .takes_recv = 1, .invalidates = 1,
				.solicited = 1 },
	[RDMAP_TERMINATE] = { UNTAGGED("Terminate", DDP_QN_TERMINATE), .single = 1 },
	[RDMAP_IMM] = { UNTAGGED("Immediate Data", DDP_QN_SEND), .takes_recv = 1, .single = 1,
			.min_payload = RDMAP_IMM_LEN, .max_payload = RDMAP_IMM_LEN },
	[RDMAP_IMM_SE] = { UNTAGGED("Immediate Data with SE", DDP_QN_SEND), .takes_recv = 1, .single = 1,
			   .min_payload = RDMAP_IMM_LEN, .max_payload = RDMAP_IMM_LEN, .solicited = 1 },
	[RDMAP_ATOMIC_REQ] = { UNTAGGED("Atomic Request", DDP_QN_READ_REQ), .single = 1,
			       .min_payload = RDMAP_ATOMIC_REQ_LEN, .max_payload = RDMAP_ATOMIC_REQ_LEN },
	[RDMAP_ATOMIC_RESP] = { UNTAGGED("Atomic Response", DDP_QN_ATOMIC_RESP), .single = 1,
				.min_payload = RDMAP_ATOMIC_RESP_LEN, .max_payload = RDMAP_ATOMIC_RESP_LEN },
};
