/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Threads that pthread_cancel() ends in a call of the library: no lock stays held, so other threads may go on. Each
 * call is made by a thread that is to end at the call's first cancellation point, and then by the test itself.
 */
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "mr_rig.h"
#include "queue_rig.h"

#define HANG_S 20 /* a test that takes longer waits for a lock */

static void *make_the_call(void *arg)
{
	void (**call)(void) = arg;

	pthread_cancel(pthread_self());
	(*call)();
	pthread_testcancel();
	return NULL;
}

/* The call by a thread that is cancelled in it or behind it; then the same call by another thread. */
static void cancelled_and_called_again(void (*call)(void))
{
	void *end = NULL;
	pthread_t t;

	alarm(HANG_S);
	assert_int_equal(pthread_create(&t, NULL, make_the_call, &call), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	call();
	alarm(0);
}

static void list_devices(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list == NULL)
		abort();
	ibv_free_device_list(list);
}

static void the_first_call_of_a_process(void **state)
{
	(void)state;
	fake = fake_start();
	cancelled_and_called_again(list_devices);
	fake_stop(fake);
}

static void ask_the_daemon(void)
{
	struct ibv_pd *p = ibv_alloc_pd(ctx);

	if (p == NULL || ibv_dealloc_pd(p) != 0)
		abort();
}

static void a_request(void **state)
{
	(void)state;
	cancelled_and_called_again(ask_the_daemon);
}

static int file; /* memory that the daemon imports by this descriptor */

static void register_memory(void)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, p, PAGE, RW);

	if (mr == NULL || ibv_dereg_mr(mr) != 0 || munmap(p, PAGE) != 0)
		abort();
}

static void a_registration(void **state)
{
	(void)state;
	file = memfd_create("registered", MFD_CLOEXEC);
	assert_int_equal(ftruncate(file, PAGE), 0);
	fake_blind(fake, true);
	cancelled_and_called_again(register_memory);
	fake_blind(fake, false);
	close(file);
}

static void destroy_with_an_event(void)
{
	struct ibv_cq *c = ibv_create_cq(ctx, 10, NULL, chan, 0);
	struct ipc_comp_event ev = { .cq_cookie = client()->cq[c->handle].cookie };

	const int cancel = rnic_cancel_off(); /* fake_event() is no call of the library */
	fake_event(client(), client()->cq[c->handle].channel, &ev, sizeof(ev));
	rnic_cancel_back(cancel);
	if (ibv_destroy_cq(c) != 0)
		abort();
}

static void the_end_of_a_queue_with_an_event(void **state)
{
	(void)state;
	cancelled_and_called_again(destroy_with_an_event);
}

static void make_an_id(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xc0000201) };
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0 || rdma_bind_addr(id, (struct sockaddr *)&in) != 0 ||
	    rdma_destroy_id(id) != 0)
		abort();
}

static void an_id_of_the_connection_manager(void **state)
{
	(void)state;
	cancelled_and_called_again(make_an_id);
}

static void send_one(void)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;

	if (ibv_post_send(qp, &wr, &bad) != 0)
		abort();
}

/* Only the thread that clears need_wakeup wakes the worker. */
static void a_doorbell_that_wakes_the_worker(void **state)
{
	const uint32_t w = __atomic_load_n(&peer()->shm->worker, __ATOMIC_RELAXED);
	uint64_t v;

	(void)state;
	((struct ipc_ctrl *)(void *)client()->queues)->doorbell[w].need_wakeup = 1;
	fcntl(client()->wake, F_SETFL, O_NONBLOCK);
	cancelled_and_called_again(send_one);
	assert_int_equal(read(client()->wake, &v, 8), 8);
	take_send(peer());
	take_send(peer());
}

#define WITH_QUEUES(test) cmocka_unit_test_setup_teardown(test, queue_setup, queue_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_call_of_a_process),
		WITH_QUEUES(a_request),
		WITH_QUEUES(a_registration),
		WITH_QUEUES(the_end_of_a_queue_with_an_event),
		WITH_QUEUES(an_id_of_the_connection_manager),
		WITH_QUEUES(a_doorbell_that_wakes_the_worker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
