/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs begin with that are one end of datagrams: the end, its queue pair and its memory. */
#ifndef GRAM_END_H
#define GRAM_END_H

#include "cm_rig.h"

#include <rnic/rnicdv.h>

#define QKEY 0x1234u

extern struct end e;             /* the device and what is made on it */
extern uint32_t gram_flags;      /* RNICDV_QP_* of the queue pairs that are made */
extern uint32_t gram_maps;       /* maps of records that they have */
extern uint16_t gram_port;       /* the UDP port of the queue pair that is made; 0: the device's */
extern struct ibv_srq *gram_srq; /* of the queue pairs that are made; NULL: each has its own receive queue */
extern int gram_rnr;             /* their rnr_retry; -1: what a new queue pair has */

/* Ends the program and says what is not so, with errno's sentence, unless ok. */
void must(bool ok, const char *what);
/* A queue pair in RTS, each of whose completions is told. ops: IBV_QP_EX_WITH_*, 0 for ibv_post_send() alone. */
struct ibv_qp *gram_qp(struct ibv_cq *cq, enum rnicdv_qp_type type, struct ibv_qp_cap cap, uint64_t ops);
/* Zeroed, registered memory. */
uint8_t *gram_memory(size_t size, int access, struct ibv_mr **mr);

#endif
