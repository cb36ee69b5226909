/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable connection over TCP: joins lib/rc to tcp_lite. Segments in, segments out; TCP's sequence numbers are the
 * positions that rc is told. This room holds packets behind a hole, and keeps packets for a queue pair that is not
 * ready to receive. Pure: no allocation, no system call, no clock.
 *
 * One turn of a worker:
 *	ctx->rc.qp.now = clock;
 *	for each received segment	held = rc_tcp_segment(ctx, conn, &seg); if (!held) free the packet;
 *					if it has no data and gives no turn (rc_is_ready), arm the timer as below
 *	for each doorbell		rc_doorbell(&ctx->rc, qp)
 *	for each due timer		rc_tcp_timer(ctx, conn)
 *	while ((conn = rc_tcp_ready_pop(ctx))) {
 *		while (rc_tcp_out(ctx, conn, &out)) transmit;	(transmit queue full: stop, then rc_ready_put)
 *		arm the connection's timer with rc_tcp_next_wake(conn);
 *	}
 *	rc_flush(&ctx->rc)		completions become visible, notifications are decided
 *	take ctx->rc.qp.fx[0..n_fx) and ctx->refs[0..n_refs), then rc_tcp_drained(ctx)
 * Whenever rc_tcp_full(ctx) between two calls: the last line first. All other calls of rc.h may come in between: what
 * they ask of TCP is done in the connection's next rc_tcp_out.
 *
 * Threads: a ctx belongs to one worker; so does a connection from open to QP_FX_CLOSED.
 * Memory: all of it is the caller's. Connections stay where they are while in use.
 * Lengths are bytes, times nanoseconds of one monotonic clock.
 */
#ifndef RC_TCP_H
#define RC_TCP_H

#include "rc/rc.h"
#include "tcp_lite/tcpl.h"

struct rc_tcp {
	struct tcpl_conn tcp;
	struct rc rc;
};

struct rc_tcp_params {
	struct rc_params rc;
	const struct tcpl_cfg *tcp;
	uint32_t iss; /* tcpl_isn */
};

#define RC_TCP_REFS        4096u
#define RC_TCP_HOLD_MAX    2048u /* out-of-order packets held with a wide block at most: one for each FPDU in flight */
#define RC_TCP_HOLD_NARROW 128u  /* the same with a narrow block */
#define RC_TCP_RNR_CALL    128u  /* packets kept for a QP that is not ready to receive, worked off by a call at most */
/* Packets that one call gives back at most: a connection that has ended gives back those kept, then those held. */
#define RC_TCP_REFS_CALL (RC_TCP_HOLD_MAX + RC_TCP_RNR_CALL + 1)
_Static_assert(RC_TCP_REFS_CALL <= RC_TCP_REFS, "one call's packets fit an empty list");

struct rc_tcp_cfg {
	struct rc_cfg rc;   /* rc.stream is filled in by rc_tcp_ctx_init */
	bool rates;         /* some connections' congestion control measures rates (struct tcpl_sent) */
	bool tracks;        /* some connections may go by several paths (tcpl_cfg.tracks) */
	uint32_t rnr_pkts;  /* packets kept for QPs that are not ready to receive, half of them for QPs of one tenant at
			       most (qp_attr.tenant); more are refused: tcpl_room.h */
	uint32_t hold_pkts; /* packets held behind holes, three quarters of them for QPs of one tenant at most; more are
			       as if lost */
};

/* LAN defaults for n active connections. */
void rc_tcp_cfg_default(struct rc_tcp_cfg *cfg, uint32_t worker, uint32_t max_mtu, uint32_t conns);

struct rc_tcp_ctx {
	struct rc_ctx rc;
	struct tcpl_turns turns; /* written by the worker */
	struct rc_tcp_cfg cfg;
	uint32_t held;                    /* packets that wait behind holes */
	uint32_t held_of[QP_TENANTS + 1]; /* the same, of each tenant, and last of connections without a QP so far */
	uint32_t rnr_kept;                /* packets kept for messages that wait for a receive */
	uint32_t rnr_of[QP_TENANTS];      /* the same, of each tenant */
	uint32_t n_refs;
	uint64_t refs[RC_TCP_REFS]; /* packets that are the caller's again */
};

/* Bytes that rc_tcp_ctx_init needs, cache-line aligned and all zero; 0: cfg is wrong. */
uint64_t rc_tcp_ctx_size(const struct rc_tcp_cfg *cfg);
RN_NODISCARD enum qp_verdict rc_tcp_ctx_init(struct rc_tcp_ctx *ctx, const struct rc_tcp_cfg *cfg, void *mem,
					     uint64_t size);

/* True: the effects or refs must be taken before the next call. */
static inline bool rc_tcp_full(const struct rc_tcp_ctx *ctx)
{
	return qp_ctx_full(&ctx->rc.qp) || ctx->n_refs + RC_TCP_REFS_CALL > RC_TCP_REFS;
}

/* Call after effects and refs have been taken. */
static inline void rc_tcp_drained(struct rc_tcp_ctx *ctx)
{
	rc_drained(&ctx->rc);
	ctx->n_refs = 0;
}

/* ---- opening a connection ---- */

/* Active open: rc_connect, and a SYN. RC_SELF: as if both ends had connected at once (RFC 9293, 3.5). */
RN_NODISCARD enum qp_verdict rc_tcp_connect(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct rc_tcp_params *p);

