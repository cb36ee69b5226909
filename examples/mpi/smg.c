/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * smg - semicoarsening multigrid for diffusion that has another strength in each direction (Schaffer, A Semicoarsening
 * Multigrid Method for Elliptic Partial Differential Equations, 1998; Brown, Falgout, Jones, Semicoarsening Multigrid
 * on Distributed Memory Machines, 2000; here with constant coefficients). Only z is coarsened; relaxation solves for
 * every other plane, then for those between, each by one cycle of the same method a dimension lower: only y is
 * coarsened, and relaxation solves for every other line of x exactly. The ranks share out y and z. The right side is
 * computed from a known solution; each cycle must reduce the residual to a third at most, and the result is compared
 * with the solution.
 *
 * usage: smg [N [CYCLES]]	(N - 1)^3 points, N a power of two; at most CYCLES cycles
 */
#include "grid.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 10

enum { X, Y, Z };

static const double strength[] = { 1, 0.05, 4 };

static struct level {
	struct grid g;
	double c[3];          /* weights of the neighbours of each direction */
	double point;         /* weight of the point */
	double *e, *f, *r;    /* of the planes' cycles: correction, right side, rest */
	double *inverse;      /* of Thomas's elimination along x */
	double *u3, *f3, *r3; /* of the whole box's cycles; where y is not coarsened */
} levels[LEVELS][LEVELS];     /* of z and of y */
static int deepest;

/* The operator without the neighbours of directions from dirs on. */
static double stencil(const struct level *l, const double *v, int i, int dirs)
{
	double sum = l->point * v[i];

	for (int d = 0; d < dirs; d++)
		sum -= l->c[d] * (v[i - l->g.step[d]] + v[i + l->g.step[d]]);
	return sum;
}

/* A point and half of its two neighbours in a direction. */
static double between(const double *v, int i, int step) { return v[i] + (v[i - step] + v[i + step]) / 2; }

/* Is plane z of the level one of a colour? The planes that coarser levels have are of colour 0. */
static int of_colour(const struct level *l, int direction, int at, int colour)
{
	return grid_place(&l->g.at[direction], at) % 2 == colour;
}

/* Solves for a line of x; e has the right side, with the neighbours' contribution in y already included. */
static void line(const struct level *l, double *e)
{
	const int n = l->g.at[X].count;

	for (int x = 0; x < n; x++)
		e[x] = (e[x] + (x > 0 ? l->c[X] * e[x - 1] : 0)) * l->inverse[x];
	for (int x = n - 2; x >= 0; x--)
		e[x] += l->c[X] * l->inverse[x] * e[x + 1];
}

static void relax_lines(struct level *l, int colour)
{
	for (int lines = 1; lines >= 0; lines--) {
		grid_meet(&l->g, l->e, Y);
		for (int z = 0; z < l->g.at[Z].count; z++)
			for (int y = 0; y < l->g.at[Y].count; y++) {
				const int i = grid_at(&l->g, 0, y, z), n = l->g.step[Y];

				if (!of_colour(l, Z, z, colour) || !of_colour(l, Y, y, lines))
					continue;
				for (int x = i; x < i + l->g.at[X].count; x++)
					l->e[x] = l->f[x] + l->c[Y] * (l->e[x - n] + l->e[x + n]);
				line(l, l->e + i);
			}
	}
}

/* One cycle for the planes of a colour, from e = 0. */
static void plane_cycle(int nz, int ny, int colour)
{
	struct level *l = &levels[nz][ny], *below = l + 1;

	if (l->g.size == 0)
		return; /* other ranks have all lines of this level */
	memset(l->e, 0, sizeof(*l->e) * (size_t)l->g.size);
	relax_lines(l, colour);
	if (ny == deepest)
		return; /* the level is a single line, which is solved */
	grid_meet(&l->g, l->e, Y);
	grid_each(&l->g, x, y, z, i)
		l->r[i] = of_colour(l, Z, z, colour) ? l->f[i] - stencil(l, l->e, i, Z) : 0;
	grid_meet(&l->g, l->r, Y);
	if (below->g.size > 0) {
		grid_each(&below->g, x, y, z, i)
			below->f[i] = between(l->r, grid_fine(&l->g, &below->g, (int[]){ x, y, z }), l->g.step[Y]) / 2;
		plane_cycle(nz, ny + 1, colour);
	}
	grid_spread(&l->g, l->r, &below->g, below->e);
	grid_meet(&l->g, l->r, Y);
	grid_each(&l->g, x, y, z, i)
		if (of_colour(l, Z, z, colour))
			l->e[i] += between(l->r, i, l->g.step[Y]);
	relax_lines(l, colour);
}

