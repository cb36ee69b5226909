/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of datagrams: two devices, A and B, with one queue pair each. The wire is an array of datagrams, from which
 * the test delivers as it likes. The test's function has a variable r, the rig.
 */
#ifndef GRAM_RIG_H
#define GRAM_RIG_H

#include "dgram/dgram.h"
#include "rig.h"

#define UNIT    (3 * UDPL_UNIT)
#define QKEY    0x11111111u
#define A       (&r->n[0])
#define B       (&r->n[1])
#define TIMEOUT (200 * RN_NS_PER_MS)
#define GRAM    (UNIT + UDPL_HDR_LEN + DGRAM_INNER_MAX + UDPL_CRC_LEN)
#define WIRE    4096u
#define FROM    65536u /* offset of the memory that messages lie in, on both sides */

struct gram {
	uint32_t len;
	uint8_t p[GRAM];
};

extern const uint8_t addr_a[16], addr_b[16];
extern struct dgram_msgs msgs[2]; /* addresses of A and B */
extern struct gram wire[WIRE];
extern uint32_t n_wire;
extern uint32_t piece_len;     /* octets of the pieces of memory into which A and B build datagrams; 0: one piece */
extern const uint8_t *to_addr; /* destination address of received datagrams: addr_b, or that of a group */

/* Makes queue pair 0 of each node one of datagrams, ready to send. cqe: entries of the CQ; 0: the rig's default. */
struct rig *gram_pair(uint32_t cqe, uint32_t max_msg_of_b);
/* Destroys queue pair 0 of A and makes it anew, with the same number. msn: as of dgram_msgs_init(). */
void gram_anew(struct rig *r, uint32_t msn);
/* Puts everything that a node has to send onto the wire. */
void send_from(struct rig_node *n);
void send_all(struct rig *r); /* the same for A */
/* The node receives the datagram. host: last octet of the sender's address; A's is 1. */
void in_from(struct rig_node *n, const struct gram *g, uint8_t host);
void in_at(struct rig_node *n, const struct gram *g);
void in(struct rig *r, const struct gram *g); /* B receives the datagram from A */
/*
 * B receives one of the first `reorder` datagrams of the wire: 8 % also stay on the wire, 5 % are lost, 5 % get a bit
 * flipped.
 */
void one_of_the_wire(struct rig *r, struct rn_rng *rng, uint32_t reorder);
void clock_on(struct rig *r, uint64_t ns);
struct qp_stats *stats(struct rig *r); /* statistics of B */
struct qp_cqe got(struct spsc_cons *c);
void none(struct spsc_cons *c);

#endif
