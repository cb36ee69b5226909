/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of a flood for a worker: the part of its turn that a port gets, and how often strangers are answered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "border/event.h"
#include "eal.h"
#include "plane/port_tx.h"
#include "plane/ud.h"
#include "udp/udpl_sidr.h"

#define FRAMES 4096u
#define FLOWS  16u

static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;
static struct rnicd_worker worker;
static struct rte_ring *wire;

static int setup(void **state)
{
	static struct flow_slot slots[2][2 * FLOWS];
	static const uint8_t mac[PKT_MAC_LEN] = { 2, 0, 0, 0, 0, 2 };
	struct rc_tcp_cfg cfg;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(&port, 0, sizeof(port));
	port_cfg = (struct rnicd_port_cfg){ .ip = pkt_addr_ip4(0x0a000002), .prefix_len = 24, .vlan = PKT_NO_VLAN };
	memcpy(port.mac, mac, sizeof(mac));
	port.cfg = &port_cfg;
	port.mtu = 1500;
	port.caps.queues = 1;
	port.wire = &wire;
	port.pool = pool_for_test("frames", FRAMES - 1, 256);
	wire = rte_ring_create("wire", FRAMES, 0, 0);
	rnicd.port[0] = &port;
	rnicd.n_ports = rnicd.n_workers = 1;
	worker.tx[0] = (struct port_tx){ .port = &port, .st = &port.stats[0], .wake = RN_NEVER };
	worker.now = RN_NS_PER_S;
	flow_init(&worker.flows, slots[0], 2 * FLOWS);
	flow_init(&worker.listens, slots[1], 2 * FLOWS);
	rc_tcp_cfg_default(&cfg, 0, 1500, FLOWS);
	uint64_t size = (rc_tcp_ctx_size(&cfg) + RN_CACHE_LINE - 1) / RN_CACHE_LINE * RN_CACHE_LINE;
	worker.qp_mem = aligned_alloc(RN_CACHE_LINE, size);
	if (port.pool == NULL || wire == NULL || worker.qp_mem == NULL)
		return -1;
	memset(worker.qp_mem, 0, size);
	return rc_tcp_ctx_init(&worker.tcp, &cfg, worker.qp_mem, size) == QP_OK ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	port_tx_drop_all(&worker.tx[0]);
	uint32_t left = rte_mempool_in_use_count(port.pool);
	free(worker.qp_mem);
	rte_ring_free(wire);
	rte_mempool_free(port.pool);
	return left == 0 ? 0 : -1;
}

/* Puts segments on the wire: addressed to another host, or to a closed TCP port here. */
static void flood(uint32_t n, bool ours)
{
	for (uint32_t i = 0; i < n; i++) {
		struct rte_mbuf *m = frame_for_test(port.pool, i, 0);
		assert_non_null(m);
		if (!ours)
			rte_pktmbuf_mtod(m, uint8_t *)[5] = 7;
		assert_int_equal(rte_ring_enqueue(wire, m), 0);
	}
}

static void flooded_port_has_a_small_share(void **state)
{
	static const uint32_t taken[] = { WORKER_BURST, WORKER_BURST / 2, WORKER_BURST_MIN, WORKER_BURST_MIN };

	(void)state;
	assert_int_equal(worker_rx(&worker), 0);
	flood(100, false);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(taken); i++)
		assert_int_equal(worker_rx(&worker), taken[i]);
	while (worker_rx(&worker) != 0)
		;
	assert_int_equal(port.stats[0].rx_not_ours, 100);
	/* the flood is over */
	flood(WORKER_BURST, false);
	assert_int_equal(worker_rx(&worker), WORKER_BURST);
}

/* RFC 1122, 3.2.1.3: nobody may speak as a group. An answer would go to all of its members. */
static void nobody_speaks_as_a_group(void **state)
{
	enum { IP = 14, CSUM = 10, SRC = 12 };

	(void)state;
	assert_int_equal(worker_rx(&worker), 0);
	for (uint32_t group = 0; group < 2; group++) {
		struct rte_mbuf *m = frame_for_test(port.pool, 1, 0);
		assert_non_null(m);
		uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, IP);
		const uint16_t was = rn_load_be16(ip + SRC), is = (uint16_t)(group ? 0xef00 | (was & 0xff) : was);
		rn_store_be16(ip + SRC, is);
		for (uint32_t at = CSUM; at <= 20 + 16; at += 20 + 16 - CSUM) { /* of IP, of TCP: RFC 1624 */
			uint32_t sum = (uint16_t)~rn_load_be16(ip + at) + (uint16_t)~was + is;
			sum = (sum & 0xffff) + (sum >> 16);
			rn_store_be16(ip + at, (uint16_t) ~((sum & 0xffff) + (sum >> 16)));
		}
		assert_int_equal(rte_ring_enqueue(wire, m), 0);
		while (worker_rx(&worker) != 0)
			;
		assert_int_equal(port.stats[0].rx_not_ours, group);
		assert_int_equal(port.stats[0].rx_no_flow, 1); /* of the host */
	}
}

