/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The message engine as a carrier sees it. A carrier (lib/rc, lib/dgram, a test's) takes segments from one place to
 * another; the engine makes segments of work requests and of the peer's Reads, and turns received segments into placed
 * bytes and completions. The engine never calls a carrier: the verdict of a call says what the carrier must do.
 *
 * struct qp_msgs is one ordered sequence of messages with one peer QP: its untagged queues, the Reads and Atomics under
 * way, its message numbers. It lies inside the carrier's own struct: one in a reliable connection. A carrier must bring
 * each segment once and in order to qp_push, and may bring it earlier to qp_early.
 *
 * Sending:
 *	qp_peek(ctx, m, max, &len)	length of the next segment (a ULPDU: DDP header and payload)
 *	qp_pull(ctx, m, &seg)		the segment, in the carrier's buffers
 *	qp_acked(m, seg.wr)		the peer has all bytes up to and with this segment
 *	qp_complete(ctx, m)		then, once after one or more qp_acked
 * Receiving:
 *	qp_push(ctx, m, &h, ulpdu, n)
 * Ending: qp_blame, qp_detach, qp_enter_error.
 *
 * When a call returns that the sequence has failed, m->err says what to tell the peer (RFC 5040, 4.8), and the client
 * has got its completions and events. The carrier tells the peer, then detaches the QP.
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
#define QP_WR_MASK     (QP_WR_NONE >> 1) /* of the index of a work request: no index is QP_WR_NONE */
#define QP_SEG_SLICES  6u                /* payload slices of one segment sent; a segment with more is made shorter */
#define QP_SEG_HDR_MAX 96u               /* a segment's header, and payload that is copied behind the header */
#define QP_ULPDU_IOV   40u               /* slices of one segment received */

enum qp_wr_done {
	QP_WR_UNDER_WAY = 0,
	QP_WR_DONE,
	QP_WR_TOLD /* of an unordered sequence: completed before an older work request */
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
	uint8_t sinks;  /* Read: how many Read Requests there are, one for each sink with bytes */
	union {
		uint16_t imm_msn; /* Write with immediate: the low half of its Immediate Data message's MSN */
		uint16_t due;     /* Read: Read Requests that are not yet sent, or not yet answered */
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
	uint32_t wr;          /* index in the ring: the low bits (QP_WR_MASK) of wr_tail when it was added */
	uint32_t msn;
	struct rn_iov only; /* the bytes of the only SGE */
	bool found;         /* set by qp_peek with `only`: valid for the qp_pull that follows */
	bool loaded;        /* w and u hold an unfinished work request */
	bool started;       /* the work request has its entry in the ring */
};

/* The receive work request of the next or open message: a copy. */
struct qp_recv {
	uint64_t wr_id;
	uint32_t len;
	uint8_t num_sge;
	uint8_t slots;
	bool loaded;
	struct qp_sge sge[QP_MAX_SGE];
};

/* A Read of the peer that is yet to be answered, or an Atomic that has been executed. */
struct qp_resp {
	struct rdmap_read_req r;
	uint32_t sent;
	uint32_t msn; /* MSN of the request */
	bool is_atomic;
	struct rdmap_atomic_resp atomic;
};

/*
 * Working memory of a sequence of messages while something is under way. The memory is the carrier's, which may take it
 * away and give it again while qp_msgs_resting(). The carrier sets wr and wr_mask (a power of two, less one), then
 * calls qp_work_init.
 */
struct qp_work {
	struct qp_wr *wr;
	uint32_t wr_mask;
	uint32_t wr_head, wr_tail;     /* free running */
	bool stop;                     /* a work request has failed: no more are taken; it completes in its turn */
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
	QP_SRC_SQ,       /* a work request */
	QP_SRC_RESP      /* an answer to a Read or Atomic of the peer */
};

struct qp_msgs {
	/* Line 1: every segment. */
	struct qp *qp; /* NULL before attach and after the end */
	struct qp_dev *dev;
	struct qp_work *work; /* NULL: nothing is under way */
	uint8_t src_turn;     /* enum qp_src: the source of the last message */
	uint8_t src;          /* enum qp_src: whose message is open */
	bool draining;        /* set by the carrier: posted work is sent in SQD too, before a graceful end */
	bool keeps;           /* set by the carrier: a segment that finds no receive can be brought again (NOT_READY) */
	bool unordered;       /* set by the carrier: work requests complete in any order */
	bool imm_held;
	bool wrote;     /* the last Write sent had no immediate; an immediate right behind would seem to be its own */
	bool err_named; /* the Terminate names the current segment */
	uint32_t msn_send, msn_read; /* next MSN of QN 0 and QN 1, sending */
	uint32_t write_len;          /* bytes so far of the peer's Write that is not finished */
	uint32_t imm_len;            /* bytes of the last finished Write: for an immediate behind it */
	uint32_t imm;                /* immediate of the next Send, if imm_held: qp_imm.h */
	uint32_t write_stag;         /* of the last Write sent, with its TO in write_to; 0 and 0: none */
	uint64_t write_to;
	/* Line 2: Sends and Reads. */
	struct ddp_uq uq_send, uq_read;
	struct rdmap_readq readq;
	struct rdmap_ird ird;
	/* The rest is for atomics, failures and datagrams. */
	struct ddp_uq uq_atomic;
	uint32_t msn_atomic; /* next MSN of QN 3, sending */
	struct iw_err err;   /* after a failure */
	/*
	 * set by the carrier after qp_msgs_init: the sender that receive completions name, where there is no connection
	 */
	const uint8_t *peer; /* QP_UD_ADDR_LEN bytes; NULL for a connection */
	uint32_t peer_qpn;   /* 0 for a connection */
};

void qp_work_init(struct qp_work *w);
/* Begins a sequence: first message numbers, depths as agreed. m->work, keeps and dev are set; a QP may be attached. */
void qp_msgs_init(struct qp_msgs *m, uint32_t ird, uint32_t ord);
/* Gives the working memory to the sequence, or takes it away (NULL) while qp_msgs_resting. */
static inline void qp_msgs_work(struct qp_msgs *m, struct qp_work *w)
{
	m->work = w;
	if (w != NULL)
		m->readq.ring = w->read;
}
/* Attaches the QP, and takes over its device. */
void qp_attach(struct qp_msgs *m, struct qp *qp);

/* Whether nothing lies in the working memory. */
static inline bool qp_msgs_resting(const struct qp_msgs *m)
{
	const struct qp_work *w = m->work;

	return m->src == QP_SRC_NONE && w->wr_head == w->wr_tail && w->resp_head == w->resp_tail && !w->send.loaded &&
	       !w->recv.loaded && !w->stop && rdmap_readq_count(&m->readq) == 0;
}

/* Whether no taken work is left to be sent or completed. */
static inline bool qp_msgs_sent(const struct qp_msgs *m)
{
	const struct qp_work *w = m->work;

	return w == NULL || (w->wr_head == w->wr_tail && !w->send.loaded && w->resp_head == w->resp_tail);
}

/* Whether work requests are under way. */
static inline bool qp_msgs_busy(const struct qp_msgs *m)
{
	return m->work != NULL && m->work->wr_head != m->work->wr_tail;
}

/* Whether send work is posted that the engine has not taken; a corrupt ring counts if `any`. For the worker only. */
static inline bool qp_posted(struct qp *qp) { return spsc_cons_avail(&qp->sq, qp->sq_taken + 1) > qp->sq_taken; }

/* Whether all posted send work that the worker knows of has been taken. */
static inline bool qp_all_taken(const struct qp *qp)
{
	return !qp->rung && qp->sq.seen - qp->sq.own <= qp->sq_taken && rn_likely(qp->sq.verdict == SPSC_OK);
}

/* ---- sending ---- */

enum qp_pull {
	QP_PULL_OK = 0,
	QP_PULL_NONE,  /* nothing to send now; a doorbell, an answer or an acknowledgement may change that */
	QP_PULL_LATER, /* qp_peek: other queue pairs are next; the sequence needs another turn behind them */
	QP_PULL_FAILED /* the sequence is over: m->err */
};

/* A segment to be sent. The buffers are the carrier's and are filled in place. */
struct qp_seg {
	uint8_t *hdr;       /* QP_SEG_HDR_MAX bytes */
	uint8_t *inl;       /* QP_MAX_INLINE bytes, for payload that is not the client's memory */
	struct rn_iov *iov; /* QP_SEG_SLICES: the payload */
	uint32_t hdr_len;   /* DDP header, and payload copied behind the header */
	uint32_t n, len;    /* slices and bytes of the payload */
	uint32_t wr;        /* for qp_acked; QP_WR_NONE: nothing waits for this segment's acknowledgement */
};

/*
 * A client may post local work as fast as it likes, and no peer slows it down. So each QP_LOCALS work requests of a
 * queue pair end its turn, also if segments were made in between.
 */
#define QP_LOCALS 32u

/* The slow part of qp_peek: the next message is to be chosen, or is neither a Send, a Write nor an answer. */
enum qp_pull qp_peek_next(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, uint32_t *len);

/* Bytes of the next segment of a Send or Write, with its header. */
static inline uint32_t qp_cut_len(const struct qp_send *s, uint32_t max)
{
	uint32_t hdr_len = s->w.op == QP_WR_WRITE || s->w.op == QP_WR_WRITE_IMM ? DDP_TAGGED_HDR_LEN
										: DDP_UNTAGGED_HDR_LEN;

	return rn_min_u32(hdr_len + s->total - s->sent, max);
}

/* The answer that is sent next, to the oldest Read or Atomic of the peer. */
static inline struct qp_resp *qp_resp_oldest(const struct qp_msgs *m)
{
	return &m->work->resp[m->work->resp_head & (QP_MAX_RD_ATOMIC - 1)];
}

/* Bytes of the next segment of an answer, with its header. */
static inline uint32_t qp_resp_len(const struct qp_resp *p, uint32_t max)
{
	if (rn_unlikely(p->is_atomic))
		return DDP_UNTAGGED_HDR_LEN + RDMAP_ATOMIC_RESP_LEN;
	/* the peer chose the length, up to UINT32_MAX: the header is added to what is cut */
	return DDP_TAGGED_HDR_LEN + rn_min_u32(p->r.len - p->sent, max - DDP_TAGGED_HDR_LEN);
}

/*
 * *len gets the length of the next ULPDU, which has at most max bytes; the segment that qp_pull makes may be shorter.
 * Local work (bind, invalidate) is carried out on the way, QP_LOCALS work requests at most: then LATER. Work is taken
 * from the SQ in RTS, or when `draining`.
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
	if (m->src == QP_SRC_NONE && !w->send.loaded && qp_all_taken(qp)) {
		if (w->resp_head == w->resp_tail)
			return QP_PULL_NONE;
		m->src = m->src_turn = QP_SRC_RESP;
	}
	if (m->src == QP_SRC_RESP) {
		*len = qp_resp_len(qp_resp_oldest(m), max);
		return QP_PULL_OK;
	}
	return qp_peek_next(ctx, m, max, len);
}

/*
 * For a QP of qp_attr.many, whose work requests the carrier takes: copies and checks the next work request. After
 * BAD_RING, and after BAD when stats.bad_wqes grows, the work requests behind cannot be found.
 */
enum qp_take qp_sq_take(struct qp_ctx *ctx, struct qp_msgs *m, struct qp_send *s, enum qp_wc_status *why);
/* Whether the sequence can take a work request from qp_hand. */
static inline bool qp_takes(const struct qp_msgs *m)
{
	const struct qp_work *k = m->work;

	return !k->send.loaded && !k->stop && k->wr_tail - k->wr_head <= k->wr_mask;
}
/* Makes a work request the next message of m, or fails it in its turn if why is not success. OK, or FAILED: m->err. */
enum qp_pull qp_hand(struct qp_ctx *ctx, struct qp_msgs *m, const struct qp_send *s, enum qp_wc_status why);

/* Makes the next segment, after qp_peek returned OK with the same max. OK: the segment counts as sent. */
enum qp_pull qp_pull(struct qp_ctx *ctx, struct qp_msgs *m, uint32_t max, struct qp_seg *s);

/*
 * Makes a segment without data, which any sequence may contain: a zero-length Write, or a zero-length Read, which the
 * peer must answer. The Write names the memory of the last Write, if there was one, so that a peer which checks more
 * than it must accepts it.
 */
enum qp_empty { QP_EMPTY_WRITE, QP_EMPTY_READ };
void qp_pull_empty(struct qp_msgs *m, enum qp_empty what, struct qp_seg *s);

/* The peer has every byte of this work request (and of all before it). */
static inline void qp_acked(struct qp_msgs *m, uint32_t idx)
{
	struct qp_work *w = m->work;
	struct qp_wr *wr = &w->wr[idx & w->wr_mask];

	if (((idx - w->wr_head) & QP_WR_MASK) < w->wr_tail - w->wr_head && wr->status == QP_WC_SUCCESS)
		wr->done = 1;
}

/* The MSN of the request that the next segment answers. Call after qp_peek returned OK, with m->src QP_SRC_RESP. */
static inline uint32_t qp_asked(const struct qp_msgs *m) { return qp_resp_oldest(m)->msn; }

/*
 * Writes the completions of finished work, in the order of posting unless m->unordered. FAILED: the turn of a failed
 * work request has come.
 */
enum qp_pull qp_complete(struct qp_ctx *ctx, struct qp_msgs *m);

/* ---- receiving ---- */

enum qp_push {
	QP_PUSH_OK = 0,
	QP_PUSH_DELIVERED, /* a message is whole: its sender waits for the acknowledgement to complete it */
	QP_PUSH_NOT_READY, /* no receive is posted: bring the segment again (qp_recv_waits). Nothing was used */
	QP_PUSH_TERMINATE, /* a Terminate, which the carrier handles */
	QP_PUSH_FAILED     /* the sequence is over: m->err */
};

/*
 * Takes the segment whose turn has come: its parsed header, its bytes in n slices; NULL: qp_early_place has placed
 * them.
 */
enum qp_push qp_push(struct qp_ctx *ctx, struct qp_msgs *m, const struct ddp_hdr *h, const struct rn_iov *ulpdu,
		     uint32_t n);

/* Sets m->err for a header that ddp_parse refuses; *h: as far as it was read. */
void qp_push_malformed(struct qp_ctx *ctx, struct qp_msgs *m, enum ddp_verdict v, const struct ddp_hdr *h);

/*
 * Asks whether a segment may be placed ahead of its turn. Returns how many bytes after the current place of its message
 * the payload belongs; 0: it must wait (qp_early.c says why). Only for a carrier that is certain where the segment
 * begins.
 */
uint32_t qp_early(const struct qp_msgs *m, const struct ddp_hdr *h);
/*
 * Places the segment. False: the memory is gone, which qp_push will report in the segment's turn. In its turn the
 * segment still goes to qp_push: with its bytes, or without them if only segments of the same message came between.
 */
bool qp_early_place(struct qp_ctx *ctx, const struct qp_msgs *m, const struct ddp_hdr *h, const struct rn_iov *ulpdu,
		    uint32_t n);

/*
 * NOT_READY has asked the client to ring a doorbell when it posts receives: the QP's for its own queue, the worker's
 * for a shared one. qp_recv_waits keeps an SRQ's request standing until qp_recv_over, to which the carrier gives the
 * SRQ that the QP had at qp_recv_waits; NULL: the QP's own queue.
 */
void qp_recv_waits(struct qp_ctx *ctx, struct qp *qp);
void qp_recv_over(struct qp_ctx *ctx, struct qp *qp, struct qp_srq *srq);
/* Withdraws the request where no message waits (qp_recv_waits was not called, or is over). */
void qp_recv_unask(struct qp_ctx *ctx, struct qp *qp);

/* Copies the receive work request that the next message takes, for carriers without a qp_msgs. */
enum qp_take { QP_TAKE_OK, QP_TAKE_NONE, QP_TAKE_BAD, QP_TAKE_BAD_RING };
enum qp_take qp_rq_take(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r);
bool qp_rq_any(struct qp *qp);
/* The carrier keeps a receive that it has taken, while it takes others: the slots go back to the client now. */
void qp_rq_keep(struct qp_ctx *ctx, struct qp *qp, struct qp_recv *r);

/* Writes a->len bytes of src to the memory of the access. On anything but OK nothing is written. */
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
/* from: the address of a datagram's sender; NULL: none. */
void qp_recv_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r, const struct qp_cqe *with,
		 const uint8_t *from);
/* Flushes a work request that the carrier has taken from a queue and not finished. */
void qp_flush_send(struct qp_ctx *ctx, struct qp *qp, const struct qp_send *s);
void qp_flush_recv(struct qp_ctx *ctx, struct qp *qp, const struct qp_recv *r);
/*
 * How many completions without a posted work request (of records) the queue pair's receive CQ can take now. They take
 * at most half of the CQ: the other half is for posted work requests.
 */
uint32_t qp_extra_room(const struct qp_ctx *ctx, struct qp *qp);
/* Writes such a completion; op and wr_id are the carrier's. */
void qp_extra_cqe(struct qp_ctx *ctx, struct qp *qp, const struct qp_cqe *with, const uint8_t *from);
void qp_event(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err);
void qp_event_too(struct qp_ctx *ctx, struct qp *qp, enum qp_event ev, uint32_t vendor_err);
struct qp_fx *qp_fx_add(struct qp_ctx *ctx, enum qp_fx_type type, uint64_t owner);

void qp_set_state(struct qp *qp, enum qp_state to);
/* The QP goes to ERR, and everything outstanding or posted completes in order. May be called again. */
void qp_enter_error(struct qp_ctx *ctx, struct qp *qp);
/* The queue pair leaves this worker: the next worker flushes the rest. */
void qp_unlist(struct qp_ctx *ctx, struct qp *qp);
/* The part of a change of state that concerns no carrier. Before RESET the carrier has let the QP go. */
enum qp_verdict qp_step(struct qp_ctx *ctx, struct qp *qp, enum qp_state to);
/* The QP goes away: no more completions follow. The carrier has let the QP go. */
void qp_forget(struct qp_ctx *ctx, struct qp *qp);
/* A target stops using the shared receive queue and the PD that its last messages named. */
void qp_target_clear(struct qp_ctx *ctx, struct qp *qp);
/* Called in SQD when something may have ended. */
void qp_look_drained(struct qp_ctx *ctx, struct qp *qp);

/* ---- the end ---- */

static inline uint32_t qp_vendor_err(struct iw_err e)
{
	return (uint32_t)e.layer << 16 | (uint32_t)e.etype << 8 | e.code;
}

/* The error to report for a failure on our own side (RFC 5040, 4.8). */
static inline struct iw_err qp_local_err(void) { return iw_err_of(IW_LAYER_RDMAP, IW_RDMAP_LOCAL, IW_LOCAL, false); }

/* Sets the status of the work request that the peer's Terminate is about. */
void qp_blame(struct qp_msgs *m, const struct rdmap_term *t);
/* The peer has sent a Terminate: raises the client's event. */
void qp_terminated(struct qp_ctx *ctx, struct qp_msgs *m, const struct rdmap_term *t);

enum qp_end {
	QP_END_FLUSH, /* ERR; all work is flushed */
	/* the QP's state stays: work that is under way or not begun goes back to the queues */
	QP_END_KEEP,
	QP_END_FAIL, /* the QP's state stays: work that is under way or taken completes, as blamed or flushed */
	QP_END_NEVER /* the sequence never worked: the QP is as before qp_attach */
};
/* Ends the sequence, and detaches the QP if there is one. */
void qp_detach(struct qp_ctx *ctx, struct qp_msgs *m, enum qp_end how);
/* The peer does not answer: the oldest work request under way fails with RETRY_EXC. Call before qp_detach. */
void qp_unanswered(struct qp_msgs *m);
/* Detaches the QP without completions (RESET, destroy). */
void qp_abandon(struct qp_msgs *m);

#endif
