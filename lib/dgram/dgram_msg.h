/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of messages of many segments that a datagram queue pair is receiving: which octets of each have arrived,
 * which message has waited too long, which message has ended. Every segment carries its message's number, length and
 * unit, and its own offset, so segments may come in any order, and any of them may be the first to arrive.
 *
 * Bounded: DGRAM_OPEN messages are open at a time, DGRAM_PER_SOURCE of one sender, and DGRAM_OVER are remembered after
 * their end, so that a segment that comes late or twice does not begin its message again.
 *
 * Pure: the caller passes the time `now`. Threads: the worker that owns the queue pair. Lengths are octets, times are
 * nanoseconds.
 */
#ifndef DGRAM_MSG_H
#define DGRAM_MSG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_list.h"
#include "udp/udpl.h"

#define DGRAM_OPEN       32u
#define DGRAM_PER_SOURCE 8u
#define DGRAM_OVER       64u
#define DGRAM_OVER_BY_ID 256u /* more than DGRAM_OVER, so that the counter of a new id is mostly 0; a power of two */

/* Identifies a message. */
struct dgram_key {
	uint8_t src[16]; /* address of the sender */
	uint32_t src_qpn;
	uint32_t id; /* MSN: the sender numbers its messages */
};

struct dgram_msg {
	struct dgram_key key;
	bool open;
	bool holds;  /* the message holds a receive of the queue pair: the one at its place */
	bool record; /* an RDMA Write-Record, not a Send; the fields down to `to` are for records */
	bool has_imm;
	uint8_t imm[4];
	uint32_t stag;
	uint32_t told; /* completions have been written for the octets before this one */
	uint64_t to;   /* tagged offset of the record's first octet */
	uint8_t place; /* index of the message in its table */
	uint32_t unit, total;
	uint32_t valid;                   /* octets that have arrived */
	uint64_t at;                      /* when the last new segment arrived */
	struct rn_link link;              /* in the worker's list of open messages, the longest waiting first */
	uint64_t map[UDPL_SEGS_MAX / 64]; /* a bit for each segment that has arrived; further bits are not valid */
};

struct dgram_track {
	struct dgram_msg msg[DGRAM_OPEN];
	uint32_t n_open;
	uint32_t last;                        /* index of the message used last: most segments belong to it */
	uint32_t next;                        /* index in over[] of the oldest entry, which is replaced next */
	uint8_t over_by_id[DGRAM_OVER_BY_ID]; /* how many entries of over[] have this id % DGRAM_OVER_BY_ID */
	struct dgram_over {
		struct dgram_key key;
		uint64_t at; /* when the message ended; 0: the entry is empty */
	} over[DGRAM_OVER];
};

/* The open message of this key, or NULL. */
struct dgram_msg *dgram_track_find(struct dgram_track *t, const struct dgram_key *k);

/* Whether the message has ended within the last `linger`. */
bool dgram_track_over(const struct dgram_track *t, const struct dgram_key *k, uint64_t now, uint64_t linger);

/*
 * The message that must end before the sender of this key can begin another one: the sender's oldest message if
 * DGRAM_PER_SOURCE of its messages are open, else NULL.
 */
struct dgram_msg *dgram_track_crowded(struct dgram_track *t, const struct dgram_key *k);

/* Begins a message; udpl_parse() has checked total and unit. NULL: DGRAM_OPEN are open. */
struct dgram_msg *dgram_track_open(struct dgram_track *t, const struct dgram_key *k, uint32_t unit, uint32_t total);

/* Ends message m and remembers its key. m NULL: remembers the key alone, of a request for a Read-Record. */
void dgram_track_end(struct dgram_track *t, struct dgram_msg *m, const struct dgram_key *k, uint64_t now);

/* Whether a segment of len octets at `off` fits the message: it has a unit's length, or is the rest at the end. */
static inline bool dgram_seg_fits(uint32_t unit, uint32_t total, uint32_t off, uint32_t len)
{
	return off < total && off % unit == 0 && len == rn_min_u32(unit, total - off);
}

static inline bool dgram_msg_has(const struct dgram_msg *m, uint32_t off)
{
	const uint32_t i = off / m->unit;

	return (m->map[i / 64] >> i % 64 & 1) != 0;
}

/*
 * Finds the first range of valid octets from *off on; *off becomes where it begins. Returns its length; 0: there is
 * none.
 */
uint32_t dgram_msg_valid(const struct dgram_msg *m, uint32_t *off);

/* Records that the segment at `off` has been placed. The caller has checked that it fits and is not a duplicate. */
static inline void dgram_msg_mark(struct dgram_msg *m, uint32_t off, uint32_t len)
{
	const uint32_t i = off / m->unit;

	m->map[i / 64] |= UINT64_C(1) << i % 64;
	m->valid += len;
}

#endif
