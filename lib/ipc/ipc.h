/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control messages between librnic and rnicd: one SOCK_SEQPACKET UNIX socket per client process. The client sends a
 * request and waits for the answer with the same type and seq; the daemon sends nothing of its own accord (events go
 * through the queues of ipc_shm.h). The daemon serves one request after the other, except for REACH, which may take
 * seconds: requests behind it may be answered before it. A client has ended when its socket is closed; nothing else
 * tells the daemon so. The daemon then moves the client's QPs to ERROR, tells the peers, and releases everything that
 * belonged to the client.
 *
 * An answer carries status 0 or an errno, and on error one sentence in text that says what to do about the error. A
 * message of wrong length or type, a number that is not the client's, or an offset outside a region is answered with
 * EINVAL and a sentence; it is counted, and has no effect. Every handle is a small number that is valid for one client
 * alone.
 */
#ifndef IPC_H
#define IPC_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc_shm.h"
#include "ipc/ipc_gram.h"
#include "ipc/ipc_stream.h"

#define IPC_VERSION        8 /* version of this header and of ipc_shm.h (test_ipc.c has the sizes) */
#define IPC_TEXT_MAX       192
#define IPC_DEFAULT_SOCKET "/run/rnicd/rnicd.sock" /* overridden by $RNICD_SOCKET */

