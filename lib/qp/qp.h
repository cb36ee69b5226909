/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The device model and the message engine: queue pairs, completion queues and registered memory; work requests become
 * the segments of messages, and segments become placed bytes and completions. The engine knows no carrier: what takes
 * segments from one place to another (lib/rc over a stream, lib/dgram in datagrams) calls it through qp_engine.h. Pure:
 * no allocation, no system call, no clock.
 *
 * One turn of a worker:
 *	ctx->now = clock;
 *	the carriers' turns: received segments, doorbells, timers, segments to send
 *	ctx->notify_room = how many notifications the caller takes (if there is a limit)
 *	qp_flush(ctx)			completions become visible, notifications are decided
 *	take ctx->fx[0..n_fx), then qp_drained(ctx)
 *	once more if qp_flush_left(ctx)
 * Whenever qp_ctx_full(ctx) between two calls: the last four lines first.
 *
 * Threads: a ctx belongs to one worker; so does a QP while the worker knows it. Functions marked "control thread" may
 * run elsewhere on objects that no worker knows yet (or any more).
 * Memory: all of it is the caller's. QPs, CQs and devices stay where they are while in use.
 * Lengths are bytes, times nanoseconds of one monotonic clock.
 */
#ifndef QP_H
#define QP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "base/rn_list.h"
#include "base/rn_stream.h"
#include "qp/qp_cq.h"
#include "qp/qp_dev.h"
#include "qp/qp_srq.h"
#include "qp/qp_xrc.h"
#include "ring/spsc.h"
#include "wqe/qp_wqe.h"

struct rc;
struct qp;
struct qp_hold;
struct qp_ctx;
struct qp_msgs;

#define QP_MAX_RD_ATOMIC 128u /* largest IRD and ORD */

/* ---- effects: events for the control plane ---- */

enum qp_fx_type {
	/* about connections: lib/rc says when */
	QP_FX_CONNECT_REQUEST, /* passive: the Request is here; priv, ird, ord. Answer: accept or reject */
	QP_FX_CONNECT_REPLY,   /* active without a QP: accepted; priv, ird, ord. Answer: attach or abort */
	QP_FX_ESTABLISHED,     /* both sides, QP is in RTS; priv on the active side; ird, ord as agreed */
	QP_FX_REJECTED,        /* active: the peer's application said no; priv */
	QP_FX_UNREACHABLE,     /* active: TCP or the Reply timed out (code 0), or TCP was refused (code 1) */
	QP_FX_CONNECT_ERROR,   /* the set-up failed after TCP was open; code: enum mpa_neg_verdict or 0 */
	QP_FX_DISCONNECTED,    /* the stream ended after ESTABLISHED; once; code: enum qp_gone. The QP is detached */
	QP_FX_CLOSED,          /* last effect of a connection: its memory and its flow entry may be reused */
	/* of the engine itself */
	QP_FX_QP_EVENT,  /* code: enum qp_event; vendor_err */
	QP_FX_CQ_ERROR,  /* overrun or corrupt ring */
	QP_FX_CQ_NOTIFY, /* the CQ was armed and has new entries */
	QP_FX_SRQ_EVENT  /* code: enum qp_event */
};

/* Numbers of ibv_event_type. */
enum qp_event {
	QP_EVENT_FATAL = 1,
	QP_EVENT_REQ_ERR = 2,
	QP_EVENT_ACCESS_ERR = 3,
	QP_EVENT_COMM_EST = 4,
	QP_EVENT_SQ_DRAINED = 5, /* in SQD, with qp_tune.tell_drained: no begun send work is under way */
	QP_EVENT_SRQ_ERR = 14,   /* the SRQ's ring is corrupt */
	QP_EVENT_SRQ_LIMIT = 15,
	QP_EVENT_LAST_WQE = 16 /* a QP in ERR takes no more receives from its SRQ, and those it had taken are flushed */
};

/* How a stream has ended. */
enum qp_gone {
	QP_GONE_ORDERLY,
	QP_GONE_ROUGH,
	QP_GONE_SILENT /* the peer did not answer */
};

