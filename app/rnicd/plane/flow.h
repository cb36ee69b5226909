/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow table of one worker: (port, addresses, TCP ports) → the owner's struct. Open addressing with linear probing, at
 * most half full, made once; entries are intrusive. Only accepted connections are entered, so no peer can fill the
 * table.
 *
 * The hash (flow_hash) is symmetric. Equality is not symmetric: the local end of an entry is this end.
 */
#ifndef RNICD_FLOW_H
#define RNICD_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rn_base.h"
#include "border/flow_owner.h"
#include "pkt/pkt.h"

enum flow_kind { FLOW_CONN, FLOW_STREAM };

struct flow {
	struct flow_key key;
	uint32_t hash;
	enum flow_kind kind; /* whose flow it is: struct conn or struct stream */
};

struct flow_slot {
	uint32_t hash;
	struct flow *flow; /* NULL: empty */
};

struct flow_table {
	struct flow_slot *slot; /* the caller's memory */
	uint32_t mask;
	uint32_t used;
};

/* Slots for `flows` entries: a power of two, at least twice as many. */
uint32_t flow_slots(uint32_t flows);
void flow_init(struct flow_table *t, struct flow_slot *slot, uint32_t slots);

static inline bool flow_key_eq(const struct flow_key *a, const struct flow_key *b)
{
	return a->lport == b->lport && a->rport == b->rport && a->port == b->port &&
	       pkt_addr_eq(&a->local, &b->local) && pkt_addr_eq(&a->remote, &b->remote);
}

static inline void flow_prefetch(const struct flow_table *t, uint32_t hash)
{
	__builtin_prefetch(&t->slot[hash & t->mask]);
}

static inline struct flow *flow_find(const struct flow_table *t, const struct flow_key *k, uint32_t hash)
{
	for (uint32_t i = hash & t->mask;; i = (i + 1) & t->mask) {
		const struct flow_slot *s = &t->slot[i];
		if (s->flow == NULL)
			return NULL;
		if (s->hash == hash && rn_likely(flow_key_eq(&s->flow->key, k)))
			return s->flow;
	}
}

enum flow_verdict { FLOW_OK, FLOW_EXISTS, FLOW_FULL };

/* f->key and f->hash are set; f stays where it is until flow_del. */
enum flow_verdict flow_add(struct flow_table *t, struct flow *f);
void flow_del(struct flow_table *t, struct flow *f);

#endif
