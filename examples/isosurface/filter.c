/* SPDX-License-Identifier: BSD-3-Clause */
#include "filter.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "say.h"

static double seconds_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of_cpu(void)
{
	struct rusage r;

	getrusage(RUSAGE_SELF, &r);
	return (double)(r.ru_utime.tv_sec + r.ru_stime.tv_sec) +
	       (double)(r.ru_utime.tv_usec + r.ru_stime.tv_usec) * 1e-6;
}

/* The first pixel of the second instance of merge, if there is one. */
static uint32_t second_half(const struct job *j) { return (j->view.height + 1) / 2 * j->view.width; }

void filter_make(struct filter *f, const struct job *job, enum filter_kind kind, unsigned instance, unsigned inputs)
{
	uint32_t all = job->view.width * job->view.height;

	*f = (struct filter){ .kind = kind, .instance = instance, .job = job, .inputs = inputs };
	if (kind == RASTERISE || kind == MERGE)
		canvas_make(&f->canvas, 0, all);
}

void filter_free(struct filter *f)
{
	for (unsigned i = 0; i < f->n_out; i++)
		if (f->out[i].next != NULL)
			free(f->out[i].buf);
	free(f->canvas.px);
}

static void outlet_flush(struct filter *f, struct outlet *o, enum unit_kind kind)
{
	struct unit_head head = { kind, o->fill - (uint32_t)sizeof(head) };
	uint8_t *unit = o->buf;
	uint32_t len = o->fill;

	memcpy(unit, &head, sizeof(head));
	o->fill = 0;
	if (o->next != NULL) {
		filter_take(o->next, unit, len);
		return;
	}
	f->tally.units++;
	f->tally.bytes += len;
	o->ops->send(o->hub, o->stream, len);
	o->buf = NULL;
}

/* Finds room for `bytes` bytes in the unit that is being filled, or begins the next unit. */
static void *outlet_room(struct filter *f, struct outlet *o, enum unit_kind kind, uint32_t bytes)
{
	void *room;

	if (o->fill != 0 && o->fill + bytes > f->job->unit)
		outlet_flush(f, o, kind);
	if (o->fill == 0) {
		if (o->next == NULL)
			o->buf = o->ops->buffer(o->hub, o->stream);
		else if (o->buf == NULL)
			o->buf = allocate(f->job->unit);
		o->fill = sizeof(struct unit_head);
	}
	room = o->buf + o->fill;
	o->fill += bytes;
	return room;
}

static void start(struct filter *f)
{
	if (f->started)
		return;
	f->started = true;
	f->began = seconds_now();
	f->cpu_began = seconds_of_cpu();
	for (unsigned i = 0; i < f->n_out; i++) {
		outlet_room(f, &f->out[i], UNIT_START, 0);
		outlet_flush(f, &f->out[i], UNIT_START);
	}
}

static enum unit_kind makes(const struct filter *f)
{
	return f->kind == READ ? UNIT_BRICK : f->kind == EXTRACT ? UNIT_TRIANGLES : UNIT_FRAGMENTS;
}

static void put_fragment(void *arg, const struct fragment *fragment)
{
	struct filter *f = arg;
	struct outlet *o = &f->out[0];

	if (f->kind == RASTERISE) {
		o = &f->out[f->n_out > 1 && fragment->at >= second_half(f->job)];
		f->tally.fragments++;
	}
	memcpy(outlet_room(f, o, UNIT_FRAGMENTS, sizeof(*fragment)), fragment, sizeof(*fragment));
}

/* The second merge hands its half to the first one. */
static void hand_half(struct filter *f)
{
	for (uint32_t i = 0; i < f->canvas.n; i++)
		if (f->canvas.px[i].depth < NOTHING)
			put_fragment(f, &f->canvas.px[i]);
}

