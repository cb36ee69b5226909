/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The modes of attack.c: what a client of another user tries against rnicd and its other clients. Each returns 0 when
 * rnicd behaved as it must toward this client, and has said on stdout why not otherwise; what happened to others is for
 * the caller to see.
 */
#ifndef ATTACK_H
#define ATTACK_H

#include <stdint.h>

/* Another client's view: $N requests, one after the other; the same of requests that each worker carries out. */
int mode_probe(void);
int mode_work(void);

/* attack_fds.c: descriptors whose closing takes as long as their owner likes */
int mode_lingering(void);
int mode_unread(void);
int mode_fuse(void);
int mode_channels(void);

/* attack_map.c: memory that rnicd is asked to map */
int mode_groups(void);
int mode_mappings(void);

/* attack_queue.c: what a worker is asked to do */
int mode_flushing(void);

/* attack_cm.c: connections, ports and listeners */
int mode_hijack(void);
int mode_numbers(void);
int mode_listeners(void);
int mode_clients(void);
int mode_setups(void);

/* attack_tables.c: STags, queue pairs, groups */
int mode_tables(void);

/* attack_fuzz.c: anything, with any descriptor */
int mode_fuzz(void);

#endif
