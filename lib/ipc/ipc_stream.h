/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stream sockets: the memory that a program and rnicd share for one TCP connection (RFC 9293), and the requests.
 *
 * A socket is a descriptor: one end of a socket pair that rnicd has made, and whose other end it keeps. The kernel
 * counts its holders (dup, fork, descriptors that are passed on) and tells rnicd when the last one is closed, also by
 * death. Its readiness is the socket's: a byte in it means that there is something to read, or to accept; a byte of
 * the program's in it, which rnicd has not taken, means that nothing may be written; rnicd has shut down its end when
 * the peer will send no more.
 *
 * The memory is rnicd's, sealed, and passed with the descriptor: struct ipc_stream, the bytes that go out at
 * IPC_STREAM_TX_OFF, those that came in at IPC_STREAM_RX_OFF; IPC_STREAM_RING bytes each. Indices run freely and wrap
 * at 2^32. Each word has one writer; the writer of an index publishes it with a release store, behind the bytes. rnicd
 * copies what the program writes and checks it: an index that jumps ends the connection with a reset.
 *
 * Doorbells: struct ipc_doorbell for each worker, one set for all processes of a user. The program rings the stream's
 * bit when it has put bytes, has taken IPC_STREAM_TELL bytes since it last rang, or has set a bit of `fin`.
 *
 * FPDUs (RFC 5044): a program that runs iWARP itself may leave the CRCs to rnicd. It says from which index on its bytes
 * are FPDUs, one direction at a time (ipc_stream_fpdus). In what goes out rnicd writes the CRC field of each FPDU, in
 * the ring, before the FPDU leaves; an FPDU that is not whole stays in the ring until the program has put the rest, or
 * has set IPC_STREAM_FIN. What came in is shown by whole FPDUs, and rx_summed is the index up to which their CRCs are
 * good. At the first bad one, and when the peer has ended its direction, the summing ends: all bytes are shown then,
 * and the program finds the bad CRC itself.
 */
#ifndef IPC_STREAM_H
#define IPC_STREAM_H

#include <stdint.h>

#include "ipc/ipc_shm.h"

#define IPC_DEV_NAME_MAX 32

#define IPC_STREAM_RING   (UINT32_C(1) << 18) /* bytes, each way */
#define IPC_STREAM_TELL   (IPC_STREAM_RING / 4)
#define IPC_STREAM_TX_OFF UINT32_C(4096)
#define IPC_STREAM_RX_OFF (IPC_STREAM_TX_OFF + IPC_STREAM_RING)
#define IPC_STREAM_SIZE   (IPC_STREAM_RX_OFF + IPC_STREAM_RING)
#define IPC_STREAM_BLOCK  2048u /* bytes of the program's that fill its descriptor: it is not writable then */

/* ipc_stream.state, of rnicd. */
enum {
	IPC_STREAM_CONNECTED = 1u << 0,
	IPC_STREAM_PEER_FIN = 1u << 1, /* nothing comes behind rx_tail */
	IPC_STREAM_ENDED = 1u << 2,    /* nothing goes out any more; `error` says why */
	IPC_STREAM_SUMS = 1u << 3,     /* FPDUs that came in are summed: rx_summed is valid */
};

/* ipc_stream.want, of the program; rnicd takes a bit away when it answers it through the descriptor. */
enum {
	IPC_STREAM_WANT_IN = 1u << 0,  /* a byte is to be put into the descriptor when there is something to read */
	IPC_STREAM_WANT_OUT = 1u << 1, /* the descriptor is to be emptied when there is room to write */
};

/* ipc_stream.fin, of the program. */
enum {
	IPC_STREAM_FIN = 1u << 0,   /* nothing follows behind tx_tail */
	IPC_STREAM_RESET = 1u << 1, /* the connection ends at once; bytes that have not left yet are lost */
	IPC_STREAM_ABORT = 1u << 2, /* it ends so when the last program has closed the socket (SO_LINGER of no time) */
	IPC_STREAM_DEAF = 1u << 3,  /* shut down for reading: with IPC_STREAM_FIN what comes resets the connection */
	IPC_STREAM_TOLD = 1u << 4,  /* programs' own, rnicd never reads it: connect() has told what became of it */
};

/* ipc_stream_fpdus.how, of the program. */
enum {
	IPC_STREAM_FPDUS = 1u << 0, /* the other words are valid, and stay as they are */
};

/* Where FPDUs begin in one direction; `how` is released last. */
struct ipc_stream_fpdus {
	uint32_t how;
	uint32_t at;   /* index of an FPDU's first byte. In: as long as rnicd does not sum, a later one may be named */
	uint32_t base; /* index of the first byte of Full Operation: markers are counted from it */
	uint32_t step; /* bytes from one marker to the next: 512, 1024, 2048 or 4096; 0: none */
};

