/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control side of a daemon, in a thread of the test: it answers librnic's requests as rnicd does, checks what they
 * name (handles, offsets, pieces), and lets the test play the worker: take WQEs, write CQEs, raise events. It moves no
 * data by itself.
 */
#ifndef FAKE_H
#define FAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

#define FAKE_MAX        4096u
#define FAKE_SRQN       0x4000u /* number of an XRC shared receive queue, less its handle */
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
	int sock; /* -1: unused */
	int wake;
	int fd[IPC_REGIONS];
	uint8_t *queues;
	struct fake_chan chan[64];
	struct fake_cq cq[16];
	struct fake_qp qp[16];
	struct fake_srq srq[16];
	struct fake_mr *mr; /* [FAKE_MAX] */
	struct fake_id id[64];
	struct fake_import import[16];
	uint32_t pds;
	uint32_t xrcds, targets; /* ever made */
	bool xrcd_file;          /* the last domain is one of a file */
	struct ipc_msg last;     /* the last request */
};

struct fake; /* the thread and its socket */

struct fake *fake_start(void);  /* sets RNICD_SOCKET */
extern bool fake_efa;           /* device 0 shows itself as an Elastic Fabric Adapter; set before the start */
void fake_stop(struct fake *f); /* hangs up on all clients */
struct fake_client *fake_client(struct fake *f, unsigned n);
void fake_refuse(struct fake *f, int errno_value, const char *text); /* the next request; 0: no more */
void fake_blind(struct fake *f, bool blind);                         /* an import needs a descriptor from now on */
void fake_version(struct fake *f, uint32_t version);                 /* told in HELLO from now on */

/* As the worker and the control thread do. */
void fake_cqe(struct fake_client *c, uint32_t cq, unsigned worker, const struct qp_cqe *e);
/* The same with its sender's address, in a queue that tells them. */
void fake_cqe_from(struct fake_client *c, uint32_t cq, unsigned worker, const struct qp_cqe *e, const uint8_t from[16]);
void fake_event(struct fake_client *c, uint32_t chan, const void *slot, uint32_t size);
void fake_cm(struct fake_client *c, const struct ipc_cm_event *ev); /* to the channel of its id, or of its listener */
/* What the daemon reads and writes at a tagged offset, through its own descriptors. false: not within the region. */
bool fake_mr_read(struct fake_client *c, uint32_t stag, uint64_t to, void *buf, uint64_t len);
bool fake_mr_write(struct fake_client *c, uint32_t stag, uint64_t to, const void *buf, uint64_t len);

#endif
