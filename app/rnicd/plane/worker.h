/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A worker: one thread with its own connections, timers, neighbours and transmit queues. One turn:
 *
 *	clock → commands → receive (ports, frames handed over, loopback) → doorbells → timers → ready connections →
 *	qp_flush → effects → transmit → sleep when there was nothing to do for cfg.spin_us
 *
 * Everything here is for the worker's own thread (inside a command's run()) unless marked "control thread".
 */
#ifndef RNICD_WORKER_H
#define RNICD_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc_shm.h"
#include "pkt/pkt.h"
#include "qp/qp.h"
#include "border/rnicd.h"

/* ---- what the control plane asks of a worker ---- */

uint32_t worker_index(const struct rnicd_worker *w);
struct qp_ctx *worker_qp_ctx(struct rnicd_worker *w);

/*
 * A client as one worker sees it: where its doorbells are, whose they are, and which memory may go out by reference.
 * Made and freed by the control thread; between worker_client_add and worker_client_del it is the worker's.
 */
struct worker_client {
	struct ipc_doorbell *doorbell;   /* of this worker, in the client's shared memory: not trusted */
	struct worker_client *next;
	bool shares;                     /* control thread; atomic. Its QPs reach memory of others: none goes by reference */
	uint64_t ext_taken;              /* references to its memory ever given to packets; written by this worker */
	struct {
		uint64_t n;              /* given back, by DPDK lcore of who freed the packet */
		uint64_t pad[7];
	} ext_freed[RNICD_MAX_WORKERS + 1];
	struct qp *qp[IPC_MAX_QPS];      /* by doorbell bit; NULL: no such QP */
};

void worker_client_add(struct rnicd_worker *w, struct worker_client *c);
/* Its connections must be CLOSED and its QPs destroyed, or at least gone from c->qp. */
void worker_client_del(struct rnicd_worker *w, struct worker_client *c);

/*
 * Control thread, after worker_client_del: true once no packet refers to the client's memory through this worker any
 * more. Only then may the memory be unmapped and c be freed. Becomes true by itself; ask again after some milliseconds.
 */
bool worker_client_quiet(const struct worker_client *c);

/* Whether a connection still has bytes to send, or to send again, that lie there. Looks at every connection. */
bool conn_refers(const struct rnicd_worker *w, const uint8_t *base, uint64_t len);

/*
 * Control thread: the client's wake eventfd ends this worker's sleep from now on (edge-triggered, never read). False:
 * it is no descriptor that can be waited for. Closing the descriptor ends it; _del is for one that stays open.
 */
bool worker_wake_fd_add(struct rnicd_worker *w, int fd);
void worker_wake_fd_del(struct rnicd_worker *w, int fd);

/* ---- connections ---- */

struct conn_addr {
	uint32_t port;                /* index of the device */
	struct pkt_addr local, remote;
	uint16_t lport, rport;        /* host order */
};

/* The worker that owns a flow, from either end; any thread. */
uint32_t conn_owner(const struct conn_addr *a);

enum conn_verdict {
	CONN_OK,
	CONN_IN_USE,    /* there is such a connection already (or still: TIME_WAIT) */
	CONN_NO_ROUTE,  /* remote is not on the port's network and there is no gateway */
	CONN_FULL,      /* cfg.flows connections exist */
	CONN_QP         /* qp_conn_connect said no: see *qp */
};

/*
 * Active open on the worker that conn_owner() names. p->tcp and p->iss are filled in here. The neighbour is looked up
 * by the way; the SYN waits for it. *c is valid until QP_FX_CLOSED.
 */
RN_NODISCARD enum conn_verdict conn_open(struct rnicd_worker *w, const struct conn_addr *a, struct qp_conn_params *p,
					 struct qp_conn **c, enum qp_verdict *qp);

/*
 * The connection's QP belongs to this client: from now on its memory may go out by reference. To be called when a QP
 * is attached (open, accept, attach). NULL: everything is copied.
 */
void conn_set_client(struct qp_conn *c, struct worker_client *client);

/* Where a connection goes; valid until QP_FX_CLOSED. */
const struct conn_addr *conn_addr(const struct qp_conn *c);

/*
 * A listener is put on every worker. owner: what qp_conn.owner of its connections starts with. policy: of its
 * connections until accept. backlog: connections that may be without QP_FX_CONNECT_REQUEST at once, per worker.
 */
struct conn_listen {
	uint32_t port;
	uint16_t lport;
	uint16_t backlog; /* 0: 64 */
	uint32_t flags;   /* QP_CONN_* of its connections */
	uint64_t owner;
	struct mpa_policy policy;
};
RN_NODISCARD enum conn_verdict conn_listen(struct rnicd_worker *w, const struct conn_listen *l); /* OK, IN_USE, FULL */
void conn_unlisten(struct rnicd_worker *w, uint32_t port, uint16_t lport);

/*
 * Control thread: somebody will listen on this TCP port in a moment, most likely. For CONN_EXPECT_NS a SYN to it is not
 * refused but left unanswered; the peer's TCP repeats it. Of the last 64 ports at most.
 */
#define CONN_EXPECT_NS (3 * RN_NS_PER_S)
void conn_expect(uint32_t port, uint16_t lport);

/* What a port's connections ask for, from its configuration. Any thread. */
struct mpa_policy conn_policy(const struct rnicd_port *port);

/* ---- neighbours ---- */

enum neigh_verdict {
	NEIGH_READY,    /* mac is valid */
	NEIGH_WAIT,     /* asked; RNICD_EV_NEIGH follows */
	NEIGH_NO_ROUTE, /* not on the port's network and no gateway */
	NEIGH_FULL
};

/* Finds out how to reach an address from a port. The port's own address is READY with its own MAC. */
enum neigh_verdict neigh_resolve(struct rnicd_worker *w, struct rnicd_port *port, const struct pkt_addr *ip,
				 uint8_t mac[PKT_MAC_LEN]);

#endif
