/* SPDX-License-Identifier: BSD-3-Clause */
/* A child of fork() that still uses the queues of its parent: each call fails, and none of them waits. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "queue_rig.h"

#define HANG_S 20

static struct ibv_cq_ex *polled;
static sem_t taken, give;

static void completion(struct ibv_cq *at, uint64_t wr_id)
{
	const struct qp_cqe e = { .wr_id = wr_id, .op = IBV_WC_SEND, .qpn = qp->qp_num };

	fake_cqe(client(), at->handle, 0, &e);
}

/* Runs what() in a child, whose exit status it returns. 0: what() has found nothing wrong. */
static int in_child(int (*what)(void))
{
	int st = -1;
	const pid_t pid = fork();

	if (pid == 0) {
		alarm(HANG_S);
		_exit(what());
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_true(WIFEXITED(st));
	return WEXITSTATUS(st);
}

/* Takes the locks of a completion queue and of a send queue, as each call at them does for a while. */
static void *takes_locks(void *arg)
{
	struct ibv_poll_cq_attr none = { 0 };

	(void)arg;
	completion(ibv_cq_ex_to_cq(polled), 1);
	assert_int_equal(ibv_start_poll(polled, &none), 0);
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	sem_post(&taken);
	sem_wait(&give);
	ibv_wr_abort(ibv_qp_to_qp_ex(qp));
	ibv_end_poll(polled);
	return NULL;
}

static int calls_that_lock(void)
{
	struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_wc wc;

	if (ibv_poll_cq(ibv_cq_ex_to_cq(polled), 1, &wc) != -1 || errno != EIO)
		return 1;
	if (ibv_start_poll(polled, &none) != EIO)
		return 2;
	if (ibv_resize_cq(ibv_cq_ex_to_cq(polled), 50) != EIO)
		return 3;
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	return ibv_wr_complete(ex) == EIO ? 0 : 4;
}

static void a_child_need_not_wait_for_a_thread_that_had_a_lock(void **state)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 10 };
	struct ibv_poll_cq_attr none = { 0 };
	pthread_t t;

	(void)state;
	polled = ibv_create_cq_ex(ctx, &a);
	assert_non_null(polled);
	assert_int_equal(sem_init(&taken, 0, 0) | sem_init(&give, 0, 0), 0);
	assert_int_equal(pthread_create(&t, NULL, takes_locks, NULL), 0);
	sem_wait(&taken);
	assert_int_equal(in_child(calls_that_lock), 0);
	sem_post(&give);
	pthread_join(t, NULL);
	completion(ibv_cq_ex_to_cq(polled), 2);
	assert_int_equal(ibv_start_poll(polled, &none), 0);
	assert_int_equal(polled->wr_id, 2);
	ibv_end_poll(polled);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(polled)), 0);
}

static int polls(void)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_wc wc;

	if (ibv_poll_cq(ibv_cq_ex_to_cq(polled), 1, &wc) != -1 || errno != EIO)
		return 1;
	return ibv_start_poll(polled, &none) == EIO ? 0 : 2;
}

/* The parent has polled one of two completions, and knows of the other one. */
static void a_child_polls_none_of_its_parents_completions(void **state)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 10 };
	struct ibv_wc wc;

	(void)state;
	polled = ibv_create_cq_ex(ctx, &a);
	assert_non_null(polled);
	completion(ibv_cq_ex_to_cq(polled), 1);
	completion(ibv_cq_ex_to_cq(polled), 2);
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(polled), 1, &wc), 1);
	assert_int_equal(in_child(polls), 0);
	assert_int_equal(ibv_poll_cq(ibv_cq_ex_to_cq(polled), 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(polled)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_need_not_wait_for_a_thread_that_had_a_lock),
		cmocka_unit_test(a_child_polls_none_of_its_parents_completions),
	};

	return cmocka_run_group_tests(tests, queue_setup, queue_teardown);
}
