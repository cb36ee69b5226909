/* SPDX-License-Identifier: BSD-3-Clause */
#include "isosurface/raster.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A triangle whose vertices are pixels covers known pixels. */
static const struct view straight = { 16, 8, { { 1, 0, 0, 0 }, { 0, 1, 0, 0 }, { 0, 0, 1, 0 } } };

static void count(void *arg, const struct fragment *f)
{
	(void)f;
	++*(unsigned *)arg;
}

static unsigned draw(struct canvas *c, struct triangle t)
{
	unsigned n = 0;

	raster_triangle(&straight, &t, c, count, &n);
	return n;
}

static void pixels_with_their_centre_inside_are_drawn(void **state)
{
	struct canvas c;

	(void)state;
	canvas_make(&c, 0, 16 * 8);
	/* columns 2 to 5: the lower left half of a square of 4 x 4 pixels, with its diagonal */
	assert_int_equal(draw(&c, (struct triangle){ { { 2, 2, 5 }, { 6, 6, 5 }, { 2, 6, 5 } } }), 10);
	for (unsigned y = 0; y < 8; y++)
		for (unsigned x = 0; x < 16; x++) {
			int inside = x >= 2 && x <= y && y <= 5;

			assert_int_equal(c.px[y * 16 + x].colour != BACKGROUND, inside);
			assert_true(c.px[y * 16 + x].depth == (inside ? 5 : NOTHING));
		}
	free(c.px);
}

static void what_is_behind_is_hidden(void **state)
{
	struct triangle far = { { { 0, 0, 9 }, { 16, 0, 9 }, { 0, 8, 9 } } }, near = far;
	struct canvas c;
	unsigned n;

	(void)state;
	near.p[0].z = near.p[1].z = near.p[2].z = 3;
	canvas_make(&c, 0, 16 * 8);
	n = draw(&c, far);
	assert_true(n > 0);
	assert_int_equal(draw(&c, near), n);
	assert_int_equal(draw(&c, far), 0);
	free(c.px);
}

static void the_picture_does_not_depend_on_the_order(void **state)
{
	/* two triangles of the same depth that face opposite ways, and one that cuts through both */
	struct triangle t[3] = { { { { 0, 0, 4 }, { 12, 0, 4 }, { 0, 8, 4 } } },
				 { { { 0, 0, 4 }, { 0, 8, 4 }, { 12, 0, 4 } } },
				 { { { 0, 0, 0 }, { 16, 0, 8 }, { 16, 8, 8 } } } };
	struct canvas a, b;

	(void)state;
	canvas_make(&a, 0, 16 * 8);
	canvas_make(&b, 0, 16 * 8);
	for (unsigned i = 0; i < 3; i++) {
		draw(&a, t[i]);
		draw(&b, t[2 - i]);
	}
	assert_memory_equal(a.px, b.px, sizeof(*a.px) * a.n);
	free(a.px);
	free(b.px);
}

static void what_lies_outside_or_is_no_number_draws_nothing(void **state)
{
	struct canvas c;

	(void)state;
	canvas_make(&c, 0, 16 * 8);
	assert_int_equal(draw(&c, (struct triangle){ { { -9, -9, 0 }, { -1, -9, 0 }, { -9, -1, 0 } } }), 0);
	assert_int_equal(draw(&c, (struct triangle){ { { 99, 99, 0 }, { 120, 99, 0 }, { 99, 120, 0 } } }), 0);
	assert_int_equal(draw(&c, (struct triangle){ { { NAN, 1, 0 }, { 9, 1, 0 }, { 1, 7, 0 } } }), 0);
	assert_int_equal(draw(&c, (struct triangle){ { { 1, 1, NAN }, { 9, 1, 0 }, { 1, 7, 0 } } }), 0);
	assert_int_equal(draw(&c, (struct triangle){ { { 1, 1, 0 }, { INFINITY, 1, 0 }, { 1, INFINITY, 0 } } }), 0);
	/* a triangle that leaves the picture on all sides is clipped to the picture */
	assert_int_equal(draw(&c, (struct triangle){ { { -99, -99, 0 }, { 200, -99, 0 }, { -99, 200, 0 } } }), 16 * 8);
	free(c.px);
}

static void the_whole_volume_is_in_view(void **state)
{
	const uint32_t dims[3] = { 20, 50, 90 };
	struct view v = { 300, 200, { { 0 } } };

	(void)state;
	for (int turn = -180; turn <= 180; turn += 15) {
		view_make(&v, dims, turn, turn / 2.0);
		for (unsigned i = 0; i < 8; i++) {
			float at[3], p[3] = { i & 1 ? 19 : 0, i & 2 ? 49 : 0, i & 4 ? 89 : 0 };

			for (unsigned r = 0; r < 3; r++)
				at[r] = v.m[r][0] * p[0] + v.m[r][1] * p[1] + v.m[r][2] * p[2] + v.m[r][3];
			assert_true(at[0] > -0.1f && at[0] < 300.1f && at[1] > -0.1f && at[1] < 200.1f);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pixels_with_their_centre_inside_are_drawn),
		cmocka_unit_test(what_is_behind_is_hidden),
		cmocka_unit_test(the_picture_does_not_depend_on_the_order),
		cmocka_unit_test(what_lies_outside_or_is_no_number_draws_nothing),
		cmocka_unit_test(the_whole_volume_is_in_view),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
