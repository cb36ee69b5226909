/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One run's resources on one side: a control connection, the data connections with one completion queue, and one
 * registered region that holds every buffer. Client and server build it in their own ways (tp_client.c, tp_server.c)
 * and use it alike (tp_run.c, mode_*.c).
 *
 * Threads: the run's thread owns everything. A second thread handles connection-manager events and touches only the
 * atomics; on the server it also creates the queue pairs, before the run's thread looks at them (established).
 */
#ifndef TP_SESSION_H
#define TP_SESSION_H

#include "tp_counts.h"
#include "tp_layout.h"
#include "tp_msg.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>

#define TP_CTRL_MSGS   8 /* more than either side ever sends in a session, so no slot is used twice */
#define TP_NO_TIMEOUT  UINT64_MAX
#define TP_NO_MORE_QPS UINT32_MAX

/* wr_id: what completed, on which queue pair, and a count of operations up to this one (its low 40 bits). */
enum tp_kind {
	TP_WR_DATA,
	TP_WR_RECV,
	TP_WR_CREDIT,
	TP_WR_FENCE,
	TP_WR_FENCE_RECV,
	TP_WR_CTRL,
	TP_WR_CTRL_RECV,
	TP_WR_CARDS
};

static inline uint64_t tp_wr_id(enum tp_kind kind, uint32_t qp, uint64_t count)
{
	return (uint64_t)kind << 56 | (uint64_t)qp << 40 | (count & ((UINT64_C(1) << 40) - 1));
}
static inline enum tp_kind tp_wr_kind(uint64_t id) { return (enum tp_kind)(id >> 56); }
static inline uint32_t tp_wr_qp(uint64_t id) { return (uint32_t)(id >> 40) & 0xffff; }
/* The full count, given one that is less than 2^39 away from it. */
static inline uint64_t tp_wr_count(uint64_t id, uint64_t near)
{
	return near + (uint64_t)((int64_t)((id - near) << 24) >> 24);
}

struct tp_session;

struct tp_conn {
	struct tp_session *session;
	struct rdma_cm_id *id;
	struct tp_private priv;
	bool established; /* owner: the thread that handles CM events */
};

/* A datagram queue pair, and its peer on the other side. */
struct tp_gram {
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	uint32_t peer_qpn;
};

/* Progress for the user: written by the run's thread, read by any thread. */
struct tp_progress {
	_Atomic uint64_t ops, bytes, start, deadline, target;
	_Atomic uint32_t phase; /* 0 idle, 1 connecting, 2 warm-up, 3 measuring, 4 ending */
};

struct tp_session {
	bool is_server, armed, rnic_memory, fin_seen, peer_stopped;
	struct tp_point point;
	struct tp_layout layout;
	uint32_t sq_depth, rq_depth, inline_max, unacked_events;
	uint64_t id;
	struct ibv_context *verbs; /* of the control connection; all others must be on the same device */
	struct ibv_pd *pd;
	struct ibv_comp_channel *chan, *ctrl_chan;
	struct ibv_cq *cq, *ctrl_cq;
	struct ibv_mr *mr, *ctrl_mr;
	uint8_t *region, *ctrl_buf;
	struct tp_region peer;
	struct tp_conn ctrl, *conns; /* conns: with TP_QP_RC */
	struct tp_gram *grams;       /* else */
	struct ibv_ah *ah;           /* to the other side */
	uint32_t n_grams, cards_done;
	unsigned ctrl_sent, inbox_head, inbox_tail;
	struct tp_msg inbox[TP_CTRL_MSGS];
	uint64_t fin_posted, fin_min_posted; /* the peer's FIN: operations in all, and on the least used queue pair */
	uint64_t fences_in, fences_out;      /* fences received, and own fences completed */
	uint64_t connect_ns;
	struct tp_counts counts;      /* of this side's port, before the run */
	_Atomic uint32_t established; /* data connections */
	_Atomic bool dead;            /* a connection of the session has ended */
	const atomic_bool *stop;      /* set when the user wants the run to end */
	struct tp_progress *progress; /* may be NULL */
	struct tp_err *err;
};

/* "no RDMA device: ..." when there is none, else err says that doing `what` failed with errno. */
enum tp_verdict tp_verbs_fail(struct tp_err *err, const char *what);
enum tp_verdict tp_wc_fail(struct tp_session *s, const struct ibv_wc *wc);

/* PD and control queues on the device of s->ctrl.id, and its queue pair with all receives posted. */
enum tp_verdict tp_session_open(struct tp_session *s);
/* Region, completion queue and connection table for s->point. inline_want: bytes, -1 = up to 64 if possible. */
enum tp_verdict tp_session_setup(struct tp_session *s, int inline_want, bool rnic_alloc);
/* The queue pair of data connection c on c->id, with the receives that fences need. */
enum tp_verdict tp_session_add_qp(struct tp_session *s, struct tp_conn *c);
/* Frees everything; disconnects what is connected. Safe at any stage after memset 0. */
void tp_session_close(struct tp_session *s);

static inline struct ibv_qp *tp_qp(const struct tp_session *s, uint32_t qp)
{
	return s->grams != NULL ? s->grams[qp].qp : s->conns[qp].id->qp;
}

/* This side's queue pairs: with idle datagrams the server has one for all queue pairs of the client. */
static inline uint32_t tp_n_qps(const struct tp_session *s) { return s->grams != NULL ? s->n_grams : s->point.qps; }

/* --- queue pairs of datagrams (tp_gram.c) --- */
/* Makes this side's, for s->point. */
enum tp_verdict tp_gram_open(struct tp_session *s);
/* Called by the client, which knows the server's region: exchanges the numbers of both sides' queue pairs. */
enum tp_verdict tp_gram_exchange(struct tp_session *s);
/* Called by the server after the client's GO, when the client's numbers have come. On both sides: makes the address
 * handle. */
enum tp_verdict tp_gram_join(struct tp_session *s);
void tp_gram_close(struct tp_session *s);
int tp_gram_post(struct tp_session *s, uint32_t qp, const struct ibv_send_wr *wr);

/* As ibv_post_send(), on the session's queue pair number qp: 0 or an errno. */
static inline int tp_post_send(struct tp_session *s, uint32_t qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return s->grams != NULL ? tp_gram_post(s, qp, wr) : ibv_post_send(s->conns[qp].id->qp, wr, &bad);
}

/* --- control messages (tp_ctrl.c) --- */
enum tp_verdict tp_ctrl_send(struct tp_session *s, const struct tp_msg *m);
/* Receives control messages that have arrived; never blocks. A FIN sets fin_*; an ERROR message becomes the verdict. */
enum tp_verdict tp_ctrl_pump(struct tp_session *s);
/* Sleep until a message of this type is there; any other type is TP_BAD_PEER. timeout: ns or TP_NO_TIMEOUT. */
enum tp_verdict tp_ctrl_wait(struct tp_session *s, enum tp_msg_type type, struct tp_msg *m, uint64_t timeout);
/* RDMA between [local, local + len) of the region and the same place of the peer's; returns when it is done. */
enum tp_verdict tp_ctrl_rdma(struct tp_session *s, enum ibv_wr_opcode op, uint64_t local, uint64_t remote,
			     uint32_t len);
enum tp_verdict tp_ctrl_wait_fin(struct tp_session *s, uint64_t timeout);
enum tp_verdict tp_ctrl_send_fin(struct tp_session *s, uint64_t posted, uint64_t min_posted);

#endif