static uint32_t answered(uint32_t n)
{
	uint32_t sent = 0;

	flood(n, true);
	while (worker_rx(&worker) != 0) {
		sent += worker.tx[0].tail - worker.tx[0].head;
		port_tx_drop_all(&worker.tx[0]);
	}
	return sent;
}

static void strangers_are_answered_so_many_a_second(void **state)
{
	uint32_t sent;

	(void)state;
	assert_int_equal(worker_rx(&worker), 0);
	sent = answered(3000);
	assert_int_equal(sent, 1000);
	assert_int_equal(port.stats[0].rx_no_flow, 3000);
	assert_int_equal(port.stats[0].rx_unanswered, 2000);
	worker.now += 10 * RN_NS_PER_MS;
	assert_int_equal(answered(1000), 50);
	assert_int_equal(port.stats[0].rx_unanswered, 2950);
	/* after a long silence only one burst of answers is allowed */
	worker.now += 100 * RN_NS_PER_S;
	assert_int_equal(answered(3000), 1000);
}

/*
 * Time in which the process did not run must not count toward a peer's deadline. The worker tells lib/tcp_lite of this
 * time, and lib/tcp_lite subtracts it.
 */
static void time_without_the_cpu_is_told_and_a_long_turn_is_not(void **state)
{
	(void)state;
	worker.ran = worker.now = 5 * RN_NS_PER_S;
	worker.now += RN_NS_PER_MS; /* the longest time of an ordinary turn */
	worker_tell_lost(&worker);
	assert_int_equal(worker.tcp.turns.lost, 0);
	worker.now += 40 * RN_NS_PER_MS;
	worker_tell_lost(&worker);
	assert_int_equal(worker.tcp.turns.lost, 40 * RN_NS_PER_MS);
	worker_tell_lost(&worker); /* the same time is not told twice */
	worker.now += 3 * RN_NS_PER_MS;
	worker_tell_lost(&worker);
	assert_int_equal(worker.tcp.turns.lost, 43 * RN_NS_PER_MS);
}

static void behind_is_who_has_a_backlog_and_not_who_is_flooded(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) /* the first call gives the port its share */
		assert_int_equal(worker_rx(&worker), 0);
	worker_tell_behind(&worker);
	assert_false(worker.tcp.turns.behind);
	for (int wave = 0; wave < 2; wave++) {
		worker.more = true; /* the burst was full, so there may be more frames */
		for (uint32_t i = 0; i < WORKER_BACKLOG_TURNS; i++) {
			worker_tell_behind(&worker);
			assert_true(worker.tcp.turns.behind);
		}
		for (uint32_t i = 0; i < 100; i++) {
			worker_tell_behind(&worker);
			assert_false(worker.tcp.turns.behind);
		}
		worker.more = false; /* the flood is over; the next flood counts as a new backlog */
		worker_tell_behind(&worker);
		assert_false(worker.tcp.turns.behind);
	}
}

static void a_full_burst_is_a_backlog_until_all_is_seen(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(worker_rx(&worker), 0);
	assert_false(worker.more);
	flood(WORKER_BURST + 1, true);
	assert_int_equal(worker_rx(&worker), WORKER_BURST);
	assert_true(worker.more);
	assert_int_equal(worker_rx(&worker), 1);
	assert_false(worker.more);
	port_tx_drop_all(&worker.tx[0]);
}

