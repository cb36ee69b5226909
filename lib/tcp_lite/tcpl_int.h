/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to lib/tcp_lite: what its files share. */
#ifndef TCPL_INT_H
#define TCPL_INT_H

#include "base/rn_seq.h"
#include "tcp_lite/tcpl.h"
#include "tcp_lite/tcpl_track.h"

/* tcpl_conn.flags: what was negotiated, what has been seen, and work that waits for tcpl_out. */
enum {
	F_WSCALE = 1u << 0,
	F_SACK = 1u << 1,
	F_TS = 1u << 2,
	F_FIN_QUEUED = 1u << 3, /* the owner closed its direction */
	F_FIN_SENT = 1u << 4,
	F_FIN_SEEN = 1u << 5, /* fin_seq is known */
	F_FIN_RCVD = 1u << 6, /* the peer's FIN is in order: rcv_nxt stands behind it */
	F_ACK_NOW = 1u << 7,
	F_SYN_NOW = 1u << 8,    /* SYN or SYN-ACK */
	F_RST_NOW = 1u << 9,    /* a reset at rst_seq ends the connection */
	F_RST_REPLY = 1u << 10, /* a reset at rst_seq for a bad handshake ACK; the state stays */
	F_WIN_PROBE = 1u << 11,
	F_KEEP_PROBE = 1u << 12,
	F_TLP_NOW = 1u << 13,
	F_TLP_ON = 1u << 14,     /* a tail loss probe is out, tlp_end is valid */
	F_TLP_REXMIT = 1u << 15, /* and the probe was a retransmission. Alone: a timeout came behind it */
	F_FORCE = 1u << 16,      /* one retransmission without asking cwnd (RFC 6675, 5 (4.3)) */
	F_REORDERING = 1u << 17, /* RACK.reordering_seen */
	F_UNDO = 1u << 18,       /* undo_* are valid, undo_ts too once F_UNDO_TS is set */
	F_UNDO_TS = 1u << 19,
	F_SENT = 1u << 20,      /* something went out since the timers were last set */
	F_RST_ACK = 1u << 21,   /* the reset of F_RST_NOW carries an ACK */
	F_MODEL = 1u << 22,     /* congestion control models the path: tcpl_rate.c keeps the books */
	F_PACE_WAIT = 1u << 23, /* paced, and not before pace_at */
	F_REO_ROUND = 1u << 24, /* reo_round is valid: it lies ahead of SND.UNA */
	F_RECOVER = 1u << 25,   /* recover is valid although recovery was left: it lies ahead of SND.UNA */
	F_PACED = 1u << 26,     /* cfg.pace: the pace follows cwnd */
	F_PIECE = 1u << 27,     /* piece is valid */
	F_MTU_END = 1u << 28,   /* mtu_end is valid */
	F_EXID = 1u << 29,      /* both ends take part in cfg->exid */
	F_LEFT = 1u << 30,      /* tcpl_leave() */
	F_PROBED = 1u << 31,    /* backoff counts window probes */
	/* any of these: an ACK takes the long way, where numbers that lie ahead are compared and then forgotten */
	F_AHEAD = F_TLP_ON | F_UNDO | F_REO_ROUND | F_RECOVER | F_PIECE | F_MTU_END,
};

/* One writer: tcpl_ack.c and the timer through tcpl_enter_loss. */
enum tcpl_recovery {
	TCPL_R_OPEN,     /* no loss known */
	TCPL_R_RECOVERY, /* fast recovery: waits for `recover` to be acknowledged */
	TCPL_R_LOSS,     /* after a timeout: slow start, waits for `recover` */
};

/* Forward RTO-Recovery (RFC 5682): was the timeout spurious? One writer: tcpl_recovery.c. */
enum tcpl_frto {
	TCPL_FRTO_OFF,
	TCPL_FRTO_FIRST,  /* waits for the first ACK after the timeout */
	TCPL_FRTO_SECOND, /* the first ACK moved SND.UNA: new data go, retransmissions wait for the next ACK */
};

/* What is known of the path's MTU. One writer: tcpl_mtu.c. */
enum tcpl_mtu {
	TCPL_MTU_FULL,  /* nothing speaks against full segments */
	TCPL_MTU_TRIED, /* full segments were not answered: small ones are tried, in case it is their size */
	TCPL_MTU_AGAIN, /* small segments were answered: full ones once more, since any size may have met the silence */
	TCPL_MTU_LOW,   /* small segments pass and full ones do not, or ICMP said so */
};

enum tcpl_rtx {
	TCPL_RTX_OFF,
	TCPL_RTX_SYN,
	TCPL_RTX_RTO,
	TCPL_RTX_TLP,
	TCPL_RTX_REO,
	TCPL_RTX_PERSIST,
	TCPL_RTX_PACE,
};

