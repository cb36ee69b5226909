/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP or UDP socket that a client hands over. If TCP is connected, the next byte of the stream is the first of an
 * iWARP connection. Only the plane of sockets takes over sockets (sockets/ks_handed.c). Control thread.
 */
#ifndef HANDED_H
#define HANDED_H

#include <stdbool.h>
#include <stdint.h>

#include "border/flow_owner.h"
#include "ipc/ipc_shm.h"

struct handed; /* a socket that was handed over; only the plane knows its contents */

/* What the kernel has of a UDP socket. */
struct handed_gram {
	struct ipc_addr local, peer; /* local.ip all zero: all addresses. peer.port 0: none */
	bool balance;                /* SO_REUSEPORT */
};

struct handed_taker {
	/*
	 * Takes the socket behind a descriptor of this process. The program may use the socket until CMD_CONN_OPEN has
	 * used *h. Returns 0, and fills *h and all of *a except the device; or an errno with a sentence in err.
	 */
	int (*take)(int fd, struct handed **h, struct conn_addr *a, char *err, uint32_t err_len);
	/*
	 * The same for a socket that listens (*listens) or is connecting. *local: its address.
	 */
	int (*keep)(int fd, struct handed **h, struct ipc_addr *local, bool *listens, char *err, uint32_t err_len);
	/* The same for a UDP socket with a port. */
	int (*keep_gram)(int fd, struct handed **h, struct handed_gram *about, char *err, uint32_t err_len);
	/* Closes a socket that no connection has used. */
	void (*drop)(struct handed *h);
};

#endif
