/* SPDX-License-Identifier: BSD-3-Clause */
#include "dgram/dgram_msg.h"

#include <stddef.h>
#include <string.h>

static bool same_key(const struct dgram_key *a, const struct dgram_key *b)
{
	return a->id == b->id && a->src_qpn == b->src_qpn && memcmp(a->src, b->src, sizeof(a->src)) == 0;
}

static bool same_source(const struct dgram_key *a, const struct dgram_key *b)
{
	return a->src_qpn == b->src_qpn && memcmp(a->src, b->src, sizeof(a->src)) == 0;
}

struct dgram_msg *dgram_track_find(struct dgram_track *t, const struct dgram_key *k)
{
	struct dgram_msg *m = &t->msg[t->last];

	if (rn_likely(m->open && same_key(&m->key, k)))
		return m;
	for (uint32_t i = 0; i < DGRAM_OPEN && t->n_open > 0; i++) {
		if (!t->msg[i].open || !same_key(&t->msg[i].key, k))
			continue;
		t->last = i;
		return &t->msg[i];
	}
	return NULL;
}

bool dgram_track_over(const struct dgram_track *t, const struct dgram_key *k, uint64_t now, uint64_t linger)
{
	if (rn_likely(t->over_by_id[k->id % DGRAM_OVER_BY_ID] == 0))
		return false;
	for (uint32_t i = 0; i < DGRAM_OVER; i++)
		if (t->over[i].at != 0 && now - t->over[i].at < linger && same_key(&t->over[i].key, k))
			return true;
	return false;
}

struct dgram_msg *dgram_track_crowded(struct dgram_track *t, const struct dgram_key *k)
{
	struct dgram_msg *oldest = NULL;
	uint32_t n = 0;

	for (uint32_t i = 0; i < DGRAM_OPEN && t->n_open >= DGRAM_PER_SOURCE; i++) {
		struct dgram_msg *m = &t->msg[i];

		if (!m->open || !same_source(&m->key, k))
			continue;
		n++;
		if (oldest == NULL || m->at < oldest->at)
			oldest = m;
	}
	return n >= DGRAM_PER_SOURCE ? oldest : NULL;
}

struct dgram_msg *dgram_track_open(struct dgram_track *t, const struct dgram_key *k, uint32_t unit, uint32_t total)
{
	for (uint32_t i = 0; i < DGRAM_OPEN; i++) {
		struct dgram_msg *m = &t->msg[i];

		if (m->open)
			continue;
		/* most messages need one word of the map: to clear all would take longer than all else here */
		memset(m, 0, offsetof(struct dgram_msg, map) + sizeof(m->map[0]));
		if (total > 64 * (uint64_t)unit)
			memset(m->map, 0, sizeof(m->map));
		m->key = *k;
		m->open = true;
		m->place = (uint8_t)i;
		m->unit = unit;
		m->total = total;
		t->n_open++;
		t->last = i;
		return m;
	}
	return NULL;
}

void dgram_track_end(struct dgram_track *t, struct dgram_msg *m, const struct dgram_key *k, uint64_t now)
{
	struct dgram_over *o = &t->over[t->next++ % DGRAM_OVER];

	if (o->at != 0)
		t->over_by_id[o->key.id % DGRAM_OVER_BY_ID]--;
	t->over_by_id[k->id % DGRAM_OVER_BY_ID]++;
	o->key = *k;
	o->at = now != 0 ? now : 1;
	if (m == NULL)
		return;
	m->open = false;
	t->n_open--;
}

uint32_t dgram_msg_valid(const struct dgram_msg *m, uint32_t *off)
{
	uint32_t at = *off, end;

	while (at < m->total && !dgram_msg_has(m, at))
		at += m->unit;
	for (end = at; end < m->total && dgram_msg_has(m, end); end += m->unit)
		;
	*off = at;
	return rn_min_u32(end, m->total) - rn_min_u32(at, m->total);
}
