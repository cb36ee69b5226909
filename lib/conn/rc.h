/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable connection: the carrier of QP_RC. One TCP connection, MPA's negotiation and framing, and between them the
 * messages of one queue pair. Pure: no allocation, no system call, no clock.
 *
 * One turn of a worker:
 *	ctx->qp.now = clock;
 *	for each received segment	held = rc_segment(ctx, conn, &seg, &pkt); if (!held) free the packet
 *	for each doorbell		rc_doorbell(ctx, qp)
 *	for each due timer		rc_timer(ctx, conn)
 *	while ((conn = rc_ready_pop(ctx))) {
 *		while (rc_out(ctx, conn, &out)) transmit;	(transmit queue full: stop, rc_ready_put(ctx, conn))
 *		arm the connection's timer with rc_next_wake(conn);
 *	}
 *	rc_flush(ctx)			completions become visible, notifications are decided
 *	take ctx->qp.fx[0..n_fx) and ctx->refs[0..n_refs), then rc_drained(ctx)
 * Whenever rc_ctx_full(ctx) between two calls: the last line first.
 *
 * Threads: a ctx belongs to one worker; so does a connection from open to QP_FX_CLOSED.
 * Memory: all of it is the caller's. Connections stay where they are while in use.
 * Lengths are bytes, times nanoseconds of one monotonic clock.
 */
#ifndef RC_H
#define RC_H

#include "base/rn_iov.h"
#include "iwarp/mpa_neg.h"
#include "iwarp/mpa_rx.h"
#include "qp/qp_engine.h"
#include "tcp_lite/tcpl.h"

struct rc_ctx;
struct rc_rec;
struct rc_block;
struct rc_setup;

/* One writer: rc_to in rc_life.c. */
enum rc_state {
	RC_FREE = 0,    /* not in use */
	RC_OPENING,     /* active: waits for TCP to connect; moved on by the peer or a time-out */
	RC_WAIT_REQ,    /* passive: waits for TCP and the MPA Request; moved on by the peer or cfg.request_ns */
	RC_WAIT_ACCEPT, /* passive: waits for rc_accept or rc_reject (cfg.accept_ns) */
	RC_WAIT_REP,    /* active: Request sent, waits for the Reply (cfg.reply_ns) */
	RC_WAIT_QP,     /* active: Reply here, waits for rc_attach (cfg.accept_ns) */
	RC_WAIT_FIRST,  /* passive: Reply sent, may not send before the initiator's first FPDU (RFC 5044, 7.1.2) */
	RC_OPERATIONAL, /* both directions open */
	RC_DRAINING,    /* rc_disconnect: what is posted goes out, then FIN (cfg.close_ns) */
	RC_CLOSING,     /* our FIN is queued, nothing more is sent; waits for the peer's FIN (cfg.close_ns) */
	RC_TERMINATING, /* a Terminate or final frame and FIN are queued, input is thrown away; (cfg.close_ns) */
	RC_DEAD         /* both FINs are there, or a reset; no QP; waits for tcp_lite's end (cfg.close_ns) */
};

/*
 * Received bytes of a connection whose QP is not ready to receive. One writer: rc_rnr.c. In all but NONE what comes is kept
 * in order behind what waits.
 */
enum rc_rnr {
	RC_RNR_NONE = 0, /* input is used as it comes */
	RC_RNR_WAITS, /* a message waits for a receive; moved on by a doorbell, rc_recvs, rnr_until or the stream's end */
	RC_RNR_BEHIND /* it has its receive; rc_out works off what was kept */
};

/* Set in params.flags. */
enum {
	/*
	 * No CM above: the peer's end, short of a Terminate, leaves the QP as it is and its receives posted. Who sends then,
	 * or has sent, gets QP_WC_RETRY_EXC_ERR. Our own end (ERR, RESET, destroy) is a FIN to the peer, no Terminate.
	 */
	RC_KEEP_RECV = 1 << 0,
	/*
	 * Active: the peer is the connection itself, what it sends it receives. TCP opens as if both had connected at once
	 * (RFC 9293, 3.5); with nobody to agree with there are no MPA frames, and QP_FX_CONNECT_REPLY has no private data.
	 */
	RC_SELF = 1 << 1,
};

