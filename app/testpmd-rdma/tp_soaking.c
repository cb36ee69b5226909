/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_soaking.h"
#include "tp_pattern.h"

#define POLL_BATCH  16
#define CONSTANT_QP UINT32_C(0x7fffff) /* the "queue pair" whose pattern the constant area carries */

struct tp_soak_op tp_soak_op(const struct tp_run *r, bool by_server, uint32_t q, uint64_t k)
{
	struct tp_soak_op op;
	uint64_t h = op.seed = tp_pattern_seed(r->p->seed ^ (uint64_t)by_server << 63, q, k);
	uint64_t range = (h & 12) == 0 && r->p->size > 64 ? 64 : r->p->size; /* a quarter of them small */

	op.kind = (enum tp_soak_kind)((h >> 4 & 0xffff) % 3);
	op.len = (uint32_t)(1 + (h >> 20) % range);
	op.off = h >> 58;
	return op;
}

uint64_t tp_soak_constant(const struct tp_run *r, bool of_peer)
{
	return tp_pattern_seed(r->p->seed ^ (uint64_t)(r->s->is_server != of_peer) << 63, CONSTANT_QP, 0);
}

void tp_soak_fill_constant(const struct tp_run *r)
{
	tp_pattern_fill(r->s->region + r->s->layout.constant, r->s->layout.stride, tp_soak_constant(r, false), 0);
}

/* Polls once and handles the completions; posts where there is room. open: new operations may still start. */
static enum tp_verdict soak_turn(struct tp_run *r, const struct tp_soak_way *way, bool open, uint64_t now)
{
	struct ibv_wc wc[POLL_BATCH];
	int n = ibv_poll_cq(r->s->cq, POLL_BATCH, wc);
	enum tp_verdict v = TP_OK;
	bool posted = false;

	if (n < 0)
		return tp_fail(r->s->err, TP_VERBS_ERROR, "polling the completion queue failed");
	for (int i = 0; i < n && v == TP_OK; i++)
		v = way->on_wc(r, &wc[i], now);
	for (uint32_t q = 0; open && v == TP_OK && q < r->p->qps; q++)
		v = way->start(r, q, now, n == 0, &posted);
	if (v != TP_OK || n > 0 || posted) {
		tp_busy(r);
		return v == TP_OK ? tp_ctrl_pump(r->s) : v;
	}
	r->awaits_credit = open || way->by_time;
	return tp_idle(r);
}

enum tp_verdict tp_soak_run(struct tp_run *r, const struct tp_soak_way *way)
{
	const struct tp_soaking *st = r->state;
	uint64_t begin = tp_now(), now = begin, cpu = tp_cpu_ns();
	enum tp_verdict v = TP_OK;
	bool open = r->tx;

	tp_progress_phase(r, 3, begin);
	while (v == TP_OK) {
		if (open && (tp_should_stop(r) ||
			     (r->p->iters != 0 ? st->started >= r->p->iters : now - begin >= r->p->duration)))
			open = false;
		v = soak_turn(r, way, open, now);
		now = tp_now();
		tp_progress_tick(r, now, st->started);
		if (v != TP_OK || open)
			continue;
		if (!r->fin_sent && way->done(r, now)) {
			r->fin_sent = true;
			r->fig.ns = now - begin;
			v = way->end(r);
		}
		if (r->fin_sent && way->done(r, now) && (!r->rx || (r->s->fin_seen && way->all_come(r, now))))
			break;
	}
	r->fig.ops = st->started;
	r->fig.bytes = st->bytes;
	r->fig.cpu_ns = tp_cpu_ns() - cpu;
	r->fig.cpu_ops = st->started + st->come != 0 ? st->started + st->come : 1;
	return v;
}
