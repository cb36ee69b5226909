/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable connection: the carrier of QP_RC. MPA's negotiation and framing over an ordered stream of bytes, and
 * between them the messages of one queue pair. Pure: no allocation, no system call, no clock.
 *
 * It knows no stream. An adapter joins it to one (lib/conn to TCP, test/rc to a ring in memory) and drives it:
 *	opening		rc_connect or rc_passive, rc_set_mss, rc_opened
 *	bytes came	rc_wake, then rc_in; of bytes ahead of a hole rc_early
 *	its turn	rc_turn; rc_tx_begin; while there is room rc_peek, rc_pull; rc_turn_end
 *	bytes went	rc_acked for each record that the peer has, in order; then once rc_complete
 *	a deadline	rc_timer at rc_next_wake
 *	the end		rc_fin or rc_lost; rc_closed at last
 * After each of these calls rc_todo says what the connection wants of the stream: to send what is due (rc_due), to
 * acknowledge at once, a FIN, a reset.
 *
 * A turn of a worker:
 *	ctx->qp.now = clock;
 *	what came, what is due in time, doorbells (rc_doorbell)
 *	while ((c = rc_ready_pop(ctx))) the connection's turn
 *	rc_flush(ctx)			completions become visible, notifications are decided
 *	take ctx->qp.fx[0..n_fx), then rc_drained(ctx)
 * Whenever qp_ctx_full(&ctx->qp) between two calls: the last line first.
 *
 * A position is the number of a byte in the stream, mod 2^32, in the adapter's own count: TCP's sequence number, or the
 * bytes that a socket has given. Only differences of positions mean something here.
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

struct rc_ctx;
struct rc_rec;
struct rc_block;
struct rc_setup;

/* One writer: rc_to in rc_life.c. */
enum rc_state {
	RC_FREE = 0,    /* not in use */
	RC_OPENING,     /* active: waits for rc_opened; moved on by the peer or a time-out */
	RC_WAIT_REQ,    /* passive: waits for the stream and the MPA Request; moved on by the peer or cfg.request_ns */
	RC_WAIT_ACCEPT, /* passive: waits for rc_accept or rc_reject (cfg.accept_ns) */
	RC_WAIT_REP,    /* active: Request sent, waits for the Reply (cfg.reply_ns) */
	RC_WAIT_QP,     /* active: Reply here, waits for rc_attach (cfg.accept_ns) */
	RC_WAIT_FIRST,  /* passive: Reply sent, may not send before the initiator's first FPDU (RFC 5044, 7.1.2) */
	RC_OPERATIONAL, /* both directions open */
	RC_DRAINING,    /* rc_disconnect: what is posted goes out, then FIN (cfg.close_ns) */
	RC_CLOSING,     /* our FIN is queued, nothing more is sent; waits for the peer's FIN (cfg.close_ns) */
	RC_TERMINATING, /* a Terminate or final frame and FIN are queued, input is thrown away; (cfg.close_ns) */
	RC_DEAD         /* both FINs are there, or a reset; no QP; waits for rc_closed (cfg.close_ns) */
};

/*
 * Received bytes of a connection whose QP is not ready to receive. One writer: rc_rnr.c. In all but NONE the adapter
 * keeps what comes, in order, behind what waits.
 */
enum rc_rnr {
	RC_RNR_NONE = 0, /* input is used as it comes */
	RC_RNR_WAITS,    /* a message waits for a receive; moved on by a doorbell, rc_recvs, rnr.until or the end */
	RC_RNR_BEHIND    /* it has its receive, or is over; the adapter brings what it kept, then calls rc_caught_up */
};

/* Set in params.flags. */
enum {
	/*
	 * No CM above: the peer's end, short of a Terminate, leaves the QP as it is and its receives posted. Sends that
	 * it has not acknowledged, and those that are posted later, wait in the queue for qp_unreachable(). Our own end
	 * (ERR, RESET, destroy) is a FIN to the peer, no Terminate.
	 */
	RC_KEEP_RECV = 1 << 0,
	/*
	 * Active: the peer is the connection itself, what it sends it receives. With nobody to agree with there are no
	 * MPA frames, and QP_FX_CONNECT_REPLY has no private data.
	 */
	RC_SELF = 1 << 1,
	/* Passive: whose connection it is, is known before the peer's Request, so its end without one is told. */
	RC_AWAITED = 1 << 2,
};

