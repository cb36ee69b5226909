/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable connection: the carrier of QP_RC. Carries the messages of one queue pair over an ordered stream of
 * bytes, with MPA's negotiation and framing. Pure: no allocation, no system call, no clock.
 *
 * This room knows no stream. An adapter joins a connection to a stream (lib/conn to TCP, test/rc to a ring in memory)
 * and drives the connection:
 *	opening		rc_connect or rc_passive, rc_set_mss, rc_opened
 *	bytes came	rc_wake, then rc_in; for bytes behind a hole rc_early
 *	its turn	rc_turn; rc_tx_begin; while there is room rc_peek, rc_pull; rc_turn_end
 *	bytes went	rc_acked for each record that the peer has, in order; then once rc_complete
 *	a deadline	rc_timer at rc_next_wake
 *	the end		rc_fin or rc_lost; rc_closed at last
 * After each of these calls rc_todo says what the connection wants of the stream: to send what is due (rc_due), to
 * acknowledge at once, a FIN, a reset.
 *
 * A turn of a worker:
 *	ctx->qp.now = clock;
 *	received bytes, due timers, doorbells (rc_doorbell)
 *	while ((c = rc_ready_pop(ctx))) the connection's turn
 *	rc_flush(ctx)			completions become visible, notifications are decided
 *	take ctx->qp.fx[0..n_fx), then rc_drained(ctx)
 * Whenever qp_ctx_full(&ctx->qp) between two calls: the last line first.
 *
 * A position is the number of a byte in the stream, mod 2^32, in the adapter's own count: TCP's sequence number, or how
 * many bytes a socket has given. Only differences of positions have a meaning here.
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
	RC_OPENING,     /* active: waits for rc_opened (cfg.open_ns) */
	RC_WAIT_REQ,    /* passive: waits for the stream and the MPA Request; moved on by the peer or cfg.request_ns */
	RC_WAIT_ACCEPT, /* passive: waits for rc_accept or rc_reject (cfg.accept_ns) */
	RC_WAIT_REP,    /* active: Request sent, waits for the Reply (cfg.reply_ns) */
	RC_WAIT_QP,     /* active: Reply here, waits for rc_attach (cfg.accept_ns) */
	RC_WAIT_FIRST,  /* passive: Reply sent, may not send before the initiator's first FPDU (RFC 5044, 7.1.2) */
	RC_OPERATIONAL, /* both directions open */
	RC_DRAINING,    /* rc_disconnect: posted work is sent, then FIN (cfg.drain_ns) */
	RC_CLOSING,     /* our FIN is queued, nothing more is sent; waits for the peer's FIN (cfg.drain_ns) */
	RC_TERMINATING, /* a Terminate or final frame and FIN are queued, input is discarded; (cfg.close_ns) */
	RC_DEAD         /* both FINs have been seen, or a reset; no QP; waits for rc_closed (cfg.close_ns) */
};

/*
 * Received bytes of a connection whose QP is not ready to receive, or that has no memory for an FPDU in pieces. Written
 * by rc_rnr.c, by rc_stage.c, which begins the wait for memory, and by rc_rnr_stop. In all but NONE the adapter keeps
 * received bytes, in order, behind those that wait.
 */
enum rc_rnr {
	RC_RNR_NONE = 0, /* input is used as it comes */
	/*
	 * A message waits for a receive, or an FPDU that comes in pieces for a stage; moved on by a doorbell,
	 * rc_recvs_look, a stage, rnr.until or the end.
	 */
	RC_RNR_WAITS,
	RC_RNR_BEHIND /* the wait is over; the adapter brings the kept bytes, then calls rc_caught_up */
};

