/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watches the work requests of a program under rnicrun --sanitize: each is noted when it is posted, and struck off when
 * the program polls the completion that ends it. With reliable datagrams and shared receive queues a completion ends
 * one work request only, since earlier ones may still be under way. The functions may be called from any thread. Lock
 * order: a queue's spinlock -> the one lock here -> veil.c's spinlock -> the lock of sanitize.c.
 */
#ifndef RNIC_WATCH_H
#define RNIC_WATCH_H

#include "rnic/sanitize.h"
#include "rnic/verbs/objects.h"

/* ---- private to lib/rnic/verbs ---- */

/* peek.c: reads through the kernel, as the program may have unmapped the memory. False: not all could be read. */
bool rnic_peek_sum(uint64_t addr, uint32_t len, uint64_t *sum);
bool rnic_peek_mapped(uint64_t addr); /* whether the memory is mapped, whatever its access rights */

/* target.c: has Writes of the queue pair's peer held back, in a program under --sanitize. 0 or an errno. */
int rnic_target_ask(struct rnic_qp *qp, struct ipc_create_qp *arg);
void rnic_target_begin(struct rnic_qp *qp);
void rnic_target_end(struct rnic_qp *qp);
void rnic_target_free(struct rnic_qp *qp);
/* The peer has written the memory that *r describes, which joins the records [first, end): veils this memory. */
void rnic_watch_written(struct rnic_qp *qp, const struct qp_hold_rec *r, uint32_t first, uint32_t end);

/* Begins to watch the queue (pair), in a program under --sanitize; without memory for that it stays unwatched. */
void rnic_watch_open(struct rnic_qp *qp);
void rnic_watch_close(struct rnic_qp *qp);
void rnic_watch_open_srq(struct rnic_srq *srq);
void rnic_watch_close_srq(struct rnic_srq *srq);
/* The queue pair is in error: the program may use the buffers of everything that was posted. */
void rnic_watch_over(struct rnic_qp *qp);
/* The queue pair was reset: everything posted is gone. */
RN_COLD void rnic_watch_reset(struct rnic_qp *qp);

/* Under a watched queue's lock: wrs work requests, or the slots [from, used), are written and not yet published. */
RN_COLD void rnic_watch_sends(struct rnic_sq *sq, uint32_t wrs);
RN_COLD void rnic_watch_recvs(struct rnic_rq *rq, uint32_t from, uint32_t used);
/* Under a watched queue's lock: the queue has no room for the first work request of a post. */
RN_COLD void rnic_watch_full(const struct rnic_sq *sq);
/* A post is refused: reports that it has more SGEs or inline bytes than the queue was made for, if so. */
RN_COLD void rnic_watch_refused(const struct rnic_sq *sq, const struct ibv_send_wr *wr);
RN_COLD void rnic_watch_recv_caps(const struct rnic_rq *rq, const struct ibv_recv_wr *wr);
void rnic_watch_caps(const struct rnic_sq *sq, const char *call, uint64_t sges, uint64_t inline_bytes);

/* late.c, under the lock of a watched queue. rnic_late(): whether this poll is to find nothing. */
void rnic_late_init(struct rnic_cq *cq);
RN_COLD bool rnic_late(struct rnic_cq *cq);

/* The program polls this completion. */
RN_COLD void rnic_watch_polled(const struct rnic_cq *cq, const struct qp_cqe *e);

/*
 * rnic_watch_mr(): a region of this process is registered. rnic_watch_mr_gone(): `call` deregisters or replaces the
 * region; call NULL: the program has never had the region.
 */
void rnic_watch_mr(struct rnic_mr *mr);
void rnic_watch_mr_gone(struct rnic_mr *mr, const char *call);

#endif
