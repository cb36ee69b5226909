/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets in a worker: TCP between a program's rings (ipc_stream.h) and a peer that may be anyone. Worker
 * thread.
 *
 *	program's bytes → tx ring → tcpl_send by position → one pass: copy and sum → frame
 *	frame → tcpl_in → rx ring, at the place that the sequence number says → program
 *
 * A position in the stream is its sequence number less that of the first byte; its place in the ring are the lower
 * bits. What comes ahead of a hole is put into its place at once: the ring has room for all that the window allows.
 */
#ifndef RNICD_STREAM_H
#define RNICD_STREAM_H

#include <rte_mbuf.h>

#include "base/rn_list.h"
#include "base/rn_wheel.h"
#include "border/cmd.h"
#include "conn/rc_tcp.h"
#include "iwarp/mpa_ring.h"
#include "plane/flow.h"
#include "plane/way.h"
#include "tcp_lite/tcpl.h"

#define STREAM_CHUNKS 64u
#define STREAM_RECS   512u
#define STREAM_HOLDS  64u

/* One writer: set_state in stream.c. */
enum stream_state {
	STREAM_FREE,  /* open, or a SYN to a listener */
	STREAM_WAITS, /* a listener's, half open or open: CMD_STREAM_ADOPT or _CLOSE. It takes no byte */
	STREAM_OWNED, /* has its memory; CMD_STREAM_CLOSE, or TCP's end */
	STREAM_LEFT,  /* the program has closed it: what is in the ring still goes out; TCP's end */
	STREAM_OVER,  /* TCP is done; it is freed when STREAM_CLOSED has been told */
};

/* Whether the CRCs of a program's FPDUs are summed here. Written by stream_fpdu.c. */
enum stream_sums {
	STREAM_SUMS_NOT, /* bytes; the program moves it on */
	STREAM_SUMS_ON,  /* moved on by the end of the direction, and by a bad CRC that was received */
	STREAM_SUMS_END, /* bytes again */
};

struct stream_listener;
struct stream_iwarp;
struct stream_iwarp_ctx;

struct stream {
	struct rc_tcp qc; /* qc.rc: of the wire iwarp */
	struct flow flow;
	enum stream_state state;
	uint32_t tell; /* STREAM_*: not told yet */
	uint64_t key;  /* the control thread's number of it */
	struct conn_addr addr;
	struct way way;
	struct rn_timer timer;
	struct rn_link ready, telling; /* of stream_ctx; a stream is on a list while its link is linked */
	struct rn_link half;           /* of its listener, until it is connected */
	struct rn_link time_wait;      /* of stream_ctx */
	struct stream_listener *listener;
	struct stream *next;    /* free list */
	struct ipc_stream *mem; /* NULL: none yet, or no more. Not trusted */
	struct stream_user *user;
	uint32_t bit;
	bool fin;         /* the program's end of the stream is in tcp */
	bool connected;   /* has been told so */
	bool unclaimed;   /* counted in n_unclaimed of its listener */
	uint32_t rx_seq0; /* sequence numbers of the first byte each way */
	uint32_t tx_seq0;
	uint32_t rx_tail, rx_head;  /* positions; rx_head is the program's, checked */
	uint32_t rx_shown;          /* what the program has been told of; rx_tail, or the end of the last whole FPDU */
	uint32_t tx_head, tx_put;   /* acknowledged; given to tcp */
	struct stream_iwarp *iwarp; /* NULL: its wire is plain, or not agreed on yet */
	struct rn_link touched;     /* of the worker's stream_iwarp_ctx */
	enum stream_sums tx_sums, rx_sums;
	struct mpa_ring tx_fpdus, rx_fpdus; /* with STREAM_SUMS_ON */
	struct tcpl_chunk chunk[STREAM_CHUNKS];
	struct tcpl_hold hold[STREAM_HOLDS];
	struct tcpl_txrec rec[STREAM_RECS];
	struct tcpl_track track[TCPL_PATHS - 1]; /* where the port has several paths */
};

struct stream_listener {
	struct flow flow; /* key: port (STREAM_ANY_PORT: all) and lport; in the table is the first of `same` */
	struct stream_listener *same; /* next one with this key: connections are balanced over those */
	uint64_t key;                 /* 0: not in use */
	uint8_t families;             /* STREAM_IP4, STREAM_IP6 */
	uint32_t backlog;
	uint32_t n_unclaimed; /* connections that no program has accepted yet: CMD_STREAM_ADOPT or _CLOSE */
	uint32_t n_half;
	struct rn_list half; /* oldest first */
};

