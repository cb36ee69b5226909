/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef VERBS_CASES_H
#define VERBS_CASES_H

#include "cm_rig.h"

/* A work request of the client: its operation and its target. */
struct to {
	enum ibv_wr_opcode op;
	uint64_t addr;
	uint32_t rkey; /* SEND_WITH_INV: the key to invalidate */
	unsigned flags;
};
/* Posts a signalled request with one SGE, from or to the client's memory. */
bool post_to(struct rdma_cm_id *id, const struct to *to, uint64_t wr_id, void *from, uint32_t len);

/* verbs_faults.c */
bool remote_faults_are_told_to_both(void);
bool local_faults_are_told_at_home(void);
bool receives_that_cannot_take_their_message(void);
bool a_cq_that_overflows_is_told_to_its_owner(void);
bool a_qp_is_destroyed_under_traffic(void);
bool memory_is_deregistered_under_traffic(void);
bool requests_that_cannot_be_are_refused_at_once(void);

#endif