#define TCPL_NO_SLOT UINT16_MAX

/* tcpl_txrec.flags; a record with neither SACKED nor LOST is in flight, and in its path's flight list */
enum {
	R_SACKED = 1u << 0,
	R_LOST = 1u << 1, /* believed lost and not sent again: not in pipe */
	R_FIN = 1u << 2,
	R_PATH = 7u << 3, /* by which path it was sent last */
};
#define R_PATH_SHIFT 3u
_Static_assert(R_PATH >> R_PATH_SHIFT == TCPL_PATHS - 1, "the number of a path fits");

struct tcpl_opts {
	bool has_ts, has_mss, has_wscale, sack_ok;
	uint8_t wscale;
	uint16_t mss;
	uint32_t tsval, tsecr;
	uint32_t exid; /* 0: no option with a 32-bit ExID and a role */
	uint8_t exid_role;
	uint32_t n_sack;
	struct tcpl_block sack[4];
};

/* The segment that was sent last among those that the ACK at hand says have arrived. */
struct tcpl_newest {
	bool any, limited;
	uint32_t bytes;    /* newly delivered, all segments */
	uint32_t prior;    /* tcpl_sent.delivered */
	uint64_t prior_at; /* when the last of `prior` bytes were delivered */
	uint64_t began;    /* tcpl_delivery.began when the segment left */
	uint64_t sent;
	uint64_t rtt; /* RN_NEVER: it was sent twice */
};

/* What an option with an ExID says. */
enum { TCPL_EXID_ASKS = 1, TCPL_EXID_TAKES = 2 };
#define TCPL_EXID_SYNS \
	3u /* SYNs with the option; later SYNs leave it out, since a middlebox may drop unknown options */

#define TCPL_PACE_SHIFT 20
#define TCPL_TS_OPTLEN  12u
#define TCPL_MSS_MIN    64u /* a smaller MSS of a peer counts as this */

static inline struct tcpl_txrec *tcpl_rec(const struct tcpl_conn *c, uint32_t idx)
{
	return &c->mem.rec[idx & (c->mem.rec_n - 1)];
}

static inline uint32_t tcpl_slot(const struct tcpl_conn *c, uint32_t idx) { return idx & (c->mem.rec_n - 1); }

/* Index of the record in a slot. */
static inline uint32_t tcpl_idx(const struct tcpl_conn *c, uint32_t slot)
{
	return c->r_head + ((slot - c->r_head) & (c->mem.rec_n - 1));
}

static inline uint32_t tcpl_path_of(const struct tcpl_txrec *r)
{
	return (uint32_t)(r->flags & R_PATH) >> R_PATH_SHIFT;
}

static inline struct tcpl_track *tcpl_track(struct tcpl_conn *c, uint32_t path)
{
	return rn_likely(path == 0) ? &c->track : &c->mem.track[path - 1];
}

/* The number of paths that there are tracks for. */
static inline uint32_t tcpl_paths(const struct tcpl_conn *c)
{
	return rn_likely(c->mem.track == NULL) ? 1 : TCPL_PATHS;
}

/* The path that the owner has chosen for the segments that are sent now. */
static inline uint32_t tcpl_path_now(const struct tcpl_conn *c)
{
	return rn_likely(c->mem.track == NULL) ? 0 : c->path;
}

/* Makes a record the last of those in flight by its path; returns which one was the last before: its `prev`. */
static inline uint16_t tcpl_flight_last(struct tcpl_conn *c, uint32_t path, uint16_t slot)
{
	struct tcpl_track *t = tcpl_track(c, path);
	uint16_t before = t->last;

	if (before == TCPL_NO_SLOT)
		t->first = slot;
	else
		c->mem.rec[before].next = slot;
	t->last = slot;
	return before;
}

/* A record has been sent just now: the last of those in flight by its path. */
static inline void tcpl_flight_add(struct tcpl_conn *c, uint32_t idx)
{
	struct tcpl_txrec *r = tcpl_rec(c, idx);

	r->next = TCPL_NO_SLOT;
	r->prev = tcpl_flight_last(c, tcpl_path_of(r), (uint16_t)tcpl_slot(c, idx));
}

/* Takes a record off those in flight. `prev` of the first one is not kept up. */
static inline void tcpl_flight_del(struct tcpl_conn *c, uint32_t idx)
{
	uint16_t slot = (uint16_t)tcpl_slot(c, idx);
	const struct tcpl_txrec *r = &c->mem.rec[slot];
	struct tcpl_track *t = tcpl_track(c, tcpl_path_of(r));

	if (slot == t->first) {
		t->first = r->next;
		if (r->next == TCPL_NO_SLOT)
			t->last = TCPL_NO_SLOT;
		return;
	}
	c->mem.rec[r->prev].next = r->next;
	if (r->next == TCPL_NO_SLOT)
		t->last = r->prev;
	else
		c->mem.rec[r->next].prev = r->prev;
}

