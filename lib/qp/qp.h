/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device model and the iWARP connection: everything between "a TCP segment arrived" and "completion written", and
 * between "doorbell" and "header fields and slices of the next segment". Pure: no allocation, no system call, no clock.
 *
 * One turn of a worker:
 *	ctx->now = clock;
 *	for each received segment	held = qp_conn_segment(ctx, conn, &seg, &pkt); if (!held) free the packet
 *	for each doorbell		qp_doorbell(ctx, qp)
 *	for each due timer		qp_conn_timer(ctx, conn)
 *	while ((conn = qp_ready_pop(ctx))) {
 *		while (qp_conn_out(ctx, conn, &out)) transmit;	(transmit queue full: stop, qp_ready_put(ctx, conn))
 *		arm the connection's timer with qp_conn_next_wake(conn);
 *	}
 *	qp_flush(ctx)			completions become visible, notifications are decided
 *	take ctx->fx[0..n_fx) and ctx->refs[0..n_refs), then qp_drained(ctx)
 * Whenever qp_ctx_full(ctx) between two calls: the last line first.
 *
 * Threads: a ctx belongs to one worker; so do a connection from open to QP_FX_CLOSED and a QP while it is attached to
 * one. Functions marked "control thread" may run elsewhere on objects that no worker knows yet (or any more).
 * Memory: all of it is the caller's. Connections, QPs, CQs and devices stay where they are while in use.
 * Lengths are bytes, times nanoseconds of one monotonic clock.
 */
#ifndef QP_H
#define QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_iov.h"
#include "base/rn_stream.h"
#include "iwarp/mpa_neg.h"
#include "iwarp/mpa_rx.h"
#include "iwarp/rdmap_track.h"
#include "qp/qp_cq.h"
#include "qp/qp_dev.h"
#include "qp/qp_srq.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"
#include "tcp_lite/tcpl.h"

struct qp;
struct qp_conn;
struct qp_ctx;
struct qp_rec;
struct qp_block;
struct qp_setup;

#define QP_MAX_RD_ATOMIC 128u /* largest IRD and ORD */

/* ---- effects: what the control plane must hear of ---- */

enum qp_fx_type {
	QP_FX_CONNECT_REQUEST, /* passive: the Request is here; priv, ird, ord. Answer: accept or reject */
	QP_FX_CONNECT_REPLY,   /* active without a QP: accepted; priv, ird, ord. Answer: attach or abort */
	QP_FX_ESTABLISHED,     /* both sides, QP is in RTS; priv on the active side; ird, ord as agreed */
	QP_FX_REJECTED,        /* active: the peer's application said no; priv */
	QP_FX_UNREACHABLE,     /* active: TCP or the Reply timed out (code 0), or TCP was refused (code 1) */
	QP_FX_CONNECT_ERROR,   /* the set-up failed after TCP was open; code: enum mpa_neg_verdict or 0 */
	QP_FX_DISCONNECTED,    /* the stream ended after ESTABLISHED; once; code 0: orderly. The QP is detached */
	QP_FX_CLOSED,          /* last word about a connection: its memory and its flow entry may be reused */
	QP_FX_QP_EVENT,        /* code: enum qp_event; vendor_err */
	QP_FX_CQ_ERROR,        /* overrun or corrupt ring */
	QP_FX_CQ_NOTIFY,       /* the CQ was armed and has new entries */
	QP_FX_SRQ_EVENT        /* code: enum qp_event */
};

/* Numbers of ibv_event_type. */
enum qp_event {
	QP_EVENT_FATAL = 1,
	QP_EVENT_REQ_ERR = 2,
	QP_EVENT_ACCESS_ERR = 3,
	QP_EVENT_COMM_EST = 4,
	QP_EVENT_SQ_DRAINED = 5, /* asked for with SQD (qp_tune): no work that was begun is on the way any more */
	QP_EVENT_SRQ_ERR = 14,  /* its ring is corrupt */
	QP_EVENT_SRQ_LIMIT = 15,
	QP_EVENT_LAST_WQE = 16  /* a QP in ERR takes no more from its SRQ, and what it had taken is flushed */
};

