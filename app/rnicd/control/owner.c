/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/owner.h"

#include <stddef.h>
#include <time.h>

#define BUCKET_BITS 16 /* a user's share of the memory regions of two devices: six in a bucket */

static struct rn_list bucket[1u << BUCKET_BITS];
static uint64_t last;

static struct rn_list *list_of(uint64_t key)
{
	/* Fibonacci hashing: the first bits of the product spread numbers evenly that follow each other */
	return &bucket[(key * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - BUCKET_BITS)];
}

/* Begins with the time in ns, so that no number is one of an earlier rnicd's, which a program may still name. */
uint64_t owner_new(void)
{
	struct timespec ts;

	if (last == 0 && clock_gettime(CLOCK_REALTIME, &ts) == 0)
		last = (uint64_t)ts.tv_sec * RN_NS_PER_S + (uint64_t)ts.tv_nsec;
	return ++last;
}

void owner_put(struct owner *o, enum owner_kind kind, uint64_t key)
{
	*o = (struct owner){ .key = key, .kind = kind };
	rn_list_push_front(list_of(key), &o->link);
}

void owner_del(struct owner *o)
{
	rn_list_remove(list_of(o->key), &o->link);
	o->key = 0;
}

struct owner *owner_get(enum owner_kind kind, uint64_t key)
{
	rn_list_each(struct owner, o, list_of(key), link) {
		if (o->key == key && o->kind == kind)
			return o;
	}
	return NULL;
}
