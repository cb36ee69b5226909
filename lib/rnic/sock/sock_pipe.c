/* SPDX-License-Identifier: BSD-3-Clause */
/* splice(2), preadv2(2) and pwritev2(2), in front of libc's. Bytes between a socket of ours and a pipe are copied. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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

/*
 * Looks for POLLIN or POLLOUT of a pipe, and waits for it if the call may. The events that the pipe has, or -1 and
 * errno.
 */
static int pipe_events(int fd, short events, bool waits)
{
	/* two bits: at POLLIN alone sock_sleep() would call recv() */
	struct pollfd p = { .fd = fd, .events = (short)(events | (events == POLLIN ? POLLRDNORM : POLLWRNORM)) };
	int n = waits ? sock_sleep(&p, 1, UINT64_MAX, true) : sock_libc.poll(&p, 1, 0);

	if (n <= 0)
		return n < 0 ? -1 : pipe_fails(EAGAIN);
	if (events == POLLOUT && (p.revents & POLLERR) != 0) /* nobody reads */
		return pipe_fails(EPIPE);
	return p.revents;
}

/*
 * Puts as many of the n bytes into the pipe as it has room for: a pipe that poll() calls writable has room for a page.
 * Bytes, or -1 and errno.
 */
static ssize_t pipe_put(int fd, const uint8_t *from, size_t n)
{
	size_t done = 0;

	while (done < n && pipe_events(fd, POLLOUT, false) > 0) {
		ssize_t put = sock_libc.write(fd, from + done, n - done < PAGE ? n - done : PAGE);
		if (put <= 0)
			break;
		done += (size_t)put;
	}
	return done > 0 ? (ssize_t)done : -1;
}

/* Moves bytes that are there into the pipe, without waiting; the socket keeps the others. Bytes, or -1 and errno. */
static ssize_t move_to_pipe(struct sock *s, int fd, int to, size_t n)
{
	struct iovec v[2];
	ssize_t put = -1, more = 0;

	sock_turn_begin(&s->rx, &s->mem->rx_turn);
	size_t there = sock_look(s, v);
	there = n < there ? n : there;
	errno = EAGAIN; /* another thread has read the bytes */
	if (there > 0) {
		const size_t first = there < v[0].iov_len ? there : v[0].iov_len;
		put = pipe_put(to, v[0].iov_base, first);
		if (put == (ssize_t)first && there > first)
			more = pipe_put(to, v[1].iov_base, there - first);
		if (put > 0)
			sock_took_in_turn(s, fd, (uint32_t)(more > 0 ? put + more : put));
	}
	sock_turn_end(&s->rx, &s->mem->rx_turn);
	return more > 0 ? put + more : put;
}

/* As in Linux: waits for room in the pipe first, and then for bytes. */
static ssize_t socket_to_pipe(struct sock *s, int fd, int to, size_t n, unsigned int flags)
{
	const bool waits = (flags & SPLICE_F_NONBLOCK) == 0 && !sock_libc_blocks_not(to);
	uint8_t byte;
	const struct iovec v = { &byte, 1 };
	ssize_t rc;

	do {
		rc = pipe_events(to, POLLOUT, waits);
		if (rc < 0)
			break;
		rc = sock_recv(s, fd, &v, 1, MSG_PEEK);
		if (rc <= 0)
			return rc;
		rc = move_to_pipe(s, fd, to, n);
	} while (rc < 0 && errno == EAGAIN);
	if (rc < 0 && errno == EPIPE)
		raise(SIGPIPE);
	return rc;
}

/*
 * The bytes go from the pipe into the send ring in one step, in the socket's turn: whatever ends the call, and whoever
 * else sends, each byte is in the pipe or in the stream. vmsplice() waits for no other reader of the pipe.
 */
static ssize_t pipe_to_socket(int from, struct sock *s, int fd, size_t n, unsigned int flags)
{
	struct sock_waits w = { .end = 0 };
	struct iovec v[2];
	size_t done = 0;
	ssize_t got = 0;

	while (done < n) {
		int events = pipe_events(from, POLLIN, (flags & SPLICE_F_NONBLOCK) == 0 && done == 0);
		if (events < 0 || (events & POLLIN) == 0) {
			got = events < 0 ? -1 : 0;
			break;
		}
		if (!sock_fill_begin(s, &fd, &w, n - done, v)) {
			got = -1;
			break;
		}
		got = vmsplice(from, v, 2, SPLICE_F_NONBLOCK);
		sock_fill_end(s, got > 0 ? (uint32_t)got : 0);
		if (got == 0 || (got < 0 && errno != EAGAIN))
			break;
		done += got > 0 ? (size_t)got : 0;
		w.has_bytes = done > 0;
	}
	if (done > 0)
		return (ssize_t)done;
	if (got < 0 && errno == EPIPE)
		raise(SIGPIPE);
	return got;
}

/* Whether splice() may move bytes between these two descriptors; in, out: our sockets, of which one may be NULL. */
static int splice_fails(const struct sock *in, const struct sock *out, int from, int to, bool from_at, bool to_at)
{
	if (in != NULL ? to_at && is_pipe(to) : from_at && is_pipe(from))
		return ESPIPE;
	if (from_at || to_at)
		return EINVAL;
	if (in != NULL)
		return out != NULL || in->kind != SOCK_IS_STREAM || !is_pipe(to) ? EINVAL : 0;
	return out->kind != SOCK_IS_STREAM || !is_pipe(from) ? EINVAL : 0;
}

PUBLIC ssize_t splice(int from, off64_t *from_at, int to, off64_t *to_at, size_t n, unsigned int flags)
{
	ssize_t rc = 0;

	sock_ready();
	struct sock *in = sock_get(from), *out = sock_get(to);
	if (in == NULL && out == NULL)
		return sock_libc.splice(from, from_at, to, to_at, n, flags);
	int err = splice_fails(in, out, from, to, from_at != NULL, to_at != NULL);
	if (err == 0 && n > 0 && in != NULL) {
		SOCK_PUT_AFTER(in, rc, socket_to_pipe(in, from, to, n, flags));
		return rc;
	}
	if (err == 0 && n > 0) {
		SOCK_PUT_AFTER(out, rc, pipe_to_socket(from, out, to, n, flags));
		return rc;
	}
	if (in != NULL)
		sock_put(in);
	if (out != NULL)
		sock_put(out);
	return err == 0 ? 0 : pipe_fails(err);
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
	ssize_t rc;
	SOCK_PUT_AFTER(s, rc, sock_recv_msg(s, fd, &m, (flags & RWF_NOWAIT) != 0 ? MSG_DONTWAIT : 0));
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
	ssize_t rc;
	SOCK_PUT_AFTER(s, rc, sock_send_msg(s, fd, &m, (flags & RWF_NOWAIT) != 0 ? MSG_DONTWAIT : 0));
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
