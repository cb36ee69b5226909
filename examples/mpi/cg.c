/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cg - conjugate gradients on the Laplacian of a square grid, whose rows the ranks share out in strips. The right side
 * is computed from a known solution; the result is compared with that solution.
 *
 * usage: cg [SIDE [STEPS]]	a grid of SIDE x SIDE points; at most STEPS steps
 */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks, side, first, rows; /* this rank has rows first to first + rows - 1 */

/* A vector has a row of the neighbour before and after the rank's own. */
static double *vector(void)
{
	double *v = calloc((size_t)(rows + 2) * (size_t)side, sizeof(*v));

	if (v == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return v;
}

static double *row(double *v, int r) { return v + (size_t)(r + 1) * (size_t)side; }

/* Fetches the neighbours' rows. */
static void meet(double *v)
{
	MPI_Request q[4];
	int n = 0;

	if (rank > 0) {
		MPI_Irecv(row(v, -1), side, MPI_DOUBLE, rank - 1, 1, MPI_COMM_WORLD, &q[n++]);
		MPI_Isend(row(v, 0), side, MPI_DOUBLE, rank - 1, 2, MPI_COMM_WORLD, &q[n++]);
	}
	if (rank + 1 < ranks) {
		MPI_Irecv(row(v, rows), side, MPI_DOUBLE, rank + 1, 2, MPI_COMM_WORLD, &q[n++]);
		MPI_Isend(row(v, rows - 1), side, MPI_DOUBLE, rank + 1, 1, MPI_COMM_WORLD, &q[n++]);
	}
	MPI_Waitall(n, q, MPI_STATUSES_IGNORE);
}

/* to = A v: four times the point, less its four neighbours; 0 outside the grid. */
static void multiply(double *to, double *v)
{
	meet(v);
	for (int r = 0; r < rows; r++) {
		const double *up = row(v, r - 1), *at = row(v, r), *down = row(v, r + 1);
		double *out = row(to, r);

		for (int i = 0; i < side; i++)
			out[i] = 4 * at[i] - up[i] - down[i] - (i > 0 ? at[i - 1] : 0) - (i + 1 < side ? at[i + 1] : 0);
	}
}

static double dot(double *a, double *b)
{
	double sum = 0, all;

	for (int i = 0; i < rows * side; i++)
		sum += row(a, 0)[i] * row(b, 0)[i];
	MPI_Allreduce(&sum, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* x += f y */
static void add(double *x, double f, double *y)
{
	for (int i = 0; i < rows * side; i++)
		row(x, 0)[i] += f * row(y, 0)[i];
}

/* Solves A x = b from x = 0; b becomes the residual. Returns the number of steps. */
static int solve(double *x, double *b, int steps)
{
	double *p = vector(), *q = vector(), old = dot(b, b);
	const double enough = old * 1e-20;
	int n;

	memcpy(row(p, 0), row(b, 0), sizeof(double) * (size_t)(rows * side));
	for (n = 0; n < steps && old > enough; n++) {
		multiply(q, p);
		const double f = old / dot(p, q);
		add(x, f, p);
		add(b, -f, q);
		const double now = dot(b, b);
		for (int i = 0; i < rows * side; i++)
			row(p, 0)[i] = row(b, 0)[i] + now / old * row(p, 0)[i];
		old = now;
	}
	free(p);
	free(q);
	return n;
}

int main(int argc, char **argv)
{
	side = argc > 1 ? atoi(argv[1]) : 128;
	const int steps = argc > 2 ? atoi(argv[2]) : 10 * side;
	double worst = 0, all;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (side < ranks) {
		fprintf(stderr, "cg: SIDE is below the number of ranks\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	first = side * rank / ranks;
	rows = side * (rank + 1) / ranks - first;
	double *x = vector(), *b = vector(), *known = vector();
	for (int r = 0; r < rows; r++)
		for (int i = 0; i < side; i++)
			row(known, r)[i] = sin(0.1 * (first + r + 1)) + cos(0.3 * i * (first + r));
	multiply(b, known);
	const int n = solve(x, b, steps);
	add(x, -1, known);
	for (int i = 0; i < rows * side; i++)
		worst = fmax(worst, fabs(row(x, 0)[i]));
	MPI_Allreduce(&worst, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (rank == 0)
		printf("cg: %d steps, off by %.1e: %s\n", n, all, all < 1e-6 ? "right" : "wrong");
	free(x);
	free(b);
	free(known);
	MPI_Finalize();
	return all < 1e-6 ? 0 : 1;
}
