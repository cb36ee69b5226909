/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ids of the connection manager, with workers that the test plays: the test decides which worker can listen, and what
 * happens between a command and its answer. The files under test are the real ones; the functions that they call are
 * here, and in cm_stubs.c those that the tests do not look into.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/cm.h"

#define WORKERS 2u
#define SLOTS   16u

struct rnicd rnicd;

/* ---- functions that the files under test call ---- */

static int answer; /* answer to the last request: 0 or an errno; -1: none yet */

void client_answer(struct client *c, struct ipc_msg *m, uint16_t len)
{
	(void)c;
	(void)len;
	answer = m->status;
}

void client_ok(struct client *c)
{
	(void)c;
	answer = 0;
}

static uint32_t answer_handle;
void client_ok_handle(struct client *c, uint32_t handle)
{
	client_ok(c);
	answer_handle = handle;
}

void client_error(struct client *c, int err, const char *fmt, ...)
{
	(void)c;
	(void)fmt;
	answer = err;
}

extern struct loop_timer *armed_last; /* cm_stubs.c */
static bool can_listen[WORKERS];
static uint64_t met; /* owner of the first worker's listener */

/* A command to all workers. It stays here until the test calls all_work() and all_done(). */
static struct cmd *under_way;
void cmd_send_all(struct cmd *c) { under_way = c; }
void cmd_send(struct cmd *c, uint32_t w)
{
	(void)w;
	if (c->type != CMD_NEIGH)
		return;
	c->neigh.verdict = NEIGH_WAIT;
	c->done(c);
}

static void all_work(void)
{
	struct cmd_listen *l = &under_way->listen;

	for (uint32_t i = 0; i < WORKERS && under_way->type == CMD_LISTEN; i++) {
		l->verdict[i] = can_listen[i] ? CONN_OK : CONN_FULL;
		if (can_listen[i])
			met = l->owner;
	}
}

static void all_done(void)
{
	struct cmd *c = under_way;

	under_way = NULL;
	c->done(c);
}

/* Connections are only counted. */
static struct cm_conn conns[8];
static uint32_t n_conns, ended;

struct cm_conn *cm_conn_new(struct client *c, struct cm_id *id, uint64_t key)
{
	struct cm_conn *k = &conns[n_conns++];

	*k = (struct cm_conn){ .c = c, .id = id };
	k->owner.key = key;
	id->conn = k;
	return k;
}

void cm_conn_leave(struct cm_id *id)
{
	if (id->conn != NULL)
		ended++;
	id->conn = NULL;
}

void cm_conn_end(uint32_t w, struct rc *conn, uint64_t key)
{
	(void)w;
	(void)conn;
	(void)key;
	ended++;
}

void cm_conn_free(struct cm_conn *k)
{
	if (k->id != NULL)
		k->id->conn = NULL;
	k->owner.key = 0;
}

static bool may_have_more = true;
bool cm_conn_on(struct cm_conn *k, struct user *u, uint32_t w, enum user_table as)
{
	(void)u;
	(void)as;
	k->worker = w;
	return may_have_more;
}
void cm_conn_established(struct cm_conn *k) { (void)k; }

const struct rn_list *cm_conns(void)
{
	static const struct rn_list none;

	return &none;
}

struct cm_conn *cm_conn_of(uint64_t key)
{
	for (uint32_t i = 0; i < n_conns; i++)
		if (conns[i].owner.key == key)
			return &conns[i];
	return NULL;
}

/* ---- a client ---- */

static struct client cl;
static struct client_chan *chan;
static uint8_t ring[SLOTS * IPC_EVENT_SLOT_CM + 4096] RN_ALIGNED(4096);

static struct rnicd_port port[2];
static struct rnicd_port_cfg port_cfg[2];

static struct client_chan *chan_new(uint8_t *region)
{
	const struct spsc_place at = {
		.region = region, .region_size = sizeof(ring), .nslots = SLOTS, .slot_size = IPC_EVENT_SLOT_CM
	};
	struct client_chan *ch = calloc(1, sizeof(*ch));

	memset(region, 0, sizeof(ring));
	ch->c = &cl;
	ch->kind = IPC_CHANNEL_CM;
	ch->slot_size = IPC_EVENT_SLOT_CM;
	ch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ch->handle = table_add(&cl.chan, ch);
	assert_int_equal(spsc_prod_attach(&ch->ring, &at), SPSC_OK);
	return ch;
}

static void chan_free(struct client_chan *ch)
{
	ev_chan_fini(ch);
	close(ch->fd);
	table_del(&cl.chan, ch->handle);
	free(ch);
}

static int begin(void **state)
{
	(void)state;
	rnicd.n_ports = 2;
	rnicd.n_workers = WORKERS;
	for (uint32_t i = 0; i < 2; i++) {
		port[i].cfg = &port_cfg[i];
		port_cfg[i].ip.b[10] = port_cfg[i].ip.b[11] = 0xff; /* IPv4 */
		rnicd.port[i] = &port[i];
	}
	rnicd.cfg.user_share = 75;
	rnicd.cfg.listeners = 256;
	user_start();
	cl = (struct client){ .state = CLIENT_READY, .user = user_get(0) };
	chan = chan_new(ring);
	can_listen[0] = can_listen[1] = true;
	n_conns = ended = 0;
	return 0;
}

