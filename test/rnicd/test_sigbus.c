/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/loop.h"
#include "control/sigbus.h"

#define SIZE (UINT64_C(4) << 12)

static int poked;

/* In place of the loop's function. */
void loop_poke(void) { poked++; }

/* Starts the handler in each case, since cmocka installs one for SIGBUS before each case. */
static volatile uint8_t *vanishing(int *fd)
{
	assert_true(sigbus_start());
	*fd = memfd_create("t", MFD_CLOEXEC);
	assert_int_equal(ftruncate(*fd, SIZE), 0);
	void *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static void a_page_that_vanished_reads_as_zeros(void **state)
{
	int fd;
	volatile uint8_t *p = vanishing(&fd);
	int w = sigbus_watch((const void *)(uintptr_t)p, SIZE);

	(void)state;
	assert_true(w >= 0);
	p[4096] = 7;
	assert_false(sigbus_any());
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(p[4096 + 5], 0); /* without the handler this would end the process */
	p[SIZE - 1] = 1;                  /* a write, to another page */
	assert_int_equal(p[SIZE - 1], 1);
	assert_int_equal(poked, 2);
	assert_true(sigbus_any());
	assert_false(sigbus_any());
	assert_true(sigbus_hit(w));
	assert_false(sigbus_hit(w));
	sigbus_forget(w);
	munmap((void *)(uintptr_t)p, SIZE);
	close(fd);
}

static void what_is_not_watched_ends_the_process(void **state)
{
	int st;
	pid_t pid = fork();

	(void)state;
	if (pid == 0) {
		int fd;
		volatile uint8_t *p = vanishing(&fd);
		sigbus_forget(sigbus_watch((const void *)(uintptr_t)p, SIZE));
		if (ftruncate(fd, 0) == 0)
			p[0] = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFSIGNALED(st) && WTERMSIG(st) == SIGBUS);
}

static void only_the_region_that_was_hit_is_told(void **state)
{
	int fd[2], w[2];
	volatile uint8_t *p[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		p[i] = vanishing(&fd[i]);
		w[i] = sigbus_watch((const void *)(uintptr_t)p[i], SIZE);
	}
	assert_int_equal(ftruncate(fd[1], 0), 0);
	p[1][0] = 1;
	p[0][0] = 1;
	assert_false(sigbus_hit(w[0]));
	assert_true(sigbus_hit(w[1]));
	for (int i = 0; i < 2; i++) {
		sigbus_forget(w[i]);
		munmap((void *)(uintptr_t)p[i], SIZE);
		close(fd[i]);
	}
}

static unsigned mappings(uintptr_t from, uint64_t len)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long a, b;
	unsigned n = 0;
	char line[512];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		n += sscanf(line, "%lx-%lx", &a, &b) == 2 && a < from + len && b > from;
	fclose(f);
	return n;
}

static void many_holes_cost_few_mappings(void **state)
{
	const uint64_t size = UINT64_C(4096) * 4096;
	int fd = memfd_create("t", MFD_CLOEXEC);

	(void)state;
	assert_true(sigbus_start());
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	volatile uint8_t *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int w = sigbus_watch((const void *)(uintptr_t)p, size);
	assert_int_equal(ftruncate(fd, 0), 0);
	for (uint64_t at = 0; at < size; at += 2 * 4096)
		p[at] = 1;
	/* one mapping for the whole, including the pages that were replaced before */
	assert_true(mappings((uintptr_t)p, size) <= 12);
	assert_int_equal(p[4096], 0);
	sigbus_forget(w);
	munmap((void *)(uintptr_t)p, size);
	close(fd);
}

static void watches_are_bounded_and_come_back(void **state)
{
	static int w[SIGBUS_WATCHES + 1];
	int n = 0;

	(void)state;
	while (n <= SIGBUS_WATCHES && (w[n] = sigbus_watch(&poked, 1)) >= 0)
		n++;
	assert_int_equal(n, SIGBUS_WATCHES);
	sigbus_forget(-1);
	assert_false(sigbus_hit(-1));
	for (int i = 0; i < n; i++)
		sigbus_forget(w[i]);
	w[0] = sigbus_watch(&poked, 1);
	assert_true(w[0] >= 0);
	sigbus_forget(w[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_page_that_vanished_reads_as_zeros),
		cmocka_unit_test(what_is_not_watched_ends_the_process),
		cmocka_unit_test(only_the_region_that_was_hit_is_told),
		cmocka_unit_test(many_holes_cost_few_mappings),
		cmocka_unit_test(watches_are_bounded_and_come_back),
	};
	return cmocka_run_group_tests_name("sigbus", tests, NULL, NULL);
}
