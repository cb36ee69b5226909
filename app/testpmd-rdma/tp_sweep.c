/* SPDX-License-Identifier: BSD-3-Clause */
#include "tp_sweep.h"
#include "tp_clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define TICK_US  250000
#define QUIET_NS UINT64_C(1000000000) /* no progress line before this */

bool tp_progress_format(const struct tp_progress *g, const struct tp_point *p, uint64_t now, char *buf, size_t len)
{
	uint32_t phase = atomic_load(&g->phase);
	uint64_t start = atomic_load(&g->start), deadline = atomic_load(&g->deadline), ops = atomic_load(&g->ops);
	double secs = now > start ? (double)(now - start) / 1e9 : 0, bytes = (double)atomic_load(&g->bytes);
	char size[24], goal[40];

	if (phase == 0)
		return false;
	tp_format_size(p->size, size, sizeof(size));
	if (phase == 1) {
		snprintf(buf, len, "%s %s: connecting", tp_mode_name(p->mode), size);
		return true;
	}
	if (deadline != 0)
		snprintf(goal, sizeof(goal), "%.1f of %.1f s", secs, (double)(deadline - start) / 1e9);
	else
		snprintf(goal, sizeof(goal), "%.1f s, %.0f %%", secs,
			 100 * (double)ops / (double)(p->iters ? p->iters : 1));
	if (tp_mode_is_latency(p->mode))
		snprintf(buf, len, "%s %s: %s%s, %" PRIu64 " operations", tp_mode_name(p->mode), size, goal,
			 phase == 2 ? " (warm-up)" : "", ops);
	else
		snprintf(buf, len, "%s %s: %s%s, %.3f GB/s, %.4f Mmsg/s", tp_mode_name(p->mode), size, goal,
			 phase == 2 ? " (warm-up)" : "", secs > 0 ? bytes / secs / 1e9 : 0,
			 secs > 0 ? (double)ops / secs / 1e6 : 0);
	return true;
}

struct ticker {
	pthread_t thread;
	atomic_bool end;
	const struct tp_progress *progress;
	const struct tp_point *point;
};

static void *tick(void *arg)
{
	struct ticker *t = arg;
	bool shown = false;
	char line[160];

	while (!atomic_load(&t->end)) {
		uint64_t now;

		usleep(TICK_US);
		now = tp_now();
		if (now < atomic_load(&t->progress->start) + QUIET_NS ||
		    !tp_progress_format(t->progress, t->point, now, line, sizeof(line)))
			continue;
		fprintf(stderr, "\r\033[K%s", line);
		shown = true;
	}
	if (shown)
		fputs("\r\033[K", stderr);
	return NULL;
}

static void keep_result(struct tp_results *keep, const struct tp_result *res)
{
	pthread_mutex_lock(&keep->lock);
	if (keep->n == keep->room) {
		unsigned room = keep->room ? 2 * keep->room : 16;
		struct tp_result *list = realloc(keep->list, room * sizeof(*list));

		if (list != NULL) {
			keep->list = list;
			keep->room = room;
		}
	}
	if (keep->n < keep->room)
		keep->list[keep->n++] = *res;
	pthread_mutex_unlock(&keep->lock);
}

/* One run of the sweep; false: do not go on. */
static bool one(const struct tp_sweep_to *to, const struct tp_opts *o, const struct tp_point *p,
		const struct tp_client_env *env, struct tp_sweep_sum *sum)
{
	struct ticker t = { .progress = env->progress, .point = p };
	bool ticking = to->progress_line && env->progress != NULL;
	struct tp_result res;
	struct tp_err err;
	enum tp_verdict v;

	if (env->progress != NULL) {
		atomic_store(&env->progress->start, tp_now());
		atomic_store(&env->progress->phase, 1);
	}
	if (ticking)
		ticking = pthread_create(&t.thread, NULL, tick, &t) == 0;
	v = tp_client_point(o, p, env, &res, &err);
	if (ticking) {
		atomic_store(&t.end, true);
		pthread_join(t.thread, NULL);
	}
	if (env->progress != NULL)
		atomic_store(&env->progress->phase, 0);
	sum->runs++;
	if (v != TP_OK) {
		sum->failed += v != TP_STOPPED;
		fprintf(stderr, "testpmd-rdma: %s\n", err.text);
		tp_report_fail(to->rep, err.text);
		return false;
	}
	if (res.mine.ops == 0 && atomic_load(env->stop)) {
		fprintf(stderr, "testpmd-rdma: stopped before anything was measured\n");
		return false;
	}
	tp_report_row(to->rep, &res);
	if (to->keep != NULL)
		keep_result(to->keep, &res);
	if (res.mine.wrong + res.peer.wrong > 0) {
		const char *what = res.mine.wrong ? err.text : "wrong data: see the server's output for details";

		sum->wrong++;
		fprintf(stderr, "testpmd-rdma: %s\n", what);
		tp_report_fail(to->rep, what);
	}
	if (res.mine.overtaken + res.peer.overtaken > 0)
		fprintf(stderr,
			"testpmd-rdma: note: %" PRIu64
			" operations completed before an earlier one of their queue pair: this "
			"device does not complete in order\n",
			res.mine.overtaken + res.peer.overtaken);
	return !atomic_load(env->stop);
}

struct tp_sweep_sum tp_sweep(const struct tp_opts *o, const struct tp_client_env *env, const struct tp_sweep_to *to)
{
	const unsigned points = tp_opts_points(o);
	struct tp_sweep_sum sum = { 0 };
	struct tp_point p;

	for (unsigned i = 0; i < points; i++) {
		tp_opts_point(o, i, &p);
		if (to->keep != NULL) {
			pthread_mutex_lock(&to->keep->lock);
			to->keep->running = p;
			pthread_mutex_unlock(&to->keep->lock);
		}
		if (!one(to, o, &p, env, &sum))
			break;
	}
	return sum;
}
