/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets: the memory that a program and rnicd share for one TCP connection (RFC 9293), and the requests.
 *
 * A socket is a descriptor: one end of a socket pair that rnicd has made. rnicd keeps the other end. The kernel counts
 * the holders of the descriptor (dup, fork, descriptors that are passed on) and tells rnicd when the last holder has
 * closed it or has died. The readiness of the pair is the readiness of the socket. A byte that rnicd has put into the
 * pair means that there is something to read, or a connection to accept. IPC_STREAM_BLOCK bytes that the program has
 * put into the pair, and that rnicd has not taken yet, mean that the socket is not writable. rnicd shuts down its end
 * when the peer will send no more.
 *
 * rnicd makes the memory, seals it, and passes it with the descriptor. The memory holds struct ipc_stream, a ring of
 * bytes to send at IPC_STREAM_TX_OFF, and a ring of received bytes at IPC_STREAM_RX_OFF; IPC_STREAM_RING bytes each.
 * Indices run freely and wrap at 2^32. Each word has one writer, except `want` and `error`. The writer of an index
 * first writes the bytes, then publishes the index with a release store. rnicd copies what the program writes and
 * checks the copy: an index that jumps ends the connection with a reset. Processes that share the socket take turns by
 * the words tx_turn and rx_turn.
 *
 * Doorbells: struct ipc_sock_bell for each worker, one set for all processes of a user. The program sets the stream's
 * bit when it has put bytes, has taken IPC_STREAM_TELL bytes since it last rang, or has set a bit of `fin`.
 *
 * FPDUs (RFC 5044): a program that runs iWARP itself may leave the CRCs to rnicd. The program says from which index on
 * its bytes are FPDUs, for each direction separately (ipc_stream_fpdus). In the send ring rnicd writes the CRC field of
 * each FPDU before the FPDU is sent; an FPDU that is not whole stays in the ring until the program has put the rest, or
 * has set IPC_STREAM_FIN. Received bytes are published in whole FPDUs, and rx_summed is the index up to which their
 * CRCs are good. At the first bad CRC, and when the peer has ended its direction, rnicd stops summing: all bytes are
 * published then, and the program finds the bad CRC itself.
 */
#ifndef IPC_STREAM_H
#define IPC_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "ipc/ipc_shm.h"

#define IPC_DEV_NAME_MAX 32

#define IPC_STREAM_RING   (UINT32_C(1) << 18)   /* bytes, each way */
#define IPC_STREAM_TELL   (IPC_STREAM_RING / 4) /* bytes that the program takes before it rings the doorbell */
#define IPC_STREAM_TX_OFF UINT32_C(4096)
#define IPC_STREAM_RX_OFF (IPC_STREAM_TX_OFF + IPC_STREAM_RING)
#define IPC_STREAM_SIZE   (IPC_STREAM_RX_OFF + IPC_STREAM_RING)
#define IPC_STREAM_BLOCK  2048u /* bytes that fill the descriptor's buffer, so that it is not writable */

/* ipc_stream.state, which rnicd writes. */
enum {
	IPC_STREAM_CONNECTED = 1u << 0,
	IPC_STREAM_PEER_FIN = 1u << 1, /* no bytes follow after rx_tail */
	IPC_STREAM_ENDED = 1u << 2,    /* nothing is sent any more; `error` says why */
	IPC_STREAM_SUMS = 1u << 3,     /* rnicd checks the CRCs of received FPDUs: rx_summed is valid */
	IPC_STREAM_IWARP = 1u << 4,    /* the stream's wire is iwarp (doc/stream-sockets.md) */
};

/* Whether ipc_stream.state says that connect() has failed. */
static inline bool ipc_stream_connect_failed(uint32_t state)
{
	return (state & (IPC_STREAM_CONNECTED | IPC_STREAM_ENDED)) == IPC_STREAM_ENDED;
}

/* ipc_stream.want, set by the program; rnicd clears a bit when it answers through the descriptor. */
enum {
	IPC_STREAM_WANT_IN = 1u << 0,  /* put a byte into the descriptor when there is something to read */
	IPC_STREAM_WANT_OUT = 1u << 1, /* empty the descriptor when there is room to write */
};

/* ipc_stream.fin, which the program writes. */
enum {
	IPC_STREAM_FIN = 1u << 0,   /* no bytes follow after tx_tail */
	IPC_STREAM_RESET = 1u << 1, /* the connection ends at once; unsent bytes are lost */
	IPC_STREAM_ABORT = 1u << 2, /* as RESET, once the last program has closed the socket (SO_LINGER with time 0) */
	IPC_STREAM_DEAF = 1u << 3,  /* shut down for reading: with IPC_STREAM_FIN received bytes reset the connection */
	IPC_STREAM_TOLD = 1u << 4,  /* for programs only, rnicd never reads it: connect() has reported its result */
};

