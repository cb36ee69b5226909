/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which path of a port with several a frame leaves by: in turns, by the shortest queue, or one for each flow. Paths
 * whose line is down are passed over, and those that their connection has found dead. Connections choose themselves
 * (way.c), since TCP judges losses for each path, and mark their frames; other frames are given a path as they come.
 * Worker thread.
 */
#ifndef RNICD_SPREAD_H
#define RNICD_SPREAD_H

#include <rte_mbuf.h>

#include "plane/port_tx.h"

/* The first path from `at` on (any number: they go round) that is up and not in avoid, a bit each. */
uint32_t spread_from(const struct port_tx *t, uint32_t at, uint32_t avoid);
/* The one of those with the shortest queue. */
uint32_t spread_least(const struct port_tx *t, uint32_t at, uint32_t avoid);

#endif
