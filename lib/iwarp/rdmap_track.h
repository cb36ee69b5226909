/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The state of a stream between DDP segments: untagged messages per queue (RFC 5041 section 5.2, 5.3), outstanding RDMA
 * Reads on the initiator's side and on the responder's (RFC 5040 section 5.1, 5.5), and Atomic Operations, which share
 * queue 1, its depths and the order of answers with them (RFC 7306 section 5.2, 5.4). Memory is the caller's; the
 * thread that owns the connection owns these. Every *_check is const and comes before anything is placed; the matching
 * *_advance commits after.
 */
#ifndef RDMAP_TRACK_H
#define RDMAP_TRACK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "iwarp/ddp.h"
#include "iwarp/iw_term.h"

enum rdmap_verdict {
	RDMAP_OK = 0, /* the segment belongs here, and its message goes on */
	RDMAP_DONE,   /* the segment belongs here and completes its message */
	/* untagged */
	RDMAP_NO_BUFFER,  /* no buffer is posted for this MSN */
	RDMAP_MSN_REPEAT, /* MSN already delivered */
	RDMAP_MSN_GAP,    /* MSN ahead of the one that must come next */
	RDMAP_MO_WRONG,   /* MO is not where the message stands */
	RDMAP_TOO_LONG,   /* message longer than its buffer */
	RDMAP_OP_CHANGED, /* opcode or STag to invalidate differs within one message */
	/* Read Response at the initiator of the Read */
	RDMAP_READ_NONE,    /* no Read is outstanding, or an Atomic Request is older (and vice versa) */
	RDMAP_READ_STAG,    /* STag is not the sink of the oldest Read */
	RDMAP_READ_TO,      /* TO is not where the response continues */
	RDMAP_READ_OVERRUN, /* more octets than the Read asked for */
	RDMAP_READ_LAST,    /* L before the Read's last octet, or missing on it */
	RDMAP_ATOMIC_ID,    /* not the identifier of the oldest Atomic Request */
	/* Read Request at the responder */
	RDMAP_IRD_OVERFLOW, /* more Reads and Atomics than the inbound depth */
};

/* The Terminate that answers a verdict above RDMAP_DONE. */
struct iw_err rdmap_verdict_err(enum rdmap_verdict v, const struct ddp_hdr *h);

/* ---- Untagged queue, receiving side: one per QN ---- */

struct ddp_uq {
	uint32_t msn;   /* the message that must be delivered next; starts at 1 */
	uint32_t mo;    /* octets of this message delivered so far */
	uint32_t stag;  /* ULP word of the message's first segment */
	uint8_t opcode; /* opcode of the message's first segment */
	bool open;      /* a first segment has been delivered and the last has not */
};

void ddp_uq_init(struct ddp_uq *q);

/*
 * In-order segment. posted: buffers available from q->msn on, counting the open message's; buf_len: octets of the
 * buffer that q->msn will use (any value when posted is 0). RDMAP_OK and RDMAP_DONE permit placement at h->mo.
 */
enum rdmap_verdict ddp_uq_check(const struct ddp_uq *q, const struct ddp_hdr *h, uint32_t posted,
				uint32_t buf_len) RN_NODISCARD;
/* Commits a segment that ddp_uq_check found RDMAP_OK or RDMAP_DONE. */
void ddp_uq_advance(struct ddp_uq *q, const struct ddp_hdr *h);

/*
 * Segment ahead of the stream (out-of-order placement): may it be placed? *slot gets the distance of its MSN from
 * q->msn (0 = the open message), to find the buffer; the caller then checks h->mo + length against that buffer.
 */
enum rdmap_verdict ddp_uq_peek(const struct ddp_uq *q, const struct ddp_hdr *h, uint32_t posted,
			       uint32_t *slot) RN_NODISCARD;

/* ---- Outstanding Reads and Atomics, initiator's side: a ring of at most ORD ---- */

struct rdmap_read {
	uint32_t stag;   /* data sink */
	uint32_t len;    /* octets asked for */
	uint64_t to;     /* data sink */
	uint32_t got;    /* octets delivered so far */
	uint32_t cookie; /* the caller's (which work request) */
	uint32_t id;     /* Atomic: its Request Identifier. Read: the caller's */
	bool atomic;
};

struct rdmap_readq {
	struct rdmap_read *ring; /* caller's memory, mask + 1 entries */
	uint32_t mask;
	uint32_t ord;  /* at most mask + 1 */
	uint32_t head; /* oldest outstanding */
	uint32_t tail; /* next to be posted */
};

/* entries: a power of two, not below ord. */
void rdmap_readq_init(struct rdmap_readq *q, struct rdmap_read *ring, uint32_t entries, uint32_t ord);
static inline uint32_t rdmap_readq_count(const struct rdmap_readq *q) { return q->tail - q->head; }
static inline bool rdmap_readq_full(const struct rdmap_readq *q) { return q->tail - q->head >= q->ord; }
/* The oldest outstanding Read, NULL when none. Valid until rdmap_readq_advance completes it. */
struct rdmap_read *rdmap_readq_head(const struct rdmap_readq *q);
/* Call only when not full. Returns the entry. */
struct rdmap_read *rdmap_readq_post(struct rdmap_readq *q, uint32_t stag, uint64_t to, uint32_t len, uint32_t cookie);
/* As rdmap_readq_post(), for an Atomic Request: the original value goes to (stag, to). */
void rdmap_readq_post_atomic(struct rdmap_readq *q, uint32_t stag, uint64_t to, uint32_t id, uint32_t cookie);

/* In-order Read Response segment: RDMAP_OK and RDMAP_DONE permit placement. */
enum rdmap_verdict rdmap_readq_check(const struct rdmap_readq *q, const struct ddp_hdr *h) RN_NODISCARD;
/* Commits the segment; on RDMAP_DONE the head is retired. */
void rdmap_readq_advance(struct rdmap_readq *q, const struct ddp_hdr *h);
/* In-order Atomic Response: RDMAP_DONE, or what is wrong. rdmap_readq_retire commits it, which retires the head. */
enum rdmap_verdict rdmap_readq_check_atomic(const struct rdmap_readq *q, uint32_t id) RN_NODISCARD;
static inline void rdmap_readq_retire(struct rdmap_readq *q) { q->head++; }
/* For answers in any order: the request with this id becomes the oldest outstanding one. False: there is none. */
RN_NODISCARD bool rdmap_readq_bring(struct rdmap_readq *q, uint32_t id);
/* Read Response ahead of the stream: whether it lies wholly inside the sink of an outstanding Read. */
enum rdmap_verdict rdmap_readq_peek(const struct rdmap_readq *q, const struct ddp_hdr *h) RN_NODISCARD;

/* ---- Reads and Atomics to be answered, responder's side ---- */

struct rdmap_ird {
	uint32_t depth; /* IRD agreed */
	uint32_t used;
};

static inline void rdmap_ird_init(struct rdmap_ird *q, uint32_t depth)
{
	q->depth = depth;
	q->used = 0;
}
/* A Request has come. RDMAP_OK: one more is in use; RDMAP_IRD_OVERFLOW: nothing has changed. */
enum rdmap_verdict rdmap_ird_take(struct rdmap_ird *q) RN_NODISCARD;
/* The last segment of a response has been handed to the stream. */
static inline void rdmap_ird_give(struct rdmap_ird *q) { q->used--; }

#endif
