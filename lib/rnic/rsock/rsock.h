/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rsockets: the socket API of rsocket(7) over a reliable connection, on nothing but the public verbs,
 * rdma_cm and rnic_alloc().
 *
 * WIRE FORMAT: version 1 of librdmacm's protocol (rdma-core, librdmacm/docs/rsocket), in the form an RNIC speaks it: as
 * the base iWARP RFCs have no immediate data, a message is a Send of 4 bytes.
 *
 * Request and reply carry struct rsock_hello as private data, big-endian: how many messages of data the sender can take
 * (credits), where its SGL is (an array of `sgl.length` entries that the other side writes), how many iomap entries
 * follow the SGL, and the first receive buffer. Memory that is written by RDMA Write (SGL and iomap entries) has the
 * byte order of the host it is written to (HELLO_BIG_ENDIAN); a message is little-endian.
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
 * copied before use, a length in a message is held against what was offered; keys and addresses only ever go back to
 * it.
 *
 * THREADS: `lock` guards everything, `snd` and `rcv` make one sender and one receiver at a time and are taken before
 * it; data is copied under these alone. A thread that sleeps on a socket is in its list of waiters; one that takes
 * events or completions from it wakes them all.
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
	uint8_t maps; /* <= 128: as it is; above: 128 + the number / 256 */
	struct rsock_sge sgl, buf;
};
_Static_assert(sizeof(struct rsock_sge) == 16 && sizeof(struct rsock_map) == 24, "as the peer writes them");
_Static_assert(sizeof(struct rsock_hello) == 40, "as private data");

/* ---- a socket ---- */

enum rsock_state {
	RSOCK_NEW,        /* rlisten() or rconnect() moves it on */
	RSOCK_LISTENING,  /* for good */
	RSOCK_ADDR,       /* waits for the address to be resolved */
	RSOCK_ROUTE,      /* waits for the route */
	RSOCK_CONNECTING, /* waits for the peer's answer */
	RSOCK_ACCEPTING,  /* answered, waits for the connection to be up */
	RSOCK_OPEN,       /* until a side says DISCONNECT, or it breaks */
	RSOCK_GONE,       /* no connection any more; `err` says why. What was received can still be read */
};

#define RSOCK_RESERVE  16u    /* messages that need no credit: CREDIT, CONTROL; iomap entries are added to it */
#define RSOCK_SQ_CTRL  8u     /* entries of the send queue that data leaves to other messages */
#define RSOCK_XFER_MAX 65536u /* bytes of one DATA message */
#define RSOCK_INLINE   64u
#define RSOCK_CLOSE_MS 10000 /* for the last bytes' acknowledgement, unless SO_LINGER says otherwise */

struct rsock_opts {
	uint32_t rcvbuf, sndbuf; /* bytes */
	uint32_t sq, rq;         /* messages of data */
	uint32_t inl;            /* bytes */
	uint32_t maps;           /* iomap entries that the peer may fill */
	struct linger linger;
	struct timeval rcvtimeo, sndtimeo;
	int reuseaddr, keepalive, keepidle, oobinline, nodelay, v6only; /* kept, of no effect */
};

/* A thread that sleeps on a socket. */
struct rsock_waiter {
	int fd;              /* its own eventfd */
	struct rn_link link; /* in the socket's waiters */
};

/* riomap() */
struct rsock_iomr {
	struct ibv_mr *mr;
	uint64_t offset;
	int index;           /* in the peer's table; -1: for local use */
	struct rn_link link; /* in the socket's iomrs */
};

struct rsock {
	int fd; /* the program's name for it: an epoll of both channels */
	int domain;
	uint32_t refs; /* rsock_fd.c */
	pthread_mutex_t snd, rcv;
	pthread_mutex_t lock;
	enum rsock_state state; /* rsock_move() */
	int err;                /* why it is GONE; 0: in order */
	int so_error;           /* the same until SO_ERROR has told it */
	bool nonblock;
	bool closing;          /* rclose() */
	bool broken;           /* the connection is down: what has not completed never will */
	bool rx_end;           /* the peer sends no more */
	bool rx_shut, tx_shut; /* rshutdown() */
	struct rsock_opts opt;
	struct rn_list waiters; /* struct rsock_waiter */

	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_comp_channel *cc;
	struct ibv_cq *cq;
	bool armed; /* the next completion brings an event */

	/* the registered block: SGL, iomap table, messages, receive ring, send ring */
	uint8_t *block;
	struct ibv_mr *mr;
	struct rsock_sge *sgl; /* [RSOCK_SGL], the peer writes them */
	struct rsock_map *map; /* [opt.maps], the peer writes them */
	uint32_t *msg;         /* [rq_size] */
	uint8_t *rbuf, *sbuf;
	uint32_t rsize, ssize; /* bytes; rsize is twice what is offered at a time */

