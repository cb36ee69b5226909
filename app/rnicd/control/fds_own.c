/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of fds.h for embedded devices, whose only client is this process itself. A client can block only itself
 * there, so there are no helper processes. The same holds for the process that serves the sockets of one user's
 * programs. Here FDS_SOCKET has the socket in `fd`, too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/fds.h"

struct fds_job {
	char nothing;
};

static void (*tell)(uint64_t key, struct fds_result *r);

bool fds_serve(void (*done)(uint64_t key, struct fds_result *r))
{
	tell = done;
	return true;
}

struct fds_job *fds_closing(void) { return calloc(1, sizeof(struct fds_job)); }

void fds_close(struct fds_job *closing, uid_t uid, int sock)
{
	(void)uid;
	free(closing);
	close(sock);
}

void fds_cancel(uint64_t key) { (void)key; }

/* Memory of this process is never imported. */
bool fds_open(uint64_t key, int sock, int dir, const struct fds_mapping *m)
{
	(void)key;
	(void)sock;
	(void)dir;
	(void)m;
	return false;
}

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

bool fds_receive(uint64_t key, uid_t uid, int sock)
{
	struct fds_result r = { .status = 0 };
	int fds[IPC_MAX_FDS];
	unsigned n = IPC_MAX_FDS;

	(void)uid;
	r.status = ipc_recv(sock, &r.m, fds, &n);
	r.n = r.status == 0 ? n : 0;
	for (uint32_t i = 0; i < r.n; i++)
		r.given[i] = given_of(fds[i]);
	tell(key, &r);
	return true;
}