/* Set in params.flags. */
enum {
	/*
	 * No CM above: when the peer ends the stream without a Terminate, the QP keeps its state and its posted
	 * receives. Sends that the peer has not acknowledged, and those posted later, wait in the queue for
	 * qp_unreachable(). Our own end (ERR, RESET, destroy) is a FIN to the peer, no Terminate.
	 */
	RC_KEEP_RECV = 1 << 0,
	/*
	 * Active: the connection is its own peer, and receives what it sends. There is nothing to negotiate, hence no
	 * MPA frames, and QP_FX_CONNECT_REPLY has no private data.
	 */
	RC_SELF = 1 << 1,
	/*
	 * Passive: the owner of the connection is known before the peer's Request, so the owner is told also of an end
	 * without a Request.
	 */
	RC_AWAITED = 1 << 2,
};

struct rc_params {
	struct qp_dev *dev;       /* NULL: the device of the QP that is attached */
	uint64_t owner;           /* the caller's, returned in effects */
	uint32_t flags;           /* RC_* */
	struct mpa_policy policy; /* passive: ird, ord and the rest may still be set at accept */
	struct qp *qp;            /* active: if NULL, QP_FX_CONNECT_REPLY asks for one; passive: NULL */
	const uint8_t *priv;      /* active: goes into the Request */
	uint32_t priv_len;
};

/* What the control plane has been told of a connection. One writer: rc_tell. */
enum rc_news {
	RC_NEWS_NONE =
		0,       /* nothing: the control plane does not know of it; the peer's Request or rc_connect moves on */
	RC_NEWS_OPENING, /* it waits for ESTABLISHED, or for the end of the connection */
	RC_NEWS_UP,      /* ESTABLISHED: the end will be DISCONNECTED */
	RC_NEWS_OVER     /* the end; CLOSED follows */
};

/*
 * A disconnect in a young stream in which the peer has sent nothing: rc_quirk.h. One writer: rc_life.c. In all but NONE
 * the state is DRAINING and the deadline is the next nudge's.
 */
enum rc_silence {
	RC_SILENCE_NONE = 0, /* nothing waits for the peer's first FPDU */
	RC_SILENCE_WAITS,    /* the end waits for that FPDU; moved on when posted work is sent, or by a nudge */
	RC_SILENCE_ASKED     /* a zero-length Read has been queued, which the peer must answer; moved on by a nudge */
};

/* The receive side: from the stream's bytes to segments. */
struct rc_in {
	struct mpa_rx mpa;
	uint32_t base;  /* position of the first octet of Full Operation */
	bool heard;     /* the peer has sent something in Full Operation */
	bool ragged;    /* the bytes of one rc_in did not begin with an FPDU */
	uint8_t cut_op; /* of the last FPDU in order: its opcode */
	uint16_t cut;   /* and its ULPDU octets; 0: it ended a message, or its message must not be placed early */
};

/* The send side: from segments to FPDUs. */
struct rc_out {
	uint32_t mss;                  /* rc_set_mss */
	uint32_t mulpdu;               /* ULPDU bytes in a full segment */
	uint32_t pos;                  /* offset in Full Operation of the next FPDU */
	uint32_t flying;               /* records made, and neither acknowledged nor dropped */
	uint8_t todo;                  /* enum rc_todo_bit */
	bool rtr_due;                  /* initiator, p2p: the RTR must be sent first */
	bool term;                     /* a Terminate has been sent; there is only one */
	uint8_t tenant;                /* of the QP, also when that has left */
	struct rc_rec *due, *due_last; /* finished records, to be sent before all others */
};

/* Received bytes that wait: rc_rnr.c. */
struct rc_wait {
	struct qp_srq *srq;  /* the SRQ that the message waits for, in the ctx's list; NULL: none */
	struct rn_link link; /* in that list, or in the ctx's list of those that wait for a stage */
	uint64_t until;      /* WAITS: when the wait ends in failure; RN_NEVER: never */
	uint8_t state;       /* enum rc_rnr */
	bool fin;            /* the peer's FIN follows the kept bytes */
	bool stage;          /* WAITS: for a stage, and not for a receive */
};

