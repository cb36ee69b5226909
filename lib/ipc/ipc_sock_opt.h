/* SPDX-License-Identifier: BSD-3-Clause */
/* Options that a program's socket passes on to the kernel's socket under it (IPC_SOCK_OPTION). */
#ifndef IPC_SOCK_OPT_H
#define IPC_SOCK_OPT_H

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <sys/socket.h>

/* Their values are ints. They end connections with silent peers, or mark packets; no privilege is needed for them. */
static inline bool ipc_sock_opt_passes(int level, int name)
{
	if (level == IPPROTO_TCP)
		return name == TCP_KEEPIDLE || name == TCP_KEEPINTVL || name == TCP_KEEPCNT || name == TCP_USER_TIMEOUT;
	return (level == SOL_SOCKET && name == SO_KEEPALIVE) || (level == IPPROTO_IP && name == IP_TOS) ||
	       (level == IPPROTO_IPV6 && name == IPV6_TCLASS);
}

#endif
