/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pairs of reliable datagrams and the flows of a worker (plane/rd.c): pairs that wait for room in a flow go on. The
 * peer is a device with two workers, which the test plays. The peer has the device's own address, so that frames to it
 * lie in the worker's loop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "control/rd_memory.h"
#include "crc32c/crc32c.h"
#include "eal.h"
#include "plane/rd_fold.h"
#include "plane/rd_peer.h"
#include "rig.h"

#define FRAMES    1024u
#define PAIRS     64u
#define WORKERS   2u /* of the peer */
#define UD_PORT   4793u
#define QKEY      0x1234u
#define TURN      (10 * RN_NS_PER_US)
#define ACK_DELAY (50 * RN_NS_PER_US)

static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;
static struct rnicd_worker worker;
static struct rig *rig;
static struct rd_side side[2];
static struct rd_port *rd;
static struct udpr_rx flow[WORKERS]; /* the peer's ends */
static bool came[WORKERS * PAIRS];   /* by the QPN of the peer: a segment has come */
static const uint64_t peer_key[2] = { 1, 2 };

static struct qp *qp(uint32_t q) { return &rig->n[0].q[q].qp; }

/* Makes queue pair q, of tenant q + 1. */
static bool make_rd(uint32_t q)
{
	struct qp_attr a = rig_attr(&rig->n[0], q);

	a.many = true;
	a.tenant = (uint8_t)(q + 1);
	rc_destroy(&rig->n[0].ctx.rc, qp(q));
	if (qp_init(qp(q), &a) != QP_OK || rd_attach(qp(q), &side[q], (struct rd_manner){ 0 }) != QP_OK)
		return false;
	qp_set(qp(q), &(struct qp_tune){ .access = QP_ACC_ALL, .qkey = QKEY, .rnr_ns = RN_NEVER });
	for (uint32_t s = QP_S_INIT; s <= QP_S_RTS; s++)
		if (rd_modify(&rd->d, qp(q), (enum qp_state)s) != QP_OK)
			return false;
	return true;
}

static int setup(void **state)
{
	struct rig_cfg c;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(&port, 0, sizeof(port));
	memset(flow, 0, sizeof(flow));
	memset(came, 0, sizeof(came));
	port_cfg = (struct rnicd_port_cfg){ .ip = pkt_addr_ip4(0x0a000002), .prefix_len = 120, .vlan = PKT_NO_VLAN };
	port_cfg.ud_port = UD_PORT;
	port.cfg = &port_cfg;
	port.mtu = 1500;
	port.pool = pool_for_test("frames", FRAMES - 1, 1536);
	rnicd.port[0] = &port;
	rnicd.n_ports = rnicd.n_workers = rnicd.cfg.n_workers = 1;
	rnicd.cfg.user_share = 100;
	rnicd.cfg.rd_idle_ns = 0;
	worker.tx[0] = (struct port_tx){ .port = &port, .st = &port.stats[0], .wake = RN_NEVER };
	worker.now = 100 * RN_NS_PER_S;
	rig_defaults(&c);
	rig = rig_new(&c);
	rd = rd_memory(0, 0);
	if (port.pool == NULL || rd == NULL)
		return -1;
	rd_port_join(&worker, rd);
	rd->d.qp = &rig->n[0].ctx.rc.qp;
	return make_rd(0) && make_rd(1) ? 0 : -1;
}

static void loop_empty(void)
{
	while (worker.loop_head != worker.loop_tail)
		rte_pktmbuf_free(worker.loop[worker.loop_head++ % WORKER_LOOP]);
}

/* All packets and pairs come back; the next case has the same memory (rd_memory). */
static int teardown(void **state)
{
	(void)state;
	for (uint32_t q = 0; q < RN_ARRAY_LEN(side); q++)
		rd_destroy(&rd->d, qp(q));
	rig_free(rig);
	loop_empty();
	for (uint32_t i = 0; i < rd_peers_ever(rd); i++)
		if (rd->peer[i].used)
			rd_peer_drop(rd, &rd->peer[i]);
	uint32_t left = rte_mempool_in_use_count(port.pool);
	rte_mempool_free(port.pool);
	return left == 0 ? 0 : -1;
}

