/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagram sockets: the memory that a program and rnicd share for one UDP socket (RFC 768), and the requests.
 *
 * A datagram socket is a descriptor like that of a stream (ipc_stream.h): an end of a socket pair. The kernel counts
 * the holders of the descriptor, and the readiness of the pair is the readiness of the socket. A datagram socket is
 * writable from the start.
 *
 * rnicd makes the memory, seals it, and passes it with the descriptor. The memory holds struct ipc_gram, a ring of
 * datagrams to send at IPC_GRAM_TX_OFF, and a ring of received ones at IPC_GRAM_RX_OFF; IPC_GRAM_RING bytes each. A
 * datagram is a record: its head (struct ipc_gram_rec), its bytes, and padding to a whole number of IPC_GRAM_UNIT.
 * After the rings come slots: a long datagram of the wire iwarp may be placed in a slot while it arrives, and its
 * record is then only a head. rnicd uses the slot again when the record has been read. The bytes of a datagram may wrap
 * around the ring's end; a head never does. Indices run freely and wrap at 2^32; an index always lies between two
 * records. The writer of an index first writes the record, then publishes the index with a release store.
 *
 * Security model
 *   - rnicd copies a record's head, checks the copy and uses the copy. rnicd reads bytes only inside the ring. An index
 *     that jumps, a record that does not end at or before the index, a record that is longer than the device takes, a
 *     wire that does not exist, or a device that the socket may not use breaks the socket: it sends and receives
 *     nothing any more, and IPC_GRAM_BROKEN is set in `state`.
 *   - rnicd itself sets the source address and source port of datagrams that are sent, never the program.
 *   - Processes that share the socket (fork, a passed descriptor) take turns by the words tx_turn and rx_turn, which
 *     rnicd never reads. A process that does not wait for its turn spoils the socket's data, and nothing else.
 *
 * All processes of a user have the same doorbells, as for streams. The program rings the socket's bit when it has put
 * records, or when it has set a bit of `want` whose condition holds already.
 */
#ifndef IPC_GRAM_H
#define IPC_GRAM_H

#include "ipc/ipc_stream.h"

#define IPC_GRAM_RING     (UINT32_C(1) << 18) /* bytes, each way */
#define IPC_GRAM_UNIT     UINT32_C(32)
#define IPC_GRAM_TX_OFF   UINT32_C(4096)
#define IPC_GRAM_RX_OFF   (IPC_GRAM_TX_OFF + IPC_GRAM_RING)
#define IPC_GRAM_SLOTS    4u                  /* slots that rnicd lends to one sender (udps.h) */
#define IPC_GRAM_SLOT     (UINT32_C(1) << 16) /* bytes of a slot: the longest datagram fits */
#define IPC_GRAM_SLOT_OFF (IPC_GRAM_RX_OFF + IPC_GRAM_RING)
#define IPC_GRAM_SIZE     (IPC_GRAM_SLOT_OFF + IPC_GRAM_SLOTS * IPC_GRAM_SLOT)
#define IPC_GRAM_HDRS     28u /* bytes of IPv4 and UDP headers: 65,535 less these is the longest datagram */

struct ipc_gram_rec {
	uint32_t len;  /* bytes that follow */
	uint16_t port; /* of the peer, host order */
	/*
	 * index in ipc_sock_join_ok.port: the device by which the datagram leaves, or arrived. Of a socket that
	 * SOCK_TAKE has made: not read, or the index of the host's interface by which the datagram arrived, 0: unknown
	 */
	uint16_t dev;
	uint8_t ip[16]; /* of the peer */
	uint8_t tos;
	uint8_t ttl;  /* 0: the default */
	uint8_t wire; /* IPC_GRAM_*: the format to send in, or the format that the datagram came in */
	uint8_t slot; /* received datagrams: number of the slot, from 1, that has the bytes; 0: the bytes follow */
	/*
	 * received: the IPv4 address to which the datagram came. To send, of a socket that SOCK_TAKE has made: the
	 * source address, 0: as the host's routes have it. With an IPv6 peer the number of the interface that the
	 * peer's address belongs to, host order, 0: none
	 */
	uint8_t local[4];
};
_Static_assert(sizeof(struct ipc_gram_rec) == IPC_GRAM_UNIT, "a head never wraps");

