/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicrun --inject at the queues of a program: completions that fail or come later, receives that reach the device
 * later, asynchronous events, the end of the connection to rnicd. inject.h knows which; here they happen.
 */
#ifndef RNIC_FAIL_H
#define RNIC_FAIL_H

#include "rnic/verbs/objects.h"

/* ---- private to lib/rnic/verbs ---- */

/* fail.c; under the CQ's lock: *e, or *out, a copy of it that fails. What comes beside it comes. */
RN_COLD const struct qp_cqe *rnic_fail_cqe(struct rnic_cq *cq, const struct qp_cqe *e, struct qp_cqe *out);
/* The session is new: events are due at their times, and rnicctl may send other rules. */
RN_COLD void rnic_fail_begin(struct rnic_session *s);
/* rnicd is away, as far as this process can see: daemon:N=GONE/TIME. */
bool rnic_fail_away(void);
/* The queue pair's side of its connection, where a rule asks for it. */
struct inject_what rnic_fail_what(enum inject_at at, uint32_t opcode, uint32_t qpn);

/* orders.c: from now on rnicctl inject reaches the process. */
RN_COLD void rnic_orders_begin(struct rnic_session *s);

/* fail_late.c; under the CQ's lock: whether it gives nothing now; whether e, the next one of a ring, is held back. */
RN_COLD bool rnic_fail_holds(const struct rnic_cq *cq);
RN_COLD bool rnic_fail_holds_back(struct rnic_cq *cq, uint32_t ring, const struct qp_cqe *e);
/* In the place of the functions that post, in a process that has RNIC_INJECT. */
int rnic_fail_posted(struct rnic_qp *qp); /* 0, or the errno of a post by ibv_wr_complete() */
int rnic_fail_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rnic_fail_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int rnic_fail_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* The object goes: what was to be done with it later is not done. */
static inline void rnic_fail_forget(const void *object)
{
	if (rn_unlikely(rnic_injecting))
		rnic_later_forget(object);
}

#endif
