/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion events and asynchronous events, on channels and devices, and the effect of destroying an object on its
 * events.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "queue_rig.h"
#include "rnic/verbs/objects.h"

static void cq_event(struct ibv_cq *c)
{
	struct ipc_comp_event ev = { .cq_cookie = client()->cq[c->handle].cookie };

	fake_event(client(), client()->cq[c->handle].channel, &ev, sizeof(ev));
}

static void completion_events(void **state)
{
	struct qp_cq_shm *shm = client()->cq[cq->handle].shm;
	struct ibv_cq *got;
	void *context;

	(void)state;
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	assert_int_equal(shm->armed, QP_CQ_ARM_SOLICITED);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(shm->armed, QP_CQ_ARM_ANY);
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	assert_int_equal(shm->armed, QP_CQ_ARM_ANY);
	shm->armed = 0;
	cq_event(cq);
	cq_event(cq);
	assert_int_equal(ibv_get_cq_event(chan, &got, &context), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(context, &cap);
	assert_int_equal(ibv_get_cq_event(chan, &got, &context), 0);
	ibv_ack_cq_events(cq, 2);
	fcntl(chan->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(chan, &got, &context), -1);
	assert_int_equal(errno, EAGAIN);
	fcntl(chan->fd, F_SETFL, 0);
}

static void *destroy_it(void *arg)
{
	assert_int_equal(ibv_destroy_cq(arg), 0);
	return NULL;
}

/*
 * Destroying a CQ discards its events that were not fetched, waits until the fetched ones are acknowledged, and keeps
 * the events of other CQs.
 */
static void destroying_a_cq_with_events(void **state)
{
	struct ibv_cq *other = ibv_create_cq(ctx, 10, NULL, chan, 0), *got;
	void *context;
	pthread_t t;

	(void)state;
	cq_event(other);
	cq_event(cq);
	cq_event(other);
	cq_event(cq);
	assert_int_equal(ibv_get_cq_event(chan, &got, &context), 0);
	assert_ptr_equal(got, other);
	pthread_create(&t, NULL, destroy_it, other);
	usleep(20000);
	assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
	ibv_ack_cq_events(other, 1);
	pthread_join(t, NULL);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_get_cq_event(chan, &got, &context), 0);
		assert_ptr_equal(got, cq);
	}
	ibv_ack_cq_events(cq, 2);
	fcntl(chan->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(chan, &got, &context), -1);
	assert_int_equal(errno, EAGAIN);
	fcntl(chan->fd, F_SETFL, 0);
}

/* A child of fork() shares the descriptor of the channel, and destroys its copies of the objects. */
static void a_child_that_destroys_a_cq_leaves_its_parent_the_events(void **state)
{
	struct ibv_cq *other = ibv_create_cq(ctx, 10, NULL, chan, 0), *third = ibv_create_cq(ctx, 10, NULL, chan, 0);
	struct ibv_cq *got;
	void *context;
	int status;

	(void)state;
	cq_event(other);
	assert_int_equal(ibv_destroy_cq(third), 0); /* takes the events of all CQs out of the ring */
	pid_t pid = fork();
	if (pid == 0)
		_exit(ibv_destroy_cq(other));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	fcntl(chan->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(chan, &got, &context), 0);
	assert_ptr_equal(got, other);
	fcntl(chan->fd, F_SETFL, 0);
	ibv_ack_cq_events(other, 1);
	assert_int_equal(ibv_destroy_cq(other), 0);
}

static void asynchronous_events(void **state)
{
	struct ipc_async_event ev = { .type = IBV_EVENT_QP_FATAL, .cookie = peer()->cookie };
	struct ibv_async_event got;

	(void)state;
	assert_int_equal(peer()->made.async, rnic_ctx(ctx)->async.handle);
	assert_int_equal(client()->cq[cq->handle].async, rnic_ctx(ctx)->async.handle);
	fake_event(client(), rnic_ctx(ctx)->async.handle, &ev, sizeof(ev));
	ev = (struct ipc_async_event){ .type = IBV_EVENT_PORT_ERR, .cookie = 1 };
	fake_event(client(), rnic_ctx(ctx)->async.handle, &ev, sizeof(ev));
	assert_int_equal(ibv_get_async_event(ctx, &got), 0);
	assert_int_equal(got.event_type, IBV_EVENT_QP_FATAL);
	assert_ptr_equal(got.element.qp, qp);
	ibv_ack_async_event(&got);
	assert_int_equal(ibv_get_async_event(ctx, &got), 0);
	assert_int_equal(got.event_type, IBV_EVENT_PORT_ERR);
	assert_int_equal(got.element.port_num, 1);
	ibv_ack_async_event(&got);
}

/* Work queues belong to another device, whose library waits for the acknowledgement before it destroys the queue. */
static void an_event_of_another_devices_work_queue(void **state)
{
	struct ibv_wq wq = { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };
	struct ibv_async_event ev = { .event_type = IBV_EVENT_WQ_FATAL, .element.wq = &wq };

	(void)state;
	ibv_ack_async_event(&ev);
	assert_int_equal(wq.events_completed, 1);
}

static void a_token_of_a_device_that_there_is_not(void **state)
{
	(void)state;
	fake_far_token = true;
	errno = 0;
	assert_null(ibv_import_device(ctx->cmd_fd));
	assert_int_equal(errno, ENODEV);
	fake_far_token = false;
}

/* A context of a device gets the events of its own objects only. */
static void a_device_opened_twice(void **state)
{
	struct ibv_context *second = ibv_open_device(ctx->device);

	(void)state;
	assert_non_null(second);
	assert_int_not_equal(second->async_fd, ctx->async_fd);
	struct ibv_cq *its = ibv_create_cq(second, 10, NULL, NULL, 0);
	assert_int_not_equal(rnic_ctx(second)->async.handle, rnic_ctx(ctx)->async.handle);
	assert_int_equal(client()->cq[its->handle].async, rnic_ctx(second)->async.handle);
	assert_int_equal(ibv_destroy_cq(its), 0);
	assert_int_equal(ibv_close_device(second), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(completion_events),
		cmocka_unit_test(destroying_a_cq_with_events),
		cmocka_unit_test(a_child_that_destroys_a_cq_leaves_its_parent_the_events),
		cmocka_unit_test(asynchronous_events),
		cmocka_unit_test(an_event_of_another_devices_work_queue),
		cmocka_unit_test(a_token_of_a_device_that_there_is_not),
		cmocka_unit_test(a_device_opened_twice),
	};

	return cmocka_run_group_tests(tests, queue_setup, queue_teardown);
}
