/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory registration: registered private memory behaves as before, and no byte that any thread wrote is lost. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rnic/rnic.h>

#include "mr_rig.h"

/*
 * mmap() and munmap() here replace libc's, as in a library that watches a program's mappings. `heard` counts the calls
 * of this thread.
 */
static __thread unsigned heard;

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	heard++;
	return (void *)syscall(SYS_mmap, at, len, prot, flags, fd, off);
}

int munmap(void *at, size_t len)
{
	heard++;
	return (int)syscall(SYS_munmap, at, len);
}

/*
 * A library that watches mappings, as above, holds a lock while it registers memory. If librnic's own mappings called
 * the library's mmap(), it would wait for its own lock.
 */
static void who_watches_mappings_hears_of_the_programs_alone(void **state)
{
	uint8_t *p = mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), buf[300];
	unsigned before = heard;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_not_equal(before, 0);
	fill(p, 64 * PAGE, 3);
	fill(buf, sizeof(buf), 4);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 64 * PAGE, RW), *own = ibv_reg_mr(pd, buf, sizeof(buf), RW);
	uint8_t *born = rnic_alloc(PAGE);
	assert_int_equal(heard, before);
	assert_non_null(born);
	assert_shared(mr);
	assert_shared(own);
	before = heard;
	assert_int_equal(ibv_dereg_mr(mr) + ibv_dereg_mr(own), 0);
	assert_int_equal(heard, before);
	rnic_free(born);
	assert_int_equal(heard, before + 1);
	assert_int_equal(munmap(p, 64 * PAGE), 0);
}

static void __attribute__((noinline)) recurse(unsigned depth)
{
	volatile uint8_t room[1000];

	memset((void *)(uintptr_t)room, (int)depth, sizeof(room));
	if (depth > 0)
		recurse(depth - 1);
	assert_int_equal(room[500], (uint8_t)depth);
}

static void own_stack(void **state)
{
	uint8_t buf[300];
	uint8_t big[40000];

	(void)state;
	fill(buf, sizeof(buf), 7);
	struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), RW);
	assert_non_null(mr);
	assert_filled(buf, sizeof(buf), 7);
	assert_shared(mr);
	struct ibv_mr *mr2 = ibv_reg_mr(pd, big, sizeof(big), RW);
	assert_shared(mr2);
	recurse(800);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(mr2);
}

static void *stack_thread(void *arg)
{
	uint8_t low[200];

	(void)arg;
	fill(low, sizeof(low), 9);
	struct ibv_mr *mr = ibv_reg_mr(pd, low, sizeof(low), RW);
	if (mr == NULL)
		return NULL;
	assert_filled(low, sizeof(low), 9);
	assert_shared(mr);
	recurse(200);
	ibv_dereg_mr(mr);
	return arg;
}

static void *deep_thread(void *arg)
{
	/* Goes well below the page that holds the thread's descriptor. */
	volatile uint8_t gap[3 * PAGE];

	gap[0] = gap[2 * PAGE] = 0;
	return stack_thread(arg);
}

/* Registers the page of the thread's descriptor while another thread already joins the thread. */
static void *top_thread(void *arg)
{
	usleep(50000);
	struct ibv_mr *mr = ibv_reg_mr(pd, (void *)pthread_self(), 64, RW);
	if (mr == NULL)
		return NULL;
	ibv_dereg_mr(mr);
	return arg;
}

static void stack_of_a_thread(void **state)
{
	pthread_t t;
	void *ret = NULL;

	pthread_create(&t, NULL, deep_thread, state);
	pthread_join(t, &ret);
	assert_ptr_equal(ret, state);
	pthread_create(&t, NULL, top_thread, state);
	pthread_join(t, &ret);
	assert_ptr_equal(ret, state);
}

/* ---- writers at the same time ---- */

struct writer {
	uint8_t *p;
	size_t pages;
	uint64_t count;
	int stop;
};

static void *write_on(void *arg)
{
	struct writer *w = arg;
	uint64_t n = 0;

	while (!__atomic_load_n(&w->stop, __ATOMIC_RELAXED)) {
		uint64_t *slot = (uint64_t *)(void *)(w->p + n % w->pages * PAGE);
		__atomic_store_n(slot, *slot + 1, __ATOMIC_RELAXED);
		n++;
	}
	w->count = n;
	return NULL;
}

