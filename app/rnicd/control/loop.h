/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The control thread's loop: descriptors, timers, and events of workers. The whole control plane runs in it, under one
 * lock. The lock is free while the loop sleeps, so that telemetry's thread can read the same objects.
 */
#ifndef LOOP_H
#define LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_wheel.h"

/* A descriptor that is watched. The memory must stay until the end of the turn in which loop_del() was called. */
struct loop_fd {
	int fd;                                            /* -1: not watched */
	void (*ready)(struct loop_fd *f, uint32_t events); /* EPOLLIN and so on */
};

struct loop_timer {
	struct rn_timer t;
	void (*due)(struct loop_timer *t);
};

bool loop_start(void);
void loop_stop(void);

/* Watches fd for these events. False with errno: the system has no room. */
bool loop_add(struct loop_fd *f, int fd, uint32_t events);
void loop_events(struct loop_fd *f, uint32_t events);
void loop_del(struct loop_fd *f); /* does not close it */

void loop_timer_arm(struct loop_timer *t, uint64_t when);
void loop_timer_disarm(struct loop_timer *t);

/*
 * Runs until `until` returns true. Every turn calls `collect`, which handles the workers' events and returns their
 * number. `turn_end` is called when no descriptor of the turn is in use any more.
 */
struct loop_hooks {
	bool (*until)(void);
	uint32_t (*collect)(void);
	void (*turn_end)(void);
};
void loop_run(const struct loop_hooks *h);

/* For threads that are not the control thread. */
void loop_lock(void);
void loop_unlock(void);

/* Ends the loop's sleep: it calls `until` and runs a turn now. Callable in signal handlers and any thread. */
void loop_poke(void);

#endif
