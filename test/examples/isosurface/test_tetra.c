/* SPDX-License-Identifier: BSD-3-Clause */
/* Surfaces whose shape is known: marching tetrahedra finds them where they are, and they are closed. */
#include "isosurface/tetra.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "isosurface/volume.h"

struct mesh {
	struct triangle *t;
	unsigned n;
};

static struct mesh mesh_of(enum field f, const uint32_t dims[3])
{
	struct mesh m = { calloc(400000, sizeof(*m.t)), 0 };

	for (uint32_t z = 0; z + 1 < dims[2]; z++)
		for (uint32_t y = 0; y + 1 < dims[1]; y++)
			for (uint32_t x = 0; x + 1 < dims[0]; x++) {
				uint32_t at[3] = { x, y, z };
				float v[8];

				for (unsigned i = 0; i < 8; i++)
					v[i] = field_value(f, dims,
							   (float[3]){ (float)(x + (i & 1)), (float)(y + (i >> 1 & 1)),
								       (float)(z + (i >> 2)) });
				assert_true(m.n + CELL_TRIANGLES <= 400000);
				m.n += tetra_cell(v, at, 0, m.t + m.n);
			}
	return m;
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(struct point[2])); }

/* In a closed surface each edge occurs once in each direction. */
static void is_closed(const struct mesh *m)
{
	struct point(*edges)[2] = calloc(3 * m->n, sizeof(*edges));
	unsigned n = 0;

	for (unsigned i = 0; i < m->n; i++)
		for (unsigned k = 0; k < 3; k++, n++) {
			edges[n][0] = m->t[i].p[k];
			edges[n][1] = m->t[i].p[(k + 1) % 3];
		}
	qsort(edges, n, sizeof(*edges), by_bytes);
	for (unsigned i = 0; i < n; i++) {
		struct point back[2] = { edges[i][1], edges[i][0] };

		assert_true(i == 0 || by_bytes(edges[i - 1], edges[i]) != 0);
		assert_non_null(bsearch(back, edges, n, sizeof(*edges), by_bytes));
	}
	free(edges);
}

static void minus(const struct point *a, const struct point *b, float d[3])
{
	d[0] = a->x - b->x;
	d[1] = a->y - b->y;
	d[2] = a->z - b->z;
}

/* Each vertex lies within one cell of the surface; each triangle faces the side where the field grows. */
static void lies_on(const struct mesh *m, enum field f, const uint32_t dims[3])
{
	for (unsigned i = 0; i < m->n; i++) {
		const struct point *p = m->t[i].p;
		float u[3], w[3], n[3], size, at[3] = { p->x, p->y, p->z };

		for (unsigned k = 0; k < 3; k++)
			assert_true(fabsf(field_value(f, dims, (float[3]){ p[k].x, p[k].y, p[k].z })) < 1);
		minus(&p[1], &p[0], u);
		minus(&p[2], &p[0], w);
		for (unsigned k = 0; k < 3; k++)
			n[k] = u[(k + 1) % 3] * w[(k + 2) % 3] - u[(k + 2) % 3] * w[(k + 1) % 3];
		size = sqrtf(n[0] * n[0] + n[1] * n[1] + n[2] * n[2]);
		if (size < 1e-3f) /* a sliver's normal is too inaccurate */
			continue;
		for (unsigned k = 0; k < 3; k++)
			at[k] += n[k] / size;
		assert_true(field_value(f, dims, at) > field_value(f, dims, (float[3]){ p->x, p->y, p->z }));
	}
}

static int by_point(const void *a, const void *b) { return memcmp(a, b, sizeof(struct point)); }

/*
 * The Euler characteristic (corners less edges plus faces): 2 for a ball, 0 for a torus. A closed surface of triangles
 * has one and a half edges for each triangle.
 */
