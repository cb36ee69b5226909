/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a sleeping worker is woken: a word that says whether it sleeps, an eventfd to write, and the descriptors whose
 * events end its sleep.
 *
 * No wake-up is lost: the worker sets its word, then looks at everything once more; a thread that brings something puts
 * it in place first and calls bell_ring() then. A full fence on either side orders the two.
 */
#ifndef BELL_H
#define BELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <time.h>

#include "border/rnicd.h"

struct bell {
	uint32_t sleeping; /* 1: a write to wake_fd is needed; set and cleared by the worker */
	int wake_fd;
	int epoll_fd;
} RN_ALIGNED(RN_CACHE_LINE);
extern struct bell bells[RNICD_MAX_WORKERS];

/* Before the worker starts, after it has stopped. False and errno: no descriptors. */
bool bell_make(uint32_t worker);
void bell_free(uint32_t worker);

/* Any thread, after it has put something where the worker looks: ends the worker's sleep. */
void bell_ring(uint32_t worker);

/*
 * Any thread: an event of the descriptor ends the worker's sleep from now on. `events` as of epoll; with EPOLLET nobody
 * has to read the descriptor. False and errno: epoll cannot wait for this descriptor. Closing a descriptor ends its
 * watch; bell_unwatch() is for a descriptor that stays open.
 */
bool bell_watch(uint32_t worker, int fd, uint32_t events);
void bell_unwatch(uint32_t worker, int fd);

/* ---- the worker itself ---- */

/* 1 before its last look at everything, which a full fence must precede; 0 after it has woken up. */
static inline void bell_set_sleeping(uint32_t worker, uint32_t value)
{
	__atomic_store_n(&bells[worker].sleeping, value, __ATOMIC_RELAXED);
}

/* Sleeps until a descriptor has an event, `longest` at most. True: one has. */
bool bell_wait(uint32_t worker, const struct timespec *longest);

#endif