enum ipc_type {
	IPC_HELLO = 1, /* fds: wake eventfd, then one memfd per present region in the order of enum ipc_region */
	IPC_QUERY_DEV,
	IPC_CREATE_CHANNEL, /* fds: the channel's eventfd */
	IPC_DESTROY_CHANNEL,
	IPC_ALLOC_PD,
	IPC_DEALLOC_PD,
	IPC_REG_MR,
	IPC_DEREG_MR,
	IPC_CREATE_CQ,
	IPC_DESTROY_CQ,
	IPC_CREATE_QP,
	IPC_MODIFY_QP,
	IPC_QUERY_QP,
	IPC_DESTROY_QP,
	IPC_CM_CREATE_ID,
	IPC_CM_DESTROY_ID,
	IPC_CM_BIND,
	IPC_CM_RESOLVE_ADDR,  /* event ADDR_RESOLVED or ADDR_ERROR */
	IPC_CM_RESOLVE_ROUTE, /* event ROUTE_RESOLVED or ROUTE_ERROR */
	IPC_CM_LISTEN,
	IPC_CM_CONNECT, /* event ESTABLISHED, REJECTED, UNREACHABLE, CONNECT_ERROR, or (qp 0) CONNECT_RESPONSE */
	IPC_CM_ACCEPT,  /* event ESTABLISHED (unless `quiet`) or CONNECT_ERROR */
	IPC_CM_REJECT,
	IPC_CM_DISCONNECT, /* event DISCONNECTED, on both sides */
	IPC_CM_MIGRATE,
	IPC_CM_SOCKET, /* a connected socket of the client shall carry the id's connection; passive: event
			  CONNECT_REQUEST or CONNECT_ERROR, about the id itself */
	IPC_RESIZE_CQ,
	IPC_CREATE_SRQ,
	IPC_MODIFY_SRQ,
	IPC_QUERY_SRQ,
	IPC_DESTROY_SRQ,
	IPC_IMPORT, /* fds: none, or the file; the answer's handle is the number of a region */
	IPC_FORGET, /* ends an import; EBUSY while a memory region lies in the import */
	IPC_ALLOC_MW,
	IPC_DEALLOC_MW,
	IPC_TOKEN,     /* fds: the token. handle: of the ASYNC channel of the context that the token will stand for */
	IPC_TOKEN_DEV, /* fds: a token of any process. The answer's handle is the device */
	IPC_TOKEN_PD,  /* fds: the same; handle: a PD of the token's client. The answer's handle stands for this PD */
	/*
	 * fds: the token; handle: index (STag >> 8) of a memory region in a PD of the token's client. Any process may
	 * have registered the region.
	 */
	IPC_TOKEN_MR,
	IPC_REACH,      /* resolves the neighbour on the way to an address: EHOSTUNREACH, ENETUNREACH, ENOBUFS */
	IPC_ATTACH,     /* a datagram queue pair receives datagrams to a group; attaching it again is no error */
	IPC_DETACH,     /* EINVAL: the queue pair is not attached */
	IPC_GROUP_BIND, /* binds a group's tag, to which Write-Records go, to memory of the queue pair */
	IPC_CM_JOIN,    /* event MULTICAST_JOIN or MULTICAST_ERROR; the queue pair is attached by IPC_ATTACH */
	IPC_CM_LEAVE,
	IPC_OPEN_XRCD,    /* fds: none, or a file, by which processes of one user find the same domain */
	IPC_CLOSE_XRCD,   /* EBUSY while the domain has queues that were made with this handle */
	IPC_OPEN_QP,      /* opens a target queue pair of the domain by its QPN; answered with create_qp_ok */
	IPC_INJECT,       /* in place of HELLO: orders of rnicctl inject for a process of this user (any for root) */
	IPC_SOCK_JOIN,    /* in place of HELLO: a client for sockets, which may send only the requests below */
	IPC_SOCK_BIND,    /* a new socket; the answer's fd: its descriptor */
	IPC_SOCK_LISTEN,  /* from now on a byte in the descriptor stands for a connection to be accepted */
	IPC_SOCK_CONNECT, /* the answer's fd: the memory. The descriptor becomes writable when the peer has answered */
	IPC_SOCK_ACCEPT,  /* fds of the answer: a descriptor, the stream's memory. EAGAIN, ECONNABORTED */
	IPC_SOCK_GRAM,    /* a new datagram socket; fds of the answer: its descriptor, its memory */
	IPC_SOCK_PEER,    /* the peer of a datagram socket, or none */
	/*
	 * Finds the socket of a descriptor. A process that has the descriptor may use the socket. fds: the descriptor.
	 * EBADF: the descriptor is not of a socket of rnicd. fds of the answer: the doorbells' memory, the wake
	 * eventfd, and the memory of the socket if it is a stream or a datagram socket.
	 */
	IPC_SOCK_FIND,
	/*
	 * Only of an rnicd whose answer to SOCK_JOIN has IPC_SOCK_KERNELS: a TCP socket of the kernel's, which listens
	 * or connects, becomes a socket with the wire iwarp; or a UDP socket with a port, a datagram socket
	 * (ipc_gram.h). fds: the kernel's socket. fds of the answer: the descriptor, and the memory of a socket that
	 * connects or is UDP's.
	 */
	IPC_SOCK_TAKE,
	/*
	 * Only of such an rnicd, with sock_addr: when the answer comes, the sockets with addr.port whose descriptor was
	 * closed everywhere before have no listening and no UDP socket of the kernel's any more.
	 */
	IPC_SOCK_CLOSED,
	IPC_SOCK_LIST, /* in place of HELLO: asks for the list of sockets that the client's user may see */
	/*
	 * CM_CREATE_ID and CM_RESOLVE_ADDR in one request. The answer takes the place of the event, which does not
	 * follow. Allowed only if the answer to HELLO has IPC_CAN_OPEN. After an error there is no id.
	 */
	IPC_CM_OPEN,
	/*
	 * Only of an rnicd whose answer to SOCK_JOIN has IPC_SOCK_KERNELS: sets an option of the kernel's socket
	 * (ipc_sock_opt.h). EOPNOTSUPP: the option is no such one.
	 */
	IPC_SOCK_OPTION,
	IPC_TYPES
};

enum ipc_channel_kind {
	IPC_CHANNEL_COMP = 0,
	IPC_CHANNEL_ASYNC,
	IPC_CHANNEL_CM,
	IPC_CHANNEL_ORDERS /* orders that IPC_INJECT brings, for a process that takes them; a client has at most one */
};

struct ipc_hello {
	uint32_t version; /* first in both messages in every version, so that a side can tell that the other differs */
	uint32_t pid;     /* for messages only; the daemon trusts SO_PEERCRED */
	uint64_t size[IPC_REGIONS]; /* bytes; 0: region absent */
};
enum {
	IPC_CAN_OPEN = 1 << 0,  /* the daemon knows IPC_CM_OPEN */
	IPC_CAN_QUIET = 1 << 1, /* the daemon knows ipc_conn_param.quiet */
};
struct ipc_hello_ok {
	uint32_t version, devs, workers;
	uint32_t can; /* IPC_CAN_*; an older daemon sends 0 */
};

