/* SPDX-License-Identifier: BSD-3-Clause */
#include "raster.h"

#include <math.h>

#include "say.h"

/*
 * A triangle is the brighter the more it faces the light. A triangle that faces away from the eye is on the inner side.
 */
static const float outer[3] = { 84, 158, 232 }, inner[3] = { 226, 132, 70 },
		   light[3] = { -0.4082f, -0.4082f, -0.8165f };

void view_make(struct view *v, const uint32_t dims[3], double azimuth, double elevation)
{
	double a = azimuth * M_PI / 180, e = -elevation * M_PI / 180, mid[3], size = 0, scale;
	double turn[3][3] = { { cos(a), sin(a), 0 },
			      { -sin(e) * sin(a), sin(e) * cos(a), -cos(e) },
			      { -cos(e) * sin(a), cos(e) * cos(a), sin(e) } };

	for (unsigned i = 0; i < 3; i++) {
		mid[i] = (dims[i] - 1) / 2.0;
		size += (dims[i] - 1.0) * (dims[i] - 1.0);
	}
	scale = (v->width < v->height ? v->width : v->height) / sqrt(size);
	for (unsigned r = 0; r < 3; r++) {
		double off = r == 0 ? v->width / 2.0 : r == 1 ? v->height / 2.0 : 0;

		for (unsigned i = 0; i < 3; i++) { /* in steps that no two mathematical libraries round differently */
			v->m[r][i] = (float)(round(turn[r][i] * scale * 65536) / 65536);
			off -= (double)v->m[r][i] * mid[i];
		}
		v->m[r][3] = (float)off;
	}
}

void canvas_make(struct canvas *c, uint32_t first, uint32_t n)
{
	*c = (struct canvas){ first, n, allocate(sizeof(*c->px) * n) };
	for (uint32_t i = 0; i < n; i++)
		c->px[i] = (struct fragment){ first + i, NOTHING, BACKGROUND };
}

bool canvas_put(struct canvas *c, const struct fragment *f)
{
	struct fragment *there = &c->px[f->at - c->first];

	if (f->depth > there->depth || (f->depth == there->depth && f->colour <= there->colour))
		return false;
	*there = *f;
	return true;
}

static struct point seen_from(const struct view *v, struct point p)
{
	float r[3];

	for (unsigned i = 0; i < 3; i++)
		r[i] = v->m[i][0] * p.x + v->m[i][1] * p.y + v->m[i][2] * p.z + v->m[i][3];
	return (struct point){ r[0], r[1], r[2] };
}

static uint32_t shade(const struct point p[3])
{
	float ux = p[1].x - p[0].x, uy = p[1].y - p[0].y, uz = p[1].z - p[0].z;
	float wx = p[2].x - p[0].x, wy = p[2].y - p[0].y, wz = p[2].z - p[0].z;
	float n[3] = { uy * wz - uz * wy, uz * wx - ux * wz, ux * wy - uy * wx };
	float long2 = n[0] * n[0] + n[1] * n[1] + n[2] * n[2];
	float k = (n[0] * light[0] + n[1] * light[1] + n[2] * light[2]) / sqrtf(long2);
	const float *paint = n[2] <= 0 ? outer : inner;
	uint32_t colour = 0;

	k = 0.25f + 0.75f * (n[2] <= 0 ? k : -k);
	k = k > 0.12f ? k : 0.12f; /* also where the triangle is too small for a normal */
	for (unsigned i = 0; i < 3; i++)
		colour = colour << 8 | (uint32_t)(paint[i] * k);
	return colour;
}

static float least(float a, float b, float c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* Whole pixels whose centres lie between two edges, cut to the picture's side; none: first >= end. */
static void span(float low, float high, uint32_t side, uint32_t range[2])
{
	range[0] = range[1] = 0;
	if (!(high > 0 && low < (float)side)) /* also if an edge is not a number */
		return;
	range[0] = low > 0 ? (uint32_t)low : 0;
	range[1] = high < (float)side ? (uint32_t)high + 1 : side;
}

void raster_triangle(const struct view *v, const struct triangle *t, struct canvas *c,
		     void (*seen)(void *arg, const struct fragment *f), void *arg)
{
	struct point p[3] = { seen_from(v, t->p[0]), seen_from(v, t->p[1]), seen_from(v, t->p[2]) };
	float area = (p[1].x - p[0].x) * (p[2].y - p[0].y) - (p[1].y - p[0].y) * (p[2].x - p[0].x);
	uint32_t xs[2], ys[2], colour = 0;
	struct fragment f;

	span(least(p[0].x, p[1].x, p[2].x), -least(-p[0].x, -p[1].x, -p[2].x), v->width, xs);
	span(least(p[0].y, p[1].y, p[2].y), -least(-p[0].y, -p[1].y, -p[2].y), v->height, ys);
	if (!(area < 0 || area > 0))
		return;
	for (uint32_t y = ys[0]; y < ys[1]; y++) {
		for (uint32_t x = xs[0]; x < xs[1]; x++) {
			float px = (float)x + 0.5f, py = (float)y + 0.5f;
			float a = ((p[1].x - px) * (p[2].y - py) - (p[1].y - py) * (p[2].x - px)) / area;
			float b = ((p[2].x - px) * (p[0].y - py) - (p[2].y - py) * (p[0].x - px)) / area;
			float d = a * p[0].z + b * p[1].z + (1 - a - b) * p[2].z;

			if (!(a >= 0 && b >= 0 && a + b <= 1) || !(d > -NOTHING && d < NOTHING))
				continue;
			colour = colour != 0 ? colour : shade(p);
			f = (struct fragment){ y * v->width + x, d, colour };
			if (canvas_put(c, &f))
				seen(arg, &f);
		}
	}
}
