/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Receives messages in the control thread, in place of the helpers of fds.h: for embedded devices, whose only client is
 * this process itself, and for the process that serves the sockets of one user's programs. A client can block only its
 * own user there. Here FDS_SOCKET has the socket in `fd`, too.
 */
#include <sys/socket.h>
#include <sys/stat.h>

#include "control/fds.h"

/* Looks at a descriptor. The client is trusted to pass what the request asks for, so a descriptor that is neither a
 * memory file nor a socket is taken for an eventfd. */
static struct fds_given given_of(int fd)
{
	struct fds_given g = { .kind = FDS_EVENTFD, .fd = fd };
	socklen_t len = sizeof(g.cookie);
	struct stat st;

	if (fstat(fd, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) {
		g.file = true;
		g.fdev = st.st_dev;
		g.fino = st.st_ino;
		g.fborn = fds_born(fd);
	}
	if (ipc_file_look(fd, &g.memory))
		g.kind = FDS_MEMORY;
	else if (getsockopt(fd, SOL_SOCKET, SO_COOKIE, &g.cookie, &len) == 0)
		g.kind = FDS_SOCKET;
	return g;
}

static void receive_own(int sock, struct fds_result *r)
{
	int fds[IPC_MAX_FDS];
	unsigned n = IPC_MAX_FDS;

	r->status = ipc_recv(sock, &r->m, fds, &n);
	r->n = r->status == 0 ? n : 0;
	for (uint32_t i = 0; i < r->n; i++)
		r->given[i] = given_of(fds[i]);
}

void fds_own_start(void) { fds_start_without(receive_own); }
