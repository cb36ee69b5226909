/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram queue pairs (QP_UD): each message is one DDP segment in one UDP datagram of lib/udp, for whom its
 * work request says. They share queues, completions and states with connected ones, and have no connection. A Send
 * completes when its bytes are in the caller's buffer. What cannot be delivered is dropped and counted in qp_stats.ud_*.
 *
 * In a worker's turn, beside the connections:
 *	for each datagram	find its QP by udpl_parse(), qp_ud_in(ctx, qp, ...)
 *	while ((qp = qp_ud_pop(ctx)))
 *		while (there is room and (len = qp_ud_out(ctx, qp, buffer, to))) transmit;	(no room: qp_ud_put(ctx, qp))
 *
 * Threads: as a QP that belongs to one worker. Lengths are bytes.
 */
#ifndef QP_UD_H
#define QP_UD_H

#include "qp/qp.h"
#include "udp/udpl.h"

#define QP_UD_GRH_LEN 40u /* before each message received, as verbs has it */
/* Bytes of a UDP payload beside the message; all of a datagram's header and trailer. */
#define QP_UD_INNER (DDP_UNTAGGED_HDR_LEN)
#define QP_UD_OVERHEAD (UDPL_HDR_LEN + QP_UD_INNER + UDPL_CRC_LEN)

/* QPs of which qp_ud_out must be called; NULL: no more. */
struct qp *qp_ud_pop(struct qp_ctx *ctx);
void qp_ud_put(struct qp_ctx *ctx, struct qp *qp);

/* Whether qp_ud_out has something to do. */
bool qp_ud_waits(struct qp *qp);

/* Where a datagram goes; hop_limit as in struct qp_wqe. */
struct qp_ud_to {
	uint8_t addr[16];
	uint8_t hop_limit;
};

/*
 * The next datagram, a UDP payload of at most max_msg + QP_UD_OVERHEAD bytes, and the address it goes to. Returns its
 * length; 0: none now. Copies and sums in one pass.
 */
uint32_t qp_ud_out(struct qp_ctx *ctx, struct qp *qp, uint8_t *buf, struct qp_ud_to *to);

/* A datagram and where it comes from. */
struct qp_ud_rx {
	const uint8_t *p; /* UDP payload, contiguous */
	uint32_t len;
	const struct udpl_hdr *h; /* what udpl_parse() said of it */
	uint8_t tos, hop_limit;
	uint8_t src[16], dst[16];
};
void qp_ud_in(struct qp_ctx *ctx, struct qp *qp, const struct qp_ud_rx *rx);

#endif
