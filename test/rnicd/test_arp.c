/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plane/arp.h"
#include "eal.h"

#define BUFFERS 2048u
#define OURS    0x0a000001u

static struct rte_mempool *pool;
static struct rnicd_port_cfg cfg = { .name = "t", .prefix_len = 120, .vlan = PKT_NO_VLAN };
static struct rnicd_port port = { .cfg = &cfg, .mac = { 2, 0, 0, 0, 0, 1 } };
static struct rnicd_port_stats st;
static struct arp_table *t;
static const uint8_t peer_mac[6] = { 2, 0, 0, 0, 0, 9 };
static const uint8_t all[6] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };

static int group_setup(void **state)
{
	(void)state;
	if (!eal_for_test())
		return -1;
	cfg.ip = pkt_addr_ip4(OURS);
	pool = pool_for_test("frames", BUFFERS, 256);
	port.pool = pool;
	return pool == NULL ? -1 : 0;
}

static int setup(void **state)
{
	(void)state;
	memset(&st, 0, sizeof(st));
	t = arp_create(&port, &st, 0);
	return t == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	arp_destroy(t);
	return rte_mempool_avail_count(pool) == BUFFERS ? 0 : -1;
}

/* Checks and frees the n-th frame that ARP wants to send. */
static void sent(struct arp_todo *todo, uint32_t n, uint16_t op, const uint8_t *dst, uint32_t target)
{
	struct pkt p;
	struct pkt_arp a;
	struct rte_mbuf *m = todo->out[n];
	const uint8_t *f = rte_pktmbuf_mtod(m, const uint8_t *);

	assert_true(n < todo->n_out);
	assert_int_equal(pkt_parse(f, m->data_len, m->pkt_len, &p), PKT_OK);
	assert_int_equal(pkt_arp_parse(f, m->data_len, &p, &a), PKT_OK);
	assert_int_equal(a.op, op);
	assert_memory_equal(f, dst, 6);
	assert_memory_equal(f + 6, port.mac, 6);
	assert_memory_equal(a.sender_mac, port.mac, 6);
	assert_int_equal(pkt_addr_to_ip4(&a.sender), OURS);
	assert_int_equal(pkt_addr_to_ip4(&a.target), target);
	rte_pktmbuf_free(m);
}

static void hear(uint16_t op, const uint8_t *mac, uint32_t sender, uint32_t target, uint64_t now, struct arp_todo *todo)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	struct pkt_l2 l2 = { .vlan = PKT_NO_VLAN };
	struct pkt_arp a = { .op = op, .sender = pkt_addr_ip4(sender), .target = pkt_addr_ip4(target) };
	struct pkt p;

	memcpy(l2.src, mac, 6);
	memcpy(l2.dst, all, 6);
	memcpy(a.sender_mac, mac, 6);
	m->data_len = (uint16_t)pkt_arp_build(rte_pktmbuf_mtod(m, uint8_t *), &l2, &a);
	m->pkt_len = m->data_len;
	assert_int_equal(pkt_parse(rte_pktmbuf_mtod(m, uint8_t *), m->data_len, m->pkt_len, &p), PKT_OK);
	*todo = (struct arp_todo){ .n_out = 0 };
	arp_input(t, m, &p, true, now, todo);
	rte_pktmbuf_free(m);
}

static struct arp_entry *get(uint32_t ip, uint64_t now, struct arp_todo *todo)
{
	struct pkt_addr a = pkt_addr_ip4(ip);
	*todo = (struct arp_todo){ .n_out = 0 };
	return arp_get(t, &a, now, todo);
}

