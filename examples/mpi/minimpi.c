/* SPDX-License-Identifier: BSD-3-Clause */
#include "mini_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define TAG_OWN (1 << 24) /* tags of the library's own messages: the kernels' are below */

enum { TAG_REDUCE = TAG_OWN, TAG_BCAST, TAG_ALLGATHER, TAG_ALLTOALL, TAG_USED };

struct mini mini;

static uint64_t began, in_calls; /* ns */

/* What a rank has used. */
struct used {
	uint64_t run, calls; /* ns */
	uint64_t memory, buffers, bytes[CARRIERS], repeated, connections;
};

void mini_need(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "minimpi: rank %u: %s: %s\n", mini.rank, what, errno != 0 ? strerror(errno) : "wrong");
	exit(1);
}

uint64_t mini_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

double MPI_Wtime(void) { return (double)mini_now() / 1e9; }

unsigned long mini_bytes(int count, MPI_Datatype type)
{
	mini_need(count >= 0, "a message's count");
	return (uint64_t)count * (type == MPI_INT64_T ? 8 : (uint64_t)type);
}

static const char *given(const char *name)
{
	const char *v = getenv(name);

	if (v == NULL) {
		fprintf(stderr, "minimpi: %s is not set: start the program with minirun\n", name);
		exit(1);
	}
	return v;
}

static enum mini_channel channel(const char *name)
{
	static const char *const names[] = { "rc", "ud", "hybrid", "rd" };

	for (unsigned i = 0; i < 4; i++)
		if (strcmp(name, names[i]) == 0)
			return (enum mini_channel)i;
	fprintf(stderr, "minimpi: channel %s: choose rc, ud, hybrid or rd\n", name);
	exit(1);
}

/* The rank's own address: the ranks take the list's addresses in turns. */
static void own_address(char *to, size_t size)
{
	const char *list = given("MINIMPI_ADDRESSES");
	unsigned n = 1;

	for (const char *c = list; *c != '\0'; c++)
		n += *c == ',';
	for (unsigned i = mini.rank % n; i > 0; i--)
		list = strchr(list, ',') + 1;
	snprintf(to, size, "%.*s", (int)strcspn(list, ","), list);
}

int MPI_Init(int *argc, char ***argv)
{
	char address[64];

	(void)argc;
	(void)argv;
	mini.rank = (unsigned)atoi(given("MINIMPI_RANK"));
	mini.size = (unsigned)atoi(given("MINIMPI_SIZE"));
	mini.fd = atoi(given("MINIMPI_FD"));
	mini.job = (uint32_t)strtoul(given("MINIMPI_JOB"), NULL, 10);
	mini.max_rc = (unsigned)atoi(given("MINIMPI_MAX_RC"));
	mini.channel = channel(given("MINIMPI_CHANNEL"));
	mini_need(mini.size >= 1 && mini.size <= RANKS && mini.rank < mini.size, "the number of ranks");
	own_address(address, sizeof(address));
	net_open(address);
	net_meet(inet_addr(address));
	MPI_Barrier(MPI_COMM_WORLD);
	in_calls = 0;
	began = mini_now();
	return MPI_SUCCESS;
}

static void print_used(const char *rank, const struct used *u)
{
	printf("minimpi: %s run_s %.6f comm_s %.6f memory_kib %lu buffers_kib %lu ", rank, (double)u->run / 1e9,
	       (double)u->calls / 1e9, u->memory, u->buffers >> 10);
	printf("rc %lu ud %lu rd %lu repeated %lu connections %lu\n", u->bytes[BY_RC], u->bytes[BY_UD], u->bytes[BY_RD],
	       u->repeated, u->connections);
}

/* Adds up what ranks have used; of the run times, takes the longest. */
static void add_used(struct used *sum, const struct used *u)
{
	sum->run = u->run > sum->run ? u->run : sum->run;
	sum->calls += u->calls;
	sum->memory += u->memory;
	sum->buffers += u->buffers;
	sum->repeated += u->repeated;
	sum->connections += u->connections;
	for (unsigned c = 0; c < CARRIERS; c++)
		sum->bytes[c] += u->bytes[c];
}