struct qp_fx {
	uint8_t type;  /* enum qp_fx_type */
	uint8_t code;
	uint16_t priv_len;
	uint16_t ird, ord; /* CONNECT_REQUEST, CONNECT_REPLY: the peer's offer turned to our side; 0: it did not say */
	uint32_t vendor_err; /* Terminate layer<<16 | etype<<8 | code, sent or received */
	uint64_t owner;      /* of the connection, QP, CQ or SRQ it is about */
	struct qp_conn *conn; /* for the first eight types */
	const uint8_t *priv;  /* valid until qp_drained; CONNECT_REQUEST: until accept, reject or the end */
};

/* ---- QP ---- */

enum qp_verdict {
	QP_OK = 0,
	QP_BAD_ATTR,     /* ring geometry, offsets or numbers are wrong */
	QP_BAD_STATE,    /* not in this state */
	QP_NO_MEMORY,    /* a pool of the ctx is empty */
	QP_BAD_PRIV,     /* private data too long */
	QP_NO_AGREEMENT, /* accept: MPA terms do not meet; the connection is being closed, effects follow */
	QP_BAD_SEGMENT   /* passive: not an acceptable SYN */
};

/* What carries a QP's messages. Fixed at qp_init. */
enum qp_type {
	QP_RC, /* one connection: lib/rc */
	QP_UD  /* datagrams, each to an address of its own: lib/dgram */
};

struct qp_attr {
	enum qp_type type;
	uint64_t owner;    /* the caller's, returned in effects */
	uint32_t qpn;      /* written into completions */
	uint32_t pd;
	struct qp_dev *dev;
	struct qp_cq *scq, *rcq;
	struct qp_srq *srq; /* NULL: a receive queue of its own, rq_off and rq_slots */
	uint32_t sig_all;  /* 1: every send WQE completes with a CQE */
	uint32_t access;   /* QP_ACC_REMOTE_*: what peers may do through this QP, besides each MR's rights */
	uint32_t max_msg;  /* UD: bytes of a message at most */
	bool sparing;      /* as InfiniBand: no event is raised for what a completion tells too */
	void *region;      /* mapping of the client's queue region */
	uint64_t region_size;
	uint64_t shm_off;  /* struct qp_shm, cache-line aligned */
	uint64_t sq_off, rq_off; /* spsc rings of QP_SLOT_SIZE slots */
	uint32_t sq_slots, rq_slots;
};

struct qp {
	/* Line 1: both paths. */
	uint8_t state;     /* enum qp_state */
	uint8_t type;      /* enum qp_type */
	uint8_t sig_all;
	uint8_t access;
	uint8_t listed;    /* on ctx's list of queues to release */
	bool rung;         /* the client may have posted sends that have not been looked for */
	uint32_t qpn;
	uint32_t pd;
	uint32_t sq_taken; /* SQ slots copied and not yet released */
	struct qp_conn *conn;
	struct qp_dev *dev;
	struct qp_cq *scq, *rcq;
	uint32_t sq_done, rq_done; /* slots to be released by qp_flush */
	struct spsc_cons sq;
	struct spsc_cons rq;   /* with an SRQ: empty for good */
	uint32_t recv_pd;      /* of the receives' lkeys */
	bool last_told;        /* QP_EVENT_LAST_WQE */
	bool tell_drained;     /* QP_EVENT_SQ_DRAINED is due */
	struct qp_srq *srq;
	struct qp_shm *shm;
	uint64_t owner;
	uint32_t vendor_err; /* of the first error */
	uint32_t flushed;    /* work requests flushed so far */
	bool sparing;        /* of qp_attr */
	bool alone;          /* its connection without CM is over: who sends now finds nobody */
	uint64_t rnr_ns;     /* a message that finds no receive waits so long: 0 not at all, RN_NEVER for good (qp_rnr.c) */
	/* of a datagram QP */
	uint32_t max_msg;    /* of qp_attr */
	uint32_t qkey;       /* that datagrams for it must have */
	uint32_t ud_msn;     /* datagrams sent */
	bool ud_ready;       /* on the ctx's list of those with something to send */
	struct qp *ud_next;
};

/* Control thread. The QP starts in `RESET`. OK or BAD_ATTR. */
RN_NODISCARD enum qp_verdict qp_init(struct qp *qp, const struct qp_attr *a);

