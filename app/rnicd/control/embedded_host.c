/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control side need not do where it runs in the client's own process, over the kernel's sockets. */
#include "control/group.h"
#include "control/numa_node.h"

/* The pages lie where the program first touches them. */
void numa_node_place(void *base, uint64_t size)
{
	(void)base;
	(void)size;
}

/* The kernel tells the network of the groups that its sockets are in. */
void group_net_change(uint32_t dev, const struct pkt_addr *addr, bool in)
{
	(void)dev;
	(void)addr;
	(void)in;
}
