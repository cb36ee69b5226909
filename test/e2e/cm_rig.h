/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For programs that are both ends of a connection in one process and expect one event at a time. Single-threaded. A
 * failed check prints the condition and its place on stdout and makes the case return false.
 */
#ifndef CM_RIG_H
#define CM_RIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rdma/rdma_cma.h>

#define BUF_LEN 65536u
#define WAIT_MS 15000

#define CHECK(cond) \
	do { \
		if (!(cond)) { \
			printf("# %s:%d: not true: %s (errno %d)\n", __func__, __LINE__, #cond, errno); \
			return false; \
		} \
	} while (0)

/* One end: a device, and the objects made on it. */
struct end {
	struct sockaddr_in addr; /* the port is 0; not set for an IPv6 device */
	struct rdma_event_channel *ch;
	struct rdma_cm_id *anchor; /* keeps the device open */
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint8_t *buf;
	struct ibv_mr *mr;
	/* shared receive queue of give_qp()'s QPs, used by post_recv(); NULL: each QP has its own */
	struct ibv_srq *srq;
};

extern struct end srv, cli;
extern struct ibv_qp_cap caps; /* capabilities of the QPs that give_qp() makes */
extern int sig_all;

struct got {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id, *listen_id;
	uint8_t priv[512];
	unsigned priv_len, ird, ord;
};

/* Opens the device that has the address; exits when there is none. */
void end_open(struct end *e, const char *address);

/* Takes and acknowledges the next event of a channel. False: none came within ms. */
bool next_event(struct rdma_event_channel *ch, struct got *g, int ms);
/* The next event must be of this type. */
bool want(struct rdma_event_channel *ch, enum rdma_cm_event_type type, struct got *g);
/* No event may be there within ms. */
bool quiet(struct rdma_event_channel *ch, int ms);

struct rdma_cm_id *new_id(struct end *e);
/* Makes an id of e that listens on e's address. On failure NULL, and errno is set. */
struct rdma_cm_id *listen_on(struct end *e, uint16_t port, int backlog);
bool give_qp(struct end *e, struct rdma_cm_id *id);
struct rdma_conn_param param(uint8_t ird, uint8_t ord, const void *priv, uint8_t priv_len);
/* Makes an id of cli with a route to srv's port and a QP; it is not connected. */
struct rdma_cm_id *route_to(uint16_t port);
/* The same, then calls rdma_connect(). */
struct rdma_cm_id *dial(uint16_t port, struct rdma_conn_param *p);
/* Takes a CONNECT_REQUEST off srv, gives it a QP and accepts it. */
struct rdma_cm_id *answer(struct rdma_conn_param *p);
/* Destroys the id and its QP. */
bool drop(struct rdma_cm_id *id);

/* A connection from cli to srv. */
struct joined {
	struct rdma_cm_id *lid, *sid, *cid;
};
/* Runs a case in which the server uses a shared receive queue. */
bool with_srq(bool (*f)(void));
bool join(struct joined *j, uint16_t port);
bool join_with(struct joined *j, uint16_t port, struct rdma_conn_param *cp, struct rdma_conn_param *sp);
/* Ends the connection in order: the client disconnects, both get the event, everything is destroyed. */
bool part(struct joined *j);

bool post_recv(struct end *e, struct rdma_cm_id *id, uint64_t wr_id, uint32_t len);
bool post_send(struct end *e, struct rdma_cm_id *id, uint64_t wr_id, uint32_t len);
/* Posts an RDMA Read of len bytes from the other end's buffer. */
bool post_read(struct end *e, struct end *from, struct rdma_cm_id *id, uint64_t wr_id, uint32_t len);
/* Polls until there are n completions in wc. False: there were fewer after WAIT_MS. */
bool poll_n(struct end *e, struct ibv_wc *wc, int n);
/* No completion may come within ms. */
bool no_wc(struct end *e, int ms);

unsigned open_fds(void);

/* ---- QPs without a connection manager; these functions return what ibv_modify_qp() returns ---- */

#define QP_RTR_MASK \
	(IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
	 IBV_QP_MIN_RNR_TIMER)
#define QP_RTS_MASK \
	(IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)
struct ibv_qp *qp_new(struct end *e, enum ibv_qp_type type); /* 16 send and 16 receive requests */
int qp_init(struct ibv_qp *qp);
int qp_rtr(struct ibv_qp *qp, const union ibv_gid *peer, uint32_t qpn); /* peer NULL: without GRH */
int qp_rts(struct ibv_qp *qp, uint8_t timeout, uint8_t retries);

struct rig_case {
	const char *name;
	bool (*run)(void);
};
#define CASE(f) \
	{ \
#f, f \
	}
/* usage: PROGRAM SERVER-ADDRESS CLIENT-ADDRESS [CASE...] | --list; prints "ok NAME" or "not ok NAME" for each case. */
int rig_main(int argc, char **argv, const struct rig_case *cases, unsigned n);

/* cm_private.c */
bool private_data_has_the_room_of_its_messages(void);
bool private_data_both_ways(void);
bool reject_with_private_data(void);
bool nobody_listens(void);

/* cm_flush.c */
bool depths_meet(void);
bool depth_0_forbids_reads(void);
bool qp_error_flushes_everything_in_order(void);
bool the_end_is_told_behind_completions(void);
bool last_completion_comes_out_of_a_drain(void);
bool disconnect_lets_posted_sends_through(void);

/* Waits for the next asynchronous event of a context, which must be of this type. */
bool async(struct ibv_context *c, enum ibv_event_type type, struct ibv_async_event *ev);
bool no_async(struct ibv_context *c); /* no event may come within 50 ms */
/* Discards the asynchronous events that a fault left behind. */
void async_sweep(struct ibv_context *c);

#endif
