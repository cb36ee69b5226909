/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_lite: a TCP engine (RFC 9293) as a function of (state, segment, now). Segments go in, segments come out; there is
 * no callback and no allocation, and packet memory is not touched. The caller owns every byte: the engine knows bytes
 * to be sent as chunks, and bytes that arrived out of order as packets, both by a reference of the caller's.
 *
 * One turn of an owner:
 *	for each received segment	tcpl_in(); use ev.slice; while (tcpl_rx_next()) use it;
 *					while (tcpl_acked()) complete it
 *	produce				while (work && tcpl_budget() >= size && tcpl_send(...))
 *	when tcpl_next_wake() is due	tcpl_timer()
 *	at last, once			while (tcpl_out()) transmit
 * After any of tcpl_in, tcpl_timer, tcpl_send, tcpl_shutdown, tcpl_abort, tcpl_ack_now or tcpl_set_rcv_space the owner
 * calls tcpl_out until it returns false, then arms its timer with tcpl_next_wake.
 *
 * After RESET, TIMEOUT or CLOSED, and before the memory is used again, the owner drains tcpl_acked, tcpl_tx_drop,
 * tcpl_rx_next (slices that became contiguous before the end are still good) and tcpl_rx_drop: each reference that
 * went in comes out exactly once.
 *
 * Threads: a connection belongs to one thread; there is no lock and no global state. tcpl_cfg is read only and shared.
 * Time: nanoseconds of one monotonic clock, not 0. Lengths: bytes. Sequence numbers: host order, absolute (with ISN).
 */
#ifndef TCPL_H
#define TCPL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "tcp_lite/tcpl_mem.h"

/* Control bits of the TCP header (RFC 9293, 3.1). */
enum {
	TCPL_FIN = 0x01,
	TCPL_SYN = 0x02,
	TCPL_RST = 0x04,
	TCPL_PSH = 0x08,
	TCPL_ACK = 0x10,
	TCPL_URG = 0x20, /* the urgent pointer is ignored: urgent data stay in line (RFC 6093) */
	TCPL_ECE = 0x40,
	TCPL_CWR = 0x80,
};

#define TCPL_OPT_MAX 40u /* bytes of options in one header */

/*
 * RFC 9293, 3.3.2. LISTEN has no connection: it is the caller's table plus tcpl_accept_syn. One writer: tcpl_set_state.
 */
enum tcpl_state {
	TCPL_S_CLOSED,      /* before connect/accept and after the end: waits for the owner */
	TCPL_S_SYN_SENT,    /* waits for SYN-ACK (or SYN: simultaneous open); the SYN timer or the peer moves it on */
	TCPL_S_SYN_RCVD,    /* waits for the ACK of our SYN */
	TCPL_S_ESTABLISHED, /* data both ways; tcpl_shutdown or the peer's FIN moves it on */
	TCPL_S_FIN_WAIT_1,  /* FIN asked for or sent, waits for its ACK or the peer's FIN */
	TCPL_S_FIN_WAIT_2,  /* our FIN is acknowledged, waits for the peer's FIN; cfg.fin_wait_ns may limit that */
	TCPL_S_CLOSE_WAIT,  /* the peer's FIN has come, waits for tcpl_shutdown */
	TCPL_S_CLOSING,     /* both FINs crossed, waits for the ACK of ours */
	TCPL_S_LAST_ACK,    /* as CLOSING, but the peer closed first: its ACK ends the connection */
	TCPL_S_TIME_WAIT,   /* waits for cfg.time_wait_ns to pass */
	TCPL_S_COUNT,
};

/* What became of a segment. Everything but OK was not used (and counted); only OK can give DATA or HELD. */
enum tcpl_verdict {
	TCPL_OK,
	TCPL_DROP_OPTION, /* malformed options: length 0, truncated (RFC 9293, 3.1) */
	TCPL_DROP_STATE,  /* not acceptable in this state, e.g. CLOSED, or no ACK bit after the handshake */
	TCPL_DROP_ACK,    /* acknowledges what was never sent, or too old (RFC 5961, 5) */
	TCPL_DROP_WINDOW, /* no part inside the receive window */
	TCPL_DROP_PAWS,   /* timestamp too old, or missing (RFC 7323, 5.3 and 3.2) */
	TCPL_DROP_SYN,    /* SYN on a synchronised connection: challenged (RFC 5961, 4) */
	TCPL_DROP_RST,    /* RST that was not exactly at RCV.NXT: challenged when in the window (RFC 5961, 3) */
	TCPL_DROP_FULL,   /* no place in the table of held segments */
	TCPL_DROP_AHEAD,  /* came ahead of a hole, and cfg.ahead is TCPL_AHEAD_DROP */
	TCPL_DROP_COOKIE, /* ACK whose SYN cookie is not one of ours */
	TCPL_NEW_SYN, /* TIME_WAIT and a SYN that may start anew (RFC 6191): CLOSED now; the SYN is the listener's */
	TCPL_VERDICT_COUNT,
};