/* What a client may change of a QP after its creation. */
struct qp_tune {
	uint32_t access;   /* QP_ACC_REMOTE_* */
	uint32_t qkey;     /* UD: the Q_Key that a datagram for the QP must have */
	uint64_t rnr_ns;   /* RC: a message that finds no receive waits this long; 0: not at all, RN_NEVER: without end */
	bool tell_drained; /* raise QP_EVENT_SQ_DRAINED in SQD, when no work that was begun is on the way any more */
};

/* The worker that owns the QP; the control thread while no worker knows it. Before the qp_modify that it belongs to. */
void qp_set(struct qp *qp, const struct qp_tune *t);

/* The worker that shall own the QP (any one while it has no connection). ERR ends the connection with a Terminate. */
enum qp_verdict qp_modify(struct qp_ctx *ctx, struct qp *qp, enum qp_state to);

/*
 * The client has rung for this QP: takes send WQEs and transmits, or flushes (ERR: both queues). Harmless in any state.
 * Each post is followed by one: a queue's index is looked at once for it, not again.
 */
void qp_doorbell(struct qp_ctx *ctx, struct qp *qp);

/* A client has posted to shared receive queues that somebody on this worker waits for. */
void qp_recvs(struct qp_ctx *ctx);

/* Send work is posted and there is no connection to take it: the worker's alone to ask. */
bool qp_send_waits(struct qp *qp);

/* The peer of a QP without connection cannot be had: the oldest send gets RETRY_EXC, the rest is flushed, the QP is in ERR. */
void qp_unreachable(struct qp_ctx *ctx, struct qp *qp);

/*
 * The QP goes away: no completion follows. Its connection, if any, is closed (FIN when idle, RST otherwise) and lives
 * on without it until QP_FX_CLOSED. Completions already made become visible with the next qp_flush.
 */
void qp_destroy(struct qp_ctx *ctx, struct qp *qp);

/* ---- connection ---- */

/* One writer: conn_set_state in qp_conn.c. */
enum qp_conn_state {
	QP_C_FREE = 0,       /* not in use */
	QP_C_OPENING,        /* active: waits for TCP to connect; moved on by the peer or a time-out */
	QP_C_WAIT_REQ,       /* passive: waits for TCP and the MPA Request; moved on by the peer or cfg.request_ns */
	QP_C_WAIT_ACCEPT,    /* passive: waits for qp_conn_accept or qp_conn_reject (cfg.accept_ns) */
	QP_C_WAIT_REP,       /* active: Request sent, waits for the Reply (cfg.reply_ns) */
	QP_C_WAIT_QP,        /* active: Reply here, waits for qp_conn_attach (cfg.accept_ns) */
	QP_C_WAIT_FIRST,     /* passive: Reply sent, may not send before the initiator's first FPDU (RFC 5044, 7.1.2) */
	QP_C_OPERATIONAL,    /* both directions open */
	QP_C_DRAINING,       /* qp_conn_disconnect: what is posted goes out, then FIN (cfg.close_ns) */
	QP_C_CLOSING,        /* our FIN is queued, nothing more is sent; waits for the peer's FIN (cfg.close_ns) */
	QP_C_TERMINATING,    /* a Terminate or final frame and FIN are queued, input is thrown away; (cfg.close_ns) */
	QP_C_DEAD            /* both FINs are there, or a reset; no QP; waits for tcp_lite's end (cfg.close_ns) */
};

/*
 * Received bytes of a connection whose QP is not ready to receive. One writer: qp_rnr.c. In all but NONE what comes is kept
 * in order behind what waits.
 */
enum qp_rnr {
	QP_RNR_NONE = 0, /* input is used as it comes */
	QP_RNR_WAITS,    /* a message waits for a receive; moved on by a doorbell, qp_recvs, rnr_until or the stream's end */
	QP_RNR_BEHIND    /* it has its receive; qp_conn_out works off what was kept */
};

/* Set in params.flags. */
enum {
	/*
	 * No CM above: the peer's end, short of a Terminate, leaves the QP as it is and its receives posted. Who sends then,
	 * or has sent, gets QP_WC_RETRY_EXC_ERR. Our own end (ERR, RESET, destroy) is a FIN to the peer, no Terminate.
	 */
	QP_CONN_KEEP_RECV = 1 << 0,
	/*
	 * Active: the peer is the connection itself, what it sends it receives. TCP opens as if both had connected at once
	 * (RFC 9293, 3.5); with nobody to agree with there are no MPA frames, and QP_FX_CONNECT_REPLY has no private data.
	 */
	QP_CONN_SELF = 1 << 1,
};

