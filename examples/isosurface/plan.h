/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_PLAN_H
#define ISO_PLAN_H

#include <stdbool.h>

/* Which filters run in which process. Consecutive filters in one process pass units by function calls. */
enum filter_kind { READ, EXTRACT, RASTERISE, MERGE, FILTERS };

#define RANKS     8 /* processes at most */
#define INSTANCES 2 /* of a filter at most */

struct place {
	enum filter_kind first, last;
	unsigned instance; /* of each filter of this process */
};

struct plan {
	unsigned n, count[FILTERS]; /* processes; instances of each filter */
	struct place rank[RANKS];
};

extern const char *const filter_names[FILTERS];

/* For 1 to RANKS processes. */
void plan_make(struct plan *p, unsigned n);
/*
 * Is there a stream from one process to another? There is one to each instance of the next filter, and one from the
 * second instance of merge, which has half of the picture, to the first instance, which writes the picture.
 */
bool plan_stream(const struct plan *p, unsigned from, unsigned to);

#endif