static void finish(struct filter *f)
{
	if (f->kind == MERGE && f->n_out > 0)
		hand_half(f);
	for (unsigned i = 0; i < f->n_out; i++)
		if (f->out[i].fill != 0)
			outlet_flush(f, &f->out[i], makes(f));
	f->ended = seconds_now();
	if (f->leads)
		f->tally.cpu += seconds_of_cpu() - f->cpu_began;
	for (unsigned i = 0; i < f->n_out; i++) {
		struct tally none = { 0 };

		memcpy(outlet_room(f, &f->out[i], UNIT_END, sizeof(none)), i == 0 ? &f->tally : &none, sizeof(none));
		outlet_flush(f, &f->out[i], UNIT_END);
	}
}

static void end(struct filter *f, const uint8_t *data, uint32_t len)
{
	struct tally t;

	if (len != sizeof(t) || f->inputs == 0)
		die("a malformed END came: all processes need the same version");
	memcpy(&t, data, sizeof(t));
	f->tally.cells += t.cells;
	f->tally.triangles += t.triangles;
	f->tally.fragments += t.fragments;
	f->tally.units += t.units;
	f->tally.bytes += t.bytes;
	f->tally.cpu += t.cpu;
	if (--f->inputs == 0)
		finish(f);
}

static void put_triangles(struct filter *f, const struct triangle *t, unsigned n)
{
	f->tally.triangles += n;
	for (unsigned i = 0; i < n; i++) {
		struct outlet *o = &f->out[f->turn];

		if (o->fill + sizeof(*t) > f->job->unit) { /* full: the next triangle goes to the next instance */
			outlet_flush(f, o, UNIT_TRIANGLES);
			f->turn = (f->turn + 1) % f->n_out;
			o = &f->out[f->turn];
		}
		memcpy(outlet_room(f, o, UNIT_TRIANGLES, sizeof(*t)), &t[i], sizeof(*t));
	}
}

static void extract(struct filter *f, const uint8_t *data, uint32_t len)
{
	struct triangle found[CELL_TRIANGLES];
	struct brick b;
	const float *v;

	if (len < sizeof(b))
		die("a malformed brick came: all processes need the same version");
	memcpy(&b, data, sizeof(b));
	for (unsigned i = 0; i < 3; i++)
		if (b.n[i] < 2 || b.n[i] > DIM_MOST || b.at[i] > DIM_MOST)
			die("a brick of an impossible size came: all processes need the same version");
	if (len - sizeof(b) != sizeof(*v) * b.n[0] * b.n[1] * b.n[2])
		die("a brick came that has not as many samples as it says");
	v = (const float *)(const void *)(data + sizeof(b));
	for (uint32_t z = 0; z + 1 < b.n[2]; z++) {
		for (uint32_t y = 0; y + 1 < b.n[1]; y++) {
			const float *low = v + (size_t)(z * b.n[1] + y) * b.n[0], *high = low + (size_t)b.n[0] * b.n[1];
			const float *row[4] = { low, low + b.n[0], high, high + b.n[0] };

			for (uint32_t x = 0; x + 1 < b.n[0]; x++) {
				float corner[8] = { row[0][x], row[0][x + 1], row[1][x], row[1][x + 1],
						    row[2][x], row[2][x + 1], row[3][x], row[3][x + 1] };
				uint32_t at[3] = { b.at[0] + x, b.at[1] + y, b.at[2] + z };

				put_triangles(f, found, tetra_cell(corner, at, f->job->level, found));
			}
		}
	}
	f->tally.cells += (uint64_t)(b.n[0] - 1) * (b.n[1] - 1) * (b.n[2] - 1);
}

static void rasterise(struct filter *f, const uint8_t *data, uint32_t len)
{
	struct triangle t;

	for (uint32_t i = 0; i + sizeof(t) <= len; i += sizeof(t)) {
		memcpy(&t, data + i, sizeof(t));
		raster_triangle(&f->job->view, &t, &f->canvas, put_fragment, f);
	}
}