struct qp_conn_params {
	struct qp_dev *dev;      /* NULL: the device of the QP that is attached */
	const struct tcpl_cfg *tcp;
	uint64_t owner;          /* the caller's, returned in effects */
	uint32_t iss;            /* tcpl_isn */
	uint32_t flags;          /* QP_CONN_* */
	struct mpa_policy policy;/* passive: ird, ord and the rest may still be set at accept */
	struct qp *qp;           /* active: may be NULL, then QP_FX_CONNECT_REPLY comes; passive: NULL */
	const uint8_t *priv;     /* active: goes into the Request */
	uint32_t priv_len;
};

struct qp_conn {
	struct tcpl_conn tcp;
	struct qp_conn *ready_next, *answer_next, *starve_next;
	struct qp *qp;          /* NULL before attach and after the end */
	struct qp_dev *dev;
	struct qp_block *blk;   /* NULL while idle */
	struct qp_setup *setup; /* until OPERATIONAL */
	uint64_t owner;
	uint64_t deadline;      /* of the state, RN_NEVER: none */
	uint8_t state;          /* enum qp_conn_state */
	bool ready, answers;    /* on the ctx's lists of these */
	bool passive;
	bool told;              /* the control plane knows of it: an end must be told */
	bool up;                /* ESTABLISHED has been told */
	bool peer_fin;
	bool term_rx;           /* the peer sent a Terminate */
	bool term_tx;           /* we did: one only */
	uint8_t flags;          /* QP_CONN_* */
	uint8_t tx_turn;        /* who sends the next message: enum qp_tx_src */
	uint8_t tx_cur;         /* whose message is open */
	uint8_t starved;        /* waits for a pool: 1 + enum qp_want */
	bool rtr_due;           /* initiator, p2p: the RTR must go first */
	uint8_t nudges;         /* initiator: turns that the silent peer has had, qp_quirk.h */
	bool early;             /* DRAINING, and the peer has said nothing: the deadline is the next nudge's */
	bool asked;             /* it was asked to */
	uint32_t mulpdu;        /* ULPDU bytes in a full segment */
	uint32_t rx_base;       /* sequence number of the first octet of Full Operation, received */
	uint32_t tx_pos;        /* offset in Full Operation of the next FPDU sent */
	uint32_t msn_send, msn_read, msn_atomic; /* next MSN of QN 0, QN 1 and QN 3, sending */
	uint32_t write_len;     /* bytes so far of the peer's Write that is not finished */
	uint32_t imm_len;       /* bytes of the one that is: for an immediate behind it */
	uint32_t imm;           /* of the next Send, when imm_held: qp_imm.h */
	bool imm_held;
	bool wrote;             /* the last Write sent had no immediate: one right behind it would be taken for its own */
	uint8_t rnr;            /* enum qp_rnr */
	bool ragged;            /* a segment of the peer did not begin with an FPDU */
	uint8_t cut_op;         /* of the last FPDU in order: its opcode */
	uint16_t cut;           /* and its ULPDU octets; 0: the end of a message, or of one that is not placed early */
	bool rnr_fin;           /* the peer's FIN lies behind what waits */
	struct qp_srq *rnr_srq; /* which waits for it, on the ctx's list; NULL: not */
	struct qp_conn *rnr_prev, *rnr_next;
	uint64_t rnr_until;     /* WAITS: then it has lasted too long; RN_NEVER: it may last */
	struct mpa_rx rx;
	struct ddp_uq uq_send, uq_read, uq_atomic;
	struct rdmap_readq readq;
	struct rdmap_ird ird;
	struct mpa_agreed agreed;
	struct mpa_policy policy;
	uint32_t vendor_err;
};

/* Active open. OK, NO_MEMORY, BAD_PRIV, BAD_STATE (the QP is attached already or in ERR or RESET). */
RN_NODISCARD enum qp_verdict qp_conn_connect(struct qp_ctx *ctx, struct qp_conn *c, const struct qp_conn_params *p);

/*
 * Passive open by a SYN that met a listener. OK, NO_MEMORY or BAD_SEGMENT: then nothing was done. The caller bounds how
 * many connections are still without QP_FX_CONNECT_REQUEST.
 */