struct rc_params {
	struct qp_dev *dev;       /* NULL: the device of the QP that is attached */
	uint64_t owner;           /* the caller's, returned in effects */
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

/*
 * A disconnect while the peer has said nothing in a young stream: rc_quirk.h. One writer: rc_life.c. In all but NONE
 * the state is DRAINING and the deadline is the next nudge's.
 */
enum rc_silence {
	RC_SILENCE_NONE = 0, /* nothing waits for the peer's first word */
	RC_SILENCE_WAITS,    /* the end waits for that word; moved on by the end of what is posted, or by a nudge */
	RC_SILENCE_ASKED     /* a zero-length Read has been queued that the peer must answer; moved on by a nudge */
};

/* Received: from the stream's bytes to segments. */
struct rc_in {
	struct mpa_rx mpa;
	uint32_t base;  /* position of the first octet of Full Operation */
	bool heard;     /* the peer has sent something in Full Operation */
	bool ragged;    /* the bytes of one rc_in did not begin with an FPDU */
	uint8_t cut_op; /* of the last FPDU in order: its opcode */
	uint16_t cut;   /* and its ULPDU octets; 0: the end of a message, or of one that is not placed early */
};

/* Sent: from segments to FPDUs. */
struct rc_out {
	uint32_t mss;                  /* rc_set_mss */
	uint32_t mulpdu;               /* ULPDU bytes in a full segment */
	uint32_t pos;                  /* offset in Full Operation of the next FPDU */
	uint32_t flying;               /* records made and neither acknowledged nor given up */
	uint8_t todo;                  /* enum rc_todo_bit */
	bool rtr_due;                  /* initiator, p2p: the RTR must go first */
	bool term;                     /* a Terminate has been sent: one only */
	struct rc_rec *due, *due_last; /* made, to be sent before all others */
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
	struct rn_link ready, answers; /* in the ctx's lists of these */
	struct qp_msgs m;              /* m.qp: NULL before attach and after the end; m.work: in blk */
	struct rc_block *blk;          /* NULL while idle */
	struct rc_setup *setup;        /* until OPERATIONAL */
	uint64_t owner;
	uint64_t deadline; /* of the state, RN_NEVER: none */
	uint8_t state;     /* enum rc_state */
	bool passive;
	uint8_t news;    /* enum rc_news */
	uint8_t flags;   /* RC_* */
	uint8_t want;    /* enum rc_want: the pool that it waits for, when `starved` is in a list */
	uint8_t silence; /* enum rc_silence */
	uint8_t nudges;  /* initiator: turns that the silent peer has had, rc_quirk.h */
	struct rc_out out;
	struct rc_wait rnr;
	struct rc_in in;
	struct mpa_agreed agreed;
	struct mpa_policy policy;
	uint32_t vendor_err;
	uint8_t spacings;       /* of markers, that fit the FPDU which has ended the stream: bits of mpa_spacings */
	struct rn_link starved; /* in one of the ctx's lists of connections that wait for a pool */
};

/* Active open. OK, NO_MEMORY, BAD_PRIV, BAD_STATE (the QP is attached already or in ERR or RESET). */
RN_NODISCARD enum qp_verdict rc_connect(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p);

/*
 * Passive open: the peer opens the stream. OK, NO_MEMORY. The caller bounds how many are without QP_FX_CONNECT_REQUEST.
 */
RN_NODISCARD enum qp_verdict rc_passive(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p);
/* The stream of a connection that has just begun passively cannot be had: it was never there. */
void rc_never(struct rc_ctx *ctx, struct rc *c);

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

/* ---- the adapter's side ---- */

/*
 * Bytes in a full segment of the stream; of more than cfg.max_mtu no use is made. Before rc_opened, rc_in, rc_accept,
 * rc_attach, and when it has changed.
 */
static inline void rc_set_mss(struct rc *c, uint32_t mss) { c->out.mss = mss; }

/* The active end's stream is open; pos: the position of the first byte that will come. */
void rc_opened(struct rc_ctx *ctx, struct rc *c, uint32_t pos);

/* Gets the memory to work with; false: the pool is empty, so received bytes cannot be taken now. */
bool rc_wake(struct rc_ctx *ctx, struct rc *c);

/* Bytes of the stream, in slices. */
struct rc_bytes {
	struct rn_iov *iov; /* the caller's, may be changed */
	uint32_t n;
	uint32_t len;
	uint32_t pos; /* of the first one */
	/*
	 * Of FPDUs that lie whole in iov no CRC is looked at: they come from this process, and their memory may still
	 * change. With rc_early: all of iov is such FPDUs.
	 */
	bool crc_due;
};
#define RC_MAX_IOV 32 /* slices at once */

/*
 * The next bytes of the stream. Returns how many were used: all, but when the QP is not ready to receive
 * (RC_RNR_WAITS). The adapter then keeps the rest, as a stream keeps what its user does not read, and brings it again
 * in RC_RNR_BEHIND.
 */
uint32_t rc_in(struct rc_ctx *ctx, struct rc *c, const struct rc_bytes *b);
/* The position behind all that has been used in Full Operation. */
static inline uint32_t rc_used(const struct rc *c) { return c->in.base + mpa_rx_pos(&c->in.mpa); }

/*
 * Whether the byte behind all that has been used begins an FPDU; *offset: its place in Full Operation. False: it lies
 * inside of one, or there is no Full Operation.
 */
static inline bool rc_fpdu_next(const struct rc *c, uint32_t *offset)
{
	*offset = mpa_rx_pos(&c->in.mpa);
	return c->state >= RC_WAIT_FIRST && c->state <= RC_CLOSING && c->in.mpa.pos == c->in.mpa.start;
}

/* Bytes with a hole before them, which come again in their turn: what of them may be placed now, is. */
RN_COLD void rc_early(struct rc_ctx *ctx, struct rc *c, const struct rc_bytes *b);

/*
 * Whether bytes that are next begin with a Terminate. What came with them as acknowledged is then not complete yet
 * (rc_acked without rc_complete): the Terminate may be about it. Only a guess by the first octets; what it holds back
 * is completed by the next acknowledgement at the latest, or flushed with the stream's end.
 */
bool rc_terminate_ahead(const struct rc *c, const uint8_t *p, uint32_t n);

/* In a turn with RC_RNR_WAITS or BEHIND: looks for a receive. closed: the stream is gone. */
RN_COLD void rc_rnr_look(struct rc_ctx *ctx, struct rc *c, bool closed);
/* BEHIND, and nothing is kept any more. */
void rc_caught_up(struct rc_ctx *ctx, struct rc *c);

/* The peer sends no more; with bytes still kept they come first. */
RN_COLD void rc_fin(struct rc_ctx *ctx, struct rc *c);
/* The stream has failed: the peer has reset it, or does not answer. */
enum rc_loss { RC_LOST_RESET, RC_LOST_TIMEOUT };
RN_COLD void rc_lost(struct rc_ctx *ctx, struct rc *c, enum rc_loss how);
/* The connection asks for a reset itself; the end is told at rc_closed at the latest. */
RN_COLD void rc_reset(struct rc_ctx *ctx, struct rc *c);
/* The stream is over and each record has come back (rc_dropped): the connection is FREE. */
RN_COLD void rc_closed(struct rc_ctx *ctx, struct rc *c);

/*
 * A record is what the adapter queues and the peer acknowledges as one: an FPDU, or MPA's set-up frame. Its ref comes
 * from rc_due or rc_pull, and goes back with rc_acked or rc_dropped.
 */

/* At the beginning of the connection's turn. */
void rc_turn_unready(struct rc_ctx *ctx, struct rc *c);
static inline void rc_turn(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_unlikely(c->m.qp != NULL && c->m.qp->state != QP_S_RTS))
		rc_turn_unready(ctx, c);
}

