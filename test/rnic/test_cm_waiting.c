/* SPDX-License-Identifier: BSD-3-Clause */
/* Events of rdma_cm that wait to be read while their id is destroyed or moves to another channel. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <rdma/rdma_cma.h>

#include "cm_rig.h"
#include "rnic/cm/cm.h"

/* The daemon reuses a handle as soon as its id is destroyed: events of the handle's next id must not be discarded. */
static void a_handle_is_given_out_again(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *listener, *id;
	struct rdma_cm_event *ev;
	uint32_t handle;

	(void)state;
	rdma_create_id(ch, &listener, NULL, RDMA_PS_TCP);
	rdma_bind_addr(listener, (struct sockaddr *)&any);
	rdma_listen(listener, 1);
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	handle = cm_id(id)->handle;
	raise_event(RDMA_CM_EVENT_CONNECT_ERROR, id, -ECONNRESET);
	raise_request(listener, handle);
	struct ipc_cm_event lost = { .type = RDMA_CM_EVENT_DISCONNECTED, .id = handle };
	fake_cm(client(), &lost);
	assert_int_equal(rdma_destroy_id(id), 0);
	client()->id[handle].used = true;
	ev = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	struct rdma_cm_id *child = ev->id;
	rdma_ack_cm_event(ev);
	ev = next(RDMA_CM_EVENT_DISCONNECTED);
	assert_ptr_equal(ev->id, child);
	rdma_ack_cm_event(ev);
	assert_no_event();
	rdma_destroy_id(child);
	rdma_destroy_id(listener);
}

static void migrating_takes_events_along(void **state)
{
	struct rdma_event_channel *ch2 = rdma_create_event_channel();
	struct rdma_cm_id *id, *other;
	struct rdma_cm_event *ev;

	(void)state;
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	rdma_create_id(ch, &other, NULL, RDMA_PS_TCP);
	raise_event(RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	raise_event(RDMA_CM_EVENT_ROUTE_ERROR, other, -1);
	raise_event(RDMA_CM_EVENT_CONNECT_ERROR, id, -ECONNRESET);
	assert_int_equal(rdma_migrate_id(id, ch2), 0);
	assert_ptr_equal(id->channel, ch2);
	raise_event(RDMA_CM_EVENT_DISCONNECTED, id, 0);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_ERROR));
	assert_no_event();
	static const enum rdma_cm_event_type want[] = { RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_CONNECT_ERROR,
							RDMA_CM_EVENT_DISCONNECTED };
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rdma_get_cm_event(ch2, &ev), 0);
		assert_int_equal(ev->event, want[i]);
		rdma_ack_cm_event(ev);
	}
	rdma_destroy_id(id);
	rdma_destroy_id(other);
	rdma_destroy_event_channel(ch2);
}

static void a_request_that_waits_moves_with_its_listener(void **state)
{
	struct rdma_event_channel *ch2 = rdma_create_event_channel();
	struct rdma_cm_id *l;
	struct rdma_cm_event *ev;

	(void)state;
	rdma_create_id(ch, &l, NULL, RDMA_PS_TCP);
	raise_request(l, 45);
	assert_int_equal(rdma_migrate_id(l, ch2), 0);
	assert_int_equal(client()->id[45].channel, cm_channel(ch2)->q.handle);
	assert_int_equal(rdma_get_cm_event(ch2, &ev), 0);
	struct rdma_cm_id *child = ev->id;
	assert_ptr_equal(child->channel, ch2);
	rdma_ack_cm_event(ev);
	assert_no_event();
	rdma_destroy_id(child);
	rdma_destroy_id(l);
	rdma_destroy_event_channel(ch2);
}

#define CROWD_FIRST 100u
#define CROWD       400u

/* Requests that wait for a program that reads no events: more than the ring of a channel has room for. */
static void raise_crowd(struct rdma_cm_id *l)
{
	for (uint32_t i = 0; i < CROWD; i++) {
		struct rdma_cm_id *other;
		raise_request(l, CROWD_FIRST + i);
		if (i % (CROWD / 4) != 0)
			continue;
		assert_int_equal(rdma_create_id(ch, &other, NULL, RDMA_PS_TCP), 0);
		assert_int_equal(rdma_destroy_id(other), 0); /* takes all events out of the ring */
	}
}

