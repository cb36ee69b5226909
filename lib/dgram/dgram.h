/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of datagram queue pairs (QP_UD). Today each message is one DDP segment in one UDP datagram of lib/udp,
 * for the receiver that its work request says. A QP's queues and placement are used directly: between two QPs there is
 * no order to remember, so there is no qp_msgs. A reliable kind, or messages of many segments, would have one qp_msgs
 * for each pair of QPs, beside what is here. A Send completes when its bytes are in the caller's buffer. What cannot be
 * delivered is dropped and counted in qp_stats.ud_*.
 *
 * In a worker's turn:
 *	for each datagram	find its QP by udpl_parse(), dgram_in(d, qp, ...)
 *	for each doorbell	dgram_doorbell(d, qp)
 *	while ((qp = dgram_pop(d)))
 *		while (there is room and (len = dgram_out(d, qp, buffer, to))) transmit;	(no room: dgram_put(d, qp))
 *
 * Threads: as a QP that belongs to one worker. Lengths are bytes.
 */
#ifndef DGRAM_H
#define DGRAM_H

#include "base/rn_list.h"
#include "iwarp/rdmap_op.h"
#include "qp/qp.h"
#include "udp/udpl.h"

#define DGRAM_GRH_LEN 40u /* before each message received, as verbs has it */
/* Bytes of a UDP payload beside the message: DDP's header; all of a datagram's header and trailer. */
#define DGRAM_INNER    (DDP_UNTAGGED_HDR_LEN)
#define DGRAM_OVERHEAD (UDPL_HDR_LEN + DGRAM_INNER + UDPL_CRC_LEN)

/* A worker's. Zeroed, then qp is set. */
struct dgram_ctx {
	struct qp_ctx *qp;
	struct rn_slist ready; /* QPs with something to send */
};

/* The worker that owns the QP. What qp_step and qp_forget say, and the client has rung. */
enum qp_verdict dgram_modify(struct dgram_ctx *d, struct qp *qp, enum qp_state to);
void dgram_destroy(struct dgram_ctx *d, struct qp *qp);
void dgram_doorbell(struct dgram_ctx *d, struct qp *qp);

/* QPs of which dgram_out must be called; NULL: no more. */
struct qp *dgram_pop(struct dgram_ctx *d);
void dgram_put(struct dgram_ctx *d, struct qp *qp);

/* Whether dgram_out has something to do. */
bool dgram_waits(struct qp *qp);

/* Where a datagram goes; hop_limit as in struct qp_wqe. */
struct dgram_to {
	uint8_t addr[16];
	uint8_t hop_limit;
};

/*
 * The next datagram, a UDP payload of at most max_msg + DGRAM_OVERHEAD bytes, and the address it goes to. Returns its
 * length; 0: none now. Copies and sums in one pass.
 */
uint32_t dgram_out(struct dgram_ctx *d, struct qp *qp, uint8_t *buf, struct dgram_to *to);

/* A datagram and where it comes from. */
struct dgram_rx {
	const uint8_t *p; /* UDP payload, contiguous */
	uint32_t len;
	const struct udpl_hdr *h; /* what udpl_parse() said of it */
	uint8_t tos, hop_limit;
	uint8_t src[16], dst[16];
};
void dgram_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx);

#endif
