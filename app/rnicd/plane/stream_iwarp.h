/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire iwarp of stream sockets (doc/stream-sockets.md): a reliable connection (lib/conn) whose queue pair is the
 * worker's own. Worker thread.
 *
 *	few bytes → tx ring → Send of a head and the bytes in the ring → FPDUs → posted slot → copied to the rx ring
 *	many bytes → tx ring → RDMA Write of the bytes in the ring → FPDUs → rx ring of the other end; then a Send tells
 *
 * The window is the free part of the program's rx ring that the peer may write to. It is a memory region that begins at
 * the position of the next byte and ends where the grants to the peer end. So the peer cannot change a byte that the
 * program may read already. With a peer that knows no windows all bytes go to slots (posted receives), and a slot is
 * posted again only while the ring has room.
 *
 * The connecting end asks for the wire in its SYN. If the other end's SYN-ACK does not agree, the stream is plain.
 * Queues, heads and slots of a stream lie in one piece of memory that is untouched until the stream needs it.
 */
#ifndef RNICD_STREAM_IWARP_H
#define RNICD_STREAM_IWARP_H

#include "conn/rc_tcp.h"
#include "esock/esk.h"
#include "plane/stream.h"
#include "ring/spsc.h"
#include "tcp_lite/tcpl_exid.h"

#define STREAM_EXID UINT32_C(0x524e4957) /* "RNIW": identifies the TCP option (RFC 6994) */

#define IWARP_SLOTS   16u    /* slots, each a posted receive */
#define IWARP_SLOT    16384u /* bytes of a slot */
#define IWARP_SQ      64u    /* entries of the send queue; a message takes two at most */
#define IWARP_CQ      128u
#define IWARP_SETUPS  1024u
#define IWARP_WR_SIZE 128u /* bytes of the largest work request */
_Static_assert(IWARP_CQ >= IWARP_SQ + IWARP_SLOTS, "a completion of each work request has room");
_Static_assert(IWARP_SLOTS *IWARP_SLOT <= IPC_STREAM_RING, "the ring has room for what fills all slots");

/* A ring whose one side is this worker and whose other side is the engine. */
#define IWARP_RING(n, size) \
	struct { \
		struct spsc_hdr hdr; \
		uint8_t slots[(size_t)(n) * (size)]; \
	}

/* Events of a connection that iw_look() has still to carry out; bits. */
enum iwarp_mark {
	IWARP_ASKED = 1 << 0,  /* the peer's MPA Request has come */
	IWARP_UP = 1 << 1,     /* the peer's MPA Reply has come */
	IWARP_HELLO = 1 << 2,  /* the Request or Reply has a valid hello */
	IWARP_GONE = 1 << 3,   /* the connection has ended */
	IWARP_ROUGH = 1 << 4,  /* the connection has not ended in an orderly way */
	IWARP_CLOSED = 1 << 5, /* the engine no longer knows the connection */
};

struct stream_iwarp {
	struct qp_shm qshm RN_ALIGNED(RN_CACHE_LINE);
	struct qp_cq_shm cshm;
	IWARP_RING(IWARP_SQ, QP_SLOT_SIZE) sq RN_ALIGNED(RN_CACHE_LINE);
	IWARP_RING(IWARP_SLOTS, QP_SLOT_SIZE) rq RN_ALIGNED(RN_CACHE_LINE);
	IWARP_RING(IWARP_CQ, QP_CQE_SIZE) cq RN_ALIGNED(RN_CACHE_LINE);
	struct qp qp;
	struct qp_cq handle;
	struct spsc_prod post_send, post_recv;
	struct spsc_cons done;
	struct qp_piece piece[2]; /* pieces of the memory region for work requests: this struct, the program's memory */
	struct qp_piece lent[2];  /* pieces of the window: up to the end of the ring, and from the ring's begin on */
	uint32_t stag, window;    /* STags of the memory region and of the window */
	bool ready;               /* the queue pair and the memory region exist */
	bool open;                /* messages may be sent */
	bool fails;               /* the connection has been aborted: received messages are ignored */
	bool in_told;             /* the program knows that the peer's direction has ended */
	uint32_t marks;
	int error; /* errno that the program gets when the connection ends; 0: an orderly end */
	struct esk esk;
	struct esk_hello peer;
	uint32_t n_sent;            /* messages posted, wraps: chooses the element of `head` for the next message */
	uint32_t spares;            /* how many slots are not posted, since the program's ring has too little room */
	uint8_t spare[IWARP_SLOTS]; /* their indices */
	uint8_t head[IWARP_SQ][ESK_WINDOW_HEAD];
	uint8_t slot[IWARP_SLOTS][IWARP_SLOT];
};

