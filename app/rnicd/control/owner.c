/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/owner.h"

#include <stddef.h>

#define BUCKETS 4096u

static struct owner *bucket[BUCKETS];
static uint64_t last;

static struct owner **head(uint64_t key)
{
	return &bucket[((key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & (BUCKETS - 1)]; /* Fibonacci hashing */
}

uint64_t owner_new(void) { return ++last; }

void owner_put(struct owner *o, enum owner_kind kind, uint64_t key)
{
	struct owner **h = head(key);

	*o = (struct owner){ .key = key, .next = *h, .kind = kind };
	*h = o;
}

void owner_del(struct owner *o)
{
	struct owner **p = head(o->key);

	if (o->key == 0)
		return;
	while (*p != NULL && *p != o)
		p = &(*p)->next;
	if (*p == o)
		*p = o->next;
	o->key = 0;
}

struct owner *owner_get(enum owner_kind kind, uint64_t key)
{
	for (struct owner *o = *head(key); o != NULL; o = o->next)
		if (o->key == key && o->kind == kind)
			return o;
	return NULL;
}
