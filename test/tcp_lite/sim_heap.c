/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim_int.h"

#include <stdarg.h>
#include <stdio.h>

void sim_fail(struct sim *m, const char *fmt, ...)
{
	va_list ap;

	if (!m->r->ok)
		return;
	m->r->ok = false;
	va_start(ap, fmt);
	vsnprintf(m->r->why, sizeof(m->r->why), fmt, ap);
	va_end(ap);
}

void sim_push(struct sim *m, uint64_t at, uint32_t pkt)
{
	uint32_t i = m->n_heap++;
	struct event e = { at, m->order++, pkt };

	while (i > 0) {
		uint32_t up = (i - 1) / 2;
		if (m->heap[up].at < e.at || (m->heap[up].at == e.at && m->heap[up].order < e.order))
			break;
		m->heap[i] = m->heap[up];
		i = up;
	}
	m->heap[i] = e;
}

static bool before(const struct event *a, const struct event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

uint32_t sim_pop(struct sim *m)
{
	uint32_t pkt = m->heap[0].pkt, i = 0;
	struct event e = m->heap[--m->n_heap];

	for (;;) {
		uint32_t k = 2 * i + 1;
		if (k >= m->n_heap)
			break;
		if (k + 1 < m->n_heap && before(&m->heap[k + 1], &m->heap[k]))
			k++;
		if (!before(&m->heap[k], &e))
			break;
		m->heap[i] = m->heap[k];
		i = k;
	}
	m->heap[i] = e;
	return pkt;
}

uint32_t sim_pkt_get(struct sim *m)
{
	if (m->n_free == 0) {
		sim_fail(m, "out of packets: a leak?");
		return UINT32_MAX;
	}
	uint32_t i = m->free_pkt[--m->n_free];
	m->pkt[i].state = PKT_FLIGHT;
	return i;
}

void sim_pkt_put(struct sim *m, uint32_t i, enum pkt_state expect)
{
	if (m->pkt[i].state != expect)
		sim_fail(m, "packet %u given back in state %d, not %d", i, m->pkt[i].state, expect);
	m->pkt[i].state = PKT_FREE;
	m->free_pkt[m->n_free++] = i;
}