static inline bool rc_tx_open(const struct rc *c)
{
	return (c->state == RC_OPERATIONAL || c->state == RC_DRAINING) && c->m.qp != NULL;
}

/* Then: what must go first is made, the memory to work with is there. False: there is nothing to pull. */
bool rc_tx_prepare(struct rc_ctx *ctx, struct rc *c);
static inline bool rc_tx_begin(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_unlikely(c->blk == NULL || c->out.rtr_due) && !rc_tx_prepare(ctx, c))
		return false;
	return rc_tx_open(c);
}

/* The bytes on the stream of the next FPDU; 0: there is none. Only while rc_tx_open. */
uint32_t rc_peek(struct rc_ctx *ctx, struct rc *c);
/* Makes it: its bytes, which may be fewer; 0: there is no room, or it failed. */
uint32_t rc_pull(struct rc_ctx *ctx, struct rc *c, uint64_t *ref);
/* At the end of the turn, when what could be pulled has been. */
void rc_turn_end(struct rc_ctx *ctx, struct rc *c);
/* The QP has failed since rc_turn: there must be another turn. */
static inline bool rc_failed(const struct rc *c)
{
	return c->m.qp != NULL && c->m.qp->state == QP_S_ERR && c->state >= RC_WAIT_FIRST && c->state <= RC_CLOSING;
}