/*
 * Passive open by a SYN that met a listener. OK, NO_MEMORY or BAD_SEGMENT: then nothing was done. The caller bounds how
 * many connections are still without QP_FX_CONNECT_REQUEST.
 */
RN_NODISCARD enum qp_verdict rc_tcp_passive(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_seg *syn,
					    const struct rc_tcp_params *p);

/*
 * Passive open by the ACK of a SYN cookie. OK: the same segment then goes to rc_tcp_segment, it may carry data.
 * NO_MEMORY, or BAD_SEGMENT: not a cookie of ours; then nothing was done.
 */
RN_NODISCARD enum qp_verdict rc_tcp_passive_cookie(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_seg *ack,
						   const struct tcpl_tuple *of, const struct rc_tcp_params *p);

/*
 * Active, over a TCP connection that the caller has opened: c->tcp is ESTABLISHED and has carried nothing yet. OK, or
 * what rc_connect says; then it is the caller's as before.
 */
RN_NODISCARD enum qp_verdict rc_tcp_take(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct rc_params *p);

/* ---- receiving ---- */

/*
 * A received packet's TCP payload as slices; seg->ref must be the address of this struct. The caller chooses where it
 * lies (beside the packet): the struct and its slices must stay valid while the packet is held.
 */
struct rc_tcp_pkt {
	const struct rn_iov *iov;
	uint32_t n;   /* at most RC_MAX_IOV */
	bool crc_due; /* whole FPDUs from this process, whose memory may still change: their CRC is not checked */
	/* while it is kept for a QP that is not ready to receive: rc_tcp_rnr.c */
	bool twice; /* TCP holds another part of the packet, and will give the packet back */
	struct rc_tcp_pkt *next;
	uint32_t off, len, seq; /* the part that is kept */
};

/*
 * True: the packet is held; its ref comes back in ctx->refs. False: it is the caller's again. Data give the connection
 * a turn, and so does any other segment, unless all is sent and acknowledged and nothing more is posted.
 */
RN_NODISCARD bool rc_tcp_segment(struct rc_tcp_ctx *ctx, struct rc_tcp *c, const struct tcpl_seg *seg);

void rc_tcp_timer(struct rc_tcp_ctx *ctx, struct rc_tcp *c);

/* ICMP says that the segment at seq was too large: tcpl_too_big. */
void rc_tcp_too_big(struct rc_tcp_ctx *ctx, struct rc_tcp *c, uint32_t seq, uint32_t mss);

/* When to call rc_tcp_timer; RN_NEVER: not before something else happens. */
static inline uint64_t rc_tcp_next_wake(const struct rc_tcp *c)
{
	return rc_get_state(&c->rc) == RC_FREE ? RN_NEVER : rn_min_u64(tcpl_next_wake(&c->tcp), rc_next_wake(&c->rc));
}

/* ---- sending ---- */

/* As rc_ready_pop and rc_answer_pop; also prefetches the cache lines of the next connections. */
struct rc_tcp *rc_tcp_ready_pop(struct rc_tcp_ctx *ctx);
struct rc_tcp *rc_tcp_answer_pop(struct rc_tcp_ctx *ctx);
const struct rc_tcp *rc_tcp_ready_first(const struct rc_tcp_ctx *ctx);

/*
 * The next segment of this connection; false when there is none now. Its o->len bytes come from one of the calls below.
 */
bool rc_tcp_out(struct rc_tcp_ctx *ctx, struct rc_tcp *c, struct tcpl_out *o);

/*
 * The bytes of the segment just made as slices of the memory that it is sent from: rc_slices. Returns the number of
 * slices; 0: the bytes must be copied. *crc_due: the segment is one FPDU, and its CRC is left open.
 */
uint32_t rc_tcp_slices(const struct rc_tcp *c, const struct tcpl_out *o, struct rn_iov *iov, uint32_t max,
		       bool *crc_due);

/* What the path of a segment allows for the CRCs of its FPDUs. */
enum rc_tcp_crc {
	RC_TCP_CRC_KEPT, /* a box may cut the segment: an FPDU that is sent in parts, or may be cut, is kept as a copy */
	RC_TCP_CRC_SUM,  /* no box cuts the segment: copies are kept only once a cut has been seen */
	RC_TCP_CRC_OPEN  /* the bytes stay in this process: CRCs may be left open, else as RC_TCP_CRC_SUM */
};

/*
 * Copies the bytes of the segment just made, reading each once: rc_copy. Returns the number of FPDUs with an open CRC:
 * all FPDUs of the segment, which then consists of whole ones, or 0. If there are several, none has markers.
 */
uint32_t rc_tcp_copy(struct rc_tcp_ctx *ctx, const struct rc_tcp *c, const struct tcpl_out *o, uint8_t *dst,
		     enum rc_tcp_crc crc);

/* Whether any byte that waits to be sent or acknowledged lies in [base, base + len). Looks at all that is queued. */
bool rc_tcp_refers(const struct rc_tcp *c, const uint8_t *base, uint64_t len);

/*
 * Prefetches for a caller that knows ahead which connections rc_tcp_segment will be called with: rc_tcp_fetch when the
 * connection's own lines are cached, then rc_tcp_fetch_queues when the block and the QP are (see rc_fetch).
 */
void rc_tcp_fetch(const struct rc_tcp *c);
void rc_tcp_fetch_queues(const struct rc_tcp *c);

/* The rc_tcp connection that contains c. */
static inline struct rc_tcp *rc_tcp_of(const struct rc *c) { return rn_container_of(c, struct rc_tcp, rc); }

#endif
