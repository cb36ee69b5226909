/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets in a worker: TCP between a program's rings (ipc_stream.h) and any TCP peer. Worker thread.
 *
 *	program's bytes → tx ring → tcpl_send by position → one pass: copy and sum → frame
 *	frame → tcpl_in → rx ring, at the place that the sequence number says → program
 *
 * A position in the stream is a sequence number minus the sequence number of the first byte; the lower bits of the
 * position are the place in the ring. Bytes received ahead of a hole are copied to their place at once: the ring has
 * room for the whole window. With out-of-order = buffer their frame is kept instead, until the hole is filled.
 */
#ifndef RNICD_STREAM_H
#define RNICD_STREAM_H

#include <rte_mbuf.h>

#include "base/rn_list.h"
#include "base/rn_wheel.h"
#include "border/cmd.h"
#include "conn/rc_tcp.h"
#include "iwarp/mpa_ring.h"
#include "iws/iws.h"
#include "plane/flow.h"
#include "plane/way.h"
#include "tcp_lite/tcpl.h"

#define STREAM_CHUNKS 64u
#define STREAM_RECS   512u
#define STREAM_HOLDS  64u

/* One writer: set_state in stream.c. */
enum stream_state {
	STREAM_FREE,  /* no stream. Left by CMD_STREAM_OPEN, or by a SYN to a listener */
	STREAM_WAITS, /* a listener's, half open or open; receives no bytes yet. Left by CMD_STREAM_ADOPT or _CLOSE */
	STREAM_OWNED, /* has the program's memory. Left by CMD_STREAM_CLOSE, or when TCP ends */
	STREAM_LEFT,  /* the program has closed the socket; bytes in the ring still go out. Left when TCP ends */
	/* TCP has ended. Freed behind the turn's bursts, when the control thread has been told STREAM_CLOSED */
	STREAM_OVER,
};

/* Whether this worker computes (sent) or checks (received) the CRCs of a program's FPDUs. Written by stream_fpdu.c. */
enum stream_sums {
	STREAM_SUMS_NOT, /* plain bytes; left when the program says where its FPDUs begin */
	STREAM_SUMS_ON,  /* left at the end of the direction, or at a received FPDU with a bad CRC */
	STREAM_SUMS_END, /* plain bytes again */
};

struct stream_listener;
struct stream_iwarp_ctx;

struct stream {
	struct rc_tcp qc; /* qc.rc is used by the wire iwarp only */
	struct flow flow;
	enum stream_state state;
	uint32_t tell; /* STREAM_* events that the control thread has not been told of yet */
	uint64_t key;  /* the control thread's number of the stream */
	struct conn_addr addr;
	struct way way;
	struct rn_timer timer;
	/* links of lists in stream_ctx; a stream is on a list while its link is linked */
	struct rn_link ready, telling;
	uint8_t ready_as;                 /* while on a list `ready`: the number of that list */
	uint8_t held_as;                  /* while n_held is not 0: the number in whose share these frames count */
	uint16_t n_held;                  /* frames that TCP keeps until a hole is filled */
	struct rn_link half;              /* of its listener's list half, then of the list arrived */
	struct rn_link half_any;          /* of the list in stream_ctx, until the stream is connected */
	struct rn_link time_wait;         /* of the list in stream_ctx */
	struct stream_listener *listener; /* not NULL: the stream is on a list of this listener */
	struct stream *next;              /* free list */
	struct ipc_stream *mem;           /* the program's memory, not trusted. NULL: none yet, or none any more */
	struct stream_user *user;
	uint32_t bit;     /* the socket's bit in its user's doorbell */
	bool fin;         /* the end of the program's bytes has been handed to TCP */
	bool connected;   /* TCP is connected, and a listener's stream of the wire iwarp has its MPA Request */
	bool unclaimed;   /* counted in n_unclaimed of the listener */
	uint32_t rx_seq0; /* sequence numbers of the first byte received (rx) and sent (tx) */
	uint32_t tx_seq0;
	struct iws_pos pos; /* tx_put: end of the bytes that TCP has been handed */
	/* position up to which the program may read: pos.rx_tail, or the end of the last whole FPDU */
	uint32_t rx_shown;
	struct iws *iwarp;      /* NULL: the wire is plain, or not agreed on yet */
	struct rn_link touched; /* of the list in the worker's stream_iwarp_ctx */
	enum stream_sums tx_sums, rx_sums;
	struct mpa_ring tx_fpdus, rx_fpdus; /* used while tx_sums or rx_sums is STREAM_SUMS_ON */
	struct tcpl_chunk chunk[STREAM_CHUNKS];
	struct tcpl_hold hold[STREAM_HOLDS];
	struct tcpl_txrec rec[STREAM_RECS];
	struct tcpl_track track[TCPL_PATHS - 1]; /* used if the port has several paths */
};