static void asks_and_sends_what_has_waited_in_its_order(void **state)
{
	(void)state;
	struct arp_todo todo;
	struct arp_entry *e = get(0x0a000009, 1000, &todo);
	assert_false(arp_usable(e));
	assert_int_equal(todo.n_out, 1);
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
	assert_ptr_equal(get(0x0a000009, 2000, &todo), e);
	assert_int_equal(todo.n_out, 0); /* a request has been sent already */

	for (uint32_t i = 0; i < ARP_PENDING_MAX + 2; i++)
		assert_true(arp_park(t, e, frame_for_test(pool, i, 10)));
	assert_int_equal(st.tx_drops, 2);
	e->notify = true;
	hear(PKT_ARP_REPLY, peer_mac, 0x0a000009, OURS, 3000, &todo);
	assert_true(arp_usable(e));
	assert_ptr_equal(todo.told, e);
	assert_int_equal(todo.n_out, 0);
	assert_ptr_equal(todo.ready, e);
	struct rte_mbuf *m;
	for (uint32_t i = 0; i < ARP_PENDING_MAX; i++) {
		m = arp_unpark(t, e);
		assert_int_equal(frame_seq(m), i);
		assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), peer_mac, 6);
		rte_pktmbuf_free(m);
	}
	assert_null(arp_unpark(t, e));
	m = frame_for_test(pool, 0, 10);
	assert_false(arp_park(t, e, m));
	assert_memory_equal(rte_pktmbuf_mtod(m, uint8_t *), peer_mac, 6);
	rte_pktmbuf_free(m);
}

static void frames_for_some_neighbours_leave_room_for_those_of_others(void **state)
{
	(void)state;
	struct arp_todo todo;
	uint32_t n = 0;
	for (uint32_t ip = 0x0a000010; n < ARP_PENDING_ALL; ip++) {
		struct arp_entry *e = get(ip, 1000, &todo);
		sent(&todo, 0, PKT_ARP_REQUEST, all, ip);
		for (uint32_t i = 0; i < ARP_PENDING_MAX; i++, n++)
			assert_true(arp_park(t, e, frame_for_test(pool, i, 10)));
	}
	assert_int_equal(st.tx_drops, 0);
	struct arp_entry *last = get(0x0a000009, 1000, &todo);
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
	for (uint32_t i = 0; i < ARP_PENDING_MIN + 1; i++)
		assert_true(arp_park(t, last, frame_for_test(pool, i, 10)));
	assert_int_equal(st.tx_drops, 1);
	assert_int_equal(last->n_pending, ARP_PENDING_MIN);
}

static void tries_then_fails_then_asks_again(void **state)
{
	(void)state;
	struct arp_todo todo;
	struct arp_entry *e = get(0x0a000009, 1000, &todo);
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
	e->notify = true;
	assert_true(arp_park(t, e, frame_for_test(pool, 1, 10)));
	uint64_t now = 1000;
	for (uint32_t i = 1; i < ARP_TRIES; i++) {
		assert_true(arp_next(t) > now);
		now = arp_next(t);
		todo = (struct arp_todo){ .n_out = 0 };
		assert_true(arp_timer(t, now, &todo));
		sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
		todo.n_out = 0;
		assert_false(arp_timer(t, now, &todo));
	}
	now = arp_next(t);
	todo = (struct arp_todo){ .n_out = 0 };
	assert_true(arp_timer(t, now, &todo));
	assert_int_equal(e->state, ARP_S_FAILED);
	assert_ptr_equal(todo.told, e);
	assert_int_equal(st.arp_failed, 1);
	assert_int_equal(st.tx_drops, 1);
	assert_int_equal(e->n_pending, 0);
	assert_false(arp_timer(t, now, &todo));
	assert_int_equal(arp_next(t), RN_NEVER);
	assert_true(arp_park(t, e, frame_for_test(pool, 1, 10))); /* dropped */
	get(0x0a000009, now + 1, &todo);
	assert_int_equal(todo.n_out, 0); /* too early for another request */
	get(0x0a000009, now + ARP_FAILED_NS, &todo);
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
	assert_int_equal(e->state, ARP_S_WAIT);
}

