/* SPDX-License-Identifier: BSD-3-Clause */
/* What many listeners, streams and connections leave to others, and what they cost a worker. */
#include <stdlib.h>
#include <sys/mman.h>

#include "listen_rig.h"

/* Puts a listener with this number and the rig's backlog up at a TCP port. */
static void listen_at(uint16_t at, uint64_t key)
{
	struct cmd c = { .type = CMD_STREAM_LISTEN,
			 .stream_listen = { .lport = at, .backlog = BACKLOG, .families = STREAM_IP4, .key = key } };

	command_stream(&w, &c);
	assert_int_equal(c.stream_listen.verdict[0], CONN_OK);
}

/* Each listener is below its own limit. The streams have the table of flows in common with queue pairs' connections. */
static void floods_of_many_listeners_leave_places_to_others(void **state)
{
	enum { LISTENERS = STREAMS / HALF + 1, MOST = STREAMS / 4 };
	struct ipc_stream *mem = calloc(1, IPC_STREAM_SIZE);

	(void)state;
	assert_non_null(mem);
	for (uint16_t i = 1; i <= LISTENERS; i++) {
		listen_at(LPORT + i, LPORT + i);
		for (uint16_t from = 1; from <= HALF; from++) {
			segment_to(LPORT + i, from, ISS, 0, PKT_TCP_SYN);
			one_burst(1);
			rest_of_turn();
		}
	}
	assert_int_equal(w.streams.n_half, MOST);
	assert_int_equal(w.flows.used, MOST);
	assert_int_equal(free_streams(), STREAMS - MOST);
	assert_int_equal(w.streams.listener[1].n_half, 0); /* the oldest have made room */
	assert_int_equal(w.streams.listener[LISTENERS].n_half, HALF);
	syn(HALF + 1);
	one_burst(1);
	assert_non_null(stream_of(HALF + 1));
	open_to_nobody(mem, 10);
	rest_of_turn();
	free(mem);
}

/* Lets the test use the whole pages between two addresses, or fail when it does. */
static void pages_may(const void *from, const void *end, int prot)
{
	const uintptr_t page = 4096, first = ((uintptr_t)from + page - 1) / page * page;

	assert_int_equal(mprotect((void *)first, (uintptr_t)end / page * page - first, prot), 0);
}

/* The worker does nothing else meanwhile, and any user may end listeners as fast as it likes. */
static void a_listener_that_ends_looks_at_none_but_its_own_streams(void **state)
{
	const struct stream *end = w.streams.at + STREAMS;
	struct cmd c = { .type = CMD_STREAM_UNLISTEN, .stream_listen = { .lport = LPORT, .key = 1 } };

	(void)state;
	syn(1);
	one_burst(1);
	segment(1, ISS + 1, stream_of(1)->qc.tcp.iss + 1, PKT_TCP_ACK);
	syn(2);
	one_burst(2);
	rest_of_turn();
	const struct stream *arrived = stream_of(1), *half = stream_of(2);
	assert_true(arrived->connected && arrived->listener != NULL && half->listener != NULL);
	w.streams.used = w.streams.n; /* as if others had the other places */
	pages_may(&w.streams.at[2], end, PROT_NONE);
	command_stream(&w, &c);
	pages_may(&w.streams.at[2], end, PROT_READ | PROT_WRITE);
	assert_null(arrived->listener);
	assert_null(half->listener);
	assert_int_equal(w.streams.listens.used, 0);
	rest_of_turn();
	assert_int_equal(half->state, STREAM_FREE); /* reset */
	assert_int_equal(arrived->state, STREAM_WAITS);
	assert_true(rn_list_empty(&w.streams.half));
}

/* Else the segments of a flood to such a port cost far more than those of another flood. */
static void a_segment_that_gets_no_stream_looks_at_one_listener_of_a_port(void **state)
{
	enum { LISTENERS = 200 };
	const struct stream_listener *l = w.streams.listener;

	(void)state;
	for (uint64_t key = 2; key <= LISTENERS; key++)
		listen_at(LPORT, key);
	w.streams.strangers_at = w.now; /* no stream for strangers now */
	pages_may(&l[1], &l[LISTENERS], PROT_NONE);
	segment(1, ISS + 1, 1, PKT_TCP_ACK);
	segment(2, ISS + 1, 0, PKT_TCP_RST);
	syn(3);
	one_burst(3);
	pages_may(&l[1], &l[LISTENERS], PROT_READ | PROT_WRITE);
	assert_int_equal(port.stats[0].rx_no_flow, 2);
	assert_int_equal(w.streams.used, 0);
	w.now += RN_NS_PER_MS;
	syn(3);
	one_burst(1);
	assert_int_equal(w.streams.n_half, 1);
}

