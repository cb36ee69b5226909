/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended sockets (rnic/esock.h) on verbs, rdma_cm and rnicdv.h's functions for connected sockets. lib/esock has the
 * protocol of the byte stream.
 *
 * Every work request is a struct es_op, whose address is its wr_id. There is one completion queue; its completions go
 * to lists, from which the program's calls take them.
 *
 * THREADS: `lock` guards everything. Of the threads that wait for a socket, one sleeps in poll(), the others at `turn`;
 * a thread that has taken something from the lists wakes them. The descriptor of the program is an epoll's, with the
 * completion channel, the connection manager's channel, and an eventfd that is set while a list has something. Each
 * call ends with es_settle(): either the eventfd is set, or the next completion raises an event.
 */
#ifndef RNIC_ESOCK_INT_H
#define RNIC_ESOCK_INT_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rnic/esock.h>
#include <rnic/rnicdv.h>

#include "base/rn_base.h"
#include "esock/esk.h"

/* ---- private to lib/rnic/esock ---- */

#define ES_INLINE   64u
#define ES_SGE      8u
#define ES_OUT      16u /* buffers of bytes to be sent */
#define ES_PIECES   8u  /* messages sent without a copy, under way at a time */
#define ES_CONTROL  8u  /* CREDIT and END under way */
#define ES_CLOSE_MS 10000

enum es_kind {
	ES_SEND,  /* the program's sends, writes and reads */
	ES_RECV,  /* the program's receives */
	ES_BYTES, /* sends a copy of bytes */
	ES_PIECE, /* sends bytes from the program's memory */
	ES_CTRL,  /* sends CREDIT or END */
	ES_SLOT,  /* a receive for bytes */
	ES_KINDS
};

struct es_op {
	struct es_op *next;
	enum es_kind kind;
	uint32_t length; /* SLOT: bytes of the received message */
	uint32_t off;    /* SLOT: how many of them have been taken */
	int error;
	uint64_t cookie;
	uint8_t *buf;  /* RECV: the program's buffer; BYTES and SLOT: its part of `mem` */
	uint8_t *head; /* SEND and PIECE: a place in `mem` for a message's head */
};

struct es_list {
	struct es_op *first, *last;
};

/* One writer: es_set_state. */
enum es_state {
	ES_PREPARED, /* rnic_sock_start() moves on */
	ES_STARTING, /* waits for the peer */
	ES_OPEN,     /* until either end closes or fails */
	ES_OVER      /* `err` says why; received data can still be taken */
};

struct es {
	int fd; /* the program's */
	int ep, ready_fd;
	int kick_fd; /* wakes the thread that sleeps, when another one has taken something */
	bool ready;  /* ready_fd is set */
	uint32_t refs;
	pthread_mutex_t lock;
	pthread_cond_t turn;
	bool sleeps;    /* a thread sleeps at ep */
	uint64_t taken; /* counts what es_progress() has taken */
	enum es_state state;
	int err;               /* in OVER: 0: an orderly end */
	enum esk_verdict rule; /* the rule that the peer has broken */
	struct rnic_iwarp_mode mode;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *cc;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	bool armed;
	bool agreed; /* it is known whether there is a byte stream */
	bool bytes;
	bool shut;              /* this end sends no more bytes: END follows when the peer has a slot for it */
	struct esk_hello hello; /* this end's hello */
	struct esk esk;
	uint8_t *mem;
	struct ibv_mr *mr; /* the registration of `mem` */
	uint32_t out_size;
	struct es_op *ops;
	struct es_list free[ES_KINDS];
	struct es_list send_done, recv_done;
	struct es_list recv_wait; /* RECV: wait for bytes, or until it is known that there is no byte stream */
	struct es_list in;        /* SLOT: messages with bytes that have not been taken */
	uint32_t pieces;          /* PIECE under way */
	uint32_t sending;         /* work requests under way in the send queue */
	struct ibv_mr **mrs;
	uint32_t n_mrs, mrs_room;
};

/* ---- esock_list.c ---- */
void es_put(struct es_list *l, struct es_op *op);
struct es_op *es_take(struct es_list *l); /* NULL: it is empty */
bool es_make_ops(struct es *es);
/* Allocates the memory of the byte stream, once that is agreed on. 0 or an errno. */
int es_make_bytes(struct es *es);

/* ---- esock_tab.c ---- */
/*
 * Finds a socket; returns it held and locked. NULL and errno. Until es_let() pthread_cancel() has no effect, except in
 * es_wait().
 */
struct es *es_get(int fd);
void es_let(struct es *es);    /* settles and unlocks it, and ends the hold; errno is kept */
void es_drop(struct es *es);   /* the same, where pthread_cancel() has ended the thread */
void es_call_end(void);        /* after es_leave(), in place of es_let() */
extern __thread int es_cancel; /* whether the thread may be cancelled outside of the call: PTHREAD_CANCEL_* */
bool es_enter(struct es *es);  /* enters it under es->fd; false: the table has no room */
struct es *es_leave(int fd);   /* takes it out of the table; held and locked. NULL and errno */
/* Sets errno, keeps the sentence for rnic_sock_error(), and returns -1. */
int es_fail(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- esock_start.c ---- */
void es_set_state(struct es *es, enum es_state to);
void es_free(struct es *es);

/* ---- esock_wait.c ---- */
/* Moves new completions and events into the lists. True: there were some. */
bool es_progress(struct es *es);
/*
 * Waits until something comes, or until `until` (ns; RN_NEVER). False: the time is over. pthread_cancel() may end the
 * thread here: so the caller holds nothing but the socket and its lock.
 */
bool es_wait(struct es *es, uint64_t until);
bool es_wait_through(struct es *es, uint64_t until); /* the same, where pthread_cancel() has no effect */
/* poll() without the lock. cancel: PTHREAD_CANCEL_*; gone(es) runs if pthread_cancel() ends the thread. */
void es_poll(struct es *es, struct pollfd *p, nfds_t n, int ms, int cancel, void (*gone)(void *es));
/* Makes the descriptor show what the lists have, or else what comes next. errno is kept. */
void es_settle(struct es *es);
bool es_blocks(const struct es *es);
uint64_t es_now(void);
/* When a timeout of the API ends: milliseconds, -1: without end. */
uint64_t es_until(int timeout_ms);
/* The connection has failed. */
void es_broken(struct es *es, int err);
/* Fails a call because the connection is over: -1 and errno, with the sentence. err: errno for an orderly end. */
int es_gone(const struct es *es, int err);

/* ---- esock_async.c ---- */
/* The registered region that contains [buf, buf + len); NULL: none. */
struct ibv_mr *es_mr_of(const struct es *es, const void *buf, size_t len);
int es_post_recv(struct es *es, struct es_op *op);

/* ---- esock_bytes.c ---- */
/* Handles a received message. One that breaks a rule ends the connection. */
void es_message(struct es *es, struct es_op *slot, uint32_t len);
void es_serve_receives(struct es *es);
/* Sends CREDIT, if one is due. */
void es_credit(struct es *es);
int es_post_slot(struct es *es, struct es_op *slot);
/* Posts a message of the byte stream's protocol; op is one of the free ones. 0 or an errno. */
int es_post_message(struct es *es, struct es_op *op, enum esk_kind kind, struct ibv_sge *sge, int n);
void es_first_credit(struct es *es);
/* Checks that this end may send more bytes: else -1 and errno, with the sentence. */
int es_may_send(const struct es *es);
/* Sends END, if `shut` is set, and the peer has a slot for it. */
void es_end(struct es *es);

#endif
