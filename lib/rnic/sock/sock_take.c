/* SPDX-License-Identifier: BSD-3-Clause */
/* Takes over a stream of another copy of this code in the same process. */
#include <sys/mman.h>

#include "rnic/sock/sock.h"

bool sock_take(struct sock *s, int fd, const struct sock_seen *seen)
{
	struct ipc_sock_found f;
	struct sock_bells *u;
	int memory;

	/* mremap(2): old size 0 of a shared mapping makes a second mapping of the same memory */
	void *p = mremap(seen->mem, 0, IPC_STREAM_SIZE, MREMAP_MAYMOVE);

	if (p == MAP_FAILED)
		return false;
	if (sock_show(fd, &f, &memory, &u) != 0) {
		munmap(p, IPC_STREAM_SIZE);
		return false;
	}
	if (memory >= 0)
		sock_libc.close(memory);
	sock_take_bells(s, u);
	sock_learn(s, &f.sock);
	s->mem = p;
	s->kind = SOCK_IS_STREAM;
	s->told = seen->told;
	s->watched = seen->watched;
	(void)sock_tell_connect(s);
	return true;
}
