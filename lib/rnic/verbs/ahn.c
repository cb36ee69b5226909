/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers of address handles, for a device of `personality = efa` (Elastic Fabric Adapter). Its completions name the
 * sender by the number of an address handle, so a program finds its peer by this number and the QPN. All handles of a
 * context for one address have the same number, which becomes free with the last handle.
 */
#include <sys/random.h>

#include "base/rn_sip.h"
#include "rnic/verbs/objects.h"

#define BUCKETS 1024u
#define FIRST   64u /* numbers at first; doubled when they are used up */

struct ahn {
	uint8_t addr[QP_UD_ADDR_LEN];
	uint32_t refs;
	uint16_t next; /* the next number in its bucket, or in the list of free ones */
};

struct rnic_ahns {
	struct rnic_spin lock;
	uint64_t key[2]; /* secret: peers may influence which addresses a program uses */
	struct ahn *place;
	uint32_t n;
	uint16_t free;
	uint16_t bucket[BUCKETS];
};

struct rnic_ahns *rnic_ahns_new(void)
{
	struct rnic_ahns *a = calloc(1, sizeof(*a));

	if (a == NULL)
		return NULL;
	if (getrandom(a->key, sizeof(a->key), 0) != (ssize_t)sizeof(a->key))
		a->key[0] = rnic_clock(CLOCK_MONOTONIC);
	memset(a->bucket, 0xff, sizeof(a->bucket));
	a->free = RNIC_AHN_NONE;
	return a;
}

void rnic_ahns_free(struct rnic_ahns *a)
{
	if (a == NULL)
		return;
	free(a->place);
	free(a);
}

static uint16_t *ahn_bucket(struct rnic_ahns *a, const uint8_t *addr)
{
	return &a->bucket[rn_sip_hash(a->key, addr, QP_UD_ADDR_LEN, 0) % BUCKETS];
}

static uint16_t ahn_lookup(struct rnic_ahns *a, const uint8_t *addr)
{
	uint16_t i = *ahn_bucket(a, addr);

	while (i != RNIC_AHN_NONE && memcmp(a->place[i].addr, addr, QP_UD_ADDR_LEN) != 0)
		i = a->place[i].next;
	return i;
}

static bool ahn_grow(struct rnic_ahns *a)
{
	const uint32_t n = a->n == 0 ? FIRST : rn_min_u32(2 * a->n, RNIC_AHN_MAX);
	struct ahn *p = n > a->n ? realloc(a->place, n * sizeof(*p)) : NULL;

	if (p == NULL)
		return false;
	a->place = p;
	for (uint32_t i = n; i-- > a->n;) { /* the lowest number is given out first */
		p[i] = (struct ahn){ .next = a->free };
		a->free = (uint16_t)i;
	}
	a->n = n;
	return true;
}

uint16_t rnic_ahn_take(struct rnic_ahns *a, const uint8_t *addr)
{
	rnic_spin_lock(&a->lock);
	uint16_t i = ahn_lookup(a, addr);
	if (i != RNIC_AHN_NONE) {
		a->place[i].refs++;
	} else if (a->free != RNIC_AHN_NONE || ahn_grow(a)) {
		uint16_t *at = ahn_bucket(a, addr);
		i = a->free;
		a->free = a->place[i].next;
		a->place[i] = (struct ahn){ .refs = 1, .next = *at };
		memcpy(a->place[i].addr, addr, QP_UD_ADDR_LEN);
		*at = i;
	}
	rnic_spin_unlock(&a->lock);
	return i;
}

void rnic_ahn_give(struct rnic_ahns *a, uint16_t n)
{
	rnic_spin_lock(&a->lock);
	struct ahn *p = &a->place[n];
	if (--p->refs == 0) {
		uint16_t *at = ahn_bucket(a, p->addr);
		while (*at != n)
			at = &a->place[*at].next;
		*at = p->next;
		p->next = a->free;
		a->free = n;
	}
	rnic_spin_unlock(&a->lock);
}

uint16_t rnic_ahn_find(struct rnic_ahns *a, const uint8_t *addr)
{
	rnic_spin_lock(&a->lock);
	const uint16_t i = ahn_lookup(a, addr);
	rnic_spin_unlock(&a->lock);
	return i;
}
