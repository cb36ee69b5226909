/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_TETRA_H
#define ISO_TETRA_H

#include <stdint.h>

/* Coordinates in cells of the volume. */
struct point {
	float x, y, z;
};

/* Corners counter-clockwise, seen from the side on which the field is at or above the level. */
struct triangle {
	struct point p[3];
};

#define CELL_TRIANGLES 12 /* of a cell at most */

/*
 * Marching tetrahedra: makes the triangles on which the field has the level in one cell. v: the samples at the cell's
 * corners, corner i at at + (bit 0, bit 1, bit 2 of i). A cell is six tetrahedra round its diagonal from corner 0 to 7,
 * so neighbouring cells share edges, and a point on a shared edge has the same coordinates in each cell. Returns the
 * number of triangles.
 */
unsigned tetra_cell(const float v[8], const uint32_t at[3], float level, struct triangle out[CELL_TRIANGLES]);

#endif
