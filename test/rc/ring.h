/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The reliable connection over a stream that is not TCP: two rings of bytes in memory. The adapter works like one over
 * a kernel's socket: bytes are written while the ring has room, at any boundary; each read returns the bytes that
 * happen to be there; no bytes come out of order. There are no acknowledgements: enum ring_done says when a record
 * counts as acknowledged. Queue pairs and memory are those of the rig, whose TCP is not used.
 */
#ifndef RING_H
#define RING_H

#include "base/rn_seq.h"
#include "rig.h"

#define RING_QUEUE 128u /* records that are queued or not yet acknowledged */

/* The time at which a record counts as acknowledged. */
enum ring_done {
	RING_TAKEN, /* when the ring has its last byte, as a socket's write tells */
	RING_READ   /* when the peer has read its last byte, as a socket's count of unacknowledged bytes tells */
};

/* One direction of the stream. */
struct ring_pipe {
	uint8_t buf[1 << 16];
	uint32_t size;       /* capacity in bytes, <= sizeof(buf) */
	uint32_t head, tail; /* free-running positions: next byte to read, end of the written bytes */
	bool fin, rst;       /* the direction ends behind its last byte (fin); it is reset (rst) */
	bool stalled;        /* for now nothing comes out, as on a path with an outage */
};

struct ring_rec {
	uint64_t ref;
	uint32_t len, end; /* end: position behind the record's last byte */
};

struct ring_end {
	struct rc rc;
	struct rig_node *n;
	struct ring_pipe *in, *out;
	struct ring_rec q[RING_QUEUE];
	/* free-running indices in q: first unacknowledged record, first record not written, end */
	uint32_t head, next, tail;
	uint32_t off;    /* number of bytes of q[next] that are written */
	uint32_t queued; /* position behind the last queued byte */
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
	/* Takes an effect of an end. NULL: the ring accepts connections, and keeps the effects in `fx`. */
	void (*take)(void *owner, int id, const struct qp_fx *fx);
	void *owner;
};

/* Makes both ends, unconnected. first: the position at which the streams begin. */
struct ring *ring_new(const struct rig_cfg *cfg, uint32_t mss, enum ring_done done, uint32_t first);
/* Also checks that both connections are FREE, and that all records and all memory have come back. */
void ring_free(struct ring *g);

/* End 0 connects its queue pair to end 1's; runs until both are established. */
void ring_connect(struct ring *g);
/* Gives each end a turn. False: nothing has happened. */
bool ring_turn(struct ring *g);
/* Runs until nothing happens any more. */
void ring_run(struct ring *g);
/* Moves the clock on by ns nanoseconds, in steps, and runs after each step. */
void ring_wait(struct ring *g, uint64_t ns);
/* Runs until a completion comes; fails the test if none can come. */
struct qp_cqe ring_cqe(struct ring *g, struct spsc_cons *c);
/* The first effect of this type, or NULL. */
const struct qp_fx *ring_fx(const struct ring *g, int id, enum qp_fx_type type);

#endif
