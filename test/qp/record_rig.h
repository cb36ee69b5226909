/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests of records over datagrams: two devices, A and B, with a queue pair each, and in the wire's place an array
 * of datagrams, which the test hands on as it likes. Record m has a place of its own in the memory of either side.
 */
#ifndef RECORD_RIG_H
#define RECORD_RIG_H

#include "dgram/dgram.h"
#include "rig.h"

#define UNIT    (3 * UDPL_UNIT)
#define QKEY    0x11111111u
#define A       (&r->n[0])
#define B       (&r->n[1])
#define TIMEOUT (200 * RN_NS_PER_MS)
#define GRAM    (UNIT + UDPL_HDR_LEN + DGRAM_INNER_MAX + UDPL_CRC_LEN)
#define WIRE    4096u
#define SLOTS   24u
#define SLOT    16384u /* bytes of memory of each record, on both sides */
#define FROM    65536u

struct gram {
	uint32_t len;
	uint8_t p[GRAM];
};

struct write {
	uint32_t m, len;
	uint64_t to;
	uint32_t rkey, qkey;
	uint8_t op;
};

extern struct dgram_msgs msgs[2]; /* of A and B */
extern struct gram wire[WIRE];
extern uint32_t n_wire;

struct rig *pair_with(uint32_t cqe);
struct rig *pair(void);
/* Byte i of record number m; none is what the memory was filled with. */
uint8_t byte_of(uint32_t m, uint32_t i);
/* Where record m lies at the target. */
uint64_t there(uint32_t m);
void post_write(struct rig *r, const struct write *x);
void post(struct rig *r, uint32_t m, uint32_t len);
/* All that a node has to send goes onto the wire. */
void send_from(struct rig_node *n);
void send_all(struct rig *r);
void in_at(struct rig_node *n, const struct gram *g);
void in(struct rig *r, const struct gram *g);
void clock_on(struct rig *r, uint64_t ns);
struct qp_stats *stats(struct rig *r);
struct qp_cqe got(struct spsc_cons *c);
void none(struct spsc_cons *c);
/* A completion of record m, whose octets are there: returns where they begin in the record. */
uint32_t told(struct rig *r, const struct qp_cqe *c, uint32_t m);

#endif
