/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Delays completions in a program under rnicrun --sanitize with a seed: polls find nothing for a while, and then many
 * completions at once, as is possible with another device. Nothing is held back while the queue is armed, so the poll
 * after ibv_req_notify_cq() sees all completions. Otherwise the program could sleep for an event that never comes.
 */
#include "rnic/verbs/watch.h"

#define LATE_ONE_IN 3u   /* one in this many polls that find completions holds them back */
#define LATE_POLLS  200u /* for at most this many polls */

void rnic_late_init(struct rnic_cq *cq)
{
	static uint32_t made; /* each queue of a program draws other numbers, and the same ones in each run */

	rn_rng_seed(&cq->draw, rnic_sanitize.seed + __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED));
}

static bool is_empty(struct rnic_cq *cq)
{
	for (uint32_t i = 0; i < cq->nrings; i++)
		if (spsc_cons_avail(&cq->ring[i], 1) > 0)
			return false;
	return true;
}

bool rnic_late(struct rnic_cq *cq)
{
	if (rnic_sanitize.seed == 0 || __atomic_load_n(&cq->shm->armed, __ATOMIC_ACQUIRE) != 0 || is_empty(cq))
		return false;
	if (cq->late > 0)
		return --cq->late > 0;
	if (rn_rng_below(&cq->draw, LATE_ONE_IN) == 0)
		cq->late = 1 + rn_rng_below(&cq->draw, LATE_POLLS);
	return cq->late > 0;
}
