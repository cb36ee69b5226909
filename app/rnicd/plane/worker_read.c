/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads a port: whether to read it in this turn, how many frames, and from what kind of device. */
#include <rte_ethdev.h>

#include "plane/port.h"
#include "plane/port_host.h"
#include "plane/port_memif.h"
#include "plane/worker_int.h"

#define TAP_LOOK_NS (20 * RN_NS_PER_US)

/*
 * How many frames to read from a port in the next turn. Reading takes time, too, and on a flooded port this time is
 * wasted. So a port whose full bursts bring few wanted frames is read in small bursts, and other ports and the clients'
 * requests get most of each turn. A port without a backlog, or with wanted frames, gets its full share again at once.
 */
void worker_share(struct rnicd_worker *w, const struct rnicd_port *port, uint32_t n, uint32_t wanted)
{
	uint16_t *share = &w->share[port->index];

	if (n < *share || 2 * wanted >= n)
		*share = WORKER_BURST;
	else
		*share = (uint16_t)rn_max_u32(*share / 2, WORKER_BURST_MIN);
}

/*
 * Whether to read the port now. Reading a tap takes a system call, and another one for each frame. So a tap is not read
 * in every short turn; meanwhile the kernel's queue holds the frames, or drops them.
 */
static bool look(struct rnicd_worker *w, const struct rnicd_port *port)
{
	if (rn_likely(port->tap_look == NULL))
		return true;
	if (w->now < w->look_at[port->index])
		return false;
	w->look_at[port->index] = w->now + TAP_LOOK_NS;
	port->tap_look(port->tap_signo);
	return true;
}

void worker_read_all(struct rnicd_worker *w) { memset(w->look_at, 0, sizeof(w->look_at)); }

/*
 * Counts the frames that came in by a line, and marks those of a path with the path. A frame that this worker hands to
 * another one is not counted again there.
 */
static void came_in(const struct rnicd_port *line, struct rnicd_port_stats *st, struct rte_mbuf **m, uint32_t n)
{
	st->rx_packets += n;
	for (uint32_t i = 0; i < n; i++) {
		st->rx_bytes += m[i]->pkt_len;
		if (rn_unlikely(line->of != NULL))
			m[i]->port = line->index;
	}
}

/* queue: the worker's own number. */
static inline uint32_t poll_port(struct rnicd_port *port, uint16_t queue, struct rte_mbuf **m, uint16_t most)
{
	if (port->wire != NULL)
		return rte_ring_sc_dequeue_burst(port->wire[queue], (void **)m, most, NULL);
	if (rn_unlikely(port->host != NULL))
		return port_host_rx(port, queue, m, most);
	port_memif_enter(port, queue);
	const uint32_t n = rte_eth_rx_burst(port->ethdev, queue, m, most);
	port_memif_leave(port, queue);
	return n;
}

uint32_t worker_read(struct rnicd_worker *w, struct rnicd_port *port, struct rte_mbuf **m)
{
	if (rn_unlikely(port_link(port) == RNICD_LINK_GONE) || w->index >= port->caps.queues || !look(w, port) ||
	    rn_unlikely(port->n_paths != 0)) /* the port's paths are read instead */
		return 0;
	const uint16_t most = w->share[port->index];
	const uint32_t n = poll_port(port, (uint16_t)w->index, m, most);
	came_in(port, &port->stats[w->index], m, n);
	w->more |= n == most;
	if (n == 0)
		w->share[port->index] = WORKER_BURST;
	return n;
}