/* A SYN that its listener cannot take must not use up what a worker allows the peers of all listeners. */
static void a_listener_with_a_full_backlog_leaves_strangers_to_others(void **state)
{
	(void)state;
	w.streams.listener[0].n_unclaimed = BACKLOG + 1;
	listen_at(LPORT + 1, 2);
	for (uint32_t i = 0; i < 2000; i++) {
		syn(1);
		one_burst(1);
	}
	assert_int_equal(w.streams.used, 0);
	segment_to(LPORT + 1, 1, ISS, 0, PKT_TCP_SYN);
	one_burst(1);
	assert_int_equal(w.streams.n_half, 1);
}

/* A user rings all doorbells that it might have, again and again. */
static void doorbells_of_one_users_sockets_fill_no_turn(void **state)
{
	enum { MOST = 64 + 63, WORDS = IPC_MAX_QPS / 64, BLOCKS = 2 };
	static struct stream_user user[2];
	static struct ipc_sock_bell bell[2];
	struct stream *s = w.streams.at, *last = &s[STREAMS - 1];

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct stream_user *const view[] = { &user[i] };
		struct cmd c = { .type = CMD_STREAM_JOIN, .stream_join = view };
		user[i] = (struct stream_user){ .bell = &bell[i], .blocks = BLOCKS };
		command_stream(&w, &c);
	}
	for (uint32_t i = 0; i < STREAMS; i++)
		s[i].state = STREAM_OWNED;
	for (uint32_t i = 0; i < STREAMS - 1; i++) /* far apart, in all words of both blocks */
		user[0].at[(i * 67) % (BLOCKS * IPC_MAX_QPS)] = &s[i];
	user[1].at[0] = last;
	bell[1].block[0].bits[0] = bell[1].block[0].summary = 1;
	for (uint32_t turn = 0; turn < BLOCKS * WORDS + 1; turn++) {
		for (uint32_t i = 0; i < BLOCKS; i++) {
			memset(bell[0].block[i].bits, 0xff, sizeof(bell[0].block[i].bits));
			bell[0].block[i].summary = UINT64_MAX;
		}
		assert_in_range(worker_socket_bells(&w), 64, MOST + 1);
		assert_true(rn_link_linked(&last->ready));
		assert_true(stream_users_rung(w.streams.users)); /* the worker does not sleep */
	}
	for (uint32_t i = 0; i < STREAMS; i++)
		assert_true(rn_link_linked(&s[i].ready));
}

/* Opens a stream of the user to a host that does not answer. */
static struct stream *open_of(struct stream_user *user, struct ipc_stream *mem, uint16_t lport)
{
	struct cmd c = { .type = CMD_STREAM_OPEN,
			 .stream = { .key = lport,
				     .addr = { .local = port_cfg.ip,
					       .remote = pkt_addr_ip4(0x0a000009),
					       .lport = lport,
					       .rport = LPORT },
				     .mem = mem,
				     .user = user,
				     .bit = lport } };

	command_stream(&w, &c);
	assert_int_equal(c.stream.verdict, CONN_OK);
	return c.stream.stream;
}

/* A user may have as many streams as its share of all allows. */
static void many_ready_streams_of_a_user_delay_those_of_others_by_one_each(void **state)
{
	enum { MANY = 200 };
	static struct stream_user user[] = { { .tenant = 1 }, { .tenant = 2 }, { .tenant = QP_TENANTS - 1 } };
	struct ipc_stream *mem = calloc(1, IPC_STREAM_SIZE);
	const struct stream *last[2];

	(void)state;
	assert_non_null(mem);
	for (uint16_t i = 1; i <= MANY; i++)
		(void)open_of(&user[0], mem, i);
	for (uint16_t i = 0; i < 2; i++)
		last[i] = open_of(&user[1 + i], mem, MANY + 1 + i);
	(void)stream_transmit(&w);
	assert_false(rn_link_linked(&last[0]->ready));
	assert_false(rn_link_linked(&last[1]->ready));
	assert_true(rn_link_linked(&w.streams.at[MANY - 1].ready));
	for (uint32_t turns = 0; turns < MANY; turns++) {
		port_tx_drop_all(&w.tx[0]);
		(void)stream_transmit(&w);
	}
	for (uint32_t i = 0; i < MANY; i++)
		assert_false(rn_link_linked(&w.streams.at[i].ready));
	free(mem);
}