struct rc_params {
	struct qp_dev *dev; /* NULL: the device of the QP that is attached */
	const struct tcpl_cfg *tcp;
	uint64_t owner;           /* the caller's, returned in effects */
	uint32_t iss;             /* tcpl_isn */
	uint32_t flags;           /* RC_* */
	struct mpa_policy policy; /* passive: ird, ord and the rest may still be set at accept */
	struct qp *qp;            /* active: may be NULL, then QP_FX_CONNECT_REPLY comes; passive: NULL */
	const uint8_t *priv;      /* active: goes into the Request */
	uint32_t priv_len;
};

/* What the control plane has been told of a connection. One writer: rc_tell. */
enum rc_news {
	RC_NEWS_NONE =
		0,       /* nothing: it does not know of the connection; the peer's Request or rc_connect moves it on */
	RC_NEWS_OPENING, /* it waits for ESTABLISHED, or for the end */
	RC_NEWS_UP,      /* ESTABLISHED: the end will be DISCONNECTED */
	RC_NEWS_OVER     /* the end; CLOSED follows */
};

/* Received: from the stream's bytes to segments. */
struct rc_in {
	struct mpa_rx mpa;
	uint32_t base;  /* sequence number of the first octet of Full Operation */
	bool ragged;    /* a segment of the peer did not begin with an FPDU */
	uint8_t cut_op; /* of the last FPDU in order: its opcode */
	uint16_t cut;   /* and its ULPDU octets; 0: the end of a message, or of one that is not placed early */
};

/* Sent: from segments to FPDUs. */
struct rc_out {
	uint32_t mulpdu; /* ULPDU bytes in a full segment */
	uint32_t pos;    /* offset in Full Operation of the next FPDU */
	bool rtr_due;    /* initiator, p2p: the RTR must go first */
	bool term;       /* a Terminate has been sent: one only */
};

/* A message that waits for a receive: rc_rnr.c. */
struct rc_wait {
	uint64_t until;      /* WAITS: then it has lasted too long; RN_NEVER: it may last */
	struct qp_srq *srq;  /* which waits for it, in the ctx's list; NULL: not */
	struct rn_link link; /* in that list */
	uint8_t state;       /* enum rc_rnr */
	bool fin;            /* the peer's FIN lies behind what waits */
};

struct rc {
	struct tcpl_conn tcp;
	struct rn_link ready, answers; /* in the ctx's lists of these */
	struct qp_msgs m;              /* m.qp: NULL before attach and after the end; m.work: in blk */
	struct rc_block *blk;          /* NULL while idle */
	struct rc_setup *setup;        /* until OPERATIONAL */
	uint64_t owner;
	uint64_t deadline; /* of the state, RN_NEVER: none */
	uint8_t state;     /* enum rc_state */
	bool passive;
	uint8_t news;   /* enum rc_news */
	uint8_t flags;  /* RC_* */
	uint8_t want;   /* enum rc_want: the pool that it waits for, when `starved` is in a list */
	uint8_t nudges; /* initiator: turns that the silent peer has had, rc_quirk.h */
	bool early;     /* DRAINING, and the peer has said nothing: the deadline is the next nudge's */
	bool asked;     /* a zero-length Read has been queued so that a silent peer must answer */
	struct rc_out out;
	struct rc_wait rnr;
	struct rc_in in;
	struct mpa_agreed agreed;
	struct mpa_policy policy;
	uint32_t vendor_err;
	struct rn_link starved; /* in one of the ctx's lists of connections that wait for a pool */
};

/* Active open. OK, NO_MEMORY, BAD_PRIV, BAD_STATE (the QP is attached already or in ERR or RESET). */
RN_NODISCARD enum qp_verdict rc_connect(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p);

