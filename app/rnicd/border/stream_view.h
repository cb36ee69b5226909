/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of a user (uid) as one worker sees them: where the doorbells are, and which socket each bit belongs to.
 * The control thread makes a struct stream_user and never frees it. From CMD_STREAM_JOIN on only the worker writes it.
 */
#ifndef STREAM_VIEW_H
#define STREAM_VIEW_H

#include <stdbool.h>

#include "ipc/ipc_stream.h"

struct stream; /* plane/stream.h: a stream socket's connection; other rooms only store its address and its number */
struct gram;   /* gram_view.h */

struct stream_user {
	struct ipc_sock_bell *bell; /* this worker's doorbell, in memory shared with the user's programs: not trusted */
	uint32_t blocks;            /* the worker looks at this many blocks of `bell`: no socket has had a bit beyond */
	uint32_t first;             /* the word of `bell` with which the worker begins: stream_user_take() */
	struct stream_user *next;   /* the worker's list */
	uint8_t tenant;             /* of the queue pairs of the user's streams (qp_attr); constant */
	struct stream *at[IPC_MAX_SOCKS]; /* by doorbell bit; NULL: no such stream */
	struct gram *gram[IPC_MAX_SOCKS]; /* the same for datagram sockets; a bit belongs to one socket */
};

/* Notes that a socket has this bit from now on. */
static inline void stream_user_uses(struct stream_user *u, uint32_t bit)
{
	u->blocks = rn_max_u32(u->blocks, bit / IPC_MAX_QPS + 1);
}

/* Writes need_wakeup into the doorbells of all users of the worker's list. */
static inline void stream_users_say_sleeping(struct stream_user *u, uint32_t value)
{
	for (; u != NULL; u = u->next)
		for (uint32_t i = 0; i < u->blocks; i++)
			__atomic_store_n(&u->bell->block[i].need_wakeup, value, __ATOMIC_RELAXED);
}

/*
 * What a user may have of a turn, however many bits its programs set: about as many as stream_transmit() looks at. A
 * word of the doorbell is begun while the user has bits left, so up to 63 more may be taken.
 */
#define STREAM_RINGS_EACH 64u
#define STREAM_RINGS_MAX  (STREAM_RINGS_EACH + 63)
#define STREAM_WORDS      (IPC_MAX_QPS / 64) /* of a block */

/*
 * Takes bits that the user's programs have set, in the order of their words; words that are left go first next time.
 * Returns how many.
 */
static inline uint32_t stream_user_take(struct stream_user *u, uint32_t rung[STREAM_RINGS_MAX])
{
	const uint32_t first = u->first;
	uint32_t n = 0;

	/* the words ahead of `first` in its block are the last ones */
	for (uint32_t i = 0; u->blocks != 0 && i <= u->blocks; i++) {
		const uint32_t block = (first / STREAM_WORDS + i) % u->blocks;
		const uint64_t ahead = ~(UINT64_MAX << first % STREAM_WORDS);
		const uint64_t mask = i == 0 ? ~ahead : i == u->blocks ? ahead : UINT64_MAX;
		struct ipc_doorbell *db = &u->bell->block[block];
		if (rn_likely((__atomic_load_n(&db->summary, __ATOMIC_RELAXED) & mask) == 0))
			continue;
		uint64_t words = __atomic_fetch_and(&db->summary, ~mask, __ATOMIC_ACQUIRE) & mask;
		for (; words != 0; words &= words - 1) {
			const uint32_t word = (uint32_t)__builtin_ctzll(words);
			if (n >= STREAM_RINGS_EACH) {
				__atomic_fetch_or(&db->summary, words, __ATOMIC_RELAXED);
				u->first = block * STREAM_WORDS + word;
				return n;
			}
			/* acquire: pairs with the program's release; its indices are in the rings */
			uint64_t bits = __atomic_exchange_n(&db->bits[word], 0, __ATOMIC_ACQUIRE);
			for (; bits != 0; bits &= bits - 1)
				rung[n++] = block * IPC_MAX_QPS + word * 64 + (uint32_t)__builtin_ctzll(bits);
		}
	}
	return n;
}

/* Whether a program of a user of the list has rung. */
static inline bool stream_users_rung(const struct stream_user *u)
{
	for (; u != NULL; u = u->next)
		for (uint32_t i = 0; i < u->blocks; i++)
			if (__atomic_load_n(&u->bell->block[i].summary, __ATOMIC_RELAXED) != 0)
				return true;
	return false;
}

/* The port of a listener at all ports. STREAM_IP4, STREAM_IP6: the families of the addresses at which it listens. */
#define STREAM_ANY_PORT UINT32_MAX
enum { STREAM_IP4 = 1u << 0, STREAM_IP6 = 1u << 1 };

/* What a worker tells the control thread of a stream (EVENT_STREAM); bits. */
enum {
	STREAM_ARRIVED = 1u << 0,   /* a new connection of a listener; without memory until CMD_STREAM_ADOPT */
	STREAM_CONNECTED = 1u << 1, /* the peer has answered */
	STREAM_IN = 1u << 2,        /* there is something to read, and the program waits for this */
	STREAM_OUT = 1u << 3,       /* there is room to write, and the program waits for this */
	STREAM_PEER_FIN = 1u << 4,
	STREAM_CLOSED = 1u << 5, /* the last report about the stream; the worker no longer uses its memory */
};

#endif
