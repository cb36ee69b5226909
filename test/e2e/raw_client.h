/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A client of rnicd without librnic: it speaks lib/ipc itself, so that it can also break lib/ipc's rules.
 * Single-threaded, except that hostile modes write to its memory from other threads. A step that must not fail
 * (raw_must) ends the program with a sentence.
 */
#ifndef RAW_CLIENT_H
#define RAW_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ipc/ipc.h"
#include "wqe/qp_wqe.h"
#include "ring/spsc.h"

/*
 * Checks a condition that is true if the daemon keeps to its rules. If it is false, prints the reason and increments
 * the caller's `bad`.
 */
#define EXPECT(cond, ...) \
	do { \
		if (!(cond)) { \
			printf("not true: %s: ", #cond); \
			printf(__VA_ARGS__); \
			printf("\n"); \
			bad++; \
		} \
	} while (0)

#define RAW_QUEUES (UINT64_C(64) << 20)
#define RAW_ARENA  (UINT64_C(256) << 20)

struct raw {
	int sock, wake;
	int fd[IPC_REGIONS];
	uint64_t size[IPC_REGIONS];
	uint8_t *queues, *arena;
	struct ipc_ctrl *ctrl;
	uint32_t seq, devs, workers;
	uint64_t next;           /* offset at which the free part of the queue region begins */
	uint32_t async;          /* handle of the channel that new CQs and QPs report to, or 0 */
	char text[IPC_TEXT_MAX]; /* text of the last error */
};

struct raw_cq {
	uint32_t handle;
	uint64_t shm_off, ring_off, stride;
	uint32_t slots;
	struct spsc_cons ring[IPC_MAX_WORKERS];
};

struct raw_qp {
	uint32_t handle, qpn, db_bit;
	uint64_t shm_off, sq_off, rq_off;
	uint32_t sq_slots, rq_slots;
	struct qp_shm *shm;
	struct spsc_prod sq, rq;
};

struct raw_chan {
	uint32_t handle;
	int fd;
	uint64_t ring_off;
	uint32_t slots;
	struct spsc_cons ring;
};

struct raw_mr {
	uint32_t handle, stag;
};

/* All objects that a connection needs. */
struct raw_job {
	struct raw r;
	uint32_t dev, pd, id;
	struct raw_mr mr;
	struct raw_cq cq;
	struct raw_qp qp;
	struct raw_chan cm, async;
};

void raw_must(bool ok, const char *what);
/* Connects to $RNICD_SOCKET. On failure -1, and errno is set. */
int raw_dial(void);
/* Connects, makes the regions and says HELLO. Returns 0 or an errno. */
int raw_open(struct raw *r);
/* Says HELLO on a socket and with regions that the caller made, and waits for the answer. Returns 0 or an errno. */
int raw_hello(struct raw *r, const int *fds, unsigned nfds);
void raw_close(struct raw *r);

/*
 * Sends m and puts the answer into m. Returns 0, the answer's errno, EPIPE when the daemon closed the socket, or EPROTO
 * for an answer that makes no sense.
 */
int raw_call(struct raw *r, struct ipc_msg *m, int fd);
int raw_call_handle(struct raw *r, enum ipc_type type, uint32_t handle);
/* Returns the offset of zeroed room in the queue region, aligned to a page. */
uint64_t raw_room(struct raw *r, uint64_t bytes);

int raw_pd(struct raw *r, uint32_t dev, uint32_t *pd);
/* Registers [off, off + len) of the arena, with TO 0x10000 + off. */
int raw_mr(struct raw *r, uint32_t pd, uint32_t access, uint64_t off, uint64_t len, struct raw_mr *mr);
#define RAW_TO(off) (UINT64_C(0x10000) + (off))
int raw_cq(struct raw *r, uint32_t dev, uint32_t chan, uint32_t slots, struct raw_cq *cq);
int raw_qp(struct raw *r, uint32_t pd, uint32_t cq, uint32_t slots, struct raw_qp *qp);
int raw_chan(struct raw *r, enum ipc_channel_kind kind, uint32_t dev, uint32_t slots, struct raw_chan *ch);
int raw_cm_id(struct raw *r, const struct raw_chan *ch, uint32_t *id);

/* Takes the next event of a CM channel. False: none came within ms. */
bool raw_event(struct raw_chan *ch, struct ipc_cm_event *ev, int ms);
/* Takes a completion, of any worker. */
bool raw_poll(struct raw *r, struct raw_cq *cq, struct qp_cqe *e);
void raw_ring_bell(struct raw *r, struct raw_qp *qp);
/* Writes a WQE of one slot, without ringing the doorbell. False: no room. */
bool raw_post(struct raw_qp *qp, const struct qp_wqe *w);
bool raw_post_recv(struct raw_qp *qp, uint32_t lkey, uint64_t to, uint32_t len);

/* The device that hostile clients use, and its address. */
#define RAW_DEV  1u
#define RAW_FROM "10.77.0.2"

/* Connects the job's QP to ADDRESS:PORT. Returns 0, or the errno or negative status that stopped it. */
int raw_join(struct raw_job *j, const char *address, uint16_t port);
/* The same from the beginning: also opens the client and makes the job's objects, with rings of `slots`. */
int raw_connect(struct raw_job *j, const char *address, uint16_t port, uint32_t slots);
struct ipc_addr raw_addr(const char *address, uint16_t port);

uint32_t raw_random(void);
uint64_t raw_now_ms(void);

#endif