RN_NODISCARD enum qp_verdict qp_conn_passive(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_seg *syn,
					     const struct qp_conn_params *p);

/* What a SYN cookie was made with: tcpl_cookie_make. */
struct qp_cookie {
	const uint64_t *key; /* two words */
	const void *tuple;
	uint32_t len;
};

/*
 * Passive open by the ACK of a SYN cookie. OK: the same segment then goes to qp_conn_segment, it may carry data.
 * NO_MEMORY, or BAD_SEGMENT: not a cookie of ours; then nothing was done.
 */
RN_NODISCARD enum qp_verdict qp_conn_passive_cookie(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_seg *ack,
						    const struct qp_cookie *k, const struct qp_conn_params *p);

struct qp_accept {
	struct qp *qp;
	uint16_t ird, ord;
	uint16_t priv_len;
	const uint8_t *priv;
};
/* In WAIT_ACCEPT. OK, BAD_STATE, BAD_PRIV (nothing done); NO_AGREEMENT. */
RN_NODISCARD enum qp_verdict qp_conn_accept(struct qp_ctx *ctx, struct qp_conn *c, const struct qp_accept *a);
RN_NODISCARD enum qp_verdict qp_conn_reject(struct qp_ctx *ctx, struct qp_conn *c, const uint8_t *priv, uint32_t len);

/* Active, in WAIT_QP: the QP that the connection was opened for. */
RN_NODISCARD enum qp_verdict qp_conn_attach(struct qp_ctx *ctx, struct qp_conn *c, struct qp *qp);

/*
 * Graceful: what is posted goes out, then FIN; of a young peer-to-peer stream not before the peer has said something
 * (qp_quirk.h). In any state; before OPERATIONAL it is an abort.
 */
void qp_conn_disconnect(struct qp_ctx *ctx, struct qp_conn *c);

/* At once, with RST. The QP is flushed. The end is still told with QP_FX_CLOSED. */
void qp_conn_abort(struct qp_ctx *ctx, struct qp_conn *c);

/*
 * A received packet's TCP payload as slices; seg->ref must be the address of this. Where it lies is the caller's
 * choice (beside the packet): while the packet is held, it and the slices stay.
 */
struct qp_pkt {
	const struct rn_iov *iov;
	uint32_t n;
	/* while it is kept for a QP that is not ready to receive: qp_rnr.c */
	bool twice; /* TCP holds another part of it, which gives it back */
	struct qp_pkt *next;
	uint32_t off, len, seq; /* the part that is kept */
};
#define QP_PKT_MAX_IOV 32 /* slices of one packet */

/* True: the packet is held; its ref comes back in ctx->refs. False: it is the caller's again. */
RN_NODISCARD bool qp_conn_segment(struct qp_ctx *ctx, struct qp_conn *c, const struct tcpl_seg *seg);

void qp_conn_timer(struct qp_ctx *ctx, struct qp_conn *c);

/* When qp_conn_timer wants to be called; RN_NEVER: not before something happens. */
static inline uint64_t qp_conn_next_wake(const struct qp_conn *c)
{
	return c->state == QP_C_FREE ? RN_NEVER
				     : rn_min_u64(tcpl_next_wake(&c->tcp), rn_min_u64(c->deadline, c->rnr_until));
}

/* The next segment of this connection; false when there is none now. Its o->len bytes come from one of the calls below. */
bool qp_conn_out(struct qp_ctx *ctx, struct qp_conn *c, struct tcpl_out *o);

/*
 * The bytes of the segment just made as slices, which may go to the port by reference: they change only after the peer
 * has acknowledged them. Returns their number; 0: they are more than max, or not of that kind. crc_due: NULL, or set when
 * the segment is one FPDU of header, payload and trailer, a slice each or the payload several, whose CRC is the caller's
 * to put into the last 4 octets of what it sends; they are zero in the last slice, and are summed anew if sent again.
 */
uint32_t qp_conn_slices(const struct qp_conn *c, const struct tcpl_out *o, struct rn_iov *iov, uint32_t max, bool *crc_due);

/* Whether any byte that waits to be sent or acknowledged lies in [base, base + len). Looks at all that is queued. */
bool qp_conn_refers(const struct qp_conn *c, const uint8_t *base, uint64_t len);

