/* SPDX-License-Identifier: BSD-3-Clause */
/* A port with several paths: each path is a line with a device, a link, a shaper and an impairment of its own. */
#include <string.h>

#include "plane/port.h"

/*
 * The port to which the wires among the paths of a port lead. Paths of other kinds lead to the same network, since all
 * paths share one subnet. NULL: there is no wire, or the wires lead to several ports.
 */
static struct rnicd_port *far_end(const struct rnicd_port *port)
{
	struct rnicd_port *end = NULL;

	for (uint32_t i = 0; i < port->n_paths; i++) {
		struct rnicd_port *p = port->path[i]->peer != NULL ? port->path[i]->peer->of : NULL;
		if (p == NULL)
			continue;
		if (end != NULL && p != end)
			return NULL;
		end = p;
	}
	return end;
}

void port_paths_join(struct rnicd_port *port)
{
	struct rnicd_port_caps all = port->path[0]->caps;
	bool any_up = false;

	for (uint32_t i = 0; i < port->n_paths; i++) {
		const struct rnicd_port *p = port->path[i];
		all.multi_seg &= p->caps.multi_seg;
		all.zero_copy &= p->caps.zero_copy;
		all.tx_csum &= p->caps.tx_csum;
		all.rx_csum &= p->caps.rx_csum;
		all.wire_mem &= p->caps.wire_mem;
		all.max_mtu = rn_min_u32(all.max_mtu, p->caps.max_mtu);
		port->crc_always |= p->crc_always;
		any_up |= port_link(p) == RNICD_LINK_UP;
	}
	all.rx_fd = false; /* no receive descriptor: those of its paths wake the worker */
	all.queues = (uint16_t)rnicd.cfg.n_workers;
	port->caps = all;
	port->peer = far_end(port);
	port_set_link(port, any_up ? RNICD_LINK_UP : RNICD_LINK_DOWN);
}