/* Posts a Send of queue pair q to this QPN of the device at this address. */
static void post_to(uint32_t q, const struct pkt_addr *addr, uint32_t qpn, uint32_t len)
{
	struct {
		struct qp_wqe w;
		struct qp_wqe_dest to;
	} slots = { .w = { .wr_id = qpn, .op = QP_WR_SEND, .num_sge = 1, .slots = 2 },
		    .to = { .qpn = qpn, .qkey = QKEY } };

	memcpy(slots.to.addr, addr->b, sizeof(slots.to.addr));
	slots.w.sge[0] = rig_sge(&rig->n[0], 0, len);
	assert_true(spsc_prod_free(&rig->n[0].q[q].sq, 2) >= 2);
	spsc_prod_copy(&rig->n[0].q[q].sq, 0, &slots, sizeof(slots));
	spsc_prod_publish(&rig->n[0].q[q].sq, 2);
	rd_doorbell(&rd->d, qp(q));
}

/* Posts a Send of queue pair 0 to this QPN of the peer. */
static void post(uint32_t qpn) { post_to(0, &port_cfg.ip, qpn, 100); }

/* Passes a header from this address to the worker, as a frame. rh: of a packet behind it, or NULL. */
static void packet_in(const struct pkt_addr *from, const struct udpr_hdr *h, const struct rd_hdr *rh)
{
	struct pkt_flow f = { .l2 = { .vlan = PKT_NO_VLAN }, .src = *from, .dst = port_cfg.ip };
	struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);
	struct pkt p;

	assert_non_null(m);
	f.sport = f.dport = UD_PORT;
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *), *b = frame + ud_headers_len(&port);
	uint32_t len = udpr_build(b, h);
	len += rh != NULL ? rd_build(b + len, rh) : 0;
	udpl_crc_put(b, len, crc32c(0, b, len));
	len += UDPL_CRC_LEN;
	pkt_udp_build(frame, &f, len, pkt_sum(b, len), PKT_CSUM_FULL);
	m->pkt_len = m->data_len = (uint16_t)(ud_headers_len(&port) + len);
	assert_int_equal(pkt_parse(frame, m->data_len, m->pkt_len, &p), PKT_OK);
	rd_port_input(&worker, &port, m, &p);
}

static void header_in(const struct pkt_addr *from, const struct udpr_hdr *h) { packet_in(from, h, NULL); }
static void answer(const struct udpr_hdr *h) { header_in(&port_cfg.ip, h); }

static void data_at_peer(const uint8_t *b, const struct udpr_hdr *h)
{
	struct udpr_rx *rx = &flow[h->dst_worker];
	struct rd_hdr rh;

	assert_int_equal(udpr_rx_open(rx, peer_key, "peer", 4, h, worker.now), UDPR_OK);
	assert_int_equal(udpr_rx_data(rx, h, worker.now), UDPR_OK);
	assert_true(rd_parse(b + h->body, h->body_len, &rh));
	assert_int_equal(rd_number(rh.dst_qpn, WORKERS), h->dst_worker);
	came[rh.dst_qpn] = true;
}

/* The peer gets what the worker has sent, and answers. */
static void peer_turn(void)
{
	struct udpr_hdr h, out;
	struct pkt p;

	while (worker.loop_head != worker.loop_tail) {
		struct rte_mbuf *m = worker.loop[worker.loop_head++ % WORKER_LOOP];
		const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

		assert_int_equal(pkt_parse(frame, m->data_len, m->pkt_len, &p), PKT_OK);
		assert_int_equal(udpr_parse(frame + p.payload_off, p.payload_len, &h), UDPR_OK);
		if (h.kind == UDPR_HELLO) {
			udpr_cookie_make(peer_key, "peer", 4, &h, worker.now, &out);
			out.number = WORKERS;
			answer(&out);
		} else {
			assert_int_equal(h.kind, UDPR_DATA);
			data_at_peer(frame + p.payload_off, &h);
		}
		rte_pktmbuf_free(m);
	}
	for (uint32_t i = 0; i < WORKERS; i++) {
		if (udpr_rx_due(&flow[i], ACK_DELAY) > worker.now)
			continue;
		udpr_rx_ack(&flow[i], worker.now, &out);
		answer(&out);
	}
}

static void turns(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		(void)rd_port_turn(&worker);
		peer_turn();
		worker.now += TURN;
		rd->d.qp->now = worker.now;
	}
}

static void pairs_do_not_stay_with_the_first_worker_of_a_device_that_has_more(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < PAIRS; i++)
		post(2 * i + 1); /* all for worker 1 */
	turns(1000);
	for (uint32_t i = 0; i < PAIRS; i++)
		assert_true(came[2 * i + 1]);
}

