/* SPDX-License-Identifier: BSD-3-Clause */
#include "isosurface/volume.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "isosurface/plan.h"

static void raw_samples_of_each_type_are_read(void **state)
{
	static const struct {
		enum sample type;
		uint8_t raw[8]; /* bytes of two samples */
		unsigned size;
		float value[2];
	} table[] = {
		{ SAMPLE_U8, { 7, 255 }, 1, { 7, 255 } },
		{ SAMPLE_U16, { 0x02, 0x01, 0xff, 0xff }, 2, { 258, 65535 } },
		{ SAMPLE_U16BE, { 0x02, 0x01, 0x00, 0x03 }, 2, { 513, 3 } },
		{ SAMPLE_F32, { 0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc1 }, 4, { 1, -10 } },
		{ SAMPLE_F32BE, { 0x3f, 0x80, 0, 0, 0xc1, 0x20, 0, 0 }, 4, { 1, -10 } },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		char path[] = "/tmp/test_volume_XXXXXX";
		FILE *f = fdopen(mkstemp(path), "w");
		struct source src = { path, table[i].type, FIELD_SPHERE, { 2, 2, 2 } };
		struct volume vol;

		assert_non_null(f);
		for (unsigned k = 0; k < 4; k++)
			assert_int_equal(fwrite(table[i].raw, table[i].size, 2, f), 2);
		fclose(f);
		volume_load(&vol, &src, 1, 1); /* loads the second layer alone */
		assert_true(vol.v[0] == table[i].value[0] && vol.v[1] == table[i].value[1]);
		assert_true(vol.v[2] == table[i].value[0] && vol.v[3] == table[i].value[1]);
		volume_free(&vol);
		unlink(path);
	}
}

static void a_brick_has_the_samples_of_its_place(void **state)
{
	struct source src = { NULL, SAMPLE_U8, FIELD_TORUS, { 9, 8, 7 } };
	struct brick b = { { 2, 3, 4 }, { 4, 2, 3 } };
	float got[4 * 2 * 3], *at = got;
	struct volume vol;

	(void)state;
	volume_load(&vol, &src, 3, 4);
	volume_brick(&vol, &b, got);
	for (uint32_t z = 4; z < 7; z++)
		for (uint32_t y = 3; y < 5; y++)
			for (uint32_t x = 2; x < 6; x++)
				assert_true(*at++ == field_value(FIELD_TORUS, src.dims,
								 (float[3]){ (float)x, (float)y, (float)z }));
	volume_free(&vol);
}

static void a_plan_has_each_filter_and_streams_to_the_next(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= RANKS; n++) {
		struct plan p;

		plan_make(&p, n);
		for (unsigned k = READ; k < FILTERS; k++)
			assert_in_range(p.count[k], 1, INSTANCES);
		for (unsigned to = 0; to < n; to++) {
			unsigned from = 0, expected = p.rank[to].first == READ ? 0 : p.count[p.rank[to].first - 1];

			if (p.rank[to].last == MERGE && p.rank[to].instance == 0)
				expected += p.count[MERGE] - 1;
			for (unsigned i = 0; i < n; i++)
				from += plan_stream(&p, i, to);
			assert_int_equal(from, expected);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(raw_samples_of_each_type_are_read),
		cmocka_unit_test(a_brick_has_the_samples_of_its_place),
		cmocka_unit_test(a_plan_has_each_filter_and_streams_to_the_next),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
