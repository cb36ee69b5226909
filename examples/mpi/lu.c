/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lu - symmetric successive over-relaxation (Saad, Iterative Methods for Sparse Linear Systems, 2nd edition, 4.1) for
 * an implicit step of convection and diffusion in a cube. In the forward sweep a point's new value needs the new values
 * of its three neighbours with lower numbers, in the backward sweep those of the neighbours with higher numbers. So the
 * ranks, which share out x and y, work as a wave front that moves plane by plane through z: a small message to the next
 * rank of each direction for each plane. The sweeps have no other messages: the values that the forward sweep has
 * brought are those that the backward sweep needs of the other side. The right side is computed from a known solution;
 * the residual must fall, and the result is compared with the solution.
 *
 * usage: lu [N [STEPS]]	(N - 1)^3 points, N a power of two; STEPS steps
 */
#include "grid.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#define OMEGA 1.2
#define LOOK  10 /* steps between two computations of the residual */

static const double lower = 1.4, upper = 1; /* weight of a neighbour: convection goes upwards */
static struct grid g;
static double *u, *f, *r, *column;

static double point(void) { return 1 + 3 * (lower + upper); }

static double around(const double *v, int i)
{
	double sum = 0;

	for (int d = 0; d < 3; d++)
		sum += lower * v[i - g.step[d]] + upper * v[i + g.step[d]];
	return sum;
}

/* A column of x in one plane, at place x of each line, goes to a rank or comes from one. */
static void send_column(int x, int z, int to)
{
	for (int y = 0; y < g.at[1].count; y++)
		column[y] = u[grid_at(&g, x, y, z)];
	MPI_Send(column, g.at[1].count, MPI_DOUBLE, to, 1, MPI_COMM_WORLD);
}

static void take_column(int x, int z, int from)
{
	MPI_Recv(column, g.at[1].count, MPI_DOUBLE, from, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	for (int y = 0; y < g.at[1].count; y++)
		u[grid_at(&g, x, y, z)] = column[y];
}

static void relax(int i) { u[i] += OMEGA * ((f[i] + around(u, i)) / point() - u[i]); }

static void there(void)
{
	const struct span *x = &g.at[0], *y = &g.at[1];

	for (int z = 0; z < g.at[2].count; z++) {
		if (x->before >= 0)
			take_column(-1, z, x->before);
		if (y->before >= 0)
			MPI_Recv(u + grid_at(&g, 0, -1, z), x->count, MPI_DOUBLE, y->before, 2, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		for (int j = 0; j < y->count; j++)
			for (int i = 0; i < x->count; i++)
				relax(grid_at(&g, i, j, z));
		if (x->after >= 0)
			send_column(x->count - 1, z, x->after);
		if (y->after >= 0)
			MPI_Send(u + grid_at(&g, 0, y->count - 1, z), x->count, MPI_DOUBLE, y->after, 2,
				 MPI_COMM_WORLD);
	}
}

static void back(void)
{
	const struct span *x = &g.at[0], *y = &g.at[1];

	for (int z = g.at[2].count - 1; z >= 0; z--) {
		if (x->after >= 0)
			take_column(x->count, z, x->after);
		if (y->after >= 0)
			MPI_Recv(u + grid_at(&g, 0, y->count, z), x->count, MPI_DOUBLE, y->after, 3, MPI_COMM_WORLD,
				 MPI_STATUS_IGNORE);
		for (int j = y->count - 1; j >= 0; j--)
			for (int i = x->count - 1; i >= 0; i--)
				relax(grid_at(&g, i, j, z));
		if (x->before >= 0)
			send_column(0, z, x->before);
		if (y->before >= 0)
			MPI_Send(u + grid_at(&g, 0, 0, z), x->count, MPI_DOUBLE, y->before, 3, MPI_COMM_WORLD);
	}
}

/* The neighbours' values are fetched into a copy: those of u are the sweeps'. */
static double rest(void)
{
	double *v = grid_array(&g);

	grid_add(&g, v, 1, u);
	grid_meet_all(&g, v);
	grid_each(&g, x, y, z, i)
		r[i] = f[i] + around(v, i) - point() * v[i];
	free(v);
	return grid_norm(&g, r);
}

int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 32, steps = argc > 2 ? atoi(argv[2]) : 60;
	struct axis axes[3];
	int rank, falls = 1;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (n < 4 || n > 1 << 10 || (n & (n - 1)) != 0) {
		fprintf(stderr, "lu: N is no power of two from 4 to 1024\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	grid_share(axes, n, (int[]){ 1, 1, 0 });
	g = grid_level(axes, 0, 0, 0);
	u = grid_array(&g);
	f = grid_array(&g);
	r = grid_array(&g);
	column = grid_array(&g);
	double *known = grid_array(&g);
	grid_known(&g, known);
	grid_meet_all(&g, known);
	grid_each(&g, x, y, z, i)
		f[i] = point() * known[i] - around(known, i);
	const double first = grid_norm(&g, f);
	double left = first;
	for (int s = 0; s < steps; s++) {
		there();
		back();
		if (s % LOOK != LOOK - 1 && s != steps - 1)
			continue;
		const double now = rest();
		falls &= now < left || now < 1e-13 * first;
		left = now;
	}
	grid_add(&g, u, -1, known);
	const double off = grid_most(&g, u);
	const int right = falls && off < 1e-7;
	if (rank == 0)
		printf("lu: %d steps left %.1e of the rest, off by %.1e: %s\n", steps, left / first, off,
		       right ? "right" : "wrong");
	MPI_Finalize();
	return right ? 0 : 1;
}