/* ev.bits; set whatever the verdict is (the ACK of a segment may count although its payload found no room) */
enum {
	TCPL_EV_CONNECTED = 1u << 0, /* ESTABLISHED is reached; tcpl_emss is final now */
	TCPL_EV_ACKED = 1u << 1,     /* tcpl_acked may have something */
	TCPL_EV_DATA = 1u << 2,      /* ev.slice is set, tcpl_rx_next may have more */
	TCPL_EV_PEER_FIN = 1u << 3,  /* the peer will send no more; comes with or after the last slice */
	TCPL_EV_RESET = 1u << 4,     /* the peer reset (or refused) the connection; state is CLOSED */
	TCPL_EV_TIMEOUT = 1u << 5,   /* the peer does not answer (retransmissions, probes, keepalive used up); CLOSED */
	TCPL_EV_CLOSED = 1u << 6,    /* orderly end: both directions closed and TIME_WAIT over */
	TCPL_EV_SPACE = 1u << 7,     /* tcpl_budget may have grown */
};

/* Bytes of the stream in a packet. ref 0: a range whose bytes were placed already (tcpl_ooo_placed). */
struct tcpl_slice {
	uint64_t ref; /* as given in tcpl_seg */
	uint32_t off; /* from the first payload byte of that packet */
	uint32_t len;
	uint32_t seq; /* of the first byte */
};

struct tcpl_ev {
	uint32_t bits;
	/*
	 * true: the packet's ref is kept, do not free it; it comes back from tcpl_rx_next, tcpl_ooo_placed or
	 * tcpl_rx_drop. false: it is the caller's again as soon as ev.slice has been used.
	 */
	bool held;
	struct tcpl_slice slice; /* in order, valid with TCPL_EV_DATA; never empty then */
	struct tcpl_slice ooo;   /* out of order, valid with held: the part of this packet that is held */
};

/* A received segment, checksum verified by the caller. Pointers are only used during the call. */
struct tcpl_seg {
	uint32_t seq;
	uint32_t ack;
	uint32_t len; /* payload bytes */
	uint16_t wnd; /* as in the header, unscaled */
	uint8_t flags;
	uint8_t optlen;     /* ≤ 40 */
	const uint8_t *opt; /* may be NULL when optlen is 0 */
	uint64_t ref;       /* the caller's packet handle, not 0 when len > 0 */
	bool bare;          /* tcpl_strip() */
};

/* A segment to be transmitted now. */
struct tcpl_out {
	uint32_t seq;
	uint32_t ack;
	uint32_t len;   /* payload: starts at byte `off` of chunk `chunk` and runs on through the following ones */
	uint32_t chunk; /* index for tcpl_chunk; + 1 is the next (free running) */
	uint32_t off;
	uint16_t wnd; /* scaled already: goes into the header as it is */
	uint8_t flags;
	uint8_t optlen; /* multiple of 4 */
	bool rexmit;    /* the bytes were sent before */
	uint8_t opt[TCPL_OPT_MAX];
};

/*
 * What the engine may know of its owner's turns; written by the owner, read by all of its connections. A deadline that
 * passes while the owner does not run says nothing of the peer: the peer's answer may wait in a queue.
 */
struct tcpl_turns {
	uint64_t lost; /* ns in which the owner did not run although it wanted to; grows */
	bool behind;   /* segments wait that the owner has not looked at; never for long */
};

struct tcpl_conn;

/* What an ACK tells of the path (draft-cheng-iccrg-delivery-rate-estimation). */
struct tcpl_rate {
	uint64_t rate;   /* bytes/s; 0: unknown */
	uint64_t rtt;    /* ns, of the segment sent last among those that arrived; RN_NEVER: it was sent twice */
	uint32_t bytes;  /* newly delivered */
	uint32_t lost;   /* newly found lost */
	uint32_t flight; /* bytes in the network before the ACK */
	uint32_t prior;  /* bytes delivered when that segment left */
	bool any;        /* there is such a segment: rtt and prior are valid */
	bool limited;    /* the rate is the owner's, not the path's */
};

