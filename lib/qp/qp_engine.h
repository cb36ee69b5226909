/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The message engine as a carrier sees it. A carrier (lib/rc, lib/dgram, a test's) takes segments from one place to
 * another; the engine makes them of work requests and of the peer's Reads, and turns received ones into placed bytes
 * and completions. The engine never calls a carrier. What a call leads to is its verdict.
 *
 * struct qp_msgs is one ordered sequence of messages with one peer QP: its untagged queues, the Reads and Atomics under
 * way, its message numbers. It lies inside the carrier's own struct: one in a reliable connection. A carrier must bring
 * each segment once and in order to qp_push, and may bring it earlier to qp_early.
 *
 * Sending:
 *	qp_peek(ctx, m, max, &len)	length of the next segment (a ULPDU: DDP header and payload)
 *	qp_pull(ctx, m, &seg)		the segment, in the carrier's buffers
 *	qp_acked(m, seg.wr)		the peer has all bytes up to and with this segment
 *	qp_complete(ctx, m)		then, once for many
 * Receiving:
 *	qp_push(ctx, m, &h, ulpdu, n)
 * Ending: qp_blame, qp_detach, qp_enter_error.
 *
 * When a call says that the sequence has failed, m->err says what to tell the peer (RFC 5040, 4.8); what concerns the
 * client has been told by then. The carrier tells the peer, then lets the QP go.
 *
 * Threads: all of a qp_msgs and its QP belong to one worker. Lengths are bytes.
 */
#ifndef QP_ENGINE_H
#define QP_ENGINE_H

#include "base/rn_iov.h"
#include "iwarp/ddp.h"
#include "iwarp/iw_term.h"
#include "iwarp/rdmap_track.h"
#include "iwarp/rdmap_wire.h"
#include "qp/qp.h"

#define QP_WR_NONE     UINT32_MAX
#define QP_SEG_SLICES  6u  /* payload slices of one segment sent; a segment with more is made shorter */
#define QP_SEG_HDR_MAX 96u /* a segment's header and what is copied behind it */
#define QP_ULPDU_IOV   40u /* slices of one segment received */
#define QP_MSG_MAX     UINT32_C(0x80000000) /* bytes of one message */

enum qp_wr_done {
	QP_WR_UNDER_WAY = 0,
	QP_WR_DONE,
	QP_WR_TOLD /* of an unordered sequence: it has completed before an older one */
};

/* A send work request taken from the SQ and not yet completed. */
struct qp_wr {
	uint64_t wr_id;
	uint64_t raddr; /* Write, Read */
	uint32_t key;   /* Write, Read: remote STag; Send, Atomic: MSN */
	uint32_t len;
	uint8_t op;    /* enum qp_wr_op */
	uint8_t flags; /* QP_WF_* */
	uint8_t slots;
	uint8_t done;   /* enum qp_wr_done */
	uint8_t status; /* enum qp_wc_status */
	uint8_t sinks;  /* Read: the Requests that it takes, one for each sink with bytes */
	union {
		uint16_t imm_msn; /* Write with immediate: the low half of its Immediate Data message's MSN */
		uint16_t due;     /* Read: Requests that are not sent, or not answered */
	};
};

/* The work request whose message is being cut: a checked copy. */
struct qp_send {
	struct qp_wqe w;
	union {
		struct qp_sge sge[QP_MAX_SGE];
		uint8_t data[QP_MAX_INLINE];
	} u;
	uint32_t total, sent; /* bytes */
	uint32_t at, at_off;  /* SGE and offset in it of the next byte */
	uint32_t wr;          /* index in the ring */
	uint32_t msn;
	struct rn_iov only; /* the bytes of the only SGE */
	bool found;         /* the last qp_peek has set `only`: good for the qp_pull that follows, no longer */
	bool loaded;        /* w and u hold a work request that is not finished with */
	bool started;       /* it has its entry in the ring */
};

/* The receive work request of the message that comes next or is open: a copy. */
struct qp_recv {
	uint64_t wr_id;
	uint32_t len;
	uint8_t num_sge;
	uint8_t slots;
	bool loaded;
	struct qp_sge sge[QP_MAX_SGE];
};

/* An RDMA Read of the peer that is to be answered, or an Atomic that has been executed. */
struct qp_resp {
	struct rdmap_read_req r;
	uint32_t sent;
	uint32_t msn; /* of the request */
	bool is_atomic;
	struct rdmap_atomic_resp atomic;
};

/*
 * What a sequence of messages needs while something is under way. The carrier's memory; it may be taken away and given
 * again while qp_msgs_resting(). wr, wr_mask (their number - 1, a power of two) are set by the carrier, then
 * qp_work_init.
 */
struct qp_work {
	struct qp_wr *wr;
	uint32_t wr_mask;
	uint32_t wr_head, wr_tail; /* free running */
	bool stop;                 /* a work request failed: nothing more is taken, it reports when its turn has come */
	uint32_t resp_head, resp_tail; /* free running */
	struct qp_send send;
	struct qp_recv recv;
	struct qp_resp resp[QP_MAX_RD_ATOMIC];
	struct rdmap_read read[QP_MAX_RD_ATOMIC];
};
_Static_assert((QP_MAX_RD_ATOMIC & (QP_MAX_RD_ATOMIC - 1)) == 0, "rings of reads are masked");

/* The source of the message that is being sent. */
enum qp_src {
	QP_SRC_NONE = 0, /* no message is open */
	QP_SRC_SQ,       /* a work request's */
	QP_SRC_RESP      /* the answer to a Read or Atomic of the peer */
};

struct qp_msgs {
	struct qp *qp; /* NULL before attach and after the end */
	struct qp_dev *dev;
	struct qp_work *work; /* NULL while nothing is under way */
	uint8_t src_turn;     /* enum qp_src: the source of the last message */
	uint8_t src;          /* enum qp_src: whose message is open */
	bool draining;        /* carrier's: what is posted is sent in SQD too, before a graceful end */
	bool keeps;           /* carrier's: what finds no receive can be brought again (NOT_READY) */
	bool unordered;       /* carrier's: work requests complete in any order */
	bool imm_held;
	bool wrote;        /* the last Write sent had no immediate: one right behind it would be taken for its own */
	bool err_named;    /* the Terminate names the segment at hand */
	struct iw_err err; /* after a failure */
	/* carrier's, after qp_msgs_init: the sender that receive completions tell, where there is no connection */
	const uint8_t *peer;                     /* QP_UD_ADDR_LEN bytes; NULL: a connection's */
	uint32_t peer_qpn;                       /* of a connection 0 */
	uint32_t msn_send, msn_read, msn_atomic; /* next MSN of QN 0, QN 1 and QN 3, sending */
	uint32_t write_len;                      /* bytes so far of the peer's Write that is not finished */
	uint32_t imm_len;                        /* bytes of the one that is: for an immediate behind it */
	uint32_t imm;                            /* of the next Send, when imm_held: qp_imm.h */
	uint32_t write_stag;                     /* of the last Write sent, with its TO; 0 and 0: none */
	uint64_t write_to;
	struct ddp_uq uq_send, uq_read, uq_atomic;
	struct rdmap_readq readq;
	struct rdmap_ird ird;
};

void qp_work_init(struct qp_work *w);
/* A sequence begins: first messages, depths as agreed. m->work, keeps and dev are set; a QP may be attached. */
void qp_msgs_init(struct qp_msgs *m, uint32_t ird, uint32_t ord);
/* Gives the working memory, or takes it (NULL) when qp_msgs_resting. */
static inline void qp_msgs_work(struct qp_msgs *m, struct qp_work *w)
{
	m->work = w;
	if (w != NULL)
		m->readq.ring = w->read;
}
/* Binds the QP, and takes its device. */
void qp_attach(struct qp_msgs *m, struct qp *qp);

/* Nothing lies in the working memory. */
static inline bool qp_msgs_resting(const struct qp_msgs *m)
{
	const struct qp_work *w = m->work;

	return m->src == QP_SRC_NONE && w->wr_head == w->wr_tail && w->resp_head == w->resp_tail && !w->send.loaded &&
	       !w->recv.loaded && !w->stop && rdmap_readq_count(&m->readq) == 0;
}

/* Nothing is left to be sent or to be completed of what has been taken. */
static inline bool qp_msgs_sent(const struct qp_msgs *m)
{
	const struct qp_work *w = m->work;

	return w == NULL || (w->wr_head == w->wr_tail && !w->send.loaded && w->resp_head == w->resp_tail);
}

/* Work requests are on the way. */
static inline bool qp_msgs_busy(const struct qp_msgs *m)
{
	return m->work != NULL && m->work->wr_head != m->work->wr_tail;
}

/* Send work is posted that nobody has taken; a ring that cannot be counts when `any`. The worker's alone to ask. */
static inline bool qp_posted(struct qp *qp) { return spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken; }

/* ---- sending ---- */

enum qp_pull {
	QP_PULL_OK = 0,
	QP_PULL_NONE,  /* nothing to send now: a doorbell, an answer or an acknowledgement changes that */
	QP_PULL_FAILED /* the sequence is over: m->err */
};

/* A segment to be sent. The buffers are the carrier's and are filled in place. */
struct qp_seg {
	uint8_t *hdr;       /* QP_SEG_HDR_MAX bytes */
	uint8_t *inl;       /* QP_MAX_INLINE bytes, for payload that is not the client's memory */
	struct rn_iov *iov; /* QP_SEG_SLICES: the payload */
	uint32_t hdr_len;   /* DDP header and what lies behind it */
	uint32_t n, len;    /* slices and bytes of the payload */
	uint32_t wr;        /* for qp_acked; QP_WR_NONE: nothing waits for this segment's acknowledgement */
};

/* What qp_peek does when no segment of a Send or Write is next. */
enum qp_pull qp_peek_next(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, uint32_t *len);

/* Bytes of the next segment of a Send or Write, with its header. */
static inline uint32_t qp_cut_len(const struct qp_send *s, uint32_t max)
{
	uint32_t hdr_len = s->w.op == QP_WR_WRITE || s->w.op == QP_WR_WRITE_IMM ? DDP_TAGGED_HDR_LEN
										: DDP_UNTAGGED_HDR_LEN;

	return rn_min_u32(hdr_len + s->total - s->sent, max);
}

/*
 * *len gets the length of the next ULPDU, which has at most max bytes; the segment that qp_pull makes may be shorter.
 * Local work (bind, invalidate) is carried out on the way. Work is taken from the SQ in RTS, or when `draining`.
 */
static inline enum qp_pull qp_peek(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, uint32_t *len)
{
	struct qp_work *w = m->work;
	const struct qp *qp = m->qp;

	w->send.found = false;
	if (m->src == QP_SRC_SQ && rn_likely(w->send.w.op < QP_WR_READ)) {
		*len = qp_cut_len(&w->send, max);
		return QP_PULL_OK;
	}
	if (m->src == QP_SRC_NONE && !qp->rung && qp->sq.seen - qp->sq.own <= qp->sq_taken && !w->send.loaded &&
	    w->resp_head == w->resp_tail && rn_likely(qp->sq.verdict == SPSC_OK))
		return QP_PULL_NONE;
	return qp_peek_next(ctx, m, max, len);
}

/*
 * For a QP of qp_attr.many, whose work requests the carrier takes: copies and checks the next one, as qp_rq_take does.
 * BAD_RING, and BAD when stats.bad_wqes grows: where the next one begins is not known.
 */
enum qp_take qp_sq_take(struct qp_ctx *ctx, struct qp_msgs *m, struct qp_send *s, enum qp_wc_status *why);
/* Whether the sequence can be handed a work request. */
static inline bool qp_takes(const struct qp_msgs *m)
{
	const struct qp_work *k = m->work;

	return !k->send.loaded && !k->stop && k->wr_tail - k->wr_head <= k->wr_mask;
}
/* Hands it over: m's next message, or a failure in its turn when why is no success. OK, or FAILED: m->err. */
enum qp_pull qp_hand(struct qp_ctx *ctx, struct qp_msgs *m, const struct qp_send *s, enum qp_wc_status why);

/* After qp_peek said OK with the same max. OK: the segment is made and counts as sent. */
enum qp_pull qp_pull(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, struct qp_seg *s);

/*
 * A segment that moves no data, which any sequence may hold: a Write of no bytes, or a Read of none, which is answered.
 * The Write goes where the last Write went, if there was one: a peer that checks more than it must finds nothing wrong.
 */
enum qp_empty { QP_EMPTY_WRITE, QP_EMPTY_READ };
void qp_pull_empty(struct qp_msgs *m, enum qp_empty what, struct qp_seg *s);

/* The peer has every byte of this work request (and of all before it). */
static inline void qp_acked(struct qp_msgs *m, uint32_t idx)
{
	struct qp_work *w = m->work;
	struct qp_wr *wr = &w->wr[idx & w->wr_mask];

	if (idx - w->wr_head < w->wr_tail - w->wr_head && wr->status == QP_WC_SUCCESS)
		wr->done = 1;
}

/* The MSN of the request that the next segment answers; after qp_peek said OK, with m->src QP_SRC_RESP. */
static inline uint32_t qp_asked(const struct qp_msgs *m)
{
	return m->work->resp[m->work->resp_head & (QP_MAX_RD_ATOMIC - 1)].msn;
}

/* Completes what is done, in the order of posting unless m->unordered. FAILED: a failed work request had its turn. */
enum qp_pull qp_complete(struct qp_ctx *ctx, struct qp_msgs *m);

/* ---- receiving ---- */

enum qp_push {
	QP_PUSH_OK = 0,
	QP_PUSH_DELIVERED, /* a message is whole: its sender's completion waits for the acknowledgement */
	QP_PUSH_NOT_READY, /* no receive is posted: bring the segment again (qp_recv_waits). Nothing has been used */
	QP_PUSH_TERMINATE, /* a Terminate: the carrier's */
	QP_PUSH_FAILED     /* the sequence is over: m->err */
};

/* The segment whose turn it is: its parsed header, its bytes in n slices; NULL: qp_early_place has placed them. */
enum qp_push qp_push(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h, const struct rn_iov *ulpdu,
		     uint32_t n);

/* The header that ddp_parse refuses, *h as far as it was read: m->err. */
void qp_push_malformed(struct qp_ctx *ctx, struct qp_msgs *m, enum ddp_verdict v, const struct ddp_hdr *h);

/*
 * A segment ahead of its turn. Returns how many bytes after the place where its message stands its payload belongs; 0:
 * it may not be placed now (qp_early.c says why). A carrier that is not certain where the segment begins does not ask.
 */
uint32_t qp_early(const struct qp_msgs *m, const struct ddp_hdr *h);
/*
 * Places it. False: the memory has gone meanwhile; its turn will tell. In its turn the segment goes to qp_push with its
 * bytes all the same, or without them when nothing but segments of the same message came between.
 */
bool qp_early_place(struct qp_ctx *ctx, const struct qp_msgs *m, const struct ddp_hdr *h, const struct rn_iov *ulpdu,
		    uint32_t n);

/*
 * After NOT_READY: from here on the client rings when it posts (its own queue), or rings its worker (a shared one),
 * until qp_recv_over. The carrier keeps the srq, which is NULL for the QP's own queue.
 */
void qp_recv_waits(struct qp_ctx *ctx, struct qp *qp);
void qp_recv_over(struct qp_ctx *ctx, struct qp *qp, struct qp_srq *srq);
/* Nobody waits after all. */
void qp_recv_unask(struct qp_ctx *ctx, struct qp *qp);

/* Copies the receive work request that the next message takes, for carriers without a qp_msgs. */
enum qp_take { QP_TAKE_OK, QP_TAKE_NONE, QP_TAKE_BAD, QP_TAKE_BAD_RING };
enum qp_take qp_rq_take(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r);
bool qp_rq_any(struct qp *qp);
/* The carrier keeps a receive that it has taken, and others are taken meanwhile: the slots go back to the client. */
void qp_rq_keep(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r);

/* Writes a->len bytes of src to where the access says. On anything but OK nothing is written. */
enum qp_mr_verdict qp_place(struct qp_ctx *ctx, const struct qp_dev *dev, const struct qp_access *a,
			    const struct rn_iov *src, uint32_t n);

/* Scatters src, the payload of an untagged segment, to the receive's SGEs. */
enum qp_mr_verdict qp_rq_place(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct ddp_hdr *h,
			       const struct rn_iov *src, uint32_t n);

/* ---- queues, completions and states of a QP ---- */

enum qp_wc_status qp_mr_status(enum qp_mr_verdict v);
/* Checks the memory that a copied work request names; s->total gets its bytes. */
enum qp_wc_status qp_sq_check_local(const struct qp *qp, struct qp_send *s);
uint32_t qp_sq_slices(struct qp *qp, struct qp_send *s, uint32_t *len, struct rn_iov *out, enum qp_mr_verdict *v);
void qp_send_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_wr *wr, enum qp_wc_status status);
/* from: the address of the datagram's sender; NULL: there is none. */
void qp_recv_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct qp_cqe *with,
		 const uint8_t *from);