/* On a port with RSS a frame of an unknown connection goes to the worker of the queue that the device's table names. */
static void stranger_goes_to_the_worker_of_its_rss_queue(void **state)
{
	static struct rnicd_worker other;

	(void)state;
	other.sh.rx_moved = rte_ring_create("moved", 64, 0, RING_F_SC_DEQ);
	worker.sh.rx_moved = worker.sh.tx_moved = rte_ring_create("own", 64, 0, RING_F_SC_DEQ);
	assert_non_null(other.sh.rx_moved);
	assert_non_null(worker.sh.rx_moved);
	worker_at[1] = &other;
	rnicd.n_workers = 2;
	assert_int_equal(worker_rx(&worker), 0);
	port.owners = RNICD_OWNERS_RSS;
	port.rss.size = 2;
	port.rss.table[0] = port.rss.table[1] = 1;
	flood(1, true);
	assert_int_equal(worker_rx(&worker), 1);
	assert_int_equal(port.stats[0].rx_moved, 1);
	struct rte_mbuf *m = NULL;
	assert_int_equal(rte_ring_sc_dequeue(other.sh.rx_moved, (void **)&m), 0);
	rte_pktmbuf_free(m);
	/* when the table names this worker, it answers the same frame itself */
	port.rss.table[0] = port.rss.table[1] = 0;
	flood(1, true);
	assert_int_equal(worker_rx(&worker), 1);
	assert_int_equal(port.stats[0].rx_moved, 1);
	assert_int_equal(port.stats[0].rx_no_flow, 1);
	rte_ring_free(other.sh.rx_moved);
	rte_ring_free(worker.sh.rx_moved);
	worker_at[1] = NULL;
}

/* A datagram to a UDP port of queue pairs: a question to the connection manager, or a message to a queue pair. */
static struct rte_mbuf *datagram(bool asks)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);
	struct pkt_flow f = { .l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, 1 }, .vlan = PKT_NO_VLAN },
			      .src = pkt_addr_ip4(0x0a000001),
			      .dst = port_cfg.ip,
			      .sport = port_cfg.ud_port,
			      .dport = port_cfg.ud_port };
	const struct udpl_hdr to = { .kind = UDPL_SEND, .dst_qpn = 7, .src_qpn = 7 };
	const struct udpl_sidr ask = { .id = 1, .port = 7, .src_port = 7 };

	assert_non_null(m);
	const uint32_t hdr = ud_headers_len(&port);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *);
	uint32_t len = UDPL_HDR_LEN + UDPL_CRC_LEN;
	if (asks)
		len = udpl_sidr_build(frame + hdr, UDPL_SIDR_REQ, &ask);
	else
		udpl_build(frame + hdr, &to);
	pkt_udp_build(frame, &f, len, pkt_sum(frame + hdr, len), PKT_CSUM_FULL);
	m->data_len = (uint16_t)(hdr + len);
	m->pkt_len = hdr + len;
	return m;
}

/* Fills the queue to the control thread as far as events of this class may. */
static void fill(enum event_class class)
{
	struct event *ev;

	while ((ev = event_room(0, class)) != NULL) {
		ev->type = EVENT_FX;
		ev->fx = (struct event_fx){ .type = QP_FX_CLOSED };
		event_put(0);
	}
}

static void frame_that_the_control_thread_has_no_room_for_is_not_lost_uncounted(void **state)
{
	const struct rnicd_port_stats *st = &port.stats[0];
	char err[128];

	(void)state;
	assert_true(event_start(1, err, sizeof(err)));
	port_cfg.ud_port = 4793;
	assert_int_equal(worker_rx(&worker), 0);
	fill(EVENT_DROPPABLE);
	assert_int_equal(rte_ring_enqueue(wire, datagram(true)), 0);
	assert_int_equal(worker_rx(&worker), 1);
	assert_int_equal(st->rx_no_room, 1);
	fill(EVENT_LOSSLESS);
	worker.tcp.rc.qp.n_fx = QP_FX_MAX; /* effects that wait for room */
	flood(1, true);
	assert_int_equal(rte_ring_enqueue(wire, datagram(false)), 0);
	assert_int_equal(worker_rx(&worker), 2);
	assert_int_equal(st->rx_no_room, 3);
	assert_int_equal(st->rx_bad_csum + st->rx_other + st->rx_no_flow + worker.tcp.rc.qp.stats.ud_no_qp, 0);
	event_stop();
}

#define CQS 4096u
static uint32_t notified, asked;

static void count_events(const struct event *ev)
{
	if (ev->type == EVENT_SIDR) {
		asked++;
		return;
	}
	assert_int_equal(ev->type, EVENT_FX);
	assert_int_equal(ev->fx.type, QP_FX_CQ_NOTIFY);
	assert_int_equal(ev->fx.owner, notified);
	notified++;
}