static int end(void **state)
{
	struct cm_id *id;

	(void)state;
	for (uint32_t h = 0; (id = table_next(&cl.cm, &h)) != NULL;)
		cm_id_free(id);
	chan_free(chan);
	table_free(&cl.cm);
	user_put(cl.user);
	table_free(&cl.chan);
	return 0;
}

#define CALL(fn, member, ...) (answer = -1, cl.req = (struct ipc_msg){ .member = { __VA_ARGS__ } }, fn(&cl), answer)

static uint32_t new_id(void)
{
	assert_int_equal(CALL(cm_create_id, cm_create_id, .channel = chan->handle), 0);
	return answer_handle;
}

static struct ipc_addr addr(uint8_t a, uint8_t d, uint16_t p)
{
	return (struct ipc_addr){ .ip = { [10] = 0xff, [11] = 0xff, a, 77, 0, d }, .port = p };
}

static void a_request_comes(void)
{
	cm_fx(&(struct event_fx){ .type = QP_FX_CONNECT_REQUEST,
				  .owner = EVENT_OWNER_PASSIVE | (n_conns + 1),
				  .listener = met,
				  .remote = addr(10, 2, 999),
				  .local = addr(10, 1, 7001) });
}

static bool destroyed(uint32_t id)
{
	int rc = CALL(cm_destroy_id, handle, .handle = id);

	if (under_way != NULL) { /* a listener */
		all_work();
		all_done();
		rc = answer;
	}
	return rc == 0;
}

/* ---- tests ---- */

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

/* Else each of its ids and listeners would look through all events that wait. */
static void events_of_a_dying_client_are_left_to_their_channel(void **state)
{
	(void)state;
	listens(new_id());
	rn_list_push_back(&chan->events, &stuck.link);
	a_request_comes();
	a_request_comes();
	the_peer_gives_up();
	const uint32_t waiting = chan->waiting;
	cl.state = CLIENT_DYING;
	cm_client_dies(&cl);
	all_done();
	assert_int_equal(cl.cm.live, 0);
	assert_int_equal(chan->users, 0);
	assert_int_equal(chan->waiting, waiting);
	rn_list_remove(&chan->events, &stuck.link);
}

/* The request moves along with its listener. */
static void a_request_ends_with_its_listener_in_another_channel(void **state)
{
	static uint8_t more[sizeof(ring)] RN_ALIGNED(4096);
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

static bool port_is_free(uint32_t dev, uint16_t p)
{
	if (!cm_port_take(NULL, dev, CM_IP4, p))
		return false;
	cm_port_give(NULL, dev, CM_IP4, p);
	return true;
}

/*
 * IPv4 and IPv6 have ports of their own. A listener on the IPv6 wildcard address takes both, unless the client says
 * otherwise.
 */
static void a_family_does_not_take_the_ports_of_the_other(void **state)
{
	const struct ipc_addr any4 = { .ip = { [10] = 0xff, [11] = 0xff }, .port = 20003 }, any6 = { .port = 20003 };
	uint32_t four = new_id(), six = new_id(), both = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = four, .addr = any4), 0);
	assert_int_equal(CALL(cm_bind, cm_bind, .id = both, .addr = any6), EADDRINUSE);
	assert_int_equal(CALL(cm_bind, cm_bind, .id = six, .addr = any6, .own_family = 1), 0);
	assert_true(destroyed(four));
	assert_int_equal(CALL(cm_bind, cm_bind, .id = both, .addr = any6), EADDRINUSE);
	assert_int_equal(CALL(cm_bind, cm_bind, .id = both, .addr = addr(10, 1, 20003)), 0);
	/* no device of the id's family reaches the address, or has the source address */
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = six, .dst = addr(10, 2, 9)), 0);
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = six, .has_src = 1, .src = addr(10, 1, 0),
			      .dst = addr(10, 2, 9)),
			 0);
	assert_true(destroyed(six));
	assert_false(port_is_free(0, 20003)); /* it is that of `both` */
	assert_true(destroyed(both));
	assert_true(port_is_free(0, 20003) && port_is_free(1, 20003));
}

/*
 * No device here has a link-local address: an address with the number of an interface must not be taken for that of
 * another device.
 */
static void a_link_local_address_is_of_the_interface_that_it_names(void **state)
{
	const struct ipc_addr local = { .ip = { 0xfe, 0x80, [15] = 2 }, .port = 20004, .scope = 7 };
	uint32_t id = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = id, .addr = local), EADDRNOTAVAIL);
	assert_true(destroyed(id));
}

static void an_address_that_no_device_reaches_keeps_no_port(void **state)
{
	uint32_t id = new_id();

	(void)state;
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = id, .has_src = 1, .src = addr(10, 1, 20001),
			      .dst = addr(192, 1, 9)),
			 0);
	assert_true(port_is_free(0, 20001));
	assert_true(destroyed(id));
	assert_true(port_is_free(0, 20001));
}

