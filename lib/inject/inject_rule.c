/* SPDX-License-Identifier: BSD-3-Clause */
#include "inject/inject_rule.h"

#include <infiniband/verbs.h>

#include "base/rn_rng.h"

/* Bits 0 to 15 are for the opcodes of requests, bits 16 to 31 for those of receives (IBV_WC_RECV and above). */
uint32_t inject_op_bit(uint32_t opcode)
{
	uint32_t bit = (opcode & IBV_WC_RECV) != 0 ? 16 + (opcode & 15) : opcode & 15;

	return UINT32_C(1) << bit;
}

/* Draws a random number that depends on seed, rule and count only: a run with the same seed fails the same calls. */
static bool is_drawn(const struct inject_rules *rules, uint32_t i, uint64_t count)
{
	struct rn_rng rng;

	rn_rng_seed(&rng, rules->seed ^ (count << 5 | i));
	(void)rn_rng_u64(&rng);
	return rn_rng_below(&rng, rules->r[i].one_in) == 0;
}

static bool is_about(const struct inject_rule *r, const struct inject_what *w)
{
	if (r->at != w->at || r->after_ms != 0 || (r->qpn != 0 && r->qpn != w->qpn) ||
	    (r->side != INJECT_BOTH && r->side != w->side))
		return false;
	return w->at < INJECT_WC || (r->ops & inject_op_bit(w->opcode)) != 0;
}

const struct inject_rule *inject_hit(struct inject_rules *rules, const struct inject_what *what, bool later,
				     uint64_t *count)
{
	const struct inject_rule *hit = NULL;

	for (uint32_t i = 0; i < rules->n; i++) {
		struct inject_rule *r = &rules->r[i];
		if (!is_about(r, what) || (r->result == INJECT_LATER) != later)
			continue;
		const uint64_t n = __atomic_add_fetch(&r->seen, 1, __ATOMIC_RELAXED);
		if (hit != NULL || (r->one_in != 0 ? !is_drawn(rules, i, n) : n != r->nth))
			continue;
		*count = n;
		hit = r;
	}
	return hit;
}
