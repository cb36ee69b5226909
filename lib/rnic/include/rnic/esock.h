/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended sockets: a connected TCP socket is switched to iWARP and keeps its descriptor. Both programs have agreed at
 * which byte of the stream the switch happens. Afterwards messages are sent from and received into the program's own
 * memory, and the peer's memory is written and read. Where both ends have extended sockets, the byte stream goes on as
 * well. The peer may be any program that speaks iWARP over a connected socket. For programs that run iWARP themselves:
 * rnicrun --embedded, or --sockets --design host (doc/extended-sockets.md).
 *
 * The descriptor still works with poll, select and epoll: it is readable when one of the calls below has something to
 * return, and at times when none has, such as after a send or when the peer has a slot free again. So a program that
 * polls and must not wait in a call sets O_NONBLOCK, which is obeyed as before. No other socket call works on the
 * descriptor any more; rnic_sock_close() replaces close(). A call that fails returns -1 or NULL and sets errno;
 * rnic_sock_error() says why in one sentence. All calls are safe from any thread.
 */
#ifndef RNIC_ESOCK_H
#define RNIC_ESOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	RNIC_SOCK_CONNECTED = 1 << 0, /* this end has called connect(): it sends the MPA Request */
	RNIC_SOCK_ACCEPTED = 1 << 1,  /* this end has the connection from accept() */
	RNIC_SOCK_MESSAGES = 1 << 2,  /* no byte stream: messages go straight to buffers of rnic_sock_post_recv() */
};

struct rnic_iwarp_mode {
	uint32_t flags;     /* RNIC_SOCK_*: either CONNECTED or ACCEPTED, and any others */
	uint32_t depth;     /* calls of one kind that may be under way at a time, 1 to 4096; 0: 64 */
	uint32_t slots;     /* for the byte stream: messages that the peer may have under way, 4 to 4096; 0: 32 */
	uint32_t slot_size; /* bytes of each such message, 64 to 1 MiB; 0: 16384 */
};

/*
 * The two steps of the switch. rnic_sock_prepare() takes the socket; from then on rnic_sock_register() and
 * rnic_sock_post_recv() work. rnic_sock_start() negotiates MPA with the peer and waits for the result.
 *
 * errno of rnic_sock_prepare(), after which the socket is unchanged: EOPNOTSUPP: the program does not run iWARP itself;
 * ENOTSOCK, ENOTCONN: fd is no connected TCP socket. errno of rnic_sock_start(): ECONNREFUSED: the peer has rejected;
 * ECONNRESET: the peer has closed the connection, or has sent nothing for 10 s; EPROTO: the peer's private data begins
 * as that of extended sockets does, and is malformed.
 */
int rnic_sock_prepare(int fd, const struct rnic_iwarp_mode *mode);
int rnic_sock_start(int fd);
int rnic_sock_switch(int fd, const struct rnic_iwarp_mode *mode); /* rnic_sock_prepare() and rnic_sock_start() */

/* Why the last failed call of this thread failed, in one sentence. */
const char *rnic_sock_error(void);

/*
 * The connection's queue pair, for use with verbs. Its completion queues belong to the library. On failure: NULL and
 * errno.
 */
struct ibv_qp *rnic_sock_qp(int fd);

/* Registered memory; the peer needs addr and rkey. */
struct rnic_sock_mem {
	uint64_t addr;
	uint64_t length;
	uint32_t rkey;
	struct ibv_mr *mr;
};
/*
 * access: IBV_ACCESS_REMOTE_READ, _REMOTE_WRITE or 0. rnic_sock_deregister() or rnic_sock_close() ends the
 * registration.
 */
int rnic_sock_register(int fd, void *addr, size_t length, int access, struct rnic_sock_mem *mem);
int rnic_sock_deregister(int fd, struct rnic_sock_mem *mem);

/*
 * These four calls are asynchronous. struct rnic_sock_done returns `cookie` when the call is done; until then the
 * program leaves buf alone. buf lies in registered memory. Up to 64 bytes to be sent or written are copied, and need no
 * registration. EAGAIN: `depth` calls are under way, or done and not yet fetched by rnic_sock_send_done() or
 * rnic_sock_recv_done().
 *
 * A message is one iWARP Send. Where a byte stream has been agreed on, the message is part of that stream: it has at
 * most the peer's slot_size - 8 bytes (else EMSGSIZE) and waits for the peer's credit, and a receive is filled by a
 * copy of the stream's next bytes.
 */
int rnic_sock_post_send(int fd, const void *buf, size_t len, uint64_t cookie);
int rnic_sock_post_recv(int fd, void *buf, size_t len, uint64_t cookie);
/*
 * One-sided: rnic_sock_write() writes the peer's memory [addr, addr + len) from buf; rnic_sock_read() reads it into
 * buf.
 */
int rnic_sock_write(int fd, const void *buf, size_t len, uint64_t addr, uint32_t rkey, uint64_t cookie);
int rnic_sock_read(int fd, void *buf, size_t len, uint64_t addr, uint32_t rkey, uint64_t cookie);

struct rnic_sock_done {
	uint64_t cookie;
	uint32_t length; /* bytes */
	int error;       /* 0, or an errno: ECANCELED: the connection ended first; EACCES: the peer does not allow it */
};
/*
 * Fetches calls that are done: sends, writes and reads, or receives. Waits up to timeout_ms for the first one (-1:
 * without end, 0: not at all). Returns the number of entries of d that are filled.
 */
int rnic_sock_send_done(int fd, struct rnic_sock_done *d, int n, int timeout_ms);
int rnic_sock_recv_done(int fd, struct rnic_sock_done *d, int n, int timeout_ms);

/*
 * The byte stream, as read() and write() of a socket. EOPNOTSUPP: the peer has no extended sockets, or one end has
 * asked for RNIC_SOCK_MESSAGES. rnic_sock_writev() from registered memory on a blocking descriptor sends without a
 * copy: one message, or several where the peer's slot_size is too small for one. rnic_sock_recv() returns 0 when the
 * peer has ended its stream. rnic_sock_shutdown() ends this end's direction. With O_NONBLOCK it does not wait until the
 * peer has a slot free: then a later call on the descriptor tells the peer.
 */
ssize_t rnic_sock_recv(int fd, void *buf, size_t len);
ssize_t rnic_sock_send(int fd, const void *buf, size_t len);
ssize_t rnic_sock_writev(int fd, const struct iovec *iov, int n);
int rnic_sock_shutdown(int fd);

/* Waits up to 10 s for the peer to receive what has been sent, then ends the connection and closes the descriptor. */
int rnic_sock_close(int fd);

#ifdef __cplusplus
}
#endif

#endif
