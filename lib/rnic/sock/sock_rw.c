/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that carry bytes, in front of libc's. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC __attribute__((visibility("default")))

ssize_t sock_recv_msg(struct sock *s, int fd, struct msghdr *m, int flags)
{
	if (s->kind == SOCK_IS_GRAM)
		return sock_gram_recv(s, fd, m, flags);
	m->msg_namelen = 0;
	m->msg_controllen = 0;
	m->msg_flags = 0;
	return sock_recv(s, fd, m->msg_iov, (int)m->msg_iovlen, flags);
}

ssize_t sock_send_msg(struct sock *s, int fd, const struct msghdr *m, int flags)
{
	if (s->kind == SOCK_IS_GRAM)
		return sock_gram_send(s, fd, m, flags);
	return sock_send(s, fd, m->msg_iov, (int)m->msg_iovlen, flags);
}

static ssize_t in(struct sock *s, int fd, const struct iovec *iov, int n, int flags)
{
	struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	ssize_t rc;

	SOCK_PUT_AFTER(s, rc, sock_recv_msg(s, fd, &m, flags));
	return rc;
}

/* As in reading a file: a read of length 0 does not look at the socket. */
static ssize_t file_in(struct sock *s, int fd, const struct iovec *iov, int n)
{
	if (sock_bytes(iov, (size_t)n) != 0)
		return in(s, fd, iov, n, 0);
	sock_put(s);
	return 0;
}

static ssize_t out(struct sock *s, int fd, const struct iovec *iov, int n, int flags)
{
	const struct msghdr m = { .msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n };
	ssize_t rc;

	SOCK_PUT_AFTER(s, rc, sock_send_msg(s, fd, &m, flags));
	return rc;
}

PUBLIC ssize_t read(int fd, void *p, size_t n)
{
	const struct iovec v = { p, n };

	sock_ready();
	struct sock *s = sock_get(fd);
	return s == NULL ? sock_libc.read(fd, p, n) : file_in(s, fd, &v, 1);
}

PUBLIC ssize_t readv(int fd, const struct iovec *iov, int n)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	return s == NULL ? sock_libc.readv(fd, iov, n) : file_in(s, fd, iov, n);
}

PUBLIC ssize_t recv(int fd, void *p, size_t n, int flags)
{
	const struct iovec v = { p, n };

	sock_ready();
	struct sock *s = sock_get(fd);
	return s == NULL ? sock_libc.recv(fd, p, n, flags) : in(s, fd, &v, 1, flags);
}

PUBLIC ssize_t recvfrom(int fd, void *p, size_t n, int flags, struct sockaddr *sa, socklen_t *len)
{
	struct iovec v = { p, n };
	struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };

	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.recvfrom(fd, p, n, flags, sa, len);
	if (sa != NULL && len != NULL) {
		m.msg_name = sa;
		m.msg_namelen = *len;
	}
	ssize_t rc;
	SOCK_PUT_AFTER(s, rc, sock_recv_msg(s, fd, &m, flags));
	if (rc >= 0 && sa != NULL && len != NULL)
		*len = m.msg_namelen; /* 0 for a stream, whose bytes come without an address */
	return rc;
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *m, int flags)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	ssize_t rc;
	if (s != NULL)
		SOCK_PUT_AFTER(s, rc, sock_recv_msg(s, fd, m, flags));
	else
		rc = sock_libc.recvmsg(fd, m, flags);
	if (s == NULL && rc >= 0 && m->msg_controllen != 0)
		sock_found_in(m);
	return rc;
}

PUBLIC ssize_t write(int fd, const void *p, size_t n)
{
	const struct iovec v = { (void *)(uintptr_t)p, n };

	sock_ready();
	struct sock *s = sock_get(fd);
	return s == NULL ? sock_libc.write(fd, p, n) : out(s, fd, &v, 1, 0);
}

PUBLIC ssize_t writev(int fd, const struct iovec *iov, int n)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s != NULL && sock_bytes(iov, (size_t)n) == 0) {
		sock_put(s);
		return 0;
	}
	return s == NULL ? sock_libc.writev(fd, iov, n) : out(s, fd, iov, n, 0);
}

PUBLIC ssize_t send(int fd, const void *p, size_t n, int flags)
{
	const struct iovec v = { (void *)(uintptr_t)p, n };

	sock_ready();
	struct sock *s = sock_get(fd);
	return s == NULL ? sock_libc.send(fd, p, n, flags) : out(s, fd, &v, 1, flags);
}

/*
 * MSG_FASTOPEN on a TCP socket: without a cookie of the peer's it is connect(), and then the data is sent (tcp(7)).
 * True: connect() comes first. False: the flag has no meaning here.
 */