/* Whoever opens many streams may have all their timers due at once. */
static void timers_of_streams_and_connections_have_a_part_of_each_turn(void **state)
{
	enum { MANY = 200, MOST = 128 };
	static struct stream_user user;
	struct ipc_stream *mem = calloc(1, IPC_STREAM_SIZE);
	struct conn *conns = aligned_alloc(RN_CACHE_LINE, MANY * sizeof(*conns));

	(void)state;
	assert_true(mem != NULL && conns != NULL);
	memset(conns, 0, MANY * sizeof(*conns));
	rn_wheel_init(&w.wheel, w.now);
	for (uint16_t i = 0; i < MANY; i++) {
		rn_wheel_arm(&w.wheel, &conns[i].timer, w.now);
		(void)open_of(&user, mem, i + 1);
	}
	rest_of_turn();
	w.now += RN_NS_PER_S; /* no SYN has been answered */
	assert_int_equal(stream_timers(&w), MOST);
	assert_int_equal(conn_timers(&w), MOST);
	assert_true(rn_wheel_next(&w.streams.wheel) <= w.now &&
		    rn_wheel_next(&w.wheel) <= w.now); /* it does not sleep */
	assert_int_equal(stream_timers(&w), MANY - MOST);
	assert_int_equal(conn_timers(&w), MANY - MOST);
	for (uint32_t i = 0; i < MANY; i++)
		rn_wheel_disarm(&w.wheel, &conns[i].timer);
	free(conns);
	free(mem);
}

/* A user with many clients rings all doorbells that they have, again and again. */
static void doorbells_of_many_clients_fill_no_turn(void **state)
{
	enum { CLIENTS = 40, MOST = 2048 + 256 + 63 };
	static struct qp qp, of_last;
	struct worker_client *c[CLIENTS];
	struct ipc_doorbell *bell = calloc(CLIENTS, sizeof(*bell));
	uint32_t turns = 0;

	(void)state;
	assert_non_null(bell);
	for (uint32_t i = 0; i < CLIENTS; i++) {
		c[i] = calloc(1, sizeof(*c[i]));
		assert_non_null(c[i]);
		c[i]->doorbell = &bell[i];
		c[i]->next = i > 0 ? c[i - 1] : NULL;
		for (uint32_t k = 0; k < IPC_MAX_QPS; k++)
			c[i]->qp[k] = i > 0 ? &qp : &of_last;
	}
	w.clients = c[CLIENTS - 1];
	for (of_last.rung = false; !of_last.rung; turns++) {
		assert_true(turns < CLIENTS);
		for (uint32_t i = 0; i < CLIENTS; i++) {
			memset(bell[i].bits, 0xff, sizeof(bell[i].bits));
			bell[i].summary = UINT64_MAX;
		}
		assert_in_range(worker_doorbells(&w), 256, MOST);
	}
	assert_in_range(turns, 2, CLIENTS * 256 / 2048); /* each client has its turn */
	for (uint32_t i = 0; i < CLIENTS; i++)
		bell[i].summary = 0;
	assert_int_equal(worker_doorbells(&w), 0);
	w.clients = w.ring_first = NULL;
	for (uint32_t i = 0; i < CLIENTS; i++)
		free(c[i]);
	free(bell);
}

/* The control thread asks when a client has ended; programs that share memory may end as fast as they like. */
static void a_tenant_with_nothing_in_flight_makes_a_worker_look_at_no_connection(void **state)
{
	enum { CONNS = 64, TENANT = 5 };
	static const uint8_t region[100];
	const struct cmd_refers r = { .region = { { region, sizeof(region) } }, .n = 1, .tenant = TENANT };
	const size_t size = CONNS * sizeof(struct conn);
	struct conn *conns = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(conns, MAP_FAILED);
	w.conns = conns;
	w.n_conns = w.conns_used = CONNS;
	assert_false(conn_refers(&w, &r));
	w.tcp.rc.recs_of[TENANT - 1] = 1;
	assert_false(conn_refers(&w, &r));
	assert_int_equal(munmap(conns, size), 0);
}

