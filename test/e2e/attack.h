/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modes of attack.c: what a client of another user tries against rnicd and its other clients. Each returns 0 when
 * rnicd kept to its rules toward this client, and otherwise has printed the reason on stdout. The caller checks what
 * happened to other clients.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What a victim of the attacks does: $N requests, one after the other (probe); $N rounds that make and destroy queues,
 * for which every worker must answer (work). The bystander sends requests until stdin ends, and prints how many were
 * answered for each byte that comes on stdin.
 */
int mode_probe(void);
int mode_bystander(void);
int mode_work(void);

/* attack_fds.c: descriptors whose closing takes as long as their owner likes */
int mode_lingering(void);
int mode_unread(void);
int mode_leaving(void);
int mode_inside(void);
int mode_fuse(void);
int mode_channels(void);

/*
 * $MOUNT: an empty directory. Mounts a file system there as root, whose server is a child of this process, and opens a
 * file of it. silent: closing the file blocks for ever. -1: this system allows no mount; "cannot mount" and the reason
 * have been printed.
 */
int attack_fuse_file(bool silent);

/* attack_map.c: memory that rnicd is asked to map */
int mode_groups(void);
int mode_locked(void);
int mode_mappings(void);

/* attack_queue.c: more work for a worker than fits into one turn */
int mode_flushing(void);
int mode_bells(void);

/* attack_cm.c: connections, ports and listeners */
int mode_hijack(void);
int mode_victim(void);
int mode_ports(void);
int mode_numbers(void);
int mode_listeners(void);
int mode_clients(void);
int mode_setups(void);

/* attack_tables.c: STags, queue pairs, groups */
int mode_tables(void);

/* attack_memory.c: memory that clients share with rnicd, and rnicd's own */
int mode_memory(void);

/* attack_fuzz.c: random requests with descriptors of every kind */
int mode_fuzz(void);

#endif
