/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compiled with mpicc by test_stock_apps.py: a ring, an all-to-all and a stencil, each with every byte checked. The
 * first rank prints "ok NAME" or "not ok NAME"; the exit status is the number that failed.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static uint32_t value(int from, int to, int i) { return (uint32_t)(from * 1000003 + to * 7919 + i * 31 + 1); }

/*
 * A message goes round the ranks, and each rank adds 1 to every element. MPI sends short messages eagerly and long ones
 * by rendezvous.
 */
static int ring(void)
{
	static const int lens[] = { 1, 1000, 300000 };
	int wrong = 0;

	for (unsigned k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		int n = lens[k], next = (rank + 1) % size, prev = (rank + size - 1) % size;
		uint32_t *buf = malloc((size_t)n * sizeof(*buf));
		for (int i = 0; rank == 0 && i < n; i++)
			buf[i] = value(0, n, i);
		if (rank == 0)
			MPI_Send(buf, n, MPI_UINT32_T, next, 1, MPI_COMM_WORLD);
		MPI_Recv(buf, n, MPI_UINT32_T, prev, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		for (int i = 0; i < n; i++)
			wrong += buf[i] != value(0, n, i) + (uint32_t)(rank == 0 ? size - 1 : rank - 1);
		for (int i = 0; i < n; i++)
			buf[i]++;
		if (rank != 0)
			MPI_Send(buf, n, MPI_UINT32_T, next, 1, MPI_COMM_WORLD);
		free(buf);
	}
	return wrong;
}

static int all_to_all(void)
{
	static const int lens[] = { 3, 50000 };
	int wrong = 0;

	for (unsigned k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
		int n = lens[k];
		uint32_t *out = malloc((size_t)n * (size_t)size * sizeof(*out)),
			 *in = calloc((size_t)n * (size_t)size, sizeof(*in));
		for (int to = 0; to < size; to++)
			for (int i = 0; i < n; i++)
				out[to * n + i] = value(rank, to, i);
		MPI_Alltoall(out, n, MPI_UINT32_T, in, n, MPI_UINT32_T, MPI_COMM_WORLD);
		for (int from = 0; from < size; from++)
			for (int i = 0; i < n; i++)
				wrong += in[from * n + i] != value(from, rank, i);
		free(out);
		free(in);
	}
	return wrong;
}

#define CELLS 4096 /* cells of a rank */
#define STEPS 200

static double cell_start(long i) { return (double)((i * 2654435761u) % 1000) / 8; }

static void step(const double *from, double *to, long n)
{
	for (long i = 1; i <= n; i++)
		to[i] = (from[i - 1] + 2 * from[i] + from[i + 1]) / 4;
}

/*
 * Heat in a rod whose ends are held at 0. All ranks compute it together, and each rank computes it alone; both results
 * must agree to the last bit.
 */
static int stencil(void)
{
	long all = (long)CELLS * size, first = (long)CELLS * rank;
	double *mine[2], *whole[2];
	int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL, wrong = 0;

	for (int b = 0; b < 2; b++) {
		mine[b] = calloc(CELLS + 2, sizeof(double));
		whole[b] = calloc((size_t)all + 2, sizeof(double));
	}
	for (long i = 0; i < all; i++)
		whole[0][i + 1] = cell_start(i);
	memcpy(mine[0] + 1, whole[0] + 1 + first, CELLS * sizeof(double));
	for (int s = 0; s < STEPS; s++) {
		double *a = mine[s % 2], *b = mine[1 - s % 2];
		MPI_Sendrecv(a + 1, 1, MPI_DOUBLE, left, 2, a + CELLS + 1, 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		MPI_Sendrecv(a + CELLS, 1, MPI_DOUBLE, right, 3, a, 1, MPI_DOUBLE, left, 3, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
		step(a, b, CELLS);
		step(whole[s % 2], whole[1 - s % 2], all);
	}
	wrong = memcmp(mine[STEPS % 2] + 1, whole[STEPS % 2] + 1 + first, CELLS * sizeof(double)) != 0;
	for (int b = 0; b < 2; b++) {
		free(mine[b]);
		free(whole[b]);
	}
	return wrong;
}

static int run(const char *name, int (*f)(void))
{
	int wrong = f(), sum = 0;

	MPI_Allreduce(&wrong, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s %s of %d ranks\n", sum == 0 ? "ok" : "not ok", name, size);
	return sum != 0;
}

int main(int argc, char **argv)
{
	int failed;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	failed = run("ring", ring) + run("all_to_all", all_to_all) + run("stencil", stencil);
	MPI_Finalize();
	return failed;
}
