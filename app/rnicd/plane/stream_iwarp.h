/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire iwarp of stream sockets (doc/stream-sockets.md): a reliable connection (lib/conn) whose queue pair is the
 * worker's own. Worker thread.
 *
 *	program's bytes → tx ring → Send, with a head, from where they lie → FPDUs, summed in the pass that copies them
 *	FPDUs → the slot that was posted for the message → rx ring → program; the slot again while the ring has room
 *
 * Both ends ask for it in their SYNs; where the peer does not, the stream is plain. Queues, heads and slots of a stream
 * lie in one piece of memory that is untouched until the stream needs it.
 */
#ifndef RNICD_STREAM_IWARP_H
#define RNICD_STREAM_IWARP_H

#include "conn/rc_tcp.h"
#include "esock/esk.h"
#include "plane/stream.h"
#include "ring/spsc.h"
#include "tcp_lite/tcpl_exid.h"

#define STREAM_EXID UINT32_C(0x524e4957) /* "RNIW": of the TCP option (RFC 6994) */

#define IWARP_SLOTS   16u    /* receives */
#define IWARP_SLOT    16384u /* bytes of each */
#define IWARP_SQ      64u    /* slots of the send queue; DATA takes two */
#define IWARP_CQ      128u
#define IWARP_SETUPS  1024u
#define IWARP_WR_SIZE 128u /* bytes of a work request at most */
_Static_assert(IWARP_CQ >= IWARP_SQ + IWARP_SLOTS, "a completion of each work request has room");
_Static_assert(IWARP_SLOTS *IWARP_SLOT <= IPC_STREAM_RING, "the ring has room for what fills all slots");

/* A ring that this worker writes and the engine reads, or the other way round. */
#define IWARP_RING(n, size) \
	struct { \
		struct spsc_hdr hdr; \
		uint8_t slots[(size_t)(n) * (size)]; \
	}

/* What has happened to a connection since it was last looked at; bits. */
enum iwarp_mark {
	IWARP_ASKED = 1 << 0,  /* the peer's Request is here */
	IWARP_UP = 1 << 1,     /* the peer's Reply is here */
	IWARP_HELLO = 1 << 2,  /* with a hello in it */
	IWARP_GONE = 1 << 3,   /* the connection has ended */
	IWARP_ROUGH = 1 << 4,  /* not in order */
	IWARP_CLOSED = 1 << 5, /* the engine has done with it */
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
	struct qp_piece piece[2]; /* this, and the program's memory behind it */
	uint32_t stag;
	bool ready;   /* queue pair and memory region are there */
	bool open;    /* messages may be sent */
	bool fails;   /* it has been, or is being, ended at once */
	bool in_told; /* the program knows that the peer\'s direction has ended */
	uint32_t marks;
	int error; /* of the end, as the program is told it */
	struct esk esk;
	struct esk_hello peer;
	uint32_t n_sent; /* messages, wraps: whose head is next */
	uint32_t spares; /* slots that are not posted: the program's ring has too little room for them */
	uint8_t spare[IWARP_SLOTS];
	uint8_t head[IWARP_SQ][ESK_HEAD_LEN];
	uint8_t slot[IWARP_SLOTS][IWARP_SLOT];
};

/* Of a worker; set up with its first stream of this wire. */
struct stream_iwarp_ctx {
	struct rc_tcp_ctx tcp;
	struct qp_dev dev;
	struct qp_mr *mr;
	struct stream_iwarp *at; /* [streams] */
	void *mem;               /* of tcp */
	uint64_t size;
	struct rc_tcp_cfg cfg;
	uint32_t n_mr;
	bool on, bad;
	struct rn_list touched; /* struct stream: something has happened to it */
};

/* ---- stream_iwarp.c: life ---- */

/* Whether another stream of this wire may be begun: by the program, or (passive) by a peer. */
bool stream_iwarp_room(struct rnicd_worker *w, bool passive);
/* A SYN that asks for the wire has met a listener; s is made. False: nothing was done, it is plain. */
bool stream_iwarp_syn(struct rnicd_worker *w, struct stream *s, const struct tcpl_seg *syn, const struct tcpl_cfg *cfg,
		      uint32_t iss);
/* TCP is connected, and both ends have asked. False: no memory. */
bool stream_iwarp_begin(struct rnicd_worker *w, struct stream *s);
/* A program has accepted it, and its memory is there. */
void stream_iwarp_adopt(struct rnicd_worker *w, struct stream *s);
void stream_iwarp_abort(struct rnicd_worker *w, struct stream *s);
/* stream_over is at it: what the engine has of it goes. */
void stream_iwarp_free(struct rnicd_worker *w, struct stream *s);
/* Something has happened to it: it is looked at before the turn ends. */
void stream_iwarp_touch(struct rnicd_worker *w, struct stream *s);
/* Looks at all that were touched, and at what the engine has told. Returns their number: what that makes due is not. */
uint32_t stream_iwarp_settle(struct rnicd_worker *w);
/* The engine's context, for one call: its time is the worker's, and it has room for the effects. */
struct rc_tcp_ctx *stream_iwarp_ctx(struct rnicd_worker *w);

/* ---- stream_iwarp_io.c: bytes ---- */

void stream_iwarp_input(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p);
void stream_iwarp_timer(struct rnicd_worker *w, struct stream *s);
/* Sends for connections that are ready; returns the number of segments. */
uint32_t stream_iwarp_transmit(struct rnicd_worker *w);
/* Takes of the program's bytes before tail what may leave as messages now. */
void stream_iwarp_feed(struct rnicd_worker *w, struct stream *s, uint32_t tail);
/* The program's direction ends here. False: not now. */
bool stream_iwarp_end(struct rnicd_worker *w, struct stream *s);
/* The receives of a new connection. */
void stream_iwarp_slots(struct stream_iwarp *i);
/* The first message of the end that has connected. */
void stream_iwarp_greet(struct rnicd_worker *w, struct stream *s);
/* Completions are taken, what has come goes to the program, and slots are posted for which there is room. */
void stream_iwarp_take(struct rnicd_worker *w, struct stream *s);

#endif
