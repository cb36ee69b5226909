/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/unmap.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>

#include "base/rn_base.h"

/* bytes unmapped at once: a thread that calls mmap() meanwhile waits for one piece only. Pieces begin at multiples of
 * this size, so none ends inside a page of 2 MiB. */
#define PIECE (UINT64_C(64) << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct unmap *first, **last = &first; /* the queue; under the lock, as is `ending` */
static bool ending, running;
static pthread_t thread;

static struct unmap *next(void)
{
	pthread_mutex_lock(&lock);
	while (first == NULL && !ending)
		pthread_cond_wait(&more, &lock);
	struct unmap *u = first;
	if (u != NULL) {
		first = u->next;
		if (first == NULL)
			last = &first;
	}
	pthread_mutex_unlock(&lock);
	return u;
}

/* Unmaps the first bytes of the mapping: one piece, or more if the piece ends inside a page of 1 GiB. Returns how many
 * are gone. No address is unmapped twice, because another mapping may lie there by then. */
static uint64_t unmap_some(uint8_t *at, uint64_t left)
{
	uint64_t n = rn_min_u64(PIECE - (uintptr_t)at % PIECE, left);

	while (munmap(at, n) != 0 && n < left)
		n += rn_min_u64(PIECE, left - n);
	return n;
}

static void *run(void *arg)
{
	struct unmap *u;

	while ((u = next()) != NULL) {
		for (uint64_t at = 0; at < u->size;)
			at += unmap_some(u->base + at, u->size - at);
		/* Release: pairs with unmap_is_done(). From now on u belongs to its owner. */
		__atomic_store_n(&u->waits, 0, __ATOMIC_RELEASE);
	}
	return arg;
}

bool unmap_start(void)
{
	ending = false;
	running = pthread_create(&thread, NULL, run, NULL) == 0;
	return running;
}

void unmap_begin(struct unmap *u)
{
	if (u->size == 0)
		return;
	u->waits = 1;
	u->next = NULL;
	pthread_mutex_lock(&lock);
	*last = u;
	last = &u->next;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
}

bool unmap_is_done(const struct unmap *u) { return __atomic_load_n(&u->waits, __ATOMIC_ACQUIRE) == 0; }

void unmap_stop(void)
{
	if (!running)
		return;
	pthread_mutex_lock(&lock);
	ending = true;
	pthread_cond_signal(&more);
	pthread_mutex_unlock(&lock);
	pthread_join(thread, NULL);
	running = false;
}