/* Congestion control. All run in the owner's thread; they write c->cwnd, c->pace_cost and their own fields only. */
struct tcpl_cc {
	const char *name;
	void (*init)(struct tcpl_conn *c);
	void (*acked)(struct tcpl_conn *c, uint64_t now, uint32_t bytes); /* only while cwnd is in use */
	uint32_t (*ssthresh)(struct tcpl_conn *c, uint64_t now);          /* a loss: the new slow start threshold */
	void (*undo)(struct tcpl_conn *c); /* the loss was spurious: fields are as before ssthresh(). May be NULL */
	/* With a model of the path: called in place of `acked` for each ACK with news, in recovery too. Else NULL. */
	void (*measured)(struct tcpl_conn *c, uint64_t now, const struct tcpl_rate *r);
};
extern const struct tcpl_cc tcpl_newreno; /* RFC 5681, 6582 */
extern const struct tcpl_cc tcpl_cubic;   /* RFC 9438 */
extern const struct tcpl_cc tcpl_bbr;     /* draft-cardwell-iccrg-bbr-congestion-control-00 */

/* What becomes of a segment that arrives ahead of a hole. */
enum tcpl_ahead {
	TCPL_AHEAD_PLACE, /* it is held; its owner may place its bytes at once */
	TCPL_AHEAD_HOLD,  /* it is held; its owner uses its bytes in their turn. The engine does as with PLACE */
	/*
	 * The segment is dropped and answered by an ACK of its own, so that the peer sends it again. With use_sack the
	 * ACK has no block, so peers that find losses by SACK alone wait for a timeout.
	 */
	TCPL_AHEAD_DROP,
};

/*
 * Shared by the connections of a device; constant while any of them uses it. tcpl_cfg_default fills in the LAN values.
 */
struct tcpl_cfg {
	uint16_t mss;   /* largest payload + options we take: MTU - 40 (IPv4) or - 60 (IPv6) */
	uint8_t wscale; /* 0..14: our window scale */
	bool use_wscale;
	bool use_sack;
	bool use_ts;
	bool ack_psh;          /* ACK a PSH segment at once: its sender's completion waits for it. Default true */
	uint8_t init_cwnd;     /* segments (RFC 6928: 10) */
	uint8_t syn_retries;   /* SYN and SYN-ACK retransmissions. 6 */
	uint8_t retries;       /* retransmissions of one segment, and unanswered window probes, before TIMEOUT. 12 */
	uint8_t keep_probes;   /* unanswered keepalive probes before TIMEOUT. 5 */
	uint8_t challenge_max; /* RFC 5961, 7: challenge ACKs per connection and second. 10 */
	uint32_t rcv_space;    /* receive window at the start, bytes; ≤ 65535 << wscale */
	uint32_t cwnd_max;     /* bytes; bounds cwnd */
	uint64_t init_rto_ns;  /* RFC 6298 says 1 s; LAN default 200 ms */
	/*
	 * RFC 6298 says 1 s; LAN default 5 ms, added to SRTT. Less than a peer's delayed ACK makes spurious timeouts
	 * (undone, but not free): towards Linux, which may wait 40 ms, a sparse sender wants 50 ms.
	 */
	uint64_t min_rto_ns;
	uint64_t max_rto_ns;     /* also bounds the window probe interval. 60 s */
	uint64_t delack_ns;      /* an ACK waits no longer than this (RFC 9293: < 500 ms). LAN default 500 us */
	uint64_t peer_delack_ns; /* the peer's delayed ACK, for tail loss probes (RFC 8985, 7.2). LAN default 2 ms */
	uint64_t keep_idle_ns;   /* silence before the first keepalive probe; 0: no keepalive (default) */
	uint64_t keep_intvl_ns;  /* between probes. 1 s */
	uint64_t time_wait_ns;   /* 2 MSL; RFC 9293 says 4 min, LAN default 1 s */
	uint64_t fin_wait_ns;    /* FIN_WAIT_2 in silence; with left_ns, after tcpl_leave. 0: for ever. 60 s */
	uint64_t left_ns;        /* after tcpl_leave without progress. 0: tcpl_leave is never called (default) */
	uint32_t exid;           /* of an experiment (RFC 6994) that both ends may take part in; 0: none (default) */
	/*
	 * Segments may go by several paths, for which tcpl_mem has tracks. Without timestamps then: PAWS (RFC 7323,
	 * 5.3) would drop a segment of a slower path once a segment that was sent later has closed a hole. Default
	 * false.
	 */
	bool tracks;
	bool pace;     /* spread cwnd over the round trip. Default false; a cc with a model paces anyway */
	uint8_t ahead; /* enum tcpl_ahead. Default PLACE */
	const struct tcpl_cc *cc;
};