struct ipc_query_dev {
	uint32_t dev;
};
struct ipc_dev_info {
	char name[IPC_DEV_NAME_MAX]; /* "rnic0" */
	uint8_t mac[6];
	uint8_t up;
	uint8_t prefix_len;
	uint8_t ip[16];
	uint32_t mtu;    /* bytes of IP packet */
	uint32_t ud_mtu; /* greatest length of a message in one datagram, bytes, one of verbs' MTUs; 0: no datagrams */
	uint32_t max_qp; /* also the greatest number of SRQs */
	uint32_t max_cq, max_mr, max_pd, max_cqe, max_wr, max_sge, max_inline, max_rd_atomic;
	uint64_t max_mr_size;
	uint32_t roce;      /* 1: the device behaves as a RoCE channel adapter does, the wire is the same */
	uint32_t rate_mbps; /* line rate, 0: unlimited */
	uint32_t max_groups, max_group_qps; /* multicast: groups of the device, queue pairs in one; 0: no datagrams */
	uint32_t rnr_waits; /* 1: messages may wait for a receive, so posting a receive may have to ring the doorbell */
	uint32_t xrc;       /* 1: there are XRC domains, since queue pairs connect without connection manager */
	uint32_t ud_max;    /* bytes of a message of several datagrams at most (IPC_UD_LONG); 0: no datagrams */
	uint32_t efa;       /* 1, with roce: the device is shown as an Elastic Fabric Adapter, with efadv's calls */
};

struct ipc_create_channel {
	uint32_t kind;       /* enum ipc_channel_kind */
	uint32_t dev;        /* ASYNC only */
	uint64_t ring_off;   /* spsc ring in IPC_REGION_QUEUES, slots of IPC_EVENT_SLOT_SMALL or _CM bytes */
	uint32_t ring_slots; /* power of two */
	uint32_t rsv;
};

struct ipc_handle {
	uint32_t handle;
	uint32_t rsv;
}; /* argument of each destroy request, answer to each create request */

struct ipc_alloc_pd {
	uint32_t dev;
	uint32_t rsv;
};

struct ipc_reg_mr {
	uint32_t pd;
	uint32_t access;     /* numbers of IBV_ACCESS_LOCAL_WRITE, REMOTE_*, MW_BIND */
	uint64_t iova;       /* tagged offset of the first byte: the client's virtual address */
	uint64_t len;        /* bytes; equals the sum of the pieces. 0, and all below 0: a null region (access 1) */
	uint64_t pieces_off; /* struct ipc_piece[npieces] in IPC_REGION_QUEUES */
	uint32_t npieces;
	uint32_t mr; /* if the request succeeds, the new region replaces this one under the same STag; 0: none */
};
struct ipc_reg_mr_ok {
	uint32_t handle, stag;
}; /* stag is lkey and rkey; for a memory window, its first rkey */

/*
 * A token is an unconnected socket that the client has made. The kernel's number of the socket (SO_COOKIE) cannot be
 * forged, so a process that has a descriptor of the token has got it from the token's client. The token stands for a
 * context, as ibv_context.cmd_fd. EINVAL: the descriptor is no token; EPERM: the token is of another user's client;
 * ENODEV: the process of the token's client has ended.
 *
 * A PD that stands for another client's PD is equivalent to it: QPs in either use the regions in both. When a client
 * ends, its regions in a PD, and their memory, live on while other clients have the PD. For clients that have imported
 * the PD, a PD keeps the regions of at most 32 ended ones. When the owner deallocates the PD (EBUSY while living
 * clients have anything in it), the PD's regions go, and nothing more can be made in the PD.
 */
struct ipc_token_mr_ok {
	uint32_t handle, stag;
	uint64_t len;
};

enum { IPC_MW_TYPE_1 = 1, IPC_MW_TYPE_2 = 2 }; /* numbers of ibv_mw_type */
struct ipc_alloc_mw {
	uint32_t pd, type;
}; /* answered with reg_mr_ok */