/* Ordered by use. From m on, a connection that carries Writes needs three cache lines to send and four to receive. */
struct rc {
	struct rn_link answers; /* in the list of connections that have received something */
	struct rn_link starved; /* in one of the ctx's lists of connections that wait for a pool */
	struct mpa_policy policy;
	uint64_t owner;
	struct qp_msgs m; /* m.qp: NULL before attach and after the end; m.work: in blk */
	struct rc_wait rnr;
	struct rn_link ready; /* in the list of connections that have a turn */
	struct rc_block *blk; /* NULL while idle */
	uint64_t deadline;    /* when the state's time is over; RN_NEVER: no limit */
	uint8_t state;        /* enum rc_state */
	bool passive;
	uint8_t news;     /* enum rc_news */
	uint8_t flags;    /* RC_* */
	uint8_t want;     /* enum rc_want: the pool that the connection waits for, while `starved` is in a list */
	uint8_t silence;  /* enum rc_silence */
	uint8_t nudges;   /* initiator: how often a nudge of the silent peer has been due, rc_quirk.h */
	uint8_t spacings; /* spacings of markers that fit the FPDU which ended the stream: bits of mpa_spacings */
	struct rc_out out;
	struct mpa_agreed agreed;
	uint32_t vendor_err;
	struct rc_setup *setup; /* until OPERATIONAL */
	struct rc_in in;
};

/* Active open. OK, NO_MEMORY, BAD_PRIV, BAD_STATE (the QP is attached already or in ERR or RESET). */
RN_NODISCARD enum qp_verdict rc_connect(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p);

/*
 * Passive open: the peer opens the stream. OK, NO_MEMORY. The caller bounds how many connections are still without
 * QP_FX_CONNECT_REQUEST.
 */
RN_NODISCARD enum qp_verdict rc_passive(struct rc_ctx *ctx, struct rc *c, const struct rc_params *p);
/* Undoes rc_passive, without an effect: the connection's stream could not be opened. */
void rc_never(struct rc_ctx *ctx, struct rc *c);

struct rc_accept {
	struct qp *qp;
	uint16_t ird, ord;
	uint16_t priv_len;
	const uint8_t *priv;
};
/* In WAIT_ACCEPT. OK, BAD_STATE, BAD_PRIV (nothing was done); NO_AGREEMENT. */
RN_NODISCARD enum qp_verdict rc_accept(struct rc_ctx *ctx, struct rc *c, const struct rc_accept *a);
RN_NODISCARD enum qp_verdict rc_reject(struct rc_ctx *ctx, struct rc *c, const uint8_t *priv, uint32_t len);

/* Active, in WAIT_QP: gives the connection the QP that it was opened for. */
RN_NODISCARD enum qp_verdict rc_attach(struct rc_ctx *ctx, struct rc *c, struct qp *qp);

/*
 * Graceful end: posted work is sent, then FIN. The FIN of a young peer-to-peer stream waits until the peer has sent
 * something (rc_quirk.h). In any state; before OPERATIONAL this is an abort.
 */
void rc_disconnect(struct rc_ctx *ctx, struct rc *c);

/* Ends the connection at once, with RST. The QP is flushed. QP_FX_CLOSED still follows. */
void rc_abort(struct rc_ctx *ctx, struct rc *c);

/* ---- the adapter's side ---- */

/*
 * Sets the bytes in a full segment of the stream; at most cfg.max_mtu are used. Call before rc_opened, rc_in, rc_accept
 * and rc_attach, and when the number has changed.
 */
static inline void rc_set_mss(struct rc *c, uint32_t mss) { c->out.mss = mss; }

/* The active end's stream is open; pos: the position of the first byte that will come. */
void rc_opened(struct rc_ctx *ctx, struct rc *c, uint32_t pos);

/* Gives the connection its working memory; false: the pool is empty, so received bytes cannot be taken now. */
bool rc_wake(struct rc_ctx *ctx, struct rc *c);

/* Bytes of the stream, in slices. */
struct rc_bytes {
	struct rn_iov *iov; /* the caller's, may be changed */
	uint32_t n;
	uint32_t len;
	uint32_t pos; /* position of the first byte */
	/*
	 * The CRC of FPDUs that lie whole in iov is not checked: they come from this process, and their memory may
	 * still change. With rc_early: iov consists of such FPDUs.
	 */
	bool crc_due;
};
#define RC_MAX_IOV 32 /* slices in one call at most */

