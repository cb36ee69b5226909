/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * librnic makes an id in the daemon only with the first call that needs the daemon. So an id takes fewer requests, and
 * programs see no difference.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "cm_rig.h"
#include "rnic/cm/cm.h"

#define ROUTED 5000 /* a port to which the fake daemon knows the route */
#define NOT    5001 /* a port to which it does not know the route */
#define NO_WAY 9    /* a port that no device of the fake daemon reaches */

static int opens(void **state)
{
	fake_opens = true;
	return cm_setup(state);
}

static int resolve(struct rdma_cm_id *id, uint16_t port)
{
	struct sockaddr_in dst = addr(1, port);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000);
}

/* Makes an id whose address is resolved. */
static struct rdma_cm_id *resolved(uint16_t port)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(resolve(id, port), 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	return id;
}

static uint32_t channels(void)
{
	uint32_t n = 0;

	for (size_t i = 0; i < RN_ARRAY_LEN(client()->chan); i++)
		n += client()->chan[i].used;
	return n;
}

/* ---- the devices: opened once, so these tests come first ---- */

static pid_t opener;

static void *opens_devices(void *arg)
{
	(void)arg;
	__atomic_store_n(&opener, gettid(), __ATOMIC_RELEASE);
	rdma_free_devices(rdma_get_devices(NULL));
	return NULL;
}

/* Whether the thread sleeps. */
static bool sleeps(pid_t tid)
{
	char path[64], state = '?';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	FILE *f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
	fclose(f);
	return state == 'S';
}

/* The thread waits in the middle of the call, for a lock that the test has. */
static void a_child_need_not_wait_for_a_thread_that_opened_the_devices(void **state)
{
	struct rnic_session *s = cm_channel(ch)->q.s;
	int st = -1;
	pthread_t t;

	(void)state;
	pthread_mutex_lock(&s->dev_lock);
	assert_int_equal(pthread_create(&t, NULL, opens_devices, NULL), 0);
	while (__atomic_load_n(&opener, __ATOMIC_ACQUIRE) == 0 || !sleeps(opener))
		sched_yield();
	pid_t pid = fork();
	if (pid == 0) {
		alarm(20);
		_exit(rdma_get_devices(NULL) != NULL ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &st, 0), pid);
	fake_refuse_later(fake, ENOMEM, IPC_ALLOC_PD, 0); /* so that the devices are still to be opened */
	pthread_mutex_unlock(&s->dev_lock);
	pthread_join(t, NULL);
	assert_int_equal(st, 0);
}

static void devices_that_cannot_all_be_opened_are_closed_again(void **state)
{
	static const uint16_t step[] = { IPC_CREATE_CHANNEL, IPC_ALLOC_PD };
	const uint32_t before = channels();
	int n;

	(void)state;
	for (uint32_t i = 0; i < 2 * RN_ARRAY_LEN(step); i++) {
		fake_refuse_later(fake, ENOMEM, step[i / 2], i % 2);
		assert_null(rdma_get_devices(&n));
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(channels(), before);
	}
	struct ibv_context **list = rdma_get_devices(&n);
	assert_non_null(list);
	assert_int_equal(n, FAKE_DEVS);
	rdma_free_devices(list);
}

