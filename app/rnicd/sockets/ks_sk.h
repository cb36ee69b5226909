/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets of programs over the kernel's TCP, with the wire iwarp (doc/stream-sockets.md): what
 * plane/stream_iwarp.h is for Ethernet ports. Used by the process that serves sockets (embedded.c) only. The programs'
 * side is the same (ipc_stream.h), and lib/iws makes the messages. The kernel's socket is the program's own, which the
 * program has handed over, or one that such a listener has accepted. Both ends must be set to this wire: the kernel
 * cannot send the option by which rnicds agree on it.
 *
 *	doorbell or input → stream is touched → ks_sk_settle: effects, completions, bytes to post → rc → socket
 *
 * For the thread that holds ks.lock.
 */
#ifndef KS_SK_H
#define KS_SK_H

#include "border/stream_view.h"
#include "iws/iws.h"
#include "sockets/ks.h"

/* One writer: ks_sk.c. */
enum ks_sk_state {
	KS_SK_WAITS, /* a listener's; no program has accepted it. Left by CMD_STREAM_ADOPT or _CLOSE */
	KS_SK_OWNED, /* has the program's memory. Left by CMD_STREAM_CLOSE, or when the connection ends */
	KS_SK_LEFT,  /* the program has closed the socket; bytes in the ring still go out */
	KS_SK_OVER,  /* the connection has ended. Used again when the control thread has been told STREAM_CLOSED */
};

struct ks_sk_listener;

/* The border's name of a stream socket's connection. Its memory is never freed, as a command may still name it. */
struct stream {
	struct ks_conn *c; /* the connection; OVER: NULL */
	struct iws *iws;
	struct iws_pos pos;
	enum ks_sk_state state;
	uint32_t tell; /* STREAM_* events that the control thread has not been told of yet */
	uint64_t key;  /* the control thread's number of the stream; 0: it has none, and must not be told */
	struct ks_sk_listener *listener; /* NULL: none, or none any more */
	bool unclaimed;                  /* counted in n_unclaimed of the listener */
	bool connected;                  /* TCP is connected, and a listener's stream has its MPA Request */
	bool fin;                        /* the end of the program's bytes has been posted */
	struct ipc_stream *mem;          /* the program's memory, not trusted. NULL: none yet, or none any more */
	struct stream_user *user;
	uint32_t bit;        /* the socket's bit in its user's doorbell */
	uint32_t mss;        /* payload bytes of a full segment */
	uint32_t slot;       /* number of its protection domain, less one; constant */
	struct rn_link link; /* in the listener's list, or in that of streams to use again */
	struct rn_link touched, telling;
	/* LEFT */
	struct rn_link left;
	uint64_t look;      /* time of the next look whether the stream makes progress */
	uint64_t moved;     /* time of the last look that has found progress */
	uint32_t put_seen;  /* pos.tx_put at the last look */
	uint32_t wait_seen; /* bytes that the peer's TCP had not acknowledged at the last look */
};

struct ks_sk_listener {
	struct ks_src src;
	struct rn_link link;
	uint64_t key; /* the control thread's number */
	uint32_t backlog;
	uint32_t n_unclaimed;   /* connections that no program has accepted yet */
	struct rn_list streams; /* those, and half-open ones */
};

/* Allocates what streams need besides their connections: called by ks_start(). False: no memory. */
bool ks_sk_start(uint32_t flows);
void ks_sk_stop(void);
/* CMD_STREAM_*. */
void ks_sk_command(struct cmd *c);
/* Accepts connections, of which the listener's socket has some. */
void ks_sk_accept(struct ks_sk_listener *l);
/* Looks at all streams that were touched; returns how many. */
uint32_t ks_sk_settle(void);
/* Tells the control thread of what has happened, and frees streams that are over. */
void ks_sk_events(void);
/* Whether ks_sk_settle() or ks_sk_events() has work left. */
bool ks_sk_more(void);

/* ---- ks_sk_io.c ---- */

/* The doorbells of a user's sockets are looked at from now on. */
void ks_sk_join(struct stream_user *u);
/* Looks at the doorbells; returns how many streams were rung. */
uint32_t ks_sk_doorbells(void);
/* As say_sleeping() and anything_waits() of ks_turn.c. */
void ks_sk_say_sleeping(uint32_t value);
bool ks_sk_rung(void);
/*
 * This process is about to end, and no program comes any more: closed sockets do not wait for the ends of their peers'
 * programs from now on, and are reset after `most` ns without progress.
 */
void ks_sk_end_soon(uint64_t most);
bool ks_sk_any_left(void); /* whether there are closed sockets */
/* Moves bytes between the program's rings and messages. */
void ks_sk_move(struct stream *s);
/* The control thread shall be told of these STREAM_* events. */
void ks_sk_tell(struct stream *s, uint32_t bits);
/* Sets a bit of the state that the program sees. */
void ks_sk_flag(const struct stream *s, uint32_t bit);
/* Tells the program that the stream has ended. error: an errno, or 0. Does nothing if the program was told before. */
void ks_sk_ended(const struct stream *s, int error);
/* The errno that the program gets when the peer resets the connection. */
int ks_sk_reset_error(const struct stream *s);
/* Writes the connection's state into the program's memory, as TCP's, for getsockopt(TCP_INFO). */
void ks_sk_say_state(const struct stream *s);
/* The program has closed the socket: a stream that makes no progress is reset from now on. */
void ks_sk_left(struct stream *s);
/* The stream has ended. */
void ks_sk_left_end(struct stream *s);
/* Looks at the streams in LEFT whose look is due; returns how many. */
uint32_t ks_sk_timers(void);
/* When the next look is due; RN_NEVER: no stream is in LEFT. */
uint64_t ks_sk_due(void);
/* If the program waits for bytes to read or for room to write, and there are some, tells the control thread so. */
void ks_sk_answer(struct stream *s);

extern struct iws_ctx ks_iws;

#endif