/*
 * The next bytes of the stream. Returns how many were used: all, unless the connection waits (RC_RNR_WAITS).
 * The adapter then keeps the rest, as a stream keeps bytes that its user does not read, and brings them again in
 * RC_RNR_BEHIND.
 */
uint32_t rc_in(struct rc_ctx *ctx, struct rc *c, const struct rc_bytes *b);
/* The position after the last used byte of Full Operation. */
static inline uint32_t rc_used(const struct rc *c) { return c->in.base + mpa_rx_pos(&c->in.mpa); }

/*
 * Whether the byte after the last used one begins an FPDU; *offset: the byte's place in Full Operation. False: that
 * byte is inside an FPDU, or Full Operation has not begun.
 */
static inline bool rc_fpdu_next(const struct rc *c, uint32_t *offset)
{
	*offset = mpa_rx_pos(&c->in.mpa);
	return c->state >= RC_WAIT_FIRST && c->state <= RC_CLOSING && c->in.mpa.pos == c->in.mpa.start;
}

/* Bytes behind a hole: places the FPDUs that may be placed now. The bytes come again in their turn. */
RN_COLD void rc_early(struct rc_ctx *ctx, struct rc *c, const struct rc_bytes *b);

/*
 * Whether the next bytes seem to begin with a Terminate. Work that was acknowledged together with them must not
 * complete yet (rc_acked without rc_complete), since the Terminate may be about that work. This is a guess by the first
 * octets; the work completes with the next acknowledgement at the latest, or is flushed with the stream's end.
 */
bool rc_terminate_ahead(const struct rc *c, const uint8_t *p, uint32_t n);

/* In a turn with RC_RNR_WAITS or BEHIND: looks for a receive. closed: the stream is gone. */
RN_COLD void rc_rnr_look(struct rc_ctx *ctx, struct rc *c, bool closed);
/* In BEHIND: the adapter keeps no more bytes. */
void rc_caught_up(struct rc_ctx *ctx, struct rc *c);

/* The peer will send no more. Kept bytes are handled first. */
RN_COLD void rc_fin(struct rc_ctx *ctx, struct rc *c);
/* The stream has failed: the peer has reset it, or does not answer. */
enum rc_loss { RC_LOST_RESET, RC_LOST_TIMEOUT };
RN_COLD void rc_lost(struct rc_ctx *ctx, struct rc *c, enum rc_loss how);
/* The connection has asked for a reset itself; the end is told at rc_closed at the latest. */
RN_COLD void rc_reset(struct rc_ctx *ctx, struct rc *c);
/* The stream is over and each record has been given back (rc_dropped): the connection becomes FREE. */
RN_COLD void rc_closed(struct rc_ctx *ctx, struct rc *c);

/*
 * A record is what the adapter queues and the peer acknowledges as one: an FPDU, or MPA's set-up frame. Its ref comes
 * from rc_due or rc_pull, and goes back with rc_acked or rc_dropped.
 */

/* Call at the beginning of the connection's turn. */
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

/*
 * Call after rc_turn: makes the records that must go first, and gets the working memory. False: there is nothing to
 * pull.
 */
bool rc_tx_prepare(struct rc_ctx *ctx, struct rc *c);
static inline bool rc_tx_begin(struct rc_ctx *ctx, struct rc *c)
{
	if (rn_unlikely(c->blk == NULL || c->out.rtr_due) && !rc_tx_prepare(ctx, c))
		return false;
	return rc_tx_open(c);
}

/* The length on the stream of the next FPDU, bytes; 0: there is none. Only while rc_tx_open. */
uint32_t rc_peek(struct rc_ctx *ctx, struct rc *c);
/* Makes the next FPDU. Returns its length, which may be shorter; 0: no room, or it failed. */
uint32_t rc_pull(struct rc_ctx *ctx, struct rc *c, uint64_t *ref);
/* Call at the end of the turn, when no more is pulled. */
void rc_turn_end(struct rc_ctx *ctx, struct rc *c);
/* The QP has failed since rc_turn: the connection needs another turn. */
static inline bool rc_failed(const struct rc *c)
{
	return c->m.qp != NULL && c->m.qp->state == QP_S_ERR && c->state >= RC_WAIT_FIRST && c->state <= RC_CLOSING;
}

