/* SPDX-License-Identifier: BSD-3-Clause */
/* splice(2), preadv2(2) and pwritev2(2), in front of libc's. Bytes between a socket of ours and a pipe are copied. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rnic/sock/sock.h"

#define PUBLIC __attribute__((visibility("default")))
#define PAGE   4096u /* a pipe that is writable takes this many bytes without waiting (pipe(7), PIPE_BUF) */

static bool is_pipe(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

static int pipe_fails(int err)
{
	errno = err;
	return -1;
}

/* Writes to the pipe; if it must not wait, as many bytes as there is room for. Bytes, or -1 and errno. */
static ssize_t pipe_put(int fd, const uint8_t *from, size_t n, bool waits)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };
	size_t done = 0;

	if (waits)
		return sock_libc.write(fd, from, n);
	while (done < n && sock_libc.poll(&p, 1, 0) > 0) {
		ssize_t put = sock_libc.write(fd, from + done, n - done < PAGE ? n - done : PAGE);
		if (put < 0)
			return done > 0 ? (ssize_t)done : -1;
		done += (size_t)put;
	}
	return done > 0 ? (ssize_t)done : pipe_fails(EAGAIN);
}

/* The socket keeps the bytes that find no room in the pipe. */
static ssize_t socket_to_pipe(struct sock *s, int fd, int to, size_t n, unsigned int flags)
{
	const bool waits = (flags & SPLICE_F_NONBLOCK) == 0 && !sock_libc_blocks_not(to);
	uint8_t *piece = sock_piece();
	const struct iovec v = { piece, n < SOCK_PIECE ? n : SOCK_PIECE };
	ssize_t there = sock_recv(s, fd, &v, 1, MSG_PEEK), put;

	if (there <= 0)
		return there;
	put = pipe_put(to, piece, (size_t)there, waits);
	if (put > 0) {
		const struct iovec taken = { piece, (size_t)put };
		(void)sock_recv(s, fd, &taken, 1, MSG_TRUNC | MSG_DONTWAIT);
	}
	return put;
}

/* Takes no more bytes from the pipe than the socket has room for, so that none is lost. */
static ssize_t pipe_to_socket(int from, struct sock *s, int fd, size_t n, unsigned int flags)
{
	struct pollfd p = { .fd = from, .events = POLLIN };
	uint8_t *piece = sock_piece();
	struct iovec v = { piece, 0 };

	if (sock_send(s, fd, &v, 1, 0) < 0) /* of no bytes: reports an error of the socket */
		return -1;
	size_t room = sock_does_not_block(fd, 0) ? sock_room(s) : SOCK_PIECE;
	if (room == 0 || ((flags & SPLICE_F_NONBLOCK) != 0 && sock_libc.poll(&p, 1, 0) == 0))
		return pipe_fails(EAGAIN);
	room = room < SOCK_PIECE ? room : SOCK_PIECE;
	ssize_t got = sock_libc.read(from, piece, n < room ? n : room);
	if (got <= 0)
		return got;
	v.iov_len = (size_t)got;
	return sock_send(s, fd, &v, 1, (flags & SPLICE_F_MORE) != 0 ? MSG_MORE : 0);
}

PUBLIC ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t n, unsigned int flags)
{
	ssize_t rc;

	sock_ready();
	struct sock *in = sock_get(from), *out = sock_get(to);
	if (in == NULL && out == NULL)
		return sock_libc.splice(from, from_at, to, to_at, n, flags);
	if (in != NULL ? to_at != NULL && is_pipe(to) : from_at != NULL && is_pipe(from))
		rc = pipe_fails(ESPIPE);
	else if (from_at != NULL || to_at != NULL)
		rc = pipe_fails(EINVAL);
	else if (in != NULL ? out != NULL || in->kind != SOCK_IS_STREAM || !is_pipe(to)
			    : out->kind != SOCK_IS_STREAM || !is_pipe(from))
		rc = pipe_fails(EINVAL);
	else if (n == 0)
		rc = 0;
	else if (in != NULL)
		rc = socket_to_pipe(in, from, to, n, flags);
	else
		rc = pipe_to_socket(from, out, to, n, flags);
	if (in != NULL)
		sock_put(in);
	if (out != NULL)
		sock_put(out);
	return rc;
}

/* Whether a read or write at an offset is one of the socket's stream: the offset is -1. */
static bool at_no_offset(struct sock *s, off_t at, int flags)
{
	if (at != -1)
		errno = ESPIPE;
	else if ((flags & ~(RWF_HIPRI | RWF_NOWAIT)) != 0)
		errno = EOPNOTSUPP;
	else
		return true;
	sock_put(s);
	return false;
}

PUBLIC ssize_t preadv2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.preadv2(fd, iov, n, at, flags);
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	if (!at_no_offset(s, at, flags))
		return -1;
	ssize_t rc = sock_recv_msg(s, fd, &m, (flags & RWF_NOWAIT) != 0 ? MSG_DONTWAIT : 0);
	sock_put(s);
	return rc;
}

PUBLIC ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.pwritev2(fd, iov, n, at, flags);
	const struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	if (!at_no_offset(s, at, flags))
		return -1;
	ssize_t rc = sock_send_msg(s, fd, &m, (flags & RWF_NOWAIT) != 0 ? MSG_DONTWAIT : 0);
	sock_put(s);
	return rc;
}

/* The names of these functions in programs with 64-bit offsets. */
PUBLIC ssize_t preadv64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	return preadv2(fd, iov, n, at, flags);
}

PUBLIC ssize_t pwritev64v2(int fd, const struct iovec *iov, int n, off64_t at, int flags)
{
	return pwritev2(fd, iov, n, at, flags);
}
