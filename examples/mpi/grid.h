/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A box of points that the ranks share out, and the coarser boxes of a multigrid method. A direction has the points 1
 * to n - 1, n being a power of two; all values at 0 and n are 0. The box of level l has the points whose places are
 * multiples of 2^l. A point has the same owner on each level, so on a coarse level a rank may have no points, or other
 * neighbours than on the finest level.
 */
#ifndef GRID_H
#define GRID_H

#include <stddef.h>

struct axis {                   /* one direction, finest level */
	int n, ranks, me, step; /* step: from a rank to the next one of this direction */
};

struct span { /* what this rank has of a direction on one level */
	int stride, first, count;
	int before, after; /* the ranks with the points next to these; -1: no rank */
};

struct grid {
	struct span at[3]; /* x, y, z */
	int step[3];       /* from a value to the next one of each direction */
	int size; /* values of an array, those of the neighbours around it included; 0: the rank has no points */
};

/*
 * Shares the ranks out over the directions; ends the job if a direction has fewer points than ranks. In a direction
 * without split[] each rank has all points.
 */
void grid_share(struct axis axes[3], int n, const int split[3]);
struct grid grid_level(const struct axis axes[3], int x_level, int y_level, int z_level);
/* An array of zeros. */
double *grid_array(const struct grid *g);
/* Fetches the neighbours' values of one direction, with the values at edges that other directions have brought. */
void grid_meet(const struct grid *g, double *v, int direction);
void grid_meet_all(const struct grid *g, double *v);
/* Of all ranks: the root of the sum of squares, the largest absolute value. The rank's own neighbours do not count. */
double grid_norm(const struct grid *g, const double *v);
double grid_most(const struct grid *g, const double *v);
/* to = from * f + to, for the rank's own points. */
void grid_add(const struct grid *g, double *to, double f, const double *from);
/*
 * Runs cycles until the residual is 1e-10 of `first`, or `most` cycles have been done. cycle() runs one cycle and
 * returns the norm of the residual. *worst: the largest quotient of the norms after and before a cycle. Returns the
 * number of cycles.
 */
int grid_cycles(double first, int most, double (*cycle)(void), double *worst);
/* A solution to look for: neither smooth nor rough. */
void grid_known(const struct grid *g, double *v);
/*
 * Puts coarse points' values at their places in a fine array, and 0 at its other places. grid_fine: the index in a fine
 * array of one coarse point.
 */
void grid_spread(const struct grid *fine, double *v, const struct grid *coarse, const double *values);
int grid_fine(const struct grid *fine, const struct grid *coarse, const int at[3]);

static inline int grid_at(const struct grid *g, int x, int y, int z)
{
	return (z + 1) * g->step[2] + (y + 1) * g->step[1] + x + 1;
}

/* The number of a point among those of its level, counted from 1. */
static inline int grid_place(const struct span *s, int i) { return s->first / s->stride + i; }

/* Visits the rank's own points: x, y, z are theirs, i the index of their values. */
#define grid_each(g, x, y, z, i) \
	for (int z = 0; z < (g)->at[2].count; z++) \
		for (int y = 0; y < (g)->at[1].count; y++) \
			for (int x = 0, i = grid_at(g, 0, y, z); x < (g)->at[0].count; x++, i++)

#endif