/*
 * Imports memory that the client already shares with other processes. Without a descriptor the daemon opens the file
 * that the client has mapped at [start, end), one whole mapping, with the rights of the client's user. ENXIO: the
 * daemon may not open the file, and the client should pass a descriptor of it. EOPNOTSUPP: the file is not one of
 * memory (tmpfs, memfd, System V, hugetlbfs). EACCES: the file may not be written to.
 */
struct ipc_import {
	uint64_t start, end; /* of the client's mapping; unused if a descriptor is passed */
	uint64_t off, len;   /* the part of the file, bytes; whole pages */
	uint32_t writable;   /* 0: no memory region in the import may be written to */
	uint32_t rsv;
};

struct ipc_create_cq {
	uint32_t dev;
	uint32_t channel; /* handle or 0 */
	uint64_t cookie;
	uint64_t shm_off;     /* struct qp_cq_shm in IPC_REGION_QUEUES */
	uint64_t ring_off;    /* ring of worker 0 */
	uint64_t ring_stride; /* bytes between workers' rings */
	uint32_t cqe;         /* slots of each ring, power of two */
	uint32_t comp_vector;
	uint32_t async; /* handle of the ASYNC channel that gets the event of an overrun, or 0 */
	uint32_t wide;  /* 1: entries are struct qp_cqe_wide, with senders' addresses */
};

/*
 * New rings for a CQ, as in IPC_CREATE_CQ. Each worker moves the entries left in its old ring into the new one, so the
 * client must not take entries while it waits for the answer. After a good answer the old rings are the client's own
 * memory again.
 */
struct ipc_resize_cq {
	uint32_t cq;
	uint32_t cqe;
	uint64_t ring_off, ring_stride;
};

struct ipc_create_srq {
	uint32_t pd;
	uint32_t wqe_slots;  /* of each receive, 1..QP_WQE_MAX_SLOTS */
	uint64_t cookie;     /* returned in asynchronous events */
	uint64_t ring_off;   /* spsc ring of QP_SLOT_SIZE slots */
	uint32_t ring_slots; /* a power of two */
	uint32_t limit;      /* as in IPC_MODIFY_SRQ */
	uint32_t async;      /* handle of the ASYNC channel that gets the SRQ's events, or 0 */
	uint32_t xrcd;       /* handle of its XRC domain, or 0 */
	uint32_t cq;         /* handle; with xrcd: the CQ for the SRQ's completions */
	uint32_t rsv;
};
struct ipc_create_srq_ok {
	uint32_t handle;
	uint32_t number; /* with xrcd: the number by which a peer names the SRQ */
};

enum { IPC_XRCD_CREATE = 1 << 0, IPC_XRCD_EXCLUSIVE = 1 << 1 }; /* O_CREAT and O_EXCL */
struct ipc_open_xrcd {
	uint32_t dev;
	uint32_t flags;
};
struct ipc_open_qp {
	uint32_t xrcd;
	uint32_t qpn;
	uint64_t cookie;
	uint32_t async;
	uint32_t rsv;
};
struct ipc_modify_srq {
	uint32_t srq;
	uint32_t limit; /* SRQ_LIMIT_REACHED is raised once, when fewer receives are left; 0: never */
};
struct ipc_query_srq_ok {
	uint32_t limit;
	uint32_t rsv;
};

