/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Under rnicrun --huge, large allocations are hugepages and behave as malloc()'s. Any program gets them: this one uses
 * no RDMA.
 *
 * usage: huge_cases, prints "not true ..." for what does not hold; huge_cases --without: when no hugepage is free
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB   (1u << 20)
#define HUGE  (2u * MIB)
#define SLOTS 24

static int bad;
#define EXPECT(cond) ((cond) ? (void)0 : (void)(bad++, printf("not true: %s (line %d)\n", #cond, __LINE__)))

/* Whether p lies in a mapping of the pool's file. */
static bool is_huge(const void *p)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned long lo, hi;
	bool found = false;

	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = sscanf(line, "%lx-%lx", &lo, &hi) == 2 && (uintptr_t)p >= lo && (uintptr_t)p < hi &&
			strstr(line, "rnicrun-huge") != NULL;
	if (f != NULL)
		fclose(f);
	return found;
}

static void fill(uint8_t *p, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i += 509)
		p[i] = (uint8_t)(i * 31 + (i >> 8) + salt);
}

static bool filled(const uint8_t *p, size_t n, unsigned salt)
{
	for (size_t i = 0; i < n; i += 509)
		if (p[i] != (uint8_t)(i * 31 + (i >> 8) + salt))
			return false;
	return true;
}

static void family(void)
{
	void *p, *small = malloc(1000);
	uint8_t *a = malloc(4 * MIB), *b, *c;

	EXPECT(is_huge(a) && !is_huge(small) && malloc_usable_size(a) >= 4 * MIB);
	EXPECT(posix_memalign(&p, HUGE, 3 * MIB) == 0 && is_huge(p) && (uintptr_t)p % HUGE == 0);
	EXPECT(posix_memalign(&p, 3, 3 * MIB) == EINVAL);
	free(p);
	b = aligned_alloc(4096, MIB);
	EXPECT(is_huge(b) && (uintptr_t)b % 4096 == 0);
	fill(b, MIB, 1);
	free(b);
	b = calloc(MIB, 1);
	for (size_t i = 0; i < MIB; i++)
		if (b[i] != 0) {
			EXPECT(b[i] == 0);
			break;
		}
	volatile size_t much = SIZE_MAX;
	EXPECT(is_huge(b) && calloc(much, 2) == NULL);
	/* realloc() from below the threshold to above it, and back. */
	c = malloc(100);
	fill(c, 100, 3);
	c = realloc(c, MIB);
	EXPECT(is_huge(c) && filled(c, 100, 3));
	fill(c, MIB, 4);
	c = realloc(c, 6 * MIB);
	EXPECT(is_huge(c) && filled(c, MIB, 4));
	c = realloc(c, 5000);
	EXPECT(!is_huge(c) && filled(c, 5000, 4));
	c = reallocarray(c, 3, MIB);
	EXPECT(is_huge(c) && filled(c, 5000, 4));
	free(c);
	free(b);
	free(a);
	free(small);
}

/* Allocates and frees blocks at random; no block may change another one's bytes. */
static void *churn(void *arg)
{
	struct {
		uint8_t *p;
		size_t n;
		unsigned salt;
	} slot[SLOTS] = { { 0 } };
	unsigned seed = (unsigned)(uintptr_t)arg, wrong = 0;

	for (unsigned i = 0; i < 600; i++) {
		unsigned k = (unsigned)rand_r(&seed) % SLOTS;
		if (slot[k].p != NULL && !filled(slot[k].p, slot[k].n, slot[k].salt))
			wrong++;
		free(slot[k].p);
		slot[k].n = 1000 + (size_t)rand_r(&seed) % (i % 5 == 0 ? 3 * MIB : 300000);
		slot[k].salt = i;
		slot[k].p = malloc(slot[k].n);
		fill(slot[k].p, slot[k].n, i);
	}
	for (unsigned k = 0; k < SLOTS; k++)
		free(slot[k].p);
	return (void *)(uintptr_t)wrong;
}

static void threads(void)
{
	pthread_t t[3];
	void *wrong;

	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, churn, (void *)(i + 1));
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(t[i], &wrong);
		EXPECT(wrong == NULL);
	}
}

static int child(uint8_t *a)
{
	uint8_t *b = malloc(3 * MIB);

	/* b may begin in the unused rest of the last page of a's copy. */
	EXPECT(filled(a, 5 * MIB, 7) && !is_huge(a) && is_huge(b + 2 * MIB));
	fill(a, 5 * MIB, 8);
	fill(b, 3 * MIB, 9);
	free(a);
	a = malloc(5 * MIB);
	fill(a, 5 * MIB, 10);
	EXPECT(filled(b, 3 * MIB, 9));
	threads();
	free(a);
	free(b);
	fflush(stdout);
	return bad;
}

static void forks(void)
{
	uint8_t *a = malloc(5 * MIB);
	int st;

	fill(a, 5 * MIB, 7);
	pid_t pid = fork();
	if (pid == 0)
		_exit(child(a));
	EXPECT(waitpid(pid, &st, 0) == pid && st == 0);
	EXPECT(filled(a, 5 * MIB, 7) && is_huge(a));
	free(a);
}

static void without(void)
{
	while (mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0) != MAP_FAILED)
		; /* takes all free hugepages, so that no other process gets them */
	uint8_t *a = malloc(4 * MIB), *b = malloc(4 * MIB);
	EXPECT(a != NULL && b != NULL && !is_huge(a) && !is_huge(b));
	fill(a, 4 * MIB, 1);
	fill(b, 4 * MIB, 2);
	EXPECT(filled(a, 4 * MIB, 1) && filled(b, 4 * MIB, 2));
	free(a);
	free(b);
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--without") == 0) {
		without();
	} else {
		family();
		threads();
		forks();
	}
	fflush(stdout);
	return bad != 0;
}