	/* sending */
	uint32_t inl;
	uint32_t sq_size, sq_free;          /* entries */
	uint32_t s_head, s_used;            /* bytes of the ring */
	uint32_t quiet_wrs, quiet_bytes;    /* since the last request that asked for a completion */
	struct rsock_sge target[RSOCK_SGL]; /* buffers the peer offered, copied */
	uint32_t ntargets, next_sgl;
	uint16_t seq, seq_max; /* DATA messages sent, and allowed */

	/* receiving */
	uint32_t rq_size, credits;
	uint32_t r_head, r_avail;  /* bytes to read */
	uint32_t r_offered;        /* bytes the peer may still write */
	uint32_t r_free;           /* read, not offered again */
	uint32_t r_next;           /* what is offered next */
	uint16_t rseq, granted;    /* DATA messages received, and allowed */
	struct rsock_sge peer_sgl; /* where the peer's SGL is */
	uint32_t peer_slot;        /* its entry to write next */
	bool peer_big;             /* is big-endian */
	uint32_t peer_maps;        /* its iomap entries */

	struct rn_list iomrs; /* struct rsock_iomr */
};

/* ---- rsock_fd.c: descriptors ---- */

/*
 * A socket for an id, which it takes over in any case (NULL: a new one), and which is known by its descriptor after
 * rsock_publish() only. NULL and errno.
 */
struct rsock *rsock_make(int domain, const struct rsock_opts *opt, struct rdma_cm_id *id);
int rsock_publish(struct rsock *rs); /* the descriptor, or -1 and errno (and rs is gone) */
/* Finds a socket and holds it. NULL: no rsocket. */
struct rsock *rsock_find(int fd);
/* The same; sets EBADF. */
struct rsock *rsock_get(int fd);
void rsock_put(struct rsock *rs);
/* -1 with errno when rc is an errno, else 0; gives rs back. */
int rsock_done(struct rsock *rs, int rc);

/* ---- rsock_ep.c: QP, queues and memory of a connection; the hello. All 0 or an errno; lock held ---- */

int rsock_ep_make(struct rsock *rs);
void rsock_ep_free(struct rsock *rs);
void rsock_hello_fill(const struct rsock *rs, struct rsock_hello *h);
int rsock_hello_take(struct rsock *rs, const void *priv, size_t len);

/* ---- rsock_flow.c: messages, credits, completions; lock held ---- */

void rsock_move(struct rsock *rs, enum rsock_state state);
/* GONE for the reason of err (0: in order). */
void rsock_over(struct rsock *rs, int err);
/* The connection is down. That is in order when the peer had said that nothing more comes. */
void rsock_lost(struct rsock *rs);
/* Takes what the completion queue holds, and offers buffers and credits. */
void rsock_progress(struct rsock *rs);
/* Offers buffers and credits when enough of them are used up. */
void rsock_offer(struct rsock *rs);
/*
 * One RDMA Write of n bytes at `from` (in the send ring, or inline when n <= rs->inl) and, unless type is 0, a message
 * of that type behind it. When the Write has completed, `ring` bytes of the send ring are free again. The send queue
 * must have room for two work requests.
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
/* Asks for an event with the next completion. */
void rsock_arm(struct rsock *rs);
/* Takes the events of both channels. */
void rsock_events(struct rsock *rs);
/* This thread's eventfd. -1 and errno. */
int rsock_wake_fd(void);
void rsock_wake_clear(int fd);
void rsock_waiter_add(struct rsock *rs, struct rsock_waiter *w);
void rsock_waiter_del(struct rsock *rs, struct rsock_waiter *w);
uint64_t rsock_now_us(void);
/*
 * A waiter polls for RSOCK_SPIN_US and at least RSOCK_SPIN_POLLS times before it sleeps: on CPUs with too much to do
 * ibv_poll_cq() yields, and the time passes while others, the daemon among them, run.
 */
#define RSOCK_SPIN_US    50u
#define RSOCK_SPIN_POLLS 48u

/* Sleeps until something happened on rs; it may have been for somebody else. 0 or an errno (EINTR). */
int rsock_doze(struct rsock *rs, int ms);
/* Until ready(). 0, or EAGAIN (not now, or ms (-1: no limit) are over), EINTR, EBADF (closed meanwhile). */
int rsock_wait(struct rsock *rs, bool (*ready)(const struct rsock *rs), bool now, int ms);
/* The same for rclose() itself, and whatever signals come. */
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

/* Tells the peer, waits until all was acknowledged (at most ms), ends the connection. */
void rsock_shut_all(struct rsock *rs, int ms);

/* ---- rsock_iomap.c; lock held ---- */

void rsock_iomaps_free(struct rsock *rs);

#endif
