/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_TETRA_H
#define ISO_TETRA_H

#include <stdint.h>

/* In cells of the volume. */
struct point {
	float x, y, z;
};

/* Counter-clockwise, seen from where the field is at or above the level. */
struct triangle {
	struct point p[3];
};

#define CELL_TRIANGLES 12 /* that a cell has at most */

/*
 * Marching tetrahedra: where the field has the level in one cell. v: the samples of its corners, corner i at
 * at + (bit 0, bit 1, bit 2 of i). A cell is six tetrahedra round its diagonal from corner 0 to 7, so that neighbours
 * have the same edges, and a point on a common edge is the same number in each of them. Returns how many there are.
 */
unsigned tetra_cell(const float v[8], const uint32_t at[3], float level, struct triangle out[CELL_TRIANGLES]);

#endif
