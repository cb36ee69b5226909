/* SPDX-License-Identifier: BSD-3-Clause */
#include "ring/spsc.h"

uint64_t spsc_size(uint32_t nslots, uint32_t slot_size)
{
	if (!rn_is_pow2(nslots) || !rn_is_pow2(slot_size))
		return 0;
	return sizeof(struct spsc_hdr) + (uint64_t)nslots * slot_size;
}

static enum spsc_verdict place_check(const struct spsc_place *at)
{
	uint64_t size = spsc_size(at->nslots, at->slot_size);

	if (size == 0)
		return SPSC_BAD_GEOMETRY;
	if (!rn_in_range(at->off, size, at->region_size))
		return SPSC_BAD_RANGE;
	if (((uintptr_t)at->region + at->off) % RN_CACHE_LINE != 0)
		return SPSC_BAD_ALIGN;
	return SPSC_OK;
}

/* Reads both indices once, and checks them as a pair. */
static enum spsc_verdict indices_check(struct spsc_hdr *hdr, uint32_t nslots, uint32_t *prod, uint32_t *cons)
{
	*cons = __atomic_load_n(&hdr->cons, __ATOMIC_ACQUIRE);
	*prod = __atomic_load_n(&hdr->prod, __ATOMIC_ACQUIRE);
	return *prod - *cons <= nslots ? SPSC_OK : SPSC_CORRUPT;
}

enum spsc_verdict spsc_prod_attach(struct spsc_prod *p, const struct spsc_place *at)
{
	enum spsc_verdict v = place_check(at);

	if (v != SPSC_OK)
		return v;
	p->hdr = (struct spsc_hdr *)(void *)((uint8_t *)at->region + at->off);
	p->slots = (uint8_t *)(p->hdr + 1);
	p->mask = at->nslots - 1;
	p->shift = (uint32_t)__builtin_ctz(at->slot_size);
	p->verdict = indices_check(p->hdr, at->nslots, &p->own, &p->seen);
	return p->verdict;
}

enum spsc_verdict spsc_cons_attach(struct spsc_cons *c, const struct spsc_place *at)
{
	enum spsc_verdict v = place_check(at);

	if (v != SPSC_OK)
		return v;
	c->hdr = (struct spsc_hdr *)(void *)((uint8_t *)at->region + at->off);
	c->slots = (const uint8_t *)(c->hdr + 1);
	c->mask = at->nslots - 1;
	c->shift = (uint32_t)__builtin_ctz(at->slot_size);
	c->verdict = indices_check(c->hdr, at->nslots, &c->seen, &c->own);
	return c->verdict;
}