/* Events of one connection since its start; they wrap. */
struct tcpl_stats {
	uint32_t segs_in, segs_out;    /* all segments */
	uint64_t bytes_in, bytes_out;  /* payload: delivered in order; sent for the first time */
	uint32_t fast_in;              /* segments that took the predicted path */
	uint32_t cuts;                 /* ACKs and SACK edges that lie inside a segment: a box on the way had cut it */
	uint32_t rexmits;              /* segments sent again, for whatever reason */
	uint32_t recoveries;           /* fast recoveries entered */
	uint32_t rtos, tlps;           /* retransmission timeouts, tail loss probes */
	uint32_t spurious;             /* retransmissions found needless: cwnd was restored (RFC 4015) */
	uint32_t dup_acks, sacks_in;   /* duplicate ACKs; ACKs with SACK blocks */
	uint32_t idle_acks;            /* bare ACKs that said nothing new and repeated nothing of use */
	uint32_t lost_rexmits;         /* retransmissions found lost without a timeout (RFC 8985) */
	uint32_t ooo, ooo_drops, dups; /* segments held; not held, for want of room or by cfg.ahead; received again */
	uint32_t challenges;           /* challenge ACKs sent */
	uint32_t win_probes, keep_probes;
	uint32_t drops[TCPL_VERDICT_COUNT];
};

struct tcpl_block {
	uint32_t seq, end;
};

/* Deliveries of a connection whose congestion control models the path. Private to tcpl_rate.c. */
struct tcpl_delivery {
	uint64_t at;         /* ns: time of the last delivery */
	uint64_t began;      /* ns: when the segment left that was delivered last; at first: when the flight began */
	uint32_t bytes;      /* delivered so far, SACKed bytes included; wraps */
	uint32_t lost;       /* bytes found lost so far; wraps */
	uint32_t limited_to; /* rates are the owner's, not the path's, until `bytes` is above this */
	bool limited;        /* limited_to is valid */
	bool restart;        /* nothing was in flight when the owner came with more */
};

/* Private to tcpl_cubic.c. */
struct tcpl_cubic_curve {
	/* ns: start of this congestion avoidance, later by the time in which cwnd was not used; 0: none */
	uint64_t epoch;
	uint32_t w_max;          /* bytes: window at the last reduction */
	uint32_t k;              /* ms from epoch until the cubic is back at origin */
	uint32_t origin;         /* bytes */
	uint32_t est, est_acked; /* bytes: Reno's window; bytes acknowledged since that window last grew */
};

struct tcpl_cubic_model {
	struct tcpl_cubic_curve now, before; /* before: as at the last reduction, in case there was no loss */
	uint64_t used_at;                    /* ns: when a cwnd in use was last acknowledged */
	uint64_t round_rtt,
		last_rtt;  /* ns: HyStart++, least RTT of this and of the previous round; RN_NEVER: unknown */
	uint64_t base_rtt; /* ns: HyStart++, when conservative slow start began; 0: it has not */
	uint32_t acked;    /* bytes since the cubic was last looked up */
	uint32_t round;    /* value of tcpl_conn.rounds */
	uint8_t samples, css_rounds;
};

/* Private to tcpl_bbr.c. */
struct tcpl_bbr_model {
	uint64_t bw[2];      /* bytes/s: the most in the present and in the previous window of round trips */
	uint64_t full_bw;    /* STARTUP: to be exceeded by a quarter */
	uint64_t min_rtt;    /* ns; RN_NEVER: not yet known */
	uint64_t min_rtt_at; /* ns: when that was measured */
	uint64_t phase_at;   /* ns: PROBE_BW, start of the phase */
	uint64_t drained_at; /* ns: PROBE_RTT, when the flight was small; 0: not yet */
	uint32_t round_end;  /* delivered bytes: a round trip ends when a segment that left after these has arrived */
	uint32_t rounds, bw_round;
	uint32_t prior_cwnd; /* before recovery or PROBE_RTT */
	uint8_t state;       /* enum bbr_state */
	uint8_t phase;       /* PROBE_BW: index into the gains */
	uint8_t full_n;      /* STARTUP: rounds without growth */
	bool conserve;       /* first round of a recovery: only as many bytes leave as are delivered */
	bool recovering;
	bool probe_round; /* PROBE_RTT: a round trip with a small flight is over */
};