/* The context of a worker; set up with its first stream of this wire. */
struct stream_iwarp_ctx {
	struct rc_tcp_ctx tcp;
	struct qp_dev dev;
	struct qp_mr *mr;
	struct stream_iwarp *at; /* one for each of the worker's streams, with the same index */
	void *mem;               /* memory of `tcp`, `size` bytes */
	uint64_t size;
	struct rc_tcp_cfg cfg;
	uint32_t n_mr;
	bool on, bad;           /* the context has been set up; the set-up has failed */
	struct rn_list touched; /* streams (struct stream) with something for iw_look() */
};

/* ---- stream_iwarp.c: life ---- */

/* True: another stream of this wire may begin. passive: because of a peer's SYN; else the program connects. */
bool stream_iwarp_room(struct rnicd_worker *w, bool passive);
/*
 * Begins the wire iwarp for stream s, which was made because of a SYN that asks for this wire. False: nothing was done,
 * and the stream is plain.
 */
bool stream_iwarp_syn(struct rnicd_worker *w, struct stream *s, const struct tcpl_seg *syn, const struct tcpl_cfg *cfg,
		      uint32_t iss);
/* TCP is connected, and both ends have agreed on the wire: begins MPA. False: no memory. */
bool stream_iwarp_begin(struct rnicd_worker *w, struct stream *s);
/*
 * A program has accepted the stream, and s->mem is the program's memory: makes the queue pair and sends the MPA Reply.
 */
void stream_iwarp_adopt(struct rnicd_worker *w, struct stream *s);
void stream_iwarp_abort(struct rnicd_worker *w, struct stream *s);
/* Called by stream_over(): takes the stream out of the engine. */
void stream_iwarp_free(struct rnicd_worker *w, struct stream *s);
/* Puts the stream into the list of streams that stream_iwarp_settle() looks at before the turn ends. */
void stream_iwarp_touch(struct rnicd_worker *w, struct stream *s);
/*
 * Marks in the streams what the engine's effects say, then looks at all streams that were touched. Returns how many
 * streams it has looked at. Effects that arise from these looks wait for the next call.
 */
uint32_t stream_iwarp_settle(struct rnicd_worker *w);
/* Sets the window to the part of the program's ring that has been granted to the peer. */
void stream_iwarp_lend(struct rnicd_worker *w, struct stream *s);
/* The engine's context, with the current time set, and with room for the effects of one call. */
struct rc_tcp_ctx *stream_iwarp_ctx(struct rnicd_worker *w);

/* ---- stream_iwarp_io.c: bytes ---- */

void stream_iwarp_input(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p);
void stream_iwarp_timer(struct rnicd_worker *w, struct stream *s);
/* Sends for connections that are ready; returns the number of segments. */
uint32_t stream_iwarp_transmit(struct rnicd_worker *w);
/* Posts the program's bytes before tail as messages, as many as the send queue and the peer's credits allow now. */
void stream_iwarp_feed(struct rnicd_worker *w, struct stream *s, uint32_t tail);
/* Posts an END message. False: there is no room for it now. */
bool stream_iwarp_end(struct rnicd_worker *w, struct stream *s);
/* Posts all slots of a new connection. */
void stream_iwarp_slots(struct stream_iwarp *i);
/* Posts the first message of the end that has begun the connection, a CREDIT: MPA lets this end send first. */
void stream_iwarp_greet(struct rnicd_worker *w, struct stream *s);
/* Takes completions, hands received bytes to the program, and posts the slots that the ring has room for again. */
void stream_iwarp_take(struct rnicd_worker *w, struct stream *s);

#endif
