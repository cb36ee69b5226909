/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The cost of a hand-over to another CPU: a ring of lib/ring between two threads. Prints how many entries of a cache
 * line pass in a second (10^6), and the time of a single entry one way (half of a round trip, ns); medians of several
 * runs. Prints no verdict.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ring/spsc.h"

#define RUNS    7
#define SLOTS   1024u
#define STREAM  1000000u
#define PINGS   20000u
#define ENDLESS UINT32_MAX

struct pipe {
	struct spsc_prod in;
	struct spsc_cons out;
};

static struct pipe there, back;
static int cpu[2];

static void pin(int n)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu[n], &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void put(struct pipe *p, uint64_t v)
{
	while (spsc_prod_free(&p->in, 1) == 0)
		continue;
	*(uint64_t *)spsc_prod_slot(&p->in, 0) = v;
	spsc_prod_publish(&p->in, 1);
}

static uint64_t get(struct pipe *p)
{
	while (spsc_cons_avail(&p->out, 1) == 0)
		continue;
	uint64_t v = *(const uint64_t *)spsc_cons_slot(&p->out, 0);
	spsc_cons_release(&p->out, 1);
	return v;
}

/*
 * The other thread: takes all entries, sends those back that ask for an answer (not 0), and ends at the entry ENDLESS.
 */
static void *other_side(void *arg)
{
	uint64_t v;

	(void)arg;
	pin(1);
	while ((v = get(&there)) != ENDLESS)
		if (v != 0)
			put(&back, v);
	return NULL;
}

static double stream(void)
{
	double start = seconds();

	for (uint32_t i = 1; i < STREAM; i++)
		put(&there, 0);
	put(&there, 1);
	(void)get(&back);
	return STREAM / (seconds() - start) * 1e-6;
}

static double ping(void)
{
	double start = seconds();

	for (uint32_t i = 0; i < PINGS; i++) {
		put(&there, 1);
		(void)get(&back);
	}
	return (seconds() - start) / PINGS / 2 * 1e9;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double (*run)(void))
{
	double v[RUNS];

	(void)run(); /* warms up */
	for (int i = 0; i < RUNS; i++)
		v[i] = run();
	qsort(v, RUNS, sizeof(v[0]), ascending);
	return v[RUNS / 2];
}

static bool make(struct pipe *p)
{
	uint64_t size = spsc_size(SLOTS, RN_CACHE_LINE);
	struct spsc_place at = { .region = aligned_alloc(RN_CACHE_LINE, size),
				 .region_size = size,
				 .nslots = SLOTS,
				 .slot_size = RN_CACHE_LINE };

	if (at.region == NULL)
		return false;
	memset(at.region, 0, size);
	return spsc_prod_attach(&p->in, &at) == SPSC_OK && spsc_cons_attach(&p->out, &at) == SPSC_OK;
}

int main(int argc, char **argv)
{
	pthread_t t;

	if (argc != 3) {
		fprintf(stderr, "usage: bench_ring CPU CPU\n"
				"Prints entries/s (10^6) and ns one way of a ring between two CPUs.\n");
		return 2;
	}
	cpu[0] = atoi(argv[1]);
	cpu[1] = atoi(argv[2]);
	pin(0);
	if (!make(&there) || !make(&back) || pthread_create(&t, NULL, other_side, NULL) != 0) {
		fprintf(stderr, "bench_ring: no memory\n");
		return 1;
	}
	double rate = median(stream), ns = median(ping);
	put(&there, ENDLESS);
	pthread_join(t, NULL);
	printf("%.2f %.1f\n", rate, ns);
	return 0;
}