static void merge(struct filter *f, const uint8_t *data, uint32_t len)
{
	struct fragment g;

	for (uint32_t i = 0; i + sizeof(g) <= len; i += sizeof(g)) {
		memcpy(&g, data + i, sizeof(g));
		if (g.at >= f->canvas.n)
			die("a pixel came that the picture does not have: give all processes the same --size");
		canvas_put(&f->canvas, &g);
	}
}

void filter_take(struct filter *f, const uint8_t *unit, uint32_t len)
{
	struct unit_head head = { 0 };
	const uint8_t *data = unit + sizeof(head);

	if (len >= sizeof(head))
		memcpy(&head, unit, sizeof(head));
	if (head.len != len - sizeof(head))
		die("a unit came whose length differs from its head: all processes need the same version");
	if (head.kind == UNIT_START)
		start(f);
	else if (head.kind == UNIT_END)
		end(f, data, head.len);
	else if (head.kind == UNIT_BRICK && f->kind == EXTRACT)
		extract(f, data, head.len);
	else if (head.kind == UNIT_TRIANGLES && f->kind == RASTERISE)
		rasterise(f, data, head.len);
	else if (head.kind == UNIT_FRAGMENTS && f->kind == MERGE)
		merge(f, data, head.len);
	else
		die("a unit of kind %u came to %s: all processes need the same --processes", head.kind,
		    filter_names[f->kind]);
}

/* Samples along an edge of a brick that fills a unit. */
static uint32_t edge(const struct job *j)
{
	uint32_t room = (j->unit - (uint32_t)(sizeof(struct unit_head) + sizeof(struct brick))) / sizeof(float), n = 2;

	while (n < DIM_MOST && (uint64_t)(n + 1) * (n + 1) * (n + 1) <= room)
		n++;
	return n;
}

/* First layer of bricks of an instance of read. */
static uint32_t first_layer(const struct job *j, unsigned instance)
{
	uint32_t layers = (j->src.dims[2] - 1 + edge(j) - 2) / (edge(j) - 1);

	return layers * instance / j->plan.count[READ];
}

void filter_load(const struct filter *f, struct volume *vol)
{
	uint32_t step = edge(f->job) - 1, last = f->job->src.dims[2] - 1;
	uint32_t a = first_layer(f->job, f->instance) * step, b = first_layer(f->job, f->instance + 1) * step;

	b = b < last ? b : last; /* the layer of samples that two neighbouring bricks share is read twice */
	if (a < b)
		volume_load(vol, &f->job->src, a, b - a + 1);
	else
		*vol = (struct volume){ .z0 = a };
}

void filter_read(struct filter *f, const struct volume *vol)
{
	uint32_t step = edge(f->job) - 1;
	struct brick b;

	start(f);
	for (uint32_t z = vol->z0; vol->nz > 0 && z < vol->z0 + vol->nz - 1; z += step) {
		for (uint32_t y = 0; y < vol->dims[1] - 1; y += step) {
			for (uint32_t x = 0; x < vol->dims[0] - 1; x += step) {
				struct outlet *o = &f->out[f->turn];
				uint32_t left[3] = { vol->dims[0] - x, vol->dims[1] - y, vol->z0 + vol->nz - z }, n = 1;
				uint8_t *room;

				for (unsigned i = 0; i < 3; i++)
					n *= b.n[i] = left[i] < step + 1 ? left[i] : step + 1;
				memcpy(b.at, (uint32_t[3]){ x, y, z }, sizeof(b.at));
				room = outlet_room(f, o, UNIT_BRICK, (uint32_t)(sizeof(b) + n * sizeof(float)));
				memcpy(room, &b, sizeof(b));
				volume_brick(vol, &b, (float *)(void *)(room + sizeof(b)));
				outlet_flush(f, o, UNIT_BRICK);
				f->turn = (f->turn + 1) % f->n_out;
			}
		}
	}
	finish(f);
}
