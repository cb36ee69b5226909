/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ISO_RASTER_H
#define ISO_RASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "tetra.h"

#define PICTURE_MOST 8192u /* pixels of a side */
#define BACKGROUND   0x10141au
#define NOTHING      3e38f /* the depth of a pixel that no surface covers */

/* A map from the volume to the picture. Rows of m give x and y (pixels) and the depth; a smaller depth is nearer. */
struct view {
	uint32_t width, height;
	float m[3][4];
};

/* A pixel of a surface. Sent on streams in this form. */
struct fragment {
	uint32_t at; /* y * width + x */
	float depth;
	uint32_t colour; /* 0xRRGGBB */
};

/* Rows of a picture with the depth of each pixel. */
struct canvas {
	uint32_t first, n; /* pixels */
	struct fragment *px;
};

/* Looks at the whole volume from far away, turned by degrees. */
void view_make(struct view *v, const uint32_t dims[3], double azimuth, double elevation);
void canvas_make(struct canvas *c, uint32_t first, uint32_t n);
/*
 * Stores a fragment if it is in front of the canvas's pixel; returns whether it was. Of two fragments at one depth the
 * one with the larger colour wins, so the order of fragments does not change the picture.
 */
bool canvas_put(struct canvas *c, const struct fragment *f);
/* Puts each pixel whose centre lies in the triangle, and calls seen() for those that are in front. */
void raster_triangle(const struct view *v, const struct triangle *t, struct canvas *c,
		     void (*seen)(void *arg, const struct fragment *f), void *arg);

#endif