struct qp_fx {
	uint8_t type; /* enum qp_fx_type */
	uint8_t code;
	uint16_t priv_len;
	uint16_t ird, ord;   /* CONNECT_REQUEST, CONNECT_REPLY: ours, from the peer's ORD and IRD; 0: not given */
	uint32_t vendor_err; /* Terminate layer<<16 | etype<<8 | code, sent or received */
	uint8_t spacings;    /* DISCONNECTED, CONNECT_ERROR: spacings of markers that the peer may use: mpa_rx.h */
	uint64_t owner;      /* of the connection, QP, CQ or SRQ that the effect is about */
	struct rc *conn;     /* for the first eight types: the connection */
	const uint8_t *priv; /* valid until qp_drained; CONNECT_REQUEST: until accept, reject or the end */
};

/* ---- QP ---- */

enum qp_verdict {
	QP_OK = 0,
	QP_BAD_ATTR,     /* ring geometry, offsets or numbers are wrong */
	QP_BAD_STATE,    /* not in this state */
	QP_NO_MEMORY,    /* a pool of the ctx is empty */
	QP_BAD_PRIV,     /* private data too long */
	QP_NO_AGREEMENT, /* accept: no common MPA terms; the connection is being closed, effects follow */
	QP_BAD_SEGMENT   /* passive: the segment is not an acceptable SYN */
};

/* What carries a QP's messages. Fixed at qp_init. */
enum qp_type {
	QP_RC, /* one connection: lib/rc */
	QP_UD, /* datagrams, each with its own destination: lib/dgram */
	QP_RD  /* reliable datagrams, with a sequence of messages for each peer: dgram/rd.h */
};

#define QP_TENANTS 64u

/* The part that a QP_RC has in an extended reliable connection (qp_xrc.h). */
enum qp_xrc {
	QP_XRC_NONE,      /* none: the QP has both queues */
	QP_XRC_INITIATOR, /* sends only; each message names the shared receive queue that takes it */
	QP_XRC_TARGET     /* receives only; the QP has no queues of its own */
};

struct qp_attr {
	enum qp_type type;
	uint64_t owner; /* the caller's, returned in effects */
	uint32_t qpn;   /* written into completions */
	uint32_t pd;
	struct qp_dev *dev;
	struct qp_cq *scq, *rcq;
	struct qp_srq *srq; /* NULL: the QP has a receive queue of its own, rq_off and rq_slots */
	uint32_t sig_all;   /* 1: every send WQE completes with a CQE */
	uint32_t access;    /* QP_ACC_REMOTE_*: what peers may do through this QP, besides each MR's rights */
	uint32_t max_msg;   /* UD: bytes of a message at most */
	/*
	 * as on InfiniBand: no event where a completion reports the same; a peer without a receive means RNR_RETRY_EXC
	 */
	bool sparing;
	/* many sequences of messages, each with its own peer, take from the QP's queues: dgram/rd.h */
	bool many;
	uint8_t tenant; /* below QP_TENANTS: QPs of one tenant share what a carrier keeps for slow receivers */
	enum qp_xrc xrc;
	/* TARGET: the domain, and what stands for the QP's queues: qp_target_attr() sets this and all that follows */
	struct qp_xrcd *xrcd;
	struct qp_target *target;
	void *region; /* mapping of the client's queue region */
	uint64_t region_size;
	uint64_t shm_off;        /* struct qp_shm, cache-line aligned */
	uint64_t sq_off, rq_off; /* spsc rings of QP_SLOT_SIZE slots */
	uint32_t sq_slots, rq_slots;
};

/* Control thread. The QP starts in `RESET`. OK or BAD_ATTR. */
RN_NODISCARD enum qp_verdict qp_init(struct qp *qp, const struct qp_attr *a);

