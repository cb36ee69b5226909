/* SPDX-License-Identifier: BSD-3-Clause */
/* Addresses of the connection manager, calls in a wrong state, and events that wait or move to another channel. */
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
#include "wqe/qp_wqe.h"

static void binding(void **state)
{
	struct ipc_msg m;
	uint32_t other = fc_id(&srv.c, srv.chan), third = fc_id(&srv.c, srv.chan);
	const struct ipc_addr any = { .port = 7002 };

	(void)state;
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = fc_addr(9, 7001)),
			 EADDRNOTAVAIL);
	assert_string_equal(m.text, "no RDMA device has the address 10.77.0.9");
	const struct ipc_addr local = { .ip = { 0xfe, 0x80, [15] = 1 }, .port = 7001 };
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = local), EADDRNOTAVAIL);
	assert_string_equal(m.text, ""); /* no sentence: programs try all addresses of the host */
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = fc_addr(1, 7001)), 0);
	assert_int_equal(m.cm_bind_ok.dev, 0);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = fc_addr(1, 7003)), EINVAL);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = other, .addr = fc_addr(1, 7001)), EADDRINUSE);
	assert_string_equal(m.text, "port 7001 is in use");
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = other, .addr = any), 0);
	assert_int_equal(m.cm_bind_ok.dev, UINT32_MAX);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = third, .addr = fc_addr(2, 7002)), EADDRINUSE);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = third, .addr = fc_addr(2, 0)), 0);
	assert_true(m.cm_bind_ok.addr.port >= 32768); /* a free port was chosen */
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_DESTROY_ID, handle, .handle = srv.id), 0);
	uint32_t again = fc_id(&srv.c, srv.chan);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = again, .addr = fc_addr(1, 7001)), 0);
}

static void listening_on_any_address(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;
	const struct ipc_addr any = { .port = 7005 };

	(void)state;
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = any), 0);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_LISTEN, cm_listen, .id = srv.id), 0);
	resolve(&cli, cli.id, 1, 7005);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	struct ipc_addr want = fc_addr(1, 7005);
	assert_memory_equal(&ev.local, &want, sizeof(want));
}

static void no_way_to_the_address(void **state)
{
	struct ipc_msg m;
	struct ipc_addr far = { .ip = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 }, .port = 1 };
	uint32_t id = fc_id(&cli.c, cli.chan);

	(void)state;
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .timeout_ms = 100, .dst = far),
			 0);
	expect(&cli, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, NULL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .has_src = 1,
				 .src = fc_addr(77, 0), .dst = fc_addr(1, 1)),
			 0);
	expect(&cli, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV, NULL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .has_src = 1,
				 .src = fc_addr(1, 0), .dst = far),
			 0);
	expect(&cli, RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH, NULL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id), EINVAL);
	assert_string_equal(m.text, "resolve_addr needs a destination address");
}

#define OPEN(m, ...) \
	FC_CALL(&cli.c, m, IPC_CM_OPEN, cm_open, .channel = cli.chan, .to = { .timeout_ms = 100, __VA_ARGS__ })

static uint32_t ids_in_use(void)
{
	struct ipc_msg m;
	uint32_t id = fc_id(&cli.c, cli.chan);

	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DESTROY_ID, handle, .handle = id), 0);
	return id; /* the lowest free number, as all below are in use */
}

static void one_request_makes_an_id_with_its_addresses(void **state)
{
	struct pollfd p = { .fd = cli.efd, .events = POLLIN };
	struct ipc_msg m;
	struct ipc_addr far = { .ip = { [10] = 0xff, [11] = 0xff, 192, 0, 2, 1 }, .port = 1 };
	struct ipc_addr own = fc_addr(1, 0), dst = fc_addr(99, 7001);

	(void)state;
	/* no client has asked for this neighbour yet: the route to it is not known */
	assert_int_equal(OPEN(&m, .dst = dst), 0);
	assert_int_equal(m.cm_open_ok.status, 0);
	assert_int_equal(m.cm_open_ok.dev, 0);
	assert_int_equal(m.cm_open_ok.routed, 0);
	assert_memory_equal(m.cm_open_ok.local.ip, own.ip, sizeof(own.ip));
	assert_memory_equal(&m.cm_open_ok.remote, &dst, sizeof(dst));
	uint32_t id = m.cm_open_ok.handle;
	assert_int_equal(connect_id(&cli, id, cli.qp, &m), EINVAL);
	assert_string_equal(m.text, "connect is not possible: the id is in state addr-known");
	/* no event follows */
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_QUERY_DEV, query_dev, .dev = 0), 0);
	assert_int_equal(poll(&p, 1, 0), 0);

	assert_int_equal(OPEN(&m, .dst = far), 0);
	assert_int_equal(m.cm_open_ok.status, -ENODEV);
	id = m.cm_open_ok.handle;
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .dst = fc_addr(1, 1)), 0);
	expect(&cli, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	assert_int_equal(OPEN(&m, .has_src = 1, .src = fc_addr(1, 0), .dst = far), 0);
	assert_int_equal(m.cm_open_ok.status, -ENETUNREACH);
}