enum ipc_ud {
	IPC_UD_NONE = 0, /* a connected queue pair */
	IPC_UD_PLAIN,    /* without connection; each message is one datagram */
	IPC_UD_LONG,     /* without connection; a long message takes several datagrams */
	IPC_RD           /* reliable datagrams */
};
enum ipc_xrc {
	IPC_XRC_NONE = 0,
	IPC_XRC_INITIATOR, /* receives no messages */
	IPC_XRC_TARGET     /* belongs to its domain, and outlives its process while others have the domain open */
};
#define IPC_QP_SHARED UINT32_C(0x80000000) /* bit of the handle of a target, which has no doorbell */
enum {
	IPC_RD_UNORDERED = 1 << 0, /* no message that the queue pair sends waits for another */
	IPC_RD_STRICT = 1 << 1,    /* the first work request that fails takes the queue pair to ERR */
};
#define IPC_RD_FLAGS (IPC_RD_UNORDERED | IPC_RD_STRICT) /* all flags that exist */
enum {
	IPC_HOLD_WRITES = 1 << 0,  /* the peer's Writes are held back, and placed in an order drawn from hold_seed */
	IPC_HOLD_ORDERED = 1 << 1, /* only the bytes of one Write are placed in any order, as on InfiniBand */
};
/* Where the iWARP of a queue pair runs. The numbers are also those of <rnic/rnicdv.h>. */
enum ipc_design {
	IPC_DESIGN_ANY, /* where the iWARP of the process runs */
	IPC_DESIGN_OFFLOADED,
	IPC_DESIGN_ASSISTED,
	IPC_DESIGN_HOST,
	IPC_DESIGN_EMBEDDED,
};
struct ipc_create_qp {
	uint32_t pd, send_cq, recv_cq;
	uint32_t sig_all;            /* 1: every send WQE completes with a CQE */
	uint64_t cookie;             /* returned in asynchronous events */
	uint64_t shm_off;            /* struct qp_shm */
	uint64_t sq_off, rq_off;     /* spsc rings of QP_SLOT_SIZE slots */
	uint32_t sq_slots, rq_slots; /* powers of two */
	uint32_t max_send_wr, max_recv_wr;
	uint32_t async;    /* handle of the ASYNC channel that gets the queue pair's errors, or 0 */
	uint32_t srq;      /* handle; then rq_off, rq_slots and max_recv_wr are 0. 0: a receive queue of its own */
	uint32_t datagram; /* enum ipc_ud */
	uint32_t deaf;     /* 1: the queue pair does not receive datagrams that it sends to a group it has joined */
	uint32_t xrc;      /* enum ipc_xrc */
	uint32_t xrcd;     /* TARGET: handle of its domain; then only cookie and async are used of the other members */
	uint32_t rd_flags; /* with IPC_RD: IPC_RD_* */
	uint32_t hold;     /* for a connected queue pair: IPC_HOLD_* */
	uint64_t hold_off; /* struct qp_hold_shm */
	uint64_t hold_seed;
	uint32_t design;   /* enum ipc_design */
	uint32_t maps;     /* with IPC_UD_LONG: slots of the queue pair's ring of maps, a power of two; 0: no ring */
	uint64_t maps_off; /* spsc ring of QP_MAP_SIZE slots */
	uint32_t udp_port; /* with IPC_UD_LONG: the queue pair's own UDP port; 0: it shares the device's */
	uint32_t rsv;
};
struct ipc_create_qp_ok {
	uint32_t handle;
	uint32_t qpn;
	uint32_t db_bit; /* the QP's bit in the doorbell bitmaps, < IPC_MAX_QPS */
	uint32_t rsv;
};

enum {
	IPC_QP_ATTR_STATE = 1 << 0,
	IPC_QP_ATTR_ACCESS = 1 << 1,
	IPC_QP_ATTR_IRD = 1 << 2,
	IPC_QP_ATTR_ORD = 1 << 3,
	IPC_QP_ATTR_DEST = 1 << 4,  /* with state RTR: the QP connects to dest_qpn at dest_ip by itself */
	IPC_QP_ATTR_RETRY = 1 << 5, /* timeout and retry_cnt: how long sends wait for a silent peer */
	IPC_QP_ATTR_RNR = 1 << 6, /* rnr_retry and rnr_timer: how long messages wait for a receive (roce personality) */
	IPC_QP_ATTR_QKEY = 1 << 8,       /* for a datagram queue pair */
	IPC_QP_ATTR_SQD_NOTIFY = 1 << 7, /* with state SQD: an event tells that the send queue is drained */
};
struct ipc_modify_qp {
	uint32_t qp;
	uint32_t mask;  /* IPC_QP_ATTR_* */
	uint32_t state; /* numbers of ibv_qp_state */
	uint32_t access;
	uint32_t ird, ord;
	uint32_t dest_qpn;
	uint8_t dest_ip[16]; /* all zero: any address, dest_qpn is on this daemon */
	uint8_t timeout;     /* 4.096 us << timeout; 0: without end (IBTA, local ACK timeout) */
	uint8_t retry_cnt;
	uint8_t rnr_retry; /* 0..7; 7: without end */
	uint8_t rnr_timer; /* code of the RNR NAK timer, 0..31 (IBTA, 9.7.5.2.8) */
	uint32_t qkey;
	uint8_t tos; /* with DEST: TOS of the connection's packets, as in ipc_conn_param */
	uint8_t rsv[3];
};
struct ipc_query_qp_ok {
	uint32_t state, access, ird, ord;
};

