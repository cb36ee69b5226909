/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where memory and workers lie on machines with several NUMA nodes: near the ports. On a machine with one node every
 * function here does nothing. Control thread only, after the ports are up.
 */
#ifndef RNICD_NUMA_NODE_H
#define RNICD_NUMA_NODE_H

#include <stdint.h>

/* The node that all ports with a place (physical ones) share; -1: there is none, or they differ. */
int numa_node_of_ports(void);

/* One line for each worker that is, or may come to be, on another node than the ports. */
void numa_node_check_workers(void);

/* Pages of a client's region come from the ports' node where it has room, whichever process touches them first. */
void numa_node_place(void *base, uint64_t size);

#endif
