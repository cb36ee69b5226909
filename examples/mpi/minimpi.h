/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minimpi: the calls of MPI that the kernels in this folder use, over verbs, for the ranks of one machine. minirun
 * starts the ranks. Names and meanings are those of the MPI standard, with these restrictions:
 *
 * - one communicator, MPI_COMM_WORLD; at most 64 ranks; one thread of a rank calls
 * - source and tag of a receive are named; a status is MPI_STATUS_IGNORE or MPI_STATUSES_IGNORE
 * - no messages of a rank to itself
 * - MPI_Allreduce() adds doubles or 64-bit numbers, or takes the largest
 * - an error ends the job with a sentence; each function returns MPI_SUCCESS
 *
 * How bytes travel is chosen by minirun: RC (a connection to each partner), UD (datagrams; minimpi acknowledges,
 * repeats and orders), hybrid (UD; RC for partners that talk much), RD (reliable datagrams of rnicdv.h).
 */
#ifndef MINIMPI_H
#define MINIMPI_H

typedef enum { MPI_BYTE = 1, MPI_INT = 4, MPI_DOUBLE = 8, MPI_INT64_T = 9 } MPI_Datatype;
typedef enum { MPI_SUM, MPI_MAX } MPI_Op;
typedef enum { MPI_COMM_WORLD } MPI_Comm;
typedef struct mini_req *MPI_Request;
typedef struct mini_status MPI_Status;

#define MPI_SUCCESS         0
#define MPI_REQUEST_NULL    ((MPI_Request)0)
#define MPI_STATUS_IGNORE   ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_IN_PLACE        ((void *)-1)

int MPI_Init(int *argc, char ***argv);
/* Waits for all ranks. Rank 0 prints what each rank has used. */
int MPI_Finalize(void);
int MPI_Abort(MPI_Comm comm, int status) __attribute__((noreturn));
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
/* Seconds since some time in the past. */
double MPI_Wtime(void);

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm);
int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses);
int MPI_Barrier(MPI_Comm comm);
int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm);
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm);

/* Calls with seven arguments omit the communicator, since there is only one. */
#define MPI_Recv(buf, count, type, source, tag, comm, status) \
	mini_recv(buf, mini_bytes(count, type), source, tag, status)
#define MPI_Isend(buf, count, type, dest, tag, comm, request) \
	mini_isend(buf, mini_bytes(count, type), dest, tag, request)
#define MPI_Irecv(buf, count, type, source, tag, comm, request) \
	mini_irecv(buf, mini_bytes(count, type), source, tag, request)
#define MPI_Sendrecv(out, out_count, out_type, dest, out_tag, in, in_count, in_type, source, in_tag, comm, status) \
	mini_sendrecv(out, (struct mini_end){ mini_bytes(out_count, out_type), dest, out_tag }, in, \
		      (struct mini_end){ mini_bytes(in_count, in_type), source, in_tag }, status)
#define MPI_Allgather(from, count, type, to, to_count, to_type, comm) \
	mini_allgather(from, mini_bytes(count, type), to, mini_bytes(to_count, to_type))
#define MPI_Alltoallv(from, counts, at, type, to, to_counts, to_at, to_type, comm) \
	mini_alltoallv(from, (struct mini_parts){ counts, at, type }, to, \
		       (struct mini_parts){ to_counts, to_at, to_type })

struct mini_end { /* a message of MPI_Sendrecv() */
	unsigned long bytes;
	int rank, tag;
};

struct mini_parts { /* of MPI_Alltoallv(): what goes to each rank, or comes from each */
	const int *counts, *at;
	MPI_Datatype type;
};

unsigned long mini_bytes(int count, MPI_Datatype type);
int mini_recv(void *buf, unsigned long bytes, int source, int tag, MPI_Status *status);
int mini_isend(const void *buf, unsigned long bytes, int dest, int tag, MPI_Request *request);
int mini_irecv(void *buf, unsigned long bytes, int source, int tag, MPI_Request *request);
int mini_sendrecv(const void *out, struct mini_end to, void *in, struct mini_end from, MPI_Status *status);
int mini_allgather(const void *from, unsigned long bytes, void *to, unsigned long to_bytes);
int mini_alltoallv(const void *from, struct mini_parts out, void *to, struct mini_parts in);

#endif