/* Caller-supplied memory; read through the functions below (and cc), written by the engine only. */
struct tcpl_conn {
	/* Line 1: both directions, every segment. */
	uint8_t state;    /* enum tcpl_state */
	uint8_t recovery; /* enum tcpl_recovery (private) */
	uint8_t snd_wscale, rcv_wscale;
	uint16_t mss;     /* effective: payload bytes of a full segment */
	uint8_t rtx_mode; /* enum tcpl_rtx (private): what t_rtx stands for */
	uint8_t probes;   /* window or keepalive probes since the peer was last heard */
	uint32_t flags;   /* private: negotiated options and pending work */
	uint32_t snd_una, snd_nxt;
	uint32_t snd_wnd;        /* bytes from snd_una */
	uint32_t snd_wl1;        /* sequence number of the segment that last set snd_wnd */
	uint32_t cwnd, ssthresh; /* bytes */
	uint32_t pipe;           /* bytes in the network (RFC 6675) */
	uint32_t rcv_nxt;
	uint32_t rcv_adv;   /* right edge of the window as announced: never moves left */
	uint32_t rcv_acked; /* last ACK number sent */
	uint32_t rcv_space;
	uint32_t ts_recent;
	uint32_t q_head; /* chunk indices, free running: oldest kept, first with unsent bytes, end */
	/* Line 2: queues and timers. */
	uint32_t q_sent, q_tail;
	uint32_t q_off;                   /* bytes of chunk q_sent that have been sent */
	uint32_t q_end;                   /* sequence number after the last queued byte */
	uint32_t r_head, r_tail;          /* txrec indices, free running */
	uint32_t n_lost, n_sacked;        /* records so marked */
	uint32_t h_head, h_ready, h_tail; /* hold[head, ready) is in order and not yet taken; [ready, tail) waits */
	uint32_t owed;                    /* ACKs for segments that were dropped: one for each */
	uint64_t t_rtx, t_ack;            /* deadlines, RN_NEVER: off */
	/* Line 3: the rest of every segment; mem begins with what segments in order need. */
	uint64_t t_idle; /* deadline: keepalive, FIN_WAIT_2, TIME_WAIT; RN_NEVER: off */
	uint64_t last_in;
	const struct tcpl_cfg *cfg;
	const struct tcpl_turns *turns; /* NULL: nothing is known */
	struct tcpl_mem mem;
	/* Lines 4 to 6: every acknowledgement of new data. */
	uint64_t rto_base;  /* when the retransmission timer was last restarted (RFC 6298, 5) */
	uint64_t tlp_base;  /* last new data sent or acknowledged */
	uint64_t asked_at;  /* while tries or probes are not 0: since when the peer's answer is awaited */
	uint64_t lost_seen; /* turns->lost, as far as rto_base, tlp_base and asked_at allow for it */
	uint64_t reo_at;    /* when RACK wants to look again; 0: not */
	uint64_t srtt, rttvar, rto, min_rtt;
	uint64_t rtt;            /* the last sample */
	struct tcpl_track track; /* of the first path; those of the others: mem.track */
	uint32_t r_lost;         /* txrec index: none before it is marked lost */
	uint32_t round_end;      /* a round trip ends when this is acknowledged */
	uint32_t rounds;         /* round trips that have ended; wraps */
	uint32_t flight_max;     /* most bytes in flight until flight_end is acknowledged */
	uint32_t flight_end;
	uint32_t dup_acks;
	uint32_t prr_out;   /* RFC 9937: bytes sent since recovery began */
	uint16_t mss_full;  /* mss as negotiated */
	uint16_t mss_hint;  /* said by ICMP, not believed yet; 0: none */
	uint16_t mss_low;   /* TCPL_MTU_AGAIN: the size that was answered */
	uint16_t mss_acked; /* payload of the largest segment acknowledged that was sent once */
	uint8_t mtu;        /* enum tcpl_mtu (private) */
	uint8_t challenges;
	uint8_t backoff; /* exponent of the timer */
	uint8_t tries;   /* timeouts since the peer last made progress, or answered with a window too small */
	uint8_t frto;    /* enum tcpl_frto (private) */
	uint8_t reo_mult, reo_persist;
	uint8_t path;               /* by which segments leave */
	uint8_t lame, proved, left; /* paths, a bit each: tcpl_track.c */
	bool uncut;                 /* tcpl_set_uncut() */
	/* Line 7: options and counters. */
	uint32_t max_wnd;  /* largest window the peer ever announced */
	uint32_t n_blocks; /* SACK blocks to be sent */
	uint32_t ts_recent_age, ts_offset;
	struct tcpl_block dsack; /* RFC 2883, one shot; empty when seq == end */
	uint32_t fin_seq;        /* of the peer's FIN when it has been seen */
	uint32_t iss;
	struct tcpl_stats stats;
	/* What loss, probes, ends and full windows need. */
	uint64_t patience;   /* ns without an answer after which the peer is given up; 0: cfg->retries alone decides */
	uint64_t lame_until; /* ns: the paths of `lame` are passed over until then */
	uint32_t
		reo_round; /* RFC 8985, 6.2: one DSACK step per round trip; with F_REO_ROUND until it is acknowledged */
	uint32_t recover;  /* recovery ends when this is acknowledged; in TCPL_R_OPEN only with F_RECOVER */
	uint32_t piece;    /* with F_PIECE: the lost record that this lies in has been sent again up to here */
	uint32_t mtu_end;  /* TCPL_MTU_AGAIN: full segments pass when this is acknowledged; with F_MTU_END */
	uint32_t undo_cwnd, undo_ssthresh, undo_ts;
	uint32_t undo_una;      /* SND.UNA when the loss was found: no DSACK below speaks of its retransmissions */
	uint32_t undo_end;      /* after recovery: a DSACK that comes behind the ACK of this is too late */
	uint32_t undo_rexmits;  /* retransmissions of recovery, and a probe before, that no DSACK reported */
	uint32_t prr_flight;    /* RFC 9937: bytes in flight when recovery began */
	uint32_t prr_delivered; /* bytes delivered since then */
	uint32_t tlp_end;
	uint32_t irs;
	uint32_t rst_seq;
	uint32_t challenge_epoch;
	struct tcpl_block block[4]; /* SACK blocks to be sent, most recent first */
	uint64_t pace_at;           /* ns: when the bytes sent are paid for; with F_PACE_WAIT nothing leaves before */
	uint64_t pace_cost;         /* ns a byte, << TCPL_PACE_SHIFT; 0: no pace */
	uint64_t pace_burst;        /* ns: how far pace_at may lie ahead of the clock while segments leave */
	struct tcpl_delivery dlv;
	union {                      /* private to cfg->cc */
		uint64_t reno_acked; /* NewReno */
		struct tcpl_cubic_model cubic;
		struct tcpl_bbr_model bbr;
	};
};

