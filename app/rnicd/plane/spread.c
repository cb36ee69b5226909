/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/spread.h"

#include "plane/worker_int.h"

#define FLOW_AT  26u /* offset of the addresses and ports in an IPv4 frame without VLAN tag */
#define FLOW_LEN 12u

static bool up(const struct port_tx *t, uint32_t i) { return port_link(t->path[i]->port) == RNICD_LINK_UP; }

uint32_t spread_from(const struct port_tx *t, uint32_t at, uint32_t avoid)
{
	uint32_t alive = t->n_paths;

	for (uint32_t k = 0; k < t->n_paths; k++) {
		uint32_t i = (at + k) % t->n_paths;
		if (!up(t, i))
			continue;
		if (!(avoid >> i & 1))
			return i;
		if (alive == t->n_paths)
			alive = i;
	}
	return alive < t->n_paths ? alive : at % t->n_paths;
}

static uint32_t waiting(const struct port_tx *t)
{
	uint32_t n = t->tail - t->head;

	return t->port->wire != NULL ? n + rte_ring_count(t->port->peer->wire[t->queue]) : n;
}

uint32_t spread_least(const struct port_tx *t, uint32_t at, uint32_t avoid)
{
	uint32_t best = spread_from(t, at, avoid), least = waiting(t->path[best]);

	for (uint32_t k = 0; k < t->n_paths; k++) {
		uint32_t i = (at + k) % t->n_paths;
		if (!up(t, i) || (avoid >> i & 1) || waiting(t->path[i]) >= least)
			continue;
		best = i;
		least = waiting(t->path[i]);
	}
	return best;
}

/*
 * A hash over the addresses and ports of a frame that belongs to no connection: with spread = flow, frames of one flow
 * stay on one path.
 */
static uint32_t of_frame(const struct rte_mbuf *m)
{
	uint32_t sum = 0, vlan = rte_pktmbuf_mtod(m, const uint8_t *)[12] == 0x81 ? PKT_VLAN_LEN : 0;

	if (m->data_len < FLOW_AT + FLOW_LEN + vlan)
		return 0;
	for (uint32_t i = 0; i < FLOW_LEN; i++)
		sum = sum * 31 + rte_pktmbuf_mtod(m, const uint8_t *)[FLOW_AT + vlan + i];
	return sum ^ sum >> 16;
}

struct port_tx *port_tx_path(struct port_tx *t, const struct rte_mbuf *m)
{
	for (uint32_t i = 0; i < t->n_paths; i++)
		if (t->path[i]->port->index == m->port)
			return t->path[i];
	switch ((enum rnicd_spread)t->port->cfg->spread) {
	case RNICD_SPREAD_TURNS: return t->path[spread_from(t, t->turn++, 0)];
	case RNICD_SPREAD_QUEUE: return t->path[spread_least(t, t->turn++, 0)];
	case RNICD_SPREAD_FLOW: break;
	}
	return t->path[spread_from(t, of_frame(m), 0)];
}

uint32_t spread_room(const struct port_tx *t, uint32_t path)
{
	uint32_t least = UINT32_MAX, most = 0, sum = 0, n = 0;

	if (path < t->n_paths && t->port->cfg->spread == RNICD_SPREAD_FLOW)
		return port_tx_room(t->path[path]);
	for (uint32_t i = 0; i < t->n_paths; i++) {
		if (!up(t, i))
			continue;
		uint32_t room = port_tx_room(t->path[i]);
		least = rn_min_u32(least, room);
		most = rn_max_u32(most, room);
		sum += room;
		n++;
	}
	if (n == 0)
		return PORT_TX_QUEUE; /* frames are accepted and then dropped, as by any port whose line is down */
	switch ((enum rnicd_spread)t->port->cfg->spread) {
	case RNICD_SPREAD_TURNS: return n * least;
	case RNICD_SPREAD_QUEUE: return sum;
	case RNICD_SPREAD_FLOW: break;
	}
	return most;
}

uint32_t spread_free(const struct port_tx *t)
{
	uint32_t least = PORT_TX_QUEUE;

	for (uint32_t i = 0; i < t->n_paths; i++)
		least = rn_min_u32(least, port_tx_free(t->path[i]));
	return least;
}
