/* SPDX-License-Identifier: BSD-3-Clause */
/* One process: its filters, its streams, and the report of the last process. */
#include "run.h"

#include <stdio.h>
#include <string.h>

#include "picture.h"
#include "say.h"

struct chain { /* the filters of one process */
	struct filter f[FILTERS];
	unsigned n;
};

static unsigned inputs_of(const struct plan *p, enum filter_kind kind, unsigned instance)
{
	if (kind == READ)
		return 0;
	return p->count[kind - 1] + (kind == MERGE && instance == 0 ? p->count[MERGE] - 1 : 0);
}

static void chain_make(struct chain *c, const struct job *job, const struct place *at)
{
	c->n = 0;
	for (unsigned k = at->first; k <= at->last; k++) {
		struct filter *f = &c->f[c->n++];

		filter_make(f, job, k, at->instance, inputs_of(&job->plan, k, at->instance));
		if (c->n > 1) {
			f[-1].out[0].next = f;
			f[-1].n_out = 1;
		}
	}
	c->f[c->n - 1].leads = true;
}

static void chain_free(struct chain *c)
{
	for (unsigned i = 0; i < c->n; i++)
		filter_free(&c->f[i]);
}

/* The same picture, made by the filters in this process alone. */
static uint32_t differs(const struct run *r, const struct canvas *canvas)
{
	struct job job = r->job;
	struct volume vol;
	struct chain c;
	uint32_t n;

	plan_make(&job.plan, 1);
	chain_make(&c, &job, &job.plan.rank[0]);
	filter_load(&c.f[0], &vol);
	filter_read(&c.f[0], &vol);
	n = picture_differs(canvas, &c.f[MERGE].canvas);
	volume_free(&vol);
	chain_free(&c);
	return n;
}

static void tell(const struct run *r, const struct filter *f, uint32_t wrong)
{
	const struct tally *t = &f->tally;
	double s = f->ended - f->began;

	if (r->json) {
		printf("{\"processes\": %u, \"transport\": \"%s\", \"unit\": %u, "
		       "\"seconds\": %.6f, \"cpu_seconds\": %.6f, "
		       "\"cells\": %llu, \"triangles\": %llu, \"fragments\": %llu, \"units\": %llu, \"bytes\": %llu, "
		       "\"checked\": %s, \"wrong_pixels\": %u}\n",
		       r->job.plan.n, r->ops == &hub_verbs ? "verbs" : "sockets", r->job.unit, s, t->cpu,
		       (unsigned long long)t->cells, (unsigned long long)t->triangles, (unsigned long long)t->fragments,
		       (unsigned long long)t->units, (unsigned long long)t->bytes, r->check ? "true" : "false", wrong);
		return;
	}
	printf("%llu triangles in %llu cells, %llu pixels passed the depth test: %s\n",
	       (unsigned long long)t->triangles, (unsigned long long)t->cells, (unsigned long long)t->fragments,
	       r->output);
	printf("%u processes moved %llu bytes in %llu units in %.3f s, with %.3f s of CPU\n", r->job.plan.n,
	       (unsigned long long)t->bytes, (unsigned long long)t->units, s, t->cpu);
	if (r->check && wrong == 0)
		printf("the picture is that of one process\n");
}

static int show(const struct run *r, const struct filter *f)
{
	uint32_t wrong = 0;

	picture_write(r->output, &f->canvas, r->job.view.width, r->job.view.height);
	if (f->tally.triangles == 0)
		fprintf(stderr, "isosurface: the field has the level %g nowhere: the picture is empty\n",
			(double)r->job.level);
	if (r->check)
		wrong = differs(r, &f->canvas);
	tell(r, f, wrong);
	if (wrong > 0)
		fprintf(stderr, "isosurface: %u pixels are not those of one process\n", wrong);
	return wrong > 0;
}

/* Finds the processes that this one sends to, and counts those that send to it. */
static void find_streams(struct run *r, struct filter *last)
{
	const struct plan *p = &r->job.plan;

	r->hub.n_to = r->hub.n_from = 0;
	for (unsigned i = 0; i < p->n; i++) {
		r->hub.n_from += plan_stream(p, i, r->hub.me);
		if (!plan_stream(p, r->hub.me, i))
			continue;
		last->out[r->hub.n_to] = (struct outlet){ .ops = r->ops, .stream = r->hub.n_to };
		r->hub.to[r->hub.n_to++] = i;
	}
	if (r->hub.n_to > 0)
		last->n_out = r->hub.n_to;
}

int run_rank(struct run *r)
{
	const struct place *at = &r->job.plan.rank[r->hub.me];
	struct volume vol = { 0 };
	struct hub *hub = NULL;
	struct filter *last;
	struct chain c;
	struct unit u;
	int status = 0;

	if (r->job.plan.n > 1)
		snprintf(say_who, sizeof(say_who), "rank %u (%s)", r->hub.me, filter_names[at->first]);
	chain_make(&c, &r->job, at);
	last = &c.f[c.n - 1];
	find_streams(r, last);
	if (at->first == READ)
		filter_load(&c.f[0], &vol);
	if (r->job.plan.n > 1)
		hub = r->ops->open(&r->hub);
	for (unsigned i = 0; i < r->hub.n_to; i++)
		last->out[i].hub = hub;
	if (at->first == READ)
		filter_read(&c.f[0], &vol);
	while (hub != NULL && r->ops->receive(hub, &u)) {
		filter_take(&c.f[0], u.data, u.len);
		r->ops->done(hub, &u);
	}
	if (hub != NULL)
		r->ops->close(hub);
	if (c.f[0].inputs > 0)
		die("a stream was finished before its units ended");
	if (last->kind == MERGE && last->n_out == 0)
		status = show(r, last);
	volume_free(&vol);
	chain_free(&c);
	return status;
}
