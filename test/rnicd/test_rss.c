/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * On a port with receive side scaling a connection belongs to the worker of the queue that the device chooses. The hash
 * is checked with Microsoft's verification suite ("Verifying the RSS Hash Calculation").
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <rte_dev.h>
#include <rte_ethdev.h>

#include "border/flow_owner.h"
#include "eal.h"
#include "plane/port_rss.h"

#define QUEUES 4u

static const uint8_t key[40] = { 0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
				 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
				 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa };

/* For received frames: the destination is the port's own end. */
static const struct {
	const char *dst, *src;
	uint16_t dport, sport;
	uint32_t hash;
} suite[] = {
	{ "161.142.100.80", "66.9.149.187", 1766, 2794, 0x51ccc178 },
	{ "65.69.140.83", "199.92.111.2", 4739, 14230, 0xc626b0ea },
	{ "12.22.207.184", "24.19.198.95", 38024, 12898, 0x5c2b394a },
	{ "209.142.163.6", "38.27.205.30", 2217, 48228, 0xafc7327f },
	{ "202.188.127.2", "153.39.163.191", 1303, 44251, 0x10e828a2 },
	{ "3ffe:2501:200:3::1", "3ffe:2501:200:1fff::7", 1766, 2794, 0x40207d3d },
	{ "ff02::1", "3ffe:501:8::260:97ff:fe40:efab", 4739, 14230, 0xdde51bbf },
	{ "fe80::200:f8ff:fe21:67cf", "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 38024, 44251, 0x02d1feef },
};

static struct pkt_addr addr(const char *text)
{
	struct pkt_addr a = { .b = { [10] = 0xff, [11] = 0xff } };

	if (inet_pton(AF_INET, text, a.b + 12) != 1)
		assert_int_equal(inet_pton(AF_INET6, text, a.b), 1);
	return a;
}

static struct flow_key received(size_t i)
{
	return (struct flow_key){ .local = addr(suite[i].dst),
				  .remote = addr(suite[i].src),
				  .lport = suite[i].dport,
				  .rport = suite[i].sport };
}

static void hash_is_that_of_the_verification_suite(void **state)
{
	struct rnicd_rss rss = { .size = 0 };

	(void)state;
	memcpy(rss.key, key, sizeof(key));
	for (size_t i = 0; i < RN_ARRAY_LEN(suite); i++) {
		const struct flow_key k = received(i);
		assert_int_equal(flow_rss_hash(&rss, &k), suite[i].hash);
	}
}

static struct rnicd_port_cfg cfg;
static struct rnicd_port port;

/* DPDK's null device: it has a key and a redirection table like an adapter's, and no wire. */
static void open_null(const char *name, uint16_t queues, uint64_t hash)
{
	struct rte_eth_conf conf = { .rxmode.mq_mode = RTE_ETH_MQ_RX_RSS,
				     .rx_adv_conf.rss_conf = { .rss_hf = hash,
							       .rss_key = (uint8_t *)(uintptr_t)key,
							       .rss_key_len = sizeof(key) } };
	struct rte_mempool *pool = pool_for_test(name, 1023, 256);

	assert_non_null(pool);
	cfg.ip = pkt_addr_ip4(0x0a000001);
	port = (struct rnicd_port){ .cfg = &cfg, .caps.queues = queues };
	assert_int_equal(rte_eal_hotplug_add("vdev", name, ""), 0);
	assert_int_equal(rte_eth_dev_get_port_by_name(name, &port.ethdev), 0);
	assert_int_equal(rte_eth_dev_configure(port.ethdev, queues, queues, &conf), 0);
	for (uint16_t q = 0; q < queues; q++) {
		assert_int_equal(rte_eth_rx_queue_setup(port.ethdev, q, 64, 0, NULL, pool), 0);
		assert_int_equal(rte_eth_tx_queue_setup(port.ethdev, q, 64, 0, NULL), 0);
	}
	assert_int_equal(rte_eth_dev_start(port.ethdev), 0);
}

static void device_with_key_and_table_names_the_owner(void **state)
{
	struct rte_eth_rss_reta_entry64 reta[2];
	struct rte_eth_rss_conf set = { .rss_key = (uint8_t *)(uintptr_t)key,
					.rss_key_len = sizeof(key),
					.rss_hf = RTE_ETH_RSS_NONFRAG_IPV4_TCP };

	(void)state;
	open_null("net_null0", QUEUES, RTE_ETH_RSS_NONFRAG_IPV4_TCP);
	assert_int_equal(rte_eth_dev_rss_hash_update(port.ethdev, &set), 0);
	for (uint32_t g = 0; g < 2; g++) {
		reta[g].mask = UINT64_MAX;
		for (uint32_t i = 0; i < RTE_ETH_RETA_GROUP_SIZE; i++)
			reta[g].reta[i] = (uint16_t)((g + i * 3) % QUEUES);
	}
	assert_int_equal(rte_eth_dev_rss_reta_update(port.ethdev, reta, 128), 0);
	port_rss_read(&port);
	assert_int_equal(port.owners, RNICD_OWNERS_RSS);
	assert_int_equal(port.rss.size, 128);
	assert_memory_equal(port.rss.key, key, sizeof(key));
	rnicd.port[0] = &port;
	rnicd.n_workers = QUEUES;
	for (size_t i = 0; i < 5; i++) { /* the IPv4 entries */
		const struct flow_key k = received(i);
		const struct conn_addr a = { .local = k.local, .remote = k.remote, .lport = k.lport, .rport = k.rport };
		const uint32_t entry = suite[i].hash % 128;
		assert_int_equal(conn_owner(&a), (entry / 64 + entry % 64 * 3) % QUEUES);
	}
}

static void device_that_does_not_hash_tcp_leaves_the_owner_to_the_flow_hash(void **state)
{
	(void)state;
	open_null("net_null1", QUEUES, RTE_ETH_RSS_NONFRAG_IPV4_UDP);
	port_rss_read(&port);
	assert_int_equal(port.owners, RNICD_OWNERS_HASH);
	open_null("net_null2", 1, RTE_ETH_RSS_NONFRAG_IPV4_TCP);
	port_rss_read(&port);
	assert_int_equal(port.owners, RNICD_OWNERS_HASH);
}

static void table_that_names_a_queue_of_nobody_is_not_used(void **state)
{
	struct rte_eth_rss_reta_entry64 reta[2] = { { .mask = 1, .reta = { QUEUES - 1 } }, { .mask = 0 } };

	(void)state;
	open_null("net_null3", QUEUES, RTE_ETH_RSS_NONFRAG_IPV4_TCP);
	assert_int_equal(rte_eth_dev_rss_reta_update(port.ethdev, reta, 128), 0);
	port.caps.queues = QUEUES - 1;
	port_rss_read(&port);
	assert_int_equal(port.owners, RNICD_OWNERS_HASH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash_is_that_of_the_verification_suite),
		cmocka_unit_test(device_with_key_and_table_names_the_owner),
		cmocka_unit_test(device_that_does_not_hash_tcp_leaves_the_owner_to_the_flow_hash),
		cmocka_unit_test(table_that_names_a_queue_of_nobody_is_not_used),
	};

	if (!eal_for_test())
		return 77;
	return cmocka_run_group_tests_name("rss", tests, NULL, NULL);
}
