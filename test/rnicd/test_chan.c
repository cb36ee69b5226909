/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels that are refused (client_chan.c); the test plays the rest of the control thread. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/client.h"
#include "control/why.h"

/* ---- functions that the file under test calls ---- */

struct rnicd rnicd;
struct clients clients;
struct client_totals client_totals;
static int status; /* of the last answer */

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)c;
	(void)len;
	status = m->status;
}
void client_ok(struct client *c)
{
	(void)c;
	status = 0;
}
void client_ok_handle(struct client *c, uint32_t handle)
{
	assert_int_not_equal(handle, 0);
	client_ok(c);
}
void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	status = err;
}

static uint64_t descriptors; /* in the user's share */
static bool objects = true;  /* the user's share of memory for objects has room */
bool user_take(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	descriptors += t == USER_FDS ? n : 0;
	return t != USER_OBJECTS || objects;
}
void user_give(struct user *u, enum user_table t, uint32_t index, uint64_t n)
{
	(void)u;
	(void)index;
	descriptors -= t == USER_FDS ? n : 0;
}
enum span_verdict spans_take(struct spans *t, struct span *s)
{
	(void)t;
	(void)s;
	return SPAN_OK;
}
void spans_give(struct spans *t, struct span *s)
{
	(void)t;
	s->len = 0;
}

void ev_chan_fini(struct client_chan *ch) { (void)ch; }
void ev_push_node(struct client_chan *ch, struct ev_node *n) { (void)ch, (void)n; }
static struct rn_list *pushed; /* the list of the object that the last event is about */
bool ev_push_copy(struct client_chan *ch, struct rn_list *object, const void *data, uint32_t len)
{
	pushed = object;
	return ch != NULL && data != NULL && len > 0;
}
void ev_cancel_all(struct rn_list *object) { assert_ptr_equal(object, pushed); }
struct client_chan *client_orders(const struct client *c)
{
	(void)c;
	return NULL;
}
void why_cq(uint32_t client, int pid, uint32_t cqe) { (void)client, (void)pid, (void)cqe; }

/* ---- tests ---- */

static struct client cl;
static uint8_t ring[16384] RN_ALIGNED(4096);

/* Asks for a channel whose ring lies at `off`; returns the answer. */
static int create(uint64_t off, enum fds_kind kind)
{
	struct fds_given g = { .kind = kind, .fd = -1 };

	status = -1;
	cl.req.create_channel =
		(struct ipc_create_channel){ .kind = IPC_CHANNEL_COMP, .ring_off = off, .ring_slots = 16 };
	client_create_channel(&cl, &g, 1);
	return status;
}

static void a_refusal_names_its_cause(void **state)
{
	(void)state;
	cl.region[IPC_REGION_QUEUES] = (struct client_region){ .base = ring, .size = sizeof(ring) };
	assert_int_equal(create(8, FDS_EVENTFD), EINVAL); /* misaligned */
	assert_int_equal(create(0, FDS_MEMORY), EINVAL);
	objects = false;
	assert_int_equal(create(0, FDS_EVENTFD), ENOMEM);
	objects = true;
	assert_int_equal(descriptors, 0);
	assert_int_equal(create(0, FDS_EVENTFD), 0);
	cl.chan.live = 4096; /* the most that a client may have */
	assert_int_equal(create(4096, FDS_EVENTFD), EMFILE);
	cl.chan.live = 1;
	cl.req.handle.handle = 1;
	client_destroy_channel(&cl);
	assert_int_equal(status, 0);
	assert_int_equal(descriptors, 0);
	client_table_free(&cl, &cl.chan);
}

/* So an object's end withdraws its own events alone. */
static void an_event_is_in_the_list_of_its_object(void **state)
{
	static struct client_chan ch;
	static struct client_cq cq = { .c = &cl, .async = &ch };
	static struct client_qp qp = { .async = &ch };
	static struct client_srq srq = { .async = &ch };
	static struct client_target target = { .async = &ch };

	(void)state;
	ch.users = 4;
	owner_put(&cq.owner, OWNER_CQ, 1);
	owner_put(&qp.owner, OWNER_QP, 2);
	owner_put(&srq.owner, OWNER_SRQ, 3);
	client_fx(&(struct event_fx){ .type = QP_FX_CQ_ERROR, .owner = 1 });
	client_async_leave(cq.async, &cq.untold);
	client_fx(&(struct event_fx){ .type = QP_FX_QP_EVENT, .owner = 2 });
	client_async_leave(qp.async, &qp.untold);
	client_fx(&(struct event_fx){ .type = QP_FX_SRQ_EVENT, .owner = 3 });
	client_async_leave(srq.async, &srq.untold);
	rn_list_push_back(&qp.opens, &target.link);
	client_fx(&(struct event_fx){ .type = QP_FX_QP_EVENT, .owner = 2 });
	client_async_leave(target.async, &target.untold);
	assert_int_equal(ch.users, 0);
	owner_del(&cq.owner);
	owner_del(&qp.owner);
	owner_del(&srq.owner);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_refusal_names_its_cause),
					    cmocka_unit_test(an_event_is_in_the_list_of_its_object) };

	return cmocka_run_group_tests_name("chan", tests, NULL, NULL);
}