/* What the carrier has taken from a queue and not finished fails as what is still in the queue will. */
void qp_flush_send(struct qp_ctx *ctx, struct qp *qp, const struct qp_send *s);
void qp_flush_recv(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r);
/*
 * How many completions that no posted work request has a place for may come into the queue pair's receive CQ now. They
 * take half of it at most: the other half is for what is posted.
 */
uint32_t qp_extra_room(const struct qp_ctx *ctx, struct qp *qp);
/* Writes one of these completions; op and wr_id are the carrier's. */
void qp_extra_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_cqe *with, const uint8_t *from);
void qp_event(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err);
void qp_event_too(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err);
struct qp_fx *qp_fx_add(struct qp_ctx *ctx, enum qp_fx_type type, uint64_t owner);

void qp_set_state(struct qp *qp, enum qp_state to);
/* ERR, and everything outstanding or posted completes in order. Any number of times. */
void qp_enter_error(struct qp_ctx *ctx, struct qp *qp);
/* The queue pair leaves this worker: what of it is not flushed yet, the next one flushes. */
void qp_unlist(struct qp_ctx *ctx, struct qp *qp);
/* The part of a change of state that concerns no carrier. The carrier has let go of the QP before RESET. */
enum qp_verdict qp_step(struct qp_ctx *ctx, struct qp *qp, enum qp_state to);
/* The QP goes away: no completion follows. The carrier has let go of it. */
void qp_forget(struct qp_ctx *ctx, struct qp *qp);
/* A target lets go of the shared receive queue and the PD that its last messages have named. */
void qp_target_clear(struct qp_ctx *ctx, struct qp *qp);
/* In SQD, when something may have ended. */
void qp_look_drained(struct qp_ctx *ctx, struct qp *qp);

