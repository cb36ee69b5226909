/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/numa_node.h"

#include <numa.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include "border/rnicd.h"

static bool several_nodes(void) { return numa_available() >= 0 && numa_max_node() > 0; }

int numa_node_of_ports(void)
{
	int node = -1;

	for (uint32_t i = 0; i < rnicd_lines(); i++) {
		if (rnicd.port[i]->cfg->kind != RNICD_PORT_PCI)
			continue;
		int at = rte_eth_dev_socket_id(rnicd.port[i]->ethdev);
		if (at < 0)
			continue;
		if (node >= 0 && node != at) {
			rnicd_log(RNICD_LOG_WARNING,
				  "the ports are on NUMA nodes %d and %d: memory of clients is placed on neither; "
				  "a daemon for each node is faster",
				  node, at);
			return -1;
		}
		node = at;
	}
	return node;
}

void numa_node_check_workers(void)
{
	int node = several_nodes() ? numa_node_of_ports() : -1;

	if (node < 0)
		return;
	for (uint32_t i = 0; i < rnicd.cfg.n_workers; i++) {
		int at = rnicd.cfg.pin ? numa_node_of_cpu(rnicd.cfg.lcore[i]) : -1;
		if (at >= 0 && at != node)
			rnicd_log(RNICD_LOG_WARNING,
				  "worker %u on CPU %u is on NUMA node %d, the ports are on node %d: name a CPU "
				  "of that node (numactl -H lists them)",
				  i, rnicd.cfg.lcore[i], at, node);
	}
	if (!rnicd.cfg.pin)
		rnicd_log(RNICD_LOG_WARNING,
			  "workers float over NUMA nodes, the ports are on node %d: name CPUs of that node in "
			  "workers = ... (numactl -H lists them)",
			  node);
}

void numa_node_place(void *base, uint64_t size)
{
	int node = several_nodes() ? numa_node_of_ports() : -1;

	if (node >= 0)
		numa_tonode_memory(base, size, node);
}
