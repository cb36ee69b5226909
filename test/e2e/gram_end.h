/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs that are one end of datagrams: the end, its queue pair and its memory. */
#ifndef GRAM_END_H
#define GRAM_END_H

#include "cm_rig.h"

#include <rnic/rnicdv.h>

#define QKEY 0x1234u

extern struct end e;             /* the device and the objects made on it */
extern uint32_t gram_flags;      /* RNICDV_QP_* flags of the queue pairs that gram_qp() makes */
extern uint32_t gram_maps;       /* number of record maps of these queue pairs */
extern uint16_t gram_port;       /* UDP port of the queue pair that gram_qp() makes; 0: the device's port */
extern struct ibv_srq *gram_srq; /* shared receive queue of these queue pairs; NULL: each has its own receive queue */
extern int gram_rnr;             /* rnr_retry of these queue pairs; -1: the default */

/* Unless ok, prints `what` and errno's text, and ends the program. */
void must(bool ok, const char *what);
/* Makes a queue pair in RTS; each of its requests is signalled. ops: IBV_QP_EX_WITH_*, 0 for ibv_post_send() only. */
struct ibv_qp *gram_qp(struct ibv_cq *cq, enum rnicdv_qp_type type, struct ibv_qp_cap cap, uint64_t ops);
/* Registers zeroed memory. */
uint8_t *gram_memory(size_t size, int access, struct ibv_mr **mr);

#endif
