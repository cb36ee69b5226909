/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of a worker's streams. It is large and most of it is never used: ordinary pages, which are there when they
 * are touched, beside the memory that rnicd has taken for ports and queue pairs.
 */
#include <sys/mman.h>

#include "plane/worker_int.h"

#define SLOTS flow_slots(WORKER_LISTENERS)

/* NULL: none. */
static void *untouched(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void give_back(void *p, size_t size)
{
	if (p != NULL)
		munmap(p, size);
}

bool stream_start(struct rnicd_worker *w, uint32_t flows)
{
	struct stream_ctx *x = &w->streams;

	rn_wheel_init(&x->wheel, rnicd_now());
	x->n = flows;
	x->at = untouched(flows * sizeof(x->at[0]));
	x->listener = untouched(WORKER_LISTENERS * sizeof(x->listener[0]));
	x->listen_slots = untouched(SLOTS * sizeof(x->listen_slots[0]));
	if (x->at == NULL || x->listener == NULL || x->listen_slots == NULL)
		return false;
	flow_init(&x->listens, x->listen_slots, SLOTS);
	return true;
}

void stream_stop(struct rnicd_worker *w)
{
	give_back(w->streams.at, w->streams.n * sizeof(w->streams.at[0]));
	give_back(w->streams.listener, WORKER_LISTENERS * sizeof(w->streams.listener[0]));
	give_back(w->streams.listen_slots, SLOTS * sizeof(w->streams.listen_slots[0]));
}