/* What the connection wants of its stream. */
enum rc_todo_bit {
	RC_TODO_SEND = 1 << 0, /* rc_due has a record, which goes before all others and whatever the peer's window is */
	RC_TODO_ACK = 1 << 1,  /* the peer's completion waits for the acknowledgement of the used bytes */
	RC_TODO_FIN = 1 << 2,  /* our direction ends behind all records that are queued or due */
	RC_TODO_RST = 1 << 3,  /* the stream ends at once */
	/*
	 * rc_let_go for each record in flight, before completions become visible; if it fails, rc_reset. An adapter
	 * that has sent or copied the bytes of each record by the end of the turn has nothing to do.
	 */
	RC_TODO_LET_GO = 1 << 4
};
static inline uint32_t rc_todo(const struct rc *c) { return c->out.todo; }
/* The adapter has done, or will do, everything that rc_todo() returned. */
static inline void rc_todo_clear(struct rc *c) { c->out.todo = 0; }

/* The next record that is due: its length in bytes; 0: there are no more. */
uint32_t rc_due(struct rc *c, uint64_t *ref);

/* The peer has acknowledged this record, and all before it. Call rc_complete once afterwards. */
void rc_acked(struct rc_ctx *ctx, struct rc *c, uint64_t ref);
void rc_complete(struct rc_ctx *ctx, struct rc *c);
/* The record was not acknowledged, and never will be. */
void rc_dropped(struct rc_ctx *ctx, struct rc *c, uint64_t ref);

/* Bytes [off, off + len) of a record. */
struct rc_part {
	uint64_t ref;
	uint32_t off, len;
	bool keep; /* a box on the way may cut it, so a retransmission must send the same bytes */
};

/*
 * A part as slices of the memory that it is sent from. Returns the number of slices; 0: the part must be copied. The
 * memory's owner may write to the memory while it is read, so with *crc_due the CRC is left open: the last 4 octets of
 * the last slice have no meaning. Such a part may go to a receiver that checks no CRC (rc_bytes.crc_due), or must be
 * copied and summed. alone: the segment has no other part.
 */
uint32_t rc_slices(const struct rc_part *part, bool alone, struct rn_iov *iov, uint32_t max, bool *crc_due);
/*
 * Copies a part, reading each byte once; the CRC is summed in the same pass. *crc_due in: the CRC may be left open if
 * the part is a whole FPDU; out: the CRC is open.
 */
void rc_copy(struct rc_ctx *ctx, const struct rc *c, const struct rc_part *part, uint8_t *dst, bool *crc_due);
/*
 * Whether a connection whose path cuts segments may send another FPDU, because a copy is free for it. False: an
 * acknowledgement, or a copy that comes back, gives the connection its next turn.
 */
bool rc_tx_copies(struct rc_ctx *ctx, struct rc *c);
/* After rc_tx_copies() and rc_pull(): all sendings of the FPDU take its bytes as they are now. */
void rc_keep(struct rc_ctx *ctx, const struct rc *c, uint64_t ref);
/*
 * The memory that the record is sent from is its owner's again: all later sendings take its bytes as they are now.
 * False: no copy is free.
 */
RN_COLD bool rc_let_go(struct rc_ctx *ctx, const struct rc *c, uint64_t ref);
/* Whether an FPDU may be begun with a part of it. */
static inline bool rc_may_cut(const struct rc_ctx *ctx, const struct rc *c);
/* Something of this connection waits until rc_may_cut(). */
void rc_cut_waits(struct rc_ctx *ctx, struct rc *c);
/* Whether a byte of the record lies in [base, base + len). */
bool rc_refers(uint64_t ref, const uint8_t *base, uint64_t len);

