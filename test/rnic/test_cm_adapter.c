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

static int access_of(struct rdma_cm_id *id)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask;

	assert_int_equal(rdma_init_qp_attr(id, &a, &mask), 0);
	assert_true((mask & IBV_QP_ACCESS_FLAGS) != 0);
	return a.qp_access_flags;
}

static void a_queue_pairs_attributes_permit_what_the_device_can(void **state)
{
	const int iwarp = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *l = listener_on(1), *id;

	(void)state;
	assert_int_equal(access_of(l), iwarp | IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(rdma_destroy_id(l), 0);
	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000), 0);
	raise_event(RDMA_CM_EVENT_ADDR_RESOLVED, id, 0); /* device 1 */
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	assert_int_equal(access_of(id), iwarp);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_asks_for_retries),
		cmocka_unit_test(a_queue_pairs_attributes_permit_what_the_device_can),
	};

	return cmocka_run_group_tests(tests, adapter_setup, cm_teardown);
}
