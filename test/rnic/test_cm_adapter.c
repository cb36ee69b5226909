/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of a channel adapter: what rdma_cm gives a program for its queue pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm_rig.h"

#define RETRIES 7

/* Device 0 is a channel adapter. */
static int adapter_setup(void **state)
{
	fake_efa = true;
	return cm_setup(state);
}

static struct rdma_cm_id *listener_on(uint8_t last)
{
	struct sockaddr_in at = addr(last, 5000);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&at), 0);
	assert_int_equal(rdma_listen(id, 5), 0);
	return id;
}

/* Programs accept with the request's parameters; rnr_retry 0 ends the connection at the first late receive. */
static void a_request_asks_for_retries(void **state)
{
	struct rdma_cm_id *l = listener_on(1);

	(void)state;
	raise_request(l, 40);
	struct rdma_cm_event *ev = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *child = ev->id;
	assert_int_equal(ev->param.conn.retry_count, RETRIES);
	assert_int_equal(ev->param.conn.rnr_retry_count, RETRIES);
	assert_int_equal(ev->param.conn.responder_resources, 7);
	rdma_ack_cm_event(ev);
	assert_int_equal(rdma_destroy_id(child), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_asks_for_retries),
	};

	return cmocka_run_group_tests(tests, adapter_setup, cm_teardown);
}
