/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of a client's queues: the rig R, and its nodes A and B with flow 0 connected. */
#ifndef CLIENT_RIG_H
#define CLIENT_RIG_H

#include "rig.h"

extern struct rig *R;
#define A (&R->n[0])
#define B (&R->n[1])

void up_with(const struct rig_cfg *cfg);
void up(void); /* with the defaults of rig_defaults() */
/* A signaled work request for A. Its remote address is 1 MiB into B's memory. */
struct rig_wr wr(uint8_t op, uint64_t id, const struct qp_sge *sge);
void expect(struct spsc_cons *c, uint64_t id, uint8_t status);
void expect_none(struct spsc_cons *c);

#endif
