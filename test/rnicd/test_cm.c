/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager as clients see it: order of events, states, refusals. */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "cm_sides.h"

static void a_connection_from_request_to_disconnect(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	assert_int_equal(ev.listen_id, srv.id);
	assert_int_not_equal(ev.id, srv.id);
	assert_int_equal(ev.dev, 0);
	assert_int_equal(ev.local.port, 7001);
	assert_true(ev.param.priv_len >= 5);
	assert_memory_equal(ev.param.priv, "hello", 5);
	assert_int_equal(ev.param.ird, 3); /* as the peer has offered */
	assert_int_equal(ev.param.ord, 4);
	uint32_t id = ev.id;
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = id, .qp = srv.qp,
				 .param = { .ird = 4, .ord = 3, .priv_len = 3, .priv = "yes" }),
			 0);
	expect(&cli, RDMA_CM_EVENT_ESTABLISHED, 0, &ev);
	assert_memory_equal(ev.param.priv, "yes", 3);
	expect(&srv, RDMA_CM_EVENT_ESTABLISHED, 0, &ev);
	assert_int_equal(ev.id, id);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_QUERY_QP, handle, .handle = cli.qp), 0);
	assert_int_equal(m.query_qp_ok.state, 3); /* RTS */
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_DESTROY_QP, handle, .handle = srv.qp), 0);
	expect(&cli, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	expect(&srv, RDMA_CM_EVENT_DISCONNECTED, 0, &ev); /* also after the QP was destroyed */
	assert_int_equal(ev.id, id);
	/* repeated without harm */
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DISCONNECT, handle, .handle = cli.id), 0);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = id), 0);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = srv.id), 0);
}

static void disconnect_is_told_on_both_sides(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = ev.id, .qp = srv.qp), 0);
	expect(&cli, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	expect(&srv, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DISCONNECT, handle, .handle = cli.id), 0);
	expect(&cli, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	expect(&srv, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

/* rdma_establish(): the client itself says that the connection is established. */
static void who_establishes_a_connection_gets_no_event_of_it(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(connect_id(&cli, cli.id, 0, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = ev.id, .qp = srv.qp), 0);
	expect(&cli, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, NULL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_ACCEPT, cm_connect, .id = cli.id, .qp = cli.qp, .param.quiet = 1),
			 0);
	expect(&srv, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DISCONNECT, handle, .handle = ev.id), 0);
	expect(&cli, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	expect(&srv, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

static void a_reject_carries_private_data(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_REJECT, cm_reject, .id = ev.id, .priv_len = 2, .priv = "no"), 0);
	expect(&cli, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, &ev);
	assert_int_equal(ev.param.priv_len, 2);
	assert_memory_equal(ev.param.priv, "no", 2);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), EINVAL);
	assert_string_equal(m.text, "connect is not possible: the id is in state over");
	uint32_t again = fc_id(&cli.c, cli.chan); /* the QP can be used again */
	resolve(&cli, again, 1, 7001);
	assert_int_equal(connect_id(&cli, again, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
}

static void nobody_listens(void **state)
{
	struct ipc_msg m;

	(void)state;
	resolve(&cli, cli.id, 1, 7999);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), 0);
	expect(&cli, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, NULL);
}

static void a_listener_that_goes_rejects_who_waits(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = srv.id), 0);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = ev.id), 0);
	expect(&cli, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, NULL);
	srv.id = fc_id(&srv.c, srv.chan);
	listen_on(&srv, 1, 7001); /* the port can be used again */
}

static void the_backlog_is_a_limit(void **state)
{
	struct ipc_msg m;
	uint32_t id[4], qp[4];

	(void)state;
	listen_on(&srv, 1, 7001); /* with a backlog of 2 */
	for (uint32_t i = 0; i < 4; i++) {
		id[i] = fc_id(&cli.c, cli.chan);
		qp[i] = fc_qp(&cli.c, 20 + i, cli.pd, cli.cq, NULL);
		resolve(&cli, id[i], 1, 7001);
	}
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(connect_id(&cli, id[i], qp[i], &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	expect(&cli, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, NULL);
	expect(&cli, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, NULL);
}

static void a_client_that_dies_disconnects_its_peer(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;
	struct side third;

	(void)state;
	listen_on(&srv, 1, 7001);
	side_open(&third, 1);
	resolve(&third, third.id, 1, 7001);
	assert_int_equal(connect_id(&third, third.id, third.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = ev.id, .qp = srv.qp), 0);
	expect(&srv, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	side_close(&third);
	expect(&srv, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

static void a_peer_that_gives_up_before_accept(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;
	struct side third;

	(void)state;
	listen_on(&srv, 1, 7001);
	side_open(&third, 1);
	resolve(&third, third.id, 1, 7001);
	assert_int_equal(connect_id(&third, third.id, third.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	uint32_t id = ev.id;
	side_close(&third);
	expect(&srv, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET, &ev);
	assert_int_equal(ev.id, id);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = id, .qp = srv.qp), EINVAL);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = id), 0);
}

static void many_connections_one_after_the_other(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	for (uint32_t i = 0; i < 40; i++) { /* the QPs and the flow may belong to either worker */
		uint32_t id = fc_id(&cli.c, cli.chan), a = fc_qp(&cli.c, 20, cli.pd, cli.cq, NULL),
			 b = fc_qp(&srv.c, 20, srv.pd, srv.cq, NULL);
		resolve(&cli, id, 1, 7001);
		assert_int_equal(connect_id(&cli, id, a, &m), 0);
		expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
		uint32_t in = ev.id;
		assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = in, .qp = b), 0);
		expect(&cli, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		expect(&srv, RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
		assert_int_equal(FC_CALL(&cli.c, &m, IPC_DESTROY_QP, handle, .handle = a), 0);
		expect(&srv, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		expect(&cli, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
		assert_int_equal(FC_CALL(&srv.c, &m, IPC_DESTROY_QP, handle, .handle = b), 0);
		assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = in), 0);
		assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DESTROY_ID, handle, .handle = id), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_connection_from_request_to_disconnect),
		CASE(disconnect_is_told_on_both_sides),
		CASE(who_establishes_a_connection_gets_no_event_of_it),
		CASE(a_reject_carries_private_data),
		CASE(nobody_listens),
		CASE(a_listener_that_goes_rejects_who_waits),
		CASE(the_backlog_is_a_limit),
		CASE(a_client_that_dies_disconnects_its_peer),
		CASE(a_peer_that_gives_up_before_accept),
		CASE(many_connections_one_after_the_other),
	};

	return cmocka_run_group_tests_name("cm", tests, sides_start, sides_stop);
}
