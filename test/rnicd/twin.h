/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data plane with real workers, and two clients in the test's own process: memory, queues and doorbells as librnic
 * lays them out, and the control plane's steps that a connection needs. One thread of the test drives all this.
 */
#ifndef TEST_RNICD_TWIN_H
#define TEST_RNICD_TWIN_H

#include "border/cmd.h"
#include "border/rnicd.h"
#include "ipc/ipc_shm.h"

#define TWIN_SLOTS 1024u /* slots of each queue */
#define TWIN_CQE   4096u
#define TWIN_ARENA (64u << 20)        /* bytes of registered memory */
#define TWIN_MORE  64u                /* slots of the queues of a further queue pair */
#define TWIN_WAIT  (20 * RN_NS_PER_S) /* a test that waits longer gives up */

/* Where the rings lie in a client's queue region, behind what the queue pair and its queues share with the client. */
#define TWIN_SHM_OFF ((IPC_QUEUES_FREE_OFF + 63) & ~UINT64_C(63))
#define TWIN_SQ_OFF  (TWIN_SHM_OFF + 8192)
#define TWIN_RQ_OFF  (TWIN_SQ_OFF + 256 * 1024)
#define TWIN_CQ_OFF  (TWIN_RQ_OFF + 256 * 1024)

/* A further queue pair, which shares the client, the arena and the completion queue of its twin. */
struct twin_more {
	struct qp qp;
	struct spsc_prod sq;
};

struct twin {
	uint32_t port;
	uint8_t *queues; /* struct ipc_ctrl, then the rings */
	uint8_t *arena;
	uint32_t stag; /* STag of the arena with all rights; tagged offset 0 is the arena's first byte */
	struct qp_mr mr[8];
	struct qp_dev dev;
	struct qp_cq cq;
	struct qp qp;
	struct worker_client client[RNICD_MAX_WORKERS], *view[RNICD_MAX_WORKERS];
	struct spsc_prod sq, rq;
	struct spsc_cons comp[RNICD_MAX_WORKERS];
	uint32_t worker; /* owner of the connection */
	struct rc *conn;
	uint64_t key; /* the owner's number */
	bool established, disconnected, closed;
	struct twin_more *more;
};

extern struct twin twin[2];

/* Fills in rnicd.cfg: one worker, and two ports that are wired to each other, with CRC. The caller may change it. */
void twin_configure(uint32_t mtu);

/*
 * rnicd.cfg must be filled in. Gives both ends memory, queues and doorbells. False, with a message on stderr: failed.
 */
bool twin_start(uint32_t port_a, uint32_t port_b);
void twin_stop(void);

/* Connects 0 to 1 on a fresh TCP port. */
bool twin_connect(void);
/* Disconnects from side 0, waits until both connections are gone, and makes both QPs ready for another connection. */
bool twin_disconnect(void);

/*
 * Connects n further pairs of queue pairs, 1 to n; pair 0 is that of twin_connect(). rnicd.cfg.flows must leave room.
 * They have no end: the process ends with them.
 */
bool twin_widen(uint32_t n);
/* As twin_post() and twin_ring(), for the queue pair of twin 0 in this pair. */
bool twin_post_at(uint32_t pair, const struct qp_wqe *w);
void twin_ring_at(uint32_t pair);

/* Posts a work request without ringing the doorbell; false: the queue is full. */
bool twin_post(struct twin *t, const struct qp_wqe *w);
bool twin_post_recv(struct twin *t, uint64_t wr_id, uint64_t addr, uint32_t len);
void twin_ring(struct twin *t);

/* Takes up to n completions; returns their number. */
uint32_t twin_poll(struct twin *t, struct qp_cqe *cqe, uint32_t n);
/* Waits for a completion; false: none has come within TWIN_WAIT. */
bool twin_wait(struct twin *t, struct qp_cqe *cqe);

/* Waits until no packet refers to the arena; false: not within TWIN_WAIT. */
bool twin_quiet(struct twin *t);

#endif