/* What the connection wants of its stream. */
enum rc_todo_bit {
	RC_TODO_SEND =
		1 << 0, /* rc_due has something, which goes before anything else and whatever the peer's window is */
	RC_TODO_ACK = 1 << 1, /* the sender's completion waits for the acknowledgement of what has been used */
	RC_TODO_FIN = 1 << 2, /* our direction ends behind what is queued and due */
	RC_TODO_RST = 1 << 3  /* the stream ends at once */
};
static inline uint32_t rc_todo(const struct rc *c) { return c->out.todo; }
/* The adapter has done, or will do, all that rc_todo() told it. */
static inline void rc_todo_clear(struct rc *c) { c->out.todo = 0; }

/* The next record that is due: its bytes; 0: no more. */
uint32_t rc_due(struct rc *c, uint64_t *ref);

/* The peer has this record, and all before it. Then rc_complete once. */
void rc_acked(struct rc_ctx *ctx, struct rc *c, uint64_t ref);
void rc_complete(struct rc_ctx *ctx, struct rc *c);
/* The record was never acknowledged, and never will be. */
void rc_dropped(struct rc_ctx *ctx, struct rc *c, uint64_t ref);

/* Bytes [off, off + len) of a record. */
struct rc_part {
	uint64_t ref;
	uint32_t off, len;
	bool keep; /* a box on the way may cut it: what is sent again must have the same bytes */
};

/*
 * A part as slices of the memory that it is sent from. Returns their number; 0: it must be copied. The memory's owner
 * may write to it while it is read. So with *crc_due the CRC is left open: the last 4 octets of the last slice mean
 * nothing. It may go to where nobody sums it (rc_bytes.crc_due), or has to be copied and summed there. alone: nothing
 * else goes with it.
 */
uint32_t rc_slices(const struct rc_part *part, bool alone, struct rn_iov *iov, uint32_t max, bool *crc_due);
/*
 * Copies a part, reading each byte once; the CRC is summed in the same pass. *crc_due in: it may be left open if the
 * part is a whole FPDU; out: it is.
 */
void rc_copy(struct rc_ctx *ctx, const struct rc *c, const struct rc_part *part, uint8_t *dst, bool *crc_due);
/*
 * Whether there is a copy for another FPDU of a connection whose path cuts segments; one FPDU may always be on the way.
 */
bool rc_tx_copies(const struct rc_ctx *ctx, const struct rc *c);
/* Whether a byte of it lies in [base, base + len). */
bool rc_refers(uint64_t ref, const uint8_t *base, uint64_t len);

void rc_timer(struct rc_ctx *ctx, struct rc *c);
/* When rc_timer wants to be called; RN_NEVER: not before something happens. */
static inline uint64_t rc_next_wake(const struct rc *c) { return rn_min_u64(c->deadline, c->rnr.until); }

/* Nothing lies in the working memory: with a stream that holds nothing either, rc_rest takes it back. */
bool rc_resting(const struct rc_ctx *ctx, const struct rc *c);
void rc_rest(struct rc_ctx *ctx, struct rc *c);
/* The adapter's part of the working memory, of cfg.stream[] bytes: zero at first, then as the last user left it. */
void *rc_stream_mem(const struct rc *c);
/* Its records: a wide block's or a narrow one's. */
uint32_t rc_stream_records(const struct rc *c);

/* ---- questions ---- */

/* The peer has all that was ever made for it. */
static inline bool rc_quiet(const struct rc *c) { return c->out.flying == 0; }

/* What was agreed on, from ESTABLISHED on. */
static inline const struct mpa_agreed *rc_agreed(const struct rc *c) { return &c->agreed; }
static inline uint64_t rc_owner(const struct rc *c) { return c->owner; }
static inline bool rc_is_passive(const struct rc *c) { return c->passive; }
/* ESTABLISHED has been told, and no end. */
static inline bool rc_is_up(const struct rc *c) { return c->news == RC_NEWS_UP; }
static inline enum rc_state rc_get_state(const struct rc *c) { return (enum rc_state)c->state; }
const char *rc_state_name(enum rc_state s);

/* ---- per worker ---- */

#define RC_SETUPS_MAX    1024u /* connections being set up at once, by default */
#define RC_NARROW_CHUNKS 64u   /* FPDUs in flight of a connection with a narrow block */

