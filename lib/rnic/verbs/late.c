/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completions that a program gets as late as it may: rnicrun --sanitize with a seed. Another device may need so long,
 * and give many at once then. What must not be: that a program sleeps while a completion waits for which it has been
 * given no event. So nothing is held back while the queue is armed: the poll that follows ibv_req_notify_cq() sees all.
 */
#include "rnic/verbs/watch.h"

#define LATE_ONE_IN 3u   /* so many times that completions are there they are held back once */
#define LATE_POLLS  200u /* for at most so many polls */

void rnic_late_init(struct rnic_cq *cq)
{
	static uint32_t made; /* the queues of a program draw differently, and alike in each run */

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
