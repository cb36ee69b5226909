/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The RDMAP opcodes, with a table of the properties that code depends on. RFC 5040 section 4.3 and figure 3; 8..11: RFC
 * 7306 section 4. Constant table, safe from any thread.
 */
#ifndef RDMAP_OP_H
#define RDMAP_OP_H

#include <stdbool.h>
#include <stdint.h>

enum rdmap_opcode {
	RDMAP_WRITE = 0,
	RDMAP_READ_REQ = 1,
	RDMAP_READ_RESP = 2,
	RDMAP_SEND = 3,
	RDMAP_SEND_INV = 4,
	RDMAP_SEND_SE = 5,
	RDMAP_SEND_SE_INV = 6,
	RDMAP_TERMINATE = 7,
	RDMAP_IMM = 8,
	RDMAP_IMM_SE = 9,
	RDMAP_ATOMIC_REQ = 10,
	RDMAP_ATOMIC_RESP = 11,
};
#define RDMAP_NUM_OPCODES 16 /* the field is 4 bits wide */

/* Untagged queues (RFC 5040 section 4.3, RFC 7306 section 4.2). */
enum ddp_qn {
	DDP_QN_SEND = 0,
	DDP_QN_READ_REQ = 1, /* and Atomic Requests */
	DDP_QN_TERMINATE = 2,
	DDP_QN_ATOMIC_RESP = 3,
};
#define DDP_NUM_QN 4

#define DDP_TAGGED_HDR_LEN   14 /* octets, with the RDMAP control octet */
#define DDP_UNTAGGED_HDR_LEN 18
#define DDP_MIN_HDR_LEN      14
#define DDP_MAX_HDR_LEN      18

#define RDMAP_READ_REQ_LEN    28 /* payload of a Read Request: RFC 5040 section 4.4 */
#define RDMAP_IMM_LEN         8  /* payload of Immediate Data: RFC 7306 section 6.2 */
#define RDMAP_ATOMIC_REQ_LEN  52 /* payload of an Atomic Request: RFC 7306 section 5.2.1 */
#define RDMAP_ATOMIC_RESP_LEN 12 /* payload of an Atomic Response: RFC 7306 section 5.2.2 */
#define RDMAP_TERM_MAX_LEN    52 /* control, length, 18 + 28 copied: RFC 5040 section 4.8 */

struct rdmap_op {
	const char *name; /* NULL: no such opcode here */
	uint8_t tagged;
	uint8_t qn;          /* enum ddp_qn, untagged only */
	uint8_t hdr_len;     /* octets: 14 or 18 */
	uint8_t single;      /* a message is exactly one DDP segment: L set, MO 0 */
	uint8_t min_payload; /* octets in a segment */
	uint8_t max_payload; /* octets in a segment; 0: no limit of its own */
	uint8_t invalidates; /* the ULP-specific word is an STag to invalidate */
	uint8_t solicited;   /* raises a solicited event at the receiver */
	uint8_t takes_recv;  /* consumes a receive work request */
};

/* Opcodes 12..15 have no row (name NULL): this side answers them with Unexpected OpCode. */
extern const struct rdmap_op rdmap_ops[RDMAP_NUM_OPCODES];

static inline const struct rdmap_op *rdmap_op_of(uint8_t opcode)
{
	return &rdmap_ops[opcode & (RDMAP_NUM_OPCODES - 1)];
}

#endif
