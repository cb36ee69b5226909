/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payloads that RDMAP itself defines: the RDMA Read Request header (RFC 5040 section 4.4) and the Terminate header
 * (section 4.8). Pure functions, no state.
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

/* dst / p: RDMAP_READ_REQ_LEN octets. Cannot fail: ranges are the STag table's business. */
void rdmap_read_req_build(uint8_t *dst, const struct rdmap_read_req *r);
void rdmap_read_req_parse(const uint8_t *p, struct rdmap_read_req *r);

enum rdmap_term_form {
	RDMAP_TERM_RFC,   /* layer in the high nibble, M D R = 0x80 0x40 0x20 */
	RDMAP_TERM_SWAPPED, /* Linux siw on little endian: nibbles and the M D R bits mirrored */
	RDMAP_TERM_EITHER,/* reads the same in both (for example 0x11 with no header copied) */
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
 * Reads a Terminate payload of len octets, in the RFC's form or in siw's, and says which. The verdict is for logs and
 * counters: whatever it is, the stream has been terminated by the peer. The copied headers are the peer's claim; use
 * them to find a work request to blame, never as an index unchecked.
 */
enum rdmap_term_verdict rdmap_term_parse(const uint8_t *p, uint32_t len, struct rdmap_term *t);

/*
 * Writes a Terminate payload into dst (RDMAP_TERM_MAX_LEN octets) for error e, in the RFC's form. seg: the offending
 * DDP segment, its first min(seg_len, 46) octets readable; NULL when there is none (the HdrCt bits are then cleared).
 * Returns the octets written.
 */
uint32_t rdmap_term_build(uint8_t *dst, struct iw_err e, const uint8_t *seg, uint32_t seg_len);

#endif