static void all_requests_that_wait_end_with_their_listener(void **state)
{
	struct rdma_cm_id *l;

	(void)state;
	rdma_create_id(ch, &l, NULL, RDMA_PS_TCP);
	raise_crowd(l);
	assert_int_equal(rdma_destroy_id(l), 0);
	for (uint32_t i = 0; i < CROWD; i++)
		assert_false(client()->id[CROWD_FIRST + i].used);
	assert_no_event();
}

static void all_requests_that_wait_move_with_their_listener(void **state)
{
	struct rdma_event_channel *ch2 = rdma_create_event_channel();
	struct rdma_cm_id *l;
	struct rdma_cm_event *ev;

	(void)state;
	rdma_create_id(ch, &l, NULL, RDMA_PS_TCP);
	raise_crowd(l);
	assert_int_equal(rdma_migrate_id(l, ch2), 0);
	for (uint32_t i = 0; i < CROWD; i++)
		assert_int_equal(client()->id[CROWD_FIRST + i].channel, cm_channel(ch2)->q.handle);
	for (uint32_t i = 0; i < CROWD; i++) {
		assert_int_equal(rdma_get_cm_event(ch2, &ev), 0);
		struct rdma_cm_id *child = ev->id;
		assert_int_equal(cm_id(child)->handle, CROWD_FIRST + i);
		rdma_ack_cm_event(ev);
		assert_int_equal(rdma_destroy_id(child), 0);
	}
	assert_no_event();
	rdma_destroy_id(l);
	rdma_destroy_event_channel(ch2);
}

/* Events that wait stay where they are, once and in their order. */
static void migrating_to_the_channel_of_the_id(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	raise_event(RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	raise_event(RDMA_CM_EVENT_CONNECT_ERROR, id, -ECONNRESET);
	assert_int_equal(rdma_migrate_id(id, ch), 0);
	assert_ptr_equal(id->channel, ch);
	rdma_ack_cm_event(next(RDMA_CM_EVENT_ROUTE_RESOLVED));
	rdma_ack_cm_event(next(RDMA_CM_EVENT_CONNECT_ERROR));
	assert_no_event();
	rdma_destroy_id(id);
}

/* A request on a socket of the program's is an event of the id itself, and so are the events behind it. */
static void own_request(struct rdma_cm_id *id)
{
	raise_request(id, cm_id(id)->handle);
	raise_event(RDMA_CM_EVENT_CONNECT_ERROR, id, -ECONNRESET);
}

static void events_behind_a_request_of_the_id_itself_end_with_the_id(void **state)
{
	struct rdma_cm_id *id;

	(void)state;
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	own_request(id);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_false(readable(ch));
}

static void events_behind_a_request_of_the_id_itself_move_with_the_id(void **state)
{
	static const enum rdma_cm_event_type want[] = { RDMA_CM_EVENT_CONNECT_REQUEST, RDMA_CM_EVENT_CONNECT_ERROR };
	struct rdma_event_channel *ch2 = rdma_create_event_channel();
	struct rdma_cm_id *id;
	struct rdma_cm_event *ev;

	(void)state;
	rdma_create_id(ch, &id, NULL, RDMA_PS_TCP);
	own_request(id);
	assert_int_equal(rdma_migrate_id(id, ch2), 0);
	assert_false(readable(ch));
	for (unsigned i = 0; i < RN_ARRAY_LEN(want); i++) {
		assert_int_equal(rdma_get_cm_event(ch2, &ev), 0);
		assert_int_equal(ev->event, want[i]);
		assert_ptr_equal(ev->id, id);
		rdma_ack_cm_event(ev);
	}
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_is_given_out_again),
		cmocka_unit_test(migrating_takes_events_along),
		cmocka_unit_test(migrating_to_the_channel_of_the_id),
		cmocka_unit_test(a_request_that_waits_moves_with_its_listener),
		cmocka_unit_test(all_requests_that_wait_end_with_their_listener),
		cmocka_unit_test(all_requests_that_wait_move_with_their_listener),
		cmocka_unit_test(events_behind_a_request_of_the_id_itself_end_with_the_id),
		cmocka_unit_test(events_behind_a_request_of_the_id_itself_move_with_the_id),
	};

	return cmocka_run_group_tests(tests, cm_setup, cm_teardown);
}
