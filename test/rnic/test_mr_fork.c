/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory across fork() and the other ways to start a process. */
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
 * A child made by fork() gets a copy of registered memory, as the kernel copies pinned memory: the parent does not see
 * what the child writes, nor the child what the parent and the daemon write. The memory may be the stack that the child
 * runs on.
 */
static void fork_copies_what_was_moved(void **state)
{
	uint8_t here[64];
	uint8_t *p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *heap[100];
	struct ibv_mr *mr[100];
	int st;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		heap[i] = malloc(100);
		snprintf(heap[i], 100, "block %u", i);
		mr[i] = i % 2 == 0 ? ibv_reg_mr(pd, heap[i], 100, RW) : NULL;
	}
	struct ibv_mr *page = ibv_reg_mr(pd, p, 4 * PAGE, RW);
	assert_non_null(page);
	struct ibv_mr *stack = ibv_reg_mr(pd, here, sizeof(here), RW);
	assert_non_null(stack);
	strcpy((char *)here, "the stack");
	memcpy(p + 2 * PAGE, "whole", 6);
	int told[2];
	assert_int_equal(pipe(told), 0);
	pid_t pid = fork();
	if (pid == 0) {
		char c;
		/* The parent has changed its own copy meanwhile. */
		if (read(told[0], &c, 1) != 1 || strcmp((char *)here, "the stack") != 0 ||
		    strcmp((char *)p + 2 * PAGE, "whole") != 0)
			_exit(1);
		strcpy((char *)here, "the child's");
		for (unsigned i = 0; i < 100; i++)
			memset(heap[i], 'x', 99);
		for (unsigned i = 0; i < 1000; i++)
			free(malloc(i * 13));
		p[0] = 42;
		_exit(0);
	}
	assert_true(fake_mr_write(client(), page->rkey, (uintptr_t)p + 2 * PAGE, "other", 6));
	strcpy((char *)here, "the parent's");
	assert_int_equal(write(told[1], "x", 1), 1);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_string_equal(here, "the parent's");
	close(told[0]);
	close(told[1]);
	ibv_dereg_mr(stack);
	for (unsigned i = 0; i < 100; i++) {
		char want[100];
		snprintf(want, sizeof(want), "block %u", i);
		assert_string_equal(heap[i], want);
		if (mr[i] != NULL)
			ibv_dereg_mr(mr[i]);
		free(heap[i]);
	}
	assert_int_equal(p[0], 0);
	assert_string_equal(p + 2 * PAGE, "other");
	assert_shared(page);
	ibv_dereg_mr(page);
	munmap(p, 4 * PAGE);
}

