/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles of neighbours that do not answer for long: the program's other calls go on meanwhile. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "dev_rig.h"
#include "rnic/verbs/objects.h"

#define ASKERS 3u
#define CALLS  200u /* of each thread */

/* Returns the errno of the call; 0: it has made a handle. */
static int ask(uint8_t host)
{
	struct ibv_ah_attr a = { .port_num = 1, .is_global = 1 };
	struct ibv_ah *ah;

	memcpy(a.grh.dgid.raw, (uint8_t[]){ [10] = 0xff, 0xff, 192, 0, 2, host }, 16);
	errno = 0;
	ah = ibv_create_ah(pd, &a);
	if (ah == NULL)
		return errno;
	ibv_destroy_ah(ah);
	return 0;
}

static void *asks(void *arg)
{
	*(int *)arg = ask(98);
	return NULL;
}

static void *calls(void *arg)
{
	for (uint32_t i = 0; i < CALLS; i++) {
		struct ibv_pd *p = ibv_alloc_pd(ctx);
		if (p == NULL || ibv_dealloc_pd(p) != 0 || ask(7) != 0 || ask(99) != EHOSTUNREACH)
			return arg;
	}
	return NULL;
}

static int result[ASKERS];
static pthread_t asker[ASKERS];

/* Threads whose requests the daemon holds. */
static void begin(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		result[i] = -1;
		assert_int_equal(pthread_create(&asker[i], NULL, asks, &result[i]), 0);
	}
	while (fake_held(fake) < n)
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void end(uint32_t n, int want)
{
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(pthread_join(asker[i], NULL), 0);
		assert_int_equal(result[i], want);
	}
}

static void other_calls_go_on(void **state)
{
	(void)state;
	begin(1);
	assert_null(calls(&result[0]));
	fake_held_answer(fake, 0);
	end(1, 0);
	assert_null(calls(&result[0]));
}

/* Answers come in another order than requests, to several threads. */
static void each_thread_gets_the_answer_to_its_request(void **state)
{
	pthread_t other[2];
	void *bad;

	(void)state;
	for (int status = 0; status <= EHOSTUNREACH; status += EHOSTUNREACH) {
		begin(ASKERS);
		for (uint32_t i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&other[i], NULL, calls, &result[i]), 0);
		assert_null(calls(&result[0]));
		fake_held_answer(fake, status);
		end(ASKERS, status);
		for (uint32_t i = 0; i < 2; i++) {
			assert_int_equal(pthread_join(other[i], &bad), 0);
			assert_null(bad);
		}
	}
}

static void a_child_of_fork_does_not_wait(void **state)
{
	int st;

	(void)state;
	begin(2);
	const pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(ask(7) == EIO ? 0 : 1); /* the parent's session is not the child's */
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	assert_null(calls(&result[0]));
	fake_held_answer(fake, EHOSTUNREACH);
	end(2, EHOSTUNREACH);
}

static void the_daemons_end_ends_the_wait(void **state)
{
	(void)state;
	begin(ASKERS);
	assert_int_equal(shutdown(client()->sock, SHUT_RDWR), 0);
	end(ASKERS, EIO);
	assert_int_equal(ask(7), EIO);
}

/* The daemon of the test is gone already. */
static int stop(void **state)
{
	(void)state;
	fake_stop(fake);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(other_calls_go_on, dev_setup, dev_teardown),
		cmocka_unit_test_setup_teardown(each_thread_gets_the_answer_to_its_request, dev_setup, dev_teardown),
		cmocka_unit_test_setup_teardown(a_child_of_fork_does_not_wait, dev_setup, dev_teardown),
		cmocka_unit_test_setup_teardown(the_daemons_end_ends_the_wait, dev_setup, stop),
	};

	return cmocka_run_group_tests_name("reach", tests, NULL, NULL);
}
