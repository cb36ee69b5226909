/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that a client and the daemon share: which regions there are and what lies at fixed places in them. The
 * client makes each region (memfd, sealed against shrinking) and hands it over once in IPC_HELLO; the daemon maps it
 * whole. Memory that the client already shares with other processes is added by IPC_IMPORT. Everything inside is named
 * by region and byte offset, never by pointer. Integers are in host order.
 *
 * Security model
 *   - The client is not trusted: it may write anything, anywhere in its own regions, at any time. The daemon copies
 *     what it uses, checks the copy, and uses the copy. The worst that a client can do is to lose its own connections
 *     and data.
 *   - The daemon is trusted by the client; still librnic validates indices, so that a bug is found near its cause.
 *   - Clients cannot reach each other: no region is shared by two clients, and every STag is checked against the
 *     protection domain of the QP it comes in on. A client may let others of its user into a protection domain of its
 *     own (IPC_TOKEN in ipc.h).
 */
#ifndef IPC_SHM_H
#define IPC_SHM_H

#include <stdint.h>

#include "base/rn_base.h"

#define IPC_MAX_WORKERS 16
#define IPC_MAX_QPS     4096 /* per client: bits in a doorbell bitmap */

/* Regions of a client. */
enum ipc_region {
	IPC_REGION_QUEUES = 0, /* ordinary pages: the control block, all rings, event queues, piece lists */
	IPC_REGION_ARENA = 1,  /* ordinary pages: registered memory */
	IPC_REGION_HUGE = 2,   /* hugetlb pages: registered memory; absent where the system has none */
	IPC_REGIONS
};

#define IPC_QUEUES_SIZE (UINT64_C(1) << 30) /* sparse: only touched pages cost memory */
#define IPC_ARENA_SIZE  (UINT64_C(1) << 36)
#define IPC_HUGE_SIZE   (UINT64_C(1) << 36)
#define IPC_IMPORTS_MAX 256u                 /* imports of a client at a time */
#define IPC_IMPORT_ROOM (UINT64_C(1) << 36)  /* bytes of all its imports together */
#define IPC_CTRL_MAGIC  UINT32_C(0x524e4943) /* "RNIC" */

/*
 * Doorbells of one worker. The client sets the bit of the QP in `bits`, then the bit of that word in `summary` (both
 * atomic or, release); the worker exchanges summary, then the words, with zero (acquire) and looks at each QP's SQ.
 * A client that finds the QP's bit set does not set the bit again. So the client has a full fence between its entry in
 * the queue and its look at the bit, and the worker has one between the exchange of the word and its look at the queue.
 * Before it sleeps, the worker sets need_wakeup and looks at the bits once more. The client, after setting its bits and
 * a full fence, reads need_wakeup and, if set, writes its wake eventfd (the pattern of io_uring's SQPOLL).
 *
 * Posting receives rings a doorbell only if the worker has asked for that in the ring of receives (spsc_prod_asked).
 * For a queue pair's own receive queue, the client sets the queue pair's bit. For a shared receive queue, the word of
 * spsc_prod_asked has a bit for each worker, and the client sets `recvs` of each worker that has asked to 1.
 */
struct ipc_doorbell {
	uint64_t summary RN_ALIGNED(RN_CACHE_LINE);
	uint32_t recvs;
	uint32_t need_wakeup RN_ALIGNED(RN_CACHE_LINE);
	uint64_t bits[IPC_MAX_QPS / 64] RN_ALIGNED(RN_CACHE_LINE);
};

/* At offset 0 of IPC_REGION_QUEUES. */
struct ipc_ctrl {
	uint32_t magic;
	uint32_t oversubscribed; /* daemon -> client: 1 when clients should yield after many empty polls */
	struct ipc_doorbell doorbell[IPC_MAX_WORKERS];
};

#define IPC_QUEUES_FREE_OFF \
	((sizeof(struct ipc_ctrl) + 4095) & ~UINT64_C(4095)) /* where the client's allocator begins */