static void more_private_data_than_a_connection_carries(void **state)
{
	struct rdma_cm_id *id = resolved(ROUTED);

	(void)state;
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
	cm_id(id)->connect_len = IPC_PRIV_MAX + 1; /* as rdma_create_ep() takes it from ai_connect */
	cm_id(id)->connect_data = calloc(1, cm_id(id)->connect_len);
	const uint32_t before = client()->requests;
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(client()->requests, before);
	struct rdma_conn_param p = { .private_data = "question", .private_data_len = 8 };
	cm_id(id)->connect_len = IPC_PRIV_MAX - 7;
	assert_int_equal(rdma_connect(id, &p), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(client()->requests, before);
	cm_id(id)->connect_len = IPC_PRIV_MAX;
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(client()->last.cm_connect.param.priv_len, IPC_PRIV_MAX);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* ai_connect comes first. It is sent once: the next connection of the id has the program's private data only. */
static void private_data_does_not_displace_that_of_the_address(void **state)
{
	struct rdma_conn_param p = { .private_data = "question", .private_data_len = 8 };
	const struct ipc_conn_param *sent = &client()->last.cm_connect.param;
	struct rdma_cm_id *id = resolved(ROUTED);

	(void)state;
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
	cm_id(id)->connect_len = 5;
	cm_id(id)->connect_data = (uint8_t *)strdup("route");
	assert_int_equal(rdma_connect(id, &p), 0);
	assert_int_equal(sent->priv_len, 13);
	assert_memory_equal(sent->priv, "routequestion", 13);
	assert_int_equal(rdma_connect(id, &p), 0);
	assert_int_equal(sent->priv_len, 8);
	assert_memory_equal(sent->priv, "question", 8);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void one_request_makes_the_id_and_finds_its_device_and_route(void **state)
{
	const uint32_t before = client()->requests;
	struct sockaddr_in src = addr(2, 4000), dst = addr(1, ROUTED);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, state, RDMA_PS_TCP), 0);
	assert_int_equal(client()->requests, before);
	assert_int_equal(rdma_resolve_addr(id, (struct sockaddr *)&src, (struct sockaddr *)&dst, 2000), 0);
	assert_int_equal(client()->requests, before + 1);
	const struct ipc_cm_open *r = &client()->last.cm_open;
	assert_int_equal(client()->last.type, IPC_CM_OPEN);
	assert_int_equal(r->datagram, 0);
	assert_int_equal(r->to.timeout_ms, 2000);
	assert_int_equal(r->to.has_src, 1);
	assert_int_equal(r->to.src.port, 4000);
	assert_int_equal(r->to.dst.port, ROUTED);
	assert_null(id->verbs);
	ev = next(RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_ptr_equal(ev->id, id);
	assert_ptr_equal(ev->id->context, state);
	assert_int_equal(ev->status, 0);
	rdma_ack_cm_event(ev);
	assert_string_equal(ibv_get_device_name(id->verbs->device), "rnic1");
	assert_int_equal(ntohs(rdma_get_src_port(id)), 4000);
	assert_int_equal(ntohs(rdma_get_dst_port(id)), ROUTED);

	const uint32_t opened = client()->requests; /* the first event of a device has opened the device */
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	ev = next(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_ptr_equal(ev->id, id);
	rdma_ack_cm_event(ev);
	assert_int_equal(client()->requests, opened);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(client()->last.type, IPC_CM_CONNECT);
	assert_int_equal(client()->last.cm_connect.id, cm_id(id)->handle);
	assert_no_event();
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(client()->last.type, IPC_CM_DESTROY_ID);
}

static void a_route_that_is_not_known_is_asked_for(void **state)
{
	struct rdma_cm_id *id = resolved(NOT);

	(void)state;
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	assert_int_equal(client()->last.type, IPC_CM_RESOLVE_ROUTE);
	assert_int_equal(client()->last.cm_resolve.id, cm_id(id)->handle);
	assert_no_event();
	raise_event(RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void a_route_is_resolved_once_and_before_connect(void **state)
{
	struct rdma_cm_id *id = resolved(ROUTED);
	const uint32_t before = client()->requests;

	(void)state;
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(client()->requests, before);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
	assert_int_equal(rdma_resolve_route(id, 2000),
			 0); /* rnicd refuses a second request for the route; the fake daemon does not */
	assert_int_equal(client()->last.type, IPC_CM_RESOLVE_ROUTE);
	assert_no_event();
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The neighbour may have gone since its route was last known. */
static void a_route_that_was_known_long_ago_is_asked_for(void **state)
{
	struct rdma_cm_id *id = resolved(ROUTED);

	(void)state;
	cm_id(id)->route_until = 1;
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	assert_int_equal(client()->last.type, IPC_CM_RESOLVE_ROUTE);
	assert_no_event();
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void no_way_is_an_event_and_the_id_may_try_again(void **state)
{
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(resolve(id, NO_WAY), 0);
	ev = next(RDMA_CM_EVENT_ADDR_ERROR);
	assert_ptr_equal(ev->id, id);
	assert_int_equal(ev->status, -ENODEV);
	rdma_ack_cm_event(ev);
	assert_null(id->verbs);
	assert_int_equal(resolve(id, ROUTED), 0);
	assert_int_equal(client()->last.type, IPC_CM_RESOLVE_ADDR);
	assert_int_equal(client()->last.cm_resolve.id, cm_id(id)->handle);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void a_refused_id_may_try_again(void **state)
{
	struct sockaddr_in src = addr(1, 6000);
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	fake_refuse(fake, EADDRINUSE, "");
	assert_int_equal(resolve(id, ROUTED), -1);
	assert_int_equal(errno, EADDRINUSE);
	assert_no_event();
	assert_int_equal(resolve(id, NO_WAY), 0);
	assert_int_equal(client()->last.type, IPC_CM_OPEN);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_ERROR));
	assert_int_equal(rdma_destroy_id(id), 0);

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	fake_refuse(fake, ENOMEM, "");
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&src), -1);
	assert_int_equal(client()->last.type, IPC_CM_CREATE_ID);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&src), 0);
	assert_int_equal(client()->last.type, IPC_CM_BIND);
	assert_int_equal(rdma_listen(id, 1), 0);
	assert_int_equal(client()->last.cm_listen.id, cm_id(id)->handle);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* An event channel is not destroyed while it has ids, whether or not these ids exist in the daemon. */
static void an_id_that_nothing_is_done_with_takes_no_request(void **state)
{
	const uint32_t before = client()->requests;
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP), 0);
	rdma_destroy_event_channel(ch);
	assert_int_equal(client()->requests, before);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(client()->requests, before);
	id = resolved(ROUTED); /* the channel still works */
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* A call that is not possible in the id's state makes the id in the daemon and is sent there; the daemon refuses it. */
static void any_call_makes_the_id(void **state)
{
	struct rdma_event_channel *other = rdma_create_event_channel();
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(client()->last.handle.handle, cm_id(id)->handle);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	assert_int_equal(client()->last.cm_resolve.id, cm_id(id)->handle);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_reject(id, NULL, 0), 0);
	assert_int_equal(client()->last.cm_reject.id, cm_id(id)->handle);
	assert_int_equal(rdma_destroy_id(id), 0);

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_migrate_id(id, other), 0);
	assert_int_equal(resolve(id, ROUTED), 0);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_no_event();
	assert_int_equal(rdma_get_cm_event(other, &ev), 0);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(other);
}