#define TCPL_TICK_SHIFT 20 /* 1.05 ms (RFC 7323, 5.4 allows 1 ms to 1 s) */
static inline uint32_t tcpl_tsval(const struct tcpl_conn *c, uint64_t now)
{
	return (uint32_t)(now >> TCPL_TICK_SHIFT) + c->ts_offset;
}

static inline uint64_t tcpl_ticks_ns(uint32_t ticks) { return (uint64_t)ticks << TCPL_TICK_SHIFT; }

#define TCPL_EPOCH_SHIFT 30 /* 1.07 s */
static inline uint32_t tcpl_epoch(uint64_t now) { return (uint32_t)(now >> TCPL_EPOCH_SHIFT); }

static inline uint64_t tcpl_backed_off(const struct tcpl_conn *c)
{
	return rn_min_u64(c->rto << rn_min_u32(c->backoff, 20), c->cfg->max_rto_ns);
}

static inline bool tcpl_fin_acked(const struct tcpl_conn *c)
{
	return (c->flags & F_FIN_SENT) && c->snd_una == c->snd_nxt;
}

static inline uint32_t tcpl_unsent(const struct tcpl_conn *c)
{
	return c->flags & F_FIN_SENT ? 0 : c->q_end - c->snd_nxt;
}

/* Data or a FIN that have not been sent once. */
static inline bool tcpl_waits(const struct tcpl_conn *c)
{
	return tcpl_unsent(c) > 0 || (c->flags & (F_FIN_QUEUED | F_FIN_SENT)) == F_FIN_QUEUED;
}

/* Bytes in flight as congestion control sees them; without SACK each duplicate ACK stands for one that has left. */
static inline uint32_t tcpl_pipe(const struct tcpl_conn *c)
{
	if (rn_likely(c->dup_acks == 0 || (c->flags & F_SACK)))
		return c->pipe;
	uint64_t left = (uint64_t)c->dup_acks * c->mss;
	return c->pipe > left ? c->pipe - (uint32_t)left : 0;
}

/* tcpl.c */
void tcpl_set_state(struct tcpl_conn *c, enum tcpl_state s);
void tcpl_start(struct tcpl_conn *c, uint64_t now, uint32_t iss);
void tcpl_negotiate(struct tcpl_conn *c, uint64_t now, const struct tcpl_opts *o);
void tcpl_established(struct tcpl_conn *c, uint64_t now);
void tcpl_finish(struct tcpl_conn *c);

/* tcpl_opt.c: false means malformed */
bool tcpl_opt_parse(const uint8_t *opt, uint32_t len, struct tcpl_opts *o);
uint8_t tcpl_opt_syn(const struct tcpl_cfg *cfg, uint32_t offer, bool answers, uint32_t tsval, uint32_t tsecr,
		     uint8_t *p);
uint8_t tcpl_opt_ts(uint32_t tsval, uint32_t tsecr, uint8_t *p);
uint8_t tcpl_opt_sack(struct tcpl_conn *c, uint8_t *p, uint8_t at);

/* tcpl_rx.c */
void tcpl_rx_data(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, struct tcpl_ev *ev,
		  enum tcpl_verdict *v);
void tcpl_ack_policy(struct tcpl_conn *c, uint64_t now, uint8_t flags);
void tcpl_dsack(struct tcpl_conn *c, uint32_t seq, uint32_t end);
void tcpl_challenge(struct tcpl_conn *c, uint64_t now);

/* tcpl_ack.c */
void tcpl_ack_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, const struct tcpl_opts *o,
		 struct tcpl_ev *ev);
void tcpl_ack_fast(struct tcpl_conn *c, uint64_t now, uint32_t ack, struct tcpl_ev *ev);
void tcpl_window_in(struct tcpl_conn *c, const struct tcpl_seg *s, struct tcpl_ev *ev);
void tcpl_rtt_sample(struct tcpl_conn *c, uint64_t rtt);

/* tcpl_recovery.c */
void tcpl_mark_lost(struct tcpl_conn *c, uint32_t idx);
/* flight: bytes in the network before the ACK or timer that showed the loss. */
void tcpl_enter_recovery(struct tcpl_conn *c, uint64_t now, uint32_t flight);
void tcpl_enter_loss(struct tcpl_conn *c, uint64_t now);
void tcpl_end_recovery(struct tcpl_conn *c);
void tcpl_undo(struct tcpl_conn *c);
/* A DSACK reports a duplicate: the last retransmission so reported undoes the reduction. */
void tcpl_undo_dsack(struct tcpl_conn *c, struct tcpl_block b);
/* An ACK in recovery that reports `delivered` bytes; safe: it moved SND.UNA and showed no further loss. */
void tcpl_prr(struct tcpl_conn *c, uint32_t delivered, bool safe);
/* What an ACK says to F-RTO. */
struct tcpl_frto_ack {
	bool advanced; /* SND.UNA moved */
	bool original; /* something sent before the timeout, and never again, has arrived */
	bool contrary; /* a duplicate, or new data were SACKed and old ones were not */
};
void tcpl_frto_in(struct tcpl_conn *c, struct tcpl_frto_ack a);

