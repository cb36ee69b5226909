/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The machine's limits for the bytes of an RDMA Write: CRC32C by each implementation, the loop that every byte passes
 * through (sum by the sender, sum by the receiver, one copy), and a copy past the caches beside an ordinary one. Prints
 * GB/s (10^9 bytes per second), each the median of several runs. Prints no verdict.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/rn_stream.h"
#include "crc32c/crc32c.h"

#define RUNS   7
#define RUN_NS 10000000.0

struct job {
	const struct crc32c_impl *impl; /* NULL: the one that the library has chosen */
	uint8_t *src, *dst;
	size_t size;  /* bytes per segment */
	size_t span;  /* the calls walk over a buffer of so many bytes, again and again */
	size_t batch; /* segments per call */
	rn_stream_fn past_caches;
};

typedef void (*step_fn)(const struct job *j, size_t off);

static volatile uint32_t sink;

static void step_sum(const struct job *j, size_t off) { sink = j->impl->sum(0, j->src + off, j->size); }
static void step_copy_sum(const struct job *j, size_t off)
{
	sink = j->impl->copy(0, j->dst + off, j->src + off, j->size);
}

static void step_memcpy(const struct job *j, size_t off) { memcpy(j->dst + off, j->src + off, j->size); }

static void step_past_caches(const struct job *j, size_t off)
{
	j->past_caches(j->dst + off, j->src + off, (uint32_t)j->size);
	rn_stream_fence();
}

/*
 * The work of a worker that serves both ends: the sender's sums of a whole batch, then the receiver's sum and copy of
 * each segment.
 */
static void step_sum_sum_copy(const struct job *j, size_t off)
{
	size_t end = off + j->batch * j->size;

	for (size_t at = off; at < end; at += j->size)
		sink = crc32c(0, j->src + at, j->size);
	for (size_t at = off; at < end; at += j->size) {
		sink = crc32c(0, j->src + at, j->size);
		memcpy(j->dst + at, j->src + at, j->size);
	}
}

static void step_sum_copysum(const struct job *j, size_t off)
{
	sink = crc32c(0, j->src + off, j->size);
	sink = crc32c_copy(0, j->dst + off, j->src + off, j->size);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double measure(step_fn step, const struct job *j)
{
	size_t call = j->batch * j->size;
	double gbps[RUNS];

	for (int r = -1; r < RUNS; r++) {
		double start = seconds(), spent;
		size_t off = 0;
		uint64_t bytes = 0;

		do {
			for (int i = 0; i < 64; i++) {
				step(j, off);
				off += call;
				if (off + call > j->span)
					off = 0;
			}
			bytes += 64 * call;
			spent = seconds() - start;
		} while (spent * 1e9 < RUN_NS);
		if (r >= 0) /* the first run warms up */
			gbps[r] = (double)bytes / spent * 1e-9;
	}
	qsort(gbps, RUNS, sizeof(gbps[0]), ascending);
	return gbps[RUNS / 2];
}

static void row(const char *name, step_fn step, struct job *j, const size_t *sizes, size_t in_cache, size_t out)
{
	printf("%-22s", name);
	for (const size_t *s = sizes; *s != 0; s++) {
		j->size = *s;
		j->span = in_cache > *s ? in_cache : *s;
		printf(" %8.1f", measure(step, j));
	}
	j->size = 9000;
	j->span = out;
	printf(" %8.1f\n", measure(step, j));
	fflush(stdout);
}

/* Prints only the figure that the command line names. */
static int one(step_fn step, const struct job *j, size_t most)
{
	if (j->size == 0 || j->batch == 0 || j->size > most || j->batch > most || j->batch * j->size > j->span ||
	    j->span > most) {
		fprintf(stderr, "bench_limits: SPAN is at most %zu and holds BYTES times BATCH\n", most);
		return 2;
	}
	printf("%.2f\n", measure(step, j));
	return 0;
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = { 64, 256, 512, 1024, 1440, 4096, 9000, 65536, 0 };
	const size_t in_cache = 16384, out = 128u << 20, message = 1u << 20;
	struct job j = { .src = aligned_alloc(64, out), .dst = aligned_alloc(64, out), .batch = 1 };
	char name[64];

	if (j.src == NULL || j.dst == NULL) {
		fprintf(stderr, "bench_limits: no memory\n");
		return 1;
	}
	memset(j.src, 0x5A, out);
	memset(j.dst, 0, out);
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "--loop") == 0) {
		j.size = (size_t)strtoul(argv[2], NULL, 10);
		j.span = (size_t)strtoul(argv[3], NULL, 10);
		j.batch = argc == 5 ? (size_t)strtoul(argv[4], NULL, 10) : 1;
		return one(step_sum_sum_copy, &j, out);
	}
	if (argc == 4 && strcmp(argv[1], "--copy") == 0) {
		j.size = (size_t)strtoul(argv[2], NULL, 10);
		j.span = (size_t)strtoul(argv[3], NULL, 10);
		return one(step_memcpy, &j, out);
	}
	if (argc != 1) {
		fprintf(stderr,
			"usage: bench_limits [--loop BYTES SPAN [BATCH] | --copy BYTES SPAN]\n"
			"Prints what this machine reaches with CRC32C and copying, in GB/s.\n"
			"--loop: only the loop of two sums and a copy, in segments of BYTES that walk over SPAN bytes; the\n"
			"first sums of BATCH segments are done before the rest.\n"
			"--copy: only memcpy, in the same way.\n");
		return 2;
	}
	printf("GB/s, bytes per call  ");
	for (const size_t *s = sizes; *s != 0; s++)
		printf(" %8zu", *s);
	printf("   memory\n");
	for (j.impl = crc32c_impls; j.impl->name != NULL; j.impl++) {
		snprintf(name, sizeof(name), "sum %s", j.impl->name);
		row(name, step_sum, &j, sizes, in_cache, out);
	}
	for (j.impl = crc32c_impls; j.impl->name != NULL; j.impl++) {
		snprintf(name, sizeof(name), "copy and sum %s", j.impl->name);
		row(name, step_copy_sum, &j, sizes, in_cache, out);
	}
	row("memcpy", step_memcpy, &j, sizes, in_cache, out);
	uint32_t width;
	j.past_caches = rn_stream_choose(64, &width);
	if (width != 0)
		row("copy past the caches", step_past_caches, &j, sizes, in_cache, out);
	printf("over 1 MiB:\n");
	row("sum + sum + copy", step_sum_sum_copy, &j, sizes, message, out);
	row("sum + (copy and sum)", step_sum_copysum, &j, sizes, message, out);
	free(j.src);
	free(j.dst);
	return 0;
}