static void rest(struct level *l, double *r)
{
	grid_meet_all(&l->g, l->u3);
	grid_each(&l->g, x, y, z, i)
		r[i] = l->f3[i] - stencil(l, l->u3, i, 3);
}

static void relax_planes(int nz)
{
	struct level *l = &levels[nz][0];

	for (int colour = 1; colour >= 0; colour--) {
		rest(l, l->f);
		plane_cycle(nz, 0, colour);
		grid_each(&l->g, x, y, z, i)
			if (of_colour(l, Z, z, colour))
				l->u3[i] += l->e[i];
	}
}

static void cycle(int nz)
{
	struct level *l = &levels[nz][0], *below = &levels[nz + 1][0];

	if (l->g.size == 0)
		return; /* other ranks have all planes of this level */
	relax_planes(nz);
	if (nz == deepest) {
		relax_planes(nz);
		return; /* a single plane: solved well enough */
	}
	rest(l, l->r3);
	grid_meet(&l->g, l->r3, Z);
	if (below->g.size > 0) {
		memset(below->u3, 0, sizeof(*below->u3) * (size_t)below->g.size);
		grid_each(&below->g, x, y, z, i)
			below->f3[i] = between(l->r3, grid_fine(&l->g, &below->g, (int[]){ x, y, z }), l->g.step[Z]) /
				       2;
		cycle(nz + 1);
	}
	grid_spread(&l->g, l->r3, &below->g, below->u3);
	grid_meet(&l->g, l->r3, Z);
	grid_each(&l->g, x, y, z, i)
		l->u3[i] += between(l->r3, i, l->g.step[Z]);
	relax_planes(nz);
}

static void make_level(struct level *l, const struct axis axes[3], int ny, int nz)
{
	const int n = axes[X].n - 1;
	struct grid along = { .size = n };

	l->g = grid_level(axes, 0, ny, nz);
	for (int d = X; d <= Z; d++) {
		l->c[d] = strength[d] / (double)(1 << (d == X ? 0 : d == Y ? 2 * ny : 2 * nz));
		l->point += 2 * l->c[d];
	}
	l->e = grid_array(&l->g);
	l->f = grid_array(&l->g);
	l->r = grid_array(&l->g);
	l->inverse = grid_array(&along);
	for (int x = 0; x < n; x++)
		l->inverse[x] = 1 / (l->point - (x > 0 ? l->c[X] * l->c[X] * l->inverse[x - 1] : 0));
	if (ny > 0)
		return;
	l->u3 = grid_array(&l->g);
	l->f3 = grid_array(&l->g);
	l->r3 = grid_array(&l->g);
}

static void make(int n)
{
	struct axis axes[3];

	grid_share(axes, n, (int[]){ 0, 1, 1 });
	for (deepest = 0; n >> deepest > 2; deepest++)
		;
	for (int nz = 0; nz <= deepest; nz++)
		for (int ny = 0; ny <= deepest; ny++)
			make_level(&levels[nz][ny], axes, ny, nz);
}

static double whole(void)
{
	struct level *l = &levels[0][0];

	cycle(0);
	rest(l, l->r3);
	return grid_norm(&l->g, l->r3);
}

int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 32, most = argc > 2 ? atoi(argv[2]) : 30;
	int rank, cycles;
	double worst;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (n < 4 || n > 1 << LEVELS || (n & (n - 1)) != 0) {
		fprintf(stderr, "smg: N is no power of two from 4 to %d\n", 1 << LEVELS);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	make(n);
	struct level *l = &levels[0][0];
	double *known = grid_array(&l->g);
	grid_known(&l->g, known);
	grid_meet_all(&l->g, known);
	grid_each(&l->g, x, y, z, i)
		l->f3[i] = stencil(l, known, i, 3);
	cycles = grid_cycles(grid_norm(&l->g, l->f3), most, whole, &worst);
	grid_add(&l->g, l->u3, -1, known);
	const double off = grid_most(&l->g, l->u3);
	const int right = off < 1e-7 && worst < 1. / 3;
	if (rank == 0)
		printf("smg: %d cycles, each left %.3f of the rest at most, off by %.1e: %s\n", cycles, worst, off,
		       right ? "right" : "wrong");
	MPI_Finalize();
	return right ? 0 : 1;
}