static void writers_lose_nothing(int by_signal)
{
	const size_t pages = 2000;
	struct rnic_mem *mem = rnic_ctx(ctx)->s->mem;
	int uffd = mem->uffd;

	if (by_signal)
		mem->uffd = -1;
	for (int round = 0; round < 5; round++) {
		uint8_t *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		/* Each thread writes a word of its own on each page. */
		struct writer w[2] = { { .p = p, .pages = pages }, { .p = p + 64, .pages = pages } };
		pthread_t t[2];
		for (int i = 0; i < 2; i++)
			pthread_create(&t[i], NULL, write_on, &w[i]);
		usleep(2000);
		struct ibv_mr *mr = ibv_reg_mr(pd, p, pages * PAGE, RW);
		assert_non_null(mr);
		usleep(2000);
		for (int i = 0; i < 2; i++) {
			__atomic_store_n(&w[i].stop, 1, __ATOMIC_RELAXED);
			pthread_join(t[i], NULL);
			uint64_t sum = 0, seen = 0, word;
			for (size_t k = 0; k < pages; k++) {
				sum += *(uint64_t *)(void *)(w[i].p + k * PAGE);
				assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)w[i].p + k * PAGE, &word, 8));
				seen += word;
			}
			assert_int_equal(sum, w[i].count);
			assert_int_equal(seen, w[i].count);
		}
		ibv_dereg_mr(mr);
		munmap(p, pages * PAGE);
	}
	mem->uffd = uffd;
}

static int library_thread_ended;

