/* SPDX-License-Identifier: BSD-3-Clause */
#include "tetra.h"

#include <stdbool.h>

/* Corners of the six tetrahedra, each right-handed. */
static const uint8_t tetrahedra[6][4] = { { 0, 1, 3, 7 }, { 0, 2, 6, 7 }, { 0, 4, 5, 7 },
					  { 0, 5, 1, 7 }, { 0, 3, 2, 7 }, { 0, 6, 4, 7 } };

/*
 * Indexed by which of the four corners are below the level (bit i: corner i): an even permutation of the corners in
 * which those below come first; if three are below, the fourth comes first.
 */
static const uint8_t order[16][4] = { { 0, 1, 2, 3 }, { 0, 1, 2, 3 }, { 1, 0, 3, 2 }, { 0, 1, 2, 3 },
				      { 2, 3, 0, 1 }, { 0, 2, 3, 1 }, { 1, 2, 0, 3 }, { 3, 2, 1, 0 },
				      { 3, 2, 1, 0 }, { 0, 3, 1, 2 }, { 1, 3, 2, 0 }, { 2, 3, 0, 1 },
				      { 2, 3, 0, 1 }, { 1, 0, 3, 2 }, { 0, 1, 2, 3 }, { 0, 1, 2, 3 } };

struct cell {
	const float *v;
	const uint32_t *at;
	float level;
};

/*
 * The point of the edge at which the field has the level; one of the two corners is below it. Always computed from the
 * corner with the lower number.
 */
static struct point cut(const struct cell *c, unsigned a, unsigned b)
{
	unsigned low = a < b ? a : b, d = a ^ b;
	float t = (c->level - c->v[low]) / (c->v[low | d] - c->v[low]);

	return (struct point){ (float)(c->at[0] + (low & 1)) + (d & 1 ? t : 0),
			       (float)(c->at[1] + (low >> 1 & 1)) + (d & 2 ? t : 0),
			       (float)(c->at[2] + (low >> 2)) + (d & 4 ? t : 0) };
}

static bool same(struct point a, struct point b) { return a.x == b.x && a.y == b.y && a.z == b.z; }

/* Stores a triangle; not one without area, which arises where the field has the level at a corner. Returns 1 or 0. */
static unsigned put(struct triangle *out, struct point a, struct point b, struct point c)
{
	if (same(a, b) || same(b, c) || same(c, a))
		return 0;
	*out = (struct triangle){ { a, b, c } };
	return 1;
}

static unsigned tetrahedron(const struct cell *c, const uint8_t corner[4], struct triangle *out)
{
	unsigned below = 0, n;
	const uint8_t *o;
	uint8_t k[4];

	for (unsigned i = 0; i < 4; i++)
		below |= (unsigned)(c->v[corner[i]] < c->level) << i;
	o = order[below];
	for (unsigned i = 0; i < 4; i++)
		k[i] = corner[o[i]];
	switch (__builtin_popcount(below)) {
	case 1: return put(out, cut(c, k[0], k[1]), cut(c, k[0], k[2]), cut(c, k[0], k[3]));
	case 3: return put(out, cut(c, k[0], k[1]), cut(c, k[0], k[3]), cut(c, k[0], k[2]));
	case 2:
		n = put(out, cut(c, k[0], k[2]), cut(c, k[0], k[3]), cut(c, k[1], k[3]));
		return n + put(out + n, cut(c, k[0], k[2]), cut(c, k[1], k[3]), cut(c, k[1], k[2]));
	default: return 0;
	}
}

unsigned tetra_cell(const float v[8], const uint32_t at[3], float level, struct triangle out[CELL_TRIANGLES])
{
	struct cell c = { v, at, level };
	unsigned below = 0, n = 0;

	for (unsigned i = 0; i < 8; i++)
		below += v[i] < level;
	if (below == 0 || below == 8)
		return 0;
	for (unsigned i = 0; i < 6; i++)
		n += tetrahedron(&c, tetrahedra[i], out + n);
	return n;
}
