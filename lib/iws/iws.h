/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The bytes of a stream socket as messages of a reliable connection (doc/stream-sockets.md). The program's bytes lie in
 * the rings of struct ipc_stream. This room makes the queue pair of the connection, posts its work requests and takes
 * its completions. The caller owns the connection (rc.h) and carries its byte stream.
 *
 *	few bytes → tx ring → Send of a head and the bytes in the ring → FPDUs → posted slot → copied to the rx ring
 *	many bytes → tx ring → RDMA Write of the bytes in the ring → FPDUs → rx ring of the other end; then a Send tells
 *
 * The window is the free part of the program's rx ring that the peer may write to. It is a memory region that begins at
 * the position of the next byte and ends where the grants to the peer end. So the peer cannot change a byte that the
 * program may read already. With a peer that knows no windows all bytes go to slots (posted receives), and a slot is
 * posted again only while the ring has room.
 *
 * Order of calls: iws_begin; iws_ask (the end that connects) or iws_adopt (the end that accepts); then iws_note for
 * each effect of the connection; iws_up when the peer's Reply has come; iws_take, iws_feed and iws_end while there is
 * work; iws_free when the engine no longer knows the connection. One thread.
 */
#ifndef IWS_H
#define IWS_H

#include <stdbool.h>
#include <stdint.h>

#include "esock/esk.h"
#include "ipc/ipc_stream.h"
#include "qp/qp_cq.h"
#include "qp/qp_engine.h"
#include "rc/rc.h"
#include "ring/spsc.h"

#define IWS_SLOTS     16u    /* slots, each a posted receive */
#define IWS_SLOT      16384u /* bytes of a slot */
#define IWS_SQ        64u    /* entries of the send queue; a message takes two at most */
#define IWS_CQ        128u
#define IWS_HELLO_MAX (ESK_HELLO_LEN + ESK_WINDOW_LEN) /* bytes of a hello */
_Static_assert(IWS_CQ >= IWS_SQ + IWS_SLOTS, "a completion of each work request has room");
_Static_assert(IWS_SLOTS *IWS_SLOT <= IPC_STREAM_RING, "the ring has room for what fills all slots");

/* Positions in a stream: numbers of bytes, which wrap at 2^32. Their lower bits are the place in the ring. */
struct iws_pos {
	uint32_t rx_tail, rx_head; /* end of the received bytes; how far the program has read (checked) */
	uint32_t tx_head, tx_put;  /* end of the acknowledged bytes; end of the bytes that were taken from the ring */
};

/* What all streams of a worker share; the caller fills it. */
struct iws_ctx {
	struct qp_dev *dev; /* two memory regions for each stream */
	/* The engine's context, with the current time set, and with room for the effects of one call. */
	struct rc_ctx *(*rc)(struct iws_ctx *x);
};

/* Effects of a connection that the caller has still to carry out; bits. */
enum iws_mark {
	IWS_ASKED = 1 << 0,  /* the peer's MPA Request has come */
	IWS_UP = 1 << 1,     /* the peer's MPA Reply has come */
	IWS_HELLO = 1 << 2,  /* the Request or Reply has a valid hello */
	IWS_GONE = 1 << 3,   /* the connection has ended */
	IWS_ROUGH = 1 << 4,  /* the connection has not ended in an orderly way */
	IWS_SILENT = 1 << 5, /* because the peer does not answer */
	IWS_CLOSED = 1 << 6, /* the engine no longer knows the connection */
};

/* A ring whose one side is this room and whose other side is the engine. */
#define IWS_RING(n, size) \
	struct { \
		struct spsc_hdr hdr; \
		uint8_t slots[(size_t)(n) * (size)]; \
	}

