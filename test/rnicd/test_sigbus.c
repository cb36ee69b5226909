/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/loop.h"
#include "control/sigbus.h"

#define SIZE (UINT64_C(4) << 12)

static int poked;

/* In place of the loop's. */
void loop_poke(void) { poked++; }

/* cmocka takes SIGBUS for itself around each case. */
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
	assert_int_equal(p[4096 + 5], 0); /* would end the process */
	p[SIZE - 1] = 1;                  /* a write, another page */
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

static void watches_are_bounded_and_come_back(void **state)
{
	int w[1100], n = 0;

	(void)state;
	while (n < 1100 && (w[n] = sigbus_watch(&poked, 1)) >= 0)
		n++;
	assert_true(n > 256 * 3 && n < 1100); /* three regions for each of 256 clients */
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
		cmocka_unit_test(watches_are_bounded_and_come_back),
	};
	return cmocka_run_group_tests_name("sigbus", tests, NULL, NULL);
}
