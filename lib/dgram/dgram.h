/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The carrier of datagram queue pairs (QP_UD). A message goes to the receiver that its work request names, as one DDP
 * segment in one UDP datagram of lib/udp. A QP that has a struct dgram_msgs also sends and receives longer messages, of
 * many segments with a datagram each, which may come in any order, and RDMA Write-Records: Writes whose target is told
 * which of their octets have arrived. The carrier uses a QP's queues and placement directly, without qp_msgs, since
 * messages between two QPs have no order. A Send completes when its last byte is in the caller's packet buffer. A
 * message that cannot be delivered is dropped and counted in qp_stats.ud_*.
 *
 * In a worker's turn:
 *	for each datagram	find its QP by udpl_parse(), dgram_in(d, qp, ...)
 *	for each doorbell	dgram_doorbell(d, qp)
 *	while (dgram_timer(d))
 *	while ((qp = dgram_pop(d)))
 *		while (there is room and dgram_waits(qp))
 *			if ((len = dgram_out(d, qp, buffer, to))) transmit;
 *		without room: dgram_put(d, qp)
 *
 * Threads: the worker that owns the QP, except where a function says otherwise. Lengths are bytes.
 */
#ifndef DGRAM_H
#define DGRAM_H

#include "base/rn_list.h"
#include "dgram/dgram_msg.h"
#include "iwarp/rdmap_op.h"
#include "iwarp/rdmap_wire.h"
#include "qp/qp.h"
#include "qp/qp_engine.h"
#include "udp/udpl.h"

#define DGRAM_GRH_LEN 40u /* bytes of the GRH that verbs puts before each received message */
/* Bytes of a UDP payload beside the message: the DDP header, and a datagram's header and trailer. */
#define DGRAM_INNER    (DDP_UNTAGGED_HDR_LEN)
#define DGRAM_OVERHEAD (UDPL_HDR_LEN + DGRAM_INNER + UDPL_CRC_LEN)
/*
 * Bytes of the headers between a datagram's header and its data in a segment of an RDMA Write-Record, the longest case.
 */
#define DGRAM_INNER_MAX (UDPL_RECORD_LEN + DDP_TAGGED_HDR_LEN)

#define DGRAM_MSG_MAX (UINT32_C(1) << 20) /* bytes of a message of many segments, at most */

/* A worker's datagram carrier. Zeroed memory; then the caller sets qp and the times. */
struct dgram_ctx {
	struct qp_ctx *qp;
	struct rn_slist ready;              /* QPs with something to send: of each tenant the one whose turn is next */
	struct rn_slist behind[QP_TENANTS]; /* the tenant's other QPs with something to send */
	uint64_t turns;                     /* a bit for each tenant that has a QP in `ready` */
	struct rn_list open; /* struct dgram_msg, by link: incomplete messages, the longest waiting first */
	uint64_t timeout;    /* ns that an incomplete message waits for its next segment */
	uint64_t linger;     /* ns for which the key of a message is remembered after the message's end */
};

/* An answer to a Read-Record request, which is yet to be sent. */
#define DGRAM_ANSWERS 16u
struct dgram_answer {
	uint8_t addr[16];   /* of the reader's device */
	uint32_t qpn, qkey; /* of the reader */
	struct rdmap_read_req req;
};

/*
 * A tag that a member of a group has bound: Write-Records to the group that name the tag as their STag go to this
 * memory.
 */
#define DGRAM_BINDS 16u
struct dgram_bind {
	uint8_t group[16]; /* the group's address */
	uint32_t tag;
	uint32_t stag; /* an STag of the member's device, looked up for each segment */
	uint64_t to;   /* tagged offset in this STag that the sender's offset 0 stands for */
	uint64_t len;  /* octets of bound memory from `to` on; 0: the tag is bound to nothing */
};