static void print_all(const struct used *mine)
{
	struct used u, sum = *mine;
	char name[24];

	print_used("rank 0", mine);
	for (unsigned i = 1; i < mini.size; i++) {
		msg_wait(msg_recv(&u, sizeof(u), i, TAG_USED));
		snprintf(name, sizeof(name), "rank %u", i);
		print_used(name, &u);
		add_used(&sum, &u);
	}
	print_used("all", &sum);
	fflush(stdout);
}

/*
 * A rank stays, and acknowledges packets, until all ranks have got their last acknowledgement. Each rank reports that
 * to minirun, which tells all ranks. The connections and buffers go with the process.
 */
int MPI_Finalize(void)
{
	struct rusage usage;
	struct used u = { .run = mini_now() - began,
			  .calls = in_calls,
			  .buffers = mini.memory,
			  .repeated = mini.repeated,
			  .connections = mini.n_rc };
	char c = 'd';

	getrusage(RUSAGE_SELF, &usage);
	u.memory = (uint64_t)usage.ru_maxrss;
	memcpy(u.bytes, mini.bytes, sizeof(u.bytes));
	if (mini.rank == 0)
		print_all(&u);
	else
		msg_wait(msg_send(&u, sizeof(u), 0, TAG_USED));
	while (!stream_empty())
		msg_progress();
	mini_need(write(mini.fd, &c, 1) == 1, "telling minirun of the end");
	while (recv(mini.fd, &c, 1, MSG_DONTWAIT) < 0) /* 0: minirun has ended */
		msg_progress();
	return MPI_SUCCESS;
}

int MPI_Abort(MPI_Comm comm, int status)
{
	(void)comm;
	exit(status != 0 ? status : 1);
}

int MPI_Comm_rank(MPI_Comm comm, int *rank)
{
	(void)comm;
	*rank = (int)mini.rank;
	return MPI_SUCCESS;
}

int MPI_Comm_size(MPI_Comm comm, int *size)
{
	(void)comm;
	*size = (int)mini.size;
	return MPI_SUCCESS;
}

int mini_isend(const void *buf, unsigned long bytes, int dest, int tag, MPI_Request *request)
{
	const uint64_t t = mini_now();

	*request = msg_send(buf, bytes, (unsigned)dest, tag);
	in_calls += mini_now() - t;
	return MPI_SUCCESS;
}

int mini_irecv(void *buf, unsigned long bytes, int source, int tag, MPI_Request *request)
{
	const uint64_t t = mini_now();

	*request = msg_recv(buf, bytes, (unsigned)source, tag);
	in_calls += mini_now() - t;
	return MPI_SUCCESS;
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses)
{
	const uint64_t t = mini_now();

	mini_need(statuses == MPI_STATUSES_IGNORE, "a status that is not MPI_STATUSES_IGNORE");
	for (int i = 0; i < count; i++) {
		if (requests[i] != MPI_REQUEST_NULL)
			msg_wait(requests[i]);
		requests[i] = MPI_REQUEST_NULL;
	}
	in_calls += mini_now() - t;
	return MPI_SUCCESS;
}

int MPI_Send(const void *buf, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm)
{
	MPI_Request r;

	(void)comm;
	MPI_Isend(buf, count, type, dest, tag, comm, &r);
	return MPI_Waitall(1, &r, MPI_STATUSES_IGNORE);
}

int mini_recv(void *buf, unsigned long bytes, int source, int tag, MPI_Status *status)
{
	MPI_Request r;

	mini_irecv(buf, bytes, source, tag, &r);
	return MPI_Waitall(1, &r, status);
}

static void combine(void *into, const void *from, int count, MPI_Datatype type, MPI_Op op)
{
	mini_need(type == MPI_DOUBLE || type == MPI_INT64_T, "a type that MPI_Allreduce() knows");
	for (int i = 0; i < count; i++) {
		if (type == MPI_DOUBLE) {
			double *a = (double *)into + i;
			const double b = ((const double *)from)[i];

			*a = op == MPI_SUM ? *a + b : b > *a ? b : *a;
		} else {
			int64_t *a = (int64_t *)into + i;
			const int64_t b = ((const int64_t *)from)[i];

			*a = op == MPI_SUM ? *a + b : b > *a ? b : *a;
		}
	}
}

