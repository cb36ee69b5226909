/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DDP header with the RDMAP control octet in it: RFC 5041 section 4, RFC 5040 section 4.1. Pure functions, no state.
 *
 *   tagged   14: T|L|Rsvd|DV  RV|Rsv|Opcode  STag(4)  TO(8)
 *   untagged 18: T|L|Rsvd|DV  RV|Rsv|Opcode  ULP word(4)  QN(4)  MSN(4)  MO(4)
 */
#ifndef DDP_H
#define DDP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "iwarp/iw_term.h"
#include "iwarp/rdmap_op.h"

#define DDP_F_TAGGED  0x80
#define DDP_F_LAST    0x40
#define DDP_VERSION   1 /* RFC 5041: low two bits of octet 0 */
#define RDMAP_VERSION 1 /* RFC 5040: high two bits of octet 1 */

/* A parsed header, host byte order. Fields that the form does not have are 0. */
struct ddp_hdr {
	uint8_t opcode; /* enum rdmap_opcode */
	bool tagged;
	bool last;            /* L: last segment of its message */
	uint8_t hdr_len;      /* octets: 14 or 18 */
	uint32_t payload_len; /* octets behind the header */
	uint32_t stag;        /* tagged: STag; untagged: the ULP word (STag to invalidate) */
	uint32_t qn, msn, mo; /* untagged; mo in octets */
	uint64_t to;          /* tagged: octets */
};

enum ddp_verdict {
	DDP_OK = 0,
	DDP_TOO_SHORT,   /* ULPDU shorter than the header its T bit announces */
	DDP_BAD_VERSION, /* DV is not 1 */
	DDP_BAD_RDMAP_VERSION,
	DDP_BAD_OPCODE, /* no such opcode here */
	DDP_BAD_TBIT,   /* T bit does not belong to this opcode */
	DDP_BAD_QN,     /* QN does not belong to this opcode, or there is no such queue */
	DDP_BAD_MO,     /* MO + length passes 2^32, or MO != 0 in a one-segment message */
	DDP_TO_WRAP,    /* TO + length passes 2^64 */
	DDP_BAD_LENGTH, /* payload not of the size this opcode has, or L missing on a one-segment message */
};

/*
 * Reads the header of one ULPDU. `p` points to min(ulpdu_len, DDP_MAX_HDR_LEN) contiguous readable octets. On DDP_OK
 * every field of *h is valid; on another verdict those that could be read are (for the Terminate's copied header). The
 * verdicts say what is checked; STags, MSNs and buffers are not.
 */
enum ddp_verdict ddp_parse(const uint8_t *p, uint32_t ulpdu_len, struct ddp_hdr *h) RN_NODISCARD;

/* The Terminate that answers a verdict other than DDP_OK for the header h. */
struct iw_err ddp_verdict_err(enum ddp_verdict v, const struct ddp_hdr *h);

/* Writes the header, from opcode, last and the fields of the opcode's form. Returns its length, 14 or 18 octets. */
uint32_t ddp_build(uint8_t *dst, const struct ddp_hdr *h);

/* For the transmit path: headers of the two forms. */
struct ddp_hdr ddp_tagged(enum rdmap_opcode op, bool last, uint32_t stag, uint64_t to);
struct ddp_hdr ddp_untagged(enum rdmap_opcode op, bool last, uint32_t inv_stag, uint32_t msn, uint32_t mo);

#endif
