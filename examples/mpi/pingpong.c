/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pingpong - messages of each size go from rank 0 to rank 1 and back, their bytes checked; other ranks look on. Prints
 * half of the time of a round for each size.
 *
 * usage: pingpong [ROUNDS [LARGEST]]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint8_t byte_of(int round, int i) { return (uint8_t)(round * 31 + i * 7 + (i >> 8) * 13); }

static void check(const uint8_t *buf, int round, int size)
{
	for (int i = 0; i < size; i++) {
		if (buf[i] == byte_of(round, i))
			continue;
		fprintf(stderr, "pingpong: byte %d of message %d is wrong\n", i, round);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
}

static double rounds_of(uint8_t *buf, int size, int rounds, int rank)
{
	double took = 0;

	for (int r = 0; r < rounds; r++) {
		if (rank == 0) {
			for (int i = 0; i < size; i++)
				buf[i] = byte_of(r, i);
			const double began = MPI_Wtime();
			MPI_Send(buf, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(buf, size, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			took += MPI_Wtime() - began;
		} else {
			MPI_Recv(buf, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(buf, size, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
		}
		check(buf, r, size);
	}
	return took / rounds / 2;
}

int main(int argc, char **argv)
{
	const int rounds = argc > 1 ? atoi(argv[1]) : 100, largest = argc > 2 ? atoi(argv[2]) : 1 << 20;
	int rank, ranks;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	uint8_t *buf = calloc(1, (size_t)largest + 1);
	if (ranks < 2 || rounds < 1 || largest < 1 || buf == NULL) {
		fprintf(stderr, "pingpong: start two ranks, with ROUNDS and LARGEST above 0\n");
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (int size = 1; size <= largest && rank < 2; size *= 4) {
		const double t = rounds_of(buf, size, rounds, rank);

		if (rank == 0)
			printf("pingpong: %d bytes %.2f us\n", size, t * 1e6);
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("pingpong: right\n");
	free(buf);
	MPI_Finalize();
	return 0;
}