struct stream_listener {
	/* key: port (STREAM_ANY_PORT: all) and lport. The table `listens` has the first listener of the list `same` */
	struct flow flow;
	struct stream_listener *same; /* next listener with this key: connections are balanced over the list */
	uint64_t key;                 /* 0: not in use */
	uint8_t families;             /* STREAM_IP4, STREAM_IP6 */
	uint32_t backlog;
	uint32_t n_unclaimed; /* connections that no program has accepted yet: until CMD_STREAM_ADOPT or _CLOSE */
	uint32_t n_half;      /* half-open connections, and their list */
	struct rn_list half;  /* struct stream, oldest first */
	/* connected streams that no program has accepted; one that is over, until the control thread has been told */
	struct rn_list arrived;
};

struct stream_ctx {
	struct stream *at;
	uint32_t n, used; /* entries in use: at[used] and later entries have never been touched */
	struct stream *free;
	struct stream_user *users;
	struct rn_list ready[QP_TENANTS]; /* streams to look at, by the number of their users (stream_share.c) */
	uint64_t ready_any;               /* a bit for each of these lists that is not empty */
	uint8_t ready_turn;               /* the number whose turn is next */
	struct rn_list telling;
	struct rn_list time_wait;     /* streams in TIME_WAIT, oldest first */
	uint32_t time_waits;          /* length of the list time_wait */
	uint32_t n_half;              /* half-open streams of all listeners, and their list */
	struct rn_list half;          /* oldest first */
	uint32_t held;                /* frames that all streams keep until a hole is filled */
	uint32_t held_of[QP_TENANTS]; /* how many of these count for each number */
	struct rn_wheel wheel;
	struct flow_table listens;
	struct stream_listener *listener;
	struct flow_slot *listen_slots;
	uint64_t passive; /* counts the connections of listeners, to number them */
	struct stream_iwarp_ctx *iwarp;
	struct stream *due;    /* the stream whose program stream_settle() tells of bytes; NULL: none */
	uint64_t strangers_at; /* rate limit of half-open connections: conn_allowed() */
};

/* Whether there is no stream any more. A segment of its peer is then a stranger's. */
static inline bool stream_is_over(const struct stream *s) { return s->state == STREAM_OVER || s->state == STREAM_FREE; }

static inline uint8_t stream_family(const struct pkt_addr *ip) { return pkt_addr_is_ip4(ip) ? STREAM_IP4 : STREAM_IP6; }

/* Sets up the TCP configuration that all streams of a port share; called before the workers start. */
void stream_tcp_init(uint32_t port, const struct tcpl_cfg *of_port);
/*
 * Allocates and frees the memory of a worker's streams, at the worker's start and end (stream_memory.c). flows: how
 * many streams at most; mtu: the largest MTU of all ports. False: no memory.
 */
bool stream_start(struct rnicd_worker *w, uint32_t flows, uint32_t mtu);
void stream_stop(struct rnicd_worker *w);

/* Handles a segment of a stream's flow, whose checksum is good. The frame stays the caller's. */
void stream_input(struct rnicd_worker *w, struct flow *f, struct rte_mbuf *m, const struct pkt *p);
/* Called after the segments of a burst: tells the program of bytes that were received or acknowledged. */
void stream_settle(struct rnicd_worker *w);
/* Handles a segment that belongs to no flow. True: a stream listener has taken the segment. */
bool stream_stranger(struct rnicd_worker *w, const struct rte_mbuf *m, const struct pkt *p, uint32_t port);
/* Handles an ICMP message that a segment of the stream was too big for a link on the path. */
void stream_too_big(struct rnicd_worker *w, struct flow *f, const struct pkt_too_big *b);

/* Called when the program has rung the stream's doorbell. */
void stream_ring(struct rnicd_worker *w, struct stream *s);
/* The steps of a turn. Return values: timers handled; segments sent, and steps of the wire iwarp. */
uint32_t stream_timers(struct rnicd_worker *w);
uint32_t stream_transmit(struct rnicd_worker *w);
void stream_events(struct rnicd_worker *w);

void command_stream(struct rnicd_worker *w, struct cmd *c);

/* ---- between the stream's files ---- */

/* The command CMD_STREAM_LISTEN: puts a listener up, or changes the backlog of one. */
void stream_listener_set(struct rnicd_worker *w, struct cmd_stream_listen *c);
/* The listener that the command names; NULL: it has ended. */
struct stream_listener *stream_listener_of(const struct rnicd_worker *w, const struct cmd_stream_listen *c);
/* Takes a listener without streams out of the table. */
void stream_listener_end(struct rnicd_worker *w, struct stream_listener *l);
/* The first of the listeners that share a's port and TCP port; NULL: none. */
struct stream_listener *stream_listener_first(const struct rnicd_worker *w, const struct conn_addr *a);
/*
 * Picks the listener that gets a connection with these addresses, of those that share a TCP port (SO_REUSEPORT): the
 * hash of the addresses decides, so a connection goes to the same listener while the set of listeners stays the same.
 * The time is proportional to the number of listeners. NULL: none is for the address's family.
 */
struct stream_listener *stream_listener_pick(struct stream_listener *first, const struct conn_addr *a);

