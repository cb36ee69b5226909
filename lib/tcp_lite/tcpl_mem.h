/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of a connection, which its owner gives. What lies in it is the engine's alone, but for the chunks. */
#ifndef TCPL_MEM_H
#define TCPL_MEM_H

#include <stdint.h>

#define TCPL_PATHS 8u /* of one connection at most */

/* One unit of the send queue: an FPDU or MPA frame. `ref` is the owner's; the bytes must stay until it is popped. */
struct tcpl_chunk {
	uint32_t len;
	uint32_t seq; /* of its first byte */
	uint64_t ref;
};

/* One transmitted segment that is not yet acknowledged. */
struct tcpl_txrec {
	uint32_t seq;
	uint32_t end;   /* one past its last sequence number, FIN included */
	uint32_t chunk; /* where its first byte lies */
	uint32_t off;
	uint64_t sent; /* ns of the last transmission */
	uint8_t flags;
	uint8_t rexmits;     /* times sent again; 255: that often or more */
	uint16_t run;        /* this record and the run - 1 behind it are SACKed; 0: unknown */
	uint16_t next, prev; /* in flight: slots of its neighbours in the order of transmission */
};

/* What had been delivered when the segment of a tcpl_txrec left: with it the segment's delivery gives a rate. */
struct tcpl_sent {
	uint32_t delivered; /* bytes so far, wraps */
	uint32_t acked_ago; /* ns since the last of them were acknowledged; at most 4.29 s, as the next */
	uint32_t began_ago; /* ns since tcpl_delivery.began */
	uint32_t limited;   /* 1: the owner had less to send than the path takes */
};

/* One out-of-order segment (or placed range). */
struct tcpl_hold {
	uint64_t ref;
	uint32_t seq;
	uint32_t len;
	uint32_t off;
	uint32_t pad;
};

/* One path of the network: which of its segments have arrived, for RACK (RFC 8985, 6.2), and which are in flight. */
struct tcpl_track {
	uint64_t sent, rtt;   /* of the most recently sent segment known to have arrived */
	uint64_t slow;        /* ns: the longest rtt of late; 0: nothing has arrived yet */
	uint32_t end;         /* where that segment ends */
	uint32_t fack;        /* highest sequence number known to have arrived */
	uint16_t first, last; /* slots: the records in flight in the order of transmission; TCPL_NO_SLOT: none */
};

/* Owned by the caller, valid until the connection is CLOSED and drained. */
struct tcpl_mem {
	struct tcpl_chunk *chunk;
	struct tcpl_txrec *rec;
	uint32_t chunk_n;         /* power of two: chunks that can be queued and unacknowledged */
	uint32_t rec_n;           /* power of two, at most 32768: segments that can be in flight */
	struct tcpl_track *track; /* TCPL_PATHS - 1, with tcpl_cfg.tracks; else NULL */
	struct tcpl_hold *hold;
	struct tcpl_sent *sent; /* rec_n; needed, and else NULL, when the congestion control models the path */
	uint32_t hold_n;        /* ≥ 1: out-of-order segments kept, e.g. 64 */
};

#endif