/* Fills in the LAN defaults for a port whose IP payload after the TCP header is `mss` bytes. */
void tcpl_cfg_default(struct tcpl_cfg *cfg, uint16_t mss);

/* ---- birth ---- */

/* Puts c into CLOSED. cfg and the arrays of mem stay the caller's and must outlive the connection. */
void tcpl_init(struct tcpl_conn *c, const struct tcpl_cfg *cfg, const struct tcpl_mem *mem);

/* Before the connection begins: t stays the caller's and must outlive it. */
static inline void tcpl_set_turns(struct tcpl_conn *c, const struct tcpl_turns *t)
{
	c->turns = t;
	c->lost_seen = t->lost;
}

/*
 * The user timeout (RFC 9293, 3.9.1): bytes that the peer has not acknowledged, or a window probe that it has not
 * answered, end the connection with TIMEOUT after ns; 0: cfg->retries alone decides. Any time.
 */
static inline void tcpl_set_patience(struct tcpl_conn *c, uint64_t ns) { c->patience = ns; }

/*
 * Gives other memory to a connection that holds nothing in its present memory; false, and nothing done, when a chunk is
 * queued, a segment unacknowledged or a segment held. While all of mem is 0 nothing can be sent and nothing held.
 */
bool tcpl_set_mem(struct tcpl_conn *c, const struct tcpl_mem *mem);