static void old_news_is_probed_in_use(void **state)
{
	(void)state;
	struct arp_todo todo;
	struct arp_entry *e = get(0x0a000009, 1000, &todo);
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
	hear(PKT_ARP_REPLY, peer_mac, 0x0a000009, OURS, 2000, &todo);
	uint32_t gen = e->gen;
	get(0x0a000009, 2000 + ARP_FRESH_NS - 1, &todo);
	assert_int_equal(todo.n_out, 0);
	get(0x0a000009, 2000 + ARP_FRESH_NS, &todo);
	sent(&todo, 0, PKT_ARP_REQUEST, peer_mac, 0x0a000009); /* a unicast request, to the neighbour alone */
	assert_true(arp_usable(e));
	assert_int_equal(e->gen, gen);
	static const uint8_t moved[6] = { 2, 0, 0, 0, 0, 7 };
	hear(PKT_ARP_REQUEST, moved, 0x0a000009, 0x0a000055, 3000 + ARP_FRESH_NS, &todo);
	assert_int_equal(todo.n_out, 0);   /* the request is not for our address */
	assert_int_not_equal(e->gen, gen); /* but the request has the sender's new MAC address */
	assert_memory_equal(e->mac, moved, 6);
}

static void answers_who_asks_for_us_and_learns(void **state)
{
	(void)state;
	struct arp_todo todo;
	hear(PKT_ARP_REQUEST, peer_mac, 0x0a000009, OURS, 1000, &todo);
	assert_int_equal(todo.n_out, 1);
	sent(&todo, 0, PKT_ARP_REPLY, peer_mac, 0x0a000009);
	struct arp_entry *e = get(0x0a000009, 2000, &todo);
	assert_true(arp_usable(e));
	assert_int_equal(todo.n_out, 0);
	/* a request between two other hosts makes no entry */
	hear(PKT_ARP_REQUEST, peer_mac, 0x0a00000a, 0x0a00000b, 2000, &todo);
	get(0x0a00000a, 3000, &todo);
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a00000a);
}

static void lies_are_not_learnt(void **state)
{
	(void)state;
	struct arp_todo todo;
	static const uint8_t group[6] = { 3, 0, 0, 0, 0, 9 };
	static const uint8_t zero[6];
	hear(PKT_ARP_REPLY, group, 0x0a000009, OURS, 1000, &todo);
	hear(PKT_ARP_REPLY, zero, 0x0a000009, OURS, 1000, &todo);
	hear(PKT_ARP_REPLY, peer_mac, OURS, OURS, 1000, &todo);       /* our own address */
	hear(PKT_ARP_REPLY, peer_mac, 0x0b000009, OURS, 1000, &todo); /* another network */
	hear(9, peer_mac, 0x0a000009, OURS, 1000, &todo);             /* an operation that does not exist */
	hear(PKT_ARP_REQUEST, group, 0x0a000009, OURS, 1000, &todo);
	assert_int_equal(todo.n_out, 0); /* no reply to a group's MAC address */
	assert_false(arp_usable(get(0x0a000009, 2000, &todo)));
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0a000009);
	assert_false(arp_usable(get(0x0b000009, 2000, &todo)));
	sent(&todo, 0, PKT_ARP_REQUEST, all, 0x0b000009);
}

/* A flood of requests replaces unused entries only: the entry of a connection stays. */
static void flood_leaves_users_alone(void **state)
{
	(void)state;
	struct arp_todo todo;
	hear(PKT_ARP_REQUEST, peer_mac, 0x0a000009, OURS, 1000, &todo);
	sent(&todo, 0, PKT_ARP_REPLY, peer_mac, 0x0a000009);
	struct arp_entry *e = get(0x0a000009, 1000, &todo);
	e->users++;
	cfg.prefix_len = 104; /* an IPv4 /8 in IPv4-mapped form */
	for (uint32_t i = 0; i < 4 * ARP_ENTRIES; i++) {
		hear(PKT_ARP_REQUEST, peer_mac, 0x0a010000 + i, OURS, 2000 + i, &todo);
		sent(&todo, 0, PKT_ARP_REPLY, peer_mac, 0x0a010000 + i);
	}
	cfg.prefix_len = 120;
	assert_ptr_equal(get(0x0a000009, 9000, &todo), e);
	assert_true(arp_usable(e));
	e->users--;
}