/* ipc_stream_fpdus.how, which the program writes. */
enum {
	IPC_STREAM_FPDUS = 1u << 0, /* the other words are valid, and only `at` may still change */
};

/* Where FPDUs begin in one direction; `how` is written last, with release. */
struct ipc_stream_fpdus {
	uint32_t how;
	uint32_t at;   /* index of an FPDU's first byte. Receiving: may become that of a later FPDU until rnicd sums */
	uint32_t base; /* index of the first byte of Full Operation: markers are counted from it */
	uint32_t step; /* bytes from one marker to the next: 512, 1024, 2048 or 4096; 0: none */
};

struct ipc_stream {
	/* written by the program */
	uint32_t tx_tail RN_ALIGNED(RN_CACHE_LINE);
	uint32_t fin;
	struct ipc_stream_fpdus tx_fpdus;
	uint32_t rx_head RN_ALIGNED(RN_CACHE_LINE);
	struct ipc_stream_fpdus rx_fpdus;
	/* written by both: atomic or, and */
	uint32_t want RN_ALIGNED(RN_CACHE_LINE);
	/* written by rnicd */
	uint32_t tx_head RN_ALIGNED(RN_CACHE_LINE); /* the peer has acknowledged the bytes before this index */
	uint32_t rx_tail RN_ALIGNED(RN_CACHE_LINE);
	uint32_t state;
	int32_t error; /* 0 or a positive errno; valid with IPC_STREAM_ENDED. The program that reports it clears it */
	uint32_t mss;  /* greatest payload of a segment at the start, bytes; valid with IPC_STREAM_CONNECTED */
	uint32_t rx_summed; /* published before rx_tail; valid with IPC_STREAM_SUMS */
	uint32_t tcp;       /* the connection's state, a number of tcpi_state in <netinet/tcp.h>; 0: not opened yet */
	/* written by programs, never read by rnicd: process number of the process that puts or takes bytes; 0: none */
	uint32_t tx_turn RN_ALIGNED(RN_CACHE_LINE);
	uint32_t rx_turn;
};
_Static_assert(sizeof(struct ipc_stream) <= IPC_STREAM_TX_OFF, "in front of the bytes");

/* A user's doorbells of one worker: bit b is bit b % IPC_MAX_QPS of block b / IPC_MAX_QPS. */
#define IPC_SOCK_BLOCKS 4u
#define IPC_MAX_SOCKS   (IPC_SOCK_BLOCKS * IPC_MAX_QPS) /* per user: sockets with a doorbell */

struct ipc_sock_bell {
	struct ipc_doorbell block[IPC_SOCK_BLOCKS];
};

/* The doorbells of a user: a block of memory, whose element w is worker w's. */
#define IPC_BELLS_SIZE (((uint64_t)sizeof(struct ipc_sock_bell) * IPC_MAX_WORKERS + 4095) & ~UINT64_C(4095))

#define IPC_SOCK_PORTS_MAX 16

enum { IPC_SOCK_PORT_HOST = 1u << 0 }; /* programs may run iWARP themselves over the port's streams: designs = any */

struct ipc_sock_port {
	uint8_t ip[16];
	uint32_t prefix_len; /* bits of the 128 */
	uint32_t mtu;        /* bytes of an IP packet */
	uint32_t flags;      /* IPC_SOCK_PORT_* */
	uint32_t rsv;
	char name[IPC_DEV_NAME_MAX]; /* of the device: "rnic0" */
};

/*
 * ipc_sock_join_ok.flags: this rnicd has no TCP of its own and serves the sockets of `rnicrun --embedded`: only sockets
 * with the wire iwarp, which SOCK_TAKE makes of the kernel's sockets; for UDP sockets see ipc_gram.h.
 */
enum { IPC_SOCK_KERNELS = 1u << 0 };
/* The variable of the environment, set to anything, by which rnicrun tells a program that its rnicd is such a one. */
#define IPC_SOCK_KERNELS_ENV "RNIC_SOCK_KERNELS"

/* Answer to IPC_SOCK_JOIN, which takes the place of HELLO; fds: the doorbells' memory, the wake eventfd. */
struct ipc_sock_join_ok {
	uint32_t version, workers, ports;
	uint32_t flags; /* IPC_SOCK_KERNELS */
	struct ipc_sock_port port[IPC_SOCK_PORTS_MAX];
};