/* Active open: the SYN comes out of tcpl_out. iss from tcpl_isn (RFC 6528). */
void tcpl_connect(struct tcpl_conn *c, uint64_t now, uint32_t iss);

/*
 * Passive open: s is a SYN that met a listener. OK: SYN_RCVD, the SYN-ACK comes out of tcpl_out. Else c stays CLOSED.
 * A listener bounds its half-open connections and answers the rest with cookies.
 */
enum tcpl_verdict tcpl_accept_syn(struct tcpl_conn *c, uint64_t now, uint32_t iss, const struct tcpl_seg *s);

/* RFC 6528: ISN of a connection. key: 128 secret random bits; tuple: both addresses and ports as bytes. */
uint32_t tcpl_isn(const uint64_t key[2], const void *tuple, uint32_t len, uint64_t now);

/*
 * SYN cookies (RFC 4987, 3.6): answer a SYN without memory. make: o becomes the SYN-ACK; false: malformed SYN.
 * accept: s is an ACK that met a listener and no connection; OK: c is ESTABLISHED (its first data, if any, is then
 * given to tcpl_in with the same segment); DROP_COOKIE: not ours, answer with tcpl_rst_for. A cookie lives 68 to 137 s.
 * good: whether accept would find a cookie of ours, before there is a connection.
 */
struct tcpl_tuple {
	const uint64_t *key; /* two words, secret */
	const void *bytes;   /* both addresses and ports */
	uint32_t len;
};
bool tcpl_cookie_make(const struct tcpl_cfg *cfg, const struct tcpl_tuple *of, uint64_t now, const struct tcpl_seg *s,
		      struct tcpl_out *o) __attribute__((nonnull));
bool tcpl_cookie_good(const struct tcpl_tuple *of, uint64_t now, const struct tcpl_seg *s) __attribute__((nonnull));
enum tcpl_verdict tcpl_cookie_accept(struct tcpl_conn *c, const struct tcpl_tuple *of, uint64_t now,
				     const struct tcpl_seg *s);

/* The reset that answers a segment of no connection (RFC 9293, 3.10.7.1). False when s is a reset itself. */
bool tcpl_rst_for(const struct tcpl_seg *s, struct tcpl_out *o);

/* ---- in ---- */

enum tcpl_verdict tcpl_in(struct tcpl_conn *c, uint64_t now, const struct tcpl_seg *s, struct tcpl_ev *ev);

/* Held slices that have become contiguous, in order, each once. The ref is the caller's to free after use. */
bool tcpl_rx_next(struct tcpl_conn *c, struct tcpl_slice *out);

/*
 * The owner has put the bytes of the held slice that starts at seq (ev.ooo) where they belong: *ref is the caller's
 * again, the range stays and is later delivered as a slice with ref 0 (neighbouring placed ranges merge into one).
 * False when there is no such slice any more.
 */
bool tcpl_ooo_placed(struct tcpl_conn *c, uint32_t seq, uint64_t *ref);

/* After the end: held refs that will never be delivered. */
bool tcpl_rx_drop(struct tcpl_conn *c, uint64_t *ref);

/*
 * Bytes beyond RCV.NXT that the owner can take from now on. The value holds until the next call: an owner that consumes
 * slices at once sets it once; an owner that buffers sets its free space before each tcpl_out. The announced edge never
 * moves left.
 */
void tcpl_set_rcv_space(struct tcpl_conn *c, uint32_t bytes);

/* The next tcpl_out acknowledges everything received: the owner knows that the peer waits. */
void tcpl_ack_now(struct tcpl_conn *c);

/*
 * ICMP says that a segment of ours, which began at seq, was too large for the path, and that `mss` bytes of payload and
 * options would not be (RFC 1191, RFC 8201). The report is believed only if that segment is in flight and larger than
 * `mss` (RFC 5927, 7.2): at once while no larger segment has ever been acknowledged, else when the retransmission timer
 * goes off for a larger one. True: segments are to be sent again.
 */
bool tcpl_too_big(struct tcpl_conn *c, uint64_t now, uint32_t seq, uint32_t mss);

/*
 * Payload and options of the largest segment that the path takes, once it is known to take less than our MSS; else 0.
 */
uint32_t tcpl_path_mss(const struct tcpl_conn *c);

/* ---- out ---- */

/*
 * Queues a chunk of len ≥ 1 bytes; false when the ring is full, after tcpl_shutdown or when closed. May be called
 * before CONNECTED. A chunk that fits one segment is never split as long as the peer's window allows it.
 */
