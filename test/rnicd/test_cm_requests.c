/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners of the connection manager, the requests that come to them, and the events of both. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm_rig.h"

static void a_listener_that_failed_is_named_by_no_request(void **state)
{
	uint32_t l = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = l, .addr = addr(10, 1, 7001)), 0);
	can_listen[1] = false;
	assert_int_equal(CALL(cm_listen, cm_listen, .id = l, .backlog = 4), -1);
	all_work();
	a_request_comes(); /* at the first worker, which has its listener already */
	all_done();
	a_request_comes();
	all_work();
	all_done();
	assert_int_equal(answer, ENOMEM);
	const struct cm_id *lid = table_get(&cl.cm, l);
	assert_int_equal(lid->requests, 0);
	struct cm_id *id;
	uint32_t in = 0;
	for (uint32_t h = 0; (id = table_next(&cl.cm, &h)) != NULL;) {
		assert_null(id->listener);
		if (h != l)
			in = h;
	}
	assert_int_not_equal(in, 0); /* the client has received the connection request's event */
	assert_true(destroyed(l));
	/* The rest of the request does not touch the listener's memory, which has been freed. */
	assert_true(destroyed(in));
}

/* Makes the id listen on every worker. */
static void listens(uint32_t l)
{
	assert_int_equal(CALL(cm_bind, cm_bind, .id = l, .addr = addr(10, 1, 7001)), 0);
	(void)CALL(cm_listen, cm_listen, .id = l, .backlog = 4);
	all_work();
	all_done();
	assert_int_equal(answer, 0);
}

static void a_listener_that_goes_is_named_by_no_request(void **state)
{
	uint32_t l = new_id(), in;
	struct cm_id *id;

	(void)state;
	listens(l);
	a_request_comes();
	in = 2;
	id = table_get(&cl.cm, in);
	assert_non_null(id->listener);
	assert_true(destroyed(l));
	assert_null(id->listener);
	assert_true(destroyed(in));
}

/* Other events wait in the channel before those of a request. */
static const struct ipc_cm_event of_no_id;
static struct ev_node stuck = { .len = 1, .data = &of_no_id };

static void a_request_that_the_client_never_hears_of_leaves_no_id(void **state)
{
	uint32_t l = new_id();

	(void)state;
	listens(l);
	cl.waiting = EV_WAITING_MAX;
	rn_list_push_back(&chan->events, &stuck.link);
	a_request_comes();
	rn_list_remove(&chan->events, &stuck.link);
	assert_int_equal(cl.cm.live, 1);
	assert_int_equal(ended, 1);
	assert_int_equal(((const struct cm_id *)table_get(&cl.cm, l))->requests, 0);
	assert_true(destroyed(l));
}

/* The peer of the newest request ends its connection. */
static void the_peer_gives_up(void)
{
	cm_fx(&(struct event_fx){ .type = QP_FX_CLOSED, .owner = conns[n_conns - 1].owner.key });
}

/* The client learns neither of the request nor of its end, whether or not other requests wait too. */
static void a_request_whose_peer_has_given_up_ends_with_its_listener(void **state)
{
	(void)state;
	for (uint32_t others = 0; others < 2; others++) {
		uint32_t l = new_id();
		listens(l);
		rn_list_push_back(&chan->events, &stuck.link);
		for (uint32_t i = 0; i < others; i++)
			a_request_comes();
		a_request_comes();
		the_peer_gives_up();
		assert_int_equal(chan->waiting, others + 2);
		assert_true(destroyed(l));
		assert_int_equal(chan->waiting, 0);
		assert_int_equal(cl.cm.live, 0);
		rn_list_remove(&chan->events, &stuck.link);
	}
}

static void events_of_a_dying_client_end_with_their_ids(void **state)
{
	(void)state;
	listens(new_id());
	rn_list_push_back(&chan->events, &stuck.link);
	a_request_comes();
	a_request_comes();
	the_peer_gives_up();
	assert_int_equal(chan->waiting, 3);
	cl.state = CLIENT_DYING;
	assert_true(cm_client_dies(&cl));
	all_done();
	assert_int_equal(cl.cm.live, 0);
	assert_int_equal(chan->users, 0);
	assert_int_equal(chan->waiting, 0);
	rn_list_remove(&chan->events, &stuck.link);
}

static void thousands_of_ids_end_in_parts(void **state)
{
	const uint32_t l = new_id();

	(void)state;
	listens(l);
	for (uint32_t i = 0; i < 3000; i++)
		new_id();
	cl.state = CLIENT_DYING;
	for (uint32_t before = cl.cm.live; !cm_client_dies(&cl); before = cl.cm.live) {
		assert_in_range(before - cl.cm.live, 1, 1024);
		assert_null(under_way); /* the listener is the last one */
	}
	assert_int_equal(cl.cm.live, 1);
	all_done();
	assert_int_equal(cl.cm.live, 0);
}

/* Poisons the way from the client's first connection to its other one in the list of all connections. */
static void the_end_of_a_client_passes_no_connections_of_others(void **state)
{
	static char worker; /* stands for a struct rc, which nobody looks into */
	struct client other = { .state = CLIENT_READY };
	struct cm_conn k[3] = { 0 };

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		k[i].conn = (struct rc *)&worker;
		rn_list_push_back(&all_conns, &k[i].link);
		cm_conn_give(&k[i], i == 1 ? &other : &cl);
	}
	k[1].link.next = (struct rn_link *)(uintptr_t)16;
	let_go = 0;
	cm_client_conns(&cl);
	all_conns = (struct rn_list){ .first = NULL };
	assert_int_equal(let_go, 2);
	assert_true(k[0].c == NULL && k[1].c == &other && k[2].c == NULL);
	assert_true(rn_list_empty(&cl.conns) && cl.under_way == 0);
}

