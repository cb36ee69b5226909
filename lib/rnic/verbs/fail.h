/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rnicrun --inject at the queues of a program: completions that fail or come later, receives that reach the device
 * later, asynchronous events, the end of the connection to rnicd. The functions of inject.h choose what fails; the
 * functions here make it fail.
 */
#ifndef RNIC_FAIL_H
#define RNIC_FAIL_H

#include "rnic/verbs/objects.h"

/* ---- private to lib/rnic/verbs ---- */

/*
 * fail.c; under the CQ's lock: returns e, or *out, a copy of *e that fails. Also raises events that come with the
 * completion.
 */
RN_COLD const struct qp_cqe *rnic_fail_cqe(struct rnic_cq *cq, const struct qp_cqe *e, struct qp_cqe *out);
/* The session is new: starts the times of events, and lets rnicctl send other rules. */
RN_COLD void rnic_fail_begin(struct rnic_session *s);
/* Whether a rule daemon:N=GONE/TIME makes this process treat rnicd as gone at present. */
bool rnic_fail_away(void);
/* Describes a completion of the queue pair; with its side of the connection, if a rule asks for that. */
struct inject_what rnic_fail_what(enum inject_at at, uint32_t opcode, uint32_t qpn);

/* orders.c: from now on rnicctl inject reaches the process. */
RN_COLD void rnic_orders_begin(struct rnic_session *s);

/*
 * fail_late.c; under the CQ's lock. rnic_fail_holds(): whether polls find nothing now. rnic_fail_holds_back(): whether
 * e, the next completion of the ring, is held back from now on.
 */
RN_COLD bool rnic_fail_holds(const struct rnic_cq *cq);
RN_COLD bool rnic_fail_holds_back(struct rnic_cq *cq, uint32_t ring, const struct qp_cqe *e);
/* These replace the functions that post work requests, in a process with RNIC_INJECT. */
int rnic_fail_posted(struct rnic_qp *qp); /* 0, or the errno of a post by ibv_wr_complete() */
int rnic_fail_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int rnic_fail_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int rnic_fail_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/* The object is being destroyed: drops the failures that were to happen to the object later. */
static inline void rnic_fail_forget(const void *object)
{
	if (rn_unlikely(rnic_injecting))
		rnic_later_forget(object);
}

#endif