bool tcpl_send(struct tcpl_conn *c, uint32_t len, uint64_t ref);

/*
 * Bytes that could be queued and would leave now: min(cwnd, peer's window) less what is in flight or waits already.
 * At least one full segment when nothing is in flight and the peer's window has room. 0 when not connected, and while a
 * paced connection waits for its next turn, which tcpl_next_wake names.
 */
uint32_t tcpl_budget(const struct tcpl_conn *c);

/*
 * Payload bytes of a full segment: MSS less the options of each data segment. Once connected it changes only when the
 * path turns out to take less: chunks that fitted are cut then.
 */
static inline uint32_t tcpl_emss(const struct tcpl_conn *c) { return c->mss; }

/*
 * on: chunks are sent whole or not at all, until it is off again: one that must be cut waits as for a window. A chunk
 * that was begun before may be cut further.
 */
static inline void tcpl_set_uncut(struct tcpl_conn *c, bool on) { c->uncut = on; }

/* Chunks that tcpl_send would take. */
static inline uint32_t tcpl_room(const struct tcpl_conn *c) { return c->mem.chunk_n - (c->q_tail - c->q_head); }

static inline const struct tcpl_chunk *tcpl_chunk(const struct tcpl_conn *c, uint32_t idx)
{
	return &c->mem.chunk[idx & (c->mem.chunk_n - 1)];
}

/* Whether tcpl_out has nothing to do: all is sent and acknowledged, and nothing is owed to the peer. */
bool tcpl_settled(const struct tcpl_conn *c);

/* The next segment to transmit at `now`; false when there is none. What came out counts as sent. */
bool tcpl_out(struct tcpl_conn *c, uint64_t now, struct tcpl_out *o);

/* The oldest chunk whose every byte is acknowledged; it leaves the queue. */
bool tcpl_acked(struct tcpl_conn *c, uint64_t *ref);

/* After the end: chunks that were never (completely) acknowledged. */
bool tcpl_tx_drop(struct tcpl_conn *c, uint64_t *ref);

/* FIN after what is queued; the other direction stays open (half-close). Idempotent. */
void tcpl_shutdown(struct tcpl_conn *c, uint64_t now);

/*
 * Only with cfg->left_ns, once: no one reads received bytes any more. What is queued still goes out, and the peer's FIN
 * is waited for; without progress both end with TIMEOUT, even if the peer answers window probes (RFC 6429).
 */
void tcpl_leave(struct tcpl_conn *c, uint64_t now);

/* CLOSED at once; the RST, if the state asks for one, comes out of tcpl_out. No event follows. Idempotent. */
void tcpl_abort(struct tcpl_conn *c);

/* ---- time ---- */

/* When tcpl_timer wants to be called; RN_NEVER: not before something happens. */
static inline uint64_t tcpl_next_wake(const struct tcpl_conn *c)
{
	return rn_min_u64(c->t_rtx, rn_min_u64(c->t_ack, c->t_idle));
}

/* Harmless when nothing is due. ev->bits may be TIMEOUT or CLOSED. */
void tcpl_timer(struct tcpl_conn *c, uint64_t now, struct tcpl_ev *ev);

/* ---- telemetry ---- */

const char *tcpl_state_name(enum tcpl_state s);
const char *tcpl_verdict_name(enum tcpl_verdict v);

static inline enum tcpl_state tcpl_get_state(const struct tcpl_conn *c) { return (enum tcpl_state)c->state; }

/* Everything queued has been sent and acknowledged. */
static inline bool tcpl_idle(const struct tcpl_conn *c) { return c->q_head == c->q_tail; }

struct tcpl_info {
	enum tcpl_state state;
	uint32_t mss, cwnd, ssthresh, pipe, snd_wnd, rcv_wnd;
	uint32_t queued;              /* bytes not yet sent */
	uint32_t chunks, chunks_most; /* queued or unacknowledged, and the room for them; 0 at rest */
	uint64_t srtt_ns, rttvar_ns, rto_ns, min_rtt_ns;
	uint64_t pace;         /* bytes/s; 0: not paced */
	uint64_t keep_idle_ns; /* tcpl_cfg.keep_idle_ns */
	uint8_t snd_wscale, rcv_wscale;
	bool sack, ts, wscale, in_recovery;
	const char *cc;
};
void tcpl_get_info(const struct tcpl_conn *c, struct tcpl_info *info);

#endif