void rc_timer(struct rc_ctx *ctx, struct rc *c);
/* When to call rc_timer; RN_NEVER: not before something else happens. */
static inline uint64_t rc_next_wake(const struct rc *c) { return rn_min_u64(c->deadline, c->rnr.until); }

/* Whether a turn would find nothing to do, until a doorbell, received bytes or a deadline. */
bool rc_settled(const struct rc *c);
/* Whether nothing lies in the working memory: if the stream holds nothing either, rc_rest takes it back. */
bool rc_resting(const struct rc_ctx *ctx, const struct rc *c);
void rc_rest(struct rc_ctx *ctx, struct rc *c);
/* The adapter's part of the working memory, of cfg.stream[] bytes: zero at first, later as its last user left it. */
void *rc_stream_mem(const struct rc *c);
/* The number of records in the adapter's part: a wide block's or a narrow one's. */
uint32_t rc_stream_records(const struct rc *c);

/* ---- questions ---- */

/* Whether the peer has acknowledged every record. */
static inline bool rc_quiet(const struct rc *c) { return c->out.flying == 0; }

/* The parameters that were agreed on; valid from ESTABLISHED on. */
static inline const struct mpa_agreed *rc_agreed(const struct rc *c) { return &c->agreed; }
static inline uint64_t rc_owner(const struct rc *c) { return c->owner; }
static inline bool rc_is_passive(const struct rc *c) { return c->passive; }
/* Whether ESTABLISHED has been told, and no end. */
static inline bool rc_is_up(const struct rc *c) { return c->news == RC_NEWS_UP; }
static inline enum rc_state rc_get_state(const struct rc *c) { return (enum rc_state)c->state; }
const char *rc_state_name(enum rc_state s);

/* ---- per worker ---- */

#define RC_SETUPS_MAX    1024u /* connections being set up at once, by default */
#define RC_NARROW_CHUNKS 64u   /* FPDUs in flight of a connection with a narrow block */

struct rc_cfg {
	uint32_t worker;     /* number of this worker, < QP_MAX_WORKERS: its ring in each CQ */
	uint32_t max_mtu;    /* largest MTU of the devices served */
	uint32_t blocks;     /* connections that can be active at once; few idle ones keep their block */
	uint32_t blk_share;  /* those of them with QPs of one tenant, at most; 0: all, as there are blocks for all
				connections */
	uint32_t wide;       /* blocks with room for `chunks`, which are used first; the others are narrow */
	uint32_t recs;       /* FPDUs in flight, all connections; three quarters of them for QPs of one tenant */
	uint32_t setups;     /* connections being set up at once */
	uint32_t stages;     /* FPDUs being put together at once, MPA_STAGE_SIZE bytes each; three quarters of them for
				QPs of one tenant at most */
	uint32_t rnr_stages; /* stages kept with FPDUs for QPs that are not ready to receive, three quarters of them
				for QPs of one tenant at most; a message without such a stage ends its stream */
	uint32_t copies;     /* FPDUs in flight whose bytes are kept as a copy, max_mtu each; three quarters of them for
				QPs of one tenant at most */
	uint32_t chunks;     /* FPDUs in flight per connection, a power of two, 64..4096 */
	uint32_t stream[2];  /* bytes of a wide and of a narrow block that are the adapter's: rc_stream_mem */
	uint64_t open_ns;    /* active: for the stream to open. 10 s */
	uint64_t request_ns; /* passive: for the stream to open and the MPA Request to arrive. 10 s */
	uint64_t reply_ns;   /* active: from the MPA Request to the Reply. 10 s */
	uint64_t accept_ns;  /* for the application's answer. 60 s */
	uint64_t drain_ns;   /* for posted work to be sent, and then for the peer's FIN to come. 5 s each */
	uint64_t close_ns;   /* for a Terminate or the last FIN to get through. 5 s */
};

/* LAN defaults for n active connections. */
void rc_cfg_default(struct rc_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns);