/* stream_transmit() shall look at the stream. */
void stream_ready(struct rnicd_worker *w, struct stream *s);
/* It shall not, as the stream is over. */
void stream_unready(struct rnicd_worker *w, struct stream *s);
/* The stream to look at next: each user has its turn, and each stream among its user's. NULL: none. */
struct stream *stream_ready_pop(struct rnicd_worker *w);
/* Whether one more frame of the stream may be kept until a hole is filled. */
bool stream_may_hold(const struct rnicd_worker *w, const struct stream *s);
/* TCP keeps a frame, or has given one back. */
void stream_hold(struct rnicd_worker *w, struct stream *s);
void stream_unhold(struct rnicd_worker *w, struct stream *s);
/* Called when a half-open stream of a listener is connected: a program may accept it. */
void stream_arrived(struct rnicd_worker *w, struct stream *s);
/* The control thread shall be told of these STREAM_* events. */
void stream_tell(struct rnicd_worker *w, struct stream *s, uint32_t bits);
/*
 * Called when TCP is CLOSED and has sent its last segment: tells the program why, and frees everything but the stream
 * itself. stream_events() frees the stream: until then later segments of a burst may still name it.
 */
void stream_over(struct rnicd_worker *w, struct stream *s, int error);
/* Passes a segment of a stream with wire plain to TCP. All sums of the frame have been checked. */
void stream_segment(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p);
/*
 * Returns the frame, or a copy if the frame is in too many pieces. The frame's private area then has its payload as
 * slices. NULL: no buffer.
 */
struct rte_mbuf *stream_slices(const struct stream *s, struct rte_mbuf *m, const struct pkt *p);
/*
 * Called with the result of stream_slices(m), or NULL, when TCP has had the segment. held: TCP keeps the frame, so it
 * gets a reference of its own. A reference for each segment would cost an atomic operation behind the segment's copy.
 */
static inline void stream_slices_end(struct rte_mbuf *m, struct rte_mbuf *kept, bool held)
{
	if (held && kept == m)
		rte_pktmbuf_refcnt_update(m, 1);
	else if (!held && kept != NULL && kept != m)
		rte_pktmbuf_free(kept);
}
/* Frees the frames that were kept until a hole is filled, of a stream that is over. */
void stream_let_go_held(struct rnicd_worker *w, struct stream *s);
/* Carries out the events that a call of TCP has returned. m: the frame of the segment that was received, else NULL. */
void stream_take(struct rnicd_worker *w, struct stream *s, const struct tcpl_ev *ev, const struct rte_mbuf *m,
		 uint32_t payload_off);
/* Reads what the program has written: how far it has put and taken bytes, and whether its direction has ended. */
void stream_look(struct rnicd_worker *w, struct stream *s);
/* Called after an ACK: the program may use the room of the acknowledged bytes again. */
void stream_acked(struct rnicd_worker *w, struct stream *s);
/*
 * Writes the CRCs of FPDUs before tail, if the worker computes them. *may: the position up to which bytes may be sent,
 * tail at most; if CRCs are computed, at most about 64 KiB beyond pos.tx_put. all: the last FPDU may be incomplete.
 * False: the program has broken the rules of the rings.
 */
bool stream_fpdus_out(struct rnicd_worker *w, struct stream *s, uint32_t tail, bool all, uint32_t *may);
/*
 * Lets the program read the received bytes; if the worker checks CRCs, only whole FPDUs. s->mem must not be NULL. all:
 * the last FPDU may be incomplete.
 */
void stream_show(struct rnicd_worker *w, struct stream *s, bool all);
/* Writes TCP's state into the program's memory, for getsockopt(TCP_INFO) and IPC_SOCK_LIST. */
void stream_say_state(const struct stream *s);
/* Sets a bit of the state that the program sees. */
void stream_flag(const struct stream *s, uint32_t bit);
/* Tells the program that the stream has ended. error: an errno, or 0. Does nothing if the program was told before. */
void stream_ended(const struct stream *s, int error);
/* The peer has ended its direction: tells the program. */
void stream_peer_fin(struct rnicd_worker *w, struct stream *s);
/* The errno that the program gets when the peer resets the connection. */
int stream_reset_error(const struct stream *s);
/* A stream that connects, and whose neighbour has not answered ARP, ends with EHOSTUNREACH, as in Linux. True: so. */
bool stream_has_no_way(struct rnicd_worker *w, struct stream *s);
/* Ends the connection at once, with a reset. */
void stream_abort(struct rnicd_worker *w, struct stream *s);
/* Puts a stream in the list of those in TIME_WAIT, and evicts the oldest when there are too many. */
void stream_time_wait(struct rnicd_worker *w, struct stream *s);
/* True: no program will read received bytes any more, so bytes that arrive reset the connection. */
bool stream_unheard(const struct stream *s);
struct rnicd_port_stats *stream_stats(const struct rnicd_worker *w, const struct stream *s);
/* If the program waits for bytes to read or for room to write, and there are some, tells the control thread so. */
void stream_answer(struct rnicd_worker *w, struct stream *s);

#endif
