/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory and workers on the NUMA nodes of the ports, and the log's sentences about them, on machines that the test
 * makes up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <numa.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "border/rnicd.h"
#include "control/numa_node.h"

struct rnicd rnicd;
static int nodes; /* number of NUMA nodes of the made-up machine */
static int node_of_dev[2];
static char said[1024];
static uint64_t placed; /* bytes */
static int placed_at;

void rnicd_log(enum rnicd_log_level level, const char *fmt, ...)
{
	const size_t len = strlen(said);
	va_list ap;

	assert_int_equal(level, RNICD_LOG_WARNING);
	va_start(ap, fmt);
	vsnprintf(said + len, sizeof(said) - len, fmt, ap);
	va_end(ap);
	strcat(said, "\n");
}

/* In place of libnuma's functions. */
int numa_available(void) { return nodes > 0 ? 0 : -1; }
int numa_max_node(void) { return nodes - 1; }
int numa_node_of_cpu(int cpu) { return cpu % 2; }
int rte_eth_dev_socket_id(uint16_t dev) { return node_of_dev[dev]; }

void numa_tonode_memory(void *base, size_t size, int node)
{
	assert_non_null(base);
	placed += size;
	placed_at = node;
}

static void machine(int n_nodes, int first, int second)
{
	static struct rnicd_port_cfg cfg[2];
	static struct rnicd_port port[2];

	memset(&rnicd, 0, sizeof(rnicd));
	nodes = n_nodes;
	node_of_dev[0] = first;
	node_of_dev[1] = second;
	rnicd.n_ports = 2;
	for (uint16_t i = 0; i < 2; i++) {
		cfg[i] = (struct rnicd_port_cfg){ .kind = RNICD_PORT_PCI };
		port[i].cfg = &cfg[i];
		port[i].ethdev = i;
		rnicd.port[i] = &port[i];
	}
	rnicd.cfg.pin = true;
	rnicd.cfg.n_workers = 2;
	rnicd.cfg.lcore[0] = 2; /* of node 0 */
	rnicd.cfg.lcore[1] = 3; /* of node 1 */
	said[0] = '\0';
	placed = 0;
}

static void a_worker_far_from_the_ports_is_told(void **state)
{
	(void)state;
	machine(2, 1, 1);
	numa_node_check_workers();
	assert_string_equal(said,
			    "worker 0 on CPU 2 is on NUMA node 0, the ports are on node 1: name a CPU of that node "
			    "(numactl -H lists them)\n");
	rnicd.cfg.lcore[0] = 5;
	said[0] = '\0';
	numa_node_check_workers();
	assert_string_equal(said, "");
}

static void workers_that_float_are_told(void **state)
{
	(void)state;
	machine(2, 1, -1); /* a port without a node does not count */
	rnicd.cfg.pin = false;
	numa_node_check_workers();
	assert_string_equal(said, "workers float over NUMA nodes, the ports are on node 1: name CPUs of that node in "
				  "workers = ... (numactl -H lists them)\n");
}

static void memory_lies_beside_the_ports(void **state)
{
	char memory[64];

	(void)state;
	machine(2, 1, 1);
	numa_node_place(memory, sizeof(memory));
	assert_int_equal(placed, sizeof(memory));
	assert_int_equal(placed_at, 1);
	assert_string_equal(said, "");
}

static void ports_on_two_nodes_are_told_and_place_nothing(void **state)
{
	char memory[64];

	(void)state;
	machine(2, 0, 1);
	numa_node_place(memory, sizeof(memory));
	assert_int_equal(placed, 0);
	assert_string_equal(said,
			    "the ports are on NUMA nodes 0 and 1: memory of clients is placed on neither; a daemon for "
			    "each node is faster\n");
}

static void a_machine_of_one_node_or_ports_of_software_need_nothing(void **state)
{
	char memory[64];

	(void)state;
	for (int n = 0; n < 2; n++) {
		machine(n, 0, 0);
		numa_node_check_workers();
		numa_node_place(memory, sizeof(memory));
	}
	machine(2, 1, 1);
	for (uint32_t i = 0; i < 2; i++)
		((struct rnicd_port_cfg *)(uintptr_t)rnicd.port[i]->cfg)->kind = RNICD_PORT_PAIR;
	numa_node_check_workers();
	numa_node_place(memory, sizeof(memory));
	assert_int_equal(placed, 0);
	assert_string_equal(said, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_far_from_the_ports_is_told),
		cmocka_unit_test(workers_that_float_are_told),
		cmocka_unit_test(memory_lies_beside_the_ports),
		cmocka_unit_test(ports_on_two_nodes_are_told_and_place_nothing),
		cmocka_unit_test(a_machine_of_one_node_or_ports_of_software_need_nothing),
	};

	return cmocka_run_group_tests_name("numa_node", tests, NULL, NULL);
}