static void *write_and_end(void *arg)
{
	write_on(arg);
	__atomic_store_n(&library_thread_ended, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* The library's own threads block the program's signals, but not the one by which they wait for a registration. */
static void threads_of_the_library_survive_the_signal(void **state)
{
	const size_t pages = 2000;
	uint8_t *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct writer w = { .p = p, .pages = pages };
	struct rnic_mem *mem = rnic_ctx(ctx)->s->mem;
	int uffd = mem->uffd;

	(void)state;
	mem->uffd = -1;
	assert_int_equal(rnic_thread(write_and_end, &w), 0);
	while (__atomic_load_n((uint64_t *)(void *)(p + (pages - 1) * PAGE), __ATOMIC_RELAXED) == 0)
		usleep(200);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, pages * PAGE, RW);
	assert_non_null(mr);
	__atomic_store_n(&w.stop, 1, __ATOMIC_RELAXED);
	while (!__atomic_load_n(&library_thread_ended, __ATOMIC_ACQUIRE))
		usleep(200);
	mem->uffd = uffd;
	ibv_dereg_mr(mr);
	munmap(p, pages * PAGE);
}

static void writers_lose_nothing_under_userfaultfd(void **state)
{
	(void)state;
	writers_lose_nothing(0);
}

static void writers_lose_nothing_under_the_signal(void **state)
{
	(void)state;
	writers_lose_nothing(1);
}

/* ---- realloc, fork, sweep ---- */

/*
 * A block to which malloc() gives a mapping of its own. malloc() would prefer free memory, and would raise the size
 * from which blocks get mappings: both are prevented first. A sanitizer's malloc() differs; the contents are checked
 * nevertheless.
 */
static uint8_t *mapped(size_t len)
{
	mallopt(M_MMAP_THRESHOLD, 128 << 10);
	malloc_trim(0);
	uint8_t *p = malloc(len);
#ifndef __SANITIZE_ADDRESS__
	assert_int_equal((uintptr_t)p % PAGE, 16);
#endif
	return p;
}

static void realloc_of_registered_memory(void **state)
{
	const size_t len = 1 << 20;
	uint8_t *p = mapped(len), *q = mapped(len);

	(void)state;
	fill(p, len, 1);
	fill(q, len, 2);
	struct ibv_mr *a = ibv_reg_mr(pd, p, len, RW), *b = ibv_reg_mr(pd, q, len, RW);
	assert_non_null(a);
	assert_non_null(b);
	ibv_dereg_mr(a);
	p = realloc(p, 8 * len);
	memset(p + len, 0xee, 7 * len);
	assert_filled(p, len, 1);
	assert_filled(q, len, 2);
	ibv_dereg_mr(b);
	free(p);
	free(q);
}

/* libc grows its own mappings by mremap(), which librnic cannot intercept: a neighbour must never be moved along. */
static void realloc_of_memory_registered_in_pieces(void **state)
{
	static const size_t piece[] = { PAGE, 2 * PAGE, 5 * PAGE, 33 * PAGE };
	const size_t len = 33 * PAGE - 64, whole = 33 * PAGE;

	(void)state;
	for (unsigned i = 0; i < RN_ARRAY_LEN(piece); i++) {
		uint8_t *p[3];
		for (unsigned k = 0; k < 3; k++) {
			p[k] = mapped(len);
			fill(p[k], len, (uint8_t)k);
		}
		for (unsigned k = 0; k < 3; k++) {
			uint8_t *page = (uint8_t *)((uintptr_t)p[k] & ~(uintptr_t)(PAGE - 1));
			for (size_t at = 0; at < whole; at += piece[i]) {
				size_t n = piece[i] < whole - at ? piece[i] : whole - at;
				struct ibv_mr *mr = ibv_reg_mr(pd, page + at, n, RW);
				assert_non_null(mr);
				ibv_dereg_mr(mr);
			}
		}
		for (unsigned k = 0; k < 3; k++) {
			p[k] = realloc(p[k], 8 * len);
			assert_filled(p[k], len, (uint8_t)k);
			memset(p[k] + len, 0xee, 7 * len);
		}
		for (unsigned k = 0; k < 3; k++) {
			assert_filled(p[k], len, (uint8_t)k);
			free(p[k]);
		}
	}
}

/* ---- madvise, mremap, sigaction: they work as if no memory had been moved ---- */

static void discarded_memory_reads_as_zero(void **state)
{
	static const int advice[] = { MADV_DONTNEED, MADV_FREE };
	uint8_t *p = mmap(NULL, 32 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t got[2 * PAGE];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fill(p, 32 * PAGE, 3);
		struct ibv_mr *mr = ibv_reg_mr(pd, p + 8 * PAGE, 16 * PAGE, RW);
		assert_non_null(mr);
		/*
		 * Inside a region, where the daemon sees the zeros, too; and across the border to memory that was never
		 * registered.
		 */
		assert_int_equal(madvise(p + 10 * PAGE, 2 * PAGE, advice[i]), 0);
		assert_zeros(p + 10 * PAGE, 2 * PAGE);
		assert_true(fake_mr_read(client(), mr->rkey, (uintptr_t)p + 10 * PAGE, got, sizeof(got)));
		assert_zeros(got, sizeof(got));
		assert_int_equal(p[12 * PAGE], pattern(12 * PAGE, 3));
		assert_shared(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		assert_int_equal(madvise(p + 20 * PAGE, 8 * PAGE, MADV_DONTNEED), 0);
		assert_zeros(p + 20 * PAGE, 8 * PAGE);
		assert_int_equal(madvise(p + 4 * PAGE, 8 * PAGE, MADV_DONTNEED), 0);
		assert_zeros(p + 4 * PAGE, 8 * PAGE);
		assert_int_equal(p[3 * PAGE], pattern(3 * PAGE, 3));
		assert_int_equal(p[28 * PAGE], pattern(28 * PAGE, 3));
	}
	munmap(p + 16 * PAGE, PAGE);
	errno = 0;
	assert_int_equal(madvise(p, 32 * PAGE, MADV_DONTNEED), -1);
	assert_int_equal(errno, ENOMEM);
	munmap(p, 32 * PAGE);
}

static void memory_is_discarded_without_a_map_of_the_process(void **state)
{
	struct rnic_mem *mem = rnic_ctx(ctx)->s->mem;
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct rnic_procfs proc = mem->proc;

	(void)state;
	fill(p, 4 * PAGE, 3);
	mem->proc.maps = -1; /* as if the program had closed the descriptor */
	mem->proc.query = true;
	assert_int_equal(madvise(p, 4 * PAGE, MADV_DONTNEED), 0);
	mem->proc = proc;
	assert_zeros(p, 4 * PAGE);
	munmap(p, 4 * PAGE);
}

static void read_only_memory_is_discarded(void **state)
{
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	(void)state;
	fill(p, 4 * PAGE, 3);
	mr = ibv_reg_mr(pd, p, 4 * PAGE, RW);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(mprotect(p, 4 * PAGE, PROT_READ), 0);
	assert_int_equal(madvise(p + PAGE, 2 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(p[0], pattern(0, 3));
	assert_zeros(p + PAGE, 2 * PAGE);
	munmap(p, 4 * PAGE);
}

static void mappings_grow_beside_their_neighbours(void **state)
{
	static const unsigned pages[] = { 1, 16 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const size_t len = pages[i] * PAGE;
		uint8_t *p = mmap(NULL, 2 * len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), got[8];
		fill(p, 2 * len, 6);
		struct ibv_mr *a = ibv_reg_mr(pd, p, len, RW), *b = ibv_reg_mr(pd, p + len, len, RW);
		assert_non_null(a);
		assert_non_null(b);
		/* There is no room behind the mapping. */
		assert_ptr_equal(mremap(p, len, 4 * len, 0), MAP_FAILED);
		uint8_t *q = mremap(p, len, 4 * len, MREMAP_MAYMOVE);
		assert_ptr_not_equal(q, MAP_FAILED);
		assert_filled(q, len, 6);
		assert_zeros(q + len, 3 * len);
		memset(q + len, 0xee, 3 * len);
		/* The first region was moved with the mapping; the second one has lost no bytes. */
		memcpy(q, "further", 8);
		assert_true(fake_mr_read(client(), a->rkey, (uintptr_t)p, got, 8));
		assert_memory_equal(got, "further", 8);
		assert_shared(b);
		assert_int_equal(p[len], pattern(0, 2));
		struct ibv_mr *whole = ibv_reg_mr(pd, q, 4 * len, RW);
		assert_shared(whole);
		/* Shrinks, then grows in place, into the hole that the shrinking has left. */
		uint8_t *r = mremap(q, 4 * len, 2 * len, 0);
		assert_ptr_equal(r, q);
		assert_ptr_equal(mremap(q, 2 * len, 3 * len, 0), q);
		assert_zeros(q + 2 * len, len);
		ibv_dereg_mr(a);
		ibv_dereg_mr(b);
		ibv_dereg_mr(whole);
		munmap(q, 3 * len);
		munmap(p + len, len);
	}
}

static sigjmp_buf jump;
static void *fault_at;

static void their_handler(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	fault_at = info->si_addr;
	siglongjmp(jump, 1);
}

static void handlers_of_the_program_are_called(void **state)
{
	struct sigaction theirs = { .sa_sigaction = their_handler, .sa_flags = SA_SIGINFO }, before, now;
	uint8_t *none = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	writers_lose_nothing(1); /* librnic's handler is installed by now */
	assert_int_equal(sigaction(SIGSEGV, &theirs, &before), 0);
	assert_int_equal(sigaction(SIGSEGV, NULL, &now), 0);
	assert_ptr_equal(now.sa_sigaction, their_handler);
	writers_lose_nothing(1); /* librnic's handler still works */
	if (sigsetjmp(jump, 1) == 0)
		*(volatile uint8_t *)none = 1;
	assert_ptr_equal(fault_at, none);
	fault_at = NULL;
	if (sigsetjmp(jump, 1) == 0)
		*(volatile uint8_t *)none = 1; /* the signal mask is as before */
	assert_ptr_equal(fault_at, none);
	assert_int_equal(sigaction(SIGSEGV, &before, &now), 0);
	assert_ptr_equal(now.sa_sigaction, their_handler);
	munmap(none, PAGE);
}

static void locked_memory(void **state)
{
	uint8_t *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	fill(p, 16 * PAGE, 4);
	assert_int_equal(mlock(p, 10 * PAGE), 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, p + 100, 15 * PAGE, RW);
	assert_non_null(mr);
	assert_filled(p, 16 * PAGE, 4);
	assert_shared(mr);
	assert_int_equal(munlock(p, 16 * PAGE), 0);
	ibv_dereg_mr(mr);
	munmap(p, 16 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_watches_mappings_hears_of_the_programs_alone),
		cmocka_unit_test(own_stack),
		cmocka_unit_test(stack_of_a_thread),
		cmocka_unit_test(writers_lose_nothing_under_userfaultfd),
		cmocka_unit_test(writers_lose_nothing_under_the_signal),
		cmocka_unit_test(threads_of_the_library_survive_the_signal),
		cmocka_unit_test(realloc_of_registered_memory),
		cmocka_unit_test(realloc_of_memory_registered_in_pieces),
		cmocka_unit_test(discarded_memory_reads_as_zero),
		cmocka_unit_test(memory_is_discarded_without_a_map_of_the_process),
		cmocka_unit_test(read_only_memory_is_discarded),
		cmocka_unit_test(mappings_grow_beside_their_neighbours),
		cmocka_unit_test(handlers_of_the_program_are_called),
		cmocka_unit_test(locked_memory),
	};

	return cmocka_run_group_tests(tests, dev_setup, dev_teardown);
}
