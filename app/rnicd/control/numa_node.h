/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Machines with several NUMA nodes: places clients' memory on the ports' node, and checks the workers' nodes. On a
 * machine with one node, check_workers and place do nothing. Control thread only, after the ports are up.
 */
#ifndef RNICD_NUMA_NODE_H
#define RNICD_NUMA_NODE_H

#include <stdint.h>

/* The node of all physical ports. -1: there are none, or their nodes differ, which is logged. */
int numa_node_of_ports(void);

/* Logs a line for each worker that runs, or may run, on another node than the ports. */
void numa_node_check_workers(void);

/* Lets the kernel allocate the pages of a client's region on the ports' node, if the node has room, whichever process
 * touches them first. */
void numa_node_place(void *base, uint64_t size);

#endif
