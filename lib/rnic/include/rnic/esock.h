/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Extended sockets: a connected TCP socket goes over to iWARP, at a point of its stream that both programs have agreed
 * upon, and keeps its descriptor. Then messages are sent and received from and to the program's own memory, the peer's
 * memory is written and read, and where both ends have extended sockets, bytes go on as before. The peer may be any
 * program that speaks iWARP over a connected socket. For programs that run iWARP themselves: rnicrun --embedded, or
 * --sockets --design host (doc/extended-sockets.md).
 *
 * The descriptor stays one for poll, select and epoll: readable when one of the calls below has something to give. No
 * other call of a socket works on it any more; rnic_sock_close() takes the place of close(). O_NONBLOCK counts as ever.
 * Calls return -1 and errno when they fail, and rnic_sock_error() says in one sentence why. Safe from any thread.
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
	RNIC_SOCK_MESSAGES = 1 << 2,  /* no bytes: what is received goes straight to where rnic_sock_post_recv() says */
};

struct rnic_iwarp_mode {
	uint32_t flags;     /* RNIC_SOCK_*: CONNECTED or ACCEPTED, and others */
	uint32_t depth;     /* calls of a kind under way at once, 1 to 4096; 0: 64 */
	uint32_t slots;     /* for bytes: messages that the peer may have under way, 4 to 4096; 0: 32 */
	uint32_t slot_size; /* bytes of each, 64 to 1 MiB; 0: 16384 */
};

/*
 * Both steps of the switch: prepare takes the socket, and rnic_sock_register() and rnic_sock_post_recv() work; start
 * speaks MPA with the peer and waits for the end of that. When prepare fails, the socket is what it was.
 * EOPNOTSUPP: the program does not run iWARP itself; ENOTSOCK, ENOTCONN: no connected TCP socket. Of start:
 * ECONNREFUSED: the peer has rejected; ECONNRESET: it has gone, or has sent nothing for 10 s; EPROTO: its private data
 * is of extended sockets, and wrong.
 */
int rnic_sock_prepare(int fd, const struct rnic_iwarp_mode *mode);
int rnic_sock_start(int fd);
int rnic_sock_switch(int fd, const struct rnic_iwarp_mode *mode); /* both */

/* What the last call of this thread that failed has failed of. */
const char *rnic_sock_error(void);

/* The queue pair, for verbs. Its completion queues are the library's. NULL and errno. */
struct ibv_qp *rnic_sock_qp(int fd);

/* Registered memory; the peer needs addr and rkey. */
struct rnic_sock_mem {
	uint64_t addr;
	uint64_t length;
	uint32_t rkey;
	struct ibv_mr *mr;
};
/* access: IBV_ACCESS_REMOTE_READ, _REMOTE_WRITE or 0. The memory stays registered until told otherwise, or close. */
int rnic_sock_register(int fd, void *addr, size_t length, int access, struct rnic_sock_mem *mem);
int rnic_sock_deregister(int fd, struct rnic_sock_mem *mem);

/*
 * Asynchronous; `cookie` comes back when the call is done. buf is registered, and the program leaves it alone until
 * then; up to 64 bytes to be sent or written need not be, and are copied. EAGAIN: `depth` calls are under way, or have
 * been done and not been asked for.
 *
 * A message is one iWARP Send. With bytes agreed it is a part of the stream, at most of the peer's slot_size - 8
 * (EMSGSIZE), and waits for the peer's credit; and a receive is filled by a copy, with what the stream has next.
 */
int rnic_sock_post_send(int fd, const void *buf, size_t len, uint64_t cookie);
int rnic_sock_post_recv(int fd, void *buf, size_t len, uint64_t cookie);
/* One-sided: the peer's memory [addr, addr + len) is written from buf, or read into it. */
int rnic_sock_write(int fd, const void *buf, size_t len, uint64_t addr, uint32_t rkey, uint64_t cookie);
int rnic_sock_read(int fd, void *buf, size_t len, uint64_t addr, uint32_t rkey, uint64_t cookie);

struct rnic_sock_done {
	uint64_t cookie;
	uint32_t length; /* bytes */
	int error; /* 0, or an errno: ECANCELED: the connection has ended before; EACCES: the peer does not allow it */
};
/*
 * What is done: sends, writes and reads; receives. Waits up to timeout_ms for the first one; -1: without end, 0: not at
 * all. Returns how many are in d.
 */
int rnic_sock_send_done(int fd, struct rnic_sock_done *d, int n, int timeout_ms);
int rnic_sock_recv_done(int fd, struct rnic_sock_done *d, int n, int timeout_ms);

/*
 * Bytes, as read() and write() of a socket. EOPNOTSUPP: the peer has no extended sockets, or one end wants none of it.
 * writev from registered memory, of a blocking descriptor: one message without a copy, or as many as the peer's
 * slot_size makes it. rnic_sock_recv() returns 0 when the peer has ended its bytes.
 */
ssize_t rnic_sock_recv(int fd, void *buf, size_t len);
ssize_t rnic_sock_send(int fd, const void *buf, size_t len);
ssize_t rnic_sock_writev(int fd, const struct iovec *iov, int n);
int rnic_sock_shutdown(int fd); /* this end sends no more bytes */

/* What has been sent arrives, as far as the peer is there within 10 s; then connection and descriptor end. */
int rnic_sock_close(int fd);

#ifdef __cplusplus
}
#endif

#endif
