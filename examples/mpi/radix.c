/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * radix - sorts 32-bit keys by their digits, the lowest first (Knuth, The Art of Computer Programming, volume 3, 5.2.5;
 * Zagha and Blelloch, Radix Sort for Vector Multiprocessors, 1991). For each digit the ranks exchange how often each
 * value occurs. So each rank knows the place of each of its keys among all keys, and sends the key to the rank that has
 * this place: every rank sends to every other. At the end each key must be at least as large as the key before it,
 * across ranks too, and the keys' number, their sum, and the sum of a function of them must be unchanged.
 *
 * usage: radix [KEYS]	of each rank
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BITS   8
#define VALUES (1 << BITS)

static int rank, ranks, n;
static int *counts; /* the number of keys of each rank and value */

static void *memory(size_t number, size_t size)
{
	void *p = calloc(number + 1, size);

	if (p == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	return p;
}

/* Any function that mixes well serves: two multiplications by odd numbers. */
static uint32_t mixed(uint32_t v)
{
	v = (v ^ v >> 15) * 0x2c1b3c6du;
	v = (v ^ v >> 12) * 0x297a2d39u;
	return v ^ v >> 15;
}

static int digit(uint32_t key, int shift) { return (int)(key >> shift & (VALUES - 1)); }

/* Orders keys by one digit; equal ones stay in their order. how_many: of each value. */
static void order(uint32_t *to, const uint32_t *from, int shift, const int *how_many)
{
	int at[VALUES], sum = 0;

	for (int v = 0; v < VALUES; v++) {
		at[v] = sum;
		sum += how_many[v];
	}
	for (int i = 0; i < n; i++)
		to[at[digit(from[i], shift)]++] = from[i];
}

/* How many of the keys at places first to first + len - 1 belong to rank `whose`; each rank has n places. */
static int share(int64_t first, int len, int whose)
{
	const int64_t low = (int64_t)whose * n, high = low + n, last = first + len;
	const int64_t from = first > low ? first : low, to = last < high ? last : high;

	return to > from ? (int)(to - from) : 0;
}

/* Fills in how many keys go to each rank and come from each. */
static void plan(int *out, int *in)
{
	int64_t place = 0; /* of the first key with value v of rank r, among all */

	memset(out, 0, sizeof(*out) * (size_t)ranks);
	memset(in, 0, sizeof(*in) * (size_t)ranks);
	for (int v = 0; v < VALUES; v++)
		for (int r = 0; r < ranks; r++) {
			const int len = counts[r * VALUES + v];

			for (int to = 0; r == rank && to < ranks; to++)
				out[to] += share(place, len, to);
			in[r] += share(place, len, rank);
			place += len;
		}
}

static void sums(int *at, const int *of)
{
	at[0] = 0;
	for (int r = 1; r < ranks; r++)
		at[r] = at[r - 1] + of[r - 1];
}

static void pass(uint32_t *keys, uint32_t *other, int shift, int *table)
{
	int *out = table, *in = table + ranks, *out_at = table + 2 * ranks, *in_at = table + 3 * ranks;
	int own[VALUES] = { 0 };

	for (int i = 0; i < n; i++)
		own[digit(keys[i], shift)]++;
	MPI_Allgather(own, VALUES, MPI_INT, counts, VALUES, MPI_INT, MPI_COMM_WORLD);
	order(other, keys, shift, own);
	plan(out, in);
	sums(out_at, out);
	sums(in_at, in);
	MPI_Alltoallv(other, out, out_at, MPI_INT, keys, in, in_at, MPI_INT, MPI_COMM_WORLD);
	memset(own, 0, sizeof(own));
	for (int i = 0; i < n; i++)
		own[digit(keys[i], shift)]++;
	order(other, keys, shift, own); /* they have come rank by rank */
	memcpy(keys, other, sizeof(*keys) * (size_t)n);
}

/* Number, sum, and sum of a function of the keys of all ranks. */
static void census(const uint32_t *keys, int64_t all[3])
{
	int64_t own[3] = { n, 0, 0 };

	for (int i = 0; i < n; i++) {
		own[1] += keys[i];
		own[2] += mixed(keys[i]);
	}
	MPI_Allreduce(own, all, 3, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
}

/* How many keys are below the one before them. */
static int64_t disorder(const uint32_t *keys)
{
	const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
	uint32_t before = 0;
	int64_t wrong = 0, all;

	if (ranks > 1)
		MPI_Sendrecv(&keys[n - 1], 1, MPI_INT, next, 1, &before, 1, MPI_INT, last, 1, MPI_COMM_WORLD,
			     MPI_STATUS_IGNORE);
	if (rank == 0)
		before = 0; /* what came is the largest of all */
	for (int i = 0; i < n; i++) {
		wrong += keys[i] < before;
		before = keys[i];
	}
	MPI_Allreduce(&wrong, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

int main(int argc, char **argv)
{
	int64_t before[3], after[3];

	n = argc > 1 ? atoi(argv[1]) : 1 << 18;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (n < 1) {
		fprintf(stderr, "radix: KEYS is below 1\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	uint32_t *keys = memory((size_t)n, sizeof(*keys)), *other = memory((size_t)n, sizeof(*other));
	int *table = memory((size_t)ranks * 4, sizeof(*table));
	counts = memory((size_t)ranks * VALUES, sizeof(*counts));
	for (int i = 0; i < n; i++)
		keys[i] = mixed((uint32_t)rank * (uint32_t)n + (uint32_t)i);
	census(keys, before);
	for (int shift = 0; shift < 32; shift += BITS)
		pass(keys, other, shift, table);
	census(keys, after);
	const int64_t wrong = disorder(keys);
	const int right = wrong == 0 && memcmp(before, after, sizeof(before)) == 0;
	if (rank == 0)
		printf("radix: %lld keys, %lld out of order, sums %s: %s\n", (long long)after[0], (long long)wrong,
		       memcmp(before, after, sizeof(before)) == 0 ? "kept" : "changed", right ? "right" : "wrong");
	free(keys);
	free(other);
	free(table);
	free(counts);
	MPI_Finalize();
	return right ? 0 : 1;
}
