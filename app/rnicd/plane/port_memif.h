/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DPDK's memif driver ends a connection in DPDK's interrupt thread: it marks the device as not connected, takes its
 * callback off the control channel, and unmaps the rings. The driver does not wait for a worker that is just reading or
 * filling these rings, and the worker would touch memory that is gone. So workers say when they are inside the driver,
 * and the driver's call that takes the callback off waits for them (port_memif.c). A worker that comes later sees the
 * mark, and leaves the rings alone.
 */
#ifndef RNICD_PORT_MEMIF_H
#define RNICD_PORT_MEMIF_H

#include "border/rnicd.h"

/* One for each worker: 1 while the worker is inside the memif driver. */
extern struct memif_use {
	RN_ALIGNED(RN_CACHE_LINE) uint32_t inside;
} memif_use[RNICD_MAX_WORKERS];

/* Worker thread: before and after a call of the driver of any port. */
static inline void port_memif_enter(const struct rnicd_port *port, uint16_t worker)
{
	/* partner: port_memif.c; sequentially consistent, as the driver reads its mark after this */
	if (rn_unlikely(port->cfg->kind == RNICD_PORT_MEMIF))
		__atomic_store_n(&memif_use[worker].inside, 1, __ATOMIC_SEQ_CST);
}

static inline void port_memif_leave(const struct rnicd_port *port, uint16_t worker)
{
	if (rn_unlikely(port->cfg->kind == RNICD_PORT_MEMIF))
		__atomic_store_n(&memif_use[worker].inside, 0, __ATOMIC_RELEASE);
}

#endif