/* ---- the end ---- */

static inline uint32_t qp_vendor_err(struct iw_err e)
{
	return (uint32_t)e.layer << 16 | (uint32_t)e.etype << 8 | e.code;
}

/* A failure that is this side's own (RFC 5040, 4.8). */
static inline struct iw_err qp_local_err(void) { return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false); }

/* What a Terminate says becomes the status of the work request that it is about. */
void qp_blame(struct qp_msgs *m, const struct rdmap_term *t);
/* The peer has sent a Terminate: what the client is told of it. */
void qp_terminated(struct qp_ctx *ctx, struct qp_msgs *m, const struct rdmap_term *t);

enum qp_end {
	QP_END_FLUSH, /* ERR, all work is flushed */
	/* the QP stays as it is: what is under way and what was not begun goes back to the queues */
	QP_END_KEEP,
	QP_END_FAIL, /* the QP stays as it is: what is under way or taken completes, as it was blamed or flushed */
	QP_END_NEVER /* it never worked: the QP is as before qp_attach */
};
/* The sequence is over; the QP, if any, is let go. */
void qp_detach(struct qp_ctx *ctx, struct qp_msgs *m, enum qp_end how);
/* The peer does not answer: the oldest work request on the way fails with RETRY_EXC. Before qp_detach. */
void qp_unanswered(struct qp_msgs *m);
/* The QP leaves without completions (RESET, destroy). */
void qp_abandon(struct qp_msgs *m);

#endif