/* Sends down a binomial tree. */
int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
	const unsigned n = mini.size, me = (mini.rank + n - (unsigned)root) % n;
	unsigned bit = 1;

	while (bit < n && (me & bit) == 0)
		bit <<= 1;
	if (me != 0)
		MPI_Recv(buf, count, type, (int)((me - bit + (unsigned)root) % n), TAG_BCAST, comm, MPI_STATUS_IGNORE);
	for (bit >>= 1; bit > 0; bit >>= 1)
		if (me + bit < n)
			MPI_Send(buf, count, type, (int)((me + bit + (unsigned)root) % n), TAG_BCAST, comm);
	return MPI_SUCCESS;
}

/* Sums go up a binomial tree to rank 0, and the result down again, so each rank gets exactly the same sum. */
int MPI_Allreduce(const void *from, void *to, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
	const uint64_t size = mini_bytes(count, type);
	void *other = malloc(size + 1);

	mini_need(other != NULL, "allocating a sum");
	if (from != MPI_IN_PLACE)
		memcpy(to, from, size);
	for (unsigned bit = 1; bit < mini.size; bit <<= 1) {
		if ((mini.rank & bit) != 0) {
			MPI_Send(to, count, type, (int)(mini.rank - bit), TAG_REDUCE, comm);
			break;
		}
		if (mini.rank + bit >= mini.size)
			continue;
		MPI_Recv(other, count, type, (int)(mini.rank + bit), TAG_REDUCE, comm, MPI_STATUS_IGNORE);
		combine(to, other, count, type, op);
	}
	free(other);
	return MPI_Bcast(to, count, type, 0, comm);
}

int MPI_Barrier(MPI_Comm comm)
{
	int64_t n = 1;

	return MPI_Allreduce(MPI_IN_PLACE, &n, 1, MPI_INT64_T, MPI_SUM, comm);
}

int mini_sendrecv(const void *out, struct mini_end to, void *in, struct mini_end from, MPI_Status *status)
{
	MPI_Request r[2];

	mini_irecv(in, from.bytes, from.rank, from.tag, &r[0]);
	mini_isend(out, to.bytes, to.rank, to.tag, &r[1]);
	mini_need(status == MPI_STATUS_IGNORE, "a status that is not MPI_STATUS_IGNORE");
	return MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
}

/* Around a ring: each rank passes on the part that it received last. */
int mini_allgather(const void *from, unsigned long bytes, void *to, unsigned long to_bytes)
{
	const unsigned me = mini.rank, n = mini.size;
	const int next = (int)((me + 1) % n), last = (int)((me + n - 1) % n);
	uint8_t *all = to;

	mini_need(bytes == to_bytes, "MPI_Allgather() with two sizes");
	memcpy(all + bytes * me, from, bytes);
	for (unsigned step = 0; step + 1 < n; step++)
		mini_sendrecv(all + bytes * ((me + n - step) % n), (struct mini_end){ bytes, next, TAG_ALLGATHER },
			      all + bytes * ((me + n - step - 1) % n), (struct mini_end){ bytes, last, TAG_ALLGATHER },
			      MPI_STATUS_IGNORE);
	return MPI_SUCCESS;
}

int mini_alltoallv(const void *from, struct mini_parts out, void *to, struct mini_parts in)
{
	const unsigned me = mini.rank, n = mini.size;
	const unsigned long out_size = mini_bytes(1, out.type), in_size = mini_bytes(1, in.type);
	const uint8_t *o = from;
	uint8_t *i = to;

	mini_need(mini_bytes(out.counts[me], out.type) == mini_bytes(in.counts[me], in.type),
		  "MPI_Alltoallv() with two sizes for the rank's own part");
	memcpy(i + in_size * (unsigned)in.at[me], o + out_size * (unsigned)out.at[me],
	       mini_bytes(in.counts[me], in.type));
	for (unsigned step = 1; step < n; step++) {
		const unsigned next = (me + step) % n, last = (me + n - step) % n;

		mini_sendrecv(o + out_size * (unsigned)out.at[next],
			      (struct mini_end){ mini_bytes(out.counts[next], out.type), (int)next, TAG_ALLTOALL },
			      i + in_size * (unsigned)in.at[last],
			      (struct mini_end){ mini_bytes(in.counts[last], in.type), (int)last, TAG_ALLTOALL },
			      MPI_STATUS_IGNORE);
	}
	return MPI_SUCCESS;
}
