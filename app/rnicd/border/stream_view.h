/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of a user (uid) as one worker sees them: where the doorbells are, and which socket each bit is of.
 * The control thread makes it and never frees it; from CMD_STREAM_JOIN on it is the worker's.
 */
#ifndef STREAM_VIEW_H
#define STREAM_VIEW_H

#include "ipc/ipc_stream.h"

struct stream; /* plane/stream.h: a stream socket's connection; others only keep its address, together with its
	        * number */
struct gram;   /* gram_view.h */

struct stream_user {
	struct ipc_sock_bell *bell; /* of this worker, in memory that the user's programs have too: not trusted */
	uint32_t blocks;            /* the worker looks at the first `blocks` of the bell: no socket had a bit beyond */
	struct stream_user *next;   /* the worker's list */
	struct stream *at[IPC_MAX_SOCKS]; /* by doorbell bit; NULL: no such stream */
	struct gram *gram[IPC_MAX_SOCKS]; /* the same of datagram sockets; a bit is of one kind */
};

/* A socket has this bit from now on. */
static inline void stream_user_uses(struct stream_user *u, uint32_t bit)
{
	u->blocks = rn_max_u32(u->blocks, bit / IPC_MAX_QPS + 1);
}

/* Of a listener at all ports: those whose address is of these families. */
#define STREAM_ANY_PORT UINT32_MAX
enum { STREAM_IP4 = 1u << 0, STREAM_IP6 = 1u << 1 };

/* What a worker tells of a stream (EVENT_STREAM); bits. */
enum {
	STREAM_ARRIVED = 1u << 0,   /* a new connection of a listener; without memory until CMD_STREAM_ADOPT */
	STREAM_CONNECTED = 1u << 1, /* the peer has answered */
	STREAM_IN = 1u << 2,        /* the program waits for it: there is something to read */
	STREAM_OUT = 1u << 3,       /* the program waits for it: there is room to write */
	STREAM_PEER_FIN = 1u << 4,
	STREAM_CLOSED = 1u << 5, /* the last report about the stream; the worker no longer uses its memory */
};

#endif
