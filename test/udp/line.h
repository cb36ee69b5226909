/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A simulated line that several flows share: first in, first out, with a tail-drop queue in front of it. A flow is one
 * of udpr.h or a connection of tcp_lite. A flow always has something to send, and each of its packets fills a frame of
 * LINE_FRAME octets. Answers come back after half a round trip, over a line that is never full. Time is simulated, and
 * a seed determines a run.
 */
#ifndef LINE_H
#define LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "tcp_lite/tcpl.h"
#include "udp/udpr.h"

#define LINE_FLOWS 4u
#define LINE_FRAME 1538u /* octets that a full Ethernet frame takes on the line: MTU 1500, header, CRC, gap */

/*
 * Which version of udpr.h an end has. An old one knows neither UDPR_F_MUCH nor a window of more than UDPR_WINDOW: a
 * sender does not set the flag and takes UDPR_SACKS ranges, a receiver does not look at the flag.
 */
enum line_age { LINE_NEW = 0, LINE_OLD };

struct line_flow_cfg {
	const struct tcpl_cc *cc; /* of a TCP connection; NULL: a flow of udpr.h */
	enum line_age tx, rx;     /* of a flow of udpr.h */
	uint64_t packets;         /* as many packets of a flow of udpr.h are sent; 0: without end */
};

struct line_cfg {
	uint32_t gbps;
	uint64_t rtt_ns;        /* round trip of a frame that finds the queue empty, without its time on the line */
	uint32_t quarters;      /* the queue's length in quarters of what the line carries in rtt_ns */
	uint32_t loss, reorder; /* frames of a million that are lost at random, or overtake the frame before */
	uint64_t seed;
};

struct line;

/* The caller frees the line by line_free(). */
struct line *line_new(const struct line_cfg *cfg);
void line_free(struct line *l);
/* A flow that begins now. Returns its number. */
uint32_t line_add(struct line *l, const struct line_flow_cfg *cfg);
/* Simulates this many nanoseconds more. */
void line_run(struct line *l, uint64_t ns);
/* The flow gets nothing more to send. */
void line_stop(struct line *l, uint32_t flow);
/* From now on a frame is on the way for this much longer in each direction. */
void line_longer(struct line *l, uint64_t ns);
/* How many packets of the flow its receiver has got, each counted once. */
uint64_t line_got(const struct line *l, uint32_t flow);
/* How many packets the line carries in this time. */
double line_holds(const struct line *l, uint64_t ns);

/* What was seen of a flow of udpr.h. */
struct line_seen {
	uint32_t widest;    /* packets from the lowest one not known as delivered to the last one sent, at most */
	uint32_t far;       /* packets that the receiver dropped because they lay outside its window */
	uint32_t twice;     /* packets that were delivered twice */
	uint32_t misplaced; /* packets whose number was not that of their place in the flow's order */
	uint32_t strange;   /* ACKs that the sender drops, or that tell an old sender what only a new one knows */
	uint32_t lost;      /* packets that the sender calls failed */
	uint64_t told;      /* packets that the sender calls delivered */
	uint64_t untrue;    /* of these, packets that had not been delivered */
};
void line_look(const struct line *l, uint32_t flow, struct line_seen *seen);

#endif
