/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager as clients see it: events in rdma_cm's order, states, refusals. */
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

#include "fake_client.h"

static struct daemon d;

/* A client with a CM channel (place 10), a PD, a CQ (0) and a QP (1) on each of two devices' names. */
struct side {
	struct fc c;
	uint32_t chan, pd, cq, qp;
	int efd;
	uint32_t id;
};

static struct side srv, cli;

static int start(void **state)
{
	(void)state;
	daemon_start(&d, "workers = 0,0"); /* two: connections and QPs must find each other */
	return 0;
}

static int stop(void **state)
{
	(void)state;
	daemon_stop(&d);
	return 0;
}

static void side_open(struct side *s, uint32_t dev)
{
	struct ipc_msg m;

	memset(s, 0, sizeof(*s));
	fc_join(&s->c, &d);
	s->chan = fc_chan(&s->c, 10, IPC_CHANNEL_CM, &s->efd);
	assert_int_equal(FC_CALL(&s->c, &m, IPC_ALLOC_PD, alloc_pd, .dev = dev), 0);
	s->pd = m.handle.handle;
	assert_int_equal(FC_CALL(&s->c, &m, IPC_CREATE_CQ, create_cq, .dev = dev, .shm_off = 1 << 20,
				 .ring_off = (1 << 20) + 4096, .ring_stride = 16384, .cqe = 64),
			 0);
	s->cq = m.handle.handle;
	s->qp = fc_qp(&s->c, 1, s->pd, s->cq, NULL);
	s->id = fc_id(&s->c, s->chan);
}

static int both(void **state)
{
	(void)state;
	side_open(&srv, 0);
	side_open(&cli, 1);
	return 0;
}

static void side_close(struct side *s)
{
	fc_close(&s->c);
	close(s->efd);
}

static int none(void **state)
{
	(void)state;
	side_close(&srv);
	side_close(&cli);
	assert_true(daemon_alive(&d));
	return 0;
}

static void expect(struct side *s, uint32_t type, int status, struct ipc_cm_event *ev)
{
	struct ipc_cm_event tmp;

	if (ev == NULL)
		ev = &tmp;
	fc_event(&s->c, 10, s->efd, ev);
	assert_int_equal(ev->type, type);
	assert_int_equal(ev->status, status);
}

static void listen_on(struct side *s, uint8_t host, uint16_t port)
{
	struct ipc_msg m;

	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_BIND, cm_bind, .id = s->id, .addr = fc_addr(host, port)), 0);
	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_LISTEN, cm_listen, .id = s->id, .backlog = 2), 0);
}

static void resolve(struct side *s, uint32_t id, uint8_t host, uint16_t port)
{
	struct ipc_msg m;
	struct ipc_cm_event ev;

	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .timeout_ms = 2000,
				 .dst = fc_addr(host, port)),
			 0);
	expect(s, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &ev);
	assert_int_equal(ev.dev, 1); /* the device that is not the destination itself */
	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_RESOLVE_ROUTE, cm_resolve, .id = id, .timeout_ms = 2000), 0);
	expect(s, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, &ev);
	assert_int_equal(ev.id, id);
}

static int connect_id(struct side *s, uint32_t id, uint32_t qp, struct ipc_msg *m)
{
	return FC_CALL(&s->c, m, IPC_CM_CONNECT, cm_connect, .id = id, .qp = qp,
		       .param = { .ird = 3, .ord = 4, .priv_len = 5, .priv = "hello" });
}

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
	assert_int_equal(ev.param.ird, 3); /* as the peer offers */
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
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DISCONNECT, handle, .handle = cli.id), 0); /* again: no harm */
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
	uint32_t again = fc_id(&cli.c, cli.chan); /* the QP is as good as new */
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
	listen_on(&srv, 1, 7001); /* the port is free again */
}

static void the_backlog_is_a_limit(void **state)
{
	struct ipc_msg m;
	uint32_t id[4], qp[4];

	(void)state;
	listen_on(&srv, 1, 7001); /* of 2 */
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
	for (uint32_t i = 0; i < 40; i++) { /* QPs and flows meet on either worker */
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

/* ---- addresses ---- */

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
	assert_string_equal(m.text, ""); /* a program that tries all addresses of the host is not told of this one */
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = fc_addr(1, 7001)), 0);
	assert_int_equal(m.cm_bind_ok.dev, 0);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = srv.id, .addr = fc_addr(1, 7003)), EINVAL);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = other, .addr = fc_addr(1, 7001)), EADDRINUSE);
	assert_string_equal(m.text, "port 7001 is in use");
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = other, .addr = any), 0);
	assert_int_equal(m.cm_bind_ok.dev, UINT32_MAX);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = third, .addr = fc_addr(2, 7002)), EADDRINUSE);
	assert_int_equal(FC_CALL(&srv.c, &m, IPC_CM_BIND, cm_bind, .id = third, .addr = fc_addr(2, 0)), 0);
	assert_true(m.cm_bind_ok.addr.port >= 32768); /* one was chosen */
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
			 0); /* without bind: any address, some port */
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

/* The ring has 16 slots; what does not fit is kept and comes when there is room. */
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
	/* One whose event waits is destroyed: its event is gone with it. */
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_CM_DESTROY_ID, handle, .handle = id[39]), 0);
	for (uint32_t i = 0; i < 39; i++) {
		expect(&cli, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &ev);
		assert_int_equal(ev.id, id[i]);
	}
	struct pollfd p = { .fd = cli.efd, .events = POLLIN };
	assert_int_equal(FC_CALL(&cli.c, &m, IPC_QUERY_DEV, query_dev, .dev = 0), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, both, none)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(a_connection_from_request_to_disconnect),
		CASE(disconnect_is_told_on_both_sides),
		CASE(a_reject_carries_private_data),
		CASE(nobody_listens),
		CASE(a_listener_that_goes_rejects_who_waits),
		CASE(the_backlog_is_a_limit),
		CASE(a_client_that_dies_disconnects_its_peer),
		CASE(a_peer_that_gives_up_before_accept),
		CASE(many_connections_one_after_the_other),
		CASE(binding),
		CASE(listening_on_any_address),
		CASE(no_way_to_the_address),
		CASE(a_neighbour_that_does_not_answer),
		CASE(the_source_chooses_the_device),
		CASE(calls_out_of_order),
		CASE(connects_that_cannot_be),
		CASE(events_move_with_their_id),
		CASE(more_events_than_the_queue_holds),
	};
	return cmocka_run_group_tests_name("cm", tests, start, stop);
}
