/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Files that a client has mapped, opened from outside: through /proc/PID/map_files, as the client's user. The kernel
 * decides, with that user's rights, whether it may look into the process and whether it may open the file, so a client
 * gets nothing that it could not have opened itself, and a process number used again leads nowhere else. Only memory is
 * opened. All this may take as long as the client likes (its memory map may be locked): client_maps_open() is for a
 * helper process (fds.h).
 */
#ifndef CLIENT_MAPS_H
#define CLIENT_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct client_proc {
	int dir; /* /proc/PID, of this process and no later one; -1: it cannot be looked into */
	uid_t uid;
	gid_t gid;
};

/* The process at the other end of a socket; its dir is the caller's to close. */
struct client_proc client_proc_open(pid_t pid, uid_t uid, gid_t gid);

/*
 * The file behind the client's mapping of exactly [start, end); sock: the client's, which knows its groups. A
 * descriptor, or a negative errno: -ENXIO when this daemon may not look (it lacks CAP_CHECKPOINT_RESTORE or sees other
 * process numbers), -EACCES the client's user may not open it so, -EOPNOTSUPP not a file of memory, -ENOENT no such
 * mapping.
 */
int client_maps_open(const struct client_proc *p, int sock, uint64_t start, uint64_t end, bool writable);

#endif
