/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: the socket API of rsocket(7) over a reliable connection. They use only the public verbs, rdma_cm and
 * rnic_alloc().
 *
 * WIRE FORMAT: version 1 of librdmacm's protocol (rdma-core, librdmacm/docs/rsocket), in the form for RNICs: since the
 * base iWARP RFCs have no immediate data, a message is a Send of 4 bytes.
 *
 * Request and reply carry struct rsock_hello as private data, big-endian: how many DATA messages the sender can take
 * (credits), the address of its SGL (an array of `sgl.length` entries that the other side writes), how many iomap
 * entries follow the SGL, and the first receive buffer. Memory that is written by RDMA Write (SGL and iomap entries)
 * has the byte order of the host it is written to (HELLO_BIG_ENDIAN); a message is little-endian.
 *
 *   message, bits 31:29  bits 28:0
 *   0 DATA               bytes written behind the last ones into the buffer that was offered
 *   4 CREDIT             sequence number (16 bits) of the last DATA message that may be sent; when a buffer is offered
 *                        with it, the next SGL entry was written before
 *   6 IOMAP              the iomap entry of this index was written before
 *   7 CONTROL            0 DISCONNECT nothing more in either direction, 2 SHUTDOWN no more data from this side
 *                        (1 KEEPALIVE is never sent as a message)
 *
 * A buffer that was offered is filled to its last byte before the next one is used; that is when its SGL entry is free
 * again. An RNIC has no way to make a Send wait for a receive, so each side posts receives for all messages the other
 * can send: its credits, and RSOCK_RESERVE for those that need none. The initiator's first CREDIT is also the FPDU that
 * opens the responder's direction (RFC 5044, 7.1.1).
 *
 * The peer is untrusted: it may write anything into the block it has a key for at any time. An SGL or iomap entry is
 * copied before use, and a length in a message is checked against what was offered. Keys and addresses of the peer's
 * are used only in RDMA Writes to the peer.
 *
 * THREADS: `lock` guards everything, `snd` and `rcv` make one sender and one receiver at a time and are taken before
 * it; data is copied under these alone. A thread that sleeps on a socket is in the socket's list of waiters; a thread
 * that takes events or completions from the socket wakes them all.
 */
#ifndef RNIC_RSOCK_H
#define RNIC_RSOCK_H

#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <rnic/rnic.h>

#include "base/rn_base.h"
#include "base/rn_list.h"

/* ---- private to lib/rnic/rsock ---- */

/* ---- wire ---- */

#define RSOCK_VERSION    1
#define HELLO_BIG_ENDIAN 0x01
#define HELLO_IOMAP      0x02
#define RSOCK_SGL        2 /* entries: one buffer in use, one offered */

enum rsock_msg { RSOCK_DATA = 0, RSOCK_CREDIT = 4, RSOCK_IOMAP = 6, RSOCK_CONTROL = 7 };
enum rsock_control { RSOCK_DISCONNECT = 0, RSOCK_KEEPALIVE = 1, RSOCK_SHUTDOWN = 2 };
#define RSOCK_VALUE_BITS 29
#define RSOCK_VALUE_MASK ((UINT32_C(1) << RSOCK_VALUE_BITS) - 1)

struct rsock_sge {
	uint64_t addr;
	uint32_t key;
	uint32_t length;
};

struct rsock_map {
	uint64_t offset;
	struct rsock_sge sge;
};

struct rsock_hello {
	uint8_t version, flags;
	uint16_t credits;
	uint8_t rsv[3];
	uint8_t maps; /* <= 128: the number of entries; above: 128 + the number / 256 */
	struct rsock_sge sgl, buf;
};
_Static_assert(sizeof(struct rsock_sge) == 16 && sizeof(struct rsock_map) == 24, "as the peer writes them");
_Static_assert(sizeof(struct rsock_hello) == 40, "as private data");

/* ---- a socket ---- */

enum rsock_state {
	RSOCK_NEW,        /* rlisten() or rconnect() moves it on */
	RSOCK_LISTENING,  /* stays until rclose() */
	RSOCK_ADDR,       /* waits for the address to be resolved */
	RSOCK_ROUTE,      /* waits for the route */
	RSOCK_CONNECTING, /* waits for the peer's answer */
	RSOCK_ACCEPTING,  /* answered, waits for the connection to be up */
	RSOCK_OPEN,       /* until a side sends DISCONNECT, or the connection breaks */
	RSOCK_GONE,       /* no connection any more; `err` says why. Received bytes can still be read */
};

#define RSOCK_RESERVE  16u    /* messages that need no credit: CREDIT, CONTROL; iomap entries come on top */
#define RSOCK_SQ_CTRL  8u     /* entries of the send queue reserved for messages other than data */
#define RSOCK_XFER_MAX 65536u /* bytes of one DATA message */
#define RSOCK_INLINE   64u
#define RSOCK_CLOSE_MS 10000 /* ms that rclose() waits for the last acknowledgement, unless SO_LINGER says otherwise */

