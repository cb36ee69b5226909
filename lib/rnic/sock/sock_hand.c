/* SPDX-License-Identifier: BSD-3-Clause */
/* Shows a stream of the program to librnic_embedded, which runs iWARP over it in this process (design host). */
#include <errno.h>

#include "rnic/sock/sock.h"

__attribute__((visibility("default"))) int rnicsock_see(uint32_t version, int fd, struct sock_seen *seen)
{
	if (version != IPC_VERSION)
		return EPROTO;
	sock_ready();
	struct sock *s = sock_get(fd);
	if (s == NULL)
		return ENOTSOCK;
	bool connected = s->kind == SOCK_IS_STREAM && (sock_state(s) & IPC_STREAM_CONNECTED) != 0;
	if (connected)
		*seen = (struct sock_seen){ .told = s->told,
					    .watched = __atomic_load_n(&s->watched, __ATOMIC_RELAXED),
					    .mem = s->mem };
	sock_put(s);
	return connected ? 0 : ENOTCONN;
}
