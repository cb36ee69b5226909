/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets in a worker: TCP between a program's rings (ipc_stream.h) and a peer that may be anyone. Worker
 * thread.
 *
 *	program's bytes → tx ring → tcpl_send by position → one pass: copy and sum → frame
 *	frame → tcpl_in → rx ring, at the place that the sequence number says → program
 *
 * A position in the stream is a sequence number less that of the first byte; the lower bits of the position are the
 * place in the ring. Bytes received ahead of a hole go to their place at once: the ring has room for the whole window.
 * With out-of-order = buffer their frame is kept until their turn.
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
	STREAM_FREE,  /* no stream. Left by CMD_STREAM_OPEN, or by a SYN to a listener */
	STREAM_WAITS, /* of a listener, half open or open, takes no byte. Left by CMD_STREAM_ADOPT or _CLOSE */
	STREAM_OWNED, /* has the program's memory. Left by CMD_STREAM_CLOSE, or when TCP ends */
	STREAM_LEFT,  /* the program has closed it; bytes in the ring still go out. Left when TCP ends */
	STREAM_OVER,  /* TCP has ended; freed when STREAM_CLOSED has been told */
};

/* Whether this worker sums the CRCs of a program's FPDUs. Written by stream_fpdu.c. */
enum stream_sums {
	STREAM_SUMS_NOT, /* plain bytes; left when the program says where its FPDUs begin */
	STREAM_SUMS_ON,  /* left at the end of the direction, or at a received FPDU with a bad CRC */
	STREAM_SUMS_END, /* plain bytes again */
};

struct stream_listener;
struct stream_iwarp;
struct stream_iwarp_ctx;

struct stream {
	struct rc_tcp qc; /* qc.rc is used by the wire iwarp only */
	struct flow flow;
	enum stream_state state;
	uint32_t tell; /* STREAM_* events not yet told */
	uint64_t key;  /* the control thread's number of the stream */
	struct conn_addr addr;
	struct way way;
	struct rn_timer timer;
	/* links of lists in stream_ctx; a stream is on a list while its link is linked */
	struct rn_link ready, telling;
	struct rn_link half;      /* of its listener's list, until the stream is connected */
	struct rn_link time_wait; /* of the list in stream_ctx */
	struct stream_listener *listener;
	struct stream *next;    /* free list */
	struct ipc_stream *mem; /* the program's memory, not trusted. NULL: none yet, or none any more */
	struct stream_user *user;
	uint32_t bit;
	bool fin;         /* the end of the program's bytes has been handed to TCP */
	bool connected;   /* the program has been told that the stream is connected */
	bool unclaimed;   /* counted in n_unclaimed of the listener */
	uint32_t rx_seq0; /* sequence numbers of the first byte received (rx) and sent (tx) */
	uint32_t tx_seq0;
	uint32_t rx_tail, rx_head; /* positions of received bytes: end, and how far the program has read (checked) */
	/* position up to which the program may read: rx_tail, or the end of the last whole FPDU */
	uint32_t rx_shown;
	uint32_t tx_head, tx_put;   /* positions of sent bytes: acknowledged; handed to TCP */
	struct stream_iwarp *iwarp; /* NULL: the wire is plain, or not agreed on yet */
	struct rn_link touched;     /* of the list in the worker's stream_iwarp_ctx */
	enum stream_sums tx_sums, rx_sums;
	struct mpa_ring tx_fpdus, rx_fpdus; /* used while tx_sums or rx_sums is STREAM_SUMS_ON */
	struct tcpl_chunk chunk[STREAM_CHUNKS];
	struct tcpl_hold hold[STREAM_HOLDS];
	struct tcpl_txrec rec[STREAM_RECS];
	struct tcpl_track track[TCPL_PATHS - 1]; /* used where the port has several paths */
};

struct stream_listener {
	/* key: port (STREAM_ANY_PORT: all) and lport. The table holds the first listener of the list `same` */
	struct flow flow;
	struct stream_listener *same; /* next listener with this key: connections are balanced over the list */
	uint64_t key;                 /* 0: not in use */
	uint8_t families;             /* STREAM_IP4, STREAM_IP6 */
	uint32_t backlog;
	uint32_t n_unclaimed; /* connections that no program has accepted yet: until CMD_STREAM_ADOPT or _CLOSE */
	uint32_t n_half;
	struct rn_list half; /* oldest first */
};

struct stream_ctx {
	struct stream *at;
	uint32_t n, used; /* entries in use: at[used] and later entries have never been touched */
	struct stream *free;
	struct stream_user *users;
	struct rn_list ready, telling;
	struct rn_list time_wait; /* streams in TIME_WAIT, oldest first */
	uint32_t time_waits;      /* length of the list time_wait */
	uint32_t held;            /* frames that are kept until their turn */
	struct rn_wheel wheel;
	struct flow_table listens;
	struct stream_listener *listener;
	struct flow_slot *listen_slots;
	uint64_t passive; /* connections of listeners that have been numbered so far */
	struct stream_iwarp_ctx *iwarp;
};

