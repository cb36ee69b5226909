/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous ids of rdma_cm: a thread raises the events for which the calls wait. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "cm_rig.h"
#include "rnic/cm/cm.h"

#define HANG_S 30 /* a call that takes longer waits for an event that never comes */

struct script {
	enum ipc_type after;
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id **id;
};

static void *play(void *arg)
{
	uint32_t seen = 0;

	for (const struct script *s = arg; s->id != NULL; s++) {
		while (client()->last.type != s->after || client()->last.seq == seen)
			usleep(200);
		seen = client()->last.seq;
		if (s->type == RDMA_CM_EVENT_CONNECT_REQUEST)
			raise_request(*s->id, 50);
		else
			raise_event(s->type, *s->id, s->status);
	}
	return NULL;
}

static void synchronous_client(void **state)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr qa = { .cap = { 4, 4, 1, 1, 0 }, .sq_sig_all = 1, .qp_type = IBV_QPT_RC };
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *id;
	pthread_t t;

	(void)state;
	assert_int_equal(rdma_getaddrinfo("192.0.2.1", "5000", &hints, &res), 0);
	assert_null(res->ai_src_addr);
	assert_memory_equal(res->ai_dst_addr, &dst, sizeof(dst));
	assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
	/* The steps of rdma_create_ep() one by one, so that the thread knows the id. */
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	struct script script[] = { { IPC_CM_RESOLVE_ADDR, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &id },
				   { IPC_CM_RESOLVE_ROUTE, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, &id },
				   { IPC_CM_CONNECT, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, &id },
				   { IPC_CM_CONNECT, RDMA_CM_EVENT_ESTABLISHED, 0, &id },
				   { IPC_CM_DISCONNECT, RDMA_CM_EVENT_DISCONNECTED, 0, &id },
				   { 0 } };
	pthread_create(&t, NULL, play, script);
	assert_int_equal(rdma_resolve_addr(id, NULL, res->ai_dst_addr, 1000), 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	assert_int_equal(rdma_create_qp(id, NULL, &qa), 0);
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
	alarm(HANG_S);
	assert_int_equal(rdma_disconnect(id), 0);
	alarm(0);
	assert_int_equal(rdma_connect(id, NULL), 0);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(rdma_disconnect(id), 0);
	pthread_join(t, NULL);
	/* The connection has ended already, so no event comes. */
	alarm(HANG_S);
	assert_int_equal(rdma_disconnect(id), 0);
	alarm(0);
	rdma_destroy_ep(id);
	rdma_freeaddrinfo(res);
}

static void synchronous_server(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *res;
	struct ibv_qp_init_attr qa = { .cap = { 4, 4, 1, 1, 0 }, .sq_sig_all = 1 };
	struct rdma_cm_id *listener, *id = NULL;
	pthread_t t;

	(void)state;
	assert_int_equal(rdma_getaddrinfo(NULL, "5000", &hints, &res), 0);
	assert_non_null(res->ai_src_addr);
	assert_int_equal(rdma_create_ep(&listener, res, NULL, &qa), 0);
	assert_int_equal(rdma_get_request(listener, &id), -1);
	assert_int_equal(errno, EINVAL);
	struct script script[] = { { IPC_CM_LISTEN, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &listener },
				   { IPC_CM_ACCEPT, RDMA_CM_EVENT_ESTABLISHED, 0, &id },
				   { 0 } };
	pthread_create(&t, NULL, play, script);
	assert_int_equal(rdma_listen(listener, 0), 0);
	assert_int_equal(rdma_get_request(listener, &id), 0);
	assert_non_null(id->qp);
	assert_ptr_not_equal(id->channel, listener->channel);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(rdma_accept(id, NULL), 0);
	pthread_join(t, NULL);
	rdma_destroy_ep(id);
	rdma_destroy_ep(listener);
	rdma_freeaddrinfo(res);
}

static void a_datagram_server_does_not_wait_for_what_it_has_accepted(void **state)
{
	struct ibv_qp_init_attr qa = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_UD };
	struct sockaddr_in src = addr(1, 5000);
	struct rdma_cm_id *listener, *id = NULL;
	pthread_t t;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &listener, NULL, RDMA_PS_UDP), 0);
	assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&src), 0);
	struct script script[] = { { IPC_CM_LISTEN, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &listener }, { 0 } };
	pthread_create(&t, NULL, play, script);
	assert_int_equal(rdma_listen(listener, 0), 0);
	assert_int_equal(rdma_get_request(listener, &id), 0);
	pthread_join(t, NULL);
	assert_int_equal(rdma_create_qp(id, NULL, &qa), 0);
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_null(id->event);
	alarm(10);
	assert_int_equal(rdma_destroy_id(listener), 0);
	alarm(0);
	rdma_destroy_ep(id);
}

static void an_end_point_leaves_no_receive_queue_behind(void **state)
{
	struct ibv_qp_init_attr qa = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct script script[2] = { { 0 } };
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *id;
	pthread_t t;

	(void)state;
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	script[0] = (struct script){ IPC_CM_RESOLVE_ADDR, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &id };
	pthread_create(&t, NULL, play, script);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1000), 0);
	pthread_join(t, NULL);
	struct ibv_pd *pd = ibv_alloc_pd(id->verbs);
	assert_non_null(pd);
	assert_int_equal(rdma_create_srq(id, pd, &sa), 0);
	assert_int_equal(rdma_create_qp(id, pd, &qa), 0);
	const struct fake_srq *srq = &client()->srq[id->srq->handle];
	assert_true(srq->used);
	rdma_destroy_ep(id);
	assert_false(srq->used);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(synchronous_client),
		cmocka_unit_test(synchronous_server),
		cmocka_unit_test(a_datagram_server_does_not_wait_for_what_it_has_accepted),
		cmocka_unit_test(an_end_point_leaves_no_receive_queue_behind),
	};

	return cmocka_run_group_tests(tests, cm_setup, cm_teardown);
}