/* What a client may change of a QP after its creation. */
struct qp_tune {
	uint32_t access; /* QP_ACC_REMOTE_* */
	uint32_t qkey;   /* UD: the Q_Key that a datagram for the QP must have */
	uint64_t rnr_ns; /* RC: how long a message that finds no receive waits; 0: not at all, RN_NEVER: without end */
	uint64_t silence_ns;  /* RC: time until a silent peer counts as gone; 0: the carrier decides */
	uint8_t rnr_told;     /* RD: RNR retries of our message at the peer, plus 1; 0: the peer decides */
	uint64_t rnr_unit_ns; /* RD: length of one RNR wait of the peer's message here */
	/* Raise QP_EVENT_SQ_DRAINED in SQD, once no begun send work is under way. False: as asked before. */
	bool tell_drained;
};

/*
 * Called by the worker that owns the QP, or by the control thread while no worker knows the QP; before the change of
 * state that the attributes belong to.
 */
void qp_set(struct qp *qp, const struct qp_tune *t);

/* Whether send work is posted and no connection takes it. Called by the worker that owns the QP. */
bool qp_send_waits(struct qp *qp);
/* Whether the QP is in ERR. Called by the worker that owns the QP. */
bool qp_failed(const struct qp *qp);

/*
 * The peer of a QP without a connection cannot be reached: the oldest send fails with RETRY_EXC, the rest is flushed,
 * and the QP goes to ERR.
 */
void qp_unreachable(struct qp_ctx *ctx, struct qp *qp);

const char *qp_state_name(enum qp_state s);

/* ---- per worker ---- */

#define QP_FX_MAX      256u
#define QP_FX_PER_CALL 16u
#define QP_DIRTY_MAX   64u

/* Counters of one worker, for the engine and its carriers; the worker writes, any thread reads. */
struct qp_stats {
	uint64_t fpdus_in, fpdus_out;
	uint64_t wqes, cqes, rwqes;
	uint64_t locals; /* of the wqes: those that were carried out without a segment, which bind or invalidate */
	uint64_t bytes_placed;
	uint64_t bytes_streamed; /* of these, bytes placed by stores past the caches */
	/*
	 * Bytes of connections and streams that this processor has copied, and bytes that it has read for a CRC or a
	 * checksum. A byte counts once for each pass over it; a pass that does both counts in both.
	 */
	uint64_t copied_tx, copied_rx, summed_tx, summed_rx;
	uint64_t staged;     /* FPDUs that TCP had split into several segments */
	uint64_t ooo_placed; /* FPDUs placed before a hole in front of them was filled */
	uint64_t ooo_held;   /* segments behind a hole that were kept for their turn */
	uint64_t ooo_drops;  /* segments behind a hole that were dropped, as the carrier's owner wishes */
	uint64_t flushed;
	uint64_t terms_sent, terms_rcvd;
	uint64_t crc_errors, framing_errors, ddp_errors, rdmap_errors, access_errors;
	uint64_t bad_wqes;  /* malformed work requests of clients */
	uint64_t bad_rings; /* impossible indices written by clients */
	uint64_t cq_overruns;
	uint64_t no_block, no_rec, no_setup, no_stage, no_copy; /* how often a pool was empty */
	uint64_t neg_errors;                                    /* bad MPA frames */
	uint64_t nudges;                                        /* see rc_quirk.h */
	uint64_t rnr_waits, rnr_timeouts;                       /* messages that waited for a receive; waits in vain */
	uint64_t rnr_drops;                                     /* segments dropped for want of rnr_pkts */
	uint64_t hold_drops; /* segments behind a hole dropped for want of hold_pkts */
	uint64_t setup_timeouts, close_timeouts, resets, tcp_timeouts;
	uint64_t opened, closed;
	uint64_t ud_in, ud_out; /* datagrams delivered and sent */
	uint64_t ud_crc;        /* datagrams dropped, by cause: bad CRC */
	uint64_t ud_bad;        /* impossible header or DDP segment */
	uint64_t ud_no_qp;      /* no such QP here, or the QP is not ready to receive */
	uint64_t ud_qkey;       /* wrong Q_Key */
	uint64_t ud_no_recv;    /* no receive posted */
	uint64_t ud_too_long;   /* longer than the receive, which completed with an error */
	/* about messages of many segments */
	uint64_t ud_incomplete; /* messages that ended before all their segments had come */
	uint64_t ud_again;      /* segments that had come before, or whose message had ended */
	uint64_t ud_refused;    /* segments of Write-Records: no such memory for this sender, or a missing right */
	uint64_t ud_full;       /* segments of messages for which no open message could be made */
	uint64_t xrc_refused;   /* messages that named no shared receive queue of the target's domain */
};