struct rsock_opts {
	uint32_t rcvbuf, sndbuf; /* bytes */
	uint32_t sq, rq;         /* DATA messages */
	uint32_t inl;            /* bytes sent inline */
	uint32_t maps;           /* iomap entries that the peer may fill */
	struct linger linger;
	struct timeval rcvtimeo, sndtimeo;
	int v6only;                                             /* kept; the id has it, too */
	int reuseaddr, keepalive, keepidle, oobinline, nodelay; /* kept, without effect */
};

/* A thread that sleeps on a socket. */
struct rsock_waiter {
	int fd;              /* the thread's own eventfd */
	struct rn_link link; /* in the socket's waiters */
};

/* A mapping by riomap(). */
struct rsock_iomr {
	struct ibv_mr *mr;
	uint64_t offset;
	int index;           /* index in the peer's table; -1: registered for local use only */
	struct rn_link link; /* in the socket's iomrs */
};

struct rsock {
	int fd; /* the program's descriptor: an epoll of both channels */
	int domain;
	uint32_t refs; /* guarded by rsock_fd.c */
	pthread_mutex_t snd, rcv;
	pthread_mutex_t lock;
	enum rsock_state state; /* written by rsock_move() */
	int err;                /* why the state is GONE; 0: an orderly end */
	int so_error;           /* the same, until getsockopt(SO_ERROR) has returned it */
	bool nonblock;
	bool closing;          /* rclose() has been called */
	bool broken;           /* the connection is down: what has not completed will not complete */
	bool rx_end;           /* the peer will send no more */
	bool rx_shut, tx_shut; /* by rshutdown() */
	struct rsock_opts opt;
	struct rn_list waiters; /* struct rsock_waiter */

	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *cc;
	struct ibv_cq *cq;
	bool armed; /* the next completion raises an event */

	/* the registered block: SGL, iomap table, messages, receive ring, send ring */
	uint8_t *block;
	struct ibv_mr *mr;
	struct rsock_sge *sgl; /* [RSOCK_SGL], written by the peer */
	struct rsock_map *map; /* [opt.maps], written by the peer */
	uint32_t *msg;         /* [rq_size] */
	uint8_t *rbuf, *sbuf;
	uint32_t rsize, ssize; /* bytes; rsize is twice the bytes offered at a time */

	/* sending */
	uint32_t inl;
	uint32_t sq_size, sq_free;          /* entries */
	uint32_t s_head, s_used;            /* bytes of the send ring */
	uint32_t quiet_wrs, quiet_bytes;    /* since the last request with a completion */
	struct rsock_sge target[RSOCK_SGL]; /* buffers the peer offered, copied */
	uint32_t ntargets, next_sgl;
	uint16_t seq, seq_max; /* number of DATA messages sent, and of those allowed */

	/* receiving */
	uint32_t rq_size, credits;
	uint32_t r_head, r_avail;  /* bytes to read */
	uint32_t r_offered;        /* bytes the peer may still write */
	uint32_t r_free;           /* bytes read and not offered again */
	uint32_t r_next;           /* place in the ring of the next offer */
	uint16_t rseq, granted;    /* number of DATA messages received, and of those allowed */
	struct rsock_sge peer_sgl; /* the peer's SGL */
	uint32_t peer_slot;        /* index of the peer's SGL entry to write next */
	bool peer_big;             /* the peer is big-endian */
	uint32_t peer_maps;        /* number of the peer's iomap entries */

	struct rn_list iomrs; /* struct rsock_iomr */
};

/* ---- rsock_fd.c: descriptors ---- */

/*
 * Makes a socket for an id (NULL: a new one), which it takes over even on failure. The socket can be found by its
 * descriptor only after rsock_publish(). NULL and errno.
 */
struct rsock *rsock_make(int domain, const struct rsock_opts *opt, struct rdma_cm_id *id);
int rsock_publish(struct rsock *rs); /* returns the descriptor, or -1 and errno (then rs is freed) */
/* Finds a socket and holds it. NULL: the descriptor is no rsocket. */
struct rsock *rsock_find(int fd);
void rsock_put(struct rsock *rs);
/* As rsock_find(), and begins a call of the program; sets EBADF. */
struct rsock *rsock_get(int fd);
/* Returns -1 with errno if rc is an errno, else 0; ends the hold on rs, and the call. */
int rsock_done(struct rsock *rs, int rc);

/*
 * A call of the program in this thread. From its begin to its end pthread_cancel() has no effect, except in
 * rsock_sleep(), which gives back what the call holds.
 */
struct rsock_call {
	int cancel;            /* whether the thread may be cancelled outside of the call: PTHREAD_CANCEL_* */
	pthread_mutex_t *turn; /* `snd` or `rcv` of the socket while the call holds it; else NULL */
};
extern __thread struct rsock_call rsock_call;
void rsock_call_begin(void);
void rsock_call_end(void); /* errno is kept */

