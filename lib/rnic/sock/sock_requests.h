/* SPDX-License-Identifier: BSD-3-Clause */
/* How the functions of sock_daemon.c and sock_requests.c ask rnicd. Each returns 0 or a positive errno. */
#ifndef SOCK_REQUESTS_H
#define SOCK_REQUESTS_H

#include "rnic/sock/sock.h"

#define SOCK_ASK_FDS 3u /* maximum number of descriptors in an answer */

/*
 * What a request brings along: a descriptor to show, -1: none; the descriptor of a listener l, whose byte is taken, l
 * NULL: none. said: the request has been sent, so rnicd may have done what the request asks for.
 */
struct sock_along {
	int shown, listener;
	struct sock *l;
	bool said;
};

/*
 * Sends a request, and waits for the answer, which takes its place in *m; fds: -1: none came. A session that this
 * process has begun earlier is used without a look whether rnicd has closed it. If rnicd has, then the request cannot
 * be sent, and is sent once more in a new session.
 */
int sock_request(struct ipc_msg *m, uint16_t len, struct sock_along *with, int fds[SOCK_ASK_FDS]);
/*
 * A request about a socket. EBADF: rnicd does not know that this user has the socket, for example because the process
 * has changed its user since. Then the descriptor is shown to rnicd, and the request is sent again. along: what else
 * the request brings; NULL: nothing.
 */
int sock_request_about(const struct sock *s, struct ipc_msg *m, uint16_t len, const struct sock_along *along,
		       int fds[SOCK_ASK_FDS]);
/* Maps the memory of a stream, whose descriptor is fd (-1: none); closes fd. */
int sock_take_memory(struct sock *s, int fd);

#endif
