/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings between control thread and workers.
 */
#include <time.h>
#include <unistd.h>

#include "plane/worker_int.h"

#define CALL_NAP_NS (20 * RN_NS_PER_US)

/* 1: the control thread sleeps and control_fd must be written. */
static uint32_t control_sleeping;

bool rnicd_cmd_send(struct rnicd_worker *w, struct rnicd_cmd *cmd)
{
	if (rte_ring_sp_enqueue(w->sh.cmds, cmd) != 0)
		return false;
	worker_poke(w);
	return true;
}

/* The next answer of a worker; NULL: none. */
static struct rnicd_cmd *answer(struct rnicd_worker *w)
{
	void *cmd;
	return rte_ring_sc_dequeue(w->sh.answers, &cmd) == 0 ? cmd : NULL;
}

static void finish(struct rnicd_cmd *cmd)
{
	if (cmd->done != NULL)
		cmd->done(cmd);
}

void rnicd_cmd_call(struct rnicd_worker *w, struct rnicd_cmd *cmd)
{
	const struct timespec nap = { .tv_nsec = CALL_NAP_NS };

	while (!rnicd_cmd_send(w, cmd)) {
		rnicd_cmd_collect();
		nanosleep(&nap, NULL);
	}
	for (;;) {
		struct rnicd_cmd *back = answer(w);
		if (back == cmd)
			return;
		if (back != NULL)
			finish(back);
		else
			nanosleep(&nap, NULL);
	}
}

uint32_t rnicd_cmd_collect(void)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		struct rnicd_cmd *cmd;
		while ((cmd = answer(rnicd.worker[i])) != NULL) {
			finish(cmd);
			n++;
		}
	}
	return n;
}

uint32_t worker_commands(struct rnicd_worker *w)
{
	struct rnicd_cmd *cmd;
	uint32_t n = 0;

	/* the answers' ring is as large as the commands': one answer each, so there is always room */
	while (rte_ring_free_count(w->sh.answers) != 0 && worker_space(w) &&
	       rte_ring_sc_dequeue(w->sh.cmds, (void **)&cmd) == 0) {
		cmd->run(w, cmd, w->now);
		rte_ring_sp_enqueue(w->sh.answers, cmd);
		w->told = true;
		n++;
	}
	return n;
}

bool rnicd_event_push(struct rnicd_worker *w, const struct rnicd_event *ev)
{
	w->told = true;
	return rte_ring_sp_enqueue_elem(w->sh.events, (void *)(uintptr_t)ev, sizeof(*ev)) == 0;
}

void rnicd_event_flush(struct rnicd_worker *w)
{
	if (!w->told)
		return;
	w->told = false;
	/* pairs with the fence in rnicd_control_prepare_sleep() */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	if (__atomic_load_n(&control_sleeping, __ATOMIC_RELAXED) == 0 ||
	    __atomic_exchange_n(&control_sleeping, 0, __ATOMIC_RELAXED) == 0)
		return;
	uint64_t one = 1;
	/* only fails when the counter is full: readable in any case */
	if (write(rnicd.control_fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		return;
}

uint32_t rnicd_event_collect(struct rnicd_event *ev, uint32_t n)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < rnicd.n_workers && k < n; i++)
		k += rte_ring_sc_dequeue_burst_elem(rnicd.worker[i]->sh.events, &ev[k], sizeof(*ev), n - k, NULL);
	return k;
}

bool rnicd_control_prepare_sleep(void)
{
	__atomic_store_n(&control_sleeping, 1, __ATOMIC_RELAXED);
	/* pairs with the fence in rnicd_event_flush() */
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint32_t i = 0; i < rnicd.n_workers; i++) {
		const struct worker_shared *sh = &rnicd.worker[i]->sh;
		if (!rte_ring_empty(sh->answers) || !rte_ring_empty(sh->events)) {
			__atomic_store_n(&control_sleeping, 0, __ATOMIC_RELAXED);
			return false;
		}
	}
	return true;
}

void rnicd_control_awake(void)
{
	uint64_t n;

	__atomic_store_n(&control_sleeping, 0, __ATOMIC_RELAXED);
	/* not readable when something else has ended the sleep */
	if (read(rnicd.control_fd, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return;
}
