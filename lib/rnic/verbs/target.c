/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The client's part in holding back the bytes that peers write to a program under rnicrun --sanitize (wqe/qp_hold.h).
 * Each millisecond hold_tick() looks at new records of held bytes, veils the memory that the bytes are for, and allows
 * the worker to place the bytes of these records.
 */
#include "rnic/verbs/veil.h"
#include "rnic/verbs/watch.h"

#define TICK_MS 1u

/* Adjacent Writes share one veil: a page may lie wholly inside all of them, but not inside one of them. */
static void records_veil(struct rnic_qp *qp, uint32_t from, uint32_t to)
{
	struct qp_hold_rec r, next;

	for (uint32_t i = from; i != to;) {
		const uint32_t first = i;
		r = qp->hold->rec[i++ % QP_HOLD_CELLS];
		for (; i != to; i++) {
			next = qp->hold->rec[i % QP_HOLD_CELLS];
			if (next.stag != r.stag || next.to != r.to + r.len)
				break;
			r.len += next.len;
		}
		rnic_watch_written(qp, &r, first, i);
	}
}

static void hold_tick(void *object, uint64_t arg)
{
	struct rnic_qp *qp = object;
	const uint32_t put = __atomic_load_n(&qp->hold->put, __ATOMIC_ACQUIRE);

	(void)arg;
	if (put - qp->hold_seen > QP_HOLD_CELLS) /* records that were overwritten have been placed */
		qp->hold_seen = put - QP_HOLD_CELLS;
	if (qp->s->own.turn == NULL)
		records_veil(qp, qp->hold_seen, put);
	qp->hold_seen = put;
	__atomic_store_n(&qp->hold->shown, put, __ATOMIC_RELEASE);
	if (__atomic_load_n(&qp->hold->held, __ATOMIC_RELAXED) > 0 && !rnic_dead(qp->s))
		rnic_doorbell(qp);
	const uint32_t state = __atomic_load_n(&qp->shm->state, __ATOMIC_RELAXED);
	if (state == IBV_QPS_ERR || state == IBV_QPS_RESET)
		rnic_watch_over(qp);
	rnic_later(TICK_MS, hold_tick, qp, 0);
}

/*
 * Without a seed the Writes are placed in order, and in a process that contains the device's part there are no veils.
 * If both are so, holding Writes back has no effect, and is not asked for.
 */
int rnic_target_ask(struct rnic_qp *qp, struct ipc_create_qp *arg)
{
	static uint32_t made; /* each queue pair of a program draws other numbers, and the same ones in each run */
	struct rnic_session *s = qp->s;

	if (rnic_sanitize.seed == 0 && s->own.turn != NULL)
		return 0;
	qp->hold_off = rnic_shm_alloc(s->shm, sizeof(*qp->hold));
	if (qp->hold_off == 0)
		return ENOMEM;
	qp->hold = (struct qp_hold_shm *)(void *)(s->queues + qp->hold_off);
	arg->hold = IPC_HOLD_WRITES | (rnic_sanitize.ib ? IPC_HOLD_ORDERED : 0);
	arg->hold_off = qp->hold_off;
	if (rnic_sanitize.seed != 0)
		arg->hold_seed = rnic_sanitize.seed + __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
	return 0;
}

void rnic_target_begin(struct rnic_qp *qp)
{
	if (qp->hold != NULL)
		rnic_later(TICK_MS, hold_tick, qp, 0);
}

void rnic_target_end(struct rnic_qp *qp)
{
	if (qp->hold == NULL)
		return;
	rnic_later_forget(qp);
	rnic_veil_take_all(qp);
}

void rnic_target_free(struct rnic_qp *qp)
{
	if (qp->hold_off != 0)
		rnic_shm_free(qp->s->shm, qp->hold_off, sizeof(*qp->hold));
}