/* ---- rsock_ep.c: QP, queues and memory of a connection; the hello. All return 0 or an errno; lock held ---- */

int rsock_ep_make(struct rsock *rs);
void rsock_ep_free(struct rsock *rs);
void rsock_hello_fill(const struct rsock *rs, struct rsock_hello *h);
int rsock_hello_take(struct rsock *rs, const void *priv, size_t len);

/* ---- rsock_flow.c: messages, credits, completions; lock held ---- */

void rsock_move(struct rsock *rs, enum rsock_state state);
/* Goes to GONE, with the reason err (0: an orderly end). */
void rsock_over(struct rsock *rs, int err);
/* The connection is down, which is an orderly end if the peer had sent DISCONNECT or SHUTDOWN. */
void rsock_lost(struct rsock *rs);
/* Handles all completions in the queue, and offers buffers and credits. */
void rsock_progress(struct rsock *rs);
/* Offers buffers and credits when enough of them have been used. */
void rsock_offer(struct rsock *rs);
/*
 * One RDMA Write of n bytes at `from` (in the send ring, or inline when n <= rs->inl) and, unless type is 0, a message
 * of that type behind it. The completion of the Write frees `ring` bytes of the send ring. The send queue must have
 * room for two work requests.
 */
struct rsock_write {
	const void *from;
	uint32_t n, ring;
	uint64_t to;
	uint32_t key;
};
void rsock_write_post(struct rsock *rs, const struct rsock_write *w, const uint32_t *msg);
void rsock_msg_post(struct rsock *rs, enum rsock_msg type, uint32_t value);
static inline uint32_t rsock_msg(enum rsock_msg type, uint32_t value)
{
	return (uint32_t)type << RSOCK_VALUE_BITS | (value & RSOCK_VALUE_MASK);
}

static inline bool rsock_room(const struct rsock *rs, uint32_t n)
{
	return rs->state == RSOCK_OPEN && rs->sq_free >= n;
}

/* ---- rsock_wait.c; lock held ---- */

/* Wakes all threads that sleep on rs. */
void rsock_kick(struct rsock *rs);
/* Requests an event for the next completion. */
void rsock_arm(struct rsock *rs);
/* Takes the events of both channels. */
void rsock_events(struct rsock *rs);
/* The calling thread's eventfd. -1 and errno. */
int rsock_wake_fd(void);
void rsock_wake_clear(int fd);
void rsock_waiter_add(struct rsock *rs, struct rsock_waiter *w);
void rsock_waiter_del(struct rsock *rs, struct rsock_waiter *w);
uint64_t rsock_now_us(void);
/*
 * A waiter polls for RSOCK_SPIN_US and at least RSOCK_SPIN_POLLS times before it sleeps: on overloaded CPUs
 * ibv_poll_cq() yields, and the time passes while other threads, the daemon's too, run.
 */
#define RSOCK_SPIN_US    50u
#define RSOCK_SPIN_POLLS 48u

/*
 * poll(), where pthread_cancel() may end the thread: then gone(arg) runs, which gives back everything that the call
 * holds. No lock is held.
 */
int rsock_sleep(struct pollfd *p, nfds_t n, int ms, void (*gone)(void *arg), void *arg);
/*
 * Sleeps until something has happened on rs, perhaps for another thread; ms: -1: without a limit. 0 or an errno: EINTR
 * after a signal, unless there is no limit and the handlers have SA_RESTART. pthread_cancel() may end the thread here:
 * so the caller holds nothing but rs, its lock, and rsock_call.turn.
 */
int rsock_doze(struct rsock *rs, int ms);
/*
 * Waits until ready(). 0, or EAGAIN (the call must not wait, or ms are over; -1: no limit), EINTR, EBADF (closed
 * meanwhile).
 */
int rsock_wait(struct rsock *rs, bool (*ready)(const struct rsock *rs), bool now, int ms);
/* As rsock_wait(), for the end of a socket: ignores signals and pthread_cancel(). */
int rsock_wait_quietly(struct rsock *rs, bool (*ready)(const struct rsock *rs), int ms);

/* ---- rsock_cm.c; lock held ---- */

void rsock_cm_events(struct rsock *rs);

/* ---- rsock_io.c ---- */

bool rsock_can_send(const struct rsock *rs);
bool rsock_can_recv(const struct rsock *rs);
static inline int rsock_ms(const struct timeval *tv)
{
	return tv->tv_sec == 0 && tv->tv_usec == 0 ? -1 : (int)(tv->tv_sec * 1000 + (tv->tv_usec + 999) / 1000);
}

/* ---- rsock_shut.c: the ordered end; lock held ---- */

/* Tells the peer, waits until everything is acknowledged (for at most ms), ends the connection. */
void rsock_shut_all(struct rsock *rs, int ms);

/* ---- rsock_iomap.c; lock held ---- */

void rsock_iomaps_free(struct rsock *rs);

#endif