RN_NODISCARD enum qp_verdict qp_ctx_init(struct qp_ctx *ctx, uint32_t worker);

/*
 * Call before the segments of a received burst: the burst's length says whether it is a bulk transfer. The burst's
 * bytes are in the clients' memory after the next qp_flush at the latest; no completion may announce them before.
 * Worker thread.
 */
void qp_burst(struct qp_ctx *ctx, uint32_t frames);

/*
 * As qp_flush, but only for completions that the received segments have made. So a client need not wait until the turn
 * has sent its segments. Does nothing while streaming stores of a long burst are under way: qp_flush waits for them at
 * the turn's end. Worker thread.
 */
void qp_flush_received(struct qp_ctx *ctx);

/* Publishes completions, releases queue slots, raises QP_FX_CQ_NOTIFY as far as there is room for effects. */
void qp_flush(struct qp_ctx *ctx);

/* Whether a QP_FX_CQ_NOTIFY waits until the effects have been taken: the next qp_flush raises the effect. */
static inline bool qp_flush_left(const struct qp_ctx *ctx);

/* Before the QP's CQs end: qp_cq_told() for both. */
void qp_told(struct qp_ctx *ctx, struct qp *qp);

/* Call after the effects have been taken. */
static inline void qp_drained(struct qp_ctx *ctx);

/* Whether the effects must be taken before the next call. */
static inline bool qp_ctx_full(const struct qp_ctx *ctx);

/* Any thread may read; the worker that owns the QP writes. */
static inline enum qp_state qp_get_state(const struct qp *qp);
static inline uint32_t qp_get_vendor_err(const struct qp *qp);
static inline uint32_t qp_get_flushed(const struct qp *qp); /* work requests */
static inline enum qp_type qp_get_type(const struct qp *qp);

/*
 * ---- private: below this line, fields are for lib/qp and the carriers. Others embed the structs, and call functions.
 * ---- Exceptions: the worker writes ctx->now, reads ctx->fx and n_fx, and counts in ctx->stats.
 */

struct qp {
	/* Line 1: used by both paths. */
	uint8_t state; /* enum qp_state */
	uint8_t type;  /* enum qp_type */
	uint8_t sig_all;
	uint8_t access;
	uint8_t listed; /* on ctx's list of QPs with slots to release */
	bool rung;      /* the client may have posted sends that have not been looked at */
	bool holds;     /* `hold` is used */
	uint8_t locals; /* work requests carried out without a segment, mod 256 */
	uint32_t qpn;
	uint32_t pd;
	uint32_t sq_taken;    /* SQ slots copied and not yet released */
	uint16_t srqn_mask;   /* INITIATOR: all ones; otherwise 0: a work request's srqn is ignored */
	uint8_t xrc;          /* enum qp_xrc */
	bool many;            /* as in qp_attr */
	struct qp_msgs *msgs; /* of the attached carrier; NULL: none, or a datagram QP */
	struct qp_dev *dev;
	struct qp_cq *scq, *rcq;
	uint32_t sq_done, rq_done; /* slots that qp_flush will release */
	struct spsc_cons sq;
	struct spsc_cons rq; /* with an SRQ: always empty */
	uint32_t recv_pd;    /* protection domain of the receives' lkeys */
	bool last_told;      /* QP_EVENT_LAST_WQE has been raised */
	bool tell_drained;   /* QP_EVENT_SQ_DRAINED is to be raised */
	struct qp_srq *srq;
	struct qp_shm *shm;
	uint64_t owner;
	uint32_t vendor_err;      /* vendor_err of the QP's first error */
	uint32_t flushed;         /* work requests flushed so far */
	bool sparing;             /* as in qp_attr */
	uint8_t tenant;           /* as in qp_attr */
	uint32_t reads_open;      /* `many`: Reads and Atomics that are taken and have not completed */
	struct qp_xrcd *xrcd;     /* TARGET */
	struct qp_target *target; /* TARGET; srq, rcq and recv_pd belong to the message that came last */
	struct rn_link xrc_link;  /* in the list of `srq`, unless that is `target`'s */
	struct qp_hold *hold;     /* where the peer's Writes are held back: qp_hold.h */
	uint64_t silence_ns;      /* as in qp_tune */
	uint64_t rnr_ns; /* lib/rc: how long a message that finds no receive waits: 0 not at all, RN_NEVER for good */
	/* used by datagram QPs */
	uint32_t max_msg;     /* as in qp_attr */
	uint32_t qkey;        /* Q_Key that datagrams for the QP must have */
	uint8_t rnr_told;     /* as in qp_tune */
	uint64_t rnr_unit_ns; /* as in qp_tune */
	uint32_t msn;         /* number of the message sent last */
	/*
	 * QP_UD: some segments of a message are sent and some are not. QP_RD, in SQD: work requests that have begun
	 * have not completed.
	 */
	bool midway;
	void *beside;              /* what the carrier keeps beside the QP; NULL: nothing */
	bool ready;                /* on the worker's list of QPs with something to send */
	struct rn_slink link;      /* in that list */
	struct rn_link flush_link; /* in ctx's list of QPs in ERR that have more to flush */
};

