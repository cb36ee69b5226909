/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payloads that RDMAP itself defines: the RDMA Read Request header (RFC 5040 section 4.4), the Terminate header
 * (section 4.8), and Atomic Requests and Responses (RFC 7306 section 5.2). Pure functions, no state.
 */
#ifndef RDMAP_WIRE_H
#define RDMAP_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "iwarp/ddp.h"
#include "iwarp/iw_term.h"

struct rdmap_read_req {
	uint32_t sink_stag;
	uint64_t sink_to;
	uint32_t len; /* octets to be read */
	uint32_t src_stag;
	uint64_t src_to;
};

/* dst / p: RDMAP_READ_REQ_LEN octets. Cannot fail: the STag table checks ranges. */
void rdmap_read_req_build(uint8_t *dst, const struct rdmap_read_req *r);
void rdmap_read_req_parse(const uint8_t *p, struct rdmap_read_req *r);

/* ---- Atomic Operations ---- */

/* AOpCode: RFC 7306 section 5.2.1 and 10.1. The others are reserved. */
enum rdmap_atomic_op { RDMAP_FETCH_ADD = 0, RDMAP_CMP_SWAP = 2 };

struct rdmap_atomic_req {
	uint8_t op;  /* enum rdmap_atomic_op, or what the peer wrote there */
	uint32_t id; /* Request Identifier: comes back in the Response */
	uint32_t stag;
	uint64_t to;   /* tagged offset of the 8 octets */
	uint64_t data; /* Add Data or Swap Data */
	uint64_t mask; /* Add Mask: the highest bit of each field, no carry passes it. Swap Mask: the bits to write */
	uint64_t compare, compare_mask; /* CmpSwap; FetchAdd: 0 */
};
#define RDMAP_ADD_ONE_FIELD (UINT64_C(1) << 63) /* Add Mask of a plain 64-bit addition */

struct rdmap_atomic_resp {
	uint32_t id;    /* Original Request Identifier */
	uint64_t value; /* Original Remote Data Value */
};

/* dst / p: RDMAP_ATOMIC_REQ_LEN, RDMAP_ATOMIC_RESP_LEN octets. Cannot fail. */
void rdmap_atomic_req_build(uint8_t *dst, const struct rdmap_atomic_req *r);
void rdmap_atomic_req_parse(const uint8_t *p, struct rdmap_atomic_req *r);
void rdmap_atomic_resp_build(uint8_t *dst, const struct rdmap_atomic_resp *r);
void rdmap_atomic_resp_parse(const uint8_t *p, struct rdmap_atomic_resp *r);

/* The value that the operation makes of `old`: RFC 7306 sections 5.1.1, 5.1.2. op is one of the enum. */
uint64_t rdmap_atomic_result(const struct rdmap_atomic_req *r, uint64_t old);

/* ---- Terminate ---- */

enum rdmap_term_form {
	RDMAP_TERM_RFC,     /* layer in the high nibble, M D R = 0x80 0x40 0x20 */
	RDMAP_TERM_SWAPPED, /* Linux siw on little endian: nibbles and the M D R bits mirrored */
	RDMAP_TERM_EITHER,  /* the same octet in both forms (for example 0x11 with no header copied) */
};

enum rdmap_term_verdict {
	RDMAP_TERM_OK = 0,
	RDMAP_TERM_SHORT,   /* fewer than 4 octets: the connection is over all the same */
	RDMAP_TERM_CUT,     /* control word read, but the copied headers it announces are not all there */
	RDMAP_TERM_UNKNOWN, /* control word read, but no RFC names this layer, type and code */
};

struct rdmap_term {
	struct iw_err err;
	enum rdmap_term_form form;
	uint16_t segment_len; /* octets of the offending DDP segment; valid with IW_HDRCT_LEN */
	uint8_t ddp_len;      /* octets of DDP header copied: 0, 14 or 18 */
	bool has_read_req;
	uint8_t ddp[DDP_MAX_HDR_LEN];
	struct rdmap_read_req read_req;
};

/*
 * Parses a Terminate payload of len octets, in the RFC's form or in siw's. The verdict is for logs and counters:
 * whatever it is, the peer has terminated the stream. The copied headers are the peer's claim: use them to find the
 * work request at fault, never as an unchecked index.
 */
enum rdmap_term_verdict rdmap_term_parse(const uint8_t *p, uint32_t len, struct rdmap_term *t);

/*
 * Writes a Terminate payload into dst (RDMAP_TERM_MAX_LEN octets) for error e, in the RFC's form. seg: the offending
 * DDP segment, its first min(seg_len, 46) octets readable; NULL when there is none (the HdrCt bits are then cleared).
 * Returns the octets written.
 */
uint32_t rdmap_term_build(uint8_t *dst, struct iw_err e, const uint8_t *seg, uint32_t seg_len);

#endif
