/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bibw - bandwidth both ways: two pairs of ranks send in opposite directions at the same time, 0 to 1 and 3 to 2. If
 * even ranks are on one host or device and odd ranks on another, the line between them carries one pair in each
 * direction. The sender of a pair sends a window of messages, its receiver has a receive for each; then all four meet.
 * The bytes are checked outside the measured time. Other ranks only take part in the barriers.
 *
 * usage: bibw [ROUNDS [LARGEST [WINDOW]]]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int rank, window, partner;

static int sends(void) { return rank == 0 || rank == 3; }
static uint8_t byte_of(int message, int i) { return (uint8_t)(rank / 2 + message * 29 + i * 11 + (i >> 8) * 5); }

static void fill(uint8_t *buf, int size, int round)
{
	for (int w = 0; w < window; w++)
		for (int i = 0; i < size; i++)
			buf[(size_t)w * (size_t)size + (size_t)i] = sends() ? byte_of(round * window + w, i)
									    : (uint8_t)~byte_of(round * window + w, i);
}

static void check(const uint8_t *buf, int size, int round)
{
	for (int w = 0; w < window; w++)
		for (int i = 0; i < size; i++) {
			if (buf[(size_t)w * (size_t)size + (size_t)i] == byte_of(round * window + w, i))
				continue;
			fprintf(stderr, "bibw: byte %d of message %d is wrong\n", i, round * window + w);
			MPI_Abort(MPI_COMM_WORLD, 1);
		}
}

/* Seconds of one round. */
static double turn(uint8_t *buf, int size, MPI_Request *q)
{
	uint8_t word = 0;

	MPI_Barrier(MPI_COMM_WORLD);
	const double began = MPI_Wtime();
	if (rank < 4) {
		for (int w = 0; w < window; w++) {
			uint8_t *at = buf + (size_t)w * (size_t)size;

			if (sends())
				MPI_Isend(at, size, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &q[w]);
			else
				MPI_Irecv(at, size, MPI_BYTE, partner, 1, MPI_COMM_WORLD, &q[w]);
		}
		MPI_Waitall(window, q, MPI_STATUSES_IGNORE);
		if (sends())
			MPI_Recv(&word, 1, MPI_BYTE, partner, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		else
			MPI_Send(&word, 1, MPI_BYTE, partner, 2, MPI_COMM_WORLD);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Wtime() - began;
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 10, largest = argc > 2 ? atoi(argv[2]) : 1 << 20;
	int ranks;

	window = argc > 3 ? atoi(argv[3]) : 16;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks < 4 || rounds < 1 || largest < 1 || window < 1) {
		fprintf(stderr, "bibw: start four ranks, with ROUNDS, LARGEST and WINDOW above 0\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	partner = rank ^ 1;
	uint8_t *buf = malloc((size_t)largest * (size_t)window);
	MPI_Request *q = calloc((size_t)window, sizeof(MPI_Request));
	if (buf == NULL || q == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (int size = 1; size <= largest; size *= 4) {
		double took = 0;

		for (int r = 0; r < rounds; r++) {
			if (rank < 4)
				fill(buf, size, r);
			took += turn(buf, size, q);
			if (rank < 4)
				check(buf, size, r);
		}
		if (rank == 0)
			printf("bibw: %d bytes %.3f GB/s\n", size, 2. * size * window * rounds / took / 1e9);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("bibw: right\n");
	free(buf);
	free(q);
	MPI_Finalize();
	return 0;
}
