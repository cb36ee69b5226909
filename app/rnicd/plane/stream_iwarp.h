/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire iwarp of stream sockets (doc/stream-sockets.md): a reliable connection (lib/conn) whose queue pair is the
 * worker's own. Worker thread.
 *
 *	few bytes → tx ring → Send of a head and the bytes in place → FPDUs → posted slot → copied to the rx ring
 *	many bytes → tx ring → RDMA Writes of the bytes in place → FPDUs → the rx ring of the other end; a Send tells
 *
 * The free part of the program's rx ring is the window: a memory region that begins at the next byte's position and
 * ends where the grants end. So the peer can change no byte that the program may read already. With a peer that knows
 * no windows all bytes go by slots, and a slot is reposted only while the ring has room.
 *
 * The connecting end asks for the wire in its SYN. Where the other end's SYN-ACK does not take it, the stream is plain.
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
	IWARP_ROUGH = 1 << 4,  /* the end was no orderly one */
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
	struct qp_piece piece[2]; /* pieces of the region: this struct, and the program's memory */
	struct qp_piece lent[2];  /* pieces of the window: the ring up to its end, and from its begin on */
	uint32_t stag, window;    /* STags of the region and of the window */
	bool ready;               /* the queue pair and the memory region exist */
	bool open;                /* messages may be sent */
	bool fails;               /* the connection has been aborted, or is being aborted */
	bool in_told;             /* the program knows that the peer's direction has ended */
	uint32_t marks;
	int error; /* errno of the end for the program */
	struct esk esk;
	struct esk_hello peer;
	uint32_t n_sent; /* messages posted, wraps: names the next one's head */
	uint32_t spares; /* slots that are not posted, since the program's ring has too little room */
	uint8_t spare[IWARP_SLOTS];
	uint8_t head[IWARP_SQ][ESK_WINDOW_HEAD];
	uint8_t slot[IWARP_SLOTS][IWARP_SLOT];
};

/* The context of a worker; set up with its first stream of this wire. */
struct stream_iwarp_ctx {
	struct rc_tcp_ctx tcp;
	struct qp_dev dev;
	struct qp_mr *mr;
	struct stream_iwarp *at; /* [number of the worker's streams] */
	void *mem;               /* memory of tcp */
	uint64_t size;
	struct rc_tcp_cfg cfg;
	uint32_t n_mr;
	bool on, bad;
	struct rn_list touched; /* streams (struct stream) with something for iw_look() */
};

/* ---- stream_iwarp.c: life ---- */

/* True: another stream of this wire may begin. passive: by a peer's SYN, else by the program. */
bool stream_iwarp_room(struct rnicd_worker *w, bool passive);
/*
 * A SYN that asks for the wire has met a listener; s is the stream made for it. False: nothing was done, the stream is
 * plain.
 */
bool stream_iwarp_syn(struct rnicd_worker *w, struct stream *s, const struct tcpl_seg *syn, const struct tcpl_cfg *cfg,
		      uint32_t iss);
/* TCP is connected, and both ends have agreed on the wire: begins MPA. False: no memory. */
bool stream_iwarp_begin(struct rnicd_worker *w, struct stream *s);
/* A program has accepted the stream, and the program's memory is there. */
void stream_iwarp_adopt(struct rnicd_worker *w, struct stream *s);
void stream_iwarp_abort(struct rnicd_worker *w, struct stream *s);
/* Called by stream_over(): takes the stream out of the engine. */
void stream_iwarp_free(struct rnicd_worker *w, struct stream *s);
/* Something has happened to the stream: stream_iwarp_settle() looks at it before the turn ends. */
void stream_iwarp_touch(struct rnicd_worker *w, struct stream *s);
/*
 * Carries out the effects of the engine, then looks at all streams that were touched. Returns how many there were, work
 * that became due meanwhile apart.
 */
uint32_t stream_iwarp_settle(struct rnicd_worker *w);
/* Lets the peer write to the part of the program's ring that has been granted to it, and to no other. */
void stream_iwarp_lend(struct rnicd_worker *w, struct stream *s);
/* The engine's context for one call: with the worker's time, and with room for the effects of the call. */
struct rc_tcp_ctx *stream_iwarp_ctx(struct rnicd_worker *w);

/* ---- stream_iwarp_io.c: bytes ---- */

void stream_iwarp_input(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p);
void stream_iwarp_timer(struct rnicd_worker *w, struct stream *s);
/* Sends for connections that are ready; returns the number of segments. */
uint32_t stream_iwarp_transmit(struct rnicd_worker *w);
/* Posts the program's bytes before tail as messages, as many as the queue and the peer's credits allow now. */
void stream_iwarp_feed(struct rnicd_worker *w, struct stream *s, uint32_t tail);
/* Sends END. False: there is no room for it now. */
bool stream_iwarp_end(struct rnicd_worker *w, struct stream *s);
/* Posts the receives of a new connection. */
void stream_iwarp_slots(struct stream_iwarp *i);
/* Sends the first message of the end that has connected, a CREDIT. */
void stream_iwarp_greet(struct rnicd_worker *w, struct stream *s);
/* Takes completions, hands received bytes to the program, and posts the slots that the ring has room for again. */
void stream_iwarp_take(struct rnicd_worker *w, struct stream *s);

#endif
