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
#define STREAMS (HALF + 1)      /* one of them is connected, or free */
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

#endif