/* What a queue pair has beside its struct qp if its messages may have many segments. The caller's memory. */
struct dgram_msgs {
	struct qp *qp;
	uint32_t unit;       /* octets of each segment that the queue pair sends */
	uint32_t group_unit; /* octets of each segment that the queue pair sends to a group: they fit the path's MTU */
	struct qp_send send; /* while qp->midway: the message that is being sent */
	struct dgram_track track;
	/*
	 * Receives that messages have taken, each at the place of its message. When the message ends incomplete, its
	 * receive stays there for a message that comes later.
	 */
	struct qp_recv recv[DGRAM_OPEN];
	uint32_t taken; /* a bit for each element of recv[] that is such a receive */
	/*
	 * A ring of struct qp_record_map, one for each record that ends incomplete. slots NULL: each valid range of
	 * such a record has a completion of its own instead.
	 */
	struct spsc_prod maps;
	/* Requests for Read-Records that are to be answered, oldest first. */
	struct dgram_answer answer[DGRAM_ANSWERS];
	uint32_t answer_head, answer_tail; /* free running */
	bool answering;                    /* the message that is being sent is an answer, not a work request */
	bool answered;                     /* the last message sent was an answer: the next work request goes first */
	uint32_t n_binds;
	struct dgram_bind bind[DGRAM_BINDS];
};

/*
 * Control thread, after qp_init and before a worker knows the QP: its messages may have many segments. The units are as
 * udpl_unit() says of DGRAM_INNER_MAX, unit not less than group_unit; qp_attr.max_msg is dgram_max(group_unit) at most.
 * msn: a random number; the QP's messages are numbered on from it. Receivers remember the numbers of an earlier QP
 * with the same QPN, and would take the new QP's messages for those.
 */
void dgram_msgs_init(struct dgram_msgs *g, struct qp *qp, uint32_t unit, uint32_t group_unit, uint32_t msn);
/*
 * Control thread, after dgram_msgs_init and before a worker knows the QP: each record that ends incomplete is reported
 * by one completion, and by a map in this ring. The ring's slots have QP_MAP_SIZE bytes.
 */
RN_NODISCARD enum spsc_verdict dgram_msgs_maps(struct dgram_msgs *g, const struct spsc_place *at);
static inline struct dgram_msgs *dgram_msgs_of(const struct qp *qp) { return qp->beside; }
static inline uint32_t dgram_max(uint32_t unit) { return rn_min_u32(unit * UDPL_SEGS_MAX, DGRAM_MSG_MAX); }

/*
 * Called by the worker that owns the QP. dgram_modify does what qp_step does, dgram_destroy what qp_forget does.
 * dgram_doorbell: the client has rung the QP's doorbell.
 */
enum qp_verdict dgram_modify(struct dgram_ctx *d, struct qp *qp, enum qp_state to);
void dgram_destroy(struct dgram_ctx *d, struct qp *qp);
void dgram_doorbell(struct dgram_ctx *d, struct qp *qp);

/*
 * Binds a tag, in place of an earlier binding of the same group and tag. b->len 0: unbinds it. False: the tag was not
 * bound, or DGRAM_BINDS are in use.
 */
bool dgram_bind(struct dgram_msgs *g, const struct dgram_bind *b);

/* Ends the incomplete message whose time is over (d->qp->now); false: there is none. */
bool dgram_timer(struct dgram_ctx *d);
/* The queue pair that receives an open message; *qpn: its number. */
const struct qp *dgram_msg_qp(const struct dgram_msg *m, uint32_t *qpn);
/* When the next incomplete message's time is over; RN_NEVER: no message is incomplete. */
uint64_t dgram_due(const struct dgram_ctx *d);

/*
 * The next QP for which dgram_out must be called; NULL: there are no more. dgram_in() may put any QP back, also one
 * that the caller has popped: a caller that keeps popped QPs in a list by qp->link must not call dgram_in() meanwhile.
 */
struct qp *dgram_pop(struct dgram_ctx *d);
/* Puts the QP at the end of the list, unless the QP is in the list. */
void dgram_put(struct dgram_ctx *d, struct qp *qp);

/* Whether dgram_out has something to do. */
bool dgram_waits(struct qp *qp);

/* Where a datagram goes, and from which queue pair to which; hop_limit as in struct qp_wqe. */
struct dgram_to {
	uint8_t addr[16];
	uint8_t hop_limit;
	uint32_t dst_qpn, src_qpn;
};