static void peer_at_which_pairs_wait_is_not_forgotten(void **state)
{
	struct rd_pair *x;

	(void)state;
	rnicd.cfg.rd_idle_ns = RN_NS_PER_S;
	struct rd_peer *p = rd_peer_get(rd, &port_cfg.ip, 0, worker.now);
	assert_non_null(p);
	for (uint32_t i = 0; i < PAIRS; i++)
		post(2 * i);
	while ((x = rd_pop(&rd->d)) != NULL)
		rd_park(x, &p->full);
	const uint32_t n_peers = rd->n_peers;
	rd->n_peers = RD_PEERS; /* there is no place for another peer */
	assert_null(rd_peer_get(rd, &port_cfg.ip, 1, worker.now));
	rd->n_peers = n_peers;
	assert_true(p->used);
	const uint32_t packets = rd->packets_free;
	rd->packets_free = 1; /* the pairs that go on find no packet */
	rd_peer_touch(rd, p);
	turns(2);
	assert_true(p->used);
	rd->packets_free = packets;
	turns(1000);
	for (uint32_t i = 0; i < PAIRS; i++)
		assert_true(came[2 * i]);
}

/* HELLOs from the peer, or from addresses to which no route leads, come; returns how many were answered. */
static uint32_t hellos(uint32_t n, bool forged)
{
	const struct udpr_hdr h = { .kind = UDPR_HELLO, .flow = 1 };
	const uint64_t lost = port.stats[0].tx_drops;
	uint32_t answered = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct pkt_addr from = forged ? pkt_addr_ip4(0xc0000200 + i) : port_cfg.ip;
		header_in(&from, &h);
		while (worker.loop_head != worker.loop_tail) {
			rte_pktmbuf_free(worker.loop[worker.loop_head++ % WORKER_LOOP]);
			answered++;
		}
	}
	return answered + (uint32_t)(port.stats[0].tx_drops - lost);
}

static void floods_do_not_keep_known_peers_from_opening_flows(void **state)
{
	(void)state;
	while (conn_answer_allowed(&worker, &port)) /* strangers of all other kinds use up their answers */
		;
	assert_int_equal(hellos(1, false), 1);
	assert_int_equal(hellos(3000, true), 999);
	assert_int_equal(hellos(1, false), 0); /* not known: it looks like the flood */
	struct rd_peer *p = rd_peer_get(rd, &port_cfg.ip, 1, worker.now);
	assert_non_null(p);
	assert_int_equal(hellos(1, false), 1);
	assert_true(rd_fold_make(rd, p, worker.now));
	rd_peer_drop(rd, p);
	assert_int_equal(hellos(1, false), 1);
	assert_int_equal(hellos(3000, false), 998); /* addresses of known peers can be forged, too */
	worker.now += 10 * RN_NS_PER_MS;
	assert_int_equal(hellos(1000, true) + hellos(1000, false), 100);
}

/* Sends `n` segments to a queue pair that there is not. The sender takes no answers. */
static void segments_of_stranger(const struct pkt_addr *from, uint16_t number, uint32_t n)
{
	const struct udpr_hdr hello = { .kind = UDPR_HELLO, .flow = 7, .src_worker = number };
	const struct rd_hdr rh = { .kind = RD_SEGMENT, .dst_qpn = 0x999, .src_qpn = 5, .run = 1 };
	struct udpr_hdr cookie, h = { .kind = UDPR_DATA, .flags = UDPR_F_COOKIE, .flow = 7, .src_worker = number };

	udpr_cookie_make(rnicd.secret, from->b, sizeof(from->b), &hello, worker.now, &cookie);
	h.token = cookie.token;
	memcpy(h.cookie, cookie.cookie, sizeof(h.cookie));
	for (h.number = 0; h.number < n; h.number++)
		packet_in(from, &h, &rh);
}

/* Runs until all packets have come back, some of them from flows that are lost. The slots of send queues are free. */
static void until_all_is_back(void)
{
	for (uint32_t i = 0; i < 1000 && rd->packets_free < RD_PACKETS; i++) {
		worker.now += 10 * RN_NS_PER_MS;
		turns(10);
	}
	assert_int_equal(rd->packets_free, RD_PACKETS);
	assert_int_equal(rd->rings_free, RD_RINGS);
	rc_flush(&rig->n[0].ctx.rc);
}