struct ipc_stream {
	/* the program's */
	uint32_t tx_tail RN_ALIGNED(RN_CACHE_LINE);
	uint32_t fin;
	struct ipc_stream_fpdus tx_fpdus;
	uint32_t rx_head RN_ALIGNED(RN_CACHE_LINE);
	struct ipc_stream_fpdus rx_fpdus;
	/* both: atomic or and and */
	uint32_t want RN_ALIGNED(RN_CACHE_LINE);
	/* rnicd's */
	uint32_t tx_head RN_ALIGNED(RN_CACHE_LINE); /* the peer has what lies before it */
	uint32_t rx_tail RN_ALIGNED(RN_CACHE_LINE);
	uint32_t state;
	int32_t error; /* 0 or a positive errno; valid with IPC_STREAM_ENDED. Which program tells it takes it away */
	uint32_t mss;  /* bytes of a segment's payload at most, at the start; valid with IPC_STREAM_CONNECTED */
	uint32_t rx_summed; /* released before rx_tail; valid with IPC_STREAM_SUMS */
};
_Static_assert(sizeof(struct ipc_stream) <= IPC_STREAM_TX_OFF, "in front of the bytes");

/* Doorbells of a user: as much memory, in which worker w has element w. */
#define IPC_BELLS_SIZE (((uint64_t)sizeof(struct ipc_doorbell) * IPC_MAX_WORKERS + 4095) & ~UINT64_C(4095))

#define IPC_SOCK_PORTS_MAX 16

enum { IPC_SOCK_PORT_HOST = 1u << 0 }; /* programs may run iWARP themselves over its streams: designs = any */

struct ipc_sock_port {
	uint8_t ip[16];
	uint32_t prefix_len; /* bits of the 128 */
	uint32_t mtu;        /* bytes of an IP packet */
	uint32_t flags;      /* IPC_SOCK_PORT_* */
	uint32_t rsv;
	char name[IPC_DEV_NAME_MAX]; /* of the device: "rnic0" */
};

/* Answer to IPC_SOCK_JOIN, which takes the place of HELLO; fds: the doorbells' memory, the wake eventfd. */
struct ipc_sock_join_ok {
	uint32_t version, workers, ports;
	uint32_t rsv;
	struct ipc_sock_port port[IPC_SOCK_PORTS_MAX];
};

/* ipc_sock_addr.flags, of SOCK_BIND */
enum {
	IPC_SOCK_IP4 = 1u << 0, /* with addr.ip zero: all ports with an IPv4 address */
	IPC_SOCK_IP6 = 1u << 1, /* the same with an IPv6 address */
	IPC_SOCK_REUSE =
		1u << 2, /* others of this user with this flag may be bound and listen there, each has its share */
};

/*
 * SOCK_BIND: addr.ip is a port's address, addr.port 0: any. addr.ip zero: all ports, to listen at; addr.port is not 0.
 * SOCK_CONNECT: the peer's.
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

/* Answer to SOCK_BIND, SOCK_CONNECT, SOCK_ACCEPT and SOCK_GRAM. */
struct ipc_sock_ok {
	uint64_t sock;
	uint32_t worker, bit; /* whose doorbell, and which bit of it. Not of SOCK_BIND */
	struct ipc_addr local, remote;
};

/* Answer to SOCK_FIND. */
enum { IPC_SOCK_IS_BOUND, IPC_SOCK_LISTENS, IPC_SOCK_IS_STREAM, IPC_SOCK_IS_GRAM };

struct ipc_sock_found {
	struct ipc_sock_ok sock;
	uint32_t kind;     /* IPC_SOCK_IS_* */
	uint32_t families; /* of a listener at all ports: IPC_SOCK_IP4, IPC_SOCK_IP6; else 0 */
};

/*
 * What programs keep for each other of a socket that has memory, in that memory at IPC_SOCK_KEPT_OFF: a program that is
 * executed in the place of another one, or by it, finds the socket as that one has left it. rnicd never reads it.
 */
struct ipc_sock_kept {
	uint32_t domain; /* AF_INET or AF_INET6; 0: nothing has been kept yet */
	int32_t rcv_ms, snd_ms;
	int32_t linger_on, linger_s;
	uint32_t flags; /* of lib/rnic/sock */
	uint64_t below; /* the kernel's number of its own socket below it; 0: there is none */
	struct ipc_addr local, remote;
};
#define IPC_SOCK_KEPT_OFF UINT32_C(3072)
_Static_assert(sizeof(struct ipc_stream) <= IPC_SOCK_KEPT_OFF, "behind the indices");
_Static_assert(IPC_SOCK_KEPT_OFF + sizeof(struct ipc_sock_kept) <= IPC_STREAM_TX_OFF, "in front of the bytes");

#endif
