/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of records over datagrams. Record m has a place of its own in the memory of either side. */
#ifndef RECORD_RIG_H
#define RECORD_RIG_H

#include "gram_rig.h"

#define SLOTS 24u
#define SLOT  16384u /* bytes of memory of each record, on both sides */

struct write {
	uint32_t m, len;
	uint64_t to;
	uint32_t rkey, qkey;
	uint8_t op;
	bool group; /* it goes to a group; rkey is the tag */
};

struct rig *pair_with(uint32_t cqe);
struct rig *pair(void);
/* Byte i of record number m; none is what the memory was filled with. */
uint8_t byte_of(uint32_t m, uint32_t i);
/* Where record m lies at the target. */
uint64_t there(uint32_t m);
void post_write(struct rig *r, const struct write *x);
void post(struct rig *r, uint32_t m, uint32_t len);
/* A completion of record m, whose octets are there: returns where they begin in the record. */
uint32_t told(struct rig *r, const struct qp_cqe *c, uint32_t m);

#endif