/*
 * Passive open by a SYN that met a listener. OK, NO_MEMORY or BAD_SEGMENT: then nothing was done. The caller bounds how
 * many connections are still without QP_FX_CONNECT_REQUEST.
 */
RN_NODISCARD enum qp_verdict rc_passive(struct rc_ctx *ctx, struct rc *c, const struct tcpl_seg *syn,
					const struct rc_params *p);

/* What a SYN cookie was made with: tcpl_cookie_make. */
struct rc_cookie {
	const uint64_t *key; /* two words */
	const void *tuple;
	uint32_t len;
};

/*
 * Passive open by the ACK of a SYN cookie. OK: the same segment then goes to rc_segment, it may carry data.
 * NO_MEMORY, or BAD_SEGMENT: not a cookie of ours; then nothing was done.
 */
RN_NODISCARD enum qp_verdict rc_passive_cookie(struct rc_ctx *ctx, struct rc *c, const struct tcpl_seg *ack,
					       const struct rc_cookie *k, const struct rc_params *p);

struct rc_accept {
	struct qp *qp;
	uint16_t ird, ord;
	uint16_t priv_len;
	const uint8_t *priv;
};
/* In WAIT_ACCEPT. OK, BAD_STATE, BAD_PRIV (nothing done); NO_AGREEMENT. */
RN_NODISCARD enum qp_verdict rc_accept(struct rc_ctx *ctx, struct rc *c, const struct rc_accept *a);
RN_NODISCARD enum qp_verdict rc_reject(struct rc_ctx *ctx, struct rc *c, const uint8_t *priv, uint32_t len);

/* Active, in WAIT_QP: the QP that the connection was opened for. */
RN_NODISCARD enum qp_verdict rc_attach(struct rc_ctx *ctx, struct rc *c, struct qp *qp);

/*
 * Graceful: what is posted goes out, then FIN; of a young peer-to-peer stream not before the peer has said something
 * (rc_quirk.h). In any state; before OPERATIONAL it is an abort.
 */
void rc_disconnect(struct rc_ctx *ctx, struct rc *c);

/* At once, with RST. The QP is flushed. The end is still told with QP_FX_CLOSED. */
void rc_abort(struct rc_ctx *ctx, struct rc *c);

/*
 * A received packet's TCP payload as slices; seg->ref must be the address of this. Where it lies is the caller's
 * choice (beside the packet): while the packet is held, it and the slices stay.
 */
struct rc_pkt {
	const struct rn_iov *iov;
	uint32_t n;
	bool crc_due; /* it is one FPDU from this process, and its memory may still change: no CRC is looked at */
	/* while it is kept for a QP that is not ready to receive: rc_rnr.c */
	bool twice; /* TCP holds another part of it, which gives it back */
	struct rc_pkt *next;
	uint32_t off, len, seq; /* the part that is kept */
};
#define RC_PKT_MAX_IOV 32 /* slices of one packet */

/* True: the packet is held; its ref comes back in ctx->refs. False: it is the caller's again. */
RN_NODISCARD bool rc_segment(struct rc_ctx *ctx, struct rc *c, const struct tcpl_seg *seg);

void rc_timer(struct rc_ctx *ctx, struct rc *c);

/* ICMP says that the segment at seq was too large: tcpl_too_big. */
void rc_too_big(struct rc_ctx *ctx, struct rc *c, uint32_t seq, uint32_t mss);

/* When rc_timer wants to be called; RN_NEVER: not before something happens. */
static inline uint64_t rc_next_wake(const struct rc *c)
{
	return c->state == RC_FREE ? RN_NEVER
				   : rn_min_u64(tcpl_next_wake(&c->tcp), rn_min_u64(c->deadline, c->rnr.until));
}

/* The next segment of this connection; false when there is none now. Its o->len bytes come from one of the calls below. */
bool rc_out(struct rc_ctx *ctx, struct rc *c, struct tcpl_out *o);