/* More peers than there are rings, and such with as many answers as a flow can hold. */
static void answers_to_strangers_leave_packets_for_others(void **state)
{
	static struct ud_qp *none[1];

	(void)state;
	worker.uds.slot = none;
	worker.tcp.rc.qp.now = worker.now;
	for (uint32_t i = 0; i < 200 * RD_NUMBERS; i++) {
		const struct pkt_addr from = pkt_addr_ip4(0xc0000200 + i / RD_NUMBERS);
		segments_of_stranger(&from, (uint16_t)(i % RD_NUMBERS), i < 4 * RD_NUMBERS ? RD_RING : 1);
		assert_int_equal(rd_peer_find(rd, &from, i % RD_NUMBERS)->rx.open, true);
	}
	assert_true(rd->packets_free > RD_PACKETS / 2 && rd->rings_free > RD_RINGS / 4);
	assert_int_equal(rd->drops.far, 0);
	for (uint32_t i = 0; i < PAIRS; i++)
		post(2 * i);
	turns(1000);
	for (uint32_t i = 0; i < PAIRS; i++)
		assert_true(came[2 * i]);
	until_all_is_back();
}

/* Fills the worker's loop but for one place. */
static void loop_fill(void)
{
	while (worker.loop_tail - worker.loop_head < WORKER_LOOP - 1) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);

		assert_non_null(m);
		worker.loop[worker.loop_tail++ % WORKER_LOOP] = m;
	}
}

static void an_ack_leaves_though_packets_take_all_the_room(void **state)
{
	static struct ud_qp *none[1];
	struct udpr_hdr h;
	struct pkt p;

	(void)state;
	worker.uds.slot = none;
	post(0);
	turns(10);
	assert_true(came[0]);
	segments_of_stranger(&port_cfg.ip, 0, 2);
	worker.now += 2 * ACK_DELAY;
	for (uint32_t i = 1; i < PAIRS; i++)
		post(2 * i);
	loop_fill();
	(void)rd_port_turn(&worker);
	assert_int_equal(worker.loop_tail - worker.loop_head, WORKER_LOOP);
	const uint8_t *frame = rte_pktmbuf_mtod(worker.loop[(worker.loop_tail - 1) % WORKER_LOOP], const uint8_t *);
	assert_int_equal(pkt_parse(frame, 1000, 1000, &p), PKT_OK);
	assert_int_equal(udpr_parse(frame + p.payload_off, p.payload_len, &h), UDPR_OK);
	assert_int_equal(h.kind, UDPR_ACK);
	for (uint32_t i = 0; i < 1000 && rd->packets_free < RD_PACKETS; i++) { /* the peer is silent from here on */
		loop_empty();
		worker.now += 10 * RN_NS_PER_MS;
		rd->d.qp->now = worker.now;
		(void)rd_port_turn(&worker);
	}
	assert_int_equal(rd->packets_free, RD_PACKETS);
	rc_flush(&rig->n[0].ctx.rc);
}

/* A message of many packets waits in its work request until the peer answers, and not in packets. */
static void a_flow_to_a_silent_address_has_one_packet(void **state)
{
	const struct pkt_addr silent = pkt_addr_ip4(0xc0000200);

	(void)state;
	post_to(0, &silent, 4, 50000);
	turns(1000);
	assert_int_equal(rd->packets_free, RD_PACKETS - 1);
	until_all_is_back();
	assert_int_equal(rd_pairs(&rd->d), 0);
}

/* Rings, then packets, are short, and tenant 1 sends to more silent addresses than there are of these. */
static void a_tenant_that_sends_to_silent_addresses_leaves_room_for_others(void **state)
{
	uint32_t *const of[] = { &rd->rings_free, &rd->packets_free };
	const uint32_t few = 150;

	(void)state;
	for (uint32_t i = 0; i < RN_ARRAY_LEN(of); i++) {
		const uint32_t more = *of[i] - few;

		*of[i] = few;
		for (uint32_t k = 0; k < 100; k++) {
			const struct pkt_addr silent = pkt_addr_ip4(0xc0000200 + k);
			post_to(0, &silent, 4, 100);
		}
		turns(100);
		assert_in_range(rd->use[1].rings, 50, 80);
		assert_int_equal(rd->use[1].packets, rd->use[1].rings);
		post_to(1, &port_cfg.ip, 2 * i, 100);
		turns(100);
		assert_true(came[2 * i]);
		*of[i] += more;
		until_all_is_back();
		assert_int_equal(rd->use[1].rings + rd->use[1].packets, 0);
	}
}