/* tcpl_rack.c */
void tcpl_rack_seen(struct tcpl_conn *c, uint64_t now, const struct tcpl_txrec *r, const struct tcpl_opts *o);
void tcpl_rack_detect(struct tcpl_conn *c, uint64_t now);

/* tcpl_track.c */
void tcpl_tracks_begin(struct tcpl_conn *c);
/* The longest possible round trip, ns; 0: there is only one path. */
uint64_t tcpl_slowest(const struct tcpl_conn *c);
/* There are several paths, and something is in flight by one of which nothing is known yet. */
bool tcpl_untold(const struct tcpl_conn *c);
/* The retransmission timer has gone off for the first record: the path that it left by is passed over from now on. */
void tcpl_blame(struct tcpl_conn *c, uint64_t now);
/* Only while a path is lame: a segment that left by `path` at time `sent` has arrived. */
void tcpl_arrived(struct tcpl_conn *c, uint32_t path, uint64_t sent);

/* tcpl_rate.c: only with F_MODEL, and tcpl_rate_sent with F_PACED too */
void tcpl_rate_start(struct tcpl_conn *c);
void tcpl_rate_sent(struct tcpl_conn *c, uint64_t now, uint32_t idx, uint32_t len);
void tcpl_rate_seen(struct tcpl_conn *c, uint64_t now, uint32_t idx, struct tcpl_newest *n);
void tcpl_rate_acked(struct tcpl_conn *c, uint64_t now, uint32_t flight, uint32_t lost, const struct tcpl_newest *n);
void tcpl_rate_idle(struct tcpl_conn *c);
/* After an ACK, only with F_PACED: the pace that goes with cwnd. */
void tcpl_pace_follow(struct tcpl_conn *c);
/* Bytes that may leave at once. */
uint32_t tcpl_pace_quantum(const struct tcpl_conn *c);
void tcpl_pace_set(struct tcpl_conn *c, uint64_t rate);
/* Whether a paced connection must wait for its next turn. */
static inline bool tcpl_pace_waits(struct tcpl_conn *c, uint64_t now)
{
	if (rn_likely(!(c->flags & F_PACE_WAIT)))
		return false;
	if (now < c->pace_at)
		return true;
	c->flags &= ~(uint32_t)F_PACE_WAIT;
	return false;
}

/* tcpl_mtu.c */
/* The retransmission timer went off; it had gone off c->tries times before. */
void tcpl_mtu_timeout(struct tcpl_conn *c);
/* SND.UNA has moved; only when anything of the path's MTU is open. */
void tcpl_mtu_progress(struct tcpl_conn *c);

/*
 * Bytes of the next new segment: the rest of a chunk that was begun, or whole chunks, up to a full segment. A chunk
 * that fits a segment is cut only when the peer's window leaves no other way: `usable` is at least half of the largest
 * window it ever had, or the window probe timer has run out (RFC 9293, 3.8.6.2.1). No chunk is begun with a part of it
 * while the owner forbids that.
 */
static inline uint32_t tcpl_plan(const struct tcpl_conn *c, uint32_t usable, bool override)
{
	uint32_t limit = rn_min_u32(c->mss, usable), len = 0, left;

	for (uint32_t i = c->q_sent; i != c->q_tail; i++) {
		left = tcpl_chunk(c, i)->len - (i == c->q_sent ? c->q_off : 0);
		if (left > limit - len) {
			if (len > 0 || (rn_unlikely(c->uncut) && c->q_off == 0))
				break;
			if (limit == c->mss || override || (usable > 0 && usable >= c->max_wnd / 2))
				len = limit;
			break;
		}
		len += left;
	}
	return len;
}

/* Bytes that the peer's window has room for beyond what has been sent. */
static inline uint32_t tcpl_usable(const struct tcpl_conn *c)
{
	uint32_t inflight = c->snd_nxt - c->snd_una;

	return c->snd_wnd > inflight ? c->snd_wnd - inflight : 0;
}

/* tcpl_timer.c */
void tcpl_rearm(struct tcpl_conn *c, uint64_t now);
void tcpl_rearm_idle(struct tcpl_conn *c, uint64_t now);

#endif