static inline uint8_t stream_family(const struct pkt_addr *ip) { return pkt_addr_is_ip4(ip) ? STREAM_IP4 : STREAM_IP6; }

/* Sets up the TCP configuration that all streams of a port share; called before the workers start. */
void stream_tcp_init(uint32_t port, const struct tcpl_cfg *of_port);
/*
 * The memory of a worker's streams, at the worker's start and end (stream_memory.c). mtu: the largest of the ports'.
 * False: no memory.
 */
bool stream_start(struct rnicd_worker *w, uint32_t flows, uint32_t mtu);
void stream_stop(struct rnicd_worker *w);

/* A segment for a stream's flow, checksum good. The frame stays the caller's. */
void stream_input(struct rnicd_worker *w, struct flow *f, struct rte_mbuf *m, const struct pkt *p);
/* Handles a segment that belongs to no flow. True: a stream listener has taken the segment. */
bool stream_stranger(struct rnicd_worker *w, const struct pkt *p, uint32_t port);
void stream_too_big(struct rnicd_worker *w, struct flow *f, const struct pkt_too_big *b);

/* The stream's doorbell has been rung. */
void stream_ring(struct rnicd_worker *w, struct stream *s);
/* The steps of a turn; each returns how many things it has done. */
uint32_t stream_timers(struct rnicd_worker *w);
uint32_t stream_transmit(struct rnicd_worker *w);
void stream_events(struct rnicd_worker *w);

/* Around the worker's sleep: writes need_wakeup into the programs' doorbells; says whether work is left for a turn. */
void stream_say_sleeping(struct rnicd_worker *w, uint32_t value);
bool stream_waits(const struct rnicd_worker *w);

void command_stream(struct rnicd_worker *w, struct cmd *c);

/* ---- between the stream's files ---- */

void stream_ready(struct rnicd_worker *w, struct stream *s);
void stream_tell(struct rnicd_worker *w, struct stream *s, uint32_t bits);
/*
 * Called when TCP is CLOSED and has sent its last segment: tells the program why, and frees everything but the stream
 * itself, which is freed after STREAM_CLOSED.
 */
void stream_over(struct rnicd_worker *w, struct stream *s, int error);
/* One segment's turn, with wire plain: a frame whose bytes are checked. */
void stream_segment(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p);
/*
 * The frame with one more reference, or a copy of a frame in many pieces, with its payload as slices in its private
 * area. NULL: no buffer.
 */
struct rte_mbuf *stream_slices(const struct stream *s, struct rte_mbuf *m, const struct pkt *p);
/* The stream is over: frees the frames that are kept until their turn. */
void stream_let_go_held(struct rnicd_worker *w, struct stream *s);
/* Carries out the events that a call of TCP has returned. m: the frame of the segment that was received, else NULL. */
void stream_take(struct rnicd_worker *w, struct stream *s, const struct tcpl_ev *ev, const struct rte_mbuf *m,
		 uint32_t payload_off);
/* Reads what the program has written: bytes to send, room to receive, its end. */
void stream_look(struct rnicd_worker *w, struct stream *s);
/* After an ACK: gives the program the room of the acknowledged bytes. */
void stream_acked(struct rnicd_worker *w, struct stream *s);
/*
 * Says in *may up to which position the bytes before tail may be sent; at most about 64 KiB beyond tx_put where CRCs
 * are summed. all: the last FPDU may be incomplete. False: the program has broken the rules of the rings.
 */
bool stream_fpdus_out(struct rnicd_worker *w, struct stream *s, uint32_t tail, bool all, uint32_t *may);
/*
 * Lets the program read what has been received; the program's memory must be there. all: the last FPDU may be
 * incomplete.
 */
void stream_show(struct rnicd_worker *w, struct stream *s, bool all);
/* Appends received bytes to the program's ring, which has room for them. */
void stream_put_in(struct rnicd_worker *w, struct stream *s, const uint8_t *p, uint32_t len);
/* Writes TCP's state into the program's memory, for getsockopt(TCP_INFO) and IPC_SOCK_LIST. */
void stream_say_state(const struct stream *s);
/* Sets a bit of the state that the program sees. */
void stream_flag(const struct stream *s, uint32_t bit);
/* Tells the program that the stream has ended. error: an errno, or 0. An end that was told before stays. */
void stream_ended(const struct stream *s, int error);
/* The peer has ended its direction: tells the program. */
void stream_peer_fin(struct rnicd_worker *w, struct stream *s);
/* The errno that a reset from the peer means to the program. */
int stream_reset_error(const struct stream *s);
/* Ends the connection at once, with a reset. */
void stream_abort(struct rnicd_worker *w, struct stream *s);
/* Puts a stream in the list of those in TIME_WAIT, and evicts the oldest when there are too many. */
void stream_time_wait(struct rnicd_worker *w, struct stream *s);
/* True: nobody will read what is received, so received bytes reset the connection. */
bool stream_unheard(const struct stream *s);
struct rnicd_port_stats *stream_stats(const struct rnicd_worker *w, const struct stream *s);
/* Tells the program what it has asked to be told of: bytes to read, room to write. */
void stream_answer(struct rnicd_worker *w, struct stream *s);

#endif