/*
 * Programs wait for absent hosts, far more than the table has entries: each present host still gets an entry and keeps
 * it, and who waits for an entry that made room is told.
 */
static void absent_neighbours_leave_room_for_present_ones(void **state)
{
	(void)state;
	struct arp_todo todo;
	uint32_t told = 0;

	cfg.prefix_len = 104;
	for (uint32_t i = 0; i < 4 * ARP_ENTRIES; i++) {
		struct arp_entry *e = get(0x0a010000 + i, 1000 + i, &todo);
		assert_non_null(e);
		e->notify = true;
		rte_pktmbuf_free(todo.out[0]);
		if (todo.evicts) {
			assert_in_range(pkt_addr_to_ip4(&todo.evicted), 0x0a010000, 0x0a010000 + i - 1);
			told++;
		}
	}
	assert_true(told >= 3 * ARP_ENTRIES);
	hear(PKT_ARP_REQUEST, peer_mac, 0x0a000009, OURS, 9000, &todo); /* a stranger's request takes nobody's entry */
	sent(&todo, 0, PKT_ARP_REPLY, peer_mac, 0x0a000009);
	assert_null(todo.ready);
	assert_false(todo.evicts);
	for (uint32_t i = 0; i < 64; i++) {
		const uint64_t now = 10000 + 100 * i;
		const uint32_t host = 0x0a000010 + i;
		struct arp_entry *e = get(host, now, &todo);
		assert_non_null(e);
		sent(&todo, 0, PKT_ARP_REQUEST, all, host);
		hear(PKT_ARP_REPLY, peer_mac, host, OURS, now, &todo);
		for (uint32_t j = 0; j < 64; j++) { /* more of the others do not take it from the host */
			get(0x0a020000 + 64 * i + j, now + 1 + j, &todo)->notify = true;
			rte_pktmbuf_free(todo.out[0]);
		}
		assert_true(arp_usable(get(host, now + 99, &todo)));
		assert_int_equal(todo.n_out, 0);
	}
	cfg.prefix_len = 120;
}

/* Many neighbours in use at once: far more than one bucket has room for. */
static void neighbours_spread(void **state)
{
	(void)state;
	struct arp_todo todo;
	for (uint32_t i = 0; i < 100; i++) {
		hear(PKT_ARP_REQUEST, peer_mac, 0x0a000010 + i, OURS, 1000, &todo);
		sent(&todo, 0, PKT_ARP_REPLY, peer_mac, 0x0a000010 + i);
		struct arp_entry *e = get(0x0a000010 + i, 1000, &todo);
		assert_non_null(e);
		e->users++;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(asks_and_sends_what_has_waited_in_its_order, setup, teardown),
		cmocka_unit_test_setup_teardown(frames_for_some_neighbours_leave_room_for_those_of_others, setup,
						teardown),
		cmocka_unit_test_setup_teardown(tries_then_fails_then_asks_again, setup, teardown),
		cmocka_unit_test_setup_teardown(old_news_is_probed_in_use, setup, teardown),
		cmocka_unit_test_setup_teardown(answers_who_asks_for_us_and_learns, setup, teardown),
		cmocka_unit_test_setup_teardown(lies_are_not_learnt, setup, teardown),
		cmocka_unit_test_setup_teardown(flood_leaves_users_alone, setup, teardown),
		cmocka_unit_test_setup_teardown(absent_neighbours_leave_room_for_present_ones, setup, teardown),
		cmocka_unit_test_setup_teardown(neighbours_spread, setup, teardown),
	};
	return cmocka_run_group_tests(tests, group_setup, NULL);
}
