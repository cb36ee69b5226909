/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The time that ibv_reg_mr() and ibv_dereg_mr() take over a running rnicd ($RNICD_SOCKET): microseconds, each the
 * median of several runs. Kinds of memory: never touched, written before, registered before, shared with other
 * processes already, and hugepages. Prints no verdict.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <infiniband/verbs.h>

#define RUNS_MAX 21
#define RW       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct kind {
	const char *name;
	int flags; /* flags of mmap() */
	int touch;
	int again; /* registered and deregistered once before the measured time */
};

static const struct kind kinds[] = {
	{ "untouched", MAP_PRIVATE, 0, 0 },
	{ "touched", MAP_PRIVATE, 1, 0 },
	{ "registered again", MAP_PRIVATE, 1, 1 },
	{ "shared", MAP_SHARED, 1, 0 },
	{ "hugepages", MAP_PRIVATE | MAP_HUGETLB, 1, 0 },
	{ "hugepages, shared", MAP_SHARED | MAP_HUGETLB, 1, 0 },
};
static const size_t sizes[] = { 4096, 65536, 1 << 20, 16 << 20, 256 << 20 };

static double us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int once(struct ibv_pd *pd, const struct kind *k, size_t len, double *reg, double *dereg)
{
	size_t room = (k->flags & MAP_HUGETLB) != 0 && len < 2 << 20 ? 2 << 20 : len;
	uint8_t *p = mmap(NULL, room, PROT_READ | PROT_WRITE, k->flags | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;
	double t;

	if (p == MAP_FAILED)
		return 0;
	if (k->touch)
		memset(p, 1, len);
	if (k->again) {
		mr = ibv_reg_mr(pd, p, len, RW);
		if (mr != NULL)
			ibv_dereg_mr(mr);
	}
	t = us();
	mr = ibv_reg_mr(pd, p, len, RW);
	*reg = us() - t;
	if (mr != NULL) {
		t = us();
		ibv_dereg_mr(mr);
		*dereg = us() - t;
	}
	munmap(p, room);
	return mr != NULL;
}

static void row(struct ibv_pd *pd, const struct kind *k)
{
	printf("%-18s", k->name);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		double reg[RUNS_MAX], dereg[RUNS_MAX];
		int n = 0, want = sizes[s] > 64 << 20 ? 3 : RUNS_MAX;
		while (n < want && once(pd, k, sizes[s], &reg[n], &dereg[n]))
			n++;
		if (n == 0) {
			printf(" %16s", "-");
			continue;
		}
		qsort(reg, (size_t)n, sizeof(reg[0]), ascending);
		qsort(dereg, (size_t)n, sizeof(dereg[0]), ascending);
		printf(" %9.1f %6.1f", reg[n / 2], dereg[n / 2]);
		fflush(stdout);
	}
	printf("\n");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = list != NULL && list[0] != NULL ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = c != NULL ? ibv_alloc_pd(c) : NULL;

	if (pd == NULL) {
		fprintf(stderr, "bench_mr: no device: start rnicd and set RNICD_SOCKET\n");
		return 1;
	}
	printf("us: reg, dereg    ");
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
		printf(" %12zu KiB", sizes[s] >> 10);
	printf("\n");
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		row(pd, &kinds[k]);
	return 0;
}
