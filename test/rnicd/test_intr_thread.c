/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls in DPDK's interrupt thread, and an interrupt that comes after DPDK's memory is unmapped. */
#define ALLOW_EXPERIMENTAL_API /* DPDK's calls that fill an interrupt handle */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <rte_eal.h>
#include <rte_interrupts.h>

#include "eal.h"
#include "plane/intr_thread.h"

#define LONG_ENOUGH_US 200000 /* the thread of an idle machine handles an interrupt within some microseconds */

static void here(void *arg) { *(pthread_t *)arg = pthread_self(); }

static void all_calls_are_made_in_one_other_thread(void **state)
{
	pthread_t first = pthread_self(), next = pthread_self();

	(void)state;
	intr_thread_run(here, &first);
	intr_thread_run(here, &next);
	assert_false(pthread_equal(first, pthread_self()));
	assert_true(pthread_equal(first, next));
}

static uint32_t seen;

static void count(void *fd)
{
	char byte;

	if (read(*(const int *)fd, &byte, 1) == 1)
		__atomic_fetch_add(&seen, 1, __ATOMIC_RELEASE);
}

/* A late event of a closed descriptor may be taken for one of a new memif connection with the same number. */
static void a_source_that_is_a_local_socket_does_not_block(void **state)
{
	struct rte_intr_handle *h = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
	assert_int_equal(rte_intr_fd_set(h, fd[0]), 0);
	assert_int_equal(rte_intr_type_set(h, RTE_INTR_HANDLE_EXT), 0);
	assert_int_equal(fcntl(fd[0], F_GETFL) & O_NONBLOCK, 0);
	assert_int_equal(rte_intr_callback_register(h, count, fd), 0);
	assert_int_equal(fcntl(fd[0], F_GETFL) & O_NONBLOCK, O_NONBLOCK);
	assert_int_equal(rte_intr_callback_unregister(h, count, fd), 1);
	close(fd[0]);
	close(fd[1]);
	rte_intr_instance_free(h);
}

/* The handle lies in DPDK's memory, as a memif's does. The thread would crash when it looks for the source. */
static void an_interrupt_after_the_end_of_dpdks_memory_is_not_looked_at(void **state)
{
	static int fd[2];
	struct rte_intr_handle *h = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_SHARED);

	(void)state;
	assert_non_null(h);
	assert_int_equal(pipe(fd), 0);
	assert_int_equal(rte_intr_fd_set(h, fd[0]), 0);
	assert_int_equal(rte_intr_type_set(h, RTE_INTR_HANDLE_EXT), 0);
	assert_int_equal(rte_intr_callback_register(h, count, fd), 0);
	assert_int_equal(write(fd[1], "1", 1), 1);
	while (__atomic_load_n(&seen, __ATOMIC_ACQUIRE) == 0)
		usleep(100);
	intr_thread_end();
	assert_int_equal(rte_eal_cleanup(), 0);
	assert_int_equal(write(fd[1], "1", 1), 1);
	usleep(LONG_ENOUGH_US);
	assert_int_equal(__atomic_load_n(&seen, __ATOMIC_ACQUIRE), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_calls_are_made_in_one_other_thread),
		cmocka_unit_test(a_source_that_is_a_local_socket_does_not_block),
		cmocka_unit_test(an_interrupt_after_the_end_of_dpdks_memory_is_not_looked_at), /* the last one */
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("intr_thread", tests, NULL, NULL);
}