/*
 * Writes the next datagram, a UDP payload of at most DGRAM_OVERHEAD bytes plus a message (or a unit), and its
 * destination. Returns the length. 0: a message has ended without this datagram, or there is none: dgram_waits() tells
 * whether there is another one. Copies and sums in one pass. room: pieces of memory, filled in order, the first of
 * which holds all headers.
 */
uint32_t dgram_out_to(struct dgram_ctx *d, struct qp *qp, const struct rn_iov *room, struct dgram_to *to);
/* The length that the next dgram_out_to() will return. Only for a queue pair with a struct dgram_msgs. */
uint32_t dgram_next(struct dgram_ctx *d, struct qp *qp);
/* dgram_out_to() with one piece of memory. */
static inline uint32_t dgram_out(struct dgram_ctx *d, struct qp *qp, uint8_t *buf, struct dgram_to *to)
{
	const struct rn_iov room = { .base = buf, .len = UINT32_MAX };

	return dgram_out_to(d, qp, &room, to);
}

/* A received datagram and its addresses. */
struct dgram_rx {
	const uint8_t *p; /* UDP payload, contiguous */
	uint32_t len;
	bool summed;              /* the caller has checked the datagram's CRC, and it is good */
	const struct udpl_hdr *h; /* filled in by udpl_parse() */
	uint8_t tos, hop_limit;
	uint8_t src[16], dst[16];
};
void dgram_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx);

/* ---- private to lib/dgram ---- */

/* dgram.c: the QP goes to ERR; everything that is posted or was taken completes. */
void dgram_fail(struct dgram_ctx *d, struct qp *qp);
void dgram_ring_broken(struct dgram_ctx *d, struct qp *qp);
void dgram_put_grh(uint8_t grh[DGRAM_GRH_LEN], const struct dgram_rx *rx);

/* dgram_seg.c */
/* Takes a segment of a longer message; CRC, headers and Q_Key are checked already. */
void dgram_seg_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx, const struct ddp_hdr *h);
/*
 * Takes the receive for the next message: one that an incomplete message has left at this place or at another, else
 * one of the receive queue.
 */
enum qp_take dgram_recv_take(struct dgram_ctx *d, struct qp *qp, uint32_t place, struct qp_recv *r);
/* Ends all messages, those being received and the one being sent. told: their work requests complete as flushed. */
void dgram_msgs_drop(struct dgram_ctx *d, struct dgram_msgs *g, bool told);
/*
 * Begins the message of a segment that belongs to no open message, and puts the message into d->open. Its key, unit
 * and total are set. NULL: the message must not begin; the drop has been counted.
 */
struct dgram_msg *dgram_msg_begin(struct dgram_ctx *d, struct dgram_msgs *g, const struct udpl_hdr *h,
				  const struct dgram_key *k);
void dgram_msg_end(struct dgram_ctx *d, struct dgram_msgs *g, struct dgram_msg *m);
/* Called after the segment at `off` was placed: the time to wait begins anew. */
void dgram_msg_placed(struct dgram_ctx *d, struct dgram_msg *m, uint32_t off, uint32_t len);

/* dgram_read.c */
/* Takes a request for a Read-Record. The caller has checked the CRC and the datagram's header. */
void dgram_read_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx);
/* Whether an answer must be sent. */
bool dgram_read_owed(const struct qp *qp);
/* Makes the oldest answer the message that is being sent. */
void dgram_read_begin(struct dgram_msgs *g);
/* Whether the next bytes of the answer may still be read. */
bool dgram_read_allowed(const struct qp *qp, const struct qp_send *s, uint32_t bytes);

/* dgram_record.c */
/* Takes a segment of an RDMA Write-Record. The caller has checked the CRC and the datagram's header. */
void dgram_record_in(struct dgram_ctx *d, struct qp *qp, const struct dgram_rx *rx);
/*
 * Writes completions for the record's valid octets, as far as the CQ and the ring of maps have room. True: all valid
 * octets have been reported.
 */
bool dgram_record_tell(struct dgram_ctx *d, struct qp *qp, struct dgram_msg *m);

#endif