static void after_an_error_there_is_no_id(void **state)
{
	struct ipc_msg m;

	(void)state;
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = fc_addr(2, 7001)), 0);
	uint32_t n = ids_in_use();
	REFUSED(OPEN(&m, .dst = { .port = 1 }), EINVAL, "resolve_addr needs a destination address");
	REFUSED(OPEN(&m, .has_src = 1, .src = fc_addr(2, 7001), .dst = fc_addr(1, 1)), EADDRINUSE,
		"port 7001 is in use");
	assert_int_equal(ids_in_use(), n);
	REFUSED(FC_CALL(&cli.c, &m, IPC_CM_OPEN, cm_open, .channel = 99, .to = { .dst = fc_addr(1, 1) }), EINVAL,
		"there is no event channel 99 for connection manager events");
	assert_int_equal(ids_in_use(), n);
}

/* The neighbour has answered a client lately, so a connection needs no other request for the route. */
static void a_route_that_is_known_needs_no_request(void **state)
{
	struct ipc_msg m;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(OPEN(&m, .dst = fc_addr(1, 7001)), 0);
	assert_int_equal(m.cm_open_ok.routed, 1);
	assert_int_equal(connect_id(&cli, m.cm_open_ok.handle, cli.qp, &m), 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	assert_int_equal(OPEN(&m, .dst = fc_addr(1, 7001)), 0);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ROUTE, cm_resolve, .id = m.cm_open_ok.handle), 0);
	expect(&cli, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL); /* a client may ask all the same */
}

static void a_neighbour_that_does_not_answer(void **state)
{
	struct ipc_msg m;

	(void)state;
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = cli.id, .dst = fc_addr(99, 1)), 0);
	expect(&cli, RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ROUTE, cm_resolve, .id = cli.id, .timeout_ms = 100), 0);
	expect(&cli, RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, NULL);
	assert_int_equal(connect_id(&cli, cli.id, cli.qp, &m), EINVAL);
}

static void the_source_chooses_the_device(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;

	(void)state;
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = srv.id, .has_src = 1,
				 .src = fc_addr(1, 0), .dst = fc_addr(2, 9)),
			 0);
	expect(&srv, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &ev);
	assert_int_equal(ev.dev, 0);
	struct ipc_addr want = fc_addr(1, 0);
	assert_memory_equal(ev.local.ip, want.ip, 16);
}

static void calls_out_of_order(void **state)
{
	struct ipc_msg m;
	uint32_t id = fc_id(&cli.c, cli.chan);

	(void)state;
#define OUT_OF_ORDER(rc, what) \
	do { \
		assert_int_equal(rc, EINVAL); \
		assert_string_equal(m.text, what " is not possible: the id is in state idle"); \
	} while (0)
	OUT_OF_ORDER(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ROUTE, cm_resolve, .id = id), "resolve_route");
	OUT_OF_ORDER(connect_id(&cli, id, cli.qp, &m), "connect");
	OUT_OF_ORDER(FC_CALL(&cli.c, &m, IPC_CM_ACCEPT, cm_connect, .id = id, .qp = cli.qp), "accept");
	OUT_OF_ORDER(FC_CALL(&cli.c, &m, IPC_CM_REJECT, cm_reject, .id = id), "reject");
	OUT_OF_ORDER(FC_CALL(&cli.c, &m, IPC_CM_DISCONNECT, handle, .handle = id), "disconnect");
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_LISTEN, cm_listen, .id = id),
			 0); /* without bind: on any address, at a free port */
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_LISTEN, cm_listen, .id = id), EINVAL);
}

static void connects_that_cannot_be(void **state)
{
	struct ipc_msg m;
	struct ipc_cm_event ev;

	(void)state;
	listen_on(&srv, 1, 7001);
	resolve(&cli, cli.id, 1, 7001);
	assert_int_equal(connect_id(&cli, cli.id, 99, &m), EINVAL);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_CONNECT, cm_connect, .id = cli.id, .qp = cli.qp,
				 .param = { .priv_len = 513 }),
			 EINVAL);
	assert_string_equal(m.text, "private data of 513 bytes: at most 512 are possible");
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_CONNECT, cm_connect, .id = cli.id, .qp = cli.qp,
				 .param = { .priv_len = 509 }),
			 EINVAL);
	assert_string_equal(m.text, "the private data is too long: 508 bytes with MPA revision 2, 512 with 1");
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_CONNECT, cm_connect, .id = cli.id, .qp = cli.qp,
				 .param = { .priv_len = 508 }),
			 0);
	expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
	uint32_t second = fc_id(&cli.c, cli.chan);
	resolve(&cli, second, 1, 7001);
	assert_int_equal(connect_id(&cli, second, cli.qp, &m), EINVAL);
	assert_string_equal(m.text, "the queue pair is connected already, or in a state that cannot be connected");
}

static uint32_t worker_of_qp(const struct side *s)
{
	const struct qp_shm *shm = (const struct qp_shm *)(const void *)(s->c.queues + FC_PLACE(1));

	return __atomic_load_n(&shm->worker, __ATOMIC_ACQUIRE);
}

