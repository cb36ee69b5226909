/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "cm_sides.h"

struct daemon d;

struct side srv, cli;

int sides_start(void **state)
{
	(void)state;
	daemon_start(&d, "workers = 0,0"); /* two workers: a connection and its QP may belong to different ones */
	return 0;
}

int sides_stop(void **state)
{
	(void)state;
	daemon_stop(&d);
	return 0;
}

void side_open(struct side *s, uint32_t dev)
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

int sides_join(void **state)
{
	(void)state;
	side_open(&srv, 0);
	side_open(&cli, 1);
	return 0;
}

void side_close(struct side *s)
{
	fc_close(&s->c);
	close(s->efd);
}

int sides_leave(void **state)
{
	(void)state;
	side_close(&srv);
	side_close(&cli);
	assert_true(daemon_alive(&d));
	return 0;
}

void expect(struct side *s, uint32_t type, int status, struct ipc_cm_event *ev)
{
	struct ipc_cm_event tmp;

	if (ev == NULL)
		ev = &tmp;
	fc_event(&s->c, 10, s->efd, ev);
	assert_int_equal(ev->type, type);
	assert_int_equal(ev->status, status);
}

void listen_on(struct side *s, uint8_t host, uint16_t port)
{
	struct ipc_msg m;

	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_BIND, cm_bind, .id = s->id, .addr = fc_addr(host, port)), 0);
	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_LISTEN, cm_listen, .id = s->id, .backlog = 2), 0);
}

void resolve(struct side *s, uint32_t id, uint8_t host, uint16_t port)
{
	struct ipc_msg m;
	struct ipc_cm_event ev;

	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_RESOLVE_ADDR, cm_resolve, .id = id, .timeout_ms = 2000,
				 .dst = fc_addr(host, port)),
			 0);
	expect(s, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &ev);
	assert_int_equal(ev.dev, 1); /* the device that does not have the destination's address */
	assert_int_equal(FC_CALL(&s->c, &m, IPC_CM_RESOLVE_ROUTE, cm_resolve, .id = id, .timeout_ms = 2000), 0);
	expect(s, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, &ev);
	assert_int_equal(ev.id, id);
}

int connect_id(struct side *s, uint32_t id, uint32_t qp, struct ipc_msg *m)
{
	return FC_CALL(&s->c, m, IPC_CM_CONNECT, cm_connect, .id = id, .qp = qp,
		       .param = { .ird = 3, .ord = 4, .priv_len = 5, .priv = "hello" });
}