struct rc_cfg {
	uint32_t worker;     /* number of this worker, < QP_MAX_WORKERS: its ring in each CQ */
	uint32_t max_mtu;    /* largest MTU of the devices served */
	uint32_t blocks;     /* connections that can be active at once; of the idle ones few keep theirs */
	uint32_t wide;       /* of the blocks, those with room for `chunks`, given out first; the others are narrow */
	uint32_t recs;       /* FPDUs in flight, all connections */
	uint32_t setups;     /* connections being set up at once */
	uint32_t stages;     /* FPDUs being put together at once, MPA_STAGE_SIZE each */
	uint32_t copies;     /* FPDUs in flight of which the bytes are kept, max_mtu each */
	uint32_t chunks;     /* FPDUs in flight per connection, a power of two, 64..4096 */
	uint32_t stream[2];  /* bytes of a wide and of a narrow block that are the adapter's: rc_stream_mem */
	uint64_t request_ns; /* passive: the stream and the MPA Request must be here. 10 s */
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
	struct rn_list rnr; /* connections that wait for a receive of a shared queue */
	uint8_t *copy_free;
	uint32_t copies_left;
	uint32_t rnr_stages;                /* kept for the sake of receives */
	uint32_t rnr_stages_of[QP_TENANTS]; /* the same, of each tenant */
	struct rn_list starved[RC_WANTS];   /* connections that wait for a pool */
	struct rc_cfg cfg;
	uint32_t rec_iov;             /* slices a record holds */
	struct rc_block *blk_free[2]; /* wide and narrow */
	uint8_t *blk_mem;             /* of those never used: its pages are untouched */
	uint32_t blk_fresh;           /* their number */
	uint32_t blk_left;            /* free and fresh ones */
	bool fed;                     /* those that wait for a pool are tried once between two flushes */
	struct rc_setup *setup_free, *setup_done;
	uint32_t setups_left; /* free */
	uint8_t *stage_free;
};

/* Bytes that rc_ctx_init needs, cache-line aligned and all zero; 0: cfg is wrong. */
uint64_t rc_ctx_size(const struct rc_cfg *cfg);
RN_NODISCARD enum qp_verdict rc_ctx_init(struct rc_ctx *ctx, const struct rc_cfg *cfg, void *mem, uint64_t size);

/* Connections that have a turn; NULL: no more. First come all that rc_answer_pop would give. */
struct rc *rc_ready_pop(struct rc_ctx *ctx);

/*
 * Those that have received something. They are worth a segment or two before anyone else's turn: the sooner a peer
 * hears of its bytes, the fewer are on the way, and the more of what keeps them is still in the cache. One that has
 * more to send goes to rc_ready_put. NULL: no more.
 */
struct rc *rc_answer_pop(struct rc_ctx *ctx);
void rc_answer_put(struct rc_ctx *ctx, struct rc *c);
void rc_ready_put(struct rc_ctx *ctx, struct rc *c);
/* Which rc_ready_pop gives next, if nobody has received anything; NULL: none. */
const struct rc *rc_ready_first(const struct rc_ctx *ctx);

/*
 * For a caller that knows ahead which connections rc_in will be called with: what a connection refers to is fetched,
 * when its own lines are there, and then what that refers to.
 */
void rc_fetch(const struct rc *c);
void rc_fetch_queues(const struct rc *c);

/* Publishes completions, releases queue slots, raises QP_FX_CQ_NOTIFY. */
void rc_flush(struct rc_ctx *ctx);

/* Effects have been taken. */
void rc_drained(struct rc_ctx *ctx);

/* ---- a QP of type QP_RC: the worker that owns it (any one while it has no connection) ---- */

/* ERR ends the connection with a Terminate. */
enum qp_verdict rc_modify(struct rc_ctx *ctx, struct qp *qp, enum qp_state to);

/*
 * The client has rung for this QP: takes send WQEs and transmits, or flushes (ERR: both queues). Harmless in any state.
 * Each post is followed by one: a queue's index is looked at once for it, not again.
 */
void rc_doorbell(struct rc_ctx *ctx, struct qp *qp);

/*
 * An XRC shared receive queue ends, which has been withdrawn: targets let go of it and of its PD. A connection that has
 * received a part of a message into it ends; of one that waits for it the message comes again, and is refused.
 */
void rc_srq_leave(struct rc_ctx *ctx, struct qp_srq *srq);

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