/* Ends of messages that are held back while streamed stores are not ordered: qp_place.c. */
struct qp_stream {
	rn_stream_fn copy;
	bool on;  /* the burst is long */
	bool out; /* streamed stores have been issued without a fence */
	uint32_t n;
	struct qp_stream_end { /* the end of a message, stored after the fence */
		uint8_t *dst;
		uint32_t len;
		uint8_t bytes[RN_CACHE_LINE];
	} end[16];
};

struct qp_ctx {
	uint64_t now;    /* written by the worker */
	uint32_t worker; /* the worker's number, < QP_MAX_WORKERS: which ring of each CQ is its own */
	uint32_t n_fx, n_dirty_qp;
	struct qp_stats stats;
	struct qp_fx fx[QP_FX_MAX];
	uint32_t notify_room;      /* how many more QP_FX_CQ_NOTIFY the caller takes; UINT32_MAX: any number */
	struct rn_list dirty_cq;   /* struct qp_cq_ring, by link: CQs to publish */
	struct rn_list waiting_cq; /* struct qp_cq, by wait[]: notifications that wait for room, the oldest first */
	struct qp *dirty_qp[QP_DIRTY_MAX];
	struct rn_list flushing; /* QPs in ERR with more to flush in a later portion, by flush_link */
	uint64_t flush_turn;     /* `now` of the turn of which the next two count work requests that were flushed ... */
	uint32_t flushed;        /* ... as soon as they failed */
	uint32_t flushed_late;   /* ... in qp_flush_on() */
	struct qp_stream stream;
};

static inline bool qp_flush_left(const struct qp_ctx *ctx)
{
	return !rn_list_empty(&ctx->waiting_cq) && ctx->notify_room > 0;
}
static inline void qp_drained(struct qp_ctx *ctx) { ctx->n_fx = 0; }
static inline bool qp_ctx_full(const struct qp_ctx *ctx) { return ctx->n_fx + QP_FX_PER_CALL > QP_FX_MAX; }
static inline enum qp_state qp_get_state(const struct qp *qp)
{
	return (enum qp_state)__atomic_load_n(&qp->state,
					      __ATOMIC_RELAXED); /* relaxed: no other data depends on this number */
}
static inline uint32_t qp_get_vendor_err(const struct qp *qp)
{
	return __atomic_load_n(&qp->vendor_err, __ATOMIC_RELAXED);
}
static inline enum qp_type qp_get_type(const struct qp *qp) { return (enum qp_type)qp->type; }
static inline uint32_t qp_get_flushed(const struct qp *qp) { return __atomic_load_n(&qp->flushed, __ATOMIC_RELAXED); }

#endif
