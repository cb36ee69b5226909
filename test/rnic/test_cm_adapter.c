/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections of a channel adapter: what rdma_cm gives a program for its queue pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cm_rig.h"
#include "rnic/cm/cm.h"

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

/* The daemon reports something about an id of device 0. */
static void report(enum rdma_cm_event_type type, struct rdma_cm_id *id)
{
	struct ipc_cm_event ev = {
		.type = type, .id = cm_id(id)->handle, .local = ipc(1, 4000), .remote = ipc(1, 5000)
	};

	fake_cm(client(), &ev);
}

/* An id for a queue pair that the program brings up itself. The peer has accepted. */
static struct rdma_cm_id *accepted(struct ibv_qp **qp)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct sockaddr_in dst = addr(1, 5000);
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 2000), 0);
	report(RDMA_CM_EVENT_ADDR_RESOLVED, id);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ADDR_RESOLVED));
	attr.send_cq = attr.recv_cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	*qp = ibv_create_qp(id->pd, &attr);
	assert_non_null(*qp);
	struct rdma_conn_param p = { .qp_num = (*qp)->qp_num };
	assert_int_equal(rdma_connect(id, &p), 0);
	report(RDMA_CM_EVENT_CONNECT_RESPONSE, id);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_CONNECT_RESPONSE));
	assert_int_equal(ntohs(rdma_get_src_port(id)), 4000);
	return id;
}

static void ends(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	struct ibv_cq *cq = qp->send_cq;

	report(RDMA_CM_EVENT_DISCONNECTED, id);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_DISCONNECTED));
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void rdma_establish_asks_for_no_event(void **state)
{
	struct ibv_qp *qp;
	struct rdma_cm_id *id = accepted(&qp);

	(void)state;
	cm_id(id)->s->can = IPC_CAN_QUIET;
	assert_int_equal(rdma_establish(id), 0);
	assert_int_equal(client()->last.cm_connect.param.quiet, 1);
	assert_false(cm_id(id)->quiet);
	ends(id, qp);
}

static void an_older_daemons_event_after_rdma_establish_is_not_returned(void **state)
{
	struct ibv_qp *qp;
	struct rdma_cm_id *id = accepted(&qp);

	(void)state;
	cm_id(id)->s->can = 0;
	assert_int_equal(rdma_establish(id), 0);
	report(RDMA_CM_EVENT_ESTABLISHED, id);
	ends(id, qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_asks_for_retries),
		cmocka_unit_test(rdma_establish_asks_for_no_event),
		cmocka_unit_test(an_older_daemons_event_after_rdma_establish_is_not_returned),
		cmocka_unit_test(a_queue_pairs_attributes_permit_what_the_device_can),
	};

	return cmocka_run_group_tests(tests, adapter_setup, cm_teardown);
}
