/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Opens files that a client has mapped, through /proc/PID/map_files and with the rights of the client's user. The
 * kernel checks with these rights the access to the process and to the file, so a client gets nothing that it could not
 * have opened itself. A PID that the kernel has given to a later process does no harm. Only memory files are opened.
 * client_maps_open() may block as long as the client likes (its memory map may be locked), so only a helper process
 * (fds.h) calls it.
 */
#ifndef CLIENT_MAPS_H
#define CLIENT_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct client_proc {
	int dir; /* descriptor of /proc/PID: of this process, never of a later one with the same PID; -1: no access */
	uid_t uid;
	gid_t gid;
};

/* The process with these credentials (SO_PEERCRED of its socket). The caller closes `dir`. */
struct client_proc client_proc_open(pid_t pid, uid_t uid, gid_t gid);

/*
 * Opens the file behind the client's mapping of exactly [start, end). sock: the client's socket, from which the kernel
 * tells the client's groups. Returns a descriptor, or a negative errno. -ENXIO: this daemon may not look (it lacks
 * CAP_CHECKPOINT_RESTORE or is in another PID namespace). -EACCES: the client's user may not open the file in this way.
 * -EOPNOTSUPP: not a memory file. -ENOENT: no such mapping.
 */
int client_maps_open(const struct client_proc *p, int sock, uint64_t start, uint64_t end, bool writable);

#endif
