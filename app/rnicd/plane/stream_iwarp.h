/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The wire iwarp of stream sockets (doc/stream-sockets.md): a reliable connection (lib/conn) whose queue pair is the
 * worker's own, and whose messages are those of lib/iws. Worker thread.
 *
 * The connecting end asks for the wire in its SYN. If the other end's SYN-ACK does not agree, the stream is plain.
 * Queues, heads and slots of a stream (struct iws) lie in memory that is untouched until the stream needs it.
 */
#ifndef RNICD_STREAM_IWARP_H
#define RNICD_STREAM_IWARP_H

#include "conn/rc_tcp.h"
#include "iws/iws.h"
#include "plane/stream.h"
#include "tcp_lite/tcpl_exid.h"

#define STREAM_EXID UINT32_C(0x524e4957) /* "RNIW": identifies the TCP option (RFC 6994) */

#define IWARP_SETUPS 1024u

/* The context of a worker; set up with its first stream of this wire. */
struct stream_iwarp_ctx {
	struct rc_tcp_ctx tcp;
	struct iws_ctx iws;
	struct rnicd_worker *w; /* the worker */
	struct qp_dev dev;
	struct qp_mr *mr;
	struct iws *at; /* one for each of the worker's streams, with the same index */
	void *mem;      /* memory of `tcp`, `size` bytes */
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
/* The engine's context, with the current time set, and with room for the effects of one call. */
struct rc_tcp_ctx *stream_iwarp_ctx(struct rnicd_worker *w);

/* ---- stream_iwarp_io.c: bytes ---- */

void stream_iwarp_input(struct rnicd_worker *w, struct stream *s, struct rte_mbuf *m, const struct pkt *p);
void stream_iwarp_timer(struct rnicd_worker *w, struct stream *s);
/* Sends for connections that are ready; returns the number of segments. */
uint32_t stream_iwarp_transmit(struct rnicd_worker *w);
/* iws_feed() and iws_end() for the stream. */
void stream_iwarp_feed(struct rnicd_worker *w, struct stream *s, uint32_t tail);
bool stream_iwarp_end(struct rnicd_worker *w, struct stream *s);
/* Takes completions, and tells the program what they have brought. */
void stream_iwarp_take(struct rnicd_worker *w, struct stream *s);

#endif