/* The pools that a connection with something to send may wait for. */
enum rc_want { RC_WANT_REC, RC_WANT_BLOCK, RC_WANT_COPY, RC_WANTS };

/* Memory of n objects of a pool that were never used: its pages are untouched. */
struct rc_fresh {
	uint8_t *mem;
	uint32_t n;
};

struct rc_ctx {
	struct qp_ctx qp;
	struct rn_list ready, answers;
	struct rc_rec *rec_free;
	uint32_t rec_left;              /* free records, the never used ones included */
	uint32_t rec_spare;             /* with so few left, only a connection that has none in flight gets one */
	uint32_t rec_share;             /* with so many in use, a tenant's connections likewise */
	uint32_t rec_most;              /* with so many in use, a tenant's connections get only those that must go */
	uint32_t rec_end;               /* with so many in use, none of the tenant's connections gets one */
	uint32_t recs_of[QP_TENANTS];   /* records in use, of each tenant */
	struct rn_list rnr;             /* connections whose message waits for a receive of a shared queue */
	uint32_t n_rnr;                 /* how many of those there are */
	uint32_t rnr_looks;             /* how many of those, from the first on, rc_recvs_look() has still to look at */
	uint8_t *copy_free, *copy_once; /* copy_once: of the FPDU that is being sent, when it has none of its own */
	uint32_t copies_left;
	uint32_t copies_of[QP_TENANTS];     /* copies in use, of each tenant */
	uint32_t rnr_stages;                /* stages kept for messages that wait for a receive */
	uint32_t rnr_stages_of[QP_TENANTS]; /* the same, of each tenant */
	struct rn_list starved[RC_WANTS];   /* connections that wait for a pool */
	struct rc_cfg cfg;
	uint32_t rec_iov;             /* slices a record holds */
	struct rc_block *blk_free[2]; /* wide and narrow */
	uint8_t *blk_mem;             /* blocks that were never used: their pages are untouched */
	uint32_t blk_fresh;           /* how many of those there are */
	uint32_t blk_left;            /* free blocks, the never used ones included */
	/* blocks in use, of each tenant, and last those of connections without a QP so far */
	uint32_t blks_of[QP_TENANTS + 1];
	bool fed; /* connections that wait for a pool are tried once between two flushes */
	struct rc_setup *setup_free, *setup_done;
	uint32_t setups_left;                 /* free set-ups, the never used ones included */
	uint32_t stages_left;                 /* free stages, the never used ones included */
	uint32_t stages_of[QP_TENANTS];       /* stages in use, of each tenant */
	struct rn_list stages, stages_free;   /* struct rc_stage: in use, and free */
	struct rn_list stageless[QP_TENANTS]; /* connections that wait for a stage, of each tenant */
	uint64_t stageless_of;                /* a bit for each tenant: there may be such connections */
	uint8_t stage_turn;                   /* the tenant that has the next turn */
	struct rc_fresh rec_fresh, copy_fresh, setup_fresh, stage_fresh;
};

/* Bytes that rc_ctx_init needs, cache-line aligned and all zero; 0: cfg is wrong. */
uint64_t rc_ctx_size(const struct rc_cfg *cfg);
RN_NODISCARD enum qp_verdict rc_ctx_init(struct rc_ctx *ctx, const struct rc_cfg *cfg, void *mem, uint64_t size);

/* How long the peer may leave bytes without an answer, ns; 0: the adapter decides. The client may change it. */
static inline uint64_t rc_silence(const struct rc *c) { return c->m.qp != NULL ? c->m.qp->silence_ns : 0; }

static inline uint8_t rc_tenant(const struct rc *c) { return c->out.tenant; }

/* Whether a copy is free for an FPDU that cannot go without one: the last quarter is for these. */
static inline bool rc_copy_left(const struct rc_ctx *ctx, const struct rc *c)
{
	const uint32_t all = ctx->cfg.copies;

	return rn_likely(ctx->copies_left > all - all / 4) ||
	       (ctx->copies_left > 0 && ctx->copies_of[rc_tenant(c)] < all - all / 4);
}