struct stream_ctx {
	struct stream *at;
	uint32_t n, used; /* used: this many from the first on have been in use; pages behind them are untouched */
	struct stream *free;
	struct stream_user *users;
	struct rn_list ready, telling;
	struct rn_list time_wait; /* those in TIME_WAIT, oldest first */
	uint32_t time_waits;      /* length of that list */
	struct rn_wheel wheel;
	struct flow_table listens;
	struct stream_listener *listener;
	struct flow_slot *listen_slots;
	uint64_t passive; /* numbered so far */
	struct stream_iwarp_ctx *iwarp;
};

static inline uint8_t stream_family(const struct pkt_addr *ip) { return pkt_addr_is_ip4(ip) ? STREAM_IP4 : STREAM_IP6; }

/* What the streams of a port have in common; before the workers start. */
void stream_tcp_init(uint32_t port, const struct tcpl_cfg *of_port);
/* Worker's start and end (stream_memory.c). mtu: of its ports, the largest. False: no memory. */
bool stream_start(struct rnicd_worker *w, uint32_t flows, uint32_t mtu);
void stream_stop(struct rnicd_worker *w);

/* A segment for a stream's flow, checksum good. The frame stays the caller's. */
void stream_input(struct rnicd_worker *w, struct flow *f, struct rte_mbuf *m, const struct pkt *p);
/* A segment of no flow. True: it was for a stream listener, and is done with. */
bool stream_stranger(struct rnicd_worker *w, const struct pkt *p, uint32_t port);
void stream_too_big(struct rnicd_worker *w, struct flow *f, const struct pkt_too_big *b);

/* The stream's doorbell has been rung. */
void stream_ring(struct rnicd_worker *w, struct stream *s);
/* The steps of a turn; each returns how much there was to do. */
uint32_t stream_timers(struct rnicd_worker *w);
uint32_t stream_transmit(struct rnicd_worker *w);
void stream_events(struct rnicd_worker *w);

/* Around the worker's sleep. */
void stream_say_sleeping(struct rnicd_worker *w, uint32_t value);
bool stream_waits(const struct rnicd_worker *w);

void command_stream(struct rnicd_worker *w, struct cmd *c);

/* ---- between the stream's files ---- */

void stream_ready(struct rnicd_worker *w, struct stream *s);
void stream_tell(struct rnicd_worker *w, struct stream *s, uint32_t bits);
/* TCP is CLOSED, and what it had to say has been said: the program is told why, and the rest is freed in time. */
void stream_over(struct rnicd_worker *w, struct stream *s, int error);
/* Takes what TCP says of a call. m: the frame of a received segment, else NULL. */
void stream_take(struct rnicd_worker *w, struct stream *s, const struct tcpl_ev *ev, const struct rte_mbuf *m,
		 uint32_t payload_off);
/* The program's words are read: bytes to send, room to receive, its end. */
void stream_look(struct rnicd_worker *w, struct stream *s);
/* After TCP has acknowledged: room for the program. */
void stream_acked(struct rnicd_worker *w, struct stream *s);
/*
 * The end of what may leave of the bytes before tail, at most about 64 KiB from tx_put on where CRCs are summed. all:
 * an FPDU that is not whole leaves too. False: the program breaks the rules.
 */
bool stream_fpdus_out(struct stream *s, struct rnicd_port_stats *st, uint32_t tail, bool all, uint32_t *may);
/* Shows the program the bytes that have come: its memory is there. all: also of an FPDU that is not whole. */
void stream_show(struct stream *s, struct rnicd_port_stats *st, bool all);
/* Bytes that come next are put into the program's ring, which has room for them. */
void stream_put_in(struct stream *s, const uint8_t *p, uint32_t len);
/* Sets a bit of the state that the program sees. */
void stream_flag(const struct stream *s, uint32_t bit);
/* Nothing goes out any more, and why: an errno or 0. What has been said stays. */
void stream_ended(const struct stream *s, int error);
/* The peer has ended its direction. */
void stream_peer_fin(struct rnicd_worker *w, struct stream *s);
/* What a reset of the peer's is to the program: an errno. */
int stream_reset_error(const struct stream *s);
/* The connection ends at once. */
void stream_abort(struct rnicd_worker *w, struct stream *s);
/* Both directions are done: TIME_WAIT takes a place for a while. */
void stream_time_wait(struct rnicd_worker *w, struct stream *s);
/* Nobody reads what comes: it resets the connection. */
bool stream_unheard(const struct stream *s);
struct rnicd_port_stats *stream_stats(const struct rnicd_worker *w, const struct stream *s);
/* Answers those clients that have asked to be told. */
void stream_answer(struct rnicd_worker *w, struct stream *s);

#endif
