/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/port.h"

#include <stdio.h>

#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_ring.h>

/* Frames that a ring between the two ends holds, per worker: about 1.2 ms of 10GbE at 1500 bytes. */
#define PAIR_RING 1024u

/*
 * ring[port][queue] carries frames to that port; queue w is touched by worker w alone, at either end. Workers use the
 * rings directly and not through the driver: the driver counts the packets of neighbouring queues on one cache line,
 * and writes that line at every poll.
 */
static struct rte_ring *ring[RNICD_MAX_LINES][RNICD_MAX_WORKERS];

static bool port_pair_make_rings(struct rnicd_port *to, int socket)
{
	for (uint32_t q = 0; q < rnicd.cfg.n_workers; q++) {
		char name[RTE_RING_NAMESIZE];
		snprintf(name, sizeof(name), "pair_%u_%u", to->index, q);
		ring[to->index][q] = rte_ring_create(name, PAIR_RING, socket, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (ring[to->index][q] == NULL)
			return false;
	}
	return true;
}

static bool make_dev(struct rnicd_port *rx, struct rnicd_port *tx, int socket)
{
	char name[RTE_ETH_NAME_MAX_LEN];
	uint32_t n = rnicd.cfg.n_workers;

	snprintf(name, sizeof(name), "pair%u", rx->index);
	int id = rte_eth_from_rings(name, ring[rx->index], n, ring[tx->index], n, (unsigned int)socket);
	if (id < 0)
		return false;
	rx->ethdev = (uint16_t)id;
	rx->peer = tx;
	rx->crc_always |= tx->cfg->crc_always;
	rx->wire = ring[rx->index];
	rx->caps = (struct rnicd_port_caps){ .multi_seg = true,
					     .zero_copy = true,
					     .tx_csum = true,
					     .rx_csum = true,
					     .wire_mem = true,
					     .queues = (uint16_t)n,
					     .max_mtu = RNICD_MTU_MAX };
	return true;
}

bool port_pair_create(struct rnicd_port *a, struct rnicd_port *b, char *err, uint32_t err_len)
{
	int socket = a->socket < 0 ? 0 : a->socket;

	if (port_pair_make_rings(a, socket) && port_pair_make_rings(b, socket) && make_dev(a, b, socket) &&
	    make_dev(b, a, socket))
		return true;
	snprintf(err, err_len, "ports %s and %s: cannot make the wire between them: %s", a->cfg->name, b->cfg->name,
		 rte_strerror(rte_errno));
	return false;
}

void port_pair_destroy(struct rnicd_port *port)
{
	port->wire = NULL;
	for (uint32_t q = 0; q < RNICD_MAX_WORKERS; q++) {
		struct rte_ring *r = ring[port->index][q];
		struct rte_mbuf *m;
		if (r == NULL)
			continue;
		while (rte_ring_dequeue(r, (void **)&m) == 0)
			rte_pktmbuf_free(m);
		rte_ring_free(r);
		ring[port->index][q] = NULL;
	}
}
