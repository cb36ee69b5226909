/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modes of hostile.c. Each returns 0 when the daemon kept to its rules toward this client, and otherwise has
 * printed the reason on stdout. The caller checks what happened to others.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

/* Where the well-behaved program listens, and a region of it that peers may write. */
struct where {
	const char *address;
	uint16_t port;
	uint32_t stag;
	uint64_t to;
};

/* hostile_queue.c: garbage in shared memory */
int mode_wqe(const struct where *w);
int mode_rings(const struct where *w);
int mode_overrun(const struct where *w);
int mode_die(const struct where *w);
int mode_steal(const struct where *w);
int mode_holes(const struct where *w);
int mode_huge_holes(const struct where *w);
int mode_eventfd(const struct where *w);

/* hostile_msg.c: garbage on the control socket */
int mode_messages(const struct where *w);
int mode_fds(const struct where *w);
int mode_deaf(const struct where *w);
int mode_sockets(const struct where *w);

/* hostile_obj.c: invalid, too many and abused objects */
int mode_objects(const struct where *w);
int mode_quota(const struct where *w);
int mode_never_accepts(const struct where *w);

/* hostile_import.c: memory of other processes */
int mode_imports(const struct where *w);
int mode_imports_as_user(const struct where *w);

#endif
