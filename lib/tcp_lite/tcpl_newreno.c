/* SPDX-License-Identifier: BSD-3-Clause */
/* NewReno (RFC 5681, 3.1, with the byte counting of RFC 3465). reno_acked: bytes acknowledged since cwnd last grew. */
#include "tcpl_int.h"

static void newreno_init(struct tcpl_conn *c) { c->reno_acked = 0; }

static void newreno_acked(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	(void)now;
	if (c->cwnd < c->ssthresh) {
		c->cwnd += bytes;
		return;
	}
	c->reno_acked += bytes;
	if (c->reno_acked >= c->cwnd) {
		c->reno_acked -= c->cwnd;
		c->cwnd += c->mss;
	}
}

static uint32_t newreno_ssthresh(struct tcpl_conn *c, uint64_t now)
{
	(void)now;
	c->reno_acked = 0;
	return rn_max_u32((c->snd_nxt - c->snd_una) / 2, 2u * c->mss);
}

const struct tcpl_cc tcpl_newreno = {
	.name = "newreno", .init = newreno_init, .acked = newreno_acked, .ssthresh = newreno_ssthresh
};
