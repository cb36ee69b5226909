/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control side of a daemon, in a thread of the test. It answers librnic's requests as rnicd does, and checks the
 * handles, offsets and pieces in them. The test plays the worker: it takes WQEs, writes CQEs and raises events. No data
 * are moved.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

#define FAKE_MAX        4096u
#define FAKE_IDS        512u
#define FAKE_SRQN       0x4000u /* an XRC shared receive queue's number is this plus its handle */
#define FAKE_TARGET_QPN 0x900u
#define FAKE_WORKERS    2u
#define FAKE_DEVS       2u

struct fake_chan {
	bool used;
	int fd;
	struct spsc_prod ring;
};
struct fake_cq {
	bool used, wide;
	uint32_t channel, async;
	uint64_t cookie;
	struct qp_cq_shm *shm;
	struct spsc_prod ring[FAKE_WORKERS];
};
struct fake_srq {
	bool used;
	uint32_t limit, wqe_slots;
	uint64_t cookie;
	struct spsc_cons ring;
};
struct fake_qp {
	bool used;
	uint32_t send_cq, recv_cq, bit, state;
	struct qp_shm *shm;
	struct spsc_cons sq, rq;
	uint64_t cookie;
	struct ipc_create_qp made;
	uint8_t group[16];
};
struct fake_mr {
	bool used;
	uint32_t npieces;
	struct ipc_piece *pieces;
	uint64_t iova, len;
	uint32_t access, stag;
};
struct fake_import {
	bool used;
	int fd;
	uint64_t off, len;
	uint32_t writable;
};
struct fake_id {
	bool used;
	uint32_t channel;
};

struct fake_client {
	int sock; /* -1: not in use */
	int wake;
	int fd[IPC_REGIONS];
	uint8_t *queues;
	struct fake_chan chan[64];
	struct fake_cq cq[16];
	struct fake_qp qp[16];
	struct fake_srq srq[16];
	struct fake_mr *mr; /* [FAKE_MAX] */
	struct fake_id id[FAKE_IDS];
	struct fake_import import[16];
	uint32_t pds;
	uint32_t xrcds, targets; /* XRC domains and XRC targets made so far */
	bool xrcd_file;          /* the last domain that was opened has a file */
	struct ipc_msg last;     /* the request that came last */
	uint32_t requests;       /* number of requests that have come so far */
};

struct fake; /* the thread and its socket */

struct fake *fake_start(void);  /* also sets RNICD_SOCKET */
extern bool fake_efa;           /* device 0 presents itself as an Elastic Fabric Adapter; to be set before the start */
extern bool fake_opens;         /* the daemon knows IPC_CM_OPEN, as rnicd does; to be set before the start */
extern bool fake_far_token;     /* the daemon answers IPC_TOKEN_DEV with a device that does not exist */
void fake_stop(struct fake *f); /* also closes the connections of all clients */
struct fake_client *fake_client(struct fake *f, unsigned n);
/* refuses the next request; errno_value 0: refuses no more */
void fake_refuse(struct fake *f, int errno_value, const char *text);
/* the same for the request of this type that follows `after` others of the type */
void fake_refuse_later(struct fake *f, int errno_value, uint16_t type, uint32_t after);
void fake_blind(struct fake *f, bool blind); /* from now on an import needs a descriptor */
void fake_pause(struct fake *f, bool pause); /* requests that come meanwhile are answered after the pause */
/* IPC_REACH of 192.0.2.98 is not answered before fake_held_answer(), other requests are. How many wait: */
uint32_t fake_held(struct fake *f);
void fake_held_answer(struct fake *f, int status);   /* answers them, the newest first */
void fake_version(struct fake *f, uint32_t version); /* the version that HELLO names from now on */

/* Writes a CQE as the worker does; sends an event as the control thread does. */
void fake_cqe(struct fake_client *c, uint32_t cq, unsigned worker, const struct qp_cqe *e);
/* The same with the sender's address, for a completion queue whose entries have addresses. */
void fake_cqe_from(struct fake_client *c, uint32_t cq, unsigned worker, const struct qp_cqe *e, const uint8_t from[16]);
void fake_event(struct fake_client *c, uint32_t chan, const void *slot, uint32_t size);
/* the event goes to the channel of its id, or of the id's listener */
void fake_cm(struct fake_client *c, const struct ipc_cm_event *ev);
/* Reads and writes at a tagged offset as the daemon does, through its own descriptors. False: outside the region. */
bool fake_mr_read(struct fake_client *c, uint32_t stag, uint64_t to, void *buf, uint64_t len);
bool fake_mr_write(struct fake_client *c, uint32_t stag, uint64_t to, const void *buf, uint64_t len);

#endif
