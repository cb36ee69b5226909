/* SPDX-License-Identifier: BSD-3-Clause */
/* A ping-pong: the server answers until the client ends it; the client reads the clock once per round trip. */
#include "tp_engine.h"

static bool warm(const struct tp_run *r, uint64_t i, uint64_t since)
{
	return r->p->warmup_ops != 0 ? i >= r->p->warmup_ops : since >= r->p->warmup;
}

static enum tp_verdict measure(struct tp_run *r, tp_ping_fn ping, tp_await_fn await)
{
	uint64_t t0 = tp_now(), t = t0, begin = 0, cpu = 0, ops = 0, next;
	const uint64_t halves = r->p->mode == TP_READ_LAT ? 1 : 2;
	enum tp_pong pong;
	bool measuring = false;
	enum tp_verdict v = TP_OK;

	tp_progress_phase(r, 2, t0);
	for (uint64_t i = 0; !tp_should_stop(r); i++) {
		if (!measuring && warm(r, i, t - t0)) {
			measuring = true;
			cpu = tp_cpu_ns();
			begin = t = tp_now();
			tp_progress_phase(r, 3, begin);
		}
		if (measuring && (r->p->iters != 0 ? ops >= r->p->iters : t - begin >= r->p->duration))
			break;
		pong = TP_PONG_BACK;
		v = ping(r, i);
		if (v == TP_OK)
			v = await(r, i, &pong);
		if (v != TP_OK)
			return v;
		if (pong == TP_PONG_ENDED)
			return tp_fail(r->s->err, TP_BAD_PEER, "the server ended the run");
		next = tp_now();
		if (measuring && pong == TP_PONG_BACK) {
			tp_hist_add(&r->hist, (next - t) / halves);
			ops++;
			tp_progress_tick(r, next, ops);
		}
		t = next;
	}
	r->fig.ops = ops;
	r->fig.bytes = ops * r->p->size;
	r->fig.ns = measuring ? t - begin : 0;
	r->fig.cpu_ns = measuring ? tp_cpu_ns() - cpu : 0;
	r->fig.cpu_ops = ops != 0 ? ops : 1;
	return TP_OK;
}

static enum tp_verdict answer(struct tp_run *r, tp_ping_fn ping, tp_await_fn await)
{
	enum tp_verdict v = TP_OK;
	enum tp_pong pong = TP_PONG_BACK;

	for (uint64_t i = 0; v == TP_OK && pong != TP_PONG_ENDED; i++) {
		v = await(r, i, &pong);
		if (v == TP_OK && pong != TP_PONG_ENDED)
			v = ping(r, i);
	}
	return v;
}

enum tp_verdict tp_ping_pong(struct tp_run *r, tp_ping_fn ping, tp_await_fn await)
{
	return r->s->is_server ? answer(r, ping, await) : measure(r, ping, await);
}
