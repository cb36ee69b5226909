/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recvmmsg(2) and sendmmsg(2), in front of libc's. Each entry is carried out as one recvmsg or sendmsg. A stream has no
 * messages; its results are those of the kernel's TCP sockets.
 */
#include <errno.h>
#include <time.h>

#include "rnic/sock/sock.h"
#include "rnic/sock/sock_gram.h"

#define PUBLIC   __attribute__((visibility("default")))
#define SEND_MAX 1024u /* Linux takes at most this many entries of a sendmmsg */

/* Writes the time until `end` to *limit; false: that time has come. */
static bool time_left(uint64_t end, struct timespec *limit)
{
	uint64_t now = sock_now(), left = now < end ? end - now : 0;

	limit->tv_sec = (time_t)(left / RN_NS_PER_S);
	limit->tv_nsec = (long)(left % RN_NS_PER_S);
	return left > 0;
}

/* Keeps the error for the next call. */
static void error_back(struct sock *s, int error)
{
	if (s->kind == SOCK_IS_GRAM)
		sock_gram_error_back(s, error);
	else if (s->kind == SOCK_IS_STREAM)
		__atomic_store_n(&s->mem->error, error, __ATOMIC_RELAXED);
}

/* The time limit is checked after each entry, as in Linux: it does not end a wait for bytes. */
static int entries_in(struct sock *s, int fd, struct mmsghdr *v, unsigned int n, int flags, struct timespec *limit)
{
	uint64_t end = limit != NULL ? sock_end_of(limit) : 0;

	for (unsigned int i = 0; i < n; i++) {
		ssize_t got = sock_recv_msg(s, fd, &v[i].msg_hdr, flags);
		if (got < 0 && i > 0 && errno != EAGAIN && errno != EINTR)
			error_back(s, errno);
		if (got < 0)
			return i > 0 ? (int)i : -1;
		v[i].msg_len = (unsigned int)got;
		if ((flags & MSG_WAITFORONE) != 0)
			flags |= MSG_DONTWAIT;
		if (limit != NULL && !time_left(end, limit))
			return (int)i + 1;
	}
	return (int)n;
}

PUBLIC int recvmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags, struct timespec *limit)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	int rc;
	if (s == NULL) {
		rc = sock_libc.recvmmsg(fd, v, n, flags, limit);
		for (int i = 0; i < rc; i++)
			sock_found_in(&v[i].msg_hdr);
		return rc;
	}
	if (limit != NULL && (limit->tv_sec < 0 || limit->tv_nsec < 0 || limit->tv_nsec >= (long)RN_NS_PER_S)) {
		sock_put(s);
		errno = EINVAL;
		return -1;
	}
	SOCK_PUT_AFTER(s, rc, entries_in(s, fd, v, n, flags, limit));
	return rc;
}

/* Stops at an entry that was not sent whole: the bytes of later entries would be sent before the rest of this one. */
static int entries_out(struct sock *s, int fd, struct mmsghdr *v, unsigned int n, int flags)
{
	for (unsigned int i = 0; i < n; i++) {
		const struct msghdr *m = &v[i].msg_hdr;
		ssize_t put = sock_send_msg(s, fd, m, flags);
		if (put < 0)
			return i > 0 ? (int)i : -1;
		v[i].msg_len = (unsigned int)put;
		if ((size_t)put < sock_bytes(m->msg_iov, m->msg_iovlen))
			return (int)i + 1;
	}
	return (int)n;
}

PUBLIC int sendmmsg(int fd, struct mmsghdr *v, unsigned int n, int flags)
{
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL && n > 0 && v[0].msg_hdr.msg_name != NULL)
		s = sock_gram_sends(fd, v[0].msg_hdr.msg_name, v[0].msg_hdr.msg_namelen);
	if (s == NULL)
		return sock_libc.sendmmsg(fd, v, n, flags);
	int rc;
	SOCK_PUT_AFTER(s, rc, entries_out(s, fd, v, n < SEND_MAX ? n : SEND_MAX, flags));
	return rc;
}
