/* SPDX-License-Identifier: BSD-3-Clause */
#include "plane/flow.h"

uint32_t flow_slots(uint32_t flows)
{
	uint32_t n = 2;
	while (n < 2 * flows)
		n *= 2;
	return n;
}

void flow_init(struct flow_table *t, struct flow_slot *slot, uint32_t slots)
{
	memset(slot, 0, slots * sizeof(slot[0]));
	t->slot = slot;
	t->mask = slots - 1;
	t->used = 0;
}

enum flow_verdict flow_add(struct flow_table *t, struct flow *f)
{
	if (flow_find(t, &f->key, f->hash) != NULL)
		return FLOW_EXISTS;
	if (t->used > t->mask / 2)
		return FLOW_FULL;
	uint32_t i = f->hash & t->mask;
	while (t->slot[i].flow != NULL)
		i = (i + 1) & t->mask;
	t->slot[i] = (struct flow_slot){ .hash = f->hash, .flow = f };
	t->used++;
	return FLOW_OK;
}

void flow_del(struct flow_table *t, struct flow *f)
{
	uint32_t i = f->hash & t->mask;
	while (t->slot[i].flow != f) {
		if (t->slot[i].flow == NULL)
			return;
		i = (i + 1) & t->mask;
	}
	t->used--;
	/* close the gap: move back each later entry of the probe sequence that may lie here */
	for (uint32_t j = (i + 1) & t->mask; t->slot[j].flow != NULL; j = (j + 1) & t->mask) {
		uint32_t home = t->slot[j].hash & t->mask;
		if (((j - home) & t->mask) >= ((j - i) & t->mask)) {
			t->slot[i] = t->slot[j];
			i = j;
		}
	}
	t->slot[i].flow = NULL;
}
