/* SPDX-License-Identifier: BSD-3-Clause */
/* The parameters that a seed determines: two links, two configurations, two applications. */
#include "sim.h"

static void link_from(struct rn_rng *g, struct sim_link *l)
{
	static const uint32_t rate[] = { 100, 800, 8000, 80000 }; /* 80 Gb/s .. 100 Mb/s */
	static const uint64_t delay[] = { 2000, 10000, 50000, 1000000, 20000000 };
	uint32_t kind = rn_rng_below(g, 6);

	*l = (struct sim_link){ .ns_per_kb = rate[rn_rng_below(g, 4)],
				.delay_ns = delay[rn_rng_below(g, 5)],
				.queue = 20 + rn_rng_below(g, 400) };
	l->reorder_ns = 1 + l->delay_ns / 2 + rn_rng_below(g, 200000);
	if (kind == 1 || kind == 5)
		l->loss = rn_rng_below(g, rn_rng_chance(g, 200000) ? 200000 : 30000);
	if (kind == 2 || kind == 5)
		l->reorder = rn_rng_below(g, 300000);
	if (kind == 3 || kind == 5)
		l->dup = rn_rng_below(g, 100000);
	if (kind == 4 || kind == 5) {
		l->corrupt = rn_rng_below(g, 20000);
		l->cut = rn_rng_below(g, 20000);
		l->jitter_ns = 1 + rn_rng_below(g, (uint32_t)l->delay_ns / 4 + 1);
	}
}

void sim_profile_from_seed(struct sim_profile *p, uint64_t seed)
{
	static const struct tcpl_cc *const cc[] = { &tcpl_cubic, &tcpl_newreno, &tcpl_bbr };
	static const uint16_t mss[] = { 536, 1460, 1460, 1460, 8960 };
	struct rn_rng g;

	rn_rng_seed(&g, seed ^ 0x5eed);
	*p = (struct sim_profile){ .abort_at = -1 };
	for (int w = 0; w < 2; w++) {
		struct tcpl_cfg *cfg = &p->cfg[w];
		link_from(&g, &p->link[w]);
		tcpl_cfg_default(cfg, mss[rn_rng_below(&g, 5)]);
		cfg->use_sack = rn_rng_chance(&g, 850000);
		cfg->use_ts = rn_rng_chance(&g, 700000);
		cfg->use_wscale = rn_rng_chance(&g, 850000);
		cfg->wscale = (uint8_t)rn_rng_below(&g, 9);
		cfg->ack_psh = rn_rng_chance(&g, 700000);
		cfg->retries = 30; /* connections must survive heavy loss here */
		cfg->syn_retries = 20;
		cfg->max_rto_ns = 2 * RN_NS_PER_S;
		cfg->time_wait_ns = 30 * RN_NS_PER_S; /* longer than any series of lost FINs */
		cfg->cc = cc[rn_rng_below(&g, 3)];
		cfg->rcv_space = rn_min_u32(2000 + rn_rng_below(&g, 1u << (12 + rn_rng_below(&g, 8))),
					    65535u << cfg->wscale);
		if (rn_rng_chance(&g, 100000))
			cfg->keep_idle_ns = 50 * RN_NS_PER_MS;
		p->bytes[w] = rn_rng_below(&g, 1u << (6 + rn_rng_below(&g, 17)));
		p->chunk_max[w] = 1 + rn_rng_below(&g, 1u << (4 + rn_rng_below(&g, 10)));
		if (p->chunk_max[w] < 100)
			p->bytes[w] = rn_min_u64(p->bytes[w], 30000);
		p->slow_reader[w] = rn_rng_chance(&g, 150000);
		/* With a budget, a chunk must not be longer than the largest possible window. */
		p->use_budget[w] = false;
		p->place[w] = rn_rng_chance(&g, 400000);
		p->lazy[w] = rn_rng_chance(&g, 200000);
		p->iss[w] = UINT32_MAX - rn_rng_below(&g, 1u << (4 + rn_rng_below(&g, 14)));
	}
	for (int w = 0; w < 2; w++)
		p->use_budget[w] = !p->slow_reader[!w] && p->cfg[!w].rcv_space > 65535 && p->chunk_max[w] < 500 &&
				   rn_rng_chance(&g, 500000);
	if (rn_rng_chance(&g, 500000))
		p->close_late[rn_rng_below(&g, 2)] = true;
	p->simultaneous = rn_rng_chance(&g, 100000);
	p->cookie = !p->simultaneous && rn_rng_chance(&g, 100000);
	p->hold_n = rn_rng_chance(&g, 200000) ? 1 + rn_rng_below(&g, 8) : 64;
	p->rec_n = rn_rng_chance(&g, 200000) ? 4 : 128;
	p->chunk_n = rn_rng_chance(&g, 200000) ? 4 : 64;
	p->turn_ns = rn_rng_chance(&g, 500000) ? 20000 : 0;
}
