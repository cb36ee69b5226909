/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The datagram transport: the contents of a UDP datagram between two queue pairs without a connection. MPA's framing
 * and markers serve streams; here there is one header, one DDP segment and its CRC:
 *
 *	 0  version 1 (high nibble), high four bits of the unit | kind | flags | low eight bits of the unit
 *	 4  0 | destination QPN (24 bits)
 *	 8  0 | source QPN (24 bits)
 *	12  Q_Key
 *	16  segment: octets of the whole message; Read request: Q_Key of the asking queue pair; answer of a socket:
 *	    STag; else 0
 *	20  body. Send: one untagged DDP segment that is a whole message (RFC 5041, 4.2: L set, MO 0); segment: one
 *	    untagged DDP segment of a longer Send; RDMA Write-Record: struct udpl_record and one tagged DDP segment;
 *	    Read request: one DDP segment of RFC 5040, 4.4; other kinds: see udpl_sidr.h and udps.h
 *	 n  CRC32C of all octets before it, least-significant octet first as in RFC 5044, 4.4; always there and checked
 *
 * The unit of a segment, of a Send or a Write-Record, is the length of its message's segments, counted in 64 octets. In
 * other datagrams the unit is 0, except in those of udps.h.
 *
 * doc/datagram-iwarp.md writes the format down for other implementations, with rules and vectors.
 *
 * Numbers are big endian. The queue pairs of a device share one UDP port, because a QPN has more bits than a port
 * number has. A queue pair may also have a UDP port of its own, which is part of its QPN (UDPL_QPN_PORTS). Pure
 * functions over the caller's bytes, safe from any thread. Lengths are octets.
 */
#ifndef UDPL_H
#define UDPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"

#define UDPL_VERSION   1u
#define UDPL_HDR_LEN   20u
#define UDPL_CRC_LEN   4u
#define UDPL_UNIT      64u /* octets that the header's unit field counts in */
#define UDPL_UNIT_MAX  (4095u * UDPL_UNIT)
#define UDPL_SEGS_MAX  1024u /* segments of a message at most */
#define UDPL_QPN_MAX   UINT32_C(0xffffff)
#define UDPL_QPN_CM    1u           /* destination of SIDR messages, as on InfiniBand */
#define UDPL_QPN_GROUP UDPL_QPN_MAX /* all members of the group of the packet's address, as on InfiniBand */

enum udpl_kind {
	UDPL_SEND = 1,     /* a Send that is one segment, unreliable */
	UDPL_SIDR_REQ = 2, /* asks which queue pair serves a port */
	UDPL_SIDR_REP = 3,
	UDPL_SEGMENT = 4,     /* a segment of a Send that takes several segments */
	UDPL_RECORD = 5,      /* a segment of an RDMA Write-Record */
	UDPL_READ = 6,        /* a request for a Read-Record; the answer is an RDMA Write-Record */
	UDPL_SOCK_ASK = 7,    /* asks whether a UDP port's socket takes datagrams in this format: udps.h */
	UDPL_SOCK_ANSWER = 8, /* the answer, or an unasked notice to a sender of such datagrams: udps.h */
	/* reserved: 9 to 15 for unreliable tagged messages, 32 to 47 for reliable datagrams, udpr.h */
};

/* QPNs of datagram sockets: this number plus a UDP port. No queue pair has such a QPN. */
#define UDPL_QPN_SOCKS UINT32_C(0xfe0000)
static inline bool udpl_is_sock(uint32_t qpn) { return qpn >> 16 == UDPL_QPN_SOCKS >> 16; }

/* QPNs of queue pairs with a UDP port of their own, from and to which their datagrams go: this number plus the port. */
#define UDPL_QPN_PORTS UINT32_C(0xfd0000)
static inline bool udpl_has_port(uint32_t qpn) { return qpn >> 16 == UDPL_QPN_PORTS >> 16; }
/* The UDP port of a queue pair; common: the port of queue pairs that have none of their own. */
static inline uint16_t udpl_port(uint32_t qpn, uint16_t common) { return udpl_has_port(qpn) ? (uint16_t)qpn : common; }

/* flags */
#define UDPL_F_IMM 0x01u /* the immediate is in the DDP header's word for the ULP, or in struct udpl_record */

struct udpl_hdr {
	uint8_t kind;  /* enum udpl_kind */
	uint8_t flags; /* UDPL_F_* */
	uint32_t dst_qpn, src_qpn;
	uint32_t qkey;
	/* unit, total: of a segment; 0 in other kinds, except where the comment names them */
	uint32_t unit;     /* octets in each segment of the message but the last; UDPL_SOCK_*: see struct udps_msg */
	uint32_t total;    /* octets of the whole message; UDPL_READ: the asker's Q_Key; UDPL_SOCK_*: an STag */
	uint32_t body_len; /* parsed only */
};

/* The header before the DDP segment of an RDMA Write-Record. */
#define UDPL_RECORD_LEN 12u
struct udpl_record {
	uint32_t id;     /* counts the sender's messages, as the MSN of Sends does */
	uint32_t offset; /* octets of the record before those of this segment */
	uint8_t imm[4];  /* the immediate as it goes on the wire; 0 without UDPL_F_IMM */
};

enum udpl_verdict {
	UDPL_OK = 0,
	UDPL_SHORT, /* no room for header and CRC */
	UDPL_BAD_VERSION,
	UDPL_BAD_KIND,
	UDPL_BAD_QPN,  /* more than 24 bits, or a socket's message to or from a number that is no socket's */
	UDPL_BAD_SIZE, /* a segment of an impossible message: no octets, no unit, or too many segments */
	UDPL_VERDICTS
};

/* Reads the header of a datagram of len octets at p, which are contiguous. The CRC is not checked. */
RN_NODISCARD enum udpl_verdict udpl_parse(const uint8_t *p, uint32_t len, struct udpl_hdr *h);

/* Whether the last four octets of a parsed datagram are the CRC of the octets before. */
RN_NODISCARD bool udpl_crc_good(const uint8_t *p, uint32_t len);

/* Writes UDPL_HDR_LEN octets. */
void udpl_build(uint8_t *p, const struct udpl_hdr *h);

/* Reads and writes UDPL_RECORD_LEN octets. */
void udpl_record_parse(const uint8_t *p, struct udpl_record *r);
void udpl_record_build(uint8_t *p, const struct udpl_record *r);

/* Writes a CRC behind len octets; sum: crc32c() of these octets. */
void udpl_crc_put(uint8_t *p, uint32_t len, uint32_t sum);

/*
 * The largest of verbs' MTUs (256 to 4096) such that a message of this length fits a packet with `room` octets after
 * the UDP header, `inner` of which are for the headers after udpl's (the DDP header). 0: not even the smallest MTU
 * fits.
 */
uint32_t udpl_mtu(uint32_t room, uint32_t inner);

/* The largest unit, in octets, whose segments fit a packet of this `room` and `inner`. 0: no unit fits. */
uint32_t udpl_unit(uint32_t room, uint32_t inner);

/* Whether a message of this kind is for the connection manager (udpl_sidr.h), not for a queue pair. */
static inline bool udpl_for_cm(uint8_t kind) { return kind == UDPL_SIDR_REQ || kind == UDPL_SIDR_REP; }

#endif
