/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses by which path a frame leaves a port with several paths: in turns, by the shortest queue, or one path for each
 * flow. Paths whose line is down are left out, and so are paths that the connection has found dead. A connection
 * chooses the path itself (way.c) and marks its frames, since TCP judges losses for each path; other frames are given a
 * path here. Worker thread.
 */
#ifndef RNICD_SPREAD_H
#define RNICD_SPREAD_H

#include <rte_mbuf.h>

#include "plane/port_tx.h"

/*
 * The first path, from number `at` on, that is up and not in the bit mask `avoid`; without such a path, the first one
 * that is up. `at` may be any number: it is taken modulo the number of paths.
 */
uint32_t spread_from(const struct port_tx *t, uint32_t at, uint32_t avoid);
/* Of those paths, the one with the shortest queue. */
uint32_t spread_least(const struct port_tx *t, uint32_t at, uint32_t avoid);

#endif
