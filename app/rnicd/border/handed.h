/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connected TCP socket that a client hands over, for a connection that begins with what is in the stream next. The
 * plane takes it that runs in the client's own process (sockets/ks_handed.c). Control thread.
 */
#ifndef HANDED_H
#define HANDED_H

#include <stdint.h>

#include "border/flow_owner.h"

struct handed; /* the plane's */

struct handed_taker {
	/*
	 * The socket of a descriptor of this process, which stays the program's until a command has taken the result.
	 * 0, *h, and all of *a but the device; or an errno with a sentence in err.
	 */
	int (*take)(int fd, struct handed **h, struct conn_addr *a, char *err, uint32_t err_len);
	void (*drop)(struct handed *h);
};

#endif
