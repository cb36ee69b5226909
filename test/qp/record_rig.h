/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of records over datagrams. Record m has a place of its own in the memory of each side. */
#ifndef RECORD_RIG_H
#define RECORD_RIG_H

#include "gram_rig.h"

#define SLOTS 24u
#define SLOT  16384u /* bytes of a record's place */

struct write {
	uint32_t m, len;
	uint64_t to;
	uint32_t rkey, qkey;
	uint8_t op;
	bool group; /* addressed to a group; rkey is the tag */
};

struct rig *pair_with(uint32_t cqe);
struct rig *pair(void);
/* Byte i of record number m; it never equals the byte that memory is filled with. */
uint8_t byte_of(uint32_t m, uint32_t i);
/* The tagged offset of record m's place at the target. */
uint64_t there(uint32_t m);
void post_write(struct rig *r, const struct write *x);
void post(struct rig *r, uint32_t m, uint32_t len);
/* Checks a completion of record m and its octets; returns at which offset of the record they begin. */
uint32_t told(struct rig *r, const struct qp_cqe *c, uint32_t m);

#endif