/* ---- neighbours ---- */

/* The host with this address answers ARP. */
static void host_answers(const struct pkt_addr *ip)
{
	static const struct pkt_l2 l2 = { .dst = { 2, 0, 0, 0, 0, 2 },
					  .src = { 2, 0, 0, 0, 0, 7 },
					  .vlan = PKT_NO_VLAN };
	const struct pkt_arp a = {
		.op = PKT_ARP_REPLY, .sender = *ip, .target = port_cfg.ip, .sender_mac = { 2, 0, 0, 0, 0, 7 }
	};
	struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);
	struct arp_todo todo = { .n_out = 0 };
	struct pkt p;

	assert_non_null(m);
	m->data_len = (uint16_t)pkt_arp_build(rte_pktmbuf_mtod(m, uint8_t *), &l2, &a);
	m->pkt_len = m->data_len;
	assert_int_equal(pkt_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, m->pkt_len, &p), PKT_OK);
	arp_input(w.arp[0], m, &p, false, w.now, &todo);
	worker_arp_todo(&w, &port, &todo);
	rte_pktmbuf_free(m);
}

/* A connection to the host is being opened. */
static struct way way_of(uint32_t host)
{
	const struct conn_addr a = { .local = port_cfg.ip, .remote = pkt_addr_ip4(host), .lport = 1, .rport = 1 };
	struct way way;

	w.now += RN_NS_PER_US;
	assert_int_equal(way_find(&w, &a, NULL, &way), CONN_OK);
	port_tx_drop_all(&w.tx[0]);
	return way;
}

/* Else nobody could connect to a present host while one user connects to absent ones. */
static void connections_to_absent_hosts_leave_neighbours_to_others(void **state)
{
	enum { ABSENT = 0x0a000100, HOST = 0x0a000009, WAYS = 4 * ARP_ENTRIES };
	const struct pkt_addr host = pkt_addr_ip4(HOST), other = pkt_addr_ip4(ABSENT);
	static struct way way[WAYS];

	(void)state;
	port_cfg.prefix_len = 112;
	for (uint32_t i = 0; i < WAYS; i++)
		way[i] = way_of(ABSENT + i);
	struct way good = way_of(HOST);
	assert_false(good.holds);
	host_answers(&host);
	way_refresh(&w, &good, &host);
	for (uint32_t i = 0; i < WAYS; i++) {
		way_leave(&way[i]);
		way[i] = way_of(ABSENT + i);
	}
	assert_true(good.holds && pkt_addr_eq(&good.neigh->ip, &host) && arp_usable(good.neigh));
	assert_int_equal(good.neigh->users, 1);
	struct way again = way_of(HOST);
	assert_ptr_equal(again.neigh, good.neigh);
	way_leave(&good);
	assert_int_equal(again.neigh->users, 1);
	/* the entry of the first one has been other neighbours' meanwhile */
	way_refresh(&w, &way[0], &other);
	assert_true(pkt_addr_eq(&way[0].neigh->ip, &other));
	host_answers(&other);
	way_refresh(&w, &way[0], &other);
	assert_int_equal(way[0].neigh->users, 1);
	for (uint32_t i = 0; i < WAYS; i++)
		way_leave(&way[i]);
	way_leave(&again);
	port_tx_drop_all(&w.tx[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(floods_of_many_listeners_leave_places_to_others, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_listener_that_ends_looks_at_none_but_its_own_streams, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(a_segment_that_gets_no_stream_looks_at_one_listener_of_a_port,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(a_listener_with_a_full_backlog_leaves_strangers_to_others, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(doorbells_of_one_users_sockets_fill_no_turn, listen_setup,
						listen_teardown),
		cmocka_unit_test_setup_teardown(many_ready_streams_of_a_user_delay_those_of_others_by_one_each,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(timers_of_streams_and_connections_have_a_part_of_each_turn,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(doorbells_of_many_clients_fill_no_turn, listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(a_tenant_with_nothing_in_flight_makes_a_worker_look_at_no_connection,
						listen_setup, listen_teardown),
		cmocka_unit_test_setup_teardown(connections_to_absent_hosts_leave_neighbours_to_others, listen_setup,
						listen_teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("stream_bounds", tests, NULL, NULL);
}
