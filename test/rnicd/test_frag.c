/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams to the UDP port of queue pairs that come as IPv4 fragments; the test plays the peer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "eal.h"
#include "pkt/pkt_wire.h"
#include "plane/ud.h"
#include "udp/udpl.h"

#define FRAMES   256u
#define FLOWS    16u
#define UD_PORT  4793u
#define MTU      1500u
#define LEN      2000u /* octets of the datagram behind its IP header */
#define UNTAGGED PKT_NO_VLAN
#define PRIORITY 0u /* the tag of no VLAN */

static struct rnicd_port port;
static struct rnicd_port_cfg port_cfg;
static struct rnicd_worker worker;
static struct rte_ring *wire;
static uint8_t datagram[LEN];
static uint32_t datagram_len;

/* A message of this length to a number that no queue pair has. Its header is good, and its UDP checksum is left out. */
static void make_datagram(uint32_t qpn, uint32_t len)
{
	const struct udpl_hdr h = { .kind = UDPL_SEND, .dst_qpn = qpn, .src_qpn = qpn };

	memset(datagram, 0, sizeof(datagram));
	rn_store_be16(datagram, UD_PORT);
	rn_store_be16(datagram + 2, UD_PORT);
	rn_store_be16(datagram + 4, (uint16_t)len);
	udpl_build(datagram + PKT_UDP_LEN, &h);
	datagram_len = len;
}

static int setup(void **state)
{
	static struct flow_slot slots[2][2 * FLOWS];
	static struct ud_qp *no_qp[1];
	static const uint8_t mac[PKT_MAC_LEN] = { 2, 0, 0, 0, 0, 2 };
	struct rc_tcp_cfg cfg;

	(void)state;
	memset(&worker, 0, sizeof(worker));
	memset(&port, 0, sizeof(port));
	port_cfg = (struct rnicd_port_cfg){
		.ip = pkt_addr_ip4(0x0a000002), .prefix_len = 24, .vlan = PKT_NO_VLAN, .ud_port = UD_PORT
	};
	memcpy(port.mac, mac, sizeof(mac));
	port.cfg = &port_cfg;
	port.mtu = MTU;
	port.caps.queues = 1;
	port.wire = &wire;
	port.pool = pool_for_test("frames", FRAMES - 1, 2048);
	wire = rte_ring_create("wire", FRAMES, 0, 0);
	rnicd.port[0] = &port;
	rnicd.n_ports = rnicd.n_workers = rnicd.cfg.n_workers = 1;
	worker.tx[0] = (struct port_tx){ .port = &port, .st = &port.stats[0], .wake = RN_NEVER };
	worker.uds.slot = no_qp;
	worker.now = RN_NS_PER_S;
	flow_init(&worker.flows, slots[0], 2 * FLOWS);
	flow_init(&worker.listens, slots[1], 2 * FLOWS);
	rc_tcp_cfg_default(&cfg, 0, MTU, FLOWS);
	const uint64_t size = (rc_tcp_ctx_size(&cfg) + RN_CACHE_LINE - 1) / RN_CACHE_LINE * RN_CACHE_LINE;
	worker.qp_mem = aligned_alloc(RN_CACHE_LINE, size);
	if (port.pool == NULL || wire == NULL || worker.qp_mem == NULL || !frag_start(&worker) || !gram_start(&worker))
		return -1;
	memset(worker.qp_mem, 0, size);
	make_datagram(7, LEN);
	return rc_tcp_ctx_init(&worker.tcp, &cfg, worker.qp_mem, size) == QP_OK && worker_rx(&worker) == 0 ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	frag_stop(&worker);
	gram_stop(&worker);
	uint32_t left = rte_mempool_in_use_count(port.pool);
	free(worker.qp_mem);
	rte_ring_free(wire);
	rte_mempool_free(port.pool);
	return left == 0 ? 0 : -1;
}

/*
 * Receives octets [off, end) of the datagram as a fragment, or as a whole packet if these are all: with this tag in
 * front of the IP header, and so many octets of options in it. Behind the frame the buffer still has the datagram's
 * other octets.
 */
