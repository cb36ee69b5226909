/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control plane's hands in the worker threads: commands that go in, effects that come out.
 *
 * In: a struct cmd is embedded in a structure with its arguments. The control thread owns that until cmd_send() and
 * again from `done` on. `work` runs once in the worker's thread, between two steps of its turn.
 *
 * Out: the worker's loop calls cmd_effects() once a turn, after qp_flush(). It copies each struct qp_fx into a ring
 * that the control thread reads, and gives each passive connection an owner of its own with its first effect. A
 * connection that has told QP_FX_CLOSED is the loop's to free, after cmd_effects() has returned true.
 */
#ifndef CMD_H
#define CMD_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc_shm.h"
#include "qp/qp.h"
#include "border/rnicd.h"

/* ---- commands ---- */

struct cmd {
	struct rnicd_cmd r;
	struct cmd *next; /* waits for room in the mailbox */
	uint32_t worker;
	void (*work)(struct rnicd_worker *w, struct cmd *c, uint64_t now); /* worker's thread */
	void (*done)(struct cmd *c);                                      /* control thread */
};

/* The same work on every worker; done once, after the last. */
struct cmd_all {
	struct cmd one[RNICD_MAX_WORKERS];
	uint32_t left;
	void (*work)(struct rnicd_worker *w, struct cmd_all *a, uint64_t now);
	void (*done)(struct cmd_all *a);
};

/* Never fails: a command that finds the mailbox full is sent by a later cmd_collect(). */
void cmd_send(struct cmd *c, uint32_t worker);
void cmd_send_all(struct cmd_all *a);
/* A work function for those who only want to know that every worker has come round. */
void cmd_nothing(struct rnicd_worker *w, struct cmd_all *a, uint64_t now);

/* Control thread, every turn: sends what waits, runs `done` of what has come back. How many came back. */
uint32_t cmd_collect(void);

/* ---- effects ---- */

/* What a worker tells of a connection, QP or CQ: a qp_fx by value. */
struct cmd_fx {
	uint8_t type;        /* enum qp_fx_type */
	uint8_t code;
	uint16_t priv_len;
	uint16_t ird, ord;
	uint32_t vendor_err;
	uint32_t worker;
	uint32_t port;       /* device index; of a connection */
	uint64_t owner;      /* of the connection, QP or CQ */
	uint64_t listener;   /* owner of the listener; first effect of a passive connection */
	struct qp_conn *conn;/* named in later commands together with owner, which tells a reused one */
	struct ipc_addr local, remote; /* of a connection */
	uint8_t priv[IPC_PRIV_MAX];
};

/* A type beside lib/qp's: a message for the datagrams' connection manager. code: kind; port, remote.ip; priv: body. */
#define CMD_FX_SIDR 128

/*
 * Owners: the control thread numbers what it makes from 1; the worker numbers passive connections, with this bit set.
 */
#define CMD_OWNER_PASSIVE (UINT64_C(1) << 63)

/* Before the workers start. False: no memory. */
bool cmd_start(uint32_t workers);
void cmd_stop(void);

/*
 * Worker's loop. True: all of ctx->fx has been taken and qp_drained() may be called. False: the ring is full; call it
 * again next turn, and do nothing before that can make effects when qp_ctx_full(ctx).
 */
bool cmd_effects(struct rnicd_worker *w, struct qp_ctx *ctx);

/* Worker's thread: such a message. It is lost when the control thread is behind. */
void cmd_sidr(struct rnicd_worker *w, const struct cmd_fx *fx);

/* Control thread: takes the next effect of any worker; false: none. */
bool cmd_fx_take(struct cmd_fx *fx);

#endif