struct ipc_reach {
	uint32_t dev;
	uint32_t rsv;
	uint8_t ip[16];
};

struct ipc_attach { /* ATTACH and DETACH */
	uint32_t qp;
	uint32_t rsv;
	uint8_t group[16]; /* a group of IPv6, or of IPv4 as ::ffff:224.0.0.0 and so on */
};

struct ipc_group_bind {
	uint32_t qp;
	uint32_t tag;
	uint32_t stag; /* of memory in the QP's PD that others may write to */
	uint32_t rsv;
	uint64_t addr, len; /* tagged offset in stag, and bytes; len 0: unbinds the tag */
	uint8_t group[16];  /* as in ipc_attach */
};

struct ipc_inject {
	uint32_t client; /* number of the client that gets the orders; 0: the client of process `pid` gets them */
	uint32_t pid;
	char spec[IPC_ORDER_MAX];
};

struct ipc_cm_create_id {
	uint32_t channel;
	uint32_t datagram; /* 1: RDMA_PS_UDP */
};
struct ipc_cm_bind {
	uint32_t id;
	uint32_t own_family; /* 1: IPv6's wildcard address does not include IPv4 (IPV6_V6ONLY, RFC 3493, 5.3) */
	struct ipc_addr addr;
};
struct ipc_cm_bind_ok {
	struct ipc_addr addr;
	uint32_t dev; /* UINT32_MAX: any */
	uint32_t rsv;
};
struct ipc_cm_resolve {
	uint32_t id;
	uint32_t timeout_ms;
	uint32_t has_src; /* 1: src names a device address (port may be 0) */
	uint32_t rsv;
	struct ipc_addr src, dst;
};
struct ipc_cm_open {
	uint32_t channel, datagram; /* as in ipc_cm_create_id */
	struct ipc_cm_resolve to;   /* id: not used */
};
struct ipc_cm_open_ok {
	uint32_t handle;
	int32_t status;  /* as in the event: 0: ADDR_RESOLVED, else ADDR_ERROR */
	uint32_t dev;    /* as in the event */
	uint32_t routed; /* 1: the route is known, so CM_CONNECT may follow without CM_RESOLVE_ROUTE */
	struct ipc_addr local, remote;
};
struct ipc_cm_socket {
	uint32_t id;
	uint32_t fd;      /* the socket's descriptor; EOPNOTSUPP unless the client's process is the daemon's, too */
	uint32_t passive; /* 1: the peer sends the MPA Request */
	uint32_t rsv;
};
struct ipc_cm_socket_ok {
	struct ipc_addr local, remote;
	uint32_t dev;
	uint32_t rsv;
};
struct ipc_cm_listen {
	uint32_t id;
	uint32_t backlog;
	uint32_t tos; /* TOS of the listener's connections until their accept gives another one, as in ipc_conn_param */
	uint32_t rsv;
};
struct ipc_cm_connect { /* CONNECT and ACCEPT */
	uint32_t id;
	uint32_t qp; /* handle; 0: the caller brings up the QP itself (accepted from CONNECT only) */
	struct ipc_conn_param param;
};
struct ipc_cm_reject {
	uint32_t id;
	uint16_t priv_len;
	uint16_t rsv;
	uint8_t priv[IPC_PRIV_MAX];
};
struct ipc_cm_migrate {
	uint32_t id;
	uint32_t channel;
};
struct ipc_cm_join { /* JOIN and LEAVE */
	uint32_t id;
	uint32_t join;      /* the client's number for the join, returned in the event */
	uint32_t send_only; /* JOIN: 1: the network is not asked for datagrams to the group */
	uint32_t rsv;
	uint8_t group[16]; /* JOIN; as in ipc_attach */
};

