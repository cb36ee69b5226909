/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan.h"

#include <string.h>

const char *const filter_names[FILTERS] = { "read", "extract", "rasterise", "merge" };

static const char letters[] = "retm"; /* of read, extract, and rasterise as t, merge */

/* A word for each process: the letters of its filters. */
static const char *const words[RANKS] = {
	"retm", "re tm", "r e tm", "r e t m", "r e e t m", "r e e t t m", "r r e e t t m", "r r e e t t m m",
};

static enum filter_kind kind_of(char letter) { return (enum filter_kind)(strchr(letters, letter) - letters); }

void plan_make(struct plan *p, unsigned n)
{
	const char *word = words[n - 1];

	memset(p, 0, sizeof(*p));
	for (p->n = 0; p->n < n; p->n++) {
		size_t len = strcspn(word, " ");
		struct place *at = &p->rank[p->n];

		at->first = kind_of(word[0]);
		at->last = kind_of(word[len - 1]);
		at->instance = p->count[at->first];
		for (unsigned f = at->first; f <= at->last; f++)
			p->count[f]++;
		word += len + 1;
	}
}

bool plan_stream(const struct plan *p, unsigned from, unsigned to)
{
	const struct place *a = &p->rank[from], *b = &p->rank[to];

	if (a->last == MERGE)
		return a->instance > 0 && b->last == MERGE && b->instance == 0;
	return a->last + 1 == b->first;
}
