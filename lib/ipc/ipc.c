/* SPDX-License-Identifier: BSD-3-Clause */
#include "ipc/ipc.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

static void close_all(const int *fds, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		close(fds[i]);
}

int ipc_dial(const char *path)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };

	if (strlen(path) >= sizeof(un.sun_path))
		return -ENAMETOOLONG;
	memcpy(un.sun_path, path, strlen(path));
	const int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	if (connect(sock, (struct sockaddr *)&un, sizeof(un)) == 0)
		return sock;
	const int err = errno;
	close(sock);
	return -err;
}

int ipc_send(int sock, const struct ipc_msg *m, const int *fds, unsigned nfds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(IPC_MAX_FDS * sizeof(int))];
	} ctl;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)m, .iov_len = m->len };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	if (m->len < IPC_MSG_HDR || m->len > sizeof(*m) || nfds > IPC_MAX_FDS)
		return -EINVAL;
	if (nfds > 0) {
		memset(&ctl, 0, sizeof(ctl));
		mh.msg_control = ctl.buf;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	do {
		n = sendmsg(sock, &mh, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;
	return n == m->len ? 0 : -EPROTO;
}

/* Collects the descriptors of all control messages into got[IPC_MAX_FDS]; surplus ones are closed. */
static unsigned take_fds(struct msghdr *mh, int *got, bool *too_many)
{
	unsigned n = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t k = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < k; i++) {
			int fd;
			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			if (n < IPC_MAX_FDS) {
				got[n++] = fd;
			} else {
				close(fd);
				*too_many = true;
			}
		}
	}
	return n;
}

int ipc_peek(int sock, bool *fds)
{
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr mh = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	do {
		n = recvmsg(sock, &mh, MSG_PEEK | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return n == 0 || errno == ECONNRESET ? -EPIPE : -errno;
	*fds = (mh.msg_flags & MSG_CTRUNC) !=
	       0; /* without a buffer for control messages, this flag tells that there are some */
	return 0;
}

int ipc_recv(int sock, struct ipc_msg *m, int *fds, unsigned *nfds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(IPC_MAX_FDS * sizeof(int))];
	} ctl;
	struct iovec iov = { .iov_base = m, .iov_len = sizeof(*m) };
	struct msghdr mh = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = ctl.buf, .msg_controllen = sizeof(ctl.buf)
	};
	unsigned room = nfds != NULL ? *nfds : 0;
	int got[IPC_MAX_FDS];
	bool too_many = false;
	ssize_t n;

	if (nfds != NULL)
		*nfds = 0;
	do {
		n = recvmsg(sock, &mh, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == ECONNRESET ? -EPIPE : -errno;

	unsigned k = take_fds(&mh, got, &too_many);
	if (n == 0) {
		close_all(got, k);
		return -EPIPE;
	}
	/* Truncated although there was room for more: the process or the system has no free descriptor number. */
	bool none_left = (mh.msg_flags & MSG_CTRUNC) != 0 && k < IPC_MAX_FDS && room > 0;
	if ((mh.msg_flags & MSG_TRUNC) != 0 || ((mh.msg_flags & MSG_CTRUNC) != 0 && !none_left) || too_many ||
	    k > room || (size_t)n < IPC_MSG_HDR || m->len != n) {
		close_all(got, k);
		return -EPROTO;
	}
	/* Clears the rest, so that nothing of an earlier message is left in m. */
	memset((char *)m + n, 0, sizeof(*m) - (size_t)n);
	if (none_left) {
		close_all(got, k);
		return -ENFILE;
	}
	if (k > 0)
		memcpy(fds, got, k * sizeof(int));
	if (nfds != NULL)
		*nfds = k;
	return 0;
}

uint32_t ipc_orders_name(struct sockaddr_un *un, uint32_t pid)
{
	*un = (struct sockaddr_un){ .sun_family = AF_UNIX }; /* sun_path[0] stays NUL: an abstract name */
	const int len = snprintf(un->sun_path + 1, sizeof(un->sun_path) - 1, "rnic-inject-%u", pid);

	return (uint32_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}