/* Each fixed port gives the flow to one of the two workers, and so does each port that the peer chooses. */
static void a_connected_queue_pair_stays_with_its_worker(void **state)
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
	const uint32_t at_cli = worker_of_qp(&cli), at_srv = worker_of_qp(&srv);
	for (uint16_t i = 0; i < 16; i++) {
		uint32_t id = fc_id(&cli.c, cli.chan), more = fc_qp(&cli.c, 20, cli.pd, cli.cq, NULL);
		assert_int_equal(
			FC_CALL(&cli.c, &m, IPC_CM_BIND, cm_bind, .id = id, .addr = fc_addr(2, (uint16_t)(20000 + i))),
			0);
		resolve(&cli, id, 1, 7001);
		assert_int_equal(connect_id(&cli, id, cli.qp, &m), EINVAL);
		assert_int_equal(worker_of_qp(&cli), at_cli);
		assert_int_equal(connect_id(&cli, id, more, &m), 0);
		expect(&srv, RDMA_CM_EVENT_CONNECT_REQUEST, 0, &ev);
		assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_ACCEPT, cm_connect, .id = ev.id, .qp = srv.qp), ENOTCONN);
		assert_int_equal(worker_of_qp(&srv), at_srv);
		assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_REJECT, cm_reject, .id = ev.id), 0);
		expect(&cli, RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, NULL);
		assert_int_equal(FC_CALL(&cli.c, &m, IPC_DESTROY_QP, handle, .handle = more), 0);
	}
	/* the connection is as before */
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DISCONNECT, handle, .handle = cli.id), 0);
	expect(&cli, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	expect(&srv, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
}

static void events_move_with_their_id(void **state)
{
	struct ipc_cm_event ev;
	struct ipc_msg m;
	int efd;
	uint32_t to = fc_chan(&cli.c, 12, IPC_CHANNEL_CM, &efd);

	(void)state;
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_MIGRATE, cm_migrate, .id = cli.id, .channel = to), 0);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = cli.id, .dst = fc_addr(1, 1)), 0);
	fc_event(&cli.c, 12, efd, &ev);
	assert_int_equal(ev.type, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_MIGRATE, cm_migrate, .id = cli.id, .channel = 99), EINVAL);
	close(efd);
}

/* The ring has 16 slots; further events wait until there is room. */
static void more_events_than_the_queue_holds(void **state)
{
	struct ipc_msg m;
	struct ipc_cm_event ev;
	uint32_t id[40];

	(void)state;
	for (uint32_t i = 0; i < 40; i++) {
		id[i] = fc_id(&cli.c, cli.chan);
		assert_int_equal(
			FC_CALL(&cli.c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id[i], .dst = fc_addr(1, 1)), 0);
	}
	/* The destroyed id's waiting event is discarded. */
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DESTROY_ID, handle, .handle = id[39]), 0);
	for (uint32_t i = 0; i < 39; i++) {
		expect(&cli, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &ev);
		assert_int_equal(ev.id, id[i]);
	}
	struct pollfd p = { .fd = cli.efd, .events = POLLIN };
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_QUERY_DEV, query_dev, .dev = 0), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

static void receive(struct fc *c, struct ipc_msg *m)
{
	struct pollfd p = { .fd = c->sock, .events = POLLIN };

	assert_int_equal(poll(&p, 1, 30000), 1);
	assert_int_equal(ipc_recv(c->sock, m, NULL, NULL), 0);
}

static void requests_behind_a_silent_neighbour_are_answered_before_it(void **state)
{
	const struct ipc_addr silent = fc_addr(98, 0);
	struct ipc_msg m;

	(void)state;
	for (uint32_t i = 1; i <= 3; i++) {
		m = (struct ipc_msg){ .type = IPC_REACH, .len = IPC_MSG_LEN(reach), .seq = 1000 + i };
		memcpy(m.reach.ip, silent.ip, sizeof(m.reach.ip));
		assert_int_equal(ipc_send(cli.c.sock, &m, NULL, 0), 0);
	}
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_ALLOC_PD, alloc_pd, .dev = 0), 0);
	for (uint32_t i = 1; i <= 3; i++) {
		receive(&cli.c, &m);
		assert_int_equal(m.type, IPC_REACH);
		assert_in_range(m.seq, 1001, 1003);
		assert_int_equal(m.status, EHOSTUNREACH);
		assert_string_equal(m.text, "address handle: nobody answers at the address");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(binding),
		CASE(listening_on_any_address),
		CASE(no_way_to_the_address),
		CASE(one_request_makes_an_id_with_its_addresses),
		CASE(after_an_error_there_is_no_id),
		CASE(a_route_that_is_known_needs_no_request),
		CASE(a_neighbour_that_does_not_answer),
		CASE(requests_behind_a_silent_neighbour_are_answered_before_it),
		CASE(the_source_chooses_the_device),
		CASE(calls_out_of_order),
		CASE(connects_that_cannot_be),
		CASE(a_connected_queue_pair_stays_with_its_worker),
		CASE(events_move_with_their_id),
		CASE(more_events_than_the_queue_holds),
	};

	return cmocka_run_group_tests_name("cm_calls", tests, sides_start, sides_stop);
}