/* A stream. About 280 KiB, of which most is untouched until it is used. */
struct iws {
	struct qp_shm qshm RN_ALIGNED(RN_CACHE_LINE);
	struct qp_cq_shm cshm;
	IWS_RING(IWS_SQ, QP_SLOT_SIZE) sq RN_ALIGNED(RN_CACHE_LINE);
	IWS_RING(IWS_SLOTS, QP_SLOT_SIZE) rq RN_ALIGNED(RN_CACHE_LINE);
	IWS_RING(IWS_CQ, QP_CQE_SIZE) cq RN_ALIGNED(RN_CACHE_LINE);
	struct qp qp;
	struct qp_cq handle;
	struct spsc_prod post_send, post_recv;
	struct spsc_cons done;
	struct qp_piece piece[2]; /* pieces of the memory region for work requests: this struct, the program's memory */
	struct qp_piece lent[2];  /* pieces of the window: up to the end of the ring, and from the ring's begin on */
	uint32_t stag, window;    /* STags of the memory region and of the window */
	struct rc *conn;
	struct ipc_stream *mem; /* the program's memory, not trusted; NULL: none yet */
	struct iws_pos *pos;
	uint32_t pd;
	bool ready;   /* the queue pair and the memory region exist */
	bool open;    /* messages may be sent */
	bool fails;   /* the connection has been aborted: received messages are ignored */
	bool in_told; /* iws_take() has returned IWS_FIN */
	uint32_t marks;
	int error; /* errno that the program gets when the connection ends; 0: an orderly end */
	struct esk esk;
	struct esk_hello peer;
	uint32_t n_sent;          /* messages posted, wraps: chooses the element of `head` for the next message */
	uint32_t spares;          /* how many slots are not posted, since the program's ring has too little room */
	uint8_t spare[IWS_SLOTS]; /* their indices */
	uint8_t head[IWS_SQ][ESK_WINDOW_HEAD];
	uint8_t slot[IWS_SLOTS][IWS_SLOT];
};

/* Begins a stream over the connection, which has no queue pair yet. pd: a protection domain of the stream's own. */
void iws_begin(struct iws *i, struct rc *conn, struct iws_pos *pos, uint32_t pd);
/* The policy of such a connection: `of_port` is the port's. */
struct mpa_policy iws_policy(const struct mpa_policy *of_port);
/*
 * Sets how long connections of streams may take (rc.h). A program may take any time to accept. TCP limits the time for
 * a stream to open. The end has no limit of its own either, as it is begun while the program's last bytes are still on
 * the way: TCP gives up a peer that does not answer, and the caller a stream whose program has left.
 */
void iws_times(struct rc_cfg *cfg);
/*
 * The end that connects: makes the queue pair i->qp, and fills the private data of its MPA Request. mem: the program's
 * memory. tenant: of the queue pair (qp_attr). Returns the length of the private data; 0: no memory.
 */
uint8_t iws_ask(struct iws_ctx *x, struct iws *i, struct ipc_stream *mem, uint8_t tenant, uint8_t priv[IWS_HELLO_MAX]);
/*
 * The end that accepts, when a program has accepted the connection: makes the queue pair and sends the MPA Reply. mem:
 * the program's memory. tenant: of the queue pair (qp_attr). If that fails, the connection is aborted.
 */
void iws_adopt(struct iws_ctx *x, struct iws *i, struct ipc_stream *mem, uint8_t tenant);
/* Adds the marks (enum iws_mark) that follow from an effect of the connection to i->marks. */
void iws_note(struct iws *i, const struct qp_fx *fx);
/* Carries out IWS_UP, with IWS_HELLO in marks or without: opens the stream, or aborts it. True: the stream is open. */
bool iws_up(struct iws_ctx *x, struct iws *i, uint32_t marks);
/*
 * Carries out IWS_GONE: the stream is not open any more. Returns the errno that the program gets, 0 for an orderly end.
 * reset: the errno of a connection that the peer has reset. That of a silent peer is ETIMEDOUT, unless i->error is set.
 */
int iws_gone(struct iws *i, uint32_t marks, int reset);

/* What iws_take() has found; bits. */
enum iws_found {
	IWS_GOT = 1 << 0,   /* pos->rx_tail has grown: the caller shows the bytes to the program */
	IWS_ACKED = 1 << 1, /* pos->tx_head has grown: the caller shows the room to the program, and calls iws_feed() */
	IWS_MORE = 1 << 2,  /* messages have come, perhaps with credits: iws_feed() may post more */
	IWS_FIN = 1 << 3,   /* the peer has ended its direction; told once */
};

/*
 * Takes completions, copies received bytes to the program's ring, and posts slots and credits. unheard: no program will
 * read received bytes any more, so bytes abort the connection. Returns bits of enum iws_found. i->ready must be true.
 */
uint32_t iws_take(struct iws_ctx *x, struct iws *i, bool unheard);
/*
 * Posts the program's bytes before position `tail` as messages, as many as the send queue and the peer's credits allow
 * now. whole: payload bytes of a full TCP segment.
 */
void iws_feed(struct iws_ctx *x, struct iws *i, uint32_t tail, uint32_t whole);
/* Posts an END message: no bytes follow. False: there is no room for it now. */
bool iws_end(struct iws_ctx *x, struct iws *i);
/* Aborts the connection: the program gets i->error, ECONNRESET unless it is set. */
void iws_abort(struct iws_ctx *x, struct iws *i);
/* Takes the stream out of the engine, which no longer knows the connection. */
void iws_free(struct iws_ctx *x, struct iws *i);

#endif
