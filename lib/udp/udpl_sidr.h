/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service id resolution, InfiniBand's SIDR (IBTA volume 1, 12.11) in a format of our own: a program asks which queue
 * pair serves a port of the peer's connection manager, and gets the QPN and Q_Key. A request is repeated until the
 * reply arrives; the answering side remembers its replies, so that a repeated request gets the same reply.
 *
 *	 0  request id, the asking side's choice; the reply repeats it
 *	 8  request: 0 | reply: status (enum udpl_sidr_status)
 *	 9  0
 *	10  service port; the reply repeats it
 *	12  request: source port | reply: QPN
 *	16  request: 0 | reply: Q_Key
 *	20  private data, up to the end of the body
 */
#ifndef UDPL_SIDR_H
#define UDPL_SIDR_H

#include "udp/udpl.h"

#define UDPL_SIDR_LEN      20u
#define UDPL_SIDR_PRIV_MAX 256u

enum udpl_sidr_status { UDPL_SIDR_VALID = 0, UDPL_SIDR_NO_SERVICE = 1, UDPL_SIDR_REJECTED = 2 };

struct udpl_sidr {
	uint64_t id;
	uint8_t status;     /* in a reply only */
	uint16_t port;      /* host order, as all numbers here */
	uint16_t src_port;  /* in a request only */
	uint32_t qpn, qkey; /* in a reply only */
	uint32_t priv_len;
	const uint8_t *priv; /* parsed: points into the body */
};

/* False: the body is too short, or has too much private data. */
RN_NODISCARD bool udpl_sidr_parse(const uint8_t *body, uint32_t len, enum udpl_kind kind, struct udpl_sidr *s);

#define UDPL_SIDR_MAX (UDPL_HDR_LEN + UDPL_SIDR_LEN + UDPL_SIDR_PRIV_MAX + UDPL_CRC_LEN)
/* Writes a whole datagram, from header to CRC, of at most UDPL_SIDR_MAX octets; returns its length. */
uint32_t udpl_sidr_build(uint8_t *out, enum udpl_kind kind, const struct udpl_sidr *s);

#endif
