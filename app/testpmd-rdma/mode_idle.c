/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Idle connections: each carries its first message, then nothing for --seconds, then a Send that proves that the
 * connection still works. The report has the times to set up and close the connections (connect_ns, close_ns); their
 * cost while they are idle is measured at the daemon.
 */
#include "tp_engine.h"

#include <unistd.h>

#define LOOK_US 50000u

static void idle_depths(const struct tp_point *p, uint32_t *sq, uint32_t *rq)
{
	(void)p;
	*sq = *rq = 0;
}

static enum tp_verdict idle_prepare(struct tp_run *r)
{
	(void)r;
	return TP_OK;
}

static enum tp_verdict idle_run(struct tp_run *r)
{
	uint64_t begin = tp_now(), now = begin, cpu = tp_cpu_ns();
	enum tp_verdict v = TP_OK;

	tp_progress_phase(r, 3, begin);
	while (v == TP_OK && !tp_should_stop(r) && now - begin < r->p->duration) {
		uint64_t left = (r->p->duration - (now - begin)) / 1000 + 1;

		usleep((useconds_t)(left < LOOK_US ? left : LOOK_US));
		if (atomic_load(&r->s->dead))
			return tp_fail(r->s->err, TP_PEER_GONE,
				       "an idle connection was closed: see the server's output");
		v = tp_ctrl_pump(r->s);
		now = tp_now();
	}
	r->posted = r->fig.ops = r->p->qps;
	r->fig.ns = now - begin;
	r->fig.cpu_ns = tp_cpu_ns() - cpu;
	r->fig.cpu_ops = r->p->qps;
	return v;
}

const struct tp_engine tp_idle_conns = {
	.mode = TP_IDLE,
	.fence = true,
	.depths = idle_depths,
	.prepare = idle_prepare,
	.run = idle_run,
};
