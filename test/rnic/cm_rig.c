/* SPDX-License-Identifier: BSD-3-Clause */
#include "cm_rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rnic/cm/cm.h"

struct fake *fake;
struct rdma_event_channel *ch;

struct fake_client *client(void) { return fake_client(fake, 0); }

int cm_setup(void **state)
{
	(void)state;
	setenv("RNIC_REG_VERBOSE", "0", 1);
	fake = fake_start();
	ch = rdma_create_event_channel();
	return ch == NULL;
}

int cm_teardown(void **state)
{
	(void)state;
	rdma_destroy_event_channel(ch);
	fake_stop(fake);
	return 0;
}

struct sockaddr_in addr(uint8_t last, uint16_t port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };

	in.sin_addr.s_addr = htonl(0xc0000200 | last);
	return in;
}

struct ipc_addr ipc(uint8_t last, uint16_t port)
{
	return (struct ipc_addr){ .ip = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last }, .port = port };
}

void raise_event(enum rdma_cm_event_type type, struct rdma_cm_id *id, int status)
{
	struct ipc_cm_event ev = { .type = type,
				   .status = status,
				   .id = cm_id(id)->handle,
				   .dev = 1,
				   .local = ipc(2, 4000),
				   .remote = ipc(1, 5000) };

	fake_cm(client(), &ev);
}

void raise_request(struct rdma_cm_id *listener, uint32_t handle)
{
	struct ipc_cm_event ev = { .type = RDMA_CM_EVENT_CONNECT_REQUEST,
				   .id = handle,
				   .listen_id = cm_id(listener)->handle,
				   .dev = 0,
				   .local = ipc(1, 5000),
				   .remote = ipc(2, 4000),
				   .param = { .ird = 3, .ord = 7, .priv_len = 5, .priv = "hello" } };

	fake_cm(client(), &ev);
}

struct rdma_cm_event *next(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *ev;

	assert_int_equal(rdma_get_cm_event(ch, &ev), 0);
	assert_int_equal(ev->event, want);
	return ev;
}

bool readable(const struct rdma_event_channel *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

void assert_no_event(void)
{
	struct rdma_cm_event *ev;

	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(rdma_get_cm_event(ch, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	fcntl(ch->fd, F_SETFL, 0);
}