/* Copies the bytes of the segment just made. A CRC that is still due is summed in the same pass over them. */
void qp_conn_copy(const struct qp_conn *c, const struct tcpl_out *o, uint8_t *dst);

static inline enum qp_conn_state qp_conn_get_state(const struct qp_conn *c) { return (enum qp_conn_state)c->state; }
const char *qp_conn_state_name(enum qp_conn_state s);
const char *qp_state_name(enum qp_state s);

/* ---- per worker ---- */

#define QP_FX_MAX        256u
#define QP_FX_PER_CALL   16u
#define QP_REFS_MAX      4096u
#define QP_HOLD_MAX      2048u /* out-of-order packets held with a wide block at most: as many as FPDUs in flight */
#define QP_HOLD_NARROW   128u  /* and with a narrow one */
#define QP_REFS_PER_CALL (QP_HOLD_MAX + 1)
#define QP_DIRTY_MAX     64u
#define QP_NARROW_CHUNKS 64u /* FPDUs in flight of a connection with a narrow block */

struct qp_cfg {
	uint32_t worker;      /* number of this worker, < QP_MAX_WORKERS: its ring in each CQ */
	uint32_t max_mtu;     /* largest MTU of the devices served */
	uint32_t blocks;      /* connections that can be active at once; of the idle ones few keep theirs */
	uint32_t wide;        /* of the blocks, those with room for `chunks`, given out first; the others are narrow */
	uint32_t recs;        /* FPDUs in flight, all connections */
	uint32_t setups;      /* connections being set up at once */
	uint32_t stages;      /* FPDUs being put together at once, MPA_STAGE_SIZE each */
	uint32_t chunks;      /* FPDUs in flight per connection, a power of two, 64..4096 */
	bool rates;           /* some connections' congestion control measures rates (struct tcpl_sent) */
	uint32_t rnr_pkts;    /* packets kept for QPs that are not ready to receive; more are as if lost */
	uint32_t hold_pkts;   /* packets held behind holes, all connections; more are as if lost */
	uint64_t request_ns;  /* passive: TCP and MPA Request must be here. 10 s */
	uint64_t reply_ns;    /* active: MPA Reply after the Request. 10 s */
	uint64_t accept_ns;   /* the application's answer. 60 s */
	uint64_t close_ns;    /* FIN and Terminate must be through. 5 s */
};

/* LAN defaults for n active connections. */
void qp_cfg_default(struct qp_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns);

/* Counters of one worker; the worker writes, anyone reads. */
struct qp_stats {
	uint64_t fpdus_in, fpdus_out;
	uint64_t wqes, cqes, rwqes;
	uint64_t bytes_placed;
	uint64_t bytes_streamed; /* of those, past the caches */
	uint64_t staged;         /* FPDUs that TCP had split */
	uint64_t ooo_placed;     /* FPDUs placed ahead of their turn */
	uint64_t flushed;
	uint64_t terms_sent, terms_rcvd;
	uint64_t crc_errors, framing_errors, ddp_errors, rdmap_errors, access_errors;
	uint64_t bad_wqes;       /* malformed work requests of clients */
	uint64_t bad_rings;      /* impossible indices written by clients */
	uint64_t cq_overruns;
	uint64_t no_block, no_rec, no_setup, no_stage; /* pool was empty */
	uint64_t neg_errors;     /* bad MPA frames */
	uint64_t nudges;         /* qp_quirk.h */
	uint64_t rnr_waits, rnr_timeouts; /* messages that waited for a receive; in vain */
	uint64_t rnr_drops;      /* segments that were not kept: rnr_pkts */
	uint64_t hold_drops;     /* segments behind a hole that were not held: hold_pkts */
	uint64_t setup_timeouts, close_timeouts, resets, tcp_timeouts;
	uint64_t opened, closed;
	uint64_t ud_in, ud_out;  /* datagrams delivered and sent */
	uint64_t ud_crc;         /* and those that were dropped: bad CRC */
	uint64_t ud_bad;         /* header or DDP segment that cannot be */
	uint64_t ud_no_qp;       /* no such QP here, or not ready to receive */
	uint64_t ud_qkey;        /* another Q_Key */
	uint64_t ud_no_recv;     /* no receive posted */
	uint64_t ud_too_long;    /* did not fit the receive, which completed with an error */
};

