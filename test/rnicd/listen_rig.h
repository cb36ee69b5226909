/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of listeners: a worker with one port whose wire leads back to the port, a listener of stream sockets, and
 * segments of peers that the test makes.
 */
#ifndef TEST_RNICD_LISTEN_RIG_H
#define TEST_RNICD_LISTEN_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "eal.h"
#include "plane/stream_iwarp.h"

#define LPORT   80u
#define BACKLOG 1u
#define HALF    (BACKLOG + 64u) /* half-open connections that the listener may have */
#define STREAMS (4 * HALF + 4)  /* of which a quarter may be half open */
#define ISS     999u            /* of all peers */

extern struct rnicd_port port;
extern struct rnicd_port_cfg port_cfg;
extern struct rnicd_worker w;
extern struct pkt_addr peer_ip; /* where the peers' segments come from */

/* For cmocka: a worker as above, and its end, which finds packet buffers that were not freed. */
int listen_setup(void **state);
int listen_teardown(void **state);

/* Puts a segment of the peer with the TCP port `from`, with s->payload_len octets at p, on the wire. */
void put_segment(uint16_t to, uint16_t from, struct pkt_tcp_seg s, const uint8_t *p);
/* A segment without payload. */
void segment_to(uint16_t to, uint16_t from, uint32_t seq, uint32_t ack, uint8_t flags);
/* The same to the listener of the rig; syn(): the peer's first one. */
void segment(uint16_t from, uint32_t seq, uint32_t ack, uint8_t flags);
void syn(uint16_t from);
/* Handles what is on the wire as one burst. */
void one_burst(uint32_t frames);
/* The steps of a turn behind its bursts. */
void rest_of_turn(void);

/* The stream of the peer with this TCP port. NULL: none. */
struct stream *stream_of(uint16_t from);
uint32_t free_streams(void);
/* A program connects to a host that does not answer ARP. */
struct stream *open_to_nobody(struct ipc_stream *mem, uint16_t lport);

#endif
