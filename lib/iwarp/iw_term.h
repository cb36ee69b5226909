/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a Terminate message says: layer, error type, error code, and which headers are copied into it.
 * RFC 5040 section 4.8, RFC 5041 section 7, RFC 5044 section 8, RFC 6581 section 9. Constants only, no state.
 */
#ifndef IW_TERM_H
#define IW_TERM_H

#include <stdbool.h>
#include <stdint.h>

enum iw_layer {
	IW_LAYER_RDMAP = 0,
	IW_LAYER_DDP = 1,
	IW_LAYER_LLP = 2, /* MPA over TCP */
};

enum iw_etype {
	/* layer RDMAP */
	IW_RDMAP_LOCAL = 0,      /* local catastrophic error */
	IW_RDMAP_PROTECTION = 1, /* remote protection error */
	IW_RDMAP_OPERATION = 2,  /* remote operation error */
	/* layer DDP */
	IW_DDP_LOCAL = 0,
	IW_DDP_TAGGED = 1,
	IW_DDP_UNTAGGED = 2,
	/* layer LLP */
	IW_LLP_MPA = 0,
};

enum iw_code {
	/* RDMAP, remote protection */
	IW_RP_STAG_INVALID = 0x00,
	IW_RP_BASE_BOUNDS = 0x01,
	IW_RP_ACCESS = 0x02,
	IW_RP_STAG_STREAM = 0x03,
	IW_RP_TO_WRAP = 0x04,
	IW_RP_STAG_INVALIDATE = 0x09,
	IW_RP_UNSPECIFIED = 0xff,
	/* RDMAP, remote operation */
	IW_RO_VERSION = 0x05,
	IW_RO_OPCODE = 0x06,
	IW_RO_CATASTROPHIC_STREAM = 0x07,
	IW_RO_CATASTROPHIC_GLOBAL = 0x08,
	IW_RO_STAG_INVALIDATE = 0x09,
	IW_RO_UNSPECIFIED = 0xff,
	/* DDP, tagged buffer */
	IW_DT_STAG_INVALID = 0x00,
	IW_DT_BASE_BOUNDS = 0x01,
	IW_DT_STAG_STREAM = 0x02,
	IW_DT_TO_WRAP = 0x03,
	IW_DT_VERSION = 0x04,
	/* DDP, untagged buffer */
	IW_DU_QN = 0x01,
	IW_DU_NO_BUFFER = 0x02,
	IW_DU_MSN_RANGE = 0x03,
	IW_DU_MO = 0x04,
	IW_DU_TOO_LONG = 0x05,
	IW_DU_VERSION = 0x06,
	/* LLP, MPA: 5..7 come from RFC 6581 */
	IW_MPA_CLOSED = 0x01,
	IW_MPA_CRC = 0x02,
	IW_MPA_MARKER = 0x03, /* marker and ULPDU_Length do not agree */
	IW_MPA_FRAME = 0x04,  /* invalid MPA Request or Reply */
	IW_MPA_CATASTROPHIC = 0x05,
	IW_MPA_IRD = 0x06, /* insufficient IRD resources */
	IW_MPA_RTR = 0x07, /* no matching RTR option */
	/* any layer, local catastrophic */
	IW_LOCAL = 0x00,
};

/* Which parts of the offending segment a Terminate carries (the HdrCt bits, as they stand in octet 2). */
#define IW_HDRCT_LEN   0x80 /* M: DDP Segment Length is valid */
#define IW_HDRCT_DDP   0x40 /* D: the DDP header is included */
#define IW_HDRCT_RDMAP 0x20 /* R: the RDMA Read Request header is included */

/* One error as it goes on the wire; 4 octets, passed by value. */
struct iw_err {
	uint8_t layer; /* enum iw_layer */
	uint8_t etype; /* enum iw_etype, meaning depends on layer */
	uint8_t code;  /* enum iw_code, meaning depends on layer and etype */
	uint8_t hdrct; /* IW_HDRCT_*: what RFC 5040 figure 9 wants with this error */
};

/*
 * The error with its HdrCt filled in: LLP and local errors carry no header, DDP errors carry the DDP header, RDMAP
 * errors carry it too, and the Read Request header when the offender was one.
 */
struct iw_err iw_err_of(enum iw_layer layer, enum iw_etype etype, enum iw_code code, bool read_request);

/* True when an RFC names this layer, type and code. */
bool iw_err_known(struct iw_err e);

/* A static text for logs, never NULL ("unknown" for pairs no RFC names). */
const char *iw_err_text(struct iw_err e);

#endif