static void an_id_that_goes_gives_back_no_port_of_others(void **state)
{
	uint32_t id = new_id(), other = new_id();

	(void)state;
	assert_int_equal(CALL(cm_bind, cm_bind, .id = id, .addr = { .port = 20002 }), 0); /* on all devices */
	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = id, .has_src = 1, .src = addr(10, 1, 0),
			      .dst = addr(192, 1, 9)),
			 0); /* no device reaches this address */
	assert_int_equal(CALL(cm_bind, cm_bind, .id = other, .addr = addr(10, 2, 20002)), EADDRINUSE);
	assert_int_equal(
		CALL(cm_resolve_addr, cm_resolve, .id = id, .has_src = 1, .src = addr(10, 1, 0), .dst = addr(10, 2, 9)),
		0); /* device 0 reaches this address */
	assert_int_equal(CALL(cm_bind, cm_bind, .id = other, .addr = addr(10, 2, 20002)), 0);
	assert_true(destroyed(id));
	assert_false(port_is_free(1, 20002));
	assert_true(port_is_free(0, 20002));
	assert_true(destroyed(other));
	assert_true(port_is_free(1, 20002));
}

static uint32_t resolving(const struct ipc_addr *dst)
{
	const uint32_t id = new_id();

	assert_int_equal(CALL(cm_resolve_addr, cm_resolve, .id = id, .dst = *dst), 0);
	assert_int_equal(CALL(cm_resolve_route, cm_resolve, .id = id, .timeout_ms = 1000), 0);
	return id;
}

/* Ids wait for 10.77.0.8, for 10.77.0.9, and two of them for the gateway, 10.77.0.254. */
static void a_neighbour_moves_on_the_ids_whose_next_hop_it_is(void **state)
{
	static const uint8_t last[] = { 8, 9, 254, 254 };
	struct ipc_addr dst[] = { addr(10, 8, 1), addr(10, 9, 1), addr(10, 3, 1), addr(10, 4, 1) };
	uint32_t id[4];

	(void)state;
	dst[2].ip[14] = dst[3].ip[14] = 1; /* 10.77.1.3 and 10.77.1.4, in another subnet */
	memcpy(port_cfg[0].ip.b + 12, (uint8_t[]){ 10, 77, 0, 1 }, 4);
	port_cfg[0].prefix_len = 96 + 24;
	port_cfg[0].gateway = port_cfg[0].ip;
	port_cfg[0].gateway.b[15] = 254;
	port_cfg[0].gateway_set = true;
	for (uint32_t i = 0; i < 4; i++)
		id[i] = resolving(&dst[i]);
	for (uint32_t i = 0; i < 3; i++) {
		struct event_neigh ev = { .port = 0, .status = i == 2 ? -ETIMEDOUT : 0, .addr = port_cfg[0].ip };
		ev.addr.b[15] = last[i];
		cm_neigh(&ev);
		for (uint32_t k = 0; k < 4; k++)
			assert_int_equal(cm_find(&cl, id[k])->state, last[k] > last[i] ? CM_ROUTE_WAIT
								     : last[k] == 254  ? CM_ADDR_KNOWN
										       : CM_ROUTE_KNOWN);
	}
	port_cfg[0] = (struct rnicd_port_cfg){ .ip.b = { [10] = 0xff, [11] = 0xff } };
}

static void many_ids_of_one_neighbour_are_told_in_parts(void **state)
{
	const struct ipc_addr dst = addr(10, 8, 1);
	const struct event_neigh ev = { .addr.b = { [10] = 0xff, [11] = 0xff, 10, 77, 0, 8 } };
	uint32_t id[600], n = 0;

	(void)state;
	for (uint32_t i = 0; i < 600; i++)
		id[i] = resolving(&dst);
	cm_neigh(&ev);
	for (uint32_t told = 256; n < 600; told += 256, armed_last->due(armed_last)) {
		for (uint32_t i = n = 0; i < 600; i++)
			n += cm_find(&cl, id[i])->state == CM_ROUTE_KNOWN;
		assert_int_equal(n, rn_min_u32(600, told));
	}
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_listener_that_failed_is_named_by_no_request),
		T(a_listener_that_goes_is_named_by_no_request),
		T(a_request_that_the_client_never_hears_of_leaves_no_id),
		T(a_request_whose_peer_has_given_up_ends_with_its_listener),
		T(events_of_a_dying_client_are_left_to_their_channel),
		T(a_request_ends_with_its_listener_in_another_channel),
		T(a_request_beyond_its_users_share_leaves_no_id),
		T(listeners_of_one_user_leave_room),
		T(an_address_that_no_device_reaches_keeps_no_port),
		T(a_link_local_address_is_of_the_interface_that_it_names),
		T(a_family_does_not_take_the_ports_of_the_other),
		T(an_id_that_goes_gives_back_no_port_of_others),
		T(a_neighbour_moves_on_the_ids_whose_next_hop_it_is),
		T(many_ids_of_one_neighbour_are_told_in_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