static inline bool rc_may_cut(const struct rc_ctx *ctx, const struct rc *c)
{
	return rc_copy_left(ctx, c) || !c->agreed.crc;
}

/* False: rc_answer_pop and rc_ready_pop return NULL. */
static inline bool rc_any_ready(const struct rc_ctx *ctx)
{
	return !rn_list_empty(&ctx->ready) || !rn_list_empty(&ctx->answers) ||
	       !rn_list_empty(&ctx->starved[RC_WANT_REC]) || !rn_list_empty(&ctx->starved[RC_WANT_BLOCK]) ||
	       (!rn_list_empty(&ctx->starved[RC_WANT_COPY]) && ctx->copies_left > 0);
}

/* The next connection that has a turn; NULL: no more. Connections of rc_answer_pop come first. */
struct rc *rc_ready_pop(struct rc_ctx *ctx);

/*
 * The next connection that has received something; NULL: no more. Such a connection sends a segment or two before the
 * others have their turn: an early acknowledgement keeps few of the peer's bytes in flight, so their memory stays in
 * the cache. A connection with more to send then goes to rc_ready_put.
 */
struct rc *rc_answer_pop(struct rc_ctx *ctx);
void rc_answer_put(struct rc_ctx *ctx, struct rc *c);
void rc_ready_put(struct rc_ctx *ctx, struct rc *c);
static inline bool rc_is_ready(const struct rc *c) { return rn_link_linked(&c->ready); }
/* The connection that rc_ready_pop returns next, if none has received anything; NULL: none. */
const struct rc *rc_ready_first(const struct rc_ctx *ctx);

/*
 * Prefetches for a caller that knows ahead which connections rc_in will be called with. rc_fetch, when the connection's
 * own lines are cached: its QP and block. rc_fetch_queues, when those are cached: entries of the block's ring of work
 * requests.
 */
void rc_fetch(const struct rc *c);
void rc_fetch_queues(const struct rc *c);

/* Publishes completions, releases queue slots, raises QP_FX_CQ_NOTIFY. */
void rc_flush(struct rc_ctx *ctx);

/* Call after the effects have been taken. */
void rc_drained(struct rc_ctx *ctx);

/* ---- a QP of type QP_RC: called by the worker that owns it (any worker while it has no connection) ---- */

/* To ERR: ends the connection with a Terminate. */
enum qp_verdict rc_modify(struct rc_ctx *ctx, struct qp *qp, enum qp_state to);

/*
 * The client has rung the QP's doorbell: takes send WQEs and transmits, or flushes (ERR: both queues). Harmless in any
 * state. Each post is followed by a doorbell, so a queue's index is read once for each doorbell, not again.
 */
void rc_doorbell(struct rc_ctx *ctx, struct qp *qp);

/*
 * An XRC shared receive queue that has been withdrawn ends: targets stop using the queue. A connection that has
 * received a part of a message into the queue ends. A message that waits for the queue is brought again, and refused.
 * False: some targets still use the queue, since a turn's part of them have let go, or effects have no more room.
 */
RN_NODISCARD bool rc_srq_leave(struct rc_ctx *ctx, struct qp_srq *srq);

/*
 * A client has posted to shared receive queues for which messages on this worker wait. The turns that follow look at
 * the waiting connections, as far as rc_recvs_look() goes in one call; it returns how many got a turn.
 */
void rc_recvs(struct rc_ctx *ctx);
uint32_t rc_recvs_look(struct rc_ctx *ctx);

/*
 * The QP goes away: no more completions follow. Its connection, if any, is closed (FIN when idle, RST otherwise) and
 * exists without the QP until QP_FX_CLOSED. Completions already made become visible with the next rc_flush.
 */
void rc_destroy(struct rc_ctx *ctx, struct qp *qp);

/* The connection that the QP is attached to; NULL: none. */
static inline struct rc *rc_of(const struct qp *qp)
{
	return qp->msgs != NULL ? rn_container_of(qp->msgs, struct rc, m) : NULL;
}

#endif