static void flood_of_notifications_leaves_room_for_frames(void **state)
{
	static struct qp_cq cq[CQS];
	const uint64_t each = 1024;
	uint8_t *region = aligned_alloc(RN_CACHE_LINE, CQS * each);
	uint32_t turns;
	char err[128];

	(void)state;
	assert_non_null(region);
	memset(region, 0, CQS * each);
	assert_true(event_start(1, err, sizeof(err)));
	for (uint32_t i = 0; i < CQS; i++) {
		const struct qp_cq_attr a = { .owner = i,
					      .region = region,
					      .region_size = CQS * each,
					      .shm_off = i * each,
					      .ring_off = i * each + each / 2,
					      .ring_stride = each / 2,
					      .workers = 1,
					      .cqe = 4 };
		assert_int_equal(qp_cq_init(&cq[i], &a), SPSC_OK);
		cq[i].shm->armed = QP_CQ_ARM_ANY;
		cq[i].ring[0].pending = 1;
		rn_list_push_back(&worker.tcp.rc.qp.dirty_cq, &cq[i].ring[0].link);
	}
	port_cfg.ud_port = 4793;
	assert_int_equal(worker_rx(&worker), 0);
	notified = asked = 0;
	for (turns = 0; turns < CQS && notified < CQS; turns++) {
		assert_true(worker_effects(&worker));
		assert_non_null(event_room(0, EVENT_LOSSLESS));
		assert_non_null(event_room(0, EVENT_DROPPABLE));
		assert_int_equal(rte_ring_enqueue(wire, datagram(true)), 0);
		assert_int_equal(worker_rx(&worker), 1);
		(void)event_collect(16, count_events);
	}
	(void)event_collect(UINT32_MAX, count_events);
	assert_int_equal(notified, CQS);
	assert_int_equal(asked, turns);
	assert_int_equal(port.stats[0].rx_no_room, 0);
	assert_true(rn_list_empty(&worker.tcp.rc.qp.waiting_cq));
	event_stop();
	free(region);
}

/* The host with this address tells its MAC address, whose last octet is `mac`. */
static void neighbour_tells(uint32_t ip, uint8_t mac)
{
	const struct pkt_l2 l2 = { .dst = { 2, 0, 0, 0, 0, 2 }, .src = { 2, 0, 0, 0, 0, mac }, .vlan = PKT_NO_VLAN };
	const struct pkt_arp a = { .op = PKT_ARP_REPLY,
				   .sender = pkt_addr_ip4(ip),
				   .target = port_cfg.ip,
				   .sender_mac = { 2, 0, 0, 0, 0, mac },
				   .target_mac = { 2, 0, 0, 0, 0, 2 } };
	struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);

	assert_non_null(m);
	m->data_len = (uint16_t)pkt_arp_build(rte_pktmbuf_mtod(m, uint8_t *), &l2, &a);
	m->pkt_len = m->data_len;
	assert_int_equal(rte_ring_enqueue(wire, m), 0);
	assert_int_equal(worker_rx(&worker), 1);
}

/* Sends a datagram of `len` octets to this address; returns the last octet of the MAC address to which it went. */
static uint8_t datagram_goes_to(uint32_t ip, uint32_t len)
{
	const uint8_t bytes[64] = { 1, 2, 3 };
	const struct pkt_addr to = pkt_addr_ip4(ip);
	const uint32_t before = worker.tx[0].tail;
	struct pkt p;

	ud_send(&worker, &port, &to, bytes, len);
	assert_int_equal(worker.tx[0].tail, before + 1);
	const struct rte_mbuf *m = worker.tx[0].fifo[before % PORT_TX_QUEUE];
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	assert_int_equal(pkt_parse(frame, m->data_len, m->pkt_len, &p), PKT_OK);
	if (p.kind == PKT_KIND_ARP)
		return frame[5];
	assert_int_equal(p.kind, PKT_KIND_UDP);
	assert_int_equal(p.payload_len, len);
	assert_true(pkt_addr_eq(&p.dst, &to));
	assert_true(worker_csum_good(&port, m, &p));
	return frame[5];
}

static void datagrams_follow_their_neighbours(void **state)
{
	(void)state;
	port_cfg.ud_port = 4793;
	worker.arp[0] = arp_create(&port, &port.stats[0], 0);
	assert_non_null(worker.arp[0]);
	assert_int_equal(worker_rx(&worker), 0);
	assert_int_equal(datagram_goes_to(0x0a000001, 8), 0xff); /* the neighbour is asked, and the datagram waits */
	neighbour_tells(0x0a000001, 9);
	assert_int_equal(worker.tx[0].tail, 2); /* the datagram that has waited */
	assert_int_equal(datagram_goes_to(0x0a000001, 8), 9);
	assert_int_equal(datagram_goes_to(0x0a000001, 64), 9);
	assert_int_equal(datagram_goes_to(0x0a000009, 8), 0xff);
	neighbour_tells(0x0a000009, 7);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(datagram_goes_to(0x0a000001, 8 + i), 9);
		assert_int_equal(datagram_goes_to(0x0a000009, 20 + i), 7);
	}
	neighbour_tells(0x0a000001, 8); /* another adapter has the address now */
	assert_int_equal(datagram_goes_to(0x0a000001, 8), 8);
	assert_int_equal(datagram_goes_to(0x0a000009, 8), 7);
	arp_destroy(worker.arp[0]);
}

