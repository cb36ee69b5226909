/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/rd_memory.h"

#include <stdlib.h>
#include <time.h>

#include "border/flow_owner.h"

static struct rd_port *of[RNICD_MAX_PORTS][RNICD_MAX_WORKERS]; /* by the worker's number in packets */

/* The time of day when rnicd_now() was 0; in units of RD_RUN_NS. */
static uint32_t day_at_0(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint32_t)(((uint64_t)t.tv_sec * RN_NS_PER_S + (uint64_t)t.tv_nsec - rnicd_now()) / RD_RUN_NS);
}

struct rd_port *rd_memory(uint32_t port, uint32_t qpn)
{
	const uint32_t number = rd_number(qpn, rd_numbers());
	struct rd_port *r = of[port][number];

	if (r != NULL)
		return r;
	r = calloc(1, sizeof(*r));
	if (r == NULL)
		return NULL;
	r->port = port;
	r->number = (uint16_t)number;
	rd_init(&r->d, NULL, r->pair, RD_PAIRS, day_at_0());
	rd_share(&r->d, RD_PAIRS * rnicd.cfg.user_share / 100, RD_WORKS * rnicd.cfg.user_share / 100);
	rd_give_works(&r->d, r->work, r->hold, r->aside, RD_WORKS);
	rd_give_wides(&r->d, r->wide, RD_WIDES, RD_PROMISES);
	rd_give_buckets(&r->d, r->bucket, RD_BUCKETS, rnicd.secret);
	r->sweep_at = RN_NEVER;
	r->free = rn_pool_of(r->peer, RD_PEERS, link);
	r->rings = rn_pool_of(r->ring, RD_RINGS, link);
	r->rings_free = RD_RINGS;
	r->rings_wide = rn_pool_of(r->ring_wide, RD_RINGS_WIDE, link);
	r->bits = rn_pool_of(r->of_bits, RD_BITS, link);
	r->packets = rn_pool_of(r->packet, RD_PACKETS, link);
	r->packets_free = RD_PACKETS;
	of[port][number] = r;
	return r;
}

enum qp_verdict rd_qp_init(struct qp *qp, struct rd_port *r, struct rd_manner manner)
{
	rd_qp_of(qp)->of = r;
	return rd_attach(qp, &rd_qp_of(qp)->side, manner);
}