struct ipc_msg {
	uint16_t type; /* enum ipc_type */
	uint16_t len;  /* bytes of the whole message: IPC_MSG_LEN(member) or the error form */
	uint32_t seq;
	int32_t status; /* answers: 0 or a positive errno */
	uint32_t rsv;
	union {
		struct ipc_hello hello;
		struct ipc_hello_ok hello_ok;
		struct ipc_query_dev query_dev;
		struct ipc_dev_info dev_info;
		struct ipc_create_channel create_channel;
		struct ipc_handle handle;
		struct ipc_alloc_pd alloc_pd;
		struct ipc_reg_mr reg_mr;
		struct ipc_reg_mr_ok reg_mr_ok;
		struct ipc_token_mr_ok token_mr_ok;
		struct ipc_import import;
		struct ipc_alloc_mw alloc_mw;
		struct ipc_create_cq create_cq;
		struct ipc_resize_cq resize_cq;
		struct ipc_create_srq create_srq;
		struct ipc_create_srq_ok create_srq_ok;
		struct ipc_open_xrcd open_xrcd;
		struct ipc_open_qp open_qp;
		struct ipc_modify_srq modify_srq;
		struct ipc_query_srq_ok query_srq_ok;
		struct ipc_create_qp create_qp;
		struct ipc_create_qp_ok create_qp_ok;
		struct ipc_modify_qp modify_qp;
		struct ipc_query_qp_ok query_qp_ok;
		struct ipc_reach reach;
		struct ipc_inject inject;
		struct ipc_cm_create_id cm_create_id;
		struct ipc_cm_bind cm_bind;
		struct ipc_cm_bind_ok cm_bind_ok;
		struct ipc_cm_resolve cm_resolve;
		struct ipc_cm_open cm_open;
		struct ipc_cm_open_ok cm_open_ok;
		struct ipc_cm_socket cm_socket;
		struct ipc_cm_socket_ok cm_socket_ok;
		struct ipc_cm_listen cm_listen;
		struct ipc_cm_connect cm_connect;
		struct ipc_cm_reject cm_reject;
		struct ipc_cm_migrate cm_migrate;
		struct ipc_attach attach;
		struct ipc_group_bind group_bind;
		struct ipc_cm_join cm_join;
		struct ipc_sock_join_ok sock_join_ok;
		struct ipc_sock_addr sock_addr;
		struct ipc_sock_listen sock_listen;
		struct ipc_sock_take sock_take;
		struct ipc_sock_option sock_option;
		struct ipc_sock_gram sock_gram;
		struct ipc_sock_ok sock_ok;
		struct ipc_sock_found sock_found;
		struct ipc_sock_list sock_list;
		struct ipc_sock_list_ok sock_list_ok;
		char text[IPC_TEXT_MAX]; /* answers with status != 0: a NUL-terminated sentence */
	};
};
#define IPC_MSG_HDR         ((uint16_t)offsetof(struct ipc_msg, hello))
#define IPC_MSG_LEN(member) ((uint16_t)(IPC_MSG_HDR + sizeof(((struct ipc_msg *)0)->member)))
#define IPC_MAX_FDS         8

/*
 * Socket I/O, by both sides. fds are passed with SCM_RIGHTS; received ones are close-on-exec. All return 0 or a
 * negative errno: -EPIPE when the other side is gone, -EPROTO for a malformed message (its fds are closed), -ENFILE:
 * the message was received, but there was no free descriptor number for its fds.
 */
int ipc_send(int sock, const struct ipc_msg *m, const int *fds, unsigned nfds);
/* Connects to the control socket at `path`. A close-on-exec descriptor, or a negative errno. */
int ipc_dial(const char *path);
/* Whether the next message carries descriptors. The message stays in the socket. -EAGAIN: there is no message. */
int ipc_peek(int sock, bool *fds);
int ipc_recv(int sock, struct ipc_msg *m, int *fds, unsigned *nfds); /* *nfds: room in, received out */

/*
 * The socket where a process that is no client of rnicd takes IPC_INJECT: an abstract name with the process number, so
 * both sides check SO_PEERCRED. Returns the length of the name.
 */
struct sockaddr_un;
uint32_t ipc_orders_name(struct sockaddr_un *un, uint32_t pid);

#endif
