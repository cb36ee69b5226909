/* SPDX-License-Identifier: BSD-3-Clause */
#include "grid.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void grid_share(struct axis axes[3], int n, const int split[3])
{
	int rank, rest, step = 1;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &rest);
	for (int d = 0; d < 3; d++)
		axes[d] = (struct axis){ .n = n, .ranks = 1 };
	for (int p = 2; rest > 1; p++) {
		for (; rest % p == 0; rest /= p) {
			int least = -1; /* the direction with the fewest ranks, the last one of several */

			for (int d = 0; d < 3; d++)
				if (split[d] && (least < 0 || axes[d].ranks <= axes[least].ranks))
					least = d;
			axes[least].ranks *= p;
		}
	}
	for (int d = 0; d < 3; d++) {
		if (axes[d].ranks >= n) {
			fprintf(stderr, "%d points in a direction are too few for %d ranks\n", n - 1, axes[d].ranks);
			MPI_Abort(MPI_COMM_WORLD, 2);
		}
		axes[d].step = step;
		axes[d].me = rank / step % axes[d].ranks;
		step *= axes[d].ranks;
	}
}

static int first_of(const struct axis *a, int rank) { return 1 + (a->n - 1) * rank / a->ranks; }
static int owner(const struct axis *a, int place) { return (place * a->ranks - 1) / (a->n - 1); }

static struct span span(const struct axis *a, int level)
{
	int rank;
	struct span s = { .stride = 1 << level, .before = -1, .after = -1 };

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	s.first = (first_of(a, a->me) + s.stride - 1) / s.stride * s.stride;
	s.count = (first_of(a, a->me + 1) - 1) / s.stride - s.first / s.stride + 1;
	const int before = s.first - s.stride, after = s.first + s.count * s.stride;
	if (before > 0)
		s.before = rank + (owner(a, before) - a->me) * a->step;
	if (after < a->n)
		s.after = rank + (owner(a, after) - a->me) * a->step;
	return s;
}

struct grid grid_level(const struct axis axes[3], int x_level, int y_level, int z_level)
{
	struct grid g = { .at = { span(&axes[0], x_level), span(&axes[1], y_level), span(&axes[2], z_level) } };
	int size = 1;

	for (int d = 0; d < 3; d++) {
		g.step[d] = size;
		size *= g.at[d].count > 0 ? g.at[d].count + 2 : 0;
	}
	g.size = size;
	return g;
}

static double *zeros(int n)
{
	double *v = calloc((size_t)n + 1, sizeof(*v));

	if (v == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return v;
}

double *grid_array(const struct grid *g) { return zeros(g->size); }

/* Copies the plane of values across a direction, out of an array or into it. */
static void plane(const struct grid *g, double *v, int direction, double *flat, int into)
{
	const int a = direction == 0 ? 1 : 0, b = direction == 2 ? 1 : 2;

	for (int j = 0; j < g->at[b].count + 2; j++)
		for (int i = 0; i < g->at[a].count + 2; i++, flat++) {
			double *at = v + j * g->step[b] + i * g->step[a];

			*(into ? at : flat) = *(into ? flat : at);
		}
}

void grid_meet(const struct grid *g, double *v, int direction)
{
	static double *room;
	static int have;
	const struct span *s = &g->at[direction];
	const int step = g->step[direction];
	const int side[2] = { s->before, s->after }, own[2] = { step, s->count * step };
	const int theirs[2] = { 0, (s->count + 1) * step };
	MPI_Request q[4];
	int n = 0;

	if (g->size == 0 || (s->before < 0 && s->after < 0))
		return;
	const int len = g->size / (s->count + 2);
	if (have < 4 * len) {
		free(room);
		room = zeros(have = 4 * len);
	}
	for (int i = 0; i < 2; i++) {
		if (side[i] < 0)
			continue;
		MPI_Irecv(room + i * len, len, MPI_DOUBLE, side[i], 10 + 2 * direction + i, MPI_COMM_WORLD, &q[n++]);
		plane(g, v + own[i], direction, room + (2 + i) * len, 0);
		MPI_Isend(room + (2 + i) * len, len, MPI_DOUBLE, side[i], 10 + 2 * direction + 1 - i, MPI_COMM_WORLD,
			  &q[n++]);
	}
	MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
	for (int i = 0; i < 2; i++)
		if (side[i] >= 0)
			plane(g, v + theirs[i], direction, room + i * len, 1);
}

void grid_meet_all(const struct grid *g, double *v)
{
	for (int d = 0; d < 3; d++)
		grid_meet(g, v, d);
}

double grid_norm(const struct grid *g, const double *v)
{
	double sum = 0, all;

	grid_each(g, x, y, z, i)
		sum += v[i] * v[i];
	MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return sqrt(all);
}

double grid_most(const struct grid *g, const double *v)
{
	double most = 0, all;

	grid_each(g, x, y, z, i)
		most = fmax(most, fabs(v[i]));
	MPI_Allreduce(&most, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return all;
}

void grid_add(const struct grid *g, double *to, double f, const double *from)
{
	grid_each(g, x, y, z, i)
		to[i] += f * from[i];
}

int grid_cycles(double first, int most, double (*cycle)(void), double *worst)
{
	int n = 0;

	*worst = 0;
	for (double before = first, now; n < most && before > 1e-10 * first; n++, before = now) {
		now = cycle();
		*worst = fmax(*worst, now / before);
	}
	return n;
}

void grid_known(const struct grid *g, double *v)
{
	grid_each(g, x, y, z, i) {
		const int px = grid_place(&g->at[0], x), py = grid_place(&g->at[1], y), pz = grid_place(&g->at[2], z);

		v[i] = sin(0.1 * px + 0.2 * pz) + cos(0.3 * py * pz + px);
	}
}

int grid_fine(const struct grid *fine, const struct grid *coarse, const int at[3])
{
	int to[3];

	for (int d = 0; d < 3; d++)
		to[d] = (coarse->at[d].first + at[d] * coarse->at[d].stride - fine->at[d].first) / fine->at[d].stride;
	return grid_at(fine, to[0], to[1], to[2]);
}

void grid_spread(const struct grid *fine, double *v, const struct grid *coarse, const double *values)
{
	memset(v, 0, sizeof(*v) * (size_t)fine->size);
	if (coarse->size == 0)
		return;
	grid_each(coarse, x, y, z, i)
		v[grid_fine(fine, coarse, (int[]){ x, y, z })] = values[i];
}