static bool fast_opens(int fd, int flags, const struct sockaddr *sa, socklen_t len)
{
	int type = 0;
	socklen_t size = sizeof(type);

	return (flags & MSG_FASTOPEN) != 0 && (sock_kernels() || sock_may_reach(sa, len)) &&
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
}

PUBLIC ssize_t sendto(int fd, const void *p, size_t n, int flags, const struct sockaddr *sa, socklen_t len)
{
	struct iovec v = { (void *)(uintptr_t)p, n };
	const struct msghdr m = {
		.msg_name = (void *)(uintptr_t)sa, .msg_namelen = len, .msg_iov = &v, .msg_iovlen = 1
	};

	sock_ready();
	if (fast_opens(fd, flags, sa, len))
		return connect(fd, sa, len) != 0 ? -1 : send(fd, p, n, flags & ~MSG_FASTOPEN);
	struct sock *s = sock_get(fd);
	if (s == NULL)
		s = sock_gram_sends(fd, sa, len);
	if (s == NULL)
		return sock_libc.sendto(fd, p, n, flags, sa, len);
	ssize_t rc;
	SOCK_PUT_AFTER(s, rc, sock_send_msg(s, fd, &m, flags));
	return rc;
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
	sock_ready();
	if (fast_opens(fd, flags, m->msg_name, m->msg_namelen)) {
		if (connect(fd, m->msg_name, m->msg_namelen) != 0)
			return -1;
		flags &= ~MSG_FASTOPEN;
	}
	struct sock *s = sock_get(fd);
	if (s == NULL && m->msg_name != NULL)
		s = sock_gram_sends(fd, m->msg_name, m->msg_namelen);
	if (s == NULL)
		return sock_libc.sendmsg(fd, m, flags);
	ssize_t rc;
	SOCK_PUT_AFTER(s, rc, sock_send_msg(s, fd, m, flags));
	return rc;
}

uint8_t *sock_piece(void)
{
	static __thread uint8_t piece[SOCK_PIECE];

	return piece;
}

/* Sends n bytes of the file from its own position, or from *at (NULL: its own). Moves the position that is used. */
static ssize_t copy_file(struct sock *s, int fd, int file, off_t *at, size_t n)
{
	uint8_t *piece = sock_piece();
	size_t done = 0;

	while (done < n) {
		size_t want = n - done < SOCK_PIECE ? n - done : SOCK_PIECE;
		ssize_t got = at != NULL ? pread(file, piece, want, *at) : sock_libc.read(file, piece, want);
		if (got <= 0)
			return done > 0 ? (ssize_t)done : got;
		struct iovec v = { piece, (size_t)got };
		const struct msghdr m = { .msg_iov = &v, .msg_iovlen = 1 };
		ssize_t put = sock_send_msg(s, fd, &m, 0);
		if (put > 0 && at != NULL)
			*at += put;
		if (put < got && at == NULL)
			lseek(file, (put > 0 ? put : 0) - got, SEEK_CUR);
		if (put < 0)
			return done > 0 ? (ssize_t)done : -1;
		done += (size_t)put;
		if (put < got)
			break;
	}
	return (ssize_t)done;
}

PUBLIC ssize_t sendfile(int fd, int file, off_t *at, size_t n)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return sock_libc.sendfile(fd, file, at, n);
	ssize_t rc;
	SOCK_PUT_AFTER(s, rc, copy_file(s, fd, file, at, n));
	return rc;
}

PUBLIC ssize_t sendfile64(int fd, int file, off64_t *at, size_t n) { return sendfile(fd, file, at, n); }

/* The names of these functions in programs that are built with _FORTIFY_SOURCE. */
ssize_t __read_chk(int fd, void *p, size_t n, size_t size);
PUBLIC ssize_t __read_chk(int fd, void *p, size_t n, size_t size) { return read(fd, p, n < size ? n : size); }

ssize_t __recv_chk(int fd, void *p, size_t n, size_t size, int flags);
PUBLIC ssize_t __recv_chk(int fd, void *p, size_t n, size_t size, int flags)
{
	return recv(fd, p, n < size ? n : size, flags);
}

/* The seventh argument, the length of the address, is read by va_arg(): functions here may have six arguments only. */
ssize_t __recvfrom_chk(int fd, void *p, size_t n, size_t size, int flags, struct sockaddr *sa, ...);
PUBLIC ssize_t __recvfrom_chk(int fd, void *p, size_t n, size_t size, int flags, struct sockaddr *sa, ...)
{
	va_list ap;

	va_start(ap, sa);
	socklen_t *len = va_arg(ap, socklen_t *);
	va_end(ap);
	return recvfrom(fd, p, n < size ? n : size, flags, sa, len);
}
