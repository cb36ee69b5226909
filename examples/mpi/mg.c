/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mg - multigrid for Poisson's equation in a cube: V-cycles with red and black relaxation, full weighting and trilinear
 * interpolation (Briggs, Henson, McCormick: A Multigrid Tutorial, 2nd edition, chapters 3 and 4), on boxes that the
 * ranks share out in three directions. The right side is computed from a known solution; each cycle must reduce the
 * residual to a third at most, and the result is compared with the solution.
 *
 * usage: mg [N [CYCLES]]	(N - 1)^3 points, N a power of two; at most CYCLES cycles
 */
#include "grid.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEVELS 16

static struct level {
	struct grid g;
	double *u, *f, *r;
	double h2; /* square of the distance of two points */
} levels[LEVELS];
static int deepest;

/* Six times the point, less its six neighbours. */
static double stencil(const struct grid *g, const double *v, int i)
{
	double sum = 6 * v[i];

	for (int d = 0; d < 3; d++)
		sum -= v[i - g->step[d]] + v[i + g->step[d]];
	return sum;
}

/* A weighted sum of a point and the 26 around it: each step aside halves the weight. */
static double around(const struct grid *g, const double *v, int at)
{
	static const double weight[] = { 1, 0.5, 0.25, 0.125 };
	double sum = 0;

	for (int z = -1; z <= 1; z++)
		for (int y = -1; y <= 1; y++)
			for (int x = -1; x <= 1; x++)
				sum += weight[abs(x) + abs(y) + abs(z)] * v[at + z * g->step[2] + y * g->step[1] + x];
	return sum;
}

static void relax(struct level *l)
{
	const struct span *s = l->g.at;

	for (int colour = 0; colour < 2; colour++) {
		grid_meet_all(&l->g, l->u);
		grid_each(&l->g, x, y, z, i)
			if ((grid_place(&s[0], x) + grid_place(&s[1], y) + grid_place(&s[2], z)) % 2 == colour)
				l->u[i] += (l->f[i] * l->h2 - stencil(&l->g, l->u, i)) / 6;
	}
}

static void rest(struct level *l)
{
	grid_meet_all(&l->g, l->u);
	grid_each(&l->g, x, y, z, i)
		l->r[i] = l->f[i] - stencil(&l->g, l->u, i) / l->h2;
}

static void cycle(int n)
{
	struct level *l = &levels[n], *below = l + 1;

	if (l->g.size == 0)
		return; /* other ranks have all points of this level */
	relax(l);
	if (n == deepest)
		return; /* the level is a single point, which is solved */
	relax(l);
	rest(l);
	grid_meet_all(&l->g, l->r);
	if (below->g.size > 0) {
		memset(below->u, 0, sizeof(*below->u) * (size_t)below->g.size);
		grid_each(&below->g, x, y, z, i)
			below->f[i] = around(&l->g, l->r, grid_fine(&l->g, &below->g, (int[]){ x, y, z })) / 8;
		cycle(n + 1);
	}
	grid_spread(&l->g, l->r, &below->g, below->u);
	grid_meet_all(&l->g, l->r);
	grid_each(&l->g, x, y, z, i)
		l->u[i] += around(&l->g, l->r, i);
	relax(l);
	relax(l);
}

static void make(int n)
{
	struct axis axes[3];

	grid_share(axes, n, (int[]){ 1, 1, 1 });
	for (deepest = 0; n >> deepest > 2; deepest++)
		;
	for (int i = 0; i <= deepest; i++) {
		struct level *l = &levels[i];

		l->g = grid_level(axes, i, i, i);
		l->u = grid_array(&l->g);
		l->f = grid_array(&l->g);
		l->r = grid_array(&l->g);
		l->h2 = (double)(1 << i) * (1 << i);
	}
}

static double whole(void)
{
	struct level *l = &levels[0];

	cycle(0);
	rest(l);
	return grid_norm(&l->g, l->r);
}

int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 64, most = argc > 2 ? atoi(argv[2]) : 30;
	int rank, cycles;
	double worst;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (n < 4 || n > 1 << 10 || (n & (n - 1)) != 0) {
		fprintf(stderr, "mg: N is no power of two from 4 to 1024\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	make(n);
	struct level *l = &levels[0];
	double *known = grid_array(&l->g);
	grid_known(&l->g, known);
	grid_meet_all(&l->g, known);
	grid_each(&l->g, x, y, z, i)
		l->f[i] = stencil(&l->g, known, i) / l->h2;
	cycles = grid_cycles(grid_norm(&l->g, l->f), most, whole, &worst);
	grid_add(&l->g, l->u, -1, known);
	const double off = grid_most(&l->g, l->u);
	const int right = off < 1e-7 && worst < 1. / 3;
	if (rank == 0)
		printf("mg: %d cycles, each left %.3f of the rest at most, off by %.1e: %s\n", cycles, worst, off,
		       right ? "right" : "wrong");
	MPI_Finalize();
	return right ? 0 : 1;
}
