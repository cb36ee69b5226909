/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/spans.h"

#include <search.h>

#include "ipc/ipc_shm.h"

/*
 * Spans that overlap compare as equal, so a search finds an overlapping span. Spans in the tree never overlap each
 * other.
 */
static int compare(const void *a, const void *b)
{
	const struct span *s = a, *t = b;

	return s->off + s->len <= t->off ? -1 : t->off + t->len <= s->off ? 1 : 0;
}

enum span_verdict spans_take(struct spans *t, struct span *s)
{
	if (s->len == 0)
		return SPAN_OK;
	if (s->off < sizeof(struct ipc_ctrl)) {
		s->len = 0;
		return SPAN_OVERLAPS;
	}
	const bool fits = user_take(t->user, USER_MEMORY, 0, s->len);
	struct span *const *at = fits ? tsearch(s, &t->root, compare) : NULL;
	if (at != NULL && *at == s)
		return SPAN_OK;
	if (fits)
		user_give(t->user, USER_MEMORY, 0, s->len);
	s->len = 0;
	return at == NULL ? SPAN_NO_MEMORY : SPAN_OVERLAPS;
}

void spans_give(struct spans *t, struct span *s)
{
	if (s->len != 0) {
		tdelete(s, &t->root, compare);
		user_give(t->user, USER_MEMORY, 0, s->len);
	}
	s->len = 0;
}