static void a_synchronous_id(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(resolve(id, NO_WAY), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(resolve(id, ROUTED), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(id, 2000), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void an_id_of_a_daemon_that_is_gone(void **state)
{
	struct rdma_cm_id *id, *none;

	(void)state;
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	fake_stop(fake);
	assert_int_equal(rdma_create_id(ch, &none, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(resolve(id, ROUTED), -1);
	assert_int_equal(errno, ENODEV);
	assert_int_equal(rdma_destroy_id(id), 0);
	fake = fake_start();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_need_not_wait_for_a_thread_that_opened_the_devices),
		cmocka_unit_test(devices_that_cannot_all_be_opened_are_closed_again),
		cmocka_unit_test(more_private_data_than_a_connection_carries),
		cmocka_unit_test(private_data_does_not_displace_that_of_the_address),
		cmocka_unit_test(one_request_makes_the_id_and_finds_its_device_and_route),
		cmocka_unit_test(a_route_that_is_not_known_is_asked_for),
		cmocka_unit_test(a_route_is_resolved_once_and_before_connect),
		cmocka_unit_test(a_route_that_was_known_long_ago_is_asked_for),
		cmocka_unit_test(no_way_is_an_event_and_the_id_may_try_again),
		cmocka_unit_test(a_refused_id_may_try_again),
		cmocka_unit_test(an_id_that_nothing_is_done_with_takes_no_request),
		cmocka_unit_test(any_call_makes_the_id),
		cmocka_unit_test(a_synchronous_id),
		cmocka_unit_test(an_id_of_a_daemon_that_is_gone),
	};

	return cmocka_run_group_tests(tests, opens, cm_teardown);
}
