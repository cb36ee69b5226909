/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions of the control side that do nothing in the client's own process, over the kernel's sockets. */
#include <errno.h>

#include "control/group.h"
#include "control/numa_node.h"
#include "control/udp_port.h"

/* Pages are allocated on the node of the thread that first touches them. */
void numa_node_place(void *base, uint64_t size)
{
	(void)base;
	(void)size;
}

/* The kernel itself sends IGMP reports for the groups of its sockets. */
void group_net_change(uint32_t dev, const struct pkt_addr *addr, bool in)
{
	(void)dev;
	(void)addr;
	(void)in;
}

/* Other reasons are found by the kernel: the plane makes the port's socket when it gets the queue pair. */
const char *udp_port_refusal(const struct client *c, uint32_t dev, uint16_t udp_port, int *err)
{
	const struct rnicd_port_cfg *cfg = rnicd.port[dev]->cfg;

	(void)c;
	*err = EOPNOTSUPP;
	if (cfg->personality == RNICD_EFA)
		return "a UDP port of its own makes a number of 24 bits, and those of personality efa have 16: choose "
		       "another personality (RNIC_EMBEDDED_KEYS)";
	*err = EACCES;
	if (cfg->ud_port == udp_port)
		return "it is datagram-port, which all other queue pairs share: choose another port, or move "
		       "datagram-port on all hosts (RNIC_EMBEDDED_KEYS=datagram-port=PORT)";
	return NULL;
}

/* The process's limit of file descriptors bounds the number of its ports. */
bool udp_port_take(struct user *u, uint32_t dev, uint16_t udp_port)
{
	(void)u;
	(void)dev;
	(void)udp_port;
	return true;
}

void udp_port_give(struct user *u, uint32_t dev, uint16_t udp_port)
{
	(void)u;
	(void)dev;
	(void)udp_port;
}