/* A piece of registered memory; IPC_REG_MR names an array of them in IPC_REGION_QUEUES. */
struct ipc_piece {
	uint32_t region; /* IPC_REGION_ARENA, IPC_REGION_HUGE, or the answer of IPC_IMPORT (>= IPC_REGIONS) */
	uint32_t rsv;
	uint64_t off; /* offset in the region, bytes */
	uint64_t len; /* bytes */
};

/*
 * Event queues: spsc rings, daemon's control thread -> client, one per channel; each entry published is followed by
 * one token in the channel's EFD_SEMAPHORE eventfd. A full ring makes the daemon keep the events until there is room.
 */
enum { IPC_EVENT_SLOT_SMALL = 32, IPC_EVENT_SLOT_CM = 1024 };

/* Completion channel entry. */
struct ipc_comp_event {
	uint64_t cq_cookie; /* as given in IPC_CREATE_CQ */
	uint64_t rsv[3];
};
_Static_assert(sizeof(struct ipc_comp_event) == IPC_EVENT_SLOT_SMALL, "slot");

/* Asynchronous event entry: `type` holds a number of ibv_event_type. */
struct ipc_async_event {
	uint32_t type;
	uint32_t rsv0;
	uint64_t cookie; /* of the QP, CQ or SRQ that the event is about; port number for port events */
	uint64_t rsv[2];
};
_Static_assert(sizeof(struct ipc_async_event) == IPC_EVENT_SLOT_SMALL, "slot");

/* An order to a process that takes orders: a specification of rnicrun --inject, which ends with a NUL. */
#define IPC_ORDER_MAX 900 /* bytes */
struct ipc_order {
	char spec[IPC_ORDER_MAX];
};

#define IPC_PRIV_MAX 512 /* MPA private data, bytes (RFC 5044, 7.1); with enhanced MPA 508 are the user's */

/* Addresses are 128 bits: IPv4 as ::ffff:a.b.c.d. Port in host order. */
struct ipc_addr {
	uint8_t ip[16];
	uint16_t port;
	uint16_t rsv;
	uint32_t scope; /* of a link-local address: the number of its interface (RFC 3493, 3.3); 0: none */
};

struct ipc_conn_param {
	uint16_t ird;      /* inbound RDMA Reads this side serves at once */
	uint16_t ord;      /* outbound RDMA Reads this side issues at once */
	uint16_t priv_len; /* bytes of priv in use */
	/* used only towards the daemon, as in ipc_modify_qp */
	uint8_t rnr_retry; /* 0..7 */
	uint8_t timeout, retry_cnt;
	uint8_t tos;   /* IPv4's TOS, IPv6's traffic class: the DSCP (RFC 2474); TCP sets the two ECN bits */
	uint8_t quiet; /* ACCEPT: 1: no event tells that the connection is established (IPC_CAN_QUIET) */
	uint8_t rsv;
	uint8_t priv[IPC_PRIV_MAX];
};

/* Connection manager event: `type` holds a number of rdma_cm_event_type. */
struct ipc_cm_event {
	uint32_t type;
	int32_t status;     /* 0, or a negative errno as rdma_cm reports it */
	uint32_t id;        /* the id that the event is about; CONNECT_REQUEST: a new id made by the daemon */
	uint32_t listen_id; /* CONNECT_REQUEST: the listening id */
	uint32_t dev;       /* device index, valid from ADDR_RESOLVED and CONNECT_REQUEST on */
	uint32_t qpn, qkey; /* ESTABLISHED of a datagram id, MULTICAST_JOIN: where to send */
	uint32_t join;      /* MULTICAST_JOIN, _ERROR: the client's number for the join; remote.ip is the group */
	struct ipc_addr local, remote;
	struct ipc_conn_param param; /* what the peer offered or answered, with ird and ord as seen by the peer */
};
_Static_assert(sizeof(struct ipc_cm_event) <= IPC_EVENT_SLOT_CM, "slot");

#endif
