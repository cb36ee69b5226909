/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable connection over a stream that is no TCP: two rings of bytes in memory. An adapter as one over a kernel's
 * socket would be: bytes are written while the ring has room, at any boundary; they are read as many at once as there
 * happen to be; nothing comes early, and nobody says which bytes the peer has. Queue pairs and memory are the rig's,
 * its TCP is not used.
 */
#ifndef RING_H
#define RING_H

#include "base/rn_seq.h"
#include "rig.h"

#define RING_QUEUE 128u /* records queued or not yet done with */

/* When a record counts as acknowledged. */
enum ring_done {
	RING_TAKEN, /* the ring has taken its last byte: what a socket's write can tell */
	RING_READ   /* the peer has read its last byte: what a socket's count of unacknowledged bytes can tell */
};

/* One direction. */
struct ring_pipe {
	uint8_t buf[1 << 16];
	uint32_t size;       /* bytes that it holds at most, <= sizeof(buf) */
	uint32_t head, tail; /* positions: next byte to be read, end of what was written; free running */
	bool fin, rst;       /* written behind the last byte; instead of it */
};

struct ring_rec {
	uint64_t ref;
	uint32_t len, end; /* end: position behind its last byte */
};

struct ring_end {
	struct rc rc;
	struct rig_node *n;
	struct ring_pipe *in, *out;
	struct ring_rec q[RING_QUEUE];
	uint32_t head, next, tail; /* in q, free running: oldest not done with, first not written, end */
	uint32_t off;              /* bytes of q[next] that are written */
	uint32_t queued;           /* position behind all that is queued */
	bool fin_due;
	struct qp_fx fx[8];
	uint32_t n_fx;
};

struct ring {
	struct rig *r;
	struct ring_pipe pipe[2];
	struct ring_end end[2];
	uint32_t mss;
	enum ring_done done;
};

/* Both ends are there and not connected. first: the position that the streams begin with. */
struct ring *ring_new(const struct rig_cfg *cfg, uint32_t mss, enum ring_done done, uint32_t first);
/* Also checks that each record and all memory came back: both connections must be FREE. */
void ring_free(struct ring *g);

/* End 0 connects its queue pair to end 1's; runs until both are established. */
void ring_connect(struct ring *g);
/* A turn of each end. False: nothing has happened. */
bool ring_turn(struct ring *g);
/* Until nothing happens any more. */
void ring_run(struct ring *g);
/* The same, until the clock has gone on by so much, in steps. */
void ring_wait(struct ring *g, uint64_t ns);
/* The next completion; the test fails when none can come. */
struct qp_cqe ring_cqe(struct ring *g, struct spsc_cons *c);
/* What was told of this kind, or NULL. */
const struct qp_fx *ring_fx(const struct ring *g, int id, enum qp_fx_type type);

#endif