static int euler(const struct mesh *m)
{
	struct point *all = calloc(3 * m->n, sizeof(*all));
	int corners = 0;

	for (unsigned i = 0; i < 3 * m->n; i++)
		all[i] = m->t[i / 3].p[i % 3];
	qsort(all, 3 * m->n, sizeof(*all), by_point);
	for (unsigned i = 0; i < 3 * m->n; i++)
		corners += i == 0 || by_point(&all[i - 1], &all[i]) != 0;
	free(all);
	return corners - (int)m->n / 2;
}

static void check(enum field f, const uint32_t dims[3], int characteristic)
{
	struct mesh m = mesh_of(f, dims);

	assert_true(m.n > 1000);
	is_closed(&m);
	lies_on(&m, f, dims);
	assert_int_equal(euler(&m), characteristic);
	free(m.t);
}

static void a_sphere_is_found_and_closed(void **state)
{
	(void)state;
	check(FIELD_SPHERE, (uint32_t[3]){ 40, 40, 40 }, 2);
	check(FIELD_SPHERE, (uint32_t[3]){ 30, 41, 52 }, 2);
}

static void a_torus_is_found_and_closed(void **state)
{
	(void)state;
	check(FIELD_TORUS, (uint32_t[3]){ 48, 48, 48 }, 0);
}

static void two_linked_rings_are_found_and_closed(void **state)
{
	(void)state;
	check(FIELD_LINK, (uint32_t[3]){ 64, 64, 64 }, 0);
}

static void a_cell_without_the_level_has_nothing(void **state)
{
	float low[8] = { -1, -1, -1, -1, -1, -1, -1, -1 }, high[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	struct triangle t[CELL_TRIANGLES];

	(void)state;
	assert_int_equal(tetra_cell(low, (uint32_t[3]){ 0 }, 0, t), 0);
	assert_int_equal(tetra_cell(high, (uint32_t[3]){ 0 }, 0, t), 0);
}

static void a_plane_between_the_corners_is_flat(void **state)
{
	float v[8] = { 0, 0, 0, 0, 1, 1, 1, 1 }; /* the field grows along z */
	struct triangle t[CELL_TRIANGLES];
	unsigned n = tetra_cell(v, (uint32_t[3]){ 5, 6, 7 }, 0.25f, t);
	float area = 0;

	(void)state;
	assert_true(n > 0);
	for (unsigned i = 0; i < n; i++) {
		const struct point *p = t[i].p;

		for (unsigned k = 0; k < 3; k++)
			assert_true(p[k].z == 7.25f);
		area += ((p[1].x - p[0].x) * (p[2].y - p[0].y) - (p[1].y - p[0].y) * (p[2].x - p[0].x)) / 2;
	}
	/* the triangles cover the cell once, counter-clockwise as seen from above */
	assert_true(fabsf(area - 1) < 1e-6f);
}

static void a_level_at_a_corner_makes_no_triangle_without_area(void **state)
{
	float v[8] = { 0, 1, 1, 1, 1, 1, 1, 1 };
	struct triangle t[CELL_TRIANGLES];

	(void)state;
	assert_int_equal(tetra_cell(v, (uint32_t[3]){ 0 }, 0, t), 0);
	/*
	 * the only corner below the level: the triangles' vertices fall on the neighbouring corners, which are at the
	 * level
	 */
	v[7] = -1;
	v[1] = v[2] = v[3] = v[4] = v[5] = v[6] = 0;
	for (unsigned i = tetra_cell(v, (uint32_t[3]){ 0 }, 0, t); i-- > 0;)
		for (unsigned k = 0; k < 3; k++)
			assert_true(by_point(&t[i].p[k], &t[i].p[(k + 1) % 3]) != 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sphere_is_found_and_closed),
		cmocka_unit_test(a_torus_is_found_and_closed),
		cmocka_unit_test(two_linked_rings_are_found_and_closed),
		cmocka_unit_test(a_cell_without_the_level_has_nothing),
		cmocka_unit_test(a_plane_between_the_corners_is_flat),
		cmocka_unit_test(a_level_at_a_corner_makes_no_triangle_without_area),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
