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

/* All datagram queue pairs of an embedded device share one UDP socket, so none has a port of its own. */
const char *udp_port_refusal(const struct client *c, uint32_t dev, uint16_t udp_port, int *err)
{
	(void)c;
	(void)dev;
	(void)udp_port;
	*err = EOPNOTSUPP;
	return "UDP ports of their own are rnicd's alone: start it, and run the program without --embedded";
}

bool udp_port_take(struct user *u, uint32_t dev, uint16_t udp_port)
{
	(void)u;
	(void)dev;
	(void)udp_port;
	return false;
}

void udp_port_give(struct user *u, uint32_t dev, uint16_t udp_port)
{
	(void)u;
	(void)dev;
	(void)udp_port;
}