/*
 * The bytes of the segment just made as slices of the memory that it is sent from. Returns their number; 0: they must be
 * copied. The memory's owner may write to it while it is read. So with *crc_due the segment is one FPDU, and its CRC is
 * left open: the last 4 octets of the last slice mean nothing. It may go to where nobody sums it (rc_pkt.crc_due), or has
 * to be copied and summed there.
 */
uint32_t rc_slices(const struct rc *c, const struct tcpl_out *o, struct rn_iov *iov, uint32_t max, bool *crc_due);

/* Whether any byte that waits to be sent or acknowledged lies in [base, base + len). Looks at all that is queued. */
bool rc_refers(const struct rc *c, const uint8_t *base, uint64_t len);

/*
 * Copies the bytes of the segment just made, reading each once. CRCs are summed in the same pass over them. *crc_due in:
 * the CRC may be left open where the segment is one FPDU, as by rc_slices; out: it is.
 */
void rc_copy(struct rc_ctx *ctx, const struct rc *c, const struct tcpl_out *o, uint8_t *dst, bool *crc_due);

/* What was agreed on, from ESTABLISHED on. */
static inline const struct mpa_agreed *rc_agreed(const struct rc *c) { return &c->agreed; }
static inline uint64_t rc_owner(const struct rc *c) { return c->owner; }
static inline bool rc_is_passive(const struct rc *c) { return c->passive; }
/* ESTABLISHED has been told, and no end. */
static inline bool rc_is_up(const struct rc *c) { return c->news == RC_NEWS_UP; }
static inline enum rc_state rc_get_state(const struct rc *c) { return (enum rc_state)c->state; }
const char *rc_state_name(enum rc_state s);

/* ---- per worker ---- */

#define RC_REFS_MAX      4096u
#define RC_HOLD_MAX      2048u /* out-of-order packets held with a wide block at most: as many as FPDUs in flight */
#define RC_HOLD_NARROW   128u  /* and with a narrow one */
#define RC_REFS_PER_CALL (RC_HOLD_MAX + 1)
#define RC_NARROW_CHUNKS 64u /* FPDUs in flight of a connection with a narrow block */

struct rc_cfg {
	uint32_t worker;     /* number of this worker, < QP_MAX_WORKERS: its ring in each CQ */
	uint32_t max_mtu;    /* largest MTU of the devices served */
	uint32_t blocks;     /* connections that can be active at once; of the idle ones few keep theirs */
	uint32_t wide;       /* of the blocks, those with room for `chunks`, given out first; the others are narrow */
	uint32_t recs;       /* FPDUs in flight, all connections */
	uint32_t setups;     /* connections being set up at once */
	uint32_t stages;     /* FPDUs being put together at once, MPA_STAGE_SIZE each */
	uint32_t chunks;     /* FPDUs in flight per connection, a power of two, 64..4096 */
	bool rates;          /* some connections' congestion control measures rates (struct tcpl_sent) */
	uint32_t rnr_pkts;   /* packets kept for QPs that are not ready to receive; more are as if lost */
	uint32_t hold_pkts;  /* packets held behind holes, all connections; more are as if lost */
	uint64_t request_ns; /* passive: TCP and MPA Request must be here. 10 s */
	uint64_t reply_ns;   /* active: MPA Reply after the Request. 10 s */
	uint64_t accept_ns;  /* the application's answer. 60 s */
	uint64_t close_ns;   /* FIN and Terminate must be through. 5 s */
};

/* LAN defaults for n active connections. */
void rc_cfg_default(struct rc_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns);

/* What a connection with something to send may have to wait for. */
enum rc_want { RC_WANT_REC, RC_WANT_BLOCK, RC_WANTS };