/* How many bytes of the ring the record of a datagram of len bytes takes. */
static inline uint32_t ipc_gram_need(uint32_t len)
{
	return (uint32_t)sizeof(struct ipc_gram_rec) + ((len + IPC_GRAM_UNIT - 1) & ~(IPC_GRAM_UNIT - 1));
}

/* The same for a received datagram's record. */
static inline uint32_t ipc_gram_rec_need(const struct ipc_gram_rec *rec)
{
	return rec->slot != 0 ? (uint32_t)sizeof(*rec) : ipc_gram_need(rec->len);
}

/* ipc_gram_rec.wire */
enum {
	IPC_GRAM_AS_PORT = 0, /* the format that the configuration of the Ethernet port says */
	IPC_GRAM_PLAIN = 1,
	IPC_GRAM_IWARP = 2, /* DDP segments if the peer accepts them (doc/datagram-sockets.md), else plain */
};

/* ipc_gram.state, which rnicd writes. */
enum {
	IPC_GRAM_BROKEN = 1u << 0, /* a rule was broken: the socket sends and receives nothing any more */
};

struct ipc_gram {
	/* written by the program */
	uint32_t tx_tail RN_ALIGNED(RN_CACHE_LINE);
	uint32_t tx_turn; /* process number of the process that puts records, or 0 */
	uint32_t rx_head RN_ALIGNED(RN_CACHE_LINE);
	uint32_t rx_turn; /* process number of the process that takes records, or 0 */
	uint32_t shut;    /* for programs only, rnicd never reads it: IPC_GRAM_SHUT_* */
	uint32_t rx_room; /* bytes of received records that may wait (SO_RCVBUF); 0 or more than the ring: all of it */
	/* written by both, atomically */
	uint32_t want RN_ALIGNED(RN_CACHE_LINE); /* IPC_STREAM_WANT_IN, IPC_STREAM_WANT_OUT */
	uint32_t error;                          /* errno that the next call reports and clears; 0: none */
	/* written by rnicd */
	uint32_t tx_head RN_ALIGNED(RN_CACHE_LINE);
	uint32_t rx_tail RN_ALIGNED(RN_CACHE_LINE);
	uint32_t state;
	uint32_t dropped; /* received datagrams that were dropped because there was no room */
	uint32_t wire; /* IPC_GRAM_PLAIN or IPC_GRAM_IWARP: by which wire the last datagram left or came; 0: none has */
};
_Static_assert(sizeof(struct ipc_gram) <= IPC_SOCK_KEPT_OFF, "in front of what programs keep there");
_Static_assert(IPC_GRAM_SLOTS *IPC_GRAM_SLOT <= IPC_GRAM_RING, "what wraps around a ring does not in slots");

/* ipc_gram.shut; or-ed */
enum {
	IPC_GRAM_SHUT_IN = 1u << 0,
	IPC_GRAM_SHUT_OUT = 1u << 1,
};

/* ipc_sock_gram.flags */
enum {
	/* other sockets of this user with the same flag may have the same UDP port */
	IPC_GRAM_REUSE = 1u << 0,   /* SO_REUSEADDR: the newest such socket gets the datagrams */
	IPC_GRAM_BALANCE = 1u << 1, /* SO_REUSEPORT: the peer's address decides which such socket gets a datagram */
};

/*
 * Without rnicd (IPC_SOCK_KERNELS) SOCK_TAKE makes a datagram socket of the kernel's UDP socket, which is bound, and
 * may be connected; the answer is that of SOCK_GRAM. Address, peer and SO_REUSEPORT are the kernel's socket's. Plain
 * datagrams that come to the kernel's socket are put into the receive ring, and datagrams to send that do not go by the
 * wire iwarp leave by it. The program keeps a descriptor of the kernel's socket, too, for its options and for datagrams
 * to groups; it does not receive there. IP_PKTINFO, IP_RECVTTL and IP_RECVTOS of that socket belong to the process that
 * has taken it. After the program has connected the kernel's socket, or has taken its peer away, it sends SOCK_PEER.
 * SOCK_CLOSED is answered when closed sockets with the port have sent their datagrams and have closed the kernel's
 * socket.
 *
 * SOCK_GRAM: a new socket; local.ip is a port's address, or zero: all ports. local.port 0: any. SOCK_PEER: the socket
 * receives only datagrams from `remote`; remote.port 0: from any peer.
 */
struct ipc_sock_gram {
	uint64_t sock; /* SOCK_PEER: the socket's number */
	uint32_t flags;
	uint32_t rsv;
	struct ipc_addr local, remote;
};

#endif