/* ipc_sock_addr.flags: of SOCK_BIND, unless a comment names another request */
enum {
	IPC_SOCK_IP4 = 1u << 0, /* with addr.ip zero: at all ports with an IPv4 address */
	IPC_SOCK_IP6 = 1u << 1, /* the same with an IPv6 address */
	IPC_SOCK_REUSE =
		1u << 2, /* sockets of this user with this flag may be bound and listen there, and share connections */
	/* of SOCK_CONNECT: the wire, if the peer can have it; neither: the port's stream-wire */
	IPC_SOCK_PLAIN = 1u << 3,
	IPC_SOCK_IWARP = 1u << 4,
};

/*
 * SOCK_BIND: addr.ip is a port's address, addr.port 0: any. addr.ip zero: all ports, for listening; then addr.port is
 * not 0. SOCK_CONNECT: the peer's address.
 */
struct ipc_sock_addr {
	uint64_t sock;
	struct ipc_addr addr;
	uint32_t flags;
	uint32_t rsv;
};
struct ipc_sock_listen { /* LISTEN and ACCEPT */
	uint64_t sock;
	uint32_t backlog;
	uint32_t rsv;
};

struct ipc_sock_take {
	struct ipc_addr remote; /* of a socket that connects */
	uint32_t backlog;       /* of a socket that listens */
	uint32_t rsv;
};

struct ipc_sock_option { /* as of setsockopt() */
	uint64_t sock;
	int32_t level, name, value;
	uint32_t rsv;
};

/* Answer to SOCK_BIND, SOCK_CONNECT, SOCK_ACCEPT, SOCK_TAKE and SOCK_GRAM. */
struct ipc_sock_ok {
	uint64_t sock;
	uint32_t worker; /* of the doorbell to ring; not valid for SOCK_BIND */
	uint32_t bit;    /* in that doorbell, < IPC_MAX_SOCKS; not valid for SOCK_BIND */
	struct ipc_addr local, remote;
};

/* Answer to SOCK_FIND. */
enum { IPC_SOCK_IS_BOUND, IPC_SOCK_LISTENS, IPC_SOCK_IS_STREAM, IPC_SOCK_IS_GRAM };

struct ipc_sock_found {
	struct ipc_sock_ok sock;
	uint32_t kind;     /* IPC_SOCK_IS_* */
	uint32_t families; /* a listener at all ports: IPC_SOCK_IP4, IPC_SOCK_IP6; else 0 */
};

/*
 * SOCK_LIST, in place of HELLO, any number of times: the sockets that this client's user may see, a part of them in
 * each answer. Users see their own sockets, and those whose descriptors they have shown; root and rnicd's user see all.
 */
struct ipc_sock_list {
	uint32_t from; /* 0, then `next` of the answer before */
	uint32_t rsv;
};

struct ipc_sock_row {
	uint64_t
		file; /* inode number of the descriptor, socket:[N] in /proc/PID/fd; 0: it is closed, or there is none */
	struct ipc_addr local, remote;
	uint32_t uid;
	uint32_t
		recv_q; /* received bytes that wait for the program; datagrams with their heads. LISTENS: connections */
	uint32_t
		send_q; /* bytes that the peer has not acknowledged, datagrams that have not left. LISTENS: the backlog */
	uint8_t protocol; /* IPPROTO_TCP, IPPROTO_UDP */
	uint8_t state;    /* a number of tcpi_state; of datagrams TCP_ESTABLISHED with a peer, else TCP_CLOSE */
	uint8_t wire;     /* IPC_GRAM_PLAIN, IPC_GRAM_IWARP (of datagrams: the last one's); 0: not known yet */
	uint8_t families; /* as ipc_sock_found.families */
};

#define IPC_SOCK_ROWS 14
struct ipc_sock_list_ok {
	uint32_t next; /* 0: these are the last rows */
	uint32_t n;    /* rows that follow, perhaps none */
	struct ipc_sock_row row[IPC_SOCK_ROWS];
};

/*
 * What programs keep about a socket, in the socket's memory at IPC_SOCK_KEPT_OFF, so that a program started by execve()
 * finds the socket as the earlier program left it. rnicd never reads it.
 */
struct ipc_sock_kept {
	uint32_t domain; /* AF_INET or AF_INET6; 0: nothing is kept yet */
	int32_t rcv_ms, snd_ms;
	int32_t linger_on, linger_s;
	uint32_t flags; /* flags of lib/rnic/sock */
	uint64_t below; /* SO_COOKIE of the kernel's socket that belongs to this socket; 0: there is none */
	struct ipc_addr local, remote;
};
#define IPC_SOCK_KEPT_OFF UINT32_C(3072)
_Static_assert(sizeof(struct ipc_stream) <= IPC_SOCK_KEPT_OFF, "behind the indices");
_Static_assert(IPC_SOCK_KEPT_OFF + sizeof(struct ipc_sock_kept) <= IPC_STREAM_TX_OFF, "in front of the bytes");

#endif