struct rc_ctx {
	struct qp_ctx qp;
	struct rn_list ready, answers;
	struct rc_rec *rec_free;
	uint32_t rec_left;
	uint32_t n_refs;
	struct rn_list rnr;               /* connections that wait for a receive of a shared queue */
	uint32_t held;                    /* packets that wait behind holes */
	uint32_t tx_stages;               /* that keep FPDUs which were sent in parts */
	uint32_t rnr_kept, rnr_stages;    /* packets and stages kept for the sake of receives */
	struct rn_list starved[RC_WANTS]; /* connections that wait for a pool */
	struct rc_cfg cfg;
	uint32_t rec_iov;             /* slices a record holds */
	struct tcpl_turns turns;      /* written by the worker */
	struct rc_block *blk_free[2]; /* wide and narrow */
	uint8_t *blk_mem;             /* of those never used: its pages are untouched */
	uint32_t blk_fresh;           /* their number */
	uint32_t blk_left;            /* free and fresh ones */
	bool fed;                     /* who waits for a pool is tried once between two flushes */
	struct rc_setup *setup_free, *setup_done;
	uint8_t *stage_free;
	uint64_t refs[RC_REFS_MAX];
};

/* Bytes that rc_ctx_init needs, cache-line aligned and all zero; 0: cfg is wrong. */
uint64_t rc_ctx_size(const struct rc_cfg *cfg);
RN_NODISCARD enum qp_verdict rc_ctx_init(struct rc_ctx *ctx, const struct rc_cfg *cfg, void *mem, uint64_t size);

/*
 * Connections for which rc_out must be called; NULL: no more. First come all that rc_answer_pop would give.
 */
struct rc *rc_ready_pop(struct rc_ctx *ctx);

/*
 * Those that have received something. They are worth a segment or two before anyone else's turn: the sooner a peer hears of
 * its bytes, the fewer are on the way, and the more of what keeps them is still in the cache. One that has more to send
 * goes to rc_ready_put. NULL: no more.
 */
struct rc *rc_answer_pop(struct rc_ctx *ctx);
void rc_ready_put(struct rc_ctx *ctx, struct rc *c);
/* Which rc_ready_pop gives next, if nobody has received anything; NULL: none. */
const struct rc *rc_ready_first(const struct rc_ctx *ctx);

/*
 * For who knows some time ahead which connections rc_segment will be called with: what a connection refers to is
 * fetched, when its own lines are there, and then what that refers to.
 */
void rc_fetch(const struct rc *c);
void rc_fetch_queues(const struct rc *c);

/* Publishes completions, releases queue slots, raises QP_FX_CQ_NOTIFY. */
void rc_flush(struct rc_ctx *ctx);

/* True: the effects or refs must be taken before the next call. */
static inline bool rc_ctx_full(const struct rc_ctx *ctx)
{
	return qp_ctx_full(&ctx->qp) || ctx->n_refs + RC_REFS_PER_CALL > RC_REFS_MAX;
}

/* Effects and refs have been taken. */
void rc_drained(struct rc_ctx *ctx);

/* ---- a QP of type QP_RC: the worker that owns it (any one while it has no connection) ---- */

/* ERR ends the connection with a Terminate. */
enum qp_verdict rc_modify(struct rc_ctx *ctx, struct qp *qp, enum qp_state to);

/*
 * The client has rung for this QP: takes send WQEs and transmits, or flushes (ERR: both queues). Harmless in any state.
 * Each post is followed by one: a queue's index is looked at once for it, not again.
 */
void rc_doorbell(struct rc_ctx *ctx, struct qp *qp);

/* A client has posted to shared receive queues that somebody on this worker waits for. */
void rc_recvs(struct rc_ctx *ctx);

/*
 * The QP goes away: no completion follows. Its connection, if any, is closed (FIN when idle, RST otherwise) and lives
 * on without it until QP_FX_CLOSED. Completions already made become visible with the next rc_flush.
 */
void rc_destroy(struct rc_ctx *ctx, struct qp *qp);

/* The connection that the QP is attached to; NULL: none. */
static inline struct rc *rc_of(const struct qp *qp)
{
	return qp->msgs != NULL ? rn_container_of(qp->msgs, struct rc, m) : NULL;
}

#endif