/* A child opens a session of its own, beside the one that it has inherited; another child executes another program. */
static void children_start_afresh(void **state)
{
	uint8_t *p = malloc(10000);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, 10000, RW);
	int st;

	(void)state;
	assert_non_null(mr);
	fill(p, 10000, 21);
	pid_t pid = fork();
	if (pid == 0) {
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *c = list != NULL ? ibv_open_device(list[0]) : NULL;
		struct ibv_pd *own = c != NULL ? ibv_alloc_pd(c) : NULL;
		struct ibv_mr *again = own != NULL ? ibv_reg_mr(own, p, 10000, RW) : NULL;
		if (again == NULL)
			_exit(1);
		fill(p, 10000, 22);
		_exit(ibv_dereg_mr(again) != 0 || ibv_dealloc_pd(own) != 0 || ibv_close_device(c) != 0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_filled(p, 10000, 21);
	pid = fork();
	if (pid == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_shared(mr);
	ibv_dereg_mr(mr);
	free(p);
}

/* Children of posix_spawn(), system() and popen() run in the parent's own memory until they execute another program. */
static void programs_are_started_by_other_means_than_fork(void **state)
{
	static char *const argv[] = { (char *)(uintptr_t) "true", NULL };
	uint8_t here[5000], *heap = malloc(5000);
	struct ibv_mr *a = ibv_reg_mr(pd, here, sizeof(here), RW), *b = ibv_reg_mr(pd, heap, 5000, RW);
	char line[8] = "";
	pid_t pid;
	int st;

	(void)state;
	assert_non_null(a);
	assert_non_null(b);
	fill(here, sizeof(here), 5);
	fill(heap, 5000, 6);
	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(system("exit 3"), 3 << 8);
	FILE *f = popen("echo told", "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "told\n");
	assert_int_equal(pclose(f), 0);
	assert_filled(here, sizeof(here), 5);
	assert_filled(heap, 5000, 6);
	assert_shared(a);
	assert_shared(b);
	ibv_dereg_mr(a);
	ibv_dereg_mr(b);
	free(heap);
}

/* Threads use heaps that are partly registered while another thread forks: the child must not wait for their locks. */
static void *use_heap(void *stop)
{
	unsigned seed = (unsigned)(uintptr_t)&seed;
	struct ibv_mr *mr[20];
	void *p[64] = { 0 };

	for (unsigned i = 0; i < RN_ARRAY_LEN(mr); i++)
		mr[i] = ibv_reg_mr(pd, malloc(200), 200, RW);
	while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
		unsigned k = (unsigned)rand_r(&seed) % 64;
		free(p[k]);
		p[k] = calloc(1, (size_t)rand_r(&seed) % 3000);
	}
	for (unsigned k = 0; k < 64; k++)
		free(p[k]);
	for (unsigned i = 0; i < RN_ARRAY_LEN(mr); i++) {
		void *block = mr[i]->addr;
		ibv_dereg_mr(mr[i]);
		free(block);
	}
	return NULL;
}

static void threads_go_on_while_one_forks(void **state)
{
	pthread_t t[3];
	int stop = 0, st;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		pthread_create(&t[i], NULL, use_heap, &stop);
	usleep(50000);
	for (unsigned i = 0; i < 50; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			for (unsigned k = 0; k < 100; k++)
				free(malloc(k * 31));
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &st, 0), pid);
		assert_int_equal(st, 0);
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

/* The daemon has ended and was started again many times since the memory was moved. */
static void fork_copies_what_an_early_session_has_moved(void **state)
{
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, PAGE, RW);
	int st;

	assert_non_null(mr);
	ibv_dereg_mr(mr);
	p[0] = 1;
	for (unsigned i = 0; i < 12; i++) {
		dev_teardown(state);
		dev_setup(state);
	}
	pid_t pid = fork();
	if (pid == 0) {
		p[0] = 2;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_int_equal(p[0], 1);
	munmap(p, PAGE);
}

/* Blocks of rnic_alloc() stay shared, so what a child frees or discards is still the parent's. */
static void a_child_takes_no_blocks_from_its_parent(void **state)
{
	char *freed = rnic_alloc(PAGE), *discarded = rnic_alloc(PAGE);
	int st;

	(void)state;
	strcpy(freed, "the parent's");
	strcpy(discarded, "the parent's, too");
	pid_t pid = fork();
	if (pid == 0) {
		rnic_free(freed);
		_exit(madvise(discarded, PAGE, MADV_DONTNEED) != 0);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(st, 0);
	assert_string_equal(freed, "the parent's");
	assert_string_equal(discarded, "the parent's, too");
	rnic_free(freed);
	rnic_free(discarded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork_copies_what_was_moved),
		cmocka_unit_test(children_start_afresh),
		cmocka_unit_test(programs_are_started_by_other_means_than_fork),
		cmocka_unit_test(threads_go_on_while_one_forks),
		cmocka_unit_test(fork_copies_what_an_early_session_has_moved),
		cmocka_unit_test(a_child_takes_no_blocks_from_its_parent),
	};

	return cmocka_run_group_tests(tests, dev_setup, dev_teardown);
}