/* A queue pair with a long queue, which `mem` has room for. */
static void long_queue(struct qp *q, struct rd_side *s, uint8_t *mem, uint32_t slots)
{
	struct qp_attr a = rig_attr(&rig->n[0], 0);

	a.many = true;
	a.qpn = 20;
	a.region = mem;
	a.shm_off = 0;
	a.rq_off = sizeof(struct qp_shm);
	a.rq_slots = 1;
	a.sq_off = a.rq_off + spsc_size(1, QP_SLOT_SIZE);
	a.sq_slots = slots;
	a.region_size = a.sq_off + spsc_size(slots, QP_SLOT_SIZE);
	assert_int_equal(qp_init(q, &a), QP_OK);
	assert_int_equal(rd_attach(q, s, (struct rd_manner){ 0 }), QP_OK);
	for (uint32_t st = QP_S_INIT; st <= QP_S_RTS; st++)
		assert_int_equal(rd_modify(&rd->d, q, (enum qp_state)st), QP_OK);
}

/* A bind sends nothing, so no peer slows it down. */
static void binds_take_a_bounded_part_of_a_turn(void **state)
{
	enum { SLOTS = 8192, BINDS = SLOTS / 2, IN_A_TURN = WORKER_BURST * RD_SENDS };
	static uint8_t mem[(SLOTS + 64) * QP_SLOT_SIZE] RN_ALIGNED(RN_CACHE_LINE);
	static struct rd_side its_side;
	static struct qp q;
	const uint64_t *done = &rig->n[0].ctx.rc.qp.stats.locals;
	struct {
		struct qp_wqe w;
		struct qp_wqe_dest to;
	} slots = { .w = { .op = QP_WR_BIND_MW, .slots = 2 }, .to = { .qpn = 2, .qkey = QKEY } };
	struct spsc_prod sq;

	(void)state;
	long_queue(&q, &its_side, mem, SLOTS);
	const struct spsc_place at = { .region = mem,
				       .region_size = sizeof(mem),
				       .off = sizeof(struct qp_shm) + spsc_size(1, QP_SLOT_SIZE),
				       .nslots = SLOTS,
				       .slot_size = QP_SLOT_SIZE };
	assert_int_equal(spsc_prod_attach(&sq, &at), SPSC_OK);
	assert_int_equal(qp_mw_alloc(&rig->n[0].dev, RIG_PD, QP_ENTRY_MW_1, &slots.w.rkey), QP_MR_OK);
	memcpy(slots.to.addr, port_cfg.ip.b, sizeof(slots.to.addr));
	for (uint32_t i = 0; i < BINDS; i++)
		spsc_prod_copy(&sq, 2 * i, &slots, sizeof(slots));
	spsc_prod_publish(&sq, SLOTS);
	rd_doorbell(&rd->d, &q);
	for (uint32_t i = 0; i < 100 && *done < BINDS; i++) {
		const uint64_t before = *done;
		turns(1);
		assert_true(*done - before <= IN_A_TURN);
	}
	assert_int_equal(*done, BINDS);
	rd_destroy(&rd->d, &q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(pairs_do_not_stay_with_the_first_worker_of_a_device_that_has_more,
						setup, teardown),
		cmocka_unit_test_setup_teardown(peer_at_which_pairs_wait_is_not_forgotten, setup, teardown),
		cmocka_unit_test_setup_teardown(floods_do_not_keep_known_peers_from_opening_flows, setup, teardown),
		cmocka_unit_test_setup_teardown(answers_to_strangers_leave_packets_for_others, setup, teardown),
		cmocka_unit_test_setup_teardown(an_ack_leaves_though_packets_take_all_the_room, setup, teardown),
		cmocka_unit_test_setup_teardown(a_flow_to_a_silent_address_has_one_packet, setup, teardown),
		cmocka_unit_test_setup_teardown(a_tenant_that_sends_to_silent_addresses_leaves_room_for_others, setup,
						teardown),
		cmocka_unit_test_setup_teardown(binds_take_a_bounded_part_of_a_turn, setup, teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("rd_flows", tests, NULL, NULL);
}