#define APART 4096u /* ports that are equal in the lower bits */

static void sockets_of_ports_that_lie_apart_do_not_lie_in_one_chain(void **state)
{
	static struct stream_user user;
	static struct gram g[65536 / APART];
	uint32_t longest = 0;

	(void)state;
	worker.streams.users = &user;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(g); i++) {
		struct cmd c = { .type = CMD_GRAM_OPEN, .gram.gram = &g[i] };
		g[i] = (struct gram){ .lport = (uint16_t)(5 + i * APART), .user = &user, .bit = i };
		command_gram(&worker, &c);
	}
	for (uint32_t i = 0; i < GRAM_HASH; i++) {
		uint32_t n = 0;
		for (const struct gram *at = worker.grams.slot[i]; at != NULL; at = at->next)
			n++;
		longest = rn_max_u32(longest, n);
	}
	assert_in_range(longest, 1, RN_ARRAY_LEN(g) / 4);
	for (uint32_t i = 0; i < RN_ARRAY_LEN(g); i++) {
		struct cmd c = { .type = CMD_GRAM_CLOSE, .gram = { .gram = &g[i], .give_up = true } };
		command_gram(&worker, &c);
		assert_null(user.gram[i]);
	}
	for (uint32_t i = 0; i < GRAM_HASH; i++)
		assert_null(worker.grams.slot[i]);
}

/* The answer to a command that comes then tells the control thread that no received byte is still to be stored. */
static void bytes_that_came_just_before_the_sleep_are_stored_before_the_next_command(void **state)
{
	struct qp_stream *st = &worker.tcp.rc.qp.stream;
	uint8_t memory[4] = { 0 };
	char err[128];

	(void)state;
	assert_true(event_start(1, err, sizeof(err)));
	worker.sh.rx_moved = worker.sh.tx_moved = rte_ring_create("own", 64, 0, RING_F_SC_DEQ);
	assert_non_null(worker.sh.rx_moved);
	assert_int_equal(worker_rx(&worker), 0);
	flood(1, true);
	st->out = true; /* the frame's bytes have been streamed, and the end of its message waits */
	st->n = 1;
	st->end[0] = (struct qp_stream_end){ .dst = memory, .len = sizeof(memory), .bytes = { 1, 2, 3, 4 } };
	worker_idle(&worker);
	assert_int_equal(port.stats[0].rx_no_flow, 1);
	assert_false(st->out);
	assert_memory_equal(memory, st->end[0].bytes, sizeof(memory));
	rte_ring_free(worker.sh.rx_moved);
	event_stop();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(flooded_port_has_a_small_share, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_speaks_as_a_group, setup, teardown),
		cmocka_unit_test_setup_teardown(strangers_are_answered_so_many_a_second, setup, teardown),
		cmocka_unit_test_setup_teardown(time_without_the_cpu_is_told_and_a_long_turn_is_not, setup, teardown),
		cmocka_unit_test_setup_teardown(behind_is_who_has_a_backlog_and_not_who_is_flooded, setup, teardown),
		cmocka_unit_test_setup_teardown(a_full_burst_is_a_backlog_until_all_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(stranger_goes_to_the_worker_of_its_rss_queue, setup, teardown),
		cmocka_unit_test_setup_teardown(frame_that_the_control_thread_has_no_room_for_is_not_lost_uncounted,
						setup, teardown),
		cmocka_unit_test_setup_teardown(flood_of_notifications_leaves_room_for_frames, setup, teardown),
		cmocka_unit_test_setup_teardown(datagrams_follow_their_neighbours, setup, teardown),
		cmocka_unit_test_setup_teardown(
			bytes_that_came_just_before_the_sleep_are_stored_before_the_next_command, setup, teardown),
		cmocka_unit_test_setup_teardown(sockets_of_ports_that_lie_apart_do_not_lie_in_one_chain, setup,
						teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("worker_rx", tests, NULL, NULL);
}
