/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The messages of many segments that a datagram queue pair is receiving: which octets of each have come, which message
 * has waited too long, which one is over. Every segment tells its message's number, length and unit, and its own place,
 * so that segments may come in any order and any of them, the first and the last included, may begin a message here.
 *
 * Bounded: DGRAM_OPEN messages are open at a time, DGRAM_PER_SOURCE of one sender, and DGRAM_OVER are remembered after
 * their end, so that a segment that comes late or twice does not begin its message again.
 *
 * Pure: `now` goes in. The worker that owns the queue pair. Lengths are octets, times nanoseconds.
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
#define DGRAM_OVER_BY_ID 256u /* above DGRAM_OVER: a sender's next number mostly finds nothing; a power of two */

/* What tells messages apart. No padding: compared as bytes. */
struct dgram_key {
	uint8_t src[16]; /* address of the sender */
	uint32_t src_qpn;
	uint32_t id; /* MSN: counts the sender's messages */
};

struct dgram_msg {
	struct dgram_key key;
	bool open;
	bool holds;  /* it has a receive of the queue pair: the one of its place */
	bool record; /* an RDMA Write-Record and no Send; the fields below of it */
	bool has_imm;
	uint8_t imm[4];
	uint32_t stag;
	uint32_t told; /* its completions tell of its octets before this one */
	uint64_t to;   /* tagged offset of its first octet */
	uint8_t place; /* index of the message among those of its table */
	uint32_t unit, total;
	uint32_t valid;                   /* octets that have come */
	uint64_t at;                      /* when the last new segment came */
	struct rn_link link;              /* of open ones: in the worker's list, the longest waiting first */
	uint64_t map[UDPL_SEGS_MAX / 64]; /* a bit for each segment that has come */
};

struct dgram_track {
	struct dgram_msg msg[DGRAM_OPEN];
	uint32_t n_open;
	uint32_t last;                        /* index: segments mostly come one message after the other */
	uint32_t next;                        /* of over[]: the oldest one, which is forgotten next */
	uint8_t over_by_id[DGRAM_OVER_BY_ID]; /* how many entries of over[] have an id with this remainder */
	struct dgram_over {
		struct dgram_key key;
		uint64_t at; /* when the message ended; 0: the entry is empty */
	} over[DGRAM_OVER];
};

/* The open message of this key, or NULL. */
struct dgram_msg *dgram_track_find(struct dgram_track *t, const struct dgram_key *k);

/* Whether the message has ended within the last `linger`. */
bool dgram_track_over(const struct dgram_track *t, const struct dgram_key *k, uint64_t now, uint64_t linger);

/* The message that must end before this sender can begin another one: its oldest, when it has DGRAM_PER_SOURCE. */
struct dgram_msg *dgram_track_crowded(struct dgram_track *t, const struct dgram_key *k);

/* A message begins; total and unit as udpl_parse() let them pass. NULL: DGRAM_OPEN are open. */
struct dgram_msg *dgram_track_open(struct dgram_track *t, const struct dgram_key *k, uint32_t unit, uint32_t total);

/* The message ends, or is not to begin (no place: m NULL), and is remembered. */
void dgram_track_end(struct dgram_track *t, struct dgram_msg *m, const struct dgram_key *k, uint64_t now);

/* Whether a segment of len octets at `off` is one of the message: of its unit, or what is left at its end. */
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
 * The first octets from *off on that have come, in one piece: *off becomes where they begin. Returns how many; 0: there
 * are none.
 */
uint32_t dgram_msg_valid(const struct dgram_msg *m, uint32_t *off);

/* The segment at `off`, which fits and has not come before, has been placed. */
static inline void dgram_msg_mark(struct dgram_msg *m, uint32_t off, uint32_t len)
{
	const uint32_t i = off / m->unit;

	m->map[i / 64] |= UINT64_C(1) << i % 64;
	m->valid += len;
}

#endif
