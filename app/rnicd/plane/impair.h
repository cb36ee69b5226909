/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad network behind the transmit side of a port: TCP segments cut and joined (resegment.h), then loss, duplication,
 * corruption, reordering, delay with jitter. One instance per port and worker, seeded, so that the same frames are
 * treated alike. Owns the frames that are under way. Worker thread only; all memory is taken at creation.
 */
#ifndef RNICD_IMPAIR_H
#define RNICD_IMPAIR_H

#include <rte_mbuf.h>

#include "border/rnicd.h"

struct impair;

/* NULL: no memory. copies: pool for duplicates and corrupted frames. */
struct impair *impair_create(const struct rnicd_impair_cfg *cfg, uint32_t worker, struct rte_mempool *copies,
			     int socket);
void impair_destroy(struct impair *im); /* frees the frames under way */

bool impair_wanted(const struct rnicd_impair_cfg *cfg);

/* Takes a frame; losses and changes are counted in st. */
void impair_in(struct impair *im, struct rte_mbuf *m, uint64_t now, struct rnicd_port_stats *st);

/* Returns the frames that have arrived at the far end by now, in order; they belong to the caller. */
uint32_t impair_out(struct impair *im, uint64_t now, struct rte_mbuf **out, uint32_t max, struct rnicd_port_stats *st);

/* When the next frame arrives, RN_NEVER when none is under way. */
uint64_t impair_next(const struct impair *im);

#endif
