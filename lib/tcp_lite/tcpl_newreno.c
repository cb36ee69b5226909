/* SPDX-License-Identifier: BSD-3-Clause */
/* NewReno (RFC 5681, 3.1, with the byte counting of RFC 3465). cc[0]: bytes acknowledged since cwnd last grew. */
#include "tcpl_int.h"

static void newreno_init(struct tcpl_conn *c)
{
	c->cc[0] = 0;
}

static void newreno_acked(struct tcpl_conn *c, uint64_t now, uint32_t bytes)
{
	(void)now;
	if (c->cwnd < c->ssthresh) {
		c->cwnd += bytes;
		return;
	}
	c->cc[0] += bytes;
	if (c->cc[0] >= c->cwnd) {
		c->cc[0] -= c->cwnd;
		c->cwnd += c->mss;
	}
}

static uint32_t newreno_ssthresh(struct tcpl_conn *c, uint64_t now)
{
	(void)now;
	c->cc[0] = 0;
	return rn_max_u32((c->snd_nxt - c->snd_una) / 2, 2u * c->mss);
}

const struct tcpl_cc tcpl_newreno = { "newreno", newreno_init, newreno_acked, newreno_ssthresh, NULL };