/* What a connection with something to send may have to wait for. */
enum qp_want { QP_WANT_REC, QP_WANT_BLOCK, QP_WANTS };

/* What of a long burst is not yet to be seen: qp_place.c. */
struct qp_stream {
	rn_stream_fn copy;
	bool on;    /* the burst is long */
	bool out;   /* stores are out that nothing orders yet */
	uint32_t n;
	struct qp_stream_end { /* of a message, held back until they are in order */
		uint8_t *dst;
		uint32_t len;
		uint8_t bytes[RN_CACHE_LINE];
	} end[16];
};

struct qp_ctx {
	uint64_t now; /* written by the worker */
	struct qp_conn *ready_head, *ready_tail;
	struct qp_conn *answer_head, *answer_tail;
	struct qp *ud_head, *ud_tail;
	struct qp_rec *rec_free;
	uint32_t rec_left;
	uint32_t n_fx, n_refs, n_dirty_cq, n_dirty_qp, n_setup_done;
	struct qp_conn *rnr_head, *rnr_tail;       /* that wait for a receive of a shared queue */
	uint32_t held;                             /* packets that wait behind holes */
	uint32_t rnr_kept, rnr_stages;             /* packets and stages kept for the sake of receives */
	struct qp_wait { struct qp_conn *head, *tail; } wait[QP_WANTS]; /* connections that wait for a pool */
	struct qp_cfg cfg;
	uint32_t rec_iov; /* slices a record holds */
	struct qp_block *blk_free[2]; /* wide and narrow */
	uint8_t *blk_mem;    /* of those never used: its pages are untouched */
	uint32_t blk_fresh;  /* their number */
	uint32_t blk_left;   /* free and fresh ones */
	bool fed; /* who waits for a pool is tried once between two flushes */
	struct qp_setup *setup_free, *setup_done;
	uint8_t *stage_free;
	struct qp_stats stats;
	struct qp_fx fx[QP_FX_MAX];
	uint64_t refs[QP_REFS_MAX];
	struct qp_cq *dirty_cq[QP_DIRTY_MAX];
	struct qp *dirty_qp[QP_DIRTY_MAX];
	struct qp_stream stream;
};

/* Bytes that qp_ctx_init needs, cache-line aligned and all zero; 0: cfg is wrong. */
uint64_t qp_ctx_size(const struct qp_cfg *cfg);
RN_NODISCARD enum qp_verdict qp_ctx_init(struct qp_ctx *ctx, const struct qp_cfg *cfg, void *mem, uint64_t size);

/*
 * Connections for which qp_conn_out must be called; NULL: no more. First come all that qp_answer_pop would give.
 */
struct qp_conn *qp_ready_pop(struct qp_ctx *ctx);

/*
 * Those that have received something. They are worth a segment or two before anyone else's turn: the sooner a peer hears of
 * its bytes, the fewer are on the way, and the more of what keeps them is still in the cache. One that has more to send
 * goes to qp_ready_put. NULL: no more.
 */
struct qp_conn *qp_answer_pop(struct qp_ctx *ctx);
void qp_ready_put(struct qp_ctx *ctx, struct qp_conn *c);

/*
 * For who knows some time ahead which connections qp_conn_segment will be called with: what a connection refers to is
 * fetched, when its own lines are there, and then what that refers to.
 */
void qp_conn_fetch(const struct qp_conn *c);
void qp_conn_fetch_queues(const struct qp_conn *c);

/*
 * Before the segments of a received burst, whose length says whether they are a bulk transfer. What they bring is whole
 * in the clients' memory with the next qp_flush, or earlier; nothing may be told of it before. Worker thread.
 */
void qp_burst(struct qp_ctx *ctx, uint32_t frames);

/* Publishes completions, releases queue slots, raises QP_FX_CQ_NOTIFY. */
void qp_flush(struct qp_ctx *ctx);

/* True: the effects or refs must be taken before the next call. */
static inline bool qp_ctx_full(const struct qp_ctx *ctx)
{
	return ctx->n_fx + QP_FX_PER_CALL > QP_FX_MAX || ctx->n_refs + QP_REFS_PER_CALL > QP_REFS_MAX;
}

/* Effects and refs have been taken. */
void qp_drained(struct qp_ctx *ctx);

#endif
