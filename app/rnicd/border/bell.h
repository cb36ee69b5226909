/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a sleeping worker is woken: a word that says whether it sleeps, an eventfd to write, and the descriptors whose
 * events end its sleep.
 *
 * No wake-up is lost: the worker sets its word, then looks at everything once more. A thread with work for the worker
 * first puts the work where the worker looks, then calls bell_ring(). On both sides a full fence lies between the two
 * steps.
 */
#ifndef BELL_H
#define BELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "border/rnicd.h"

struct bell {
	uint32_t sleeping; /* 1: a write to wake_fd is needed to wake the worker, which sets and clears this word */
	int wake_fd;
	int epoll_fd;
} RN_ALIGNED(RN_CACHE_LINE);
extern struct bell bells[RNICD_MAX_WORKERS];

/* Called before the worker starts, and after it has stopped. False and errno: no descriptors. */
bool bell_make(uint32_t worker);
void bell_free(uint32_t worker);

/* Any thread, after it has put work where the worker looks: ends the worker's sleep. */
void bell_ring(uint32_t worker);

/*
 * Any thread: from now on an event of the descriptor ends the worker's sleep. `events` are epoll's; with EPOLLET the
 * descriptor need not be read. False and errno: epoll cannot wait for this descriptor. Closing a descriptor ends its
 * watch; bell_unwatch() is for a descriptor that stays open.
 */
bool bell_watch(uint32_t worker, int fd, uint32_t events);
void bell_unwatch(uint32_t worker, int fd);

/* ---- the worker itself ---- */

/* The worker sets 1, then a full fence, before its last look at everything; and 0 when it has woken up. */
static inline void bell_set_sleeping(uint32_t worker, uint32_t value)
{
	__atomic_store_n(&bells[worker].sleeping, value, __ATOMIC_RELAXED);
}

/* Sleeps until a descriptor has an event, but no longer than `longest`. True: a descriptor has an event. */
bool bell_wait(uint32_t worker, const struct timespec *longest);

#endif