/* Poisons what the end of a listener must not look at: the events of other ids, and the client's table of ids. */
static void the_end_of_a_listener_passes_no_others(void **state)
{
	struct ev_node fence = stuck;
	uint32_t other = new_id(), l = new_id();
	void **ids = cl.cm.obj, *const was = ids[other - 1];

	(void)state;
	listens(l);
	rn_list_push_back(&chan->events, &stuck.link);
	a_request_comes();
	a_request_comes();
	rn_list_push_back(&chan->events, &fence.link);
	fence.link.next = (struct rn_link *)(uintptr_t)16;
	ids[other - 1] = (void *)(uintptr_t)16;
	assert_true(destroyed(l));
	ids[other - 1] = was;
	fence.link.next = NULL;
	assert_int_equal(chan->waiting, 0);
	assert_int_equal(cl.cm.live, 1);
	assert_int_equal(ended, 2);
	rn_list_remove(&chan->events, &fence.link);
	rn_list_remove(&chan->events, &stuck.link);
}

/* A request that the peer has given up counts no longer in the backlog, whether or not the client knows it. */
static void requests_that_are_over_leave_the_backlog(void **state)
{
	const uint32_t l = new_id();
	const struct cm_id *lid = table_get(&cl.cm, l);

	(void)state;
	listens(l);
	a_request_comes();
	rn_list_push_back(&chan->events, &stuck.link);
	a_request_comes();
	assert_int_equal(lid->requests, 2);
	cm_fx(&(struct event_fx){ .type = QP_FX_CLOSED, .owner = conns[0].owner.key });
	assert_int_equal(lid->requests, 1);
	the_peer_gives_up();
	assert_int_equal(lid->requests, 0);
	assert_true(destroyed(l));
	assert_int_equal(cl.cm.live, 1); /* the request that the client knows */
	rn_list_remove(&chan->events, &stuck.link);
}

/* The request moves along with its listener. */
static void a_request_ends_with_its_listener_in_another_channel(void **state)
{
	static uint8_t more[RING_BYTES] RN_ALIGNED(4096);
	struct client_chan *second = chan_new(more);
	uint32_t l = new_id();

	(void)state;
	listens(l);
	rn_list_push_back(&chan->events, &stuck.link);
	a_request_comes();
	assert_int_equal(CALL(cm_migrate, cm_migrate, .id = l, .channel = second->handle), 0);
	assert_true(chan->waiting == 0 && chan->users == 0);
	assert_true(second->waiting == 1 && second->users == 2);
	assert_true(destroyed(l));
	assert_int_equal(chan->waiting + second->waiting, 0);
	assert_int_equal(cl.cm.live, 0);
	rn_list_remove(&chan->events, &stuck.link);
	chan_free(second);
}

static void a_request_beyond_its_users_share_leaves_no_id(void **state)
{
	uint32_t l = new_id();

	(void)state;
	listens(l);
	may_have_more = false;
	a_request_comes();
	may_have_more = true;
	assert_int_equal(cl.cm.live, 1);
	assert_int_equal(ended, 1);
	a_request_comes();
	assert_int_equal(cl.cm.live, 2);
	assert_true(destroyed(l));
}

/* The client takes all listeners that its user may have, half of them of datagrams. */
static void listeners_of_one_user_leave_room(void **state)
{
	uint32_t share = user_share(USER_LISTENERS), id = 0;

	(void)state;
	for (uint32_t i = 0; i <= share + 1; i++) {
		assert_int_equal(CALL(cm_create_id, cm_create_id, .channel = chan->handle, .datagram = i % 2), 0);
		id = answer_handle;
		assert_int_equal(CALL(cm_bind, cm_bind, .id = id, .addr = addr(10, 1, (uint16_t)(7001 + i))), 0);
		int rc = CALL(cm_listen, cm_listen, .id = id, .backlog = 4);
		assert_int_equal(rc, i >= share ? ENOMEM : i % 2 == 1 ? 0 : -1);
		if (rc != -1)
			continue;
		all_work();
		all_done();
		assert_int_equal(answer, 0);
	}
	struct user *other = user_get(1);
	assert_true(user_take(other, USER_LISTENERS, 0, 1));
	user_give(other, USER_LISTENERS, 0, 1);
	user_put(other);
	for (uint32_t h = 1; h <= id; h++)
		assert_true(destroyed(h));
	assert_true(user_has_room(cl.user, USER_LISTENERS, 0, share)); /* the destroyed ids count no longer */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_listener_that_failed_is_named_by_no_request),
		T(a_listener_that_goes_is_named_by_no_request),
		T(a_request_that_the_client_never_hears_of_leaves_no_id),
		T(a_request_whose_peer_has_given_up_ends_with_its_listener),
		T(events_of_a_dying_client_end_with_their_ids),
		T(thousands_of_ids_end_in_parts),
		T(the_end_of_a_client_passes_no_connections_of_others),
		T(the_end_of_a_listener_passes_no_others),
		T(requests_that_are_over_leave_the_backlog),
		T(a_request_ends_with_its_listener_in_another_channel),
		T(a_request_beyond_its_users_share_leaves_no_id),
		T(listeners_of_one_user_leave_room),
	};

	return cmocka_run_group_tests_name("cm_requests", tests, NULL, NULL);
}