static void part(uint32_t off, uint32_t end, uint16_t vlan, uint32_t options)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(port.pool);
	const uint16_t more = end < datagram_len ? 0x2000 : 0;

	assert_non_null(m);
	uint8_t *at = rte_pktmbuf_mtod(m, uint8_t *), *frame = at;
	memcpy(at, port.mac, PKT_MAC_LEN);
	memset(at + PKT_MAC_LEN, 2, PKT_MAC_LEN);
	at += 2u * PKT_MAC_LEN;
	if (vlan != UNTAGGED) {
		rn_store_be16(at, PKT_ETHERTYPE_VLAN);
		rn_store_be16(at + 2, vlan);
		at += PKT_VLAN_LEN;
	}
	rn_store_be16(at, PKT_ETHERTYPE_IP4);
	at += 2;
	const uint32_t hdr = PKT_IP4_LEN + options;
	memset(at, 0, hdr);
	at[0] = (uint8_t)(0x40 | hdr / 4);
	rn_store_be16(at + 2, (uint16_t)(hdr + end - off));
	rn_store_be16(at + 4, 1);
	rn_store_be16(at + 6, (uint16_t)(more | off / 8));
	at[8] = 64;
	at[9] = PKT_PROTO_UDP;
	rn_store_be32(at + 12, 0x0a000001);
	rn_store_be32(at + 16, 0x0a000002);
	pkt_csum_store(at + 10, pkt_sum(at, hdr));
	const uint32_t behind = rte_pktmbuf_tailroom(m) - (uint32_t)(at + hdr - frame);
	memcpy(at + hdr, datagram + off, rn_min_u32(LEN - off, behind));
	m->data_len = (uint16_t)((uint32_t)(at - frame) + hdr + end - off);
	m->pkt_len = m->data_len;
	assert_int_equal(rte_ring_enqueue(wire, m), 0);
	assert_int_equal(worker_rx(&worker), 1);
}

/* What has become of the datagrams that are whole: good ones, and those whose header is not. */
static void expect(uint64_t good, uint64_t bad)
{
	const struct rnicd_port_stats *st = &port.stats[0];

	assert_int_equal(st->frag.whole, good + bad);
	assert_int_equal(worker.tcp.rc.qp.stats.ud_no_qp, good);
	assert_int_equal(worker.tcp.rc.qp.stats.ud_bad, bad);
	assert_int_equal(st->rx_bad[PKT_BAD_HEADER] + st->rx_bad[PKT_BAD_CHECKSUM] + st->rx_bad[PKT_TRUNCATED], 0);
	assert_int_equal(st->frag.bad + st->rx_other + st->rx_not_ours + st->rx_bad_csum, 0);
}

static void a_header_that_the_first_fragment_does_not_have_is_not_read(void **state)
{
	(void)state;
	/* every link takes 68 octets: 20 of options leave 24, for UDP's header and 16 octets of the message's */
	part(0, 24, UNTAGGED, 20);
	part(24, 1400, UNTAGGED, 20);
	part(1400, LEN, UNTAGGED, 20);
	expect(0, 1);
	/* a fragment that has the header may be as short as this */
	part(0, 32, UNTAGGED, 20);
	part(32, 1400, UNTAGGED, 20);
	part(1400, LEN, UNTAGGED, 20);
	expect(1, 1);
}

static void fragments_with_a_priority_tag_and_without_one_are_of_one_datagram(void **state)
{
	static const uint32_t step = 1400;

	(void)state;
	part(0, step, UNTAGGED, 0);
	part(step, LEN, PRIORITY, 0);
	expect(1, 0);
	part(0, step, PRIORITY, 0);
	part(step, LEN, UNTAGGED, 0);
	expect(2, 0);
	/* the first fragment comes last */
	part(step, LEN, UNTAGGED, 0);
	part(0, step, PRIORITY, 0);
	expect(3, 0);
	part(step, LEN, PRIORITY, 0);
	part(0, step, UNTAGGED, 0);
	expect(4, 0);
}

/* Datagrams of sockets and of reliable queue pairs are never put together, so a longer one is refused. */
static void a_packet_as_long_as_the_mtu_may_have_a_priority_tag(void **state)
{
	const struct qp_stats *st = &worker.tcp.rc.qp.stats;

	(void)state;
	make_datagram(UDPL_QPN_SOCKS + 9, MTU - PKT_IP4_LEN);
	part(0, datagram_len, UNTAGGED, 0);
	assert_int_equal(st->ud_crc, 1); /* the message has none */
	part(0, datagram_len, PRIORITY, 0);
	assert_int_equal(st->ud_crc, 2);
	assert_int_equal(st->ud_bad, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_header_that_the_first_fragment_does_not_have_is_not_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(fragments_with_a_priority_tag_and_without_one_are_of_one_datagram,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_packet_as_long_as_the_mtu_may_have_a_priority_tag, setup, teardown),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("frag", tests, NULL, NULL);
}
