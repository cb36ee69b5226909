/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/rd_memory.h"

#include <stdlib.h>
#include <time.h>

#include "border/rnicd.h"

#define RUNS_PER_S \
	64u /* for rd_init: run numbers grow by the clock, so they are later than all runs before a
		        * restart */

static struct rd_port *of[RNICD_MAX_PORTS];

struct rd_port *rd_memory(uint32_t port)
{
	if (of[port] != NULL)
		return of[port];
	struct rd_port *r = calloc(1, sizeof(*r));
	if (r == NULL)
		return NULL;
	r->port = port;
	rd_init(&r->d, NULL, r->pair, RD_PAIRS, (uint32_t)((uint64_t)time(NULL) * RUNS_PER_S));
	rd_share(&r->d, RD_PAIRS * rnicd.cfg.user_share / 100);
	rd_give_holds(&r->d, r->hold, RD_PAIRS * RD_WIN);
	rd_give_chains(&r->d, r->aside, RD_PAIRS * RD_WIN);
	rd_give_buckets(&r->d, r->bucket, RD_PAIRS, rnicd.secret);
	r->free = rn_pool_of(r->peer, RD_PEERS, link);
	of[port] = r;
	return r;
}

enum qp_verdict rd_qp_init(struct qp *qp, struct rd_port *r, struct rd_manner manner)
{
	rd_qp_of(qp)->of = r;
	return rd_attach(qp, &rd_qp_of(qp)->side, manner);
}
